//! HTTP machinery that the API and the pages share: listener, TLS, host and origin guard, extractors, error responses,
//! streams of events.
//!
//! Input: connections. Output: checked requests to the routes, and their responses. The routes are defined elsewhere.

mod allowed_origins;
mod app;
mod body;
mod caller_cache;
mod client;
mod error;
mod event_stream;
mod extract;
mod guard;
pub mod json;
mod known_queries;
mod language;
pub mod listener;
mod response_cache;
mod stream;
pub mod tls;

pub use allowed_origins::AllowedOrigins;
pub use app::{App, Settings};
pub use caller_cache::CallerCache;
pub(crate) use caller_cache::caller;
pub use client::{Client, Peer, TrustedProxies};
pub use error::{Answer, ApiError};
pub use event_stream::{Filter, stream};
pub use extract::{Authorized, BearerSecret, Body, Id, IdempotencyKeyHeader, Needs, QueryParams, scope};
pub use guard::{AllowedHosts, ErrorPage, HostGuard};
pub use json::Json;
pub use known_queries::KnownQueries;
pub use language::PreferredLanguages;
pub use response_cache::ResponseCache;
