//! Start, finish and reconcile: the one run of a call.

use std::sync::Arc;

use super::propose::why_not_undoable;
use super::{Change, Rows};
use crate::approval::{Approval, SharedApproval};
use crate::call::{Because, Execution};
use crate::event::What;
use crate::executor::Outcome;
use crate::hash::Hash;
use crate::id::{Actor, CallId, Person, Tenant};
use crate::policy::OnFailure;
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

fn wrong_state(approval: &Approval, call: CallId) -> ExecuteRefusal {
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

/// Gives a running call up: it may have run, and nobody knows. `said` is what its executor made of that.
pub(super) fn lose(
    change: &mut Change,
    position: u8,
    reason: &'static str,
    said: Option<Arc<[u8]>>,
) -> Result<(), StoreError> {
    change.record(
        Actor::Gate,
        What::Lost {
            call: position,
            reason: reason.to_owned(),
        },
    )?;
    end(change, position, said);
    stop_after(change, position)
}

/// A batch stops behind a call that did not succeed, unless its policy says to go on.
fn stop_after(change: &mut Change, position: u8) -> Result<(), StoreError> {
    let stop = change
        .approval
        .call(position)
        .is_some_and(|call| call.terms.on_failure == OnFailure::Stop);
    match stop {
        true => refuse_released(change, Because::EarlierFailed),
        false => Ok(()),
    }
}

fn end(change: &mut Change, position: u8, result: Option<Arc<[u8]>>) {
    let at = change.at;
    if let Some(call) = change.approval.call_mut(position) {
        call.result = result;
        if let Some(execution) = &mut call.execution {
            execution.ended_at = Some(at);
        }
    }
}

/// Says how a call ended.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Whose call.
    pub tenant: Tenant,
    /// Which call.
    pub call: CallId,
    /// Hash of the permit's token.
    pub permit: Hash,
    /// How it ended.
    pub outcome: Outcome,
    /// The policy in force.
    pub policy: Hash,
    /// When given, the next released call is started in the same transaction; the hash of its permit's token.
    pub start_next: Option<Hash>,
}

/// A call whose end is recorded.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its approval as it is now.
    pub approval: SharedApproval,
    /// The position of the call that was started along with it.
    pub started: Option<u8>,
}

impl Finish {
    pub(super) fn apply<R: Rows>(
        &self,
        rows: &mut R,
        now: Time,
    ) -> Result<Result<Finished, ExecuteRefusal>, StoreError> {
        let Some(approval) = rows.approval(&self.tenant, self.call.approval)? else {
            return Ok(Err(ExecuteRefusal::NotFound(self.call)));
        };
        let position = self.call.position;
        let Some(call) = approval.call(position) else {
            return Ok(Err(ExecuteRefusal::NotFound(self.call)));
        };
        if call
            .execution
            .as_ref()
            .is_none_or(|execution| execution.permit != self.permit)
        {
            return Ok(Err(ExecuteRefusal::NotYourPermit(self.call)));
        }
        let state = call.state;
        if self.was_recorded(call) {
            return Ok(Ok(Finished {
                approval: Arc::new(approval),
                started: None,
            }));
        }
        let mut change = Change::new(approval, now, self.policy);
        match (state, &self.outcome) {
            (CallState::Running, outcome) => self.record(&mut change, outcome)?,
            (CallState::Unknown, Outcome::Succeeded(result)) => self.late(&mut change, true, result)?,
            (CallState::Unknown, Outcome::Failed(result)) => self.late(&mut change, false, result)?,
            _ => return Ok(Err(wrong_state(&change.approval, self.call))),
        }
        match self.outcome {
            Outcome::Succeeded(_) => settle_undo(rows, &change, self.call, true)?,
            Outcome::Failed(_) => settle_undo(rows, &change, self.call, false)?,
            // What it was to undo stays claimed until somebody knows.
            Outcome::Unknown(_) => {}
        }
        // A call that was given up and answers after all starts nothing.
        let started = match (state, self.start_next) {
            (CallState::Running, Some(permit)) if !refuse_stale(&mut change)? => {
                start_next(rows, &mut change, permit)?
            }
            _ => None,
        };
        Ok(Ok(Finished {
            approval: change.save(rows)?,
            started,
        }))
    }

    /// True when this same end is recorded already: the answer was lost, not the record.
    fn was_recorded(&self, call: &crate::call::Call) -> bool {
        match (&self.outcome, call.state) {
            (Outcome::Succeeded(result), CallState::Succeeded | CallState::Undone)
            | (Outcome::Failed(result), CallState::Failed) => call.result.as_ref() == Some(result),
            (Outcome::Unknown(_), CallState::Unknown) => true,
            _ => false,
        }
    }

    fn record(&self, change: &mut Change, outcome: &Outcome) -> Result<(), StoreError> {
        let call = self.call.position;
        let (what, result) = match outcome {
            // Its own words may hold anything, so they are kept where they can be erased, not in the event.
            Outcome::Unknown(said) => {
                return lose(
                    change,
                    call,
                    "its executor cannot tell",
                    Some(said.as_bytes().into()),
                );
            }
            Outcome::Succeeded(result) => (
                What::Succeeded {
                    call,
                    bytes: result.len() as u64,
                    hash: Hash::of(result),
                },
                result,
            ),
            Outcome::Failed(result) => (
                What::Failed {
                    call,
                    bytes: result.len() as u64,
                    hash: Hash::of(result),
                },
                result,
            ),
        };
        let failed = matches!(outcome, Outcome::Failed(_));
        change.record(Actor::Gate, what)?;
        end(change, call, Some(result.clone()));
        match failed {
            true => stop_after(change, call),
            false => Ok(()),
        }
    }

    fn late(&self, change: &mut Change, succeeded: bool, result: &Arc<[u8]>) -> Result<(), StoreError> {
        let call = self.call.position;
        change.record(Actor::Gate, What::Reconciled { call, succeeded })?;
        // Its end stays the moment it was given up: the rest of the batch gets no longer because of this.
        if let Some(call) = change.approval.call_mut(call) {
            call.result = Some(result.clone());
        }
        Ok(())
    }
}

/// Before an undo starts, it claims the call it undoes, so that no other undo of it can start. Gives that call and
/// its state when it cannot be undone.
fn claim_undo<R: Rows>(
    rows: &mut R,
    change: &Change,
    position: u8,
) -> Result<Option<(CallId, &'static str)>, StoreError> {
    let Some(undoes) = change.approval.undoes else {
        return Ok(None);
    };
    let target = rows.approval(&change.approval.tenant, undoes.approval)?;
    if let Some(state) = why_not_undoable(target.as_ref(), undoes.position) {
        return Ok(Some((undoes, state)));
    }
    let undo = CallId {
        approval: change.approval.id,
        position,
    };
    let call = undoes.position;
    mark_target(rows, change, target, What::UndoStarted { call, undo }, Some(undo))?;
    Ok(None)
}

/// When the call that ended was an undo, says so at the call it undid, or gives that call free again.
fn settle_undo<R: Rows>(
    rows: &mut R,
    change: &Change,
    undo: CallId,
    succeeded: bool,
) -> Result<(), StoreError> {
    let Some(undoes) = change.approval.undoes else {
        return Ok(());
    };
    let target = rows.approval(&change.approval.tenant, undoes.approval)?;
    let call = undoes.position;
    match succeeded {
        true => mark_target(rows, change, target, What::Undone { call, undo }, Some(undo)),
        false => mark_target(rows, change, target, What::UndoFailed { call, undo }, None),
    }
}

fn mark_target<R: Rows>(
    rows: &mut R,
    change: &Change,
    target: Option<Approval>,
    what: What,
    undone_by: Option<CallId>,
) -> Result<(), StoreError> {
    let (Some(target), Some(undoes)) = (target, change.approval.undoes) else {
        return Err(StoreError::Impossible(
            "the call that was to be undone is gone".to_owned(),
        ));
    };
    let mut target = Change::new(target, change.at, change.policy);
    target.record(Actor::Gate, what)?;
    if let Some(call) = target.approval.call_mut(undoes.position) {
        call.undone_by = undone_by;
    }
    target.save(rows)?;
    Ok(())
}

/// Says what somebody found out about an unknown call.
#[derive(Clone, Debug)]
pub struct Reconcile {
    /// Whose call.
    pub tenant: Tenant,
    /// Which call.
    pub call: CallId,
    /// Who found out.
    pub by: Person,
    /// Whether it had succeeded.
    pub succeeded: bool,
    /// What they write down.
    pub note: Option<Arc<[u8]>>,
    /// The policy in force.
    pub policy: Hash,
}

impl Reconcile {
    pub(super) fn apply<R: Rows>(
        &self,
        rows: &mut R,
        now: Time,
    ) -> Result<Result<SharedApproval, ExecuteRefusal>, StoreError> {
        let Some(approval) = rows.approval(&self.tenant, self.call.approval)? else {
            return Ok(Err(ExecuteRefusal::NotFound(self.call)));
        };
        let position = self.call.position;
        if approval
            .call(position)
            .is_none_or(|call| call.state != CallState::Unknown)
        {
            return Ok(Err(wrong_state(&approval, self.call)));
        }
        let mut change = Change::new(approval, now, self.policy);
        let what = What::Reconciled {
            call: position,
            succeeded: self.succeeded,
        };
        change.record(Actor::Person(self.by.clone()), what)?;
        if let Some(call) = change.approval.call_mut(position) {
            call.result = self.note.clone();
        }
        settle_undo(rows, &change, self.call, self.succeeded)?;
        Ok(Ok(change.save(rows)?))
    }
}
