//! Prometheus metrics.

use std::sync::atomic::AtomicU64;

use countersign::approval::Approval;
use countersign::decision::Refusal;
use countersign::state::CallState;
use countersign::time::ClockTrouble;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

type Labels = [(&'static str, &'static str); 1];

/// An approval given less than this many seconds after the proposal counts as hasty: the person can hardly have read
/// the card.
pub const HASTY_SECONDS: f64 = 2.0;

/// Counters, gauges and their registry.
pub struct Metrics {
    registry: Registry,
    proposed: Counter,
    decided: Family<Labels, Counter>,
    refused: Family<Labels, Counter>,
    finished: Family<Labels, Counter>,
    hasty: Counter,
    decision_seconds: Histogram,
    expired: Counter,
    pending: Gauge,
    oldest_seconds: Gauge<f64, AtomicU64>,
    store_writable: Gauge,
    outcomes_unrecorded: Gauge,
    clock_apart_seconds: Gauge<f64, AtomicU64>,
    webhooks: Family<Labels, Counter>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = Registry::with_prefix("countersign");
        let buckets = [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];
        let metrics = Metrics {
            registry: Registry::default(),
            proposed: Counter::default(),
            decided: Family::default(),
            refused: Family::default(),
            finished: Family::default(),
            hasty: Counter::default(),
            decision_seconds: Histogram::new(buckets),
            expired: Counter::default(),
            pending: Gauge::default(),
            oldest_seconds: Gauge::default(),
            store_writable: Gauge::default(),
            outcomes_unrecorded: Gauge::default(),
            clock_apart_seconds: Gauge::default(),
            webhooks: Family::default(),
        };
        registry.register(
            "approvals_proposed",
            "Approvals proposed here",
            metrics.proposed.clone(),
        );
        registry.register(
            "approvals_decided",
            "Decisions accepted here",
            metrics.decided.clone(),
        );
        registry.register(
            "decisions_refused",
            "Decisions refused here, by reason",
            metrics.refused.clone(),
        );
        registry.register(
            "calls_finished",
            "Calls that ended here, by outcome",
            metrics.finished.clone(),
        );
        registry.register("hasty_approvals", "Approved in under 2 s", metrics.hasty.clone());
        registry.register(
            "decision_seconds",
            "Time from proposal to decision",
            metrics.decision_seconds.clone(),
        );
        registry.register(
            "approvals_expired",
            "Approvals that expired",
            metrics.expired.clone(),
        );
        registry.register("approvals_pending", "Pending approvals", metrics.pending.clone());
        registry.register(
            "oldest_pending_seconds",
            "Age of the oldest pending approval",
            metrics.oldest_seconds.clone(),
        );
        registry.register(
            "store_writable",
            "1 while this node can write to the store, else 0",
            metrics.store_writable.clone(),
        );
        registry.register(
            "outcomes_unrecorded",
            "Known outcomes of calls that are not recorded in the store yet",
            metrics.outcomes_unrecorded.clone(),
        );
        registry.register(
            "clock_apart_seconds",
            "Seconds between the store's time and this machine's clock, once that is over an hour",
            metrics.clock_apart_seconds.clone(),
        );
        registry.register(
            "webhook_requests",
            "Requests to webhooks: delivered, failed, or given up after three days",
            metrics.webhooks.clone(),
        );
        Metrics { registry, ..metrics }
    }
}

impl Metrics {
    /// Counts a new approval.
    pub fn proposed(&self, _: &Approval) {
        self.proposed.inc();
    }

    /// Counts a decision: if it was refused, the reason; otherwise the verdict and the time from the proposal to the
    /// decision. Does nothing if the approval is not decided yet.
    pub fn decided(&self, approval: Option<&Approval>, refusal: Option<&Refusal>) {
        if let Some(refusal) = refusal {
            self.refused.get_or_create(&[("reason", refusal.code())]).inc();
            return;
        }
        let Some(approval) = approval else { return };
        let Some(decided) = &approval.decision else { return };
        let verdict = if decided.approved { "approved" } else { "denied" };
        self.decided.get_or_create(&[("verdict", verdict)]).inc();
        let seconds = decided.at.since(approval.created_at).as_secs_f64();
        self.decision_seconds.observe(seconds);
        if decided.approved && seconds < HASTY_SECONDS {
            self.hasty.inc();
        }
    }

    /// Counts a decision made by a chat reply, and the outcomes of the calls that the decision released.
    pub fn answered(&self, approval: Option<&Approval>, refusal: Option<&Refusal>) {
        self.decided(approval, refusal);
        if let (Some(approval), None) = (approval, refusal) {
            self.finished(approval);
        }
    }

    /// Counts a request to a webhook; `result` is `delivered`, `failed` or `given_up`.
    pub fn webhook(&self, result: &'static str) {
        self.webhooks.get_or_create(&[("result", result)]).inc();
    }

    /// Counts an attempt to decide by a caller whose credential lacks the scope.
    pub fn attempted(&self) {
        self.refused.get_or_create(&[("reason", "wrong_scope")]).inc();
    }

    /// Counts the outcomes of an approval's calls.
    pub fn finished(&self, approval: &Approval) {
        let ended = [CallState::Succeeded, CallState::Failed, CallState::Unknown];
        for call in approval.calls.iter().filter(|call| ended.contains(&call.state)) {
            self.finished
                .get_or_create(&[("outcome", call.state.as_str())])
                .inc();
        }
    }

    /// Counts expired approvals.
    pub fn expired(&self, count: u64) {
        self.expired.inc_by(count);
    }

    /// Sets the number of pending approvals and the age of the oldest one.
    pub fn waiting(&self, count: u64, oldest_seconds: f64) {
        self.pending.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.oldest_seconds.set(oldest_seconds);
    }

    /// Sets the gauges about the store: whether it accepts writes, how many outcomes it has not recorded yet, and the
    /// difference between its clock and this machine's, which is 0 if `clock` is `None`.
    pub fn store(&self, is_writable: bool, unrecorded: usize, clock: Option<ClockTrouble>) {
        self.store_writable.set(is_writable.into());
        self.outcomes_unrecorded
            .set(i64::try_from(unrecorded).unwrap_or(i64::MAX));
        let apart = clock.map(ClockTrouble::apart).unwrap_or_default();
        self.clock_apart_seconds.set(apart.as_secs_f64());
    }

    /// Renders all metrics in the OpenMetrics text format. Empty if that fails.
    pub fn text(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(_) => String::new(),
        }
    }
}
