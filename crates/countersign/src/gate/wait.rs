//! Waits for approvals. Waiters are woken by notifications and do not poll.

use std::time::Duration;

use tokio::time::Instant;

use super::Gate;
use super::run::require_timers;
use crate::approval::{Approval, SharedApproval};
use crate::id::{ApprovalId, Tenant};
use crate::state::State;
use crate::store::StoreError;

/// Condition to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The approval was decided or has ended otherwise.
    Decided,
    /// The approval was decided or has ended otherwise, and all its calls have ended or will never run.
    Finished,
}

/// Minimum time between two sweeps of one waiter. Without it, a waiter could sweep in a tight loop: an approval stays
/// due after a sweep while the store's clock is in doubt, or if the approval's rows are inconsistent.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(1);
/// Maximum time to wait, for callers whose timeout is practically unlimited.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Returns the time after `wait`, at most [`LONGEST_WAIT`] from now.
fn later(wait: Duration) -> Instant {
    Instant::now() + wait.min(LONGEST_WAIT)
}

/// Result of a wait.
#[derive(Clone, Debug)]
pub enum Waited {
    /// The condition was met.
    Done(SharedApproval),
    /// The time to wait ran out. The approval is unaffected.
    TimedOut(SharedApproval),
    /// There is no such approval.
    NotFound,
}

impl Until {
    fn is_reached(self, approval: &Approval) -> bool {
        match self {
            Until::Decided => approval.state != State::Pending,
            Until::Finished => approval.is_finished(),
        }
    }
}

impl Gate {
    /// Waits until an approval is decided or finished, or until the timeout has passed.
    pub async fn wait(
        &self,
        tenant: &Tenant,
        id: ApprovalId,
        until: Until,
        timeout: Duration,
    ) -> Result<Waited, StoreError> {
        self.wait_if(tenant, id, until, timeout, |_| true).await
    }

    /// Like [`wait`](Self::wait), but for a caller who may not see every approval. If `may_see` returns false, the
    /// result is [`Waited::NotFound`].
    pub async fn wait_if(
        &self,
        tenant: &Tenant,
        id: ApprovalId,
        until: Until,
        timeout: Duration,
        may_see: impl Fn(&Approval) -> bool,
    ) -> Result<Waited, StoreError> {
        require_timers()?;
        let give_up_at = later(timeout);
        // Register before reading, so that no change in between is missed.
        let waiter = self.store.hub().wait_for(id);
        let found = self.store.approval(tenant, id).await?;
        let Some(mut approval) = found.filter(|approval| may_see(approval)) else {
            return Ok(Waited::NotFound);
        };
        let mut not_before = Instant::now();
        loop {
            if until.is_reached(&approval) {
                return Ok(Waited::Done(approval));
            }
            let due_at = self.due_at(&approval).await?;
            let wake_at = due_at.map_or(give_up_at, |due| due.max(not_before).min(give_up_at));
            // Free the memory while waiting.
            drop(approval);
            approval = match tokio::time::timeout_at(wake_at, waiter.changed()).await {
                Ok(Some(changed)) if changed.tenant == *tenant => changed,
                Ok(None) => return Err(StoreError::Stopped("it was closed".to_owned())),
                Ok(Some(_)) | Err(_) => {
                    // The approval is due and has to be swept, or the caller's time is up.
                    self.expire_due().await?;
                    not_before = later(BETWEEN_SWEEPS);
                    let Some(current) = self.store.approval(tenant, id).await? else {
                        return Ok(Waited::NotFound);
                    };
                    if !until.is_reached(&current) && Instant::now() >= give_up_at {
                        return Ok(Waited::TimedOut(current));
                    }
                    current
                }
            };
        }
    }

    /// Returns the time at which the approval expires, or its calls become stale or time out; `None` if nothing is due.
    async fn due_at(&self, approval: &Approval) -> Result<Option<Instant>, StoreError> {
        let Some(due) = approval.due_at() else {
            return Ok(None);
        };
        let left = due.since(self.store.now().await?);
        Ok(Some(Instant::now() + left + Duration::from_millis(1)))
    }
}
