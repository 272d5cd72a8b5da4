//! Finish and reconcile: record how the single run of a call ended.

use std::sync::Arc;

use super::start::{ExecuteRefusal, refuse_released, refuse_stale, start_next, wrong_state};
use super::undo::settle_undo;
use super::{Change, Rows};
use crate::approval::{Approval, Order, SharedApproval};
use crate::call::{Call, RefusalReason};
use crate::event::EventKind;
use crate::executor::Outcome;
use crate::hash::Hash;
use crate::id::{Actor, CallId, Person, Tenant};
use crate::policy::OnFailure;
use crate::state::CallState;
use crate::store::StoreError;
use crate::time::Time;

/// Records that the outcome of a running call is unknown: it may have run. `said` is the executor's own message, if
/// any.
pub(super) fn mark_unknown(
    change: &mut Change,
    position: u8,
    reason: &'static str,
    said: Option<Arc<[u8]>>,
) -> Result<(), StoreError> {
    let hash = hash_of(&change.approval, said.as_deref());
    change.record(
        Actor::Gate,
        EventKind::Lost {
            call: position,
            reason: reason.to_owned(),
            hash,
        },
    )?;
    end(change, position, said);
    stop_after(change, position)
}

/// Returns the salted hash of a result. `None` if there is no result, or if the salt was erased: an unsalted hash would
/// confirm a guess.
fn hash_of(approval: &Approval, result: Option<&[u8]>) -> Option<Hash> {
    let is_salted = approval.erased_at.is_none();
    result
        .filter(|_| is_salted)
        .map(|result| approval.hash_of_result(result))
}

/// Refuses the rest of a batch after the call at `position` did not succeed, unless the call's policy allows
/// continuing or the calls may run in any order.
pub(super) fn stop_after(change: &mut Change, position: u8) -> Result<(), StoreError> {
    let stop = change.approval.order == Order::Given
        && change
            .approval
            .call(position)
            .is_some_and(|call| call.terms.on_failure == OnFailure::Stop);
    match stop {
        true => refuse_released(change, RefusalReason::EarlierFailed),
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

/// Marks a failed call as one that did not run.
fn mark_not_sent(change: &mut Change, position: u8) {
    if let Some(call) = change.approval.call_mut(position) {
        call.because = Some(RefusalReason::NotSent);
    }
}

/// Records the outcome of a call.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Tenant of the call.
    pub tenant: Tenant,
    /// The call that ended.
    pub call: CallId,
    /// Hash of the permit's token.
    pub permit: Hash,
    /// Outcome of the call.
    pub outcome: Outcome,
    /// Hash of the policy in force, recorded in the event.
    pub policy: Hash,
    /// Hash of a permit token. If set, the next released call starts in the same transaction.
    pub start_next: Option<Hash>,
    /// True for a result that may arrive after its call was given up. If a person has reconciled the call meanwhile,
    /// the result is appended to the history and has no other effect. If false, such a result is refused.
    pub late: bool,
}

/// A call whose outcome has been recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finished {
    /// Approval of the call, after the outcome was recorded.
    pub approval: SharedApproval,
    /// Position of the next call, if it was started together with the recording of the outcome.
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
            (CallState::Unknown, Outcome::NotSent(reason)) => {
                self.late(&mut change, false, &reason.as_bytes().into())?;
                mark_not_sent(&mut change, position);
            }
            (CallState::Succeeded | CallState::Failed | CallState::Undone, _) if self.late => {
                return self.append_late(change, rows);
            }
            _ => return Ok(Err(wrong_state(&change.approval, self.call))),
        }
        match self.outcome {
            Outcome::Succeeded(_) => settle_undo(rows, &change, self.call, true)?,
            Outcome::Failed(_) | Outcome::NotSent(_) => settle_undo(rows, &change, self.call, false)?,
            // The target of an undo stays claimed until the outcome of the undo is known.
            Outcome::Unknown(_) => {}
        }
        // A late result of a call that was given up starts nothing.
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

    /// Returns true if this outcome has already been recorded, as in a retry after a lost answer.
    fn was_recorded(&self, call: &Call) -> bool {
        match (&self.outcome, call.state) {
            (Outcome::Succeeded(result), CallState::Succeeded | CallState::Undone)
            | (Outcome::Failed(result), CallState::Failed) => call.result.as_ref() == Some(result),
            (Outcome::NotSent(reason), CallState::Failed) => {
                call.result.as_deref() == Some(reason.as_bytes()) && call.was_not_sent()
            }
            (Outcome::Unknown(_), CallState::Unknown) => true,
            _ => false,
        }
    }

    fn record(&self, change: &mut Change, outcome: &Outcome) -> Result<(), StoreError> {
        let call = self.call.position;
        let (succeeded, result): (bool, Arc<[u8]>) = match outcome {
            // The executor's message may contain anything, so it is kept in the row, where it can be erased, and not in
            // the event.
            Outcome::Unknown(said) => {
                return mark_unknown(
                    change,
                    call,
                    "its executor cannot tell",
                    Some(said.as_bytes().into()),
                );
            }
            Outcome::Succeeded(result) => (true, result.clone()),
            Outcome::Failed(result) => (false, result.clone()),
            Outcome::NotSent(reason) => (false, reason.as_bytes().into()),
        };
        let hash = change.approval.hash_of_result(&result);
        let bytes = None;
        let what = match succeeded {
            true => EventKind::Succeeded { call, bytes, hash },
            false => EventKind::Failed { call, bytes, hash },
        };
        change.record(Actor::Gate, what)?;
        end(change, call, Some(result));
        if matches!(outcome, Outcome::NotSent(_)) {
            mark_not_sent(change, call);
        }
        match succeeded {
            true => Ok(()),
            false => stop_after(change, call),
        }
    }

    fn late(&self, change: &mut Change, succeeded: bool, result: &Arc<[u8]>) -> Result<(), StoreError> {
        let call = self.call.position;
        let hash = hash_of(&change.approval, Some(result));
        let what = EventKind::Reconciled {
            call,
            succeeded,
            hash,
        };
        change.record(Actor::Gate, what)?;
        // `ended_at` stays the time at which the call was given up, so the rest of the batch gets no extra time.
        if let Some(call) = change.approval.call_mut(call) {
            call.result = Some(result.clone());
        }
        Ok(())
    }

    /// Records a result that arrived after a person reconciled the call. The person's outcome and note stay.
    fn append_late<R: Rows>(
        &self,
        mut change: Change,
        rows: &mut R,
    ) -> Result<Result<Finished, ExecuteRefusal>, StoreError> {
        let (succeeded, result): (bool, &[u8]) = match &self.outcome {
            Outcome::Succeeded(result) => (true, result),
            Outcome::Failed(result) => (false, result),
            Outcome::NotSent(reason) => (false, reason.as_bytes()),
            Outcome::Unknown(_) => return Ok(Err(wrong_state(&change.approval, self.call))),
        };
        let what = EventKind::LateResult {
            call: self.call.position,
            succeeded,
            hash: hash_of(&change.approval, Some(result)),
        };
        change.record(Actor::Gate, what)?;
        Ok(Ok(Finished {
            approval: change.save(rows)?,
            started: None,
        }))
    }
}

/// Records the outcome that a person found out for a call whose outcome was unknown.
#[derive(Clone, Debug)]
pub struct Reconcile {
    /// Tenant of the call.
    pub tenant: Tenant,
    /// The call to reconcile.
    pub call: CallId,
    /// Person who found the outcome.
    pub by: Person,
    /// True if the person found that the call succeeded.
    pub succeeded: bool,
    /// The person's note, if any. It is stored in place of the call's result.
    pub note: Option<Arc<[u8]>>,
    /// Hash of the policy in force, recorded in the event.
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
        let hash = hash_of(&change.approval, self.note.as_deref());
        let what = EventKind::Reconciled {
            call: position,
            succeeded: self.succeeded,
            hash,
        };
        change.record(Actor::Person(self.by.clone()), what)?;
        if let Some(call) = change.approval.call_mut(position) {
            call.result = self.note.clone();
        }
        settle_undo(rows, &change, self.call, self.succeeded)?;
        Ok(Ok(change.save(rows)?))
    }
}
