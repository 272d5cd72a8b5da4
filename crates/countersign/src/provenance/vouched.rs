//! Trust in a conversation: whether the agent supplied it or the gate recorded it.
//!
//! Input: a conversation. Output: the same conversation, together with the party that vouches for it. A conversation
//! that the proposer supplies may tighten a ruling but never loosen it; only one that the gate recorded itself may
//! loosen it.

use std::sync::Arc;

use super::{Conversation, Voucher};

/// A conversation, together with the party that vouches for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VouchedConversation {
    conversation: Arc<Conversation>,
    voucher: Voucher,
}

impl VouchedConversation {
    /// Wraps a conversation supplied by the proposer. Cards label it as such, and it never lets a call pass that would
    /// be held without it.
    pub fn supplied(conversation: impl Into<Arc<Conversation>>) -> VouchedConversation {
        let conversation = conversation.into();
        let voucher = Voucher::Agent;
        VouchedConversation {
            conversation,
            voucher,
        }
    }

    /// Wraps a conversation that the gate, or the program embedding it, recorded itself: every person's message came
    /// directly from that person and every tool result from that tool, and no agent could add or change anything.
    /// Policies may let calls pass because of it. For anything an agent hands over, use
    /// [`VouchedConversation::supplied`].
    pub fn recorded_by_host(conversation: impl Into<Arc<Conversation>>) -> VouchedConversation {
        let conversation = conversation.into();
        let voucher = Voucher::Gate;
        VouchedConversation {
            conversation,
            voucher,
        }
    }

    /// The conversation.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Party that vouches for the conversation.
    pub fn voucher(&self) -> Voucher {
        self.voucher
    }
}

impl From<Conversation> for VouchedConversation {
    fn from(conversation: Conversation) -> VouchedConversation {
        VouchedConversation::supplied(conversation)
    }
}
