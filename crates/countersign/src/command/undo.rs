//! Undo: an undoing call claims its target when it starts, and settles the claim when it ends.

use super::{Change, Rows};
use crate::approval::Approval;
use crate::event::EventKind;
use crate::id::{Actor, CallId};
use crate::state::CallState;
use crate::store::StoreError;

/// Returns the reason why a call cannot be undone now, such as its state; `None` if it can be undone.
pub(super) fn check_undoable(target: Option<&Approval>, position: u8) -> Option<&'static str> {
    let Some(call) = target.and_then(|target| target.call(position)) else {
        return Some("not there");
    };
    match (call.state, call.undone_by) {
        (CallState::Succeeded, None) => None,
        (CallState::Succeeded, Some(_)) => Some("being undone"),
        (state, _) => Some(state.as_str()),
    }
}

/// Claims the target of an undo before the undo starts, so that no other undo of the same target can start. Returns the
/// target and its state if it cannot be undone; `None` if it was claimed or the call is no undo.
pub(super) fn claim_undo<R: Rows>(
    rows: &mut R,
    change: &Change,
    position: u8,
) -> Result<Option<(CallId, &'static str)>, StoreError> {
    let Some(undoes) = undone_by(change, position) else {
        return Ok(None);
    };
    let target = rows.approval(&change.approval.tenant, undoes.approval)?;
    if let Some(state) = check_undoable(target.as_ref(), undoes.position) {
        return Ok(Some((undoes, state)));
    }
    let undo = CallId {
        approval: change.approval.id,
        position,
    };
    let call = undoes.position;
    let what = EventKind::UndoStarted { call, undo };
    mark_target(rows, change, target, call, what, Some(undo))?;
    Ok(None)
}

/// Settles the claim of an undo that ended: marks its target as undone, or releases the target if the undo failed. Does
/// nothing for a call that is no undo.
pub(super) fn settle_undo<R: Rows>(
    rows: &mut R,
    change: &Change,
    undo: CallId,
    succeeded: bool,
) -> Result<(), StoreError> {
    let Some(undoes) = undone_by(change, undo.position) else {
        return Ok(());
    };
    let target = rows.approval(&change.approval.tenant, undoes.approval)?;
    let call = undoes.position;
    match succeeded {
        true => mark_target(
            rows,
            change,
            target,
            call,
            EventKind::Undone { call, undo },
            Some(undo),
        ),
        false => mark_target(
            rows,
            change,
            target,
            call,
            EventKind::UndoFailed { call, undo },
            None,
        ),
    }
}

/// Returns the call that is undone by the call at this position, if any.
fn undone_by(change: &Change, position: u8) -> Option<CallId> {
    change.approval.undoes?.by(position)
}

fn mark_target<R: Rows>(
    rows: &mut R,
    change: &Change,
    target: Option<Approval>,
    position: u8,
    what: EventKind,
    undone_by: Option<CallId>,
) -> Result<(), StoreError> {
    let Some(target) = target else {
        return Err(StoreError::Impossible(
            "the call that was to be undone is gone".to_owned(),
        ));
    };
    let mut target = Change::new(target, change.at, change.policy);
    target.record(Actor::Gate, what)?;
    if let Some(call) = target.approval.call_mut(position) {
        call.undone_by = undone_by;
    }
    target.save(rows)?;
    Ok(())
}
