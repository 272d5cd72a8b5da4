//! What was said before a call, and by whom.
//!
//! Enters: messages in their order, from the program that had the conversation. Leaves: the same, within limits.
//! Deliberately absent: trust in order or wording. Who said a thing is told by its place here, never by its text: a
//! tool result that begins with "User:" is a tool result.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The largest conversation that is looked at, in bytes. Of a longer one the beginning is left out, which can only
/// make more values look unstated.
pub const MOST_BYTES: usize = 1024 * 1024;
/// The most messages that are looked at.
pub const MOST_MESSAGES: usize = 2_000;

/// Everything said before a call, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// The messages.
    pub messages: Vec<Message>,
}

/// One message. The words for roles are those that models' programming interfaces use; what else a message there
/// carries is not looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// A person spoke.
    #[serde(rename = "user")]
    Person {
        /// What they said.
        text: String,
        /// When, so that "tomorrow" means something.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Time>,
    },
    /// The agent spoke, or called a tool with these words. It is no source: what it said first is its own.
    #[serde(rename = "assistant")]
    Agent {
        /// What it said.
        text: String,
    },
    /// A tool answered.
    Tool {
        /// The tool's name.
        name: String,
        /// Its result.
        text: String,
    },
    /// Text that strangers may have written: a web page, the body of a mail.
    Outside {
        /// The tool that fetched it, or where it is from.
        name: String,
        /// The text.
        text: String,
    },
    /// Whoever gives this did not hear the person at all: a gateway between an agent and its tools. What no tool states
    /// is then unknown. Said by programs here, never by a caller.
    #[serde(skip)]
    Unheard,
}

impl Message {
    /// What was said.
    pub fn text(&self) -> &str {
        match self {
            Message::Person { text, .. }
            | Message::Agent { text }
            | Message::Tool { text, .. }
            | Message::Outside { text, .. } => text,
            Message::Unheard => "",
        }
    }
}

impl Conversation {
    /// Whether the person's words are not among it.
    pub(super) fn is_unheard(&self) -> bool {
        self.messages.contains(&Message::Unheard)
    }

    /// The newest messages that fit the limits, with their numbers, and whether older ones were left out.
    pub(super) fn recent(&self) -> (impl Iterator<Item = (usize, &Message)>, bool) {
        let mut bytes = 0usize;
        let fits = |message: &&Message| {
            bytes = bytes.saturating_add(message.text().len());
            bytes <= MOST_BYTES
        };
        let newest = self.messages.iter().rev().take(MOST_MESSAGES);
        let kept = newest.take_while(fits).count();
        let left_out = self.messages.len() - kept;
        let messages = self.messages.iter().enumerate().skip(left_out);
        (messages, left_out > 0)
    }
}
