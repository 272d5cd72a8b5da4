//! HTTP API: routes, handlers, authentication, rate limits and error responses, and the host and origin guard in front
//! of the API and the inbox pages.
//!
//! Input: requests. Output: JSON, or an error with a message and a hint on what to do.
//! Not here: approval rules. A handler parses the request, calls the gate and serializes the result.

pub(crate) mod agents;
mod app;
pub(crate) mod approvals;
pub(crate) mod calls;
mod channels;
mod client;
mod guard;
mod error;
pub(crate) mod events;
mod extract;
mod feed;
mod json;
mod caller_cache;
mod limits;
mod conditional_read;
mod metrics;
pub mod object;
mod operations;
mod revoked;
mod router;
pub(crate) mod wire;
mod writable;
mod response_cache;

pub use app::{App, Settings};
pub use client::{Client, Peer, TrustedProxies};
pub use guard::{AllowedHosts, Door};
pub use error::{Answer, ApiError};
pub use extract::{For, scope};
pub use json::Json;
pub use caller_cache::Known;
pub use limits::{DECISIONS_PER_SECOND, LimitSettings, Limits, Slot, Slots};
pub use metrics::Metrics;
pub use revoked::{Followed, Revocations, Watch};
pub use router::{openapi, router};
pub use writable::Writable;
pub use response_cache::Written;
