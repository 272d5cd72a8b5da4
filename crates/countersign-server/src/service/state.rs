//! State of a running service.

use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use countersign::conversation::Conversations;
use countersign::gate::Gate;
use countersign::id::Tenant;
use countersign::store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::agents::Agents;
use super::{Feeds, Followed, LimitSettings, Limits, Metrics, Revocations, Writable};

/// State of a service. Clones share the same parts.
#[derive(Clone)]
pub struct Service(Arc<Parts>);

/// Parts that a service consists of.
pub struct Parts {
    /// Gate that rules on calls, records decisions and runs calls.
    pub gate: Gate,
    /// Reads chat replies and applies them as decisions through the gate.
    pub conversations: Conversations,
    /// Operator configuration.
    pub settings: Settings,
    /// Rate and concurrency limits.
    pub limits: Limits,
    /// Counters and gauges for the `/metrics` endpoint.
    pub metrics: Metrics,
    /// Result of this node's last background write, for the readiness check.
    pub writable: Writable,
    /// Open streams and long polls, which end when their credential is revoked.
    pub revocations: Revocations,
    /// Live event feeds, one per tenant.
    pub feeds: Feeds,
    /// Agents hosted by this service.
    pub agents: Agents,
    /// Running calls and turns of served agents. Shutdown waits for them.
    pub runs: TaskTracker,
    /// Cancelled when shutdown begins.
    pub stopping: CancellationToken,
}

/// Operator configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The tenant of people who sign in by name; tokens and sessions carry their own.
    pub tenant: Tenant,
    /// Maximum time that a long poll may wait for a decision.
    pub longest_wait: Duration,
    /// Maximum number of decisions per person and second.
    pub decisions_per_second: NonZeroU32,
    /// Limits from the `[limits]` table of the configuration.
    pub limits: LimitSettings,
    /// Base URL of the inbox pages, for links in messages. `None` if it is unknown.
    pub page: Option<String>,
}

impl Service {
    /// Creates the state of a service that hosts `agents`.
    pub fn new(gate: Gate, settings: Settings, agents: Agents) -> Service {
        let conversations = Conversations::new(gate.clone());
        Service(Arc::new(Parts {
            conversations: match &settings.page {
                Some(page) => conversations.with_page(page.as_str()),
                None => conversations,
            },
            gate,
            limits: Limits::new(settings.decisions_per_second, &settings.limits),
            settings,
            metrics: Metrics::default(),
            writable: Writable::default(),
            revocations: Revocations::default(),
            feeds: Feeds::default(),
            agents,
            runs: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }))
    }

    /// Returns the store behind the gate.
    pub fn store(&self) -> &dyn Store {
        self.gate.store()
    }
}

impl Followed for Service {
    fn store(&self) -> &dyn Store {
        self.gate.store()
    }

    fn revocations(&self) -> &Revocations {
        &self.revocations
    }

    fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }
}

impl Deref for Service {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}
