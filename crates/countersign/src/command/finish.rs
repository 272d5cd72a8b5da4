//! Finish and reconcile: how the one run of a call ended.

use std::sync::Arc;

use super::start::{ExecuteRefusal, refuse_released, refuse_stale, start_next, wrong_state};
use super::undo::settle_undo;
use super::{Change, Rows};
use crate::approval::SharedApproval;
use crate::call::Because;
use crate::event::What;
use crate::executor::Outcome;
use crate::hash::Hash;
use crate::id::{Actor, CallId, Person, Tenant};
use crate::policy::OnFailure;
use crate::state::CallState;
use crate::store::StoreError;
use crate::time::Time;

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
pub(super) fn stop_after(change: &mut Change, position: u8) -> Result<(), StoreError> {
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
                    hash: change.approval.hash_of_result(result),
                },
                result,
            ),
            Outcome::Failed(result) => (
                What::Failed {
                    call,
                    bytes: result.len() as u64,
                    hash: change.approval.hash_of_result(result),
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
