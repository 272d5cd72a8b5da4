//! Streamable HTTP, on either side of the gateway.
//!
//! `way` is the way to a server at an address, `events` cuts its streams into messages. `endpoint` is what clients
//! call; `proxy` passes their requests on to a server at an address, header by header and event by event; `bridge`
//! gives each of them a server of its own, where that is a command, and `exchange` is one conversation with it.

mod bridge;
mod endpoint;
mod events;
mod exchange;
mod headers;
mod proxy;
mod shared;
mod way;

pub use endpoint::{Callers, Endpoint};
pub use way::{Heard, HttpUpstream, Way};
