//! Encrypts and decrypts with the sealing key.

use std::sync::Arc;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::{NONCE_BYTES, SealError, Secret};
use crate::hash::Hash;
use crate::id::{CallId, Tenant};

/// Encrypts and decrypts with the sealing key (XChaCha20-Poly1305).
#[derive(Clone)]
pub struct Sealer(Arc<Keys>);

struct Keys {
    cipher: XChaCha20Poly1305,
    /// Key of [`Sealer::mark`], derived from the sealing key.
    marks: Zeroizing<[u8; 32]>,
}

impl Sealer {
    /// Parses a key of 64 hex digits; surrounding whitespace is ignored.
    pub fn from_hex(text: &str) -> Result<Sealer, SealError> {
        let mut key = Hash::from_hex(text.trim()).ok_or(SealError::BadKey)?.0;
        let derived = Sha256::new()
            .chain_update(b"countersign/mark-key/1\n")
            .chain_update(key);
        let keys = Keys {
            cipher: XChaCha20Poly1305::new(&Key::from(key)),
            marks: Zeroizing::new(derived.finalize().into()),
        };
        key.zeroize();
        Ok(Sealer(Arc::new(keys)))
    }

    /// Returns a keyed hash of a secret: within a tenant, the same secret always has the same mark. Without the sealing
    /// key, nobody can check a guess against the mark.
    pub(crate) fn mark(&self, secret: &Secret, tenant: &Tenant) -> Hash {
        let tenant = tenant.as_str().as_bytes();
        // The key and both hashes have fixed lengths, so different inputs never run together.
        let inner = Sha256::new()
            .chain_update(*self.0.marks)
            .chain_update(Hash::of(tenant).0)
            .chain_update(&*secret.0);
        let outer = Sha256::new()
            .chain_update(*self.0.marks)
            .chain_update(inner.finalize());
        Hash(outer.finalize().into())
    }

    /// Seals `secret` for one call.
    pub fn seal(&self, secret: &Secret, tenant: &Tenant, call: CallId) -> Result<Arc<[u8]>, SealError> {
        self.seal_as(&secret.0, &about(tenant, call))
    }

    /// Seals the result of a call that could not be recorded yet.
    pub fn seal_result(&self, result: &[u8], tenant: &Tenant, call: CallId) -> Result<Arc<[u8]>, SealError> {
        self.seal_as(result, &about_result(tenant, call))
    }

    /// Opens a result that was sealed for this call.
    pub fn open_result(&self, sealed: &[u8], tenant: &Tenant, call: CallId) -> Result<Secret, SealError> {
        self.open_as(sealed, &about_result(tenant, call))
    }

    fn seal_as(&self, content: &[u8], about: &str) -> Result<Arc<[u8]>, SealError> {
        let mut nonce = [0u8; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
        let payload = Payload {
            msg: content,
            aad: about.as_bytes(),
        };
        let sealed = self
            .0
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| SealError::TooLarge)?;
        Ok([nonce.as_slice(), &sealed].concat().into())
    }

    /// Opens a secret that was sealed for this call.
    pub fn open(&self, sealed: &[u8], tenant: &Tenant, call: CallId) -> Result<Secret, SealError> {
        self.open_as(sealed, &about(tenant, call))
    }

    fn open_as(&self, sealed: &[u8], about: &str) -> Result<Secret, SealError> {
        let (nonce, sealed) = sealed
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or(SealError::DoesNotOpen)?;
        let payload = Payload {
            msg: sealed,
            aad: about.as_bytes(),
        };
        self.0
            .cipher
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

/// Returns the associated data that binds a sealed secret to its call and tenant.
fn about(tenant: &Tenant, call: CallId) -> String {
    format!("countersign/secret/1\n{tenant}\n{call}")
}

/// Returns the associated data for results. It differs from that for secrets, so that neither can be opened as the
/// other.
fn about_result(tenant: &Tenant, call: CallId) -> String {
    format!("countersign/result/1\n{tenant}\n{call}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ApprovalId;
    use crate::seal::secret_length;

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
    fn the_length_of_a_secret_is_known_without_the_key() {
        let sealer = Sealer::from_hex(&"ab".repeat(32)).unwrap();
        for length in [0, 1, 9, 4096] {
            let sealed = sealer.seal(&Secret::new(vec![b'x'; length]), &Tenant::single(), call(1));
            assert_eq!(secret_length(&sealed.unwrap()), length);
        }
    }

    #[test]
    fn a_mark_depends_on_the_secret_the_tenant_and_the_key() {
        let sealer = Sealer::from_hex(&"ab".repeat(32)).unwrap();
        let other = Sealer::from_hex(&"cd".repeat(32)).unwrap();
        let (here, there) = (Tenant::single(), Tenant::new("b").unwrap());
        let mark = sealer.mark(&Secret::new("a"), &here);
        assert_eq!(mark, sealer.mark(&Secret::new("a"), &here));
        assert_ne!(mark, sealer.mark(&Secret::new("b"), &here));
        assert_ne!(mark, sealer.mark(&Secret::new("a"), &there));
        assert_ne!(mark, other.mark(&Secret::new("a"), &here));
    }

    #[test]
    fn i17_secrets_do_not_print_themselves() {
        let sealer = Sealer::from_hex(&"ab".repeat(32)).unwrap();
        let text = format!("{:?} {sealer:?}", Secret::new("key-canary"));
        assert_eq!(text, "Secret(hidden) Sealer(hidden)");
    }
}
