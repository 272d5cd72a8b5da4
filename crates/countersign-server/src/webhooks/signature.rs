//! Signatures of webhook requests, by Standard Webhooks 1.0.0: HMAC-SHA-256 (`v1`) and Ed25519 (`v1a`).

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use sha2::Sha256;

/// Allowed lengths of a symmetric key, in bytes.
const SYMMETRIC_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Length of an Ed25519 seed, in bytes. A key may also consist of the seed followed by the public key.
const SEED_BYTES: usize = 32;

/// The keys that sign the requests of a webhook. There is at least one.
pub(super) struct SigningKeys(Vec<SigningKey>);

enum SigningKey {
    Symmetric(Vec<u8>),
    Asymmetric(Box<Ed25519KeyPair>),
}

impl SigningKeys {
    /// Parses keys that are separated by whitespace: `whsec_…` for `v1`, `whsk_…` for `v1a`. No error contains a key.
    pub(super) fn parse(text: &str) -> Result<SigningKeys, String> {
        let keys: Vec<SigningKey> = text
            .split_whitespace()
            .map(SigningKey::parse)
            .collect::<Result<_, _>>()?;
        match keys.is_empty() {
            true => Err("it is empty; make a key with `echo whsec_$(openssl rand -base64 32)`".to_owned()),
            false => Ok(SigningKeys(keys)),
        }
    }

    /// Returns the value of the header `webhook-signature`: one signature per key.
    pub(super) fn sign(&self, id: &str, timestamp: u64, body: &str) -> String {
        let content = format!("{id}.{timestamp}.{body}");
        let signatures: Vec<String> = self.0.iter().map(|key| key.sign(content.as_bytes())).collect();
        signatures.join(" ")
    }

    /// Returns the public keys, as `whpk_…`, with which receivers verify `v1a` signatures.
    pub(super) fn public_keys(&self) -> Vec<String> {
        let public = self.0.iter().filter_map(|key| match key {
            SigningKey::Symmetric(_) => None,
            SigningKey::Asymmetric(pair) => Some(pair.public_key()),
        });
        public
            .map(|key| format!("whpk_{}", BASE64.encode(key.as_ref())))
            .collect()
    }
}

impl SigningKey {
    fn parse(text: &str) -> Result<SigningKey, String> {
        let decode = |encoded: &str| {
            BASE64
                .decode(encoded.as_bytes())
                .map_err(|_| "a key is not valid base64".to_owned())
        };
        if let Some(encoded) = text.strip_prefix("whsec_") {
            let key = decode(encoded)?;
            return match SYMMETRIC_BYTES.contains(&key.len()) {
                true => Ok(SigningKey::Symmetric(key)),
                false => Err(format!("a `whsec_` key has 24 to 64 bytes, not {}", key.len())),
            };
        }
        let Some(encoded) = text.strip_prefix("whsk_") else {
            return Err("a key starts with `whsec_` (HMAC) or `whsk_` (Ed25519)".to_owned());
        };
        let key = decode(encoded)?;
        let pair = match key.split_at_checked(SEED_BYTES) {
            Some((seed, [])) => Ed25519KeyPair::from_seed_unchecked(seed),
            Some((seed, public)) => Ed25519KeyPair::from_seed_and_public_key(seed, public),
            None => return Err(format!("a `whsk_` key has 32 or 64 bytes, not {}", key.len())),
        };
        let pair = pair.map_err(|_| "a `whsk_` key is not an Ed25519 key".to_owned())?;
        Ok(SigningKey::Asymmetric(Box::new(pair)))
    }

    fn sign(&self, content: &[u8]) -> String {
        match self {
            SigningKey::Symmetric(key) => match Hmac::<Sha256>::new_from_slice(key) {
                Ok(mut mac) => {
                    mac.update(content);
                    format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()))
                }
                // Cannot happen: HMAC accepts keys of any length. A missing signature is refused by the receiver.
                Err(_) => String::new(),
            },
            SigningKey::Asymmetric(pair) => format!("v1a,{}", BASE64.encode(pair.sign(content).as_ref())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Example of the reference libraries of Standard Webhooks.
    #[test]
    fn e3_a_signature_is_that_of_the_reference_libraries() {
        let keys = SigningKeys::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = keys.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn e3_every_key_signs_and_public_keys_verify() {
        use ring::signature::{ED25519, UnparsedPublicKey};
        let private = format!("whsk_{}", BASE64.encode(&[7; 32]));
        let both = format!("whsec_{} {private}", BASE64.encode(&[1; 32]));
        let keys = SigningKeys::parse(&both).unwrap();
        let signatures = keys.sign("a-1", 5, "{}");
        let (v1, v1a) = signatures.split_once(' ').unwrap();
        assert!(v1.starts_with("v1,"));
        let signature = BASE64
            .decode(v1a.strip_prefix("v1a,").unwrap().as_bytes())
            .unwrap();
        let public = keys.public_keys();
        let public = BASE64
            .decode(public[0].strip_prefix("whpk_").unwrap().as_bytes())
            .unwrap();
        UnparsedPublicKey::new(&ED25519, public)
            .verify(b"a-1.5.{}", &signature)
            .unwrap();
    }

    #[test]
    fn e3_bad_keys_are_refused_without_repeating_them() {
        for (text, problem) in [
            ("", "it is empty"),
            ("secret", "starts with"),
            ("whsec_c2hvcnQ=", "24 to 64 bytes"),
            ("whsec_!!", "not valid base64"),
            ("whsk_c2hvcnQ=", "32 or 64 bytes"),
        ] {
            let error = SigningKeys::parse(text).err().unwrap();
            assert!(error.contains(problem), "{error}");
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }
}
