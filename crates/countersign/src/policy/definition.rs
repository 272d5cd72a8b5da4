//! A tool's current definition: its hash, and whether the gate verified it.

use crate::hash::Hash;

/// Hash of a tool's complete definition, and the party that provided the hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Definition {
    /// No hash was given. Does not satisfy a pin.
    #[default]
    Unknown,
    /// Claimed by the proposer. Can reveal that a tool has changed, but never satisfies a pin.
    Claimed(Hash),
    /// Read by the gate itself from the listing of the tool's own server.
    Read(Hash),
}

impl Definition {
    /// Returns the hash, whether claimed or read; `None` if it is unknown.
    pub fn hash(self) -> Option<Hash> {
        match self {
            Definition::Unknown => None,
            Definition::Claimed(hash) | Definition::Read(hash) => Some(hash),
        }
    }

    /// Creates the definition from a hash that the proposer sent. `None` becomes [`Definition::Unknown`].
    pub fn claimed(hash: Option<Hash>) -> Definition {
        hash.map_or(Definition::Unknown, Definition::Claimed)
    }

    /// Creates the definition from a hash that the gate computed from a server's listing. `None` becomes
    /// [`Definition::Unknown`]. Never use this for a hash sent by a proposer.
    pub fn read(hash: Option<Hash>) -> Definition {
        hash.map_or(Definition::Unknown, Definition::Read)
    }

    /// Returns the reason why this definition does not satisfy a pinned hash; `None` if it does.
    pub(super) fn check_pin(self, pinned: Hash) -> Option<&'static str> {
        match self {
            Definition::Read(hash) if hash == pinned => None,
            Definition::Claimed(hash) if hash == pinned => Some(
                "definition not verified: only the agent claims that the tool is the one that the policy was written for",
            ),
            Definition::Read(_) | Definition::Claimed(_) => {
                Some("definition changed: the tool is no longer the one that the policy was written for")
            }
            Definition::Unknown => Some(
                "definition unknown: nothing confirms that the tool is still the one that the policy was written for",
            ),
        }
    }
}
