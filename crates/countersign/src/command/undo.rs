//! Undo: an undoing call claims its target when it starts, and settles the claim when it ends.

use super::{Change, Rows};
use crate::approval::Approval;
use crate::event::EventKind;
use crate::id::{Actor, CallId};
use crate::state::CallState;
use crate::store::StoreError;

/// Returns why a call cannot be undone now; `None` if it can.
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

/// Claims the target of an undo before it starts, so that no other undo of it can start. Returns the target and its
/// state if it cannot be undone.
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

/// Settles the claim of an undo that ended: marks its target as undone, or releases it if the undo failed. Does nothing
/// for other calls.
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

/// Returns the call that the one at this position undoes, if any.
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
