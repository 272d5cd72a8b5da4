//! Who told the gate what was said before a call.
//!
//! Enters: a conversation. Leaves: the same, with who vouches for it. What the proposer supplies is its own account: it
//! may tighten a ruling, and never loosens one. Only what the gate heard itself may.

use std::sync::Arc;

use super::Conversation;

/// A conversation, and who vouches for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    conversation: Arc<Conversation>,
    teller: Teller,
}

/// Who vouches for what was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Teller {
    /// The agent that proposes the call, or the program it runs in.
    #[default]
    Agent,
    /// The gate: it heard the person itself, or relayed the tools' answers itself.
    Gate,
}

impl Teller {
    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Teller::Agent => "agent",
            Teller::Gate => "gate",
        }
    }
}

impl Told {
    /// A conversation as the proposer tells it. It is shown as such, and lets nothing pass that is held without it.
    pub fn supplied(conversation: impl Into<Arc<Conversation>>) -> Told {
        let conversation = conversation.into();
        let teller = Teller::Agent;
        Told { conversation, teller }
    }

    /// A conversation that the gate, or the program it is embedded in, took down itself: every person's message came to
    /// it from that person and every tool's answer from that tool, and no agent could add to it or change it. Policies may
    /// let calls pass because of it; for anything an agent hands over, use [`Told::supplied`].
    pub fn heard_by_the_host(conversation: impl Into<Arc<Conversation>>) -> Told {
        let conversation = conversation.into();
        let teller = Teller::Gate;
        Told { conversation, teller }
    }

    /// What was said.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Who vouches for it.
    pub fn teller(&self) -> Teller {
        self.teller
    }
}

impl From<Conversation> for Told {
    fn from(conversation: Conversation) -> Told {
        Told::supplied(conversation)
    }
}
