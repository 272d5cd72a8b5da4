//! The registry: small durable entries that a service keeps beside approvals, such as tokens, people and sessions.
//!
//! An entry is found by its kind and key alone: whoever shows a token is known only after it was found. It belongs to
//! one tenant for ever, and is there until its time is over, whether or not a sweep has run.
//! Deliberately absent: what bodies mean, and secrets. Keys and bodies are the service's; it keeps hashes, not tokens.

use std::sync::Arc;

use crate::id::{BadName, LONGEST_NAME, Tenant};
use crate::time::Time;

/// The largest body, in bytes.
pub const LARGEST_BODY: usize = 64 * 1024;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What a program shows to prove who it is.
    Token,
    /// Somebody who may sign in.
    Person,
    /// A person who signed in.
    Session,
    /// A link that works once.
    Link,
    /// What a service remembers about itself.
    Setting,
    /// Calls that somebody denied, for as long as they may not be asked again.
    Denial,
    /// What is remembered of a channel: its last card, and the messages that were heard there.
    Channel,
    /// A piece of what was said in an agent's session.
    Turn,
    /// The agent that a channel belongs to.
    Owner,
    /// A running service, while it says that it is alive.
    Node,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 10] = [
        Kind::Token,
        Kind::Person,
        Kind::Session,
        Kind::Link,
        Kind::Setting,
        Kind::Denial,
        Kind::Channel,
        Kind::Turn,
        Kind::Owner,
        Kind::Node,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Token => "token",
            Kind::Person => "person",
            Kind::Session => "session",
            Kind::Link => "link",
            Kind::Setting => "setting",
            Kind::Denial => "denial",
            Kind::Channel => "channel",
            Kind::Turn => "turn",
            Kind::Owner => "owner",
            Kind::Node => "node",
        }
    }

    /// The number stores keep; never given to another kind.
    pub fn code(self) -> i16 {
        match self {
            Kind::Token => 1,
            Kind::Person => 2,
            Kind::Session => 3,
            Kind::Link => 4,
            Kind::Setting => 5,
            Kind::Denial => 6,
            Kind::Channel => 7,
            Kind::Turn => 8,
            Kind::Owner => 9,
            Kind::Node => 11,
        }
    }

    /// The kind of this number.
    pub fn from_code(code: i16) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Its name among all of its kind: 1 to 256 bytes without control characters.
    pub key: String,
    /// Whose it is.
    pub tenant: Tenant,
    /// What it says: at most [`LARGEST_BODY`] bytes.
    pub body: Arc<[u8]>,
    /// How often it was written; 0 for one that must not be there yet.
    pub version: u32,
    /// From this moment on it is not there any more.
    pub expires_at: Option<Time>,
}

/// Why something is no entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// Its key is none.
    #[error("{0}")]
    Key(#[from] BadName),
    /// It says too much.
    #[error("an entry holds at most {LARGEST_BODY} bytes, not {0}")]
    TooLarge(usize),
}

impl Entry {
    /// Checks the limits.
    pub fn check(&self) -> Result<(), BadEntry> {
        const WORD: &str = "key";
        if self.key.is_empty() {
            return Err(BadName::Empty(WORD).into());
        }
        if self.key.len() > LONGEST_NAME {
            return Err(BadName::TooLong(WORD).into());
        }
        if self.key.chars().any(char::is_control) {
            return Err(BadName::Control(WORD).into());
        }
        match self.body.len() {
            0..=LARGEST_BODY => Ok(()),
            length => Err(BadEntry::TooLarge(length)),
        }
    }

    /// True while it is there.
    pub fn is_there(&self, now: Time) -> bool {
        self.expires_at.is_none_or(|expires_at| expires_at > now)
    }
}

/// What became of an entry that somebody wanted to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is there now, in this version.
    Kept(u32),
    /// Another version is there than was expected, or none; nothing was written.
    Changed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_read_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_code(kind.code()), Some(kind), "{kind}");
        }
        assert_eq!(Kind::from_code(0), None);
        assert_eq!(Kind::from_code(12), None);
    }

    #[test]
    fn entries_have_limits() {
        let entry = |key: &str, length: usize| Entry {
            kind: Kind::Token,
            key: key.to_owned(),
            tenant: Tenant::single(),
            body: vec![0; length].into(),
            version: 0,
            expires_at: None,
        };
        assert_eq!(entry("k", LARGEST_BODY).check(), Ok(()));
        assert_eq!(entry(&"k".repeat(256), 0).check(), Ok(()));
        assert!(entry("", 0).check().is_err());
        assert!(entry(&"k".repeat(257), 0).check().is_err());
        assert!(entry("a\0b", 0).check().is_err());
        assert_eq!(
            entry("k", LARGEST_BODY + 1).check(),
            Err(BadEntry::TooLarge(65_537))
        );
    }
}
