//! Looking at one approval again and again, as programs do that do not wait.
//!
//! INVARIANT: what was shown is shown again only while the store says that nothing in it has changed since, whoever writes to
//! it. So what is decided is so with the next look.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::extract::{Needs as _, scope};
use super::known::caller;
use super::{ApiError, App};
use crate::access::Caller;

/// Somebody who may look, and the store's stamp before anything was read for them.
pub struct Looker {
    /// Who.
    pub caller: Arc<Caller>,
    /// What was read since is still so while the store tells the same.
    pub stamp: Option<u64>,
}

impl FromRequestParts<App> for Looker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let stamp = app.store().stamp().await?;
        let caller = caller(app, &parts.headers, stamp).await?;
        let any = scope::Look::ANY;
        // Who waits is answered only when something has changed.
        let waits = parts.uri.query().is_some_and(|query| query.contains("wait"));
        match any.iter().any(|scope| caller.may(*scope)) {
            true => Ok(Looker {
                caller,
                stamp: stamp.filter(|_| !waits),
            }),
            false => Err(ApiError::wrong_scope(any)),
        }
    }
}
