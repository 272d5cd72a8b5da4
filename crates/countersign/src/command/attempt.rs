//! Attempts: refused decisions, kept as evidence.

use super::{Change, Rows};
use crate::approval::{Approval, SharedApproval};
use crate::decision::Surface;
use crate::event::EventKind;
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, Tenant};
use crate::state::State;
use crate::store::StoreError;
use crate::time::Time;

/// Maximum number of attempts kept per agent or person, to bound the store's growth.
const MOST_REFUSALS: u8 = 16;
/// Maximum number of agents and people whose attempts are kept. Each of them needs its own credential.
const MOST_WHO_TRY: usize = 16;

/// An attempt to decide that is never accepted: by an agent, or with any credential that is not a person's.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Tenant of the approval.
    pub tenant: Tenant,
    /// Approval that the actor tried to decide.
    pub approval: ApprovalId,
    /// The agent or person that tried.
    pub by: Actor,
    /// True if the actor tried to approve, false if they tried to deny.
    pub approve: bool,
    /// Surface from which the attempt was made.
    pub surface: Surface,
    /// Hash of the policy in force, recorded in the event.
    pub policy: Hash,
}

impl Attempt {
    /// Records the attempt if the approval is pending, and returns the approval; `None` if it does not exist. Decides
    /// nothing.
    pub(super) fn apply<R: Rows>(
        &self,
        rows: &mut R,
        now: Time,
    ) -> Result<Option<SharedApproval>, StoreError> {
        let Some(approval) = rows.approval(&self.tenant, self.approval)? else {
            return Ok(None);
        };
        let mut change = Change::new(approval, now, self.policy);
        if change.approval.state == State::Pending {
            record_refused(
                &mut change,
                self.by.clone(),
                "wrong_scope",
                self.approve,
                self.surface,
            )?;
        }
        change.save(rows).map(Some)
    }
}

/// Returns the number of refused decisions on record for this actor; `None` if no more actors can be recorded.
pub(super) fn refusals_of(approval: &Approval, by: &Actor) -> Option<u8> {
    let tried = &approval.tried;
    match tried.iter().find(|(who, _)| who == by) {
        Some((_, count)) => Some(*count),
        None => (tried.len() < MOST_WHO_TRY).then_some(0),
    }
}

/// Records a refused decision, unless [`MOST_REFUSALS`] or [`MOST_WHO_TRY`] is reached.
pub(super) fn record_refused(
    change: &mut Change,
    by: Actor,
    reason: &str,
    approve: bool,
    surface: Surface,
) -> Result<(), StoreError> {
    let tried = &mut change.approval.tried;
    let is_full = tried.len() >= MOST_WHO_TRY;
    match tried.iter_mut().find(|(who, _)| *who == by) {
        Some((_, count)) if *count >= MOST_REFUSALS => return Ok(()),
        Some((_, count)) => *count += 1,
        None if is_full => return Ok(()),
        None => tried.push((by.clone(), 1)),
    }
    change.approval.refusals = change.approval.refusals.saturating_add(1);
    let what = EventKind::DecisionRefused {
        reason: reason.to_owned(),
        approve,
        surface: surface.as_str().to_owned(),
    };
    Ok(change.record(by, what)?)
}
