//! Finds approvals with a call that may run and that no process has started.

use std::collections::BTreeSet;

use super::{Cursor, LONGEST_PAGE, Store, StoreError};
use crate::approval::{Approval, SharedApproval};
use crate::id::{ApprovalId, Tenant};
use crate::state::CallState;

/// Approvals with a call that is ready to run and no running call.
#[derive(Clone, Debug)]
pub struct Released {
    /// The approvals in their current state.
    pub approvals: Vec<SharedApproval>,
    /// Cursor to pass to the next search.
    pub upto: Cursor,
    /// True if more events are available now, so that the next search need not wait.
    pub is_more: bool,
}

impl Approval {
    /// Returns true if a call is ready to run and none is running. While a call runs, the process that runs it
    /// continues with the next.
    pub fn is_released(&self) -> bool {
        let has = |state| self.calls.iter().any(|call| call.state == state);
        has(CallState::Released) && !has(CallState::Running)
    }
}

/// Default implementation of [`Store::released`], which follows the feed; stores with an index override it.
pub(super) async fn released<S: Store + ?Sized>(
    store: &S,
    tenant: &Tenant,
    after: Cursor,
) -> Result<Released, StoreError> {
    let page = store.feed(tenant, after, LONGEST_PAGE).await?;
    let mut approvals = Vec::new();
    let may_go_on: BTreeSet<ApprovalId> = page
        .iter()
        .filter(|happened| happened.event.what.lets_calls_run())
        .map(|happened| happened.approval)
        .collect();
    for id in may_go_on {
        let approval = store.approval(tenant, id).await?;
        approvals.extend(approval.filter(|approval| approval.is_released()));
    }
    Ok(Released {
        approvals,
        upto: page.last().map_or(after, |last| last.cursor),
        is_more: page.len() == LONGEST_PAGE,
    })
}
