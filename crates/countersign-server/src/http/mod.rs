//! The HTTP surface: the API, and the door in front of it and of the pages.
//!
//! Enters: requests. Leaves: JSON, or an error that says what is so and what to do now.
//! Deliberately absent: rules. A handler reads the request, asks the gate and writes the answer.

pub(crate) mod agents;
mod app;
pub(crate) mod approvals;
pub(crate) mod calls;
mod channels;
mod client;
mod door;
mod error;
pub(crate) mod events;
mod extract;
mod feed;
mod json;
mod known;
mod limits;
mod look;
mod metrics;
mod object;
mod operations;
mod revoked;
mod router;
pub(crate) mod wire;
mod written;

pub use app::{App, Settings};
pub use client::{Client, Peer, TrustedProxies};
pub use door::{AllowedHosts, Door};
pub use error::{Answer, ApiError};
pub use extract::{For, scope};
pub use json::Json;
pub use known::Known;
pub use limits::{DECISIONS_PER_SECOND, LimitSettings, Limits, Slot, Slots};
pub use metrics::Metrics;
pub use revoked::{Revocations, Watch};
pub use router::{openapi, router};
pub use written::Written;
