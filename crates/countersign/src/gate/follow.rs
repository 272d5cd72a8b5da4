//! Follows a tenant's approvals: new approvals for surfaces that ask people, and released ones for the hosts that run
//! their calls.
//!
//! Followers read the store's feed when the store signals a change. [`Gate::pending`] streams approvals,
//! [`Gate::next_released`] returns them in pages, and [`Gate::maintain`] is the background work of a host that embeds
//! the gate.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{Stream, try_unfold};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Gate;
use crate::approval::SharedApproval;
use crate::event::EventKind;
use crate::id::{ApprovalId, Tenant};
use crate::state::State;
use crate::store::{Cursor, FeedEvent, Filter, LONGEST_PAGE, StoreError};
use crate::wake::Changes;

/// Interval at which [`Gate::maintain`] sweeps. An approval expires in time even without a sweep, which only records
/// the expiry.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Maximum time until the feed is read again without a signal: a store on a network may signal a commit before the feed
/// shows it.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of approvals whose calls [`Gate::maintain`] runs at the same time.
const MOST_AT_ONCE: usize = 100;

/// Position in a tenant's released approvals. A new cursor starts with the approvals that are released already.
#[derive(Clone, Debug, Default)]
pub struct ReleasedCursor(Position);

#[derive(Clone, Debug, Default)]
enum Position {
    #[default]
    Start,
    /// The approvals that were open at the start are being listed. Afterwards the feed is read from `then`.
    Listing {
        after: Option<ApprovalId>,
        then: Cursor,
    },
    Feed(Cursor),
}

impl Gate {
    /// Streams the approvals of a tenant that wait for a decision: first those that wait now, oldest first, then every
    /// new one. An approval may have been decided by the time the stream returns it.
    ///
    /// Ends when the store is closed. After an error the stream is over; call this again to continue.
    pub fn pending(
        &self,
        tenant: &Tenant,
    ) -> impl Stream<Item = Result<SharedApproval, StoreError>> + Send + 'static {
        let follower = Follower {
            gate: self.clone(),
            tenant: tenant.clone(),
            // Subscribe before reading anything, so that no change in between is missed.
            changes: self.store.hub().changes(),
            cursor: None,
            listed: HashSet::new(),
            ready: VecDeque::new(),
        };
        try_unfold(follower, |mut follower| async move {
            let next = follower.next().await?;
            Ok(next.map(|approval| (approval, follower)))
        })
    }

    /// Returns the next page of approvals with released calls: first those already released, then those released later,
    /// by any process. The second value is true if there may be more.
    pub async fn next_released(
        &self,
        tenant: &Tenant,
        cursor: &mut ReleasedCursor,
    ) -> Result<(Vec<SharedApproval>, bool), StoreError> {
        match &mut cursor.0 {
            position @ Position::Start => {
                let then = self.store.feed_end(tenant).await?;
                *position = Position::Listing { after: None, then };
                Ok((Vec::new(), true))
            }
            Position::Listing { after, then } => {
                let filter = Filter {
                    state: Some(State::Approved),
                    open: true,
                    after: *after,
                    limit: Some(LONGEST_PAGE),
                    ..Filter::default()
                };
                let page = self.store.list(tenant, &filter).await?;
                *after = page.last().map(|approval| approval.id);
                if !filter.is_full(&page) {
                    cursor.0 = Position::Feed(*then);
                }
                Ok((page, true))
            }
            Position::Feed(at) => {
                let released = self.store.released(tenant, *at).await?;
                *at = released.upto;
                Ok((released.approvals, released.is_more))
            }
        }
    }

    /// Does a gate's background work for one tenant, until the store is closed or permanently refuses writes. Records
    /// expiries and timeouts. Runs calls that were released by another process or before this process started, if this
    /// gate's executor runs their tools. Temporary errors are retried.
    ///
    /// A service spawns this once per tenant. Without it, approvals still expire in time, but calls run only if they
    /// are decided through [`decide_and_run`](Gate::decide_and_run) of this gate.
    pub async fn maintain(&self, tenant: &Tenant) -> Result<(), StoreError> {
        let mut changes = self.store.hub().changes();
        let mut sweeps = interval(SWEEP_EVERY);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut cursor = ReleasedCursor::default();
        let room = Arc::new(Semaphore::new(MOST_AT_ONCE));
        loop {
            self.store.health()?;
            // The error may be temporary: the same position is read again after the next signal or sweep.
            while let Ok((approvals, is_more)) = self.next_released(tenant, &mut cursor).await {
                for approval in approvals {
                    self.run_in_background(tenant, approval, &room).await;
                }
                if !is_more {
                    break;
                }
            }
            tokio::select! {
                is_open = changes.next() => {
                    if !is_open {
                        return Ok(());
                    }
                }
                // A failed sweep is tried again at the next tick.
                _ = sweeps.tick() => drop(self.expire_due().await),
            }
        }
    }

    async fn run_in_background(&self, tenant: &Tenant, approval: SharedApproval, room: &Arc<Semaphore>) {
        if !approval.is_released() {
            return;
        }
        let place = room.clone().acquire_owned().await;
        let (gate, tenant) = (self.clone(), tenant.clone());
        tokio::spawn(async move {
            let _place = place;
            // A call that could not be started stays released, and is found again after a restart.
            let _ = gate.run_released(&tenant, approval).await;
        });
    }
}

fn is_proposal(entry: &&FeedEvent) -> bool {
    matches!(entry.event.what, EventKind::Proposed { .. })
}

/// State of [`Gate::pending`].
struct Follower {
    gate: Gate,
    tenant: Tenant,
    changes: Changes,
    /// Position in the feed; `None` until the approvals that are pending at the beginning have been listed.
    cursor: Option<Cursor>,
    /// Approvals that were listed at the beginning. They are remembered, because the feed may return them once more.
    listed: HashSet<ApprovalId>,
    ready: VecDeque<SharedApproval>,
}

impl Follower {
    async fn next(&mut self) -> Result<Option<SharedApproval>, StoreError> {
        loop {
            if let Some(approval) = self.ready.pop_front() {
                return Ok(Some(approval));
            }
            let Some(cursor) = self.cursor else {
                self.list().await?;
                continue;
            };
            let page = self.gate.store.feed(&self.tenant, cursor, LONGEST_PAGE).await?;
            let Some(last) = page.last() else {
                if let Ok(false) = timeout(READ_AGAIN_AFTER, self.changes.next()).await {
                    return Ok(None);
                }
                continue;
            };
            self.cursor = Some(last.cursor);
            for entry in page.iter().filter(is_proposal) {
                if self.listed.remove(&entry.approval) {
                    continue;
                }
                let approval = self.gate.store.approval(&self.tenant, entry.approval).await?;
                self.ready
                    .extend(approval.filter(|approval| approval.state == State::Pending));
            }
        }
    }

    async fn list(&mut self) -> Result<(), StoreError> {
        let cursor = self.gate.store.feed_end(&self.tenant).await?;
        let mut filter = Filter {
            limit: Some(LONGEST_PAGE),
            ..Filter::pending()
        };
        loop {
            let page = self.gate.store.list(&self.tenant, &filter).await?;
            filter.after = page.last().map(|approval| approval.id);
            let is_last = !filter.is_full(&page);
            self.listed.extend(page.iter().map(|approval| approval.id));
            self.ready.extend(page);
            if is_last {
                self.cursor = Some(cursor);
                return Ok(());
            }
        }
    }
}
