//! Start: the only way to run a call, and the reasons for refusing it.

use super::finish::stop_after;
use super::propose::Propose;
use super::undo::claim_undo;
use super::{Change, Rows};
use crate::approval::{Approval, Order, SharedApproval};
use crate::call::{Execution, RefusalReason};
use crate::event::EventKind;
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, CallId, Tenant};
use crate::state::CallState;
use crate::store::StoreError;
use crate::time::Time;

/// Records that a call starts now under a permit.
#[derive(Clone, Debug)]
pub struct Start {
    /// Tenant of the call.
    pub tenant: Tenant,
    /// The call to start.
    pub call: CallId,
    /// Hash of the permit's token.
    pub permit: Hash,
    /// Hash of the policy in force, recorded in the event.
    pub policy: Hash,
    /// Result of reading the data behind the call's snapshot again; required if the call has a snapshot.
    pub snapshot: Option<SnapshotCheck>,
    /// Proposal to make in the same transaction if the snapshot has changed.
    pub replacement: Option<Box<Propose>>,
    /// True if the permit's token can be computed again by the caller, as with an idempotency key. A call that is
    /// running under this permit then counts as started by this command, so that a lost answer can be repeated.
    pub is_repeatable: bool,
}

/// Result of reading the data behind a snapshot again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotCheck {
    /// The data was read; this is its hash.
    Read(Hash),
    /// The data could not be read.
    Unreadable,
}

/// A call that this command started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Started {
    /// Approval of the call, after the start was recorded.
    pub approval: SharedApproval,
    /// Position of the call in its approval, from 1.
    pub position: u8,
}

/// Reason for not starting, finishing or reconciling a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteRefusal {
    /// The tenant has no such call.
    #[error("there is no call `{0}`")]
    NotFound(CallId),
    /// The call is in the wrong state.
    #[error("call `{call}` is {state}{}", because.as_ref().map(|why| format!(": {}", why.as_str())).unwrap_or_default())]
    WrongState {
        /// The call in the wrong state.
        call: CallId,
        /// State of the call.
        state: CallState,
        /// Reason for its refusal, if it was refused.
        because: Option<RefusalReason>,
    },
    /// An earlier call has to run first: calls run in proposed order.
    #[error("call `{call}` has to wait for call {first}")]
    EarlierFirst {
        /// The call that has to wait.
        call: CallId,
        /// Position of the call to run first, from 1.
        first: u8,
    },
    /// The target of the undo can no longer be undone. The call will not run.
    #[error("call `{undoes}` cannot be undone: it is {state}")]
    NothingToUndo {
        /// The call to undo.
        undoes: CallId,
        /// State of the call to undo.
        state: &'static str,
    },
    /// The data behind the call's snapshot has to be read again first.
    #[error("call `{0}` cannot start before what it would change was read again")]
    NotLookedAt(CallId),
    /// The data behind the snapshot has changed since it was shown, or cannot be read. The call will not run.
    #[error("call `{call}` will not run: {}", because.as_str())]
    NotAsShown {
        /// The refused call.
        call: CallId,
        /// Reason for the refusal.
        because: RefusalReason,
        /// The new approval that asks about the call again, if there is one.
        successor: Option<ApprovalId>,
    },
    /// The permit was not issued for this run of the call.
    #[error("the permit does not belong to call `{0}`")]
    NotYourPermit(CallId),
}

impl ExecuteRefusal {
    /// Returns a stable code for programs, such as `not_found`.
    pub fn code(&self) -> &'static str {
        match self {
            ExecuteRefusal::NotFound(_) => "not_found",
            ExecuteRefusal::WrongState { .. } => "wrong_state",
            ExecuteRefusal::EarlierFirst { .. } => "earlier_first",
            ExecuteRefusal::NothingToUndo { .. } => "nothing_to_undo",
            ExecuteRefusal::NotLookedAt(_) => "not_looked_at",
            ExecuteRefusal::NotAsShown { .. } => "not_as_shown",
            ExecuteRefusal::NotYourPermit(_) => "not_your_permit",
        }
    }
}

impl Start {
    pub(super) fn apply<R: Rows>(
        &self,
        rows: &mut R,
        now: Time,
    ) -> Result<Result<Started, ExecuteRefusal>, StoreError> {
        let Some(approval) = rows.approval(&self.tenant, self.call.approval)? else {
            return Ok(Err(ExecuteRefusal::NotFound(self.call)));
        };
        if self.is_repeatable
            && let Some(answer) = self.repeat(&approval, now)
        {
            return Ok(answer);
        }
        // A call that is late only according to a clock that may be wrong is neither started nor ended.
        let is_late = |at: Time| approval.stale_at().is_some_and(|stale_at| at >= stale_at);
        if is_late(now) && !is_late(rows.certain(now)) {
            return Ok(Err(wrong_state(&approval, self.call)));
        }
        let mut change = Change::new(approval, now, self.policy);
        let stale = refuse_stale(&mut change)?;
        let refusal = check_startable(&change, self.call);
        if stale || refusal.is_some() {
            let approval = change.save(rows)?;
            let state_changed = || wrong_state(&approval, self.call);
            return Ok(Err(refusal.unwrap_or_else(state_changed)));
        }
        let shown = change.approval.call(self.call.position);
        let shown = shown
            .and_then(|call| call.before.as_ref())
            .map(|before| before.hash);
        match (shown, self.snapshot) {
            (Some(_), None) => return Ok(Err(ExecuteRefusal::NotLookedAt(self.call))),
            (Some(shown), Some(SnapshotCheck::Read(found))) if shown != found => {
                return self.refuse(rows, change, RefusalReason::Changed).map(Err);
            }
            (Some(_), Some(SnapshotCheck::Unreadable)) => {
                return self.refuse(rows, change, RefusalReason::Unreadable).map(Err);
            }
            _ => {}
        }
        if let Some((undoes, state)) = claim_undo(rows, &change, self.call.position)? {
            refuse_undo(&mut change, self.call.position)?;
            change.save(rows)?;
            return Ok(Err(ExecuteRefusal::NothingToUndo { undoes, state }));
        }
        start(&mut change, self.call.position, self.permit, shown)?;
        let approval = change.save(rows)?;
        Ok(Ok(Started {
            approval,
            position: self.call.position,
        }))
    }
}

impl Start {
    /// Returns the answer of the start that this command repeats; `None` if the call was not started under this permit.
    /// After the call's deadline the permit is not given again.
    fn repeat(&self, approval: &Approval, now: Time) -> Option<Result<Started, ExecuteRefusal>> {
        let call = approval.call(self.call.position)?;
        let run = call.execution.as_ref()?;
        if call.state != CallState::Running || run.permit != self.permit {
            return None;
        }
        if now >= run.deadline {
            return Some(Err(ExecuteRefusal::WrongState {
                call: self.call,
                state: CallState::Unknown,
                because: None,
            }));
        }
        Some(Ok(Started {
            approval: SharedApproval::new(approval.clone()),
            position: self.call.position,
        }))
    }

    /// Refuses a call because of its snapshot, and makes the replacement proposal, if there is one, in the same
    /// transaction.
    fn refuse<R: Rows>(
        &self,
        rows: &mut R,
        mut change: Change,
        because: RefusalReason,
    ) -> Result<ExecuteRefusal, StoreError> {
        let successor = match &self.replacement {
            Some(replacement) => replacement.propose_replacement(self.call.approval, rows, change.at)?,
            None => None,
        };
        let refused = EventKind::Refused {
            call: self.call.position,
            because: because.clone(),
            successor,
        };
        change.record(Actor::Gate, refused)?;
        stop_after(&mut change, self.call.position)?;
        change.save(rows)?;
        Ok(ExecuteRefusal::NotAsShown {
            call: self.call,
            because,
            successor,
        })
    }
}

fn check_startable(change: &Change, call: CallId) -> Option<ExecuteRefusal> {
    let Some(found) = change.approval.call(call.position) else {
        return Some(ExecuteRefusal::NotFound(call));
    };
    if found.state != CallState::Released {
        return Some(wrong_state(&change.approval, call));
    }
    if change.approval.order == Order::Any {
        return None;
    }
    let running = change
        .approval
        .numbered()
        .find(|(_, call)| call.state == CallState::Running);
    let first = running
        .map(|(position, _)| position)
        .or(change.approval.next_released());
    first
        .filter(|first| *first != call.position)
        .map(|first| ExecuteRefusal::EarlierFirst { call, first })
}

pub(super) fn wrong_state(approval: &Approval, call: CallId) -> ExecuteRefusal {
    match approval.call(call.position) {
        None => ExecuteRefusal::NotFound(call),
        Some(found) => ExecuteRefusal::WrongState {
            call,
            state: found.state,
            because: found.because.clone(),
        },
    }
}

/// Starts the next released call in the same transaction as another change. Returns its position; `None` if no call is
/// released, if the snapshot of the next one has to be read first, or if the calls may start in any order.
pub(super) fn start_next<R: Rows>(
    rows: &mut R,
    change: &mut Change,
    permit: Hash,
) -> Result<Option<u8>, StoreError> {
    // In any order, the next call may be one of another host, so the gate names each call that it starts.
    if change.approval.order == Order::Any {
        return Ok(None);
    }
    // Terminates: each round refuses or starts a call.
    while let Some(position) = change.approval.next_released() {
        // The snapshot of this call has to be read again first, which takes too long for a transaction.
        let call = change.approval.call(position);
        if call.is_some_and(|call| call.before.is_some()) {
            return Ok(None);
        }
        if claim_undo(rows, change, position)?.is_none() {
            start(change, position, permit, None)?;
            return Ok(Some(position));
        }
        refuse_undo(change, position)?;
    }
    Ok(None)
}

/// Refuses an undo whose target has been undone by another call, or is being undone.
fn refuse_undo(change: &mut Change, position: u8) -> Result<(), StoreError> {
    let refused = EventKind::Refused {
        call: position,
        because: RefusalReason::NothingToUndo,
        successor: None,
    };
    change.record(Actor::Gate, refused)?;
    stop_after(change, position)
}

/// Records the start of a call. `looked_at` is the hash of the data behind its snapshot, read again just now.
pub(super) fn start(
    change: &mut Change,
    position: u8,
    permit: Hash,
    looked_at: Option<Hash>,
) -> Result<(), StoreError> {
    let approval = &change.approval;
    let call = approval
        .call(position)
        .ok_or_else(|| StoreError::Impossible("no such call".to_owned()))?;
    // Last check before anything runs: the stored bytes are those that were approved.
    if call.digest != call.digest_in(approval, position) {
        return Err(StoreError::Impossible(format!(
            "call {}.{position} does not fit its digest",
            approval.id
        )));
    }
    // INVARIANT: a call starts only if its snapshot is still what was shown.
    if looked_at != call.before.as_ref().map(|before| before.hash) {
        return Err(StoreError::Impossible(
            "a start without a look at what it changes".to_owned(),
        ));
    }
    let deadline = change.at.plus(call.terms.timeout);
    change.record(
        Actor::Gate,
        EventKind::Started {
            call: position,
            deadline,
        },
    )?;
    let started_at = change.at;
    if let Some(call) = change.approval.call_mut(position) {
        call.execution = Some(Execution {
            started_at,
            deadline,
            permit,
            ended_at: None,
        });
    }
    Ok(())
}

/// Refuses released calls that were not started in time. Returns true if there were such calls.
pub(super) fn refuse_stale(change: &mut Change) -> Result<bool, StoreError> {
    let stale_at = change.approval.stale_at();
    match stale_at.is_some_and(|stale_at| change.at >= stale_at) {
        true => refuse_released(change, RefusalReason::Stale).map(|()| true),
        false => Ok(false),
    }
}

/// Refuses every call that is still released.
pub(super) fn refuse_released(change: &mut Change, because: RefusalReason) -> Result<(), StoreError> {
    let numbered = change.approval.numbered();
    let released: Vec<u8> = numbered
        .filter(|(_, call)| call.state == CallState::Released)
        .map(|(n, _)| n)
        .collect();
    for call in released {
        change.record(
            Actor::Gate,
            EventKind::Refused {
                call,
                because: because.clone(),
                successor: None,
            },
        )?;
    }
    Ok(())
}
