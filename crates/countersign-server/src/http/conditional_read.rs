//! Extractor for reads of one approval, which lets clients that poll get a cached response.
//!
//! INVARIANT: a cached response is sent again only while the store's change counter is unchanged, whichever process
//! writes to the store. So a decision is visible from the next request on.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::access::Caller;
use crate::web::{ApiError, App, Needs as _, caller, scope};

/// An authorised caller, and the store's change counter as it was before the request read anything.
pub struct ConditionalReader {
    /// The authenticated caller.
    pub caller: Arc<Caller>,
    /// The store's change counter. `None` if the store has none or the request is a long poll: cached responses must
    /// not be used.
    pub stamp: Option<u64>,
}

impl FromRequestParts<App> for ConditionalReader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let stamp = app.store().change_counter().await?;
        let caller = caller(app, &parts.headers, stamp).await?;
        let any = scope::Look::ANY;
        // A long poll is answered only after a change, so it never gets a cached response.
        let waits = parts.uri.query().is_some_and(|query| query.contains("wait"));
        match any.iter().any(|scope| caller.may(*scope)) {
            true => Ok(ConditionalReader {
                caller,
                stamp: stamp.filter(|_| !waits),
            }),
            false => Err(ApiError::wrong_scope(any)),
        }
    }
}
