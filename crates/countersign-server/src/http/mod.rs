//! HTTP API: routes, handlers, authentication, rate limits and error responses, and the host and origin guard in front
//! of the API and the inbox pages.
//!
//! Input: requests. Output: JSON, or an error with a message and a hint on what to do.
//! Not here: approval rules. A handler parses the request, calls the gate and serializes the result.

pub(crate) mod agents;
mod app;
pub(crate) mod approvals;
mod caller_cache;
pub(crate) mod calls;
mod channels;
mod client;
mod conditional_read;
mod error;
pub(crate) mod events;
mod extract;
mod feed;
mod guard;
mod json;
mod limits;
mod metrics;
pub mod object;
mod operations;
mod response_cache;
mod revoked;
mod router;
pub(crate) mod wire;
mod writable;

pub use app::{App, Settings};
pub use caller_cache::CallerCache;
pub use client::{Client, Peer, TrustedProxies};
pub use error::{Answer, ApiError};
pub use extract::{Authorized, scope};
pub use guard::{AllowedHosts, HostGuard};
pub use json::Json;
pub use limits::{DECISIONS_PER_SECOND, LimitSettings, Limits, Slot, Slots};
pub use metrics::Metrics;
pub use response_cache::ResponseCache;
pub use revoked::{Followed, Revocations, Watch};
pub use router::{openapi, router};
pub use writable::Writable;
