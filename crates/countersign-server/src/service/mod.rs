//! The service between the gate and its surfaces: state, decisions, visibility, event feeds, limits, served agents.
//!
//! Input: requests of a caller whose credential was checked. Output: approvals, event streams, or a [`ServiceError`].
//! This module knows nothing of HTTP, HTML or any other surface. Surfaces depend on this module, and never on each
//! other; the test `layers` checks that.

pub mod agents;
mod approvals;
mod error;
mod feed;
mod limits;
mod metrics;
mod revocations;
mod state;
mod writable;

pub use approvals::{LONGEST_COMMENT, check_own_call, decide_and_run, is_visible, reconcile, visible, wait};
pub use error::ServiceError;
pub use feed::{EventWithApproval, Feeds, StreamEventId, read as read_feed};
pub use limits::{DECISIONS_PER_SECOND, LimitSettings, Limits, OpenStream, Slot, Slots};
pub use metrics::Metrics;
pub use revocations::{Followed, Revocations, Watch};
pub use state::{Service, Settings};
pub use writable::Writable;

/// Returns a random 128-bit id in hexadecimal.
pub fn random_id() -> Result<String, ServiceError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| ServiceError::Internal)?;
    Ok(format!("{:032x}", u128::from_be_bytes(random)))
}
