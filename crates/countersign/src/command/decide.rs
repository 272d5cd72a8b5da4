//! Decide and withdraw: the ways in which a pending approval ends by somebody's will.

use std::sync::Arc;
use std::time::Duration;

use super::{Change, Rows, attempt, authority, denial};
use crate::approval::{Approval, Decided, EndorsedWith, Endorsement, SharedApproval};
use crate::call::Arguments;
use crate::decision::{Choice, Decision, Ground, Refusal, Verdict};
use crate::event::{Edited, What};
use crate::executor::Runs;
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, Tenant};
use crate::policy::Terms;
use crate::registry::Kind;
use crate::state::State;
use crate::store::StoreError;
use crate::time::Time;

/// How long a denial is kept when the policy that the approval was proposed under is not at hand.
const OTHER_POLICY: Duration = Duration::from_secs(24 * 60 * 60);

/// A decision, made ready by the gate.
#[derive(Clone, Debug)]
pub struct Decide {
    /// What the person said.
    pub decision: Decision,
    /// For each [`Choice::Edit`], in order: the new arguments as the policy rules on them.
    pub revisions: Vec<Revision>,
    /// The policy in force.
    pub policy: Hash,
    /// Hash of the request, compared when its idempotency key comes again.
    pub body: Hash,
    /// When given, the first released call is started in the same transaction; the hash of its permit's token.
    pub start: Option<Hash>,
    /// Which tools may be started so; every one when absent.
    pub runs: Option<Runs>,
    /// How long what is denied may not be asked again, by the policy of whoever decides.
    pub cool_down: Option<Duration>,
}

/// New arguments for a call.
#[derive(Clone, Debug)]
pub struct Revision {
    /// The bytes that are to run.
    pub arguments: Arguments,
    /// What the policy says of them.
    pub terms: Arc<Terms>,
}

/// What became of a decision.
#[derive(Clone, Debug)]
pub struct DecideAnswer {
    /// The approval as it is now; nothing when there is none. Still pending after an approval that others must share.
    pub approval: Option<SharedApproval>,
    /// Why the decision was not accepted; nothing when it was.
    pub refusal: Option<Refusal>,
    /// The position of the call that was started along with it.
    pub started: Option<u8>,
}

impl DecideAnswer {
    fn accepted(approval: SharedApproval, started: Option<u8>) -> DecideAnswer {
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
        let mut change = Change::new(approval, now, self.policy);
        lapse(rows, &mut change.approval, now)?;
        let ungrounded = self.why_ungrounded(rows, now)?;
        let refusal = why_over(&mut change)?.or(ungrounded);
        if let Some(refusal) = refusal.or_else(|| self.why_refused(&change.approval)) {
            self.keep_evidence(&mut change, &refusal)?;
            let approval = change.save(rows)?;
            return Ok(DecideAnswer::refused(approval, refusal));
        }
        check_untouched(&change.approval)?;
        let started = self.accept(rows, &mut change)?;
        if let Some(wait) = self.keeps_denials_for(&change.approval) {
            // INVARIANT: in the same transaction. Whoever learns of the denial finds it noted (X99).
            denial::note(rows, &change.approval, wait)?;
        }
        Ok(DecideAnswer::accepted(change.save(rows)?, started))
    }

    /// How long a denial is kept. Whoever decides may know another policy than the one it was proposed under, or none; then it is
    /// kept for long enough, and the policy of whoever asks again says how long it counts.
    fn keeps_denials_for(&self, approval: &Approval) -> Option<Duration> {
        match self.policy == approval.policy {
            true => self.cool_down,
            false => Some(self.cool_down.unwrap_or_default().max(OTHER_POLICY)),
        }
    }

    /// The entries in which a denial by this decision may be noted, of the approval it is about.
    pub(super) fn denials(&self, approval: &Approval) -> Vec<(Kind, String)> {
        let is_its = approval.id == self.decision.approval && approval.tenant == self.decision.tenant;
        // Somebody who approved before may have left a call out.
        let may_deny = self.decision.verdict != Verdict::Approve || !approval.endorsements.is_empty();
        match self.keeps_denials_for(approval).is_some() && is_its && may_deny {
            true => denial::entries_of(approval),
            false => Vec::new(),
        }
    }

    /// The entries this rests on.
    pub(super) fn grounds(&self) -> Vec<(Kind, &str)> {
        let grounds = self.decision.decider.grounds.iter();
        grounds.map(|ground| (ground.kind, ground.key.as_str())).collect()
    }

    /// INVARIANT: authority is looked at again inside the transaction, so that a person whose role or credential was taken
    /// away a moment ago decides nothing (X46).
    fn why_ungrounded<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Option<Refusal>, StoreError> {
        for ground in &self.decision.decider.grounds {
            let entry = rows.entry(ground.kind, &ground.key)?;
            if !ground.holds(entry.as_ref(), now) {
                return Ok(Some(Refusal::NotAllowed {
                    id: self.decision.approval,
                    person: self.decision.decider.person.clone(),
                }));
            }
        }
        Ok(None)
    }

    /// The same decision sent again gets the same answer, and nothing happens twice. A key belongs to who used it:
    /// with somebody else's, one is merely late.
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
            true => DecideAnswer::accepted(approval, None),
            false => DecideAnswer::refused(approval, Refusal::KeyReused(key.clone())),
        })
    }

    fn why_refused(&self, approval: &Approval) -> Option<Refusal> {
        let decision = &self.decision;
        let id = approval.id;
        // Authority first: who may not decide is told so, whatever else is wrong.
        if let Some(refusal) = authority::why_not(self, approval) {
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
        authority::why_not_again(self, approval).or_else(|| authority::why_no_edit(self, approval))
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
        // A call runs only if all who have to approve it did. When they have none in common, that is a no.
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
            What::Denied { digest, surface }
        } else {
            let edited = self.revise(&mut change.approval, &choices)?;
            What::Approved {
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

    /// One of several who have to approve did.
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
            account: self.endorsed_with(),
            lapsed: false,
        });
        let digest = change.approval.digest;
        let what = What::Endorsed {
            digest,
            surface,
            calls,
        };
        Ok(change.record(Actor::Person(decision.decider.person.clone()), what)?)
    }

    fn endorsed_with(&self) -> EndorsedWith {
        let grounds = &self.decision.decider.grounds;
        let account = grounds.iter().find(|ground| ground.kind == Kind::Person);
        match account.map(|account| (&account.key, account.body)) {
            Some((key, Some(body))) => EndorsedWith::Account(key.clone(), body),
            None if grounds.is_empty() => EndorsedWith::NoAccount,
            _ => EndorsedWith::Unknown,
        }
    }

    /// True when whoever decides can also run what comes first.
    fn runs_next(&self, approval: &Approval) -> bool {
        let next = approval
            .next_released()
            .and_then(|position| approval.call(position));
        let runs = |tool| self.runs.as_ref().is_none_or(|runs| runs.includes(tool));
        next.is_some_and(|call| runs(&call.tool))
    }

    /// Puts the edited arguments in place, as a new revision with a digest of its own.
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
                // It was about the values as proposed.
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

    fn keep_evidence(&self, change: &mut Change, refusal: &Refusal) -> Result<(), StoreError> {
        let decider = &self.decision.decider;
        let approve = approves(&choices(&self.decision.verdict, change.approval.calls.len()));
        let by = Actor::Person(decider.person.clone());
        attempt::keep(change, by, refusal.code(), approve, decider.surface)
    }
}

/// Takes an approval back without a decision.
#[derive(Clone, Debug)]
pub struct Withdraw {
    /// Whose approval.
    pub tenant: Tenant,
    /// Which approval.
    pub approval: ApprovalId,
    /// The agent that proposed it, or the person who went on to something else.
    pub by: Actor,
    /// Why.
    pub reason: Option<String>,
    /// The policy in force.
    pub policy: Hash,
}

impl Withdraw {
    pub(super) fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<DecideAnswer, StoreError> {
        let Some(approval) = rows.approval(&self.tenant, self.approval)? else {
            return Ok(DecideAnswer::not_found(self.approval));
        };
        // An agent sees and takes back only what it proposed itself.
        if matches!(&self.by, Actor::Agent(agent) if *agent != approval.agent) {
            return Ok(DecideAnswer::not_found(self.approval));
        }
        let mut change = Change::new(approval, now, self.policy);
        if let Some(refusal) = why_over(&mut change)? {
            return Ok(DecideAnswer::refused(change.save(rows)?, refusal));
        }
        change.record(
            self.by.clone(),
            What::Withdrawn {
                reason: self.reason.clone(),
            },
        )?;
        Ok(DecideAnswer::accepted(change.save(rows)?, None))
    }
}

/// INVARIANT: an approval that others gave counts only while the account it was given with is exactly as it was. Somebody
/// who was removed, left a group, or was removed and added again has approved nothing (X67).
fn lapse<R: Rows>(rows: &mut R, approval: &mut Approval, now: Time) -> Result<(), StoreError> {
    for endorsed in &mut approval.endorsements {
        let holds = match &endorsed.account {
            EndorsedWith::Unknown => false,
            EndorsedWith::NoAccount => true,
            EndorsedWith::Account(key, body) => {
                let account = Ground {
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

/// Why nothing can end this approval any more. One that is past its time is ended here and now.
fn why_over(change: &mut Change) -> Result<Option<Refusal>, StoreError> {
    // INVARIANT: the clock was read after the row was locked, so nobody can approve at or after expiry.
    if change.approval.state == State::Pending && change.at >= change.approval.expires_at {
        change.record(Actor::Gate, What::Expired)?;
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

/// What is stored must be what was shown: every digest is computed again from the stored bytes.
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

/// True when at least one call is to run.
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
