//! What every handler shares.

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

use super::feed::Feeds;
use super::{AllowedHosts, Known, LimitSettings, Limits, Metrics, Revocations, Written};
use crate::agents::Agents;

/// The service's state. Clones share everything.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// What the state is made of.
pub struct Parts {
    /// The gate.
    pub gate: Gate,
    /// Conversations over the gate.
    pub conversations: Conversations,
    /// How the operator wants it.
    pub settings: Settings,
    /// Who asks too often.
    pub limits: Limits,
    /// What is counted.
    pub metrics: Metrics,
    /// Who called lately.
    pub known: Known,
    /// Who follows something, and may have to stop.
    pub revocations: Revocations,
    /// Answers about approvals.
    pub written: Written,
    /// Events as they happen.
    pub feeds: Feeds,
    /// The agents it serves.
    pub agents: Agents,
    /// Calls that run, and turns of served agents; a stop waits for them.
    pub runs: TaskTracker,
    /// Set when the service is about to stop.
    pub stopping: CancellationToken,
}

/// How the operator wants it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The tenant of people who sign in by name; tokens and sessions carry their own.
    pub tenant: Tenant,
    /// The names under which the service may be called.
    pub hosts: AllowedHosts,
    /// The longest a request may wait for a decision.
    pub longest_wait: Duration,
    /// How many decisions one person may make in a second.
    pub decisions_per_second: NonZeroU32,
    /// All other limits.
    pub limits: LimitSettings,
    /// Whether a proxy in front speaks TLS for us.
    pub is_secure: bool,
    /// The address of the pages, for messages that lead there; nothing where it is not known.
    pub page: Option<String>,
}

impl App {
    /// A service over a gate.
    pub fn new(gate: Gate, settings: Settings) -> App {
        App::serving(gate, settings, Agents::default())
    }

    /// A service over a gate, with agents to talk to.
    pub fn serving(gate: Gate, settings: Settings, agents: Agents) -> App {
        let conversations = Conversations::new(gate.clone());
        App(Arc::new(Parts {
            conversations: match &settings.page {
                Some(page) => conversations.with_page(page.as_str()),
                None => conversations,
            },
            gate,
            limits: Limits::new(settings.decisions_per_second, &settings.limits),
            settings,
            metrics: Metrics::default(),
            known: Known::default(),
            revocations: Revocations::default(),
            written: Written::default(),
            feeds: Feeds::default(),
            agents,
            runs: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }))
    }

    /// The store behind the gate.
    pub fn store(&self) -> &dyn Store {
        self.gate.store()
    }
}

impl Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}
