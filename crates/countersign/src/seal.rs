//! Sealing: a credential that a call needs later is kept encrypted, and opened only for its permit.
//!
//! Enters: a secret and the call it belongs to. Leaves: bytes that open only for that call.
//! Deliberately absent: where the key comes from; the binary reads it from a file or the environment.

use std::sync::Arc;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use zeroize::{Zeroize, Zeroizing};

use crate::hash::Hash;
use crate::id::{CallId, Tenant};

/// The largest secret a call may come with.
pub const LARGEST_SECRET: usize = 16 * 1024;

const NONCE_BYTES: usize = 24;

/// A value that never prints itself, and is wiped when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Wraps a value.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Secret {
        Secret(Zeroizing::new(bytes.into()))
    }

    /// The value, for the executor that needs it.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Why something could not be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The gate has no key.
    #[error("there is no sealing key")]
    NoKey,
    /// Too large.
    #[error("a secret has at most {LARGEST_SECRET} bytes")]
    TooLarge,
    /// Another key, another call, or damage.
    #[error("the secret does not open with this key for this call")]
    DoesNotOpen,
    /// The machine gave no random bytes.
    #[error("no random bytes to be had")]
    NoRandomness,
    /// A key of the wrong size.
    #[error("a sealing key is 64 hex digits")]
    BadKey,
}

/// Holds the key.
#[derive(Clone)]
pub struct Sealer(Arc<XChaCha20Poly1305>);

impl Sealer {
    /// Reads a key of 64 hex digits; white space around it is ignored.
    pub fn from_hex(text: &str) -> Result<Sealer, SealError> {
        let mut key = Hash::from_hex(text.trim()).ok_or(SealError::BadKey)?.0;
        let sealer = Sealer(Arc::new(XChaCha20Poly1305::new(&Key::from(key))));
        key.zeroize();
        Ok(sealer)
    }

    /// Seals `secret` for one call.
    pub fn seal(&self, secret: &Secret, tenant: &Tenant, call: CallId) -> Result<Arc<[u8]>, SealError> {
        if secret.0.len() > LARGEST_SECRET {
            return Err(SealError::TooLarge);
        }
        let mut nonce = [0u8; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
        let about = about(tenant, call);
        let payload = Payload {
            msg: &secret.0,
            aad: about.as_bytes(),
        };
        let sealed = self
            .0
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| SealError::TooLarge)?;
        Ok([nonce.as_slice(), &sealed].concat().into())
    }

    /// Opens what was sealed for this call.
    pub fn open(&self, sealed: &[u8], tenant: &Tenant, call: CallId) -> Result<Secret, SealError> {
        let (nonce, sealed) = sealed
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or(SealError::DoesNotOpen)?;
        let about = about(tenant, call);
        let payload = Payload {
            msg: sealed,
            aad: about.as_bytes(),
        };
        self.0
            .decrypt(&XNonce::from(*nonce), payload)
            .map(Secret::new)
            .map_err(|_| SealError::DoesNotOpen)
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer(hidden)")
    }
}

/// A sealed secret moved to another call or tenant does not open there.
fn about(tenant: &Tenant, call: CallId) -> String {
    format!("countersign/secret/1\n{tenant}\n{call}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ApprovalId;

    fn call(position: u8) -> CallId {
        CallId {
            approval: ApprovalId::from_parts(1, &[1; 10]),
            position,
        }
    }

    #[test]
    fn a15_a_secret_opens_only_for_its_call_and_key() {
        let sealer = Sealer::from_hex(&"ab".repeat(32)).unwrap();
        let other = Sealer::from_hex(&"cd".repeat(32)).unwrap();
        let tenant = Tenant::single();
        let sealed = sealer.seal(&Secret::new("key-canary"), &tenant, call(1)).unwrap();
        assert_eq!(
            sealer.open(&sealed, &tenant, call(1)).unwrap().reveal(),
            b"key-canary"
        );
        assert!(!sealed.windows(6).any(|window| window == b"canary"));
        let closed = Some(SealError::DoesNotOpen);
        assert_eq!(sealer.open(&sealed, &tenant, call(2)).err(), closed);
        assert_eq!(
            sealer.open(&sealed, &Tenant::new("b").unwrap(), call(1)).err(),
            closed
        );
        assert_eq!(other.open(&sealed, &tenant, call(1)).err(), closed);
        assert_eq!(sealer.open(&sealed[..10], &tenant, call(1)).err(), closed);
    }

    #[test]
    fn i17_secrets_do_not_print_themselves() {
        let sealer = Sealer::from_hex(&"ab".repeat(32)).unwrap();
        let text = format!("{:?} {sealer:?}", Secret::new("key-canary"));
        assert_eq!(text, "Secret(hidden) Sealer(hidden)");
    }
}
