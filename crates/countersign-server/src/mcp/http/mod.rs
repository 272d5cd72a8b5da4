//! Streamable HTTP on both sides of the gateway.
//!
//! Towards servers: `target` sends requests to a URL, `events` parses event streams. Towards clients: `endpoint`
//! handles their requests; `proxy` forwards them to a server at a URL; `bridge` starts a command for each session, and
//! `exchange` is one such session. `sessions` remembers the sessions of a server at a URL, `headers` checks headers
//! against bodies, and `shared` separates the requests of callers that share a server.

mod bridge;
mod endpoint;
mod events;
mod exchange;
mod headers;
mod proxy;
mod sessions;
mod shared;
mod target;

pub use endpoint::{Callers, Endpoint};
pub use target::{Heard, HttpTarget, HttpUpstream};
