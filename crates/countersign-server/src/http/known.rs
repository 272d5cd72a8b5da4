//! Who calls: known without a look while nothing in the store has changed.
//!
//! INVARIANT: a caller is used again only while the store says that nothing in it has changed since, whoever writes to it. So
//! what is revoked is so with the next request.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use countersign::hash::Hash;
use countersign::recent::Recent;

use super::{ApiError, App};
use crate::access::{Caller, Token};

/// Room for some thousand callers.
const MOST_BYTES: usize = 1024 * 1024;
/// About what a caller takes.
const CALLER_BYTES: usize = 512;

/// Callers, by the hash of their token, with the stamp of the store before they were looked up.
pub struct Known(Recent<Hash, (u64, Arc<Caller>)>);

impl Default for Known {
    fn default() -> Self {
        Known(Recent::new(MOST_BYTES))
    }
}

/// Who calls the API: by token, and by nothing else. A page's cookie opens no API, so no page can be made to call it.
pub(super) async fn caller(
    app: &App,
    headers: &HeaderMap,
    stamp: Option<u64>,
) -> Result<Arc<Caller>, ApiError> {
    let token = token(headers)?;
    let name = stamp.map(|stamp| (Hash::of(token.as_bytes()), stamp));
    if let Some((name, stamp)) = &name {
        let now = app.store().now().await?;
        let is_true = |(at, caller): &(u64, Arc<Caller>)| {
            at == stamp && caller.expires_at.is_none_or(|expires_at| now < expires_at)
        };
        if let Some((_, caller)) = app.known.0.get(name, is_true) {
            return Ok(caller);
        }
    }
    let caller = Token::open(app.store(), token).await?;
    let caller = Arc::new(caller.ok_or_else(ApiError::unauthorized)?);
    if let Some((name, stamp)) = name {
        app.known.0.keep(name, (stamp, caller.clone()), CALLER_BYTES);
    }
    Ok(caller)
}

/// The token that a request shows.
fn token(headers: &HeaderMap) -> Result<&str, ApiError> {
    let shown = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let token = shown.and_then(|shown| {
        let (scheme, token) = shown.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    token.ok_or_else(ApiError::unauthorized)
}
