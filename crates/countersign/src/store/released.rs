//! What was approved and waits for somebody to run it.

use std::collections::BTreeSet;

use super::{Cursor, LONGEST_PAGE, Store, StoreError};
use crate::approval::{Approval, SharedApproval};
use crate::event::What;
use crate::id::{ApprovalId, Tenant};
use crate::state::CallState;

/// Approvals with calls that may run, none of which is running.
#[derive(Clone, Debug)]
pub struct Released {
    /// The approvals, as they stand now.
    pub approvals: Vec<SharedApproval>,
    /// Where to look on.
    pub upto: Cursor,
    /// True when there is more to look at already.
    pub is_more: bool,
}

impl Approval {
    /// True when a call of it may run and none is running: whoever runs one goes on with the next.
    pub fn is_released(&self) -> bool {
        let has = |state| self.calls.iter().any(|call| call.state == state);
        has(CallState::Released) && !has(CallState::Running)
    }
}

/// By the events: for stores that have no shorter way.
pub(super) async fn released<S: Store + ?Sized>(
    store: &S,
    tenant: &Tenant,
    after: Cursor,
) -> Result<Released, StoreError> {
    let page = store.feed(tenant, after, LONGEST_PAGE).await?;
    let mut approvals = Vec::new();
    let approved: BTreeSet<ApprovalId> = page
        .iter()
        .filter(|happened| matches!(happened.event.what, What::Approved { .. }))
        .map(|happened| happened.approval)
        .collect();
    for id in approved {
        let approval = store.approval(tenant, id).await?;
        approvals.extend(approval.filter(|approval| approval.is_released()));
    }
    Ok(Released {
        approvals,
        upto: page.last().map_or(after, |last| last.cursor),
        is_more: page.len() == LONGEST_PAGE,
    })
}
