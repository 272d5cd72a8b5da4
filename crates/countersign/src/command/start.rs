//! Start: the one way into a run, and why there may be none.

use super::undo::claim_undo;
use super::{Change, Rows};
use crate::approval::{Approval, SharedApproval};
use crate::call::{Because, Execution};
use crate::event::What;
use crate::hash::Hash;
use crate::id::{Actor, CallId, Tenant};
use crate::state::CallState;
use crate::store::StoreError;
use crate::time::Time;

/// Asks to start a call.
#[derive(Clone, Debug)]
pub struct Start {
    /// Whose call.
    pub tenant: Tenant,
    /// Which call.
    pub call: CallId,
    /// Hash of the permit's token.
    pub permit: Hash,
    /// The policy in force.
    pub policy: Hash,
}

/// A call that was started, by this command and no other.
#[derive(Clone, Debug)]
pub struct Started {
    /// Its approval as it is now.
    pub approval: SharedApproval,
    /// The call's position.
    pub position: u8,
}

/// Why a call was not started, finished or reconciled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteRefusal {
    /// No such call, or not this tenant's.
    #[error("there is no call `{0}`")]
    NotFound(CallId),
    /// It is in another state than this needs.
    #[error("call `{call}` is {state}{}", because.as_ref().map(|why| format!(": {}", why.as_str())).unwrap_or_default())]
    WrongState {
        /// Which call.
        call: CallId,
        /// Its state.
        state: CallState,
        /// Why it was refused, if it was.
        because: Option<Because>,
    },
    /// Calls run in proposed order.
    #[error("call `{call}` has to wait for call {first}")]
    EarlierFirst {
        /// Which call.
        call: CallId,
        /// The position that comes first.
        first: u8,
    },
    /// What it would undo is not there to be undone any more.
    #[error("call `{undoes}` cannot be undone: it is {state}")]
    NothingToUndo {
        /// The call that was to be undone.
        undoes: CallId,
        /// Its state.
        state: &'static str,
    },
    /// Only who started it can finish it.
    #[error("the permit does not belong to call `{0}`")]
    NotYourPermit(CallId),
}

impl ExecuteRefusal {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            ExecuteRefusal::NotFound(_) => "not_found",
            ExecuteRefusal::WrongState { .. } => "wrong_state",
            ExecuteRefusal::EarlierFirst { .. } => "earlier_first",
            ExecuteRefusal::NothingToUndo { .. } => "nothing_to_undo",
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
        let mut change = Change::new(approval, now, self.policy);
        let stale = refuse_stale(&mut change)?;
        let refusal = why_not_startable(&change, self.call);
        if stale || refusal.is_some() {
            let approval = change.save(rows)?;
            let state_changed = || wrong_state(&approval, self.call);
            return Ok(Err(refusal.unwrap_or_else(state_changed)));
        }
        if let Some((undoes, state)) = claim_undo(rows, &change, self.call.position)? {
            return Ok(Err(ExecuteRefusal::NothingToUndo { undoes, state }));
        }
        start(&mut change, self.call.position, self.permit)?;
        let approval = change.save(rows)?;
        Ok(Ok(Started {
            approval,
            position: self.call.position,
        }))
    }
}

fn why_not_startable(change: &Change, call: CallId) -> Option<ExecuteRefusal> {
    let Some(found) = change.approval.call(call.position) else {
        return Some(ExecuteRefusal::NotFound(call));
    };
    if found.state != CallState::Released {
        return Some(wrong_state(&change.approval, call));
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

/// Starts the next released call along with another change, if there is one and nothing speaks against it.
pub(super) fn start_next<R: Rows>(
    rows: &mut R,
    change: &mut Change,
    permit: Hash,
) -> Result<Option<u8>, StoreError> {
    let Some(position) = change.approval.next_released() else {
        return Ok(None);
    };
    if claim_undo(rows, change, position)?.is_some() {
        return Ok(None);
    }
    start(change, position, permit)?;
    Ok(Some(position))
}

fn start(change: &mut Change, position: u8, permit: Hash) -> Result<(), StoreError> {
    let approval = &change.approval;
    let call = approval
        .call(position)
        .ok_or_else(|| StoreError::Impossible("no such call".to_owned()))?;
    // The last look before the world changes: what was approved is what is stored.
    if call.digest != call.digest_in(approval, position) {
        return Err(StoreError::Impossible(format!(
            "call {}.{position} does not fit its digest",
            approval.id
        )));
    }
    let deadline = change.at.plus(call.terms.timeout);
    change.record(
        Actor::Gate,
        What::Started {
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

/// Refuses released calls that were not started in time. True when there were any.
pub(super) fn refuse_stale(change: &mut Change) -> Result<bool, StoreError> {
    let late = change
        .approval
        .start_by()
        .is_some_and(|start_by| change.at >= start_by);
    match late && change.approval.next_released().is_some() {
        true => refuse_released(change, Because::Stale).map(|()| true),
        false => Ok(false),
    }
}

/// Refuses every call that is still released.
pub(super) fn refuse_released(change: &mut Change, because: Because) -> Result<(), StoreError> {
    let numbered = change.approval.numbered();
    let released: Vec<u8> = numbered
        .filter(|(_, call)| call.state == CallState::Released)
        .map(|(n, _)| n)
        .collect();
    for call in released {
        change.record(
            Actor::Gate,
            What::Refused {
                call,
                because: because.clone(),
            },
        )?;
    }
    Ok(())
}
