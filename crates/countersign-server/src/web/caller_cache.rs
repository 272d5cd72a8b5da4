//! Cache of authenticated callers.
//!
//! INVARIANT: a cached caller is used only while the store's change counter is the same as before the lookup, whichever
//! process writes to the store. So a revoked token is rejected from the next request on.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use countersign::cache::GenerationalCache;
use countersign::hash::Hash;

use super::{ApiError, App};
use crate::access::{Caller, Token};

/// Size of the cache in bytes: room for about two thousand callers.
const MOST_BYTES: usize = 1024 * 1024;
/// Assumed size of one cached caller, in bytes.
const CALLER_BYTES: usize = 512;

/// Callers by the hash of their token, each with the value of the store's change counter before the lookup.
pub struct CallerCache(GenerationalCache<Hash, (u64, Arc<Caller>)>);

impl Default for CallerCache {
    fn default() -> Self {
        CallerCache(GenerationalCache::new(MOST_BYTES))
    }
}

/// Authenticates a request by its bearer token, and caches the caller. Session cookies are not accepted, so that no web
/// page can make a browser call the API in a person's name. `stamp` is the value of the store's change counter before
/// the lookup; with `None`, the cache is not used.
pub async fn caller(app: &App, headers: &HeaderMap, stamp: Option<u64>) -> Result<Arc<Caller>, ApiError> {
    let token = token(headers)?;
    let name = stamp.map(|stamp| (Hash::of(token.as_bytes()), stamp));
    if let Some((name, stamp)) = &name {
        let now = app.store().now().await?;
        let is_current = |(at, caller): &(u64, Arc<Caller>)| {
            at == stamp && caller.expires_at.is_none_or(|expires_at| now < expires_at)
        };
        if let Some((_, caller)) = app.caller_cache().0.get(name, is_current) {
            return Ok(caller);
        }
    }
    let caller = Token::open(app.store(), token).await?;
    let caller = Arc::new(caller.ok_or_else(ApiError::unauthorized)?);
    if let Some((name, stamp)) = name {
        app.caller_cache()
            .0
            .insert(name, (stamp, caller.clone()), CALLER_BYTES);
    }
    Ok(caller)
}

/// Extracts the bearer token. Fails with 401 if there is none.
pub(super) fn token(headers: &HeaderMap) -> Result<&str, ApiError> {
    let shown = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let token = shown.and_then(|shown| {
        let (scheme, token) = shown.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    token.ok_or_else(ApiError::unauthorized)
}
