//! Restraint: how much one agent may ask of people at once, and how soon again after a no.
//!
//! Enters: a proposal, the agent's other pending approvals, the entry that a denial left. Leaves: the card it joins, a
//! refusal, or nothing, and then it is proposed.
//! Deliberately absent: what the numbers are; the policy says.

use std::borrow::Cow;
use std::sync::Arc;

use super::propose::{NewCall, Propose, ProposeRefusal};
use super::{Proposed, Rows};
use crate::approval::Approval;
use crate::call::Call;
use crate::hash::{Fields, Hash};
use crate::id::{Agent, Tenant};
use crate::json::canonical;
use crate::registry::Kind;
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
    /// The entry a denial of calls with these values leaves for as long as they may not be asked again.
    pub denial: Option<String>,
}

/// The name of the entry that a denial of these calls leaves: the same for every way to write the same values, so that
/// a blank or another order of keys is no new question. The entry goes when the denied content is erased.
pub fn denial_key<'c>(
    tenant: &Tenant,
    agent: &Agent,
    calls: impl Iterator<Item = (&'c str, &'c [u8])>,
) -> String {
    let values = calls.map(|(tool, arguments)| (tool, Cow::Owned(canonical(arguments))));
    key("countersign/denial/2", tenant, agent, values)
}

/// The names of all entries that a denial of this approval may have left, those of earlier versions included.
pub(super) fn denial_keys(approval: &Approval) -> [String; 2] {
    let calls = || {
        let calls = approval.calls.iter();
        calls.map(|call| (call.tool.as_str(), call.arguments.as_bytes()))
    };
    let (tenant, agent) = (&approval.tenant, &approval.agent);
    let as_written = calls().map(|(tool, arguments)| (tool, Cow::Borrowed(arguments)));
    [
        denial_key(tenant, agent, calls()),
        key("countersign/denial/1", tenant, agent, as_written),
    ]
}

fn key<'c>(
    domain: &str,
    tenant: &Tenant,
    agent: &Agent,
    calls: impl Iterator<Item = (&'c str, Cow<'c, [u8]>)>,
) -> String {
    let fields = Fields::new(domain)
        .field(tenant.as_str().as_bytes())
        .field(agent.as_str().as_bytes());
    let hash: Hash = calls
        .fold(fields, |fields, (tool, arguments)| {
            fields.field(tool.as_bytes()).field(&arguments)
        })
        .finish();
    hash.to_string()
}

/// The card a proposal joins, or why it is refused; nothing when it may be proposed.
pub(super) fn check<R: Rows>(
    propose: &Propose,
    restraint: &Restraint,
    rows: &mut R,
    now: Time,
) -> Result<Option<Result<Proposed, ProposeRefusal>>, StoreError> {
    if let Some(key) = &restraint.denial
        && let Some(entry) = rows.entry(Kind::Denial, key)?
        && entry.is_there(now)
    {
        let until = entry.expires_at.unwrap_or(now);
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
