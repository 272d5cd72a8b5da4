//! The registry: small durable entries that a service stores in addition to approvals, such as tokens, people and
//! sessions.
//!
//! An entry is looked up by kind and key alone, because the tenant of a token is known only once its entry was found.
//! An entry belongs to one tenant forever, and counts as absent once it has expired, whether or not a sweep has run.
//! The service chooses the keys and bodies, which have no meaning here. It stores hashes of tokens, never the tokens
//! themselves.

use std::sync::Arc;

use crate::id::{BadName, LONGEST_NAME, Tenant};
use crate::time::Time;

/// Maximum size of a body, in bytes.
pub const LARGEST_BODY: usize = 64 * 1024;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Access token of a program.
    Token,
    /// Account of a person who may sign in.
    Person,
    /// Sign-in session of a person.
    Session,
    /// One-time link, such as the one to sign in with.
    Link,
    /// Setting or other state of the service itself.
    Setting,
    /// Denied calls that may not be proposed again during the cool-down.
    Denial,
    /// State of a channel: the card last shown, and recent message ids.
    Channel,
    /// Part of an agent's stored session.
    Turn,
    /// Agent that owns a channel.
    Owner,
    /// Lease of a running service, which it renews while it runs.
    Node,
    /// Sender in a chat, linked to the account of a person.
    Sender,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 11] = [
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
        Kind::Sender,
    ];

    /// Returns the name of the kind, such as `token`.
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
            Kind::Sender => "sender",
        }
    }

    /// Returns the number used by stores; it is never reused for another kind.
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
            Kind::Sender => 12,
        }
    }

    /// Returns the kind with this number; `None` if there is none.
    pub fn from_code(code: i16) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An entry of the registry, as stored or to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Kind, which together with the key identifies the entry.
    pub kind: Kind,
    /// Key, unique within its kind: 1 to 256 bytes without control characters.
    pub key: String,
    /// Tenant that owns the entry.
    pub tenant: Tenant,
    /// Content: at most [`LARGEST_BODY`] bytes.
    pub body: Arc<[u8]>,
    /// Number of times the entry was written; 0 when writing an entry that must not exist yet.
    pub version: u32,
    /// Time from which the entry counts as absent; `None` if it never expires.
    pub expires_at: Option<Time>,
}

/// Reason why an entry is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadEntry {
    /// Invalid key.
    #[error("{0}")]
    Key(#[from] BadName),
    /// The body has this many bytes, which is more than [`LARGEST_BODY`].
    #[error("an entry holds at most {LARGEST_BODY} bytes, not {0}")]
    TooLarge(usize),
}

impl Entry {
    /// Checks the limits on key and body.
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

    /// Returns true if the entry has not expired at `now`.
    pub fn is_live(&self, now: Time) -> bool {
        self.expires_at.is_none_or(|expires_at| expires_at > now)
    }
}

/// Result of a compare-and-swap write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Written; the entry now has this version.
    Written(u32),
    /// The stored version is not the expected one, or the entry is missing; nothing was written.
    Conflict,
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
        assert_eq!(Kind::from_code(13), None);
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
