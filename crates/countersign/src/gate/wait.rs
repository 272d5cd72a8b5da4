//! Waiting: woken by push, never by polling.

use std::time::Duration;

use tokio::time::Instant;

use super::Gate;
use crate::approval::{Approval, SharedApproval};
use crate::id::{ApprovalId, Tenant};
use crate::state::State;
use crate::store::StoreError;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Somebody decided, or it ended otherwise.
    Decided,
    /// Its calls have also run, or will never run.
    Finished,
}

/// How a wait ended.
#[derive(Clone, Debug)]
pub enum Waited {
    /// What was waited for came true.
    Done(SharedApproval),
    /// The waiting time ran out. That decides nothing: the approval is as it was.
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
    /// Waits until an approval is decided, or finished, or the time is up.
    pub async fn wait(
        &self,
        tenant: &Tenant,
        id: ApprovalId,
        until: Until,
        timeout: Duration,
    ) -> Result<Waited, StoreError> {
        let give_up_at = Instant::now() + timeout;
        loop {
            // Register first, look second: what happens in between is seen by one or the other.
            let waiter = self.store.hub().wait_for(id);
            let Some(approval) = self.store.approval(tenant, id).await? else {
                return Ok(Waited::NotFound);
            };
            if until.is_reached(&approval) {
                return Ok(Waited::Done(approval));
            }
            let wake_at = self
                .due_at(&approval)
                .await?
                .map_or(give_up_at, |due| due.min(give_up_at));
            drop(approval);
            match tokio::time::timeout_at(wake_at, waiter.changed()).await {
                Ok(Some(approval)) if until.is_reached(&approval) && approval.tenant == *tenant => {
                    return Ok(Waited::Done(approval));
                }
                Ok(Some(_)) => {}
                Ok(None) => return Err(StoreError::Stopped("it was closed".to_owned())),
                Err(_) => {
                    if let Some(answer) = self.time_is_up(tenant, id, until, give_up_at).await? {
                        return Ok(answer);
                    }
                }
            }
        }
    }

    /// When time itself will change the approval.
    async fn due_at(&self, approval: &Approval) -> Result<Option<Instant>, StoreError> {
        let Some(due) = approval.due_at() else {
            return Ok(None);
        };
        let left = due.since(self.store.now().await?);
        Ok(Some(Instant::now() + left + Duration::from_millis(1)))
    }

    /// Either the approval is due, and what time did to it is written down, or the one who waits gives up.
    async fn time_is_up(
        &self,
        tenant: &Tenant,
        id: ApprovalId,
        until: Until,
        give_up_at: Instant,
    ) -> Result<Option<Waited>, StoreError> {
        self.expire_due().await?;
        let Some(approval) = self.store.approval(tenant, id).await? else {
            return Ok(Some(Waited::NotFound));
        };
        if until.is_reached(&approval) {
            return Ok(Some(Waited::Done(approval)));
        }
        Ok((Instant::now() >= give_up_at).then_some(Waited::TimedOut(approval)))
    }
}
