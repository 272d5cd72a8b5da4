//! SHA-256 hashes, and the only format in which this crate hashes lists of fields.
//!
//! Each field is prefixed with its length, so different lists of fields never give the same input.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 hash. Its text form is lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Hashes the bytes as they are, without a length prefix.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(Sha256::digest(bytes).into())
    }

    /// Parses a hash of 64 hex digits; `None` for any other text.
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

    /// Returns the first twelve hex digits, for display.
    pub fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

impl Hash {
    /// Encodes the hash as lower-case hex. Written by hand, because every event and response contains hashes, and
    /// formatting each byte takes longer than hashing.
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

/// Collects length-prefixed fields into one buffer and hashes it once, which is faster than hashing piecewise.
pub struct Fields(Vec<u8>);

/// Initial capacity in bytes: enough for a typical call, and small enough for the allocator's fast path.
const USUAL: usize = 1000;

impl Fields {
    /// Creates a list of fields that begins with a domain tag, which identifies the kind of data that is hashed.
    pub fn new(domain: &str) -> Fields {
        Fields(Vec::with_capacity(USUAL)).field(domain.as_bytes())
    }

    /// Adds a field, prefixed with its length.
    pub fn field(mut self, bytes: &[u8]) -> Fields {
        self.0.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds an optional field. A missing field gives a different hash than an empty one.
    pub fn optional(self, bytes: Option<&[u8]>) -> Fields {
        match bytes {
            Some(bytes) => self.field(&[1]).field(bytes),
            None => self.field(&[0]),
        }
    }

    /// Adds a number as a field of eight bytes, big-endian.
    pub fn number(self, number: u64) -> Fields {
        self.field(&number.to_be_bytes())
    }

    /// Returns the hash over all fields.
    pub fn finish(self) -> Hash {
        Hash::of(&self.0)
    }
}
