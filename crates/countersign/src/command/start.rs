//! Start: the one way into a run, and why there may be none.

use super::finish::stop_after;
use super::propose::Propose;
use super::undo::claim_undo;
use super::{Change, Rows};
use crate::approval::{Approval, SharedApproval};
use crate::call::{Because, Execution};
use crate::event::What;
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, CallId, Tenant};
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
    /// What a call with a snapshot would change, as it was found a moment ago.
    pub seen: Option<Seen>,
    /// What is proposed, in the same transaction, when it is not what was shown any more.
    pub instead: Option<Box<Propose>>,
}

/// What was found when it was looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The hash of the snapshot as it is now.
    Now(Hash),
    /// It could not be read.
    Nothing,
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
    /// What it would undo is not there to be undone any more. It will not run.
    #[error("call `{undoes}` cannot be undone: it is {state}")]
    NothingToUndo {
        /// The call that was to be undone.
        undoes: CallId,
        /// Its state.
        state: &'static str,
    },
    /// What it would change has to be looked at again first.
    #[error("call `{0}` cannot start before what it would change was read again")]
    NotLookedAt(CallId),
    /// What it would change is not what was shown, or cannot be read. It will not run.
    #[error("call `{call}` will not run: {}", because.as_str())]
    NotAsShown {
        /// Which call.
        call: CallId,
        /// Why.
        because: Because,
        /// The approval that asks again.
        successor: Option<ApprovalId>,
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
        let mut change = Change::new(approval, now, self.policy);
        let stale = refuse_stale(&mut change)?;
        let refusal = why_not_startable(&change, self.call);
        if stale || refusal.is_some() {
            let approval = change.save(rows)?;
            let state_changed = || wrong_state(&approval, self.call);
            return Ok(Err(refusal.unwrap_or_else(state_changed)));
        }
        let shown = change.approval.call(self.call.position);
        let shown = shown
            .and_then(|call| call.before.as_ref())
            .map(|before| before.hash);
        match (shown, self.seen) {
            (Some(_), None) => return Ok(Err(ExecuteRefusal::NotLookedAt(self.call))),
            (Some(shown), Some(Seen::Now(found))) if shown != found => {
                return self.refuse(rows, change, Because::Changed).map(Err);
            }
            (Some(_), Some(Seen::Nothing)) => {
                return self.refuse(rows, change, Because::Unreadable).map(Err);
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
    /// Ends a call that is not to run any more, and asks again about what is there now.
    fn refuse<R: Rows>(
        &self,
        rows: &mut R,
        mut change: Change,
        because: Because,
    ) -> Result<ExecuteRefusal, StoreError> {
        let successor = match &self.instead {
            Some(instead) => instead.instead_of(self.call.approval, rows, change.at)?,
            None => None,
        };
        let refused = What::Refused {
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
    // Each round ends or starts a call.
    while let Some(position) = change.approval.next_released() {
        // What it would change has to be looked at again first, and that takes longer than a transaction may.
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

/// Ends an undo whose call is undone by another, or is being.
fn refuse_undo(change: &mut Change, position: u8) -> Result<(), StoreError> {
    let refused = What::Refused {
        call: position,
        because: Because::NothingToUndo,
        successor: None,
    };
    change.record(Actor::Gate, refused)?;
    stop_after(change, position)
}

/// `looked_at` is the hash of what the call would change, as it is now.
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
    // The last look before the world changes: what was approved is what is stored.
    if call.digest != call.digest_in(approval, position) {
        return Err(StoreError::Impossible(format!(
            "call {}.{position} does not fit its digest",
            approval.id
        )));
    }
    // INVARIANT: nothing starts over something else than what was shown.
    if looked_at != call.before.as_ref().map(|before| before.hash) {
        return Err(StoreError::Impossible(
            "a start without a look at what it changes".to_owned(),
        ));
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
                successor: None,
            },
        )?;
    }
    Ok(())
}
