//! A SHA-256 value, and the one way this crate feeds fields into it.
//!
//! Every field goes in behind its length, so no two different lists of fields give the same input.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 value; written as lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Hashes plain bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(Sha256::digest(bytes).into())
    }

    /// Reads 64 hex digits.
    pub fn from_hex(text: &str) -> Option<Hash> {
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        let mut out = [0u8; 32];
        for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Hash(out))
    }

    /// The first twelve hex digits, for people.
    pub fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

impl Hash {
    /// Lower-case hex. By hand: this is in every event and every answer, and formatting each byte takes longer than
    /// hashing them all.
    fn hex(&self) -> [u8; 64] {
        let digit = |nibble: u8| match nibble {
            0..10 => b'0' + nibble,
            _ => b'a' - 10 + nibble,
        };
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        text
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::str::from_utf8(&self.hex()).unwrap_or_default())
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.serialize_str(std::str::from_utf8(&self.hex()).unwrap_or_default()),
            false => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return <[u8; 32]>::deserialize(deserializer).map(Hash);
        }
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Hash::from_hex(&text).ok_or_else(|| serde::de::Error::custom("expected 64 hex digits"))
    }
}

/// Collects length-prefixed fields; hashed at once, which is quicker than piece by piece.
pub struct Fields(Vec<u8>);

/// Enough for a call of usual size, and small enough for the allocator to keep at hand.
const USUAL: usize = 1000;

impl Fields {
    /// Starts with the domain tag, which says what is being hashed.
    pub fn new(domain: &str) -> Fields {
        Fields(Vec::with_capacity(USUAL)).field(domain.as_bytes())
    }

    /// Adds one field behind its length.
    pub fn field(mut self, bytes: &[u8]) -> Fields {
        self.0.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds a field that may be missing; missing differs from empty.
    pub fn optional(self, bytes: Option<&[u8]>) -> Fields {
        match bytes {
            Some(bytes) => self.field(&[1]).field(bytes),
            None => self.field(&[0]),
        }
    }

    /// Adds a number.
    pub fn number(self, number: u64) -> Fields {
        self.field(&number.to_be_bytes())
    }

    /// The hash of all fields.
    pub fn finish(self) -> Hash {
        Hash::of(&self.0)
    }
}
