//! What is known of a tool's definition as it is now, and from whom.

use crate::hash::Hash;

/// The hash of a tool's whole definition, and whether the gate knows it or was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Definition {
    /// Nothing is known.
    #[default]
    Unknown,
    /// The proposer says so. It may show that a tool has changed; it satisfies no pin.
    Claimed(Hash),
    /// The gate read the definition itself, in the listing of the tool's own server.
    Read(Hash),
}

impl Definition {
    /// The hash, whoever says it.
    pub fn hash(self) -> Option<Hash> {
        match self {
            Definition::Unknown => None,
            Definition::Claimed(hash) | Definition::Read(hash) => Some(hash),
        }
    }

    /// As the proposer says it, if it does.
    pub fn claimed(hash: Option<Hash>) -> Definition {
        hash.map_or(Definition::Unknown, Definition::Claimed)
    }

    /// As the gate read it, if it could. For whoever reads tools' listings itself, never for what a proposer sends.
    pub fn read(hash: Option<Hash>) -> Definition {
        hash.map_or(Definition::Unknown, Definition::Read)
    }

    /// Why this is not the definition a policy was written for, if it is not known to be.
    pub(super) fn why_not(self, pinned: Hash) -> Option<&'static str> {
        match self {
            Definition::Read(hash) if hash == pinned => None,
            Definition::Claimed(hash) if hash == pinned => Some(
                "definition not verified: only the agent says that the tool is what the policy was written for",
            ),
            Definition::Read(_) | Definition::Claimed(_) => {
                Some("definition changed: the tool is no longer what the policy was written for")
            }
            Definition::Unknown => Some(
                "definition unknown: nobody has seen that the tool is still what the policy was written for",
            ),
        }
    }
}
