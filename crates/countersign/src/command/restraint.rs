//! Restraint: how much one agent may ask of people at once, and how soon again after a no.
//!
//! Enters: a proposal, the agent's other pending approvals, the entries that denials left. Leaves: the card it joins, a
//! refusal, or nothing, and then it is proposed.
//! Deliberately absent: what the numbers are; the policy says.

use std::sync::Arc;
use std::time::Duration;

use super::denial::{CallSet, denied_until};
use super::propose::{NewCall, Propose, ProposeRefusal};
use super::{Proposed, Rows};
use crate::approval::Approval;
use crate::call::Call;
use crate::store::StoreError;
use crate::time::Time;

/// The most pending approvals of one agent that are looked at; a policy's limit is below it.
pub const MOST_LOOKED_AT: usize = 200;

/// What a proposal is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restraint {
    /// The most pending approvals of this agent for one requester. Nobody is limited by what others ask the same agent.
    pub most_pending: Option<usize>,
    /// Whether the same calls again join the pending approval.
    pub joins: bool,
    /// The calls, and for how long what was denied may not be asked again.
    pub denial: Option<(CallSet, Duration)>,
}

/// The card a proposal joins, or why it is refused; nothing when it may be proposed.
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
    // Most agents have a few pending ones: counting them reads no arguments.
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
    // The one whose place it takes does not count.
    let stays = |approval: &&Approval| propose.channel.is_none() || approval.channel != propose.channel;
    let is_own = |approval: &&Approval| approval.requester == propose.requester;
    let count = match is_cut {
        // There may be more of this requester's behind those that were read.
        true => open.iter().filter(stays).count(),
        false => open.iter().filter(stays).filter(is_own).count(),
    };
    Ok((count >= most).then_some(Err(ProposeRefusal::TooManyPending { count, most })))
}

/// Whether a pending approval asks exactly this. Calls with credentials are never the same: nobody can compare them.
fn is_same(propose: &Propose, approval: &Approval) -> bool {
    let same_call = |(new, call): (&NewCall, &Call)| {
        (&new.tool, new.definition, &new.arguments) == (&call.tool, call.definition, &call.arguments)
            && new.before.as_ref().map(|before| before.hash) == call.before.as_ref().map(|before| before.hash)
            && new.sealed.is_none()
            && call.sealed.is_none()
    };
    propose.calls.len() == approval.calls.len()
        && propose.calls.iter().zip(&approval.calls).all(same_call)
        && propose.channel == approval.channel
        && propose.undoes == approval.undoes
        && propose.requester == approval.requester
        && propose.on_behalf_of == approval.on_behalf_of
        && propose.policy == approval.policy
}
