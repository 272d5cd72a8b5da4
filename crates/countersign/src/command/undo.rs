//! Undo: a call that takes another one back claims it when it starts, and settles the claim when it ends.

use super::{Change, Rows};
use crate::approval::Approval;
use crate::event::What;
use crate::id::{Actor, CallId};
use crate::state::CallState;
use crate::store::StoreError;

/// Why a call cannot be undone now; nothing when it can.
pub(super) fn why_not_undoable(target: Option<&Approval>, position: u8) -> Option<&'static str> {
    let Some(call) = target.and_then(|target| target.call(position)) else {
        return Some("not there");
    };
    match (call.state, call.undone_by) {
        (CallState::Succeeded, None) => None,
        (CallState::Succeeded, Some(_)) => Some("being undone"),
        (state, _) => Some(state.as_str()),
    }
}

/// Before an undo starts, it claims the call it undoes, so that no other undo of it can start. Gives that call and
/// its state when it cannot be undone.
pub(super) fn claim_undo<R: Rows>(
    rows: &mut R,
    change: &Change,
    position: u8,
) -> Result<Option<(CallId, &'static str)>, StoreError> {
    let Some(undoes) = undone_by(change, position) else {
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
    let what = What::UndoStarted { call, undo };
    mark_target(rows, change, target, call, what, Some(undo))?;
    Ok(None)
}

/// When the call that ended was an undo, says so at the call it undid, or gives that call free again.
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
            What::Undone { call, undo },
            Some(undo),
        ),
        false => mark_target(rows, change, target, call, What::UndoFailed { call, undo }, None),
    }
}

/// The call that the one at this position takes back, if it takes back any.
fn undone_by(change: &Change, position: u8) -> Option<CallId> {
    change.approval.undoes?.by(position)
}

fn mark_target<R: Rows>(
    rows: &mut R,
    change: &Change,
    target: Option<Approval>,
    position: u8,
    what: What,
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
