//! The log: all events of a store in one order, with a Merkle tree over them.
//!
//! The events are in the order in which the store publishes them. The log's size and root hash commit to all of them.
//! Signatures and proofs are not part of this module, and can be added without changing it: the tree is that of RFC
//! 6962, section 2.1, so the root of any prefix follows from the events alone.
//!
//! A leaf is the SHA-256 of a zero byte and these fields, each prefixed with its length in eight big-endian bytes:
//! `countersign/log/1`, the tenant, the sixteen bytes of the approval's id, the event's number in eight bytes, and the
//! event's link. The link covers the event and all earlier ones of its approval. Its digests are salted, so it cannot
//! confirm a guess at erased content.

use sha2::{Digest as _, Sha256};

use crate::hash::Hash;
use crate::id::{ApprovalId, Tenant};

/// One event in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Tenant of the approval.
    pub tenant: Tenant,
    /// The approval that the event belongs to.
    pub approval: ApprovalId,
    /// Number of the event in the approval's history.
    pub number: u32,
    /// Link of the event: the hash over it and all earlier events of its approval.
    pub link: Hash,
}

impl LogEntry {
    /// Returns the leaf hash of this entry.
    pub fn leaf(&self) -> Hash {
        leaf(
            self.tenant.as_str(),
            self.approval.as_bytes(),
            self.number,
            self.link,
        )
    }
}

/// Returns the leaf hash of an event.
pub fn leaf(tenant: &str, approval: &[u8; 16], number: u32, link: Hash) -> Hash {
    // Large enough for usual tenant names.
    let mut bytes = Vec::with_capacity(192);
    bytes.push(0);
    for field in [
        b"countersign/log/1",
        tenant.as_bytes(),
        approval,
        &u64::from(number).to_be_bytes(),
        &link.0,
    ] {
        bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
        bytes.extend_from_slice(field);
    }
    Hash::of(&bytes)
}

fn node(left: Hash, right: Hash) -> Hash {
    let mut bytes = [1; 65];
    for (to, from) in bytes.iter_mut().skip(1).zip(left.0.into_iter().chain(right.0)) {
        *to = from;
    }
    Hash(Sha256::digest(bytes).into())
}

/// Head of a log: the log's size, and the hashes of the perfect subtrees of which it consists, largest first. There are
/// as many subtrees as the size has one bits, so at most 64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHead {
    size: u64,
    frontier: Vec<Hash>,
}

impl LogHead {
    /// Restores a head from the bytes of [`LogHead::frontier`]; `None` if their length does not fit the size.
    pub fn stored(size: u64, frontier: &[u8]) -> Option<LogHead> {
        let (hashes, []) = frontier.as_chunks::<32>() else {
            return None;
        };
        let is_whole = u32::try_from(hashes.len()) == Ok(size.count_ones());
        is_whole.then(|| LogHead {
            size,
            frontier: hashes.iter().copied().map(Hash).collect(),
        })
    }

    /// Returns the number of events.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the hashes of the subtrees as bytes, largest subtree first, for a store to save.
    pub fn frontier(&self) -> Vec<u8> {
        self.frontier.iter().flat_map(|Hash(hash)| *hash).collect()
    }

    /// Appends the leaf of the next event.
    pub fn push(&mut self, leaf: Hash) {
        let mut right = leaf;
        // The left half of each subtree that the new leaf completes is at the end of the list.
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.frontier.pop() {
                right = node(left, right);
            }
        }
        self.frontier.push(right);
        self.size = self.size.saturating_add(1);
    }

    /// Returns the root hash; for an empty log, the hash of no bytes.
    pub fn root(&self) -> Hash {
        let from_the_right = self.frontier.iter().copied().rev();
        from_the_right
            .reduce(|right, left| node(left, right))
            .unwrap_or_else(|| Hash::of(&[]))
    }

    /// Returns the size and the root, to be saved outside of the store.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            size: self.size,
            root: self.root(),
        }
    }
}

/// Size and root of a log at one time. A copy that is saved elsewhere can prove later that no event before it was
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Number of events.
    pub size: u64,
    /// Root hash of those events.
    pub root: Hash,
}

/// Formats the checkpoint as `SIZE:ROOT`.
impl std::fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.size, self.root)
    }
}

/// Error for text that is not a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected SIZE:ROOT, as `countersign verify --head` prints it")]
pub struct BadCheckpoint;

impl std::str::FromStr for Checkpoint {
    type Err = BadCheckpoint;

    fn from_str(text: &str) -> Result<Checkpoint, BadCheckpoint> {
        let (size, root) = text.trim().split_once(':').ok_or(BadCheckpoint)?;
        Ok(Checkpoint {
            size: size.parse().map_err(|_| BadCheckpoint)?,
            root: Hash::from_hex(root).ok_or(BadCheckpoint)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Direct transcription of the definition in RFC 6962, section 2.1.
    fn root_by_definition(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => Hash::of(&[]),
            [leaf] => *leaf,
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                let (left, right) = leaves.split_at(split);
                node(root_by_definition(left), root_by_definition(right))
            }
        }
    }

    #[test]
    fn i16_the_root_is_that_of_rfc_6962() {
        let leaves: Vec<Hash> = (0..200u8).map(|n| Hash::of(&[n])).collect();
        let mut head = LogHead::default();
        for size in 0..=leaves.len() {
            assert_eq!(head.root(), root_by_definition(&leaves[..size]), "{size} leaves");
            assert_eq!(LogHead::stored(head.size(), &head.frontier()), Some(head.clone()));
            if let Some(leaf) = leaves.get(size) {
                head.push(*leaf);
            }
        }
    }

    /// Test vectors of Certificate Transparency's reference implementation: eight inputs and their root.
    #[test]
    fn i16_known_roots_are_found() {
        let inputs: [&[u8]; 8] = [
            b"",
            b"\x00",
            b"\x10",
            b"\x20\x21",
            b"\x30\x31",
            b"\x40\x41\x42\x43",
            b"\x50\x51\x52\x53\x54\x55\x56\x57",
            b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
        ];
        let mut head = LogHead::default();
        for input in inputs {
            head.push(Hash::of(&[&[0], input].concat()));
        }
        let expected = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328";
        assert_eq!(head.root().to_string(), expected);
    }

    /// Checks a leaf hash that was computed independently of this code. It serves as a test vector for other verifiers.
    #[test]
    fn i16_a_leaf_is_what_it_always_was() {
        let found = leaf("main", &[7; 16], 3, Hash([9; 32]));
        assert_eq!(
            found.to_string(),
            "7514bfe99892f927aaa7bbcd44edfc5b234d7e4906e4553154298969bd699c05"
        );
    }

    #[test]
    fn damaged_heads_and_checkpoints_are_refused() {
        assert_eq!(LogHead::stored(3, &[0; 32]), None);
        assert_eq!(LogHead::stored(1, &[0; 33]), None);
        let text = format!("12:{}", Hash::of(b"x"));
        assert_eq!(text.parse::<Checkpoint>().unwrap().to_string(), text);
        for bad in ["", "12", "12:", "x:00", ":", "-1:00"] {
            assert_eq!(bad.parse::<Checkpoint>(), Err(BadCheckpoint), "`{bad}`");
        }
    }
}
