//! Rate limit on agents' proposals, for gates in long-running processes.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use countersign::gate::{Gate, Pace};
use countersign::id::{Agent, Person, Tenant};

use crate::rate::RateTable;

/// Adds the rate limit that the gate's policy sets. Without one, the gate is returned unchanged.
pub fn with_rate_limit(gate: Gate) -> Gate {
    let rate = gate.policy().agents().proposals_per_minute;
    match rate.and_then(NonZeroU32::new) {
        Some(rate) => gate.with_pace(Arc::new(Proposals(per_minute(rate)))),
        None => gate,
    }
}

/// Creates a rate limit of `rate` proposals per minute. Up to half of them may come at once.
fn per_minute(rate: NonZeroU32) -> RateTable {
    RateTable::new(rate, Duration::from_secs(60), rate.get().div_ceil(2))
}

struct Proposals(RateTable);

impl Pace for Proposals {
    fn propose(&self, tenant: &Tenant, agent: &Agent, requester: &Person) -> Result<(), Duration> {
        self.0.take((tenant.as_str(), agent.as_str(), requester.as_str()))
    }
}
