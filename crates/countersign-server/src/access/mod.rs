//! Who may do what: tokens for programs, accounts, sessions and sign-in links for people.
//!
//! Enters: a credential as it came over the wire. Leaves: a [`Caller`], or nothing.
//! Everything is kept in the store's registry, under the hash of what opens it: whoever reads the store cannot sign
//! in with what stands there. What is revoked is revoked with the next request: a caller is known without a look only while
//! nothing at all has changed in the store (`http::known`).
//! Deliberately absent: which route asks for which scope; see `http`.

mod account;
pub mod address;
mod caller;
mod link;
mod scope;
mod session;
mod token;

pub use account::{Account, SHORTEST_PASSWORD};
pub use caller::{Caller, Credential, Speaker};
pub use link::{LINK_LASTS, Link};
pub use scope::{Role, Scope, Scopes};
pub use session::{SESSION_IDLE, SESSION_LONGEST, Session};
pub use token::{LONGEST_TOKEN, Minted, NewToken, Token};

use countersign::hash::Hash;
use countersign::store::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why an account, token or session could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// It would break a rule; the sentence says which.
    #[error("{0}")]
    NotAllowed(String),
    /// There is one of that name already.
    #[error("there is already {0}")]
    Exists(String),
    /// There is none of that name.
    #[error("there is no {0}")]
    NotFound(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A new secret: 256 random bits as text, behind a prefix that secret scanners can look for.
fn new_secret(prefix: &str) -> Result<String, StoreError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|error| StoreError::Unavailable(format!("no random bytes to be had: {error}")))?;
    Ok(format!("{prefix}{}", Hash(random)))
}

/// What a secret is kept under. It has 256 random bits, so a plain hash is enough.
fn key_of(secret: &str) -> String {
    Hash::of(secret.as_bytes()).to_string()
}

fn write_body<T: Serialize>(value: &T) -> Result<std::sync::Arc<[u8]>, StoreError> {
    let body = serde_json::to_vec(value).map_err(|error| StoreError::Impossible(error.to_string()))?;
    Ok(body.into())
}

fn read_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(body)
        .map_err(|error| StoreError::Impossible(format!("the registry cannot be read: {error}")))
}
