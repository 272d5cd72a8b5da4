//! The JSON API: its routes and handlers.
//!
//! Input: requests. Output: JSON, or an error with a message and a hint on what to do. Approval rules are in the
//! library. A handler only parses the request, calls the service and serializes the result.

mod agents;
mod approvals;
mod calls;
mod channels;
mod conditional_read;
mod events;
mod operations;
mod people;
mod router;

pub use router::{openapi, router};
