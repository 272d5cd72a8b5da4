//! Access control: tokens for programs; accounts, sessions, sign-in links and chat senders for people.
//!
//! A credential from a request is resolved to a [`Caller`], or rejected. Credentials are stored in the registry under
//! their hash, so that reading the store does not allow signing in. A revocation takes effect with the next request:
//! callers are cached only while nothing has changed in the store (`web::caller_cache`). The scopes that each route
//! requires are listed in `http`.

mod account;
pub mod address;
mod caller;
mod link;
mod scope;
mod sender;
mod session;
mod token;

pub use account::{Account, SHORTEST_PASSWORD, USUAL_GROUP, groups_problem};
pub use caller::{Caller, Credential, Speaker};
pub use link::{LINK_LASTS, Link};
pub use scope::{Role, Scope, Scopes};
pub use sender::{SenderId, SenderLink};
pub use session::{SESSION_IDLE, SESSION_LONGEST, Session};
pub use token::{LONGEST_TOKEN, Minted, NewToken, Token};

use countersign::hash::Hash;
use countersign::store::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reason why an account, token or link could not be created or changed.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A rule forbids the change. The text says which one.
    #[error("{0}")]
    NotAllowed(String),
    /// The name is in use, or looks too much like another one; with a description of the other object.
    #[error("there is already {0}")]
    Exists(String),
    /// There is no such account, token or link; with its description.
    #[error("there is no {0}")]
    NotFound(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns a new secret: 256 random bits as hex, with a prefix that secret scanners can recognize.
fn new_secret(prefix: &str) -> Result<String, StoreError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| {
        StoreError::Unavailable(format!("the operating system returned no random bytes: {error}"))
    })?;
    Ok(format!("{prefix}{}", Hash(random)))
}

/// Returns the registry key of a secret. A plain hash suffices for 256 random bits.
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
