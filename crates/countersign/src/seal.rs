//! Sealing: credentials for a held call are stored encrypted, and decrypted only when the call gets its permit to run.
//!
//! Sealed bytes can be decrypted only for the call that the secret belongs to. The key is passed in; the `countersign`
//! program reads it from a file or the environment.
//!
//! Without the feature `seal` no gate has a key, so a held call that carries a credential is refused.

#[cfg(not(feature = "seal"))]
mod absent;
#[cfg(feature = "seal")]
mod sealer;

use zeroize::Zeroizing;

#[cfg(not(feature = "seal"))]
pub(crate) use absent::Sealer;
#[cfg(feature = "seal")]
pub use sealer::Sealer;

/// Maximum size of a secret submitted with a call, in bytes.
pub const LARGEST_SECRET: usize = 4 * 1024;

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// A value that is never printed, and is wiped from memory when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Creates a secret from a value, without checking it; see [`Secret::check`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Secret {
        Secret(Zeroizing::new(bytes.into()))
    }

    /// Exposes the value, for the executor that needs it.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }

    /// Checks that the value can be a call's credential: short enough, and made of characters that every transport to a
    /// tool, such as an HTTP header, carries unchanged.
    pub fn check(&self) -> Result<(), SealError> {
        let is_visible = |byte: &u8| matches!(byte, b' '..=b'~');
        let ends_blank = |end: Option<&u8>| end.is_none_or(|byte| *byte == b' ');
        match self.0.len() {
            length if length > LARGEST_SECRET => Err(SealError::TooLarge),
            _ if !self.0.iter().all(is_visible) => Err(SealError::NotVisible),
            _ if ends_blank(self.0.first()) || ends_blank(self.0.last()) => Err(SealError::NotVisible),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Reason why sealing or opening failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The gate has no sealing key.
    #[error("there is no sealing key")]
    NoKey,
    /// The secret is too large.
    #[error("a secret has at most {LARGEST_SECRET} bytes")]
    TooLarge,
    /// The secret is empty, has characters other than visible ASCII and spaces, or begins or ends with a space.
    #[error("a secret is one or more visible ASCII characters, with blanks only between them")]
    NotVisible,
    /// Sealed with another key or for another call, or damaged.
    #[error("the secret does not open with this key for this call")]
    DoesNotOpen,
    /// The operating system provided no random bytes.
    #[error("the operating system returned no random bytes")]
    NoRandomness,
    /// The key does not have 64 hex digits.
    #[error("a sealing key is 64 hex digits")]
    BadKey,
}

/// Returns the length in bytes of the secret inside these sealed bytes. Needs no key.
pub fn secret_length(sealed: &[u8]) -> usize {
    sealed.len().saturating_sub(NONCE_BYTES + TAG_BYTES)
}
