//! Restraint: limits how much one agent may ask at once, and how soon again after a denial.
//!
//! A proposal is compared with the agent's other pending approvals and with the registry's denials. It joins a pending
//! card, is refused, or may be proposed. The limits come from the policy.

use std::sync::Arc;
use std::time::Duration;

use super::denial::{CallSet, denied_until};
use super::propose::{NewCall, Propose, ProposeRefusal};
use super::{Proposed, Rows};
use crate::approval::Approval;
use crate::call::Call;
use crate::store::StoreError;
use crate::time::Time;

/// Maximum number of an agent's pending approvals that are read, and the highest limit that a policy may set.
pub const MOST_LOOKED_AT: usize = 200;

/// The limits that apply to a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restraint {
    /// Maximum number of this agent's pending approvals per requester, so that requesters do not limit each other.
    /// `None` sets no limit.
    pub most_pending: Option<usize>,
    /// True if a proposal joins a pending approval of the same calls instead of creating another one.
    pub joins: bool,
    /// The proposed calls, and the cool-down after a denial; `None` if denials are not checked.
    pub denial: Option<(CallSet, Duration)>,
}

/// Returns the card that a proposal joins, or the refusal of the proposal; `None` if the calls may be proposed.
pub(super) fn check<R: Rows>(
    propose: &Propose,
    restraint: &Restraint,
    rows: &mut R,
    now: Time,
) -> Result<Option<Result<Proposed, ProposeRefusal>>, StoreError> {
    if let Some((asked, cool_down)) = &restraint.denial
        && let Some(until) = denied_until(rows, asked, *cool_down, now)?
    {
        return Ok(Some(Err(ProposeRefusal::DeniedLately { until })));
    }
    let Some(most) = restraint.most_pending else {
        return Ok(None);
    };
    // Fast path: counting reads no arguments, and most agents have only a few pending approvals.
    if !restraint.joins && rows.count_pending_of(&propose.tenant, &propose.agent, most)? < most {
        return Ok(None);
    }
    let pending = rows.pending_of(&propose.tenant, &propose.agent, MOST_LOOKED_AT)?;
    let is_cut = pending.len() >= MOST_LOOKED_AT;
    let open: Vec<Approval> = pending
        .into_iter()
        .filter(|approval| approval.expires_at > now)
        .collect();
    if restraint.joins
        && let Some(same) = open.iter().find(|approval| is_same(propose, approval))
    {
        return Ok(Some(Ok(Proposed {
            approval: Arc::new(same.clone()),
            repeated: true,
        })));
    }
    // The approval that this proposal would replace does not count.
    let stays = |approval: &&Approval| propose.channel.is_none() || approval.channel != propose.channel;
    let is_own = |approval: &&Approval| approval.requester == propose.requester;
    let count = match is_cut {
        // Not all pending approvals were read, so this requester's cannot be counted exactly. Count those of all
        // requesters.
        true => open.iter().filter(stays).count(),
        false => open.iter().filter(stays).filter(is_own).count(),
    };
    Ok((count >= most).then_some(Err(ProposeRefusal::TooManyPending { count, most })))
}

/// Returns true if a pending approval asks for exactly the same calls. Calls with credentials never match, because
/// sealed credentials cannot be compared.
fn is_same(propose: &Propose, approval: &Approval) -> bool {
    let same_call = |(new, call): (&NewCall, &Call)| {
        (&new.tool, new.definition, &new.arguments) == (&call.tool, call.definition, &call.arguments)
            && new.before.as_ref().map(|before| before.hash) == call.before.as_ref().map(|before| before.hash)
            && new.working_folder == call.working_folder
            && new.sealed.is_none()
            && call.sealed.is_none()
    };
    propose.calls.len() == approval.calls.len()
        && propose.calls.iter().zip(&approval.calls).all(same_call)
        && propose.channel == approval.channel
        && propose.order() == approval.order
        && propose.undoes == approval.undoes
        && propose.requester == approval.requester
        && propose.on_behalf_of == approval.on_behalf_of
        && propose.policy == approval.policy
}
