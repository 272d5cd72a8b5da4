//! Propose: the only way to create an approval.

use std::sync::Arc;
use std::time::Duration;

use super::restraint::{self, Restraint};
use super::start::start;
use super::undo::check_undoable;
use super::{Change, Needs, Rows, SavedApproval};
use crate::approval::{Approval, MOST_CALLS, Order, SharedApproval};
use crate::call::{Arguments, Call};
use crate::event::{EventKind, first_link};
use crate::hash::Hash;
use crate::id::{Actor, Agent, ApprovalId, CallId, Channel, Key, Person, Run, Session, Tenant, ToolName};
use crate::policy::{Definition, Terms};
use crate::provenance::Provenance;
use crate::registry::Kind;
use crate::snapshot::Snapshot;
use crate::state::{CallState, State};
use crate::store::StoreError;
use crate::time::Time;
use crate::undoes::Undoes;
use crate::working_folder::WorkingFolder;

/// Creates a pending approval, or the record of a call that the policy passed. Without calls but with an idempotency key,
/// looks for the earlier proposal under that key and creates nothing.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of `Approval`")]
pub struct Propose {
    pub tenant: Tenant,
    pub id: ApprovalId,
    pub channel: Option<Channel>,
    pub agent: Agent,
    pub run: Option<Run>,
    pub session: Option<Session>,
    pub requester: Person,
    pub on_behalf_of: Option<Person>,
    pub claim: Option<String>,
    pub nonce: [u8; 16],
    pub salt: [u8; 16],
    pub ttl: Duration,
    pub start_within: Duration,
    pub policy: Hash,
    pub undoes: Option<Undoes>,
    pub key: Option<(Key, Hash)>,
    pub calls: Vec<NewCall>,
    /// Limits on how much one agent may ask; `None` if nothing is limited.
    pub restraint: Option<Restraint>,
    /// True if several agents share the channel. Otherwise the channel belongs to the agent that opened it.
    pub is_shared: bool,
    /// Hash of a permit token. If set, the call needs no decision: the command records one passed call and its start
    /// under that permit.
    pub passes: Option<Hash>,
    /// Order in which the calls may be started. A single call always has the given order.
    pub order: Order,
}

/// A new call of an approval.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of `Call`")]
pub struct NewCall {
    pub tool: ToolName,
    pub definition: Definition,
    pub arguments: Arguments,
    pub terms: Arc<Terms>,
    pub sealed: Option<Arc<[u8]>>,
    pub provenance: Option<Arc<Provenance>>,
    pub before: Option<Arc<Snapshot>>,
    pub working_folder: Option<Arc<WorkingFolder>>,
}

/// Answer to an accepted proposal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Proposed {
    /// The new approval, or the existing one that the proposal repeats or joins.
    pub approval: SharedApproval,
    /// True if the proposal repeats an earlier request or joins a pending approval, so that nothing new was written.
    pub repeated: bool,
}

/// Reason for refusing a proposal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProposeRefusal {
    /// The idempotency key was used for another request.
    #[error("idempotency key `{0}` was used for something else")]
    KeyReused(Key),
    /// The proposal has no calls and only looks for the earlier one under its key, but there is none.
    #[error("nothing was proposed under this idempotency key")]
    NothingEarlier,
    /// The channel belongs to another agent.
    #[error("channel `{0}` belongs to another agent")]
    ChannelTaken(Channel),
    /// The call to undo is not in a state that can be undone.
    #[error("call `{call}` cannot be undone: it is {state}")]
    NotUndoable {
        /// The call to undo.
        call: CallId,
        /// State of that call, or `not there`.
        state: &'static str,
    },
    /// The agent has too many pending approvals.
    #[error("the agent has {count} approvals pending, and {most} are the most")]
    TooManyPending {
        /// Number of the agent's pending approvals.
        count: usize,
        /// Limit that the policy sets.
        most: usize,
    },
    /// These calls, or some of them, were denied recently.
    #[error(
        "these calls, or some of them, were denied a short while ago; they may be asked again after {until}"
    )]
    DeniedLately {
        /// Time from which the calls may be proposed again.
        until: Time,
    },
}

impl Propose {
    pub(super) fn needs(&self) -> Needs<'_> {
        let restraint = self.restraint.as_ref();
        Needs {
            tenant: Some(&self.tenant),
            approvals: self.undoes.map(|undoes| undoes.approval).into_iter().collect(),
            channel: self.channel.as_ref(),
            key: self.key.as_ref().map(|(key, _)| (&self.agent, key)),
            pending_of: restraint
                .and_then(|restraint| restraint.most_pending)
                .map(|_| &self.agent),
            entries: restraint
                .and_then(|restraint| restraint.denial.as_ref())
                .map(|(asked, _)| asked)
                .map(|asked| asked.keys())
                .unwrap_or_default()
                .into_iter()
                .map(|key| (Kind::Denial, key.into()))
                .chain(self.owner())
                .collect(),
            ..Needs::default()
        }
    }

    /// Returns the order of the approval's calls. For a single call the order makes no difference, so its card does not
    /// mention it.
    pub(super) fn order(&self) -> Order {
        match self.calls.len() {
            0 | 1 => Order::Given,
            _ => self.order,
        }
    }

    fn has_good_count(&self) -> bool {
        let most = match self.passes {
            // Each passed call gets its own record, because each ends independently.
            Some(_) => 1,
            None => MOST_CALLS,
        };
        (1..=most).contains(&self.calls.len())
    }

    pub(super) fn apply<R: Rows>(
        &self,
        rows: &mut R,
        now: Time,
    ) -> Result<Result<Proposed, ProposeRefusal>, StoreError> {
        // The gate has already refused such a proposal. This check keeps positions within a byte.
        let only_looks = self.calls.is_empty() && self.key.is_some();
        if !self.has_good_count() && !only_looks {
            let calls = self.calls.len();
            return Err(StoreError::Impossible(format!(
                "an approval of {calls} calls: it has 1 to {MOST_CALLS}"
            )));
        }
        if let Some((key, body)) = &self.key
            && let Some(earlier) = rows.by_key(&self.tenant, &self.agent, key)?
        {
            let same = earlier
                .key
                .as_ref()
                .is_some_and(|(_, earlier_body)| earlier_body == body);
            return Ok(match same {
                true => Ok(Proposed {
                    approval: Arc::new(earlier),
                    repeated: true,
                }),
                false => Err(ProposeRefusal::KeyReused(key.clone())),
            });
        }
        if only_looks {
            return Ok(Err(ProposeRefusal::NothingEarlier));
        }
        if let Some(channel) = &self.channel
            && self.is_in_anothers_channel(rows, now)?
        {
            return Ok(Err(ProposeRefusal::ChannelTaken(channel.clone())));
        }
        if let Some(undoes) = self.undoes {
            if undoes.positions().count() != self.calls.len() {
                return Err(StoreError::Impossible(
                    "an undo has one call for each call it undoes".to_owned(),
                ));
            }
            let approval = undoes.approval;
            let target = rows.approval(&self.tenant, approval)?;
            for position in undoes.positions() {
                if let Some(state) = check_undoable(target.as_ref(), position) {
                    let call = CallId { approval, position };
                    return Ok(Err(ProposeRefusal::NotUndoable { call, state }));
                }
            }
        }
        if let Some(restraint) = &self.restraint
            && let Some(answer) = restraint::check(self, restraint, rows, now)?
        {
            return Ok(answer);
        }
        self.take_channel(rows, now)?;
        let replaces = match self.passes {
            Some(_) => None,
            None => self.replace_pending(rows, now)?,
        };
        let saved = self.draft(now, replaces)?;
        let approval = saved.approval.clone();
        rows.save(saved)?;
        Ok(Ok(Proposed {
            approval,
            repeated: false,
        }))
    }

    /// Makes this proposal in place of a call that was refused because its target has changed since the snapshot.
    /// Returns the id of the new approval; `None`, and no proposal, if the channel has another pending question by now
    /// or belongs to another agent.
    pub(super) fn propose_replacement<R: Rows>(
        &self,
        refused: ApprovalId,
        rows: &mut R,
        now: Time,
    ) -> Result<Option<ApprovalId>, StoreError> {
        if let Some(channel) = &self.channel {
            let pending = rows.pending_in(&self.tenant, channel)?;
            if pending.is_some_and(|pending| pending.expires_at > now)
                || self.is_in_anothers_channel(rows, now)?
            {
                return Ok(None);
            }
            self.take_channel(rows, now)?;
            self.replace_pending(rows, now)?;
        }
        rows.save(self.draft(now, Some(refused))?)?;
        Ok(Some(self.id))
    }

    /// Ends the channel's pending approval in the same transaction, so that a channel never has two. Returns the id of
    /// that approval if it was superseded and not expired.
    fn replace_pending<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Option<ApprovalId>, StoreError> {
        let Some(channel) = &self.channel else {
            return Ok(None);
        };
        let Some(old) = rows.pending_in(&self.tenant, channel)? else {
            return Ok(None);
        };
        let old_id = old.id;
        // If the expiry is in doubt, the old approval counts as superseded by this proposal.
        let expired = rows.certain(now) >= old.expires_at;
        let mut change = Change::new(old, now, self.policy);
        if expired {
            change.record(Actor::Gate, EventKind::Expired)?;
        } else {
            change.approval.superseded_by = Some(self.id);
            change.record(
                Actor::Agent(self.agent.clone()),
                EventKind::Superseded { successor: self.id },
            )?;
        }
        change.save(rows)?;
        Ok((!expired).then_some(old_id))
    }

    fn draft(&self, now: Time, replaces: Option<ApprovalId>) -> Result<SavedApproval, StoreError> {
        let mut approval = Approval {
            id: self.id,
            tenant: self.tenant.clone(),
            channel: self.channel.clone(),
            agent: self.agent.clone(),
            run: self.run.clone(),
            session: self.session.clone(),
            requester: self.requester.clone(),
            on_behalf_of: self.on_behalf_of.clone(),
            claim: self.claim.clone(),
            nonce: self.nonce,
            salt: self.salt,
            created_at: now,
            expires_at: now.plus(self.ttl),
            start_within: self.start_within,
            policy: self.policy,
            digest: Hash([0; 32]),
            state: State::Pending,
            ended_at: None,
            changed_at: now,
            version: 0,
            link: first_link(&self.tenant, self.id),
            decision: None,
            superseded_by: None,
            replaces,
            undoes: self.undoes,
            key: self.key.clone(),
            refusals: 0,
            tried: Vec::new(),
            endorsements: Vec::new(),
            erased_at: None,
            order: self.order(),
            calls: self.calls.iter().map(NewCall::hold).collect(),
        };
        let digests: Vec<Hash> = approval
            .numbered()
            .map(|(position, call)| call.digest_in(&approval, position))
            .collect();
        for (call, digest) in approval.calls.iter_mut().zip(digests) {
            call.digest = digest;
        }
        approval.digest = approval.digest_of_calls();
        let proposed = EventKind::Proposed {
            calls: u8::try_from(approval.calls.len()).unwrap_or(u8::MAX),
            expires_at: approval.expires_at,
            digest: approval.digest,
            replaces,
            undoes: self.undoes,
        };
        let mut change = Change::new(approval, now, self.policy);
        change.record(Actor::Agent(self.agent.clone()), proposed)?;
        if let Some(permit) = self.passes {
            let digest = change.approval.digest;
            change.record(Actor::Gate, EventKind::Passed { digest })?;
            start(&mut change, 1, permit, None)?;
        }
        Ok(change.into_saved())
    }
}

impl NewCall {
    /// Builds the held call. Its digest is still zero, because the digest depends on the approval.
    pub(crate) fn hold(&self) -> Call {
        Call {
            tool: self.tool.clone(),
            definition: self.definition,
            arguments: self.arguments.clone(),
            original: None,
            revision: 1,
            terms: self.terms.clone(),
            digest: Hash([0; 32]),
            state: CallState::Held,
            because: None,
            execution: None,
            result: None,
            sealed: self.sealed.clone(),
            undone_by: None,
            provenance: self.provenance.clone(),
            before: self.before.clone(),
            working_folder: self.working_folder.clone(),
        }
    }
}
