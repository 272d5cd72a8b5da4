//! Decide and withdraw: the commands by which a person or an agent ends a pending approval.

use std::sync::Arc;
use std::time::Duration;

use super::{Change, Rows, attempt, authority, denial};
use crate::approval::{Approval, Decided, Endorsement, EndorsingAccount, SharedApproval};
use crate::call::{Arguments, Call};
use crate::decision::{AuthorityBasis, Choice, Decision, Refusal, Verdict};
use crate::event::{Edited, EventKind};
use crate::executor::RunnableTools;
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, Tenant};
use crate::policy::{Policy, Terms};
use crate::registry::Kind;
use crate::state::State;
use crate::store::StoreError;
use crate::time::Time;

/// Minimum time for which a denial is kept if the decider's policy is not the one that the approval was proposed under.
const OTHER_POLICY: Duration = Duration::from_secs(24 * 60 * 60);

/// Number of a person's refused decisions on an approval with secrets after which that person cannot edit it.
const MOST_REFUSED_BEFORE_EDIT: u8 = 3;

/// A decision, prepared by the gate.
#[derive(Clone, Debug)]
pub struct Decide {
    /// The decision as the person made it.
    pub decision: Decision,
    /// New arguments and terms for each [`Choice::Edit`], in order.
    pub revisions: Vec<Revision>,
    /// Hash of the policy in force, recorded in the event.
    pub policy: Hash,
    /// Hash of the request, compared on a retry with the same idempotency key.
    pub body: Hash,
    /// Hash of a permit token. If set, the first released call starts in the same transaction.
    pub start: Option<Hash>,
    /// Tools that may be started together with the decision; `None` allows all.
    pub runs: Option<RunnableTools>,
    /// Cool-down after a denial, as set by the decider's policy; `None` if that policy has none.
    pub cool_down: Option<Duration>,
    /// Policy under which cards are shown, which may hide more than the calls' own terms. If `None`, only the terms
    /// count.
    pub shown_under: Option<Arc<Policy>>,
}

/// New arguments for a call, with the terms that the policy sets for them.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Arguments that run instead of the proposed ones.
    pub arguments: Arguments,
    /// Terms that the policy sets for these arguments.
    pub terms: Arc<Terms>,
}

/// Answer to a decision or a withdrawal. A refusal is also an answer: check `refusal`, or call
/// [`accepted`](DecideAnswer::accepted).
#[derive(Clone, Debug)]
#[must_use = "a decision may have been refused: call `accepted()`, or look at `refusal`"]
#[non_exhaustive]
pub struct DecideAnswer {
    /// Current state of the approval; `None` if it does not exist. Still pending if further people have to approve.
    pub approval: Option<SharedApproval>,
    /// Reason for refusing the decision; `None` if it was accepted.
    pub refusal: Option<Refusal>,
    /// Position of the call that was started together with the decision, if any.
    pub started: Option<u8>,
}

impl DecideAnswer {
    /// Returns the approval as it is after the decision, or the reason for refusing the decision.
    pub fn accepted(self) -> Result<Option<SharedApproval>, Refusal> {
        match self.refusal {
            Some(refusal) => Err(refusal),
            None => Ok(self.approval),
        }
    }

    fn taken(approval: SharedApproval, started: Option<u8>) -> DecideAnswer {
        DecideAnswer {
            approval: Some(approval),
            refusal: None,
            started,
        }
    }

    fn refused(approval: SharedApproval, refusal: Refusal) -> DecideAnswer {
        DecideAnswer {
            approval: Some(approval),
            refusal: Some(refusal),
            started: None,
        }
    }

    fn not_found(id: ApprovalId) -> DecideAnswer {
        DecideAnswer {
            approval: None,
            refusal: Some(Refusal::NotFound(id)),
            started: None,
        }
    }
}

impl Decide {
    pub(super) fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<DecideAnswer, StoreError> {
        let decision = &self.decision;
        let Some(approval) = rows.approval(&decision.tenant, decision.approval)? else {
            return Ok(DecideAnswer::not_found(decision.approval));
        };
        if let Some(repeated) = self.answer_again(&approval) {
            return Ok(repeated);
        }
        if let Some(refusal) = check_open_for_certain(&approval, now, rows.certain(now)) {
            return Ok(DecideAnswer::refused(Arc::new(approval), refusal));
        }
        let mut change = Change::new(approval, now, self.policy);
        lapse(rows, &mut change.approval, now)?;
        let without_credentials = self.check_credentials(rows, now)?;
        let refusal = check_open(&mut change)?.or(without_credentials);
        if let Some(refusal) = refusal.or_else(|| self.check_decision(&change.approval)) {
            self.record_refused(&mut change, &refusal)?;
            let approval = change.save(rows)?;
            return Ok(DecideAnswer::refused(approval, refusal));
        }
        check_untouched(&change.approval)?;
        let started = self.accept(rows, &mut change)?;
        if let Some(wait) = self.keeps_denials_for(&change.approval) {
            // INVARIANT: the denial is recorded in the same transaction, so nobody can learn of it before it takes
            // effect (X99).
            denial::record_denial(rows, &change.approval, wait)?;
        }
        Ok(DecideAnswer::taken(change.save(rows)?, started))
    }

    /// Returns how long to keep a denial; `None` if it is not kept. If the decider's policy is not the one that the
    /// approval was proposed under, the denial is kept at least [`OTHER_POLICY`], and the policy of the next proposal
    /// determines how long it counts.
    fn keeps_denials_for(&self, approval: &Approval) -> Option<Duration> {
        match self.policy == approval.policy {
            true => self.cool_down,
            false => Some(self.cool_down.unwrap_or_default().max(OTHER_POLICY)),
        }
    }

    /// Returns the registry entries that a denial of this approval may write.
    pub(super) fn denials(&self, approval: &Approval) -> Vec<(Kind, String)> {
        let is_its = approval.id == self.decision.approval && approval.tenant == self.decision.tenant;
        // An approving verdict denies calls, too: those that an earlier approver left out.
        let may_deny = self.decision.verdict != Verdict::Approve || !approval.endorsements.is_empty();
        match self.keeps_denials_for(approval).is_some() && is_its && may_deny {
            true => denial::entries_of(approval),
            false => Vec::new(),
        }
    }

    /// Returns the registry entries that prove the decider's authority.
    pub(super) fn authority_entries(&self) -> Vec<(Kind, &str)> {
        let authority_bases = self.decision.decider.authority_bases.iter();
        authority_bases
            .map(|basis| (basis.kind, basis.key.as_str()))
            .collect()
    }

    /// Checks the decider's authority again. Returns the refusal if it no longer holds; `None` otherwise.
    ///
    /// INVARIANT: this happens inside the transaction, so a person whose role or credential was just revoked decides
    /// nothing (X46).
    fn check_credentials<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Option<Refusal>, StoreError> {
        for basis in &self.decision.decider.authority_bases {
            let entry = rows.entry(basis.kind, &basis.key)?;
            if !basis.holds(entry.as_ref(), now) {
                return Ok(Some(Refusal::NotAllowed {
                    id: self.decision.approval,
                    person: self.decision.decider.person.clone(),
                }));
            }
        }
        Ok(None)
    }

    /// Answers a retry of an accepted decision without any further effect; `None` if this is no retry. Idempotency keys
    /// are per person: a key that another person used does not make a decision a retry.
    fn answer_again(&self, approval: &Approval) -> Option<DecideAnswer> {
        let decided = approval
            .decision
            .iter()
            .map(|decided| (&decided.by, &decided.key));
        let endorsed = approval.in_force().map(|endorsed| (&endorsed.by, &endorsed.key));
        let own = decided
            .chain(endorsed)
            .filter(|(by, _)| **by == self.decision.decider.person);
        let key = self.decision.key.as_ref()?;
        let mut earlier = own.filter_map(|(_, earlier)| earlier.as_ref());
        let (_, body) = earlier.find(|(earlier, _)| earlier == key)?;
        let is_same = *body == self.body;
        let approval = Arc::new(approval.clone());
        Some(match is_same {
            true => DecideAnswer::taken(approval, None),
            false => DecideAnswer::refused(approval, Refusal::KeyReused(key.clone())),
        })
    }

    fn check_decision(&self, approval: &Approval) -> Option<Refusal> {
        let decision = &self.decision;
        let id = approval.id;
        // Check authority first: a person who may not decide learns nothing else.
        if let Some(refusal) = authority::check_authority(self, approval) {
            return Some(refusal);
        }
        if decision.digest.is_some_and(|digest| digest != approval.digest) {
            return Some(Refusal::Stale {
                id,
                digest: approval.digest,
            });
        }
        if let Verdict::Each(choices) = &decision.verdict
            && choices.len() != approval.calls.len()
        {
            return Some(Refusal::BadChoices {
                id,
                calls: approval.calls.len(),
                choices: choices.len(),
            });
        }
        authority::check_not_endorsed(self, approval)
            .or_else(|| authority::check_edit(self, approval))
            .or_else(|| self.check_shown(approval))
            .or_else(|| self.check_edit_hides_nothing(approval))
    }

    /// Refuses an edit that repeats a secret in a place that is shown, because the card of what ran would hide that
    /// place. Returns `None` for any other decision.
    ///
    /// INVARIANT: this is the only answer to an edit that depends on the secrets, and the last check. An edit that does
    /// not hit a secret is therefore a decision and ends the approval; one that does is on record, does not say where,
    /// and after [`MOST_REFUSED_BEFORE_EDIT`] of them the person cannot edit any more. So edits cannot find a secret out.
    fn check_edit_hides_nothing(&self, approval: &Approval) -> Option<Refusal> {
        let choices = choices(&self.decision.verdict, approval.calls.len());
        let mut edits = (1u8..).zip(&choices);
        let (call, _) = edits.find(|(_, choice)| matches!(choice, Choice::Edit(_)))?;
        let bad = |reason: &str| {
            Some(Refusal::BadEdit {
                call,
                reason: reason.to_owned(),
            })
        };
        let empty = Policy::empty();
        let policy = self.shown_under.as_deref().unwrap_or(&empty);
        let has_secrets = |call: &Call| !policy.secrets_of(call).is_empty();
        if !approval.calls.iter().any(has_secrets) {
            return None;
        }
        let by = Actor::Person(self.decision.decider.person.clone());
        if attempt::refusals_of(approval, &by).is_none_or(|count| count >= MOST_REFUSED_BEFORE_EDIT) {
            return bad(
                "several decisions on this approval were refused, and it has secrets, so it cannot be edited any more",
            );
        }
        let mut edited = approval.clone();
        // Fails the same way when the edit is applied, and then nothing is written.
        self.revise(&mut edited, &choices).ok()?;
        edited
            .concealed(policy)
            .and_then(|_| bad("it repeats a secret in a place that is shown, so that place would be hidden"))
    }

    /// Refuses to approve a card that hides a value which the policy does not call secret. Returns `None` for any other
    /// card, and for a denial.
    ///
    /// INVARIANT: such a card is never approved, even if a surface states that it showed the whole card.
    fn check_shown(&self, approval: &Approval) -> Option<Refusal> {
        if !approves(&choices(&self.decision.verdict, approval.calls.len())) {
            return None;
        }
        let concealed = match &self.shown_under {
            Some(policy) => approval.concealed(policy),
            None => approval.concealed(&Policy::empty()),
        };
        concealed.map(|concealed| Refusal::Concealed {
            id: approval.id,
            what: concealed.to_string(),
        })
    }

    fn accept<R: Rows>(&self, rows: &mut R, change: &mut Change) -> Result<Option<u8>, StoreError> {
        let decision = &self.decision;
        let count = change.approval.calls.len();
        let choices = choices(&decision.verdict, count);
        let own: Vec<u8> = (1u8..)
            .zip(&choices)
            .filter(|(_, choice)| ***choice != Choice::Deny)
            .map(|(position, _)| position)
            .collect();
        // A call runs only if every required approver granted it. If they have no call in common, the approval is
        // denied.
        let by_all = |position: &u8| {
            change
                .approval
                .in_force()
                .all(|earlier| earlier.grants(*position))
        };
        let granted: Vec<u8> = own.iter().copied().filter(by_all).collect();
        if !granted.is_empty() && change.approval.missing() > 1 {
            self.endorse(change, (own.len() < count).then_some(own))?;
            return Ok(None);
        }
        change.approval.decision = Some(Decided {
            approved: !granted.is_empty(),
            by: decision.decider.person.clone(),
            at: change.at,
            surface: decision.decider.surface.as_str().to_owned(),
            comment: decision.comment.clone(),
            claimed_by: decision.claimed_by.clone(),
            key: decision.key.clone().map(|key| (key, self.body)),
        });
        let digest = change.approval.digest;
        let surface = decision.decider.surface.as_str().to_owned();
        let what = if granted.is_empty() {
            EventKind::Denied { digest, surface }
        } else {
            let edited = self.revise(&mut change.approval, &choices)?;
            EventKind::Approved {
                digest,
                surface,
                calls: (granted.len() < count).then_some(granted),
                edited,
            }
        };
        change.record(Actor::Person(decision.decider.person.clone()), what)?;
        match self.start {
            Some(permit) if self.runs_next(&change.approval) => {
                super::start::start_next(rows, change, permit)
            }
            _ => Ok(None),
        }
    }

    /// Records an approval that needs further approvers.
    fn endorse(&self, change: &mut Change, calls: Option<Vec<u8>>) -> Result<(), StoreError> {
        let decision = &self.decision;
        let surface = decision.decider.surface.as_str().to_owned();
        change.approval.endorsements.push(Endorsement {
            by: decision.decider.person.clone(),
            at: change.at,
            surface: surface.clone(),
            calls: calls.clone(),
            comment: decision.comment.clone(),
            claimed_by: decision.claimed_by.clone(),
            key: decision.key.clone().map(|key| (key, self.body)),
            account: self.endorsing_account(),
            lapsed: false,
        });
        let digest = change.approval.digest;
        let what = EventKind::Endorsed {
            digest,
            surface,
            calls,
        };
        Ok(change.record(Actor::Person(decision.decider.person.clone()), what)?)
    }

    fn endorsing_account(&self) -> EndorsingAccount {
        let authority_bases = &self.decision.decider.authority_bases;
        let account = authority_bases.iter().find(|basis| basis.kind == Kind::Person);
        match account.map(|account| (&account.key, account.body)) {
            Some((key, Some(body))) => EndorsingAccount::Account(key.clone(), body),
            None if authority_bases.is_empty() => EndorsingAccount::NoAccount,
            _ => EndorsingAccount::Unknown,
        }
    }

    /// Returns true if a call is released next and the decider's gate can run its tool.
    fn runs_next(&self, approval: &Approval) -> bool {
        let next = approval
            .next_released()
            .and_then(|position| approval.call(position));
        let runs = |tool| self.runs.as_ref().is_none_or(|runs| runs.includes(tool));
        next.is_some_and(|call| runs(&call.tool))
    }

    /// Replaces arguments with their edits. Each edit becomes a new revision with its own digest.
    fn revise(&self, approval: &mut Approval, choices: &[&Choice]) -> Result<Vec<Edited>, StoreError> {
        let mut revisions = self.revisions.iter();
        let mut edited = Vec::new();
        for (position, choice) in (1u8..).zip(choices) {
            let Choice::Edit(arguments) = choice else { continue };
            let revision = revisions
                .next()
                .filter(|revision| revision.arguments == *arguments);
            let revision =
                revision.ok_or_else(|| StoreError::Impossible("an edit nobody ruled on".to_owned()))?;
            if let Some(call) = approval.call_mut(position) {
                call.original = Some(std::mem::replace(&mut call.arguments, revision.arguments.clone()));
                // The provenance described the proposed values.
                call.provenance = None;
                call.terms = revision.terms.clone();
                call.revision = call.revision.saturating_add(1);
            }
            let digest = approval
                .call(position)
                .map(|call| call.digest_in(approval, position));
            if let (Some(call), Some(digest)) = (approval.call_mut(position), digest) {
                let was = std::mem::replace(&mut call.digest, digest);
                edited.push(Edited {
                    call: position,
                    was,
                    digest,
                });
            }
        }
        Ok(edited)
    }

    fn record_refused(&self, change: &mut Change, refusal: &Refusal) -> Result<(), StoreError> {
        let decider = &self.decision.decider;
        let approve = approves(&choices(&self.decision.verdict, change.approval.calls.len()));
        let by = Actor::Person(decider.person.clone());
        attempt::record_refused(change, by, refusal.code(), approve, decider.surface)
    }
}

/// Withdraws an approval without a decision.
#[derive(Clone, Debug)]
pub struct Withdraw {
    /// Tenant of the approval.
    pub tenant: Tenant,
    /// The approval to withdraw.
    pub approval: ApprovalId,
    /// The agent that proposed the approval, or the person who changed the subject.
    pub by: Actor,
    /// Reason for the withdrawal, if one was given; recorded in the event.
    pub reason: Option<String>,
    /// Hash of the policy in force, recorded in the event.
    pub policy: Hash,
}

impl Withdraw {
    pub(super) fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<DecideAnswer, StoreError> {
        let Some(approval) = rows.approval(&self.tenant, self.approval)? else {
            return Ok(DecideAnswer::not_found(self.approval));
        };
        // An agent sees and withdraws only its own approvals.
        if matches!(&self.by, Actor::Agent(agent) if *agent != approval.agent) {
            return Ok(DecideAnswer::not_found(self.approval));
        }
        if let Some(refusal) = check_open_for_certain(&approval, now, rows.certain(now)) {
            return Ok(DecideAnswer::refused(Arc::new(approval), refusal));
        }
        let mut change = Change::new(approval, now, self.policy);
        if let Some(refusal) = check_open(&mut change)? {
            return Ok(DecideAnswer::refused(change.save(rows)?, refusal));
        }
        change.record(
            self.by.clone(),
            EventKind::Withdrawn {
                reason: self.reason.clone(),
            },
        )?;
        Ok(DecideAnswer::taken(change.save(rows)?, None))
    }
}

/// Marks endorsements as lapsed.
///
/// INVARIANT: an endorsement counts only while the account with which it was given is unchanged. A person who was
/// removed, left a group, or was removed and added again counts as not having approved (X67).
fn lapse<R: Rows>(rows: &mut R, approval: &mut Approval, now: Time) -> Result<(), StoreError> {
    for endorsed in &mut approval.endorsements {
        let holds = match &endorsed.account {
            EndorsingAccount::Unknown => false,
            EndorsingAccount::NoAccount => true,
            EndorsingAccount::Account(key, body) => {
                let account = AuthorityBasis {
                    kind: Kind::Person,
                    key: key.clone(),
                    body: Some(*body),
                };
                account.holds(rows.entry(Kind::Person, key)?.as_ref(), now)
            }
        };
        endorsed.lapsed |= !holds;
    }
    Ok(())
}

/// Refuses to decide an approval that has expired only according to a clock that may be wrong; returns `None` for any
/// other approval. Records nothing, so the approval is pending again once the clock is corrected.
fn check_open_for_certain(approval: &Approval, now: Time, certain: Time) -> Option<Refusal> {
    let at = approval.expires_at;
    let is_in_doubt = approval.state == State::Pending && now >= at && certain < at;
    is_in_doubt.then_some(Refusal::Expired { id: approval.id, at })
}

/// Returns the reason why this approval can no longer be decided or withdrawn; `None` if it is pending. Records the
/// expiry of a pending approval whose time is up.
fn check_open(change: &mut Change) -> Result<Option<Refusal>, StoreError> {
    // INVARIANT: the clock was read after the row was locked, so nobody can approve at or after expiry.
    if change.approval.state == State::Pending && change.at >= change.approval.expires_at {
        change.record(Actor::Gate, EventKind::Expired)?;
    }
    let approval = &change.approval;
    let id = approval.id;
    let at = approval.ended_at.unwrap_or(approval.created_at);
    Ok(
        match (approval.state, &approval.decision, approval.superseded_by) {
            (State::Pending, _, _) => None,
            (State::Approved | State::Denied, Some(decided), _) => {
                let (state, by, at) = (approval.state, decided.by.clone(), decided.at);
                Some(Refusal::AlreadyDecided { id, state, by, at })
            }
            (State::Expired, _, _) => Some(Refusal::Expired {
                id,
                at: approval.expires_at,
            }),
            (State::Superseded, _, Some(by)) => Some(Refusal::Superseded { id, by }),
            (State::Withdrawn, _, _) => Some(Refusal::Withdrawn { id, at }),
            (State::Passed, _, _) => Some(Refusal::NotAsked { id, at }),
            (state, _, _) => return Err(StoreError::Impossible(format!("{state} without saying by whom"))),
        },
    )
}

/// Checks that the stored bytes are those that were shown, by computing all digests again.
fn check_untouched(approval: &Approval) -> Result<(), StoreError> {
    let same = approval
        .numbered()
        .all(|(position, call)| call.digest == call.digest_in(approval, position));
    match same && approval.digest == approval.digest_of_calls() {
        true => Ok(()),
        false => Err(StoreError::Impossible(format!(
            "approval {} does not fit its digest",
            approval.id
        ))),
    }
}

/// Returns true if at least one call is granted.
pub(super) fn approves(choices: &[&Choice]) -> bool {
    choices.iter().any(|choice| **choice != Choice::Deny)
}

pub(super) fn choices(verdict: &Verdict, calls: usize) -> Vec<&Choice> {
    match verdict {
        Verdict::Approve => vec![&Choice::Approve; calls],
        Verdict::Deny => vec![&Choice::Deny; calls],
        Verdict::Each(choices) => choices.iter().collect(),
    }
}
