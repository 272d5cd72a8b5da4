//! Records a person's decision and runs the calls that it releases.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::run::require_timers;
use super::{Gate, Ran, StartToken, mismatch};
use crate::approval::{Approval, SharedApproval};
use crate::call::{Arguments, Call};
use crate::command::{Answer, Attempt, Command, Decide, DecideAnswer, Revision, Withdraw};
use crate::decision::{Choice, Decision, Refusal, Surface, Verdict};
use crate::display::escape;
use crate::executor::RunnableTools;
use crate::hash::{Fields, Hash};
use crate::id::{Actor, ApprovalId, Tenant};
use crate::json;
use crate::policy::{CallRequest, Policy};
use crate::secrecy::{Secrecy, too_many_in_edit};
use crate::snapshot::Snapshot;
use crate::store::StoreError;
use crate::summary::{UNSHOWN, generic};

/// Placeholder for a secret that an edit keeps as it was proposed. Only the inbox page replaces it with the secret
/// again, so an edit that still contains the placeholder is refused.
pub const KEPT: &str = "(secret, kept as it is)";

/// Maximum length of a reason for withdrawing, in characters.
const LONGEST_REASON: usize = 200;

/// Result of a decision and of the calls that it released. A refusal is also a result: check `refusal`, or call
/// [`accepted`](Resolved::accepted).
#[derive(Debug)]
#[must_use = "a decision may have been refused: call `accepted()`, or look at `refusal`"]
#[non_exhaustive]
pub struct Resolved {
    /// Current state of the approval; `None` if it does not exist.
    pub approval: Option<SharedApproval>,
    /// Reason for refusing the decision; `None` if it was accepted.
    pub refusal: Option<Refusal>,
    /// Calls that this gate ran, in order.
    pub ran: Vec<Ran>,
}

impl Resolved {
    /// Returns the outcomes of the calls that ran, or the reason for refusing the decision.
    pub fn accepted(self) -> Result<Vec<Ran>, Refusal> {
        match self.refusal {
            Some(refusal) => Err(refusal),
            None => Ok(self.ran),
        }
    }
}

/// Future that records a decision and then runs the released calls. Returns the final approval and the outcome of each
/// call, or `None` if this gate has nothing to run.
pub type Running = BoxFuture<'static, Result<Option<(SharedApproval, Vec<Ran>)>, StoreError>>;

impl Gate {
    /// Records a decision. Released calls wait for their host to start them.
    pub async fn decide(&self, decision: Decision) -> Result<DecideAnswer, StoreError> {
        self.record_decision(decision, None).await
    }

    /// Records a decision and runs the released calls whose tools this gate's executor runs.
    ///
    /// Records the start of the first call together with the decision. Continues even if the caller stops waiting.
    pub async fn decide_and_run(&self, decision: Decision) -> Result<Resolved, StoreError> {
        let (answer, running) = self.decide_and_start(decision, tokio::spawn).await?;
        let ran = running.await;
        let ran = ran.map_err(|error| StoreError::InDoubt(error.to_string()))??;
        let (approval, ran) = ran.map_or((answer.approval, Vec::new()), |(approval, ran)| {
            (Some(approval), ran)
        });
        Ok(Resolved {
            approval,
            refusal: answer.refusal,
            ran,
        })
    }

    /// Like [`decide_and_run`](Self::decide_and_run), but returns as soon as the decision is recorded. The rest of the
    /// work is passed to `spawn`, which must run it to completion even if the caller stops waiting: a started call
    /// whose future is dropped ends as unknown.
    pub async fn decide_and_start<T>(
        &self,
        decision: Decision,
        spawn: impl FnOnce(Running) -> T,
    ) -> Result<(DecideAnswer, T), StoreError> {
        let (tell, told) = oneshot::channel();
        let gate = self.clone();
        let task = spawn(async move { gate.decide_then_run(decision, tell).await }.boxed());
        match told.await {
            Ok(answer) => Ok((answer?, task)),
            Err(_) => Err(StoreError::InDoubt("nobody saw the decision through".to_owned())),
        }
    }

    /// Sends the answer to `tell` as soon as the decision is recorded, then runs the released calls. `None` if this
    /// gate has nothing to run.
    async fn decide_then_run(
        &self,
        decision: Decision,
        tell: oneshot::Sender<Result<DecideAnswer, StoreError>>,
    ) -> Result<Option<(SharedApproval, Vec<Ran>)>, StoreError> {
        let tenant = decision.tenant.clone();
        let (answer, token) = match self.decide_with_token(decision).await {
            Ok(decided) => decided,
            Err(error) => {
                let _ = tell.send(Err(error));
                return Ok(None);
            }
        };
        let (approval, started) = (answer.approval.clone(), answer.started);
        let is_accepted = answer.refusal.is_none();
        // The send fails if the caller no longer waits for the answer.
        let _ = tell.send(Ok(answer));
        match (approval, started, token) {
            (Some(approval), Some(position), Some(token)) => {
                self.run_from(tenant, approval, position, token).await.map(Some)
            }
            // A call with a snapshot is started separately, after the data behind the snapshot has been read again. So
            // are calls that may start in any order, because some of them may be another host's.
            (Some(approval), None, Some(_)) if is_accepted && self.starts_separately(&approval) => {
                let (approval, ran) = self.run_released(&tenant, approval).await?;
                let approval = self.wait_for_other_runner(&tenant, approval).await?;
                Ok(Some((approval, ran)))
            }
            _ => Ok(None),
        }
    }

    /// Records a decision together with the start of the first call that it releases, and returns the token of that
    /// call; no token for a denial.
    async fn decide_with_token(
        &self,
        decision: Decision,
    ) -> Result<(DecideAnswer, Option<StartToken>), StoreError> {
        require_timers()?;
        let token = match decision.verdict {
            Verdict::Deny => None,
            _ => Some(StartToken::new()?),
        };
        let permit = token.as_ref().map(StartToken::hash);
        Ok((self.record_decision(decision, permit).await?, token))
    }

    /// Records, as evidence, an attempt to decide by a caller without that right, such as an agent. Decides nothing.
    pub async fn note_attempt(
        &self,
        tenant: &Tenant,
        approval: ApprovalId,
        by: Actor,
        approve: bool,
        surface: Surface,
    ) -> Result<(), StoreError> {
        let attempt = Attempt {
            tenant: tenant.clone(),
            approval,
            by,
            approve,
            surface,
            policy: self.policy.hash(),
        };
        self.store.write(Command::Attempt(attempt)).await.map(|_| ())
    }

    /// Withdraws a pending approval; an agent can withdraw only its own. The reason is recorded without secrets, and
    /// cut to 200 characters.
    pub async fn withdraw(
        &self,
        tenant: &Tenant,
        approval: ApprovalId,
        by: Actor,
        reason: Option<String>,
    ) -> Result<DecideAnswer, StoreError> {
        // The reason is kept in an event forever, so it has to be short and free of secrets.
        let reason = match reason {
            None => None,
            Some(reason) => {
                let found = self.store.approval(tenant, approval).await?;
                let secrecy = found.map(|found| found.secrecy(&self.policy)).unwrap_or_default();
                Some(secrecy.text(&reason).chars().take(LONGEST_REASON).collect())
            }
        };
        let withdraw = Withdraw {
            tenant: tenant.clone(),
            approval,
            by,
            reason,
            policy: self.policy.hash(),
        };
        match self.store.write(Command::Withdraw(withdraw)).await? {
            Answer::Withdraw(answer) => Ok(answer),
            _ => Err(mismatch()),
        }
    }

    async fn record_decision(
        &self,
        decision: Decision,
        start: Option<Hash>,
    ) -> Result<DecideAnswer, StoreError> {
        let revisions = match self.revisions(&decision).await? {
            Ok(revisions) => revisions,
            Err((approval, refusal)) => {
                return Ok(DecideAnswer {
                    approval,
                    refusal: Some(refusal),
                    started: None,
                });
            }
        };
        let body = decision_hash(&decision);
        let decide = Decide {
            decision,
            revisions,
            policy: self.policy.hash(),
            body,
            start,
            runs: Some(RunnableTools(self.executor.clone())),
            cool_down: self.policy.agents().cool_down,
            shown_under: Some(self.policy.clone()),
        };
        match self.store.write(Command::Decide(Box::new(decide))).await? {
            Answer::Decide(answer) => Ok(answer),
            _ => Err(mismatch()),
        }
    }

    /// Returns the approval as it would be after these choices, so that a surface can show what would run before
    /// anything is decided. Edited calls have their new arguments, terms and digests; the approval keeps its own
    /// digest.
    ///
    /// INVARIANT: the preview contains no secret. Placeholders stand for all of them, whether kept or typed, so a preview
    /// cannot tell whether an edit repeats a secret or guesses one. Only the decision is compared with the secrets.
    pub fn preview(&self, approval: &Approval, choices: &[Choice]) -> Result<Approval, Refusal> {
        // In such a card, a secret is also in places that are shown.
        if let Some(concealed) = approval.concealed(&self.policy) {
            return Err(Refusal::Concealed {
                id: approval.id,
                what: concealed.to_string(),
            });
        }
        let masked = without_secrets(approval, &self.policy);
        let mut revisions = Vec::new();
        for (position, choice) in (1u8..).zip(choices) {
            if let Choice::Edit(arguments) = choice {
                revisions.push(self.revise_for_preview(approval, &masked, position, arguments)?);
            }
        }
        let mut preview = edited(&masked, choices, &revisions);
        for position in 1u8.. {
            let digest = match preview.call(position) {
                Some(call) => call.digest_in(&preview, position),
                None => break,
            };
            if let Some(call) = preview.call_mut(position) {
                call.digest = digest;
            }
        }
        Ok(preview)
    }

    /// Rules on edited arguments, and returns them without their secrets. Risk and authority are those of the real
    /// arguments; the summary and the notes are made from arguments without secrets, because they may quote any value.
    fn revise_for_preview(
        &self,
        approval: &Approval,
        masked: &Approval,
        position: u8,
        arguments: &Arguments,
    ) -> Result<Revision, Refusal> {
        let real = self.revise(approval, position, arguments)?;
        let bad = |reason: &str| Refusal::BadEdit {
            call: position,
            reason: reason.to_owned(),
        };
        let call = approval
            .call(position)
            .ok_or_else(|| bad("there is no such call"))?;
        let secrecy = Secrecy::of(call, &self.policy, &approval.salt);
        let shown = mask(arguments.as_bytes(), &secrecy);
        let shown = Arguments::parse(shown)
            .map_err(|_| bad("without its secrets it cannot be shown: have it proposed again"))?;
        let mut terms = (*real.terms).clone();
        match self.revise(masked, position, &shown) {
            Ok(revision) => {
                terms.summary.clone_from(&revision.terms.summary);
                terms.notes.clone_from(&revision.terms.notes);
            }
            // A placeholder may not fit the tool's schema. The notes are then those on the proposed call.
            Err(_) => {
                let secrets = self.policy.secrets_of(call);
                terms.summary = generic(call.tool.as_str(), shown.as_bytes(), &secrets, &approval.salt);
                terms.notes.clone_from(&call.terms.notes);
            }
        }
        Ok(Revision {
            arguments: shown,
            terms: Arc::new(terms),
        })
    }

    /// Evaluates the policy for edited arguments, before the decision is recorded. The inner error is the refusal of an
    /// edit.
    async fn revisions(
        &self,
        decision: &Decision,
    ) -> Result<Result<Vec<Revision>, (Option<SharedApproval>, Refusal)>, StoreError> {
        let Verdict::Each(choices) = &decision.verdict else {
            return Ok(Ok(Vec::new()));
        };
        if !choices.iter().any(|choice| matches!(choice, Choice::Edit(_))) {
            return Ok(Ok(Vec::new()));
        }
        let Some(approval) = self.store.approval(&decision.tenant, decision.approval).await? else {
            return Ok(Err((None, Refusal::NotFound(decision.approval))));
        };
        let mut revisions = Vec::new();
        for (position, choice) in (1u8..).zip(choices) {
            let Choice::Edit(arguments) = choice else { continue };
            match self.revise(&approval, position, arguments) {
                Ok(revision) => revisions.push(revision),
                Err(refusal) => return Ok(Err((Some(approval), refusal))),
            }
        }
        Ok(Ok(revisions))
    }

    /// Rules on edited arguments. Whether they repeat a secret is checked only when the decision is recorded, after
    /// everything else.
    fn revise(&self, approval: &Approval, position: u8, arguments: &Arguments) -> Result<Revision, Refusal> {
        let bad = |reason: String| Refusal::BadEdit {
            call: position,
            reason,
        };
        let call = approval
            .call(position)
            .ok_or_else(|| bad("there is no such call".to_owned()))?;
        if !self.policy.lists(call.tool.as_str()) && self.policy.hash() != approval.policy {
            let reason = "the policy at hand does not list the tool, so it cannot rule on other arguments: \
                          edit it where the policy is known, or name that policy";
            return Err(bad(reason.to_owned()));
        }
        if let Some(problem) = too_many_in_edit(&self.policy.secrets_of(call), arguments.as_bytes()) {
            return Err(bad(problem.with_hint()));
        }
        let proposed = Secrecy::of(call, &self.policy, &approval.salt);
        if let Some(place) = kept_at(arguments.as_bytes(), &proposed) {
            let place = escape(&place);
            let reason = format!(
                "`{KEPT}` at {place} stands for a secret and is none: send the secret itself, or edit on the inbox page"
            );
            return Err(bad(reason));
        }
        if let Some(before) = &call.before {
            // Otherwise an edit could test whether another value is the secret that it was read with.
            if proposed.is_in(&String::from_utf8_lossy(before.arguments.as_bytes())) {
                let reason = "what it would change was read with a secret: have it proposed again";
                return Err(bad(reason.to_owned()));
            }
            let read = self.policy.before(call.tool.as_str(), arguments.as_bytes());
            let is_same = |read: Result<_, _>| read == Ok((before.tool.clone(), before.arguments.clone()));
            if !read.is_none_or(is_same) {
                let reason = "it would change something else than what was shown: have it proposed again";
                return Err(bad(reason.to_owned()));
            }
        }
        let request = CallRequest {
            tool: call.tool.as_str(),
            arguments: arguments.as_bytes(),
            definition: call.definition,
            salt: &approval.salt,
            before: call.before.as_deref().map(|before| &*before.result),
            working_folder: call.working_folder.as_deref(),
        };
        // An edit never lowers the risk: the agent may have claimed a higher one than the policy assigns.
        let least = Some(call.terms.risk());
        let mut terms = self.policy.hold_traced(request, None, least).map_err(bad)?;
        let changed = Call {
            original: Some(call.arguments.clone()),
            arguments: arguments.clone(),
            ..call.clone()
        };
        let secrecy = Secrecy::of(&changed, &self.policy, &approval.salt);
        let summary = |secrets: &[_]| generic(request.tool, request.arguments, secrets, request.salt);
        terms.hide(self.policy.secrets_of(call), &secrecy, summary);
        Ok(Revision {
            arguments: arguments.clone(),
            terms: Arc::new(terms),
        })
    }
}

/// Returns the JSON pointer of the first secret argument that still is the placeholder [`KEPT`]; `None` if there is
/// none.
fn kept_at(arguments: &[u8], secrecy: &Secrecy) -> Option<String> {
    let is_kept = |leaf: &json::Leaf| leaf.kind == json::Kind::String && leaf.text() == KEPT;
    let leaves = json::leaves(arguments).into_iter();
    let mut kept = leaves.filter(|leaf| is_kept(leaf) && secrecy.is_secret(&leaf.pointer));
    kept.next().map(|leaf| leaf.pointer)
}

/// Returns the approval with placeholders in place of all secrets, so that what is made from it cannot depend on them.
fn without_secrets(approval: &Approval, policy: &Policy) -> Approval {
    let mut approval = approval.clone();
    for call in &mut approval.calls {
        let secrecy = Secrecy::of(call, policy, &approval.salt);
        if !secrecy.has_any() {
            continue;
        }
        call.arguments = Arguments::stored(mask(call.arguments.as_bytes(), &secrecy));
        if let Some(before) = &call.before {
            let result = mask(&before.result, &secrecy).into();
            call.before = Some(Arc::new(Snapshot {
                result,
                ..(**before).clone()
            }));
        }
    }
    approval
}

/// Replaces each secret value in a JSON document with [`UNSHOWN`].
fn mask(document: &[u8], secrecy: &Secrecy) -> Vec<u8> {
    let mut masked = Vec::with_capacity(document.len());
    let mut from = 0;
    for (_, range) in json::find(document, |pointer| secrecy.is_secret(pointer)) {
        masked.extend_from_slice(document.get(from..range.start).unwrap_or_default());
        masked.extend_from_slice(format!("\"{UNSHOWN}\"").as_bytes());
        from = range.end;
    }
    masked.extend_from_slice(document.get(from..).unwrap_or_default());
    masked
}

/// Returns the approval with edited arguments in place of the proposed ones. `revisions` has one element for each
/// [`Choice::Edit`].
fn edited(approval: &Approval, choices: &[Choice], revisions: &[Revision]) -> Approval {
    let mut approval = approval.clone();
    let mut revisions = revisions.iter();
    for (call, choice) in approval.calls.iter_mut().zip(choices) {
        if matches!(choice, Choice::Edit(_))
            && let Some(revision) = revisions.next()
        {
            call.original = Some(std::mem::replace(&mut call.arguments, revision.arguments.clone()));
            // The provenance described the proposed values.
            call.provenance = None;
            call.terms = revision.terms.clone();
            call.revision = call.revision.saturating_add(1);
        }
    }
    approval
}

/// Returns the request hash that is stored with an idempotency key. It covers the decision, but not its time or
/// surface.
fn decision_hash(decision: &Decision) -> Hash {
    let fields = Fields::new("countersign/decision/1")
        .field(decision.decider.person.as_str().as_bytes())
        .optional(decision.digest.as_ref().map(|digest| digest.0.as_slice()))
        .optional(decision.comment.as_deref().map(str::as_bytes));
    match &decision.verdict {
        Verdict::Approve => fields.field(b"approve").finish(),
        Verdict::Deny => fields.field(b"deny").finish(),
        Verdict::Each(choices) => choices
            .iter()
            .fold(fields.field(b"each"), |fields, choice| match choice {
                Choice::Approve => fields.field(b"approve"),
                Choice::Deny => fields.field(b"deny"),
                Choice::Edit(arguments) => fields.field(b"edit").field(arguments.as_bytes()),
            })
            .finish(),
    }
}
