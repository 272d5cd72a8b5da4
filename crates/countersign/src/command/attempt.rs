//! Attempts: decisions that were not accepted, kept as evidence.

use super::{Change, Rows};
use crate::approval::SharedApproval;
use crate::decision::Surface;
use crate::event::What;
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, Tenant};
use crate::state::State;
use crate::store::StoreError;
use crate::time::Time;

/// So many are kept for each agent or person; more would let anybody fill the store.
const MOST_REFUSALS: u8 = 16;
/// Of so many agents and people any are kept. Each of them needs a credential of its own.
const MOST_WHO_TRY: usize = 16;

/// Somebody tried to decide who never may: an agent, or whoever has another credential than a person's.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Whose approval.
    pub tenant: Tenant,
    /// Which approval.
    pub approval: ApprovalId,
    /// Who tried.
    pub by: Actor,
    /// Whether they wanted it to run.
    pub approve: bool,
    /// Where.
    pub surface: Surface,
    /// The policy in force.
    pub policy: Hash,
}

impl Attempt {
    /// The approval, if there is one; decided is nothing. What is over needs no more evidence.
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
            keep(
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

/// Keeps a decision that was refused.
pub(super) fn keep(
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
    let what = What::DecisionRefused {
        reason: reason.to_owned(),
        approve,
        surface: surface.as_str().to_owned(),
    };
    Ok(change.record(by, what)?)
}
