//! The conversation before a call: its messages and their roles.
//!
//! Input: messages in order, from the program that held the conversation. Output: the newest ones, within limits. The
//! speaker is determined by the role, never by the text: a tool result that begins with "User:" is a tool result.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Maximum size of a conversation, in bytes. The beginning of a longer one is ignored, so values stated only there
/// count as stated by nobody.
pub const MOST_BYTES: usize = 1024 * 1024;
/// Maximum number of messages examined.
pub const MOST_MESSAGES: usize = 2_000;

/// Messages before a call, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Messages of all roles.
    pub messages: Vec<Message>,
}

/// One message. Roles are named as in the APIs of language models; other fields of their messages are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Message from the person for whom the agent works.
    #[serde(rename = "user")]
    Person {
        /// Text of the message.
        text: String,
        /// Time of the message, needed to resolve words such as "tomorrow". If `None`, such words are not resolved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Time>,
    },
    /// Text of the agent, or the arguments of a call that it made. Never counts as the source of a value: a value that
    /// the agent writes first is the agent's own.
    #[serde(rename = "assistant")]
    Agent {
        /// Text of the message.
        text: String,
    },
    /// Result that a tool returned.
    Tool {
        /// The tool's name.
        name: String,
        /// Text of the result.
        text: String,
    },
    /// Text that strangers may have written: a web page, the body of a mail.
    Outside {
        /// Tool that fetched the text, or its origin.
        name: String,
        /// The fetched text.
        text: String,
    },
    /// Marker that the person's messages are missing, as for a gateway between an agent and its tools. Any value that
    /// no tool states is then unknown. Set by the gateway only; callers cannot send it.
    #[serde(skip)]
    Unheard,
}

impl Message {
    /// Text of the message.
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
    /// Returns true if the person's messages are missing.
    pub(super) fn is_unheard(&self) -> bool {
        self.messages.contains(&Message::Unheard)
    }

    /// Returns the newest messages within the limits, with their indices, and whether older ones were left out.
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
