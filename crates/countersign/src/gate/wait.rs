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
        self.wait_if(tenant, id, until, timeout, |_| true).await
    }

    /// The same for one who may not see every approval: what `may_see` turns away is not there.
    pub async fn wait_if(
        &self,
        tenant: &Tenant,
        id: ApprovalId,
        until: Until,
        timeout: Duration,
        may_see: impl Fn(&Approval) -> bool,
    ) -> Result<Waited, StoreError> {
        let give_up_at = Instant::now() + timeout;
        // Register first, look second: what happens in between is seen by one or the other.
        let waiter = self.store.hub().wait_for(id);
        let found = self.store.approval(tenant, id).await?;
        let Some(mut approval) = found.filter(|approval| may_see(approval)) else {
            return Ok(Waited::NotFound);
        };
        loop {
            if until.is_reached(&approval) {
                return Ok(Waited::Done(approval));
            }
            let wake_at = self
                .due_at(&approval)
                .await?
                .map_or(give_up_at, |due| due.min(give_up_at));
            // Who waits holds nothing.
            drop(approval);
            approval = match tokio::time::timeout_at(wake_at, waiter.changed()).await {
                Ok(Some(changed)) if changed.tenant == *tenant => changed,
                Ok(None) => return Err(StoreError::Stopped("it was closed".to_owned())),
                Ok(Some(_)) | Err(_) => {
                    // Either it is due, and what time did to it is written down, or the one who waits gives up.
                    self.expire_due().await?;
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

    /// When time itself will change the approval.
    async fn due_at(&self, approval: &Approval) -> Result<Option<Instant>, StoreError> {
        let Some(due) = approval.due_at() else {
            return Ok(None);
        };
        let left = due.since(self.store.now().await?);
        Ok(Some(Instant::now() + left + Duration::from_millis(1)))
    }
}
