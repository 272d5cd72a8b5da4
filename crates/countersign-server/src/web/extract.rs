//! Axum extractors that reject with [`ApiError`].

use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use countersign::id::Key;
use countersign::seal::Secret;
use serde::de::DeserializeOwned;

use super::caller_cache::{caller, token};
use super::{ApiError, App};
use crate::access::{Caller, Scope};
use crate::object;

/// Extracts an authenticated caller whose credential has one of the scopes in `S`.
pub struct Authorized<S>(pub Arc<Caller>, pub PhantomData<S>);

/// Set of scopes that a route accepts. A credential needs one of them.
pub trait Needs: Send + Sync + 'static {
    /// Accepted scopes, of which a credential needs one.
    const ANY: &'static [Scope];
}

/// Sets of scopes that routes accept.
pub mod scope {
    use super::Needs;
    use crate::access::Scope;

    macro_rules! needs {
        ($($name:ident = [$($scope:ident),+];)+) => {$(
            /// Scope set named after what it allows.
            pub struct $name;
            impl Needs for $name {
                const ANY: &'static [Scope] = &[$(Scope::$scope),+];
            }
        )+};
    }
    needs! {
        Propose = [Propose];
        // Agents may read and await their own approvals.
        Look = [Read, Propose, Wait];
        Read = [Read];
        Decide = [Decide];
        Execute = [Execute];
        // An agent may start its own released calls.
        Start = [Execute, Agent];
        // An agent that runs its own tools reports how a passed call ended.
        Finish = [Execute, Propose];
        Reply = [Reply];
        Chat = [Chat];
        // For participants of the conversation, and for readers.
        Converse = [Read, Reply, Propose, Wait];
        Admin = [Admin];
        // The handler itself checks the scope.
        Anyone = [Propose, Wait, Read, Decide, Execute, Reply, Chat, Admin];
    }
}

impl<S: Needs> FromRequestParts<App> for Authorized<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = caller(app, &parts.headers, app.store().change_counter().await?).await?;
        match S::ANY.iter().any(|scope| caller.may(*scope)) {
            true => Ok(Authorized(caller, PhantomData)),
            false => Err(ApiError::wrong_scope(S::ANY)),
        }
    }
}

/// Extracts the text of the bearer token, as a secret of the caller. Stores have only its hash.
pub struct BearerSecret(pub Secret);

impl FromRequestParts<App> for BearerSecret {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        token(&parts.headers).map(|token| BearerSecret(Secret::new(token)))
    }
}

/// Extracts a JSON object from the body. Requires `Content-Type: application/json`.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let is_json = kind.and_then(|kind| kind.to_str().ok()).is_some_and(|kind| {
            let kind = kind.split(';').next().unwrap_or_default();
            kind.trim().eq_ignore_ascii_case("application/json")
        });
        let bytes = Bytes::from_request(request, app).await.map_err(unread)?;
        if !is_json {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not_json",
                "expected `Content-Type: application/json`",
                "send `Content-Type: application/json`",
            ));
        }
        object::read(&bytes).map(Body).map_err(|error| {
            let message = format!("the request body is not valid: {error}");
            ApiError::bad_request(message)
        })
    }
}

fn unread(rejection: BytesRejection) -> ApiError {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large("the body is too large"),
        _ => ApiError::bad_request("the request body could not be read"),
    }
}

/// Extracts an id from the path. Answers 404 if the id does not parse.
pub struct Id<T>(pub T);

impl<T: FromStr + Send> FromRequestParts<App> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let text = Path::<String>::from_request_parts(parts, app).await;
        let id = text.ok().and_then(|Path(text)| text.parse().ok());
        id.map(Id).ok_or_else(|| ApiError::not_found("id"))
    }
}

/// Extracts the query parameters. Answers 400 if they do not parse.
pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let query = Query::<T>::from_request_parts(parts, app).await;
        query
            .map(|Query(asked)| QueryParams(asked))
            .map_err(|error| ApiError::bad_request(error.body_text()))
    }
}

/// Extracts the `Idempotency-Key` header; `None` if there is none. Answers 400 if the key is not valid.
pub struct IdempotencyKeyHeader(pub Option<Key>);

impl FromRequestParts<App> for IdempotencyKeyHeader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get("idempotency-key") else {
            return Ok(IdempotencyKeyHeader(None));
        };
        let plain = value
            .to_str()
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
        let text = plain.ok_or_else(|| {
            ApiError::bad_request("the idempotency key must be one word of printable ASCII characters")
        })?;
        let key = Key::new(text).map_err(|problem| ApiError::bad_request(problem.to_string()))?;
        Ok(IdempotencyKeyHeader(Some(key)))
    }
}
