//! Deciding: from a person's decision to the end of what it released.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::{Gate, Ran, StartToken, mismatch};
use crate::approval::{Approval, SharedApproval};
use crate::call::Call;
use crate::command::{Answer, Attempt, Command, Decide, DecideAnswer, Revision, Withdraw};
use crate::decision::{Choice, Decision, Refusal, Surface, Verdict};
use crate::executor::Runs;
use crate::hash::{Fields, Hash};
use crate::id::{Actor, ApprovalId, Tenant};
use crate::policy::Asked;
use crate::secrecy::Secrecy;
use crate::store::StoreError;

/// The most characters of a reason for withdrawing.
const LONGEST_REASON: usize = 200;

/// What became of a decision and of the calls it released.
#[derive(Debug)]
pub struct Resolved {
    /// The approval as it is now; nothing when there is none.
    pub approval: Option<SharedApproval>,
    /// Why the decision was not accepted; nothing when it was.
    pub refusal: Option<Refusal>,
    /// The calls this gate ran, in order.
    pub ran: Vec<Ran>,
}

/// A decision that is being recorded, and then what it releases that is run: the approval when that is over, and how each call
/// ended. Nothing when there is nothing to run here.
pub type Running = BoxFuture<'static, Result<Option<(SharedApproval, Vec<Ran>)>, StoreError>>;

impl Gate {
    /// Records a decision. Released calls wait for their host to start them.
    pub async fn decide(&self, decision: Decision) -> Result<DecideAnswer, StoreError> {
        self.record_decision(decision, None).await
    }

    /// Records a decision and runs what it releases, so far as this gate's executor runs those tools.
    ///
    /// The start of the first call is recorded together with the decision. All of it goes on when the caller goes away.
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

    /// As [`decide_and_run`](Self::decide_and_run), but answers as soon as the decision is on record. All that is to be done is
    /// given to `spawn`, which must see it through whoever goes away: what was started and is dropped ends as unknown.
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

    /// Tells what became of the decision as soon as that is known.
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
        // Who no longer waits does not want to know.
        let _ = tell.send(Ok(answer));
        match (approval, started, token) {
            (Some(approval), Some(position), Some(token)) => {
                self.run_from(tenant, approval, position, token).await.map(Some)
            }
            // What it would change is looked at again before the start is on record.
            (Some(approval), None, Some(_)) if is_accepted && self.has_to_look(&approval) => {
                self.run_released(&tenant, approval).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Records a decision with the start of the first call it releases, and keeps what permits that.
    async fn decide_with_token(
        &self,
        decision: Decision,
    ) -> Result<(DecideAnswer, Option<StartToken>), StoreError> {
        let token = match decision.verdict {
            Verdict::Deny => None,
            _ => Some(StartToken::new()?),
        };
        let permit = token.as_ref().map(StartToken::hash);
        Ok((self.record_decision(decision, permit).await?, token))
    }

    /// Keeps as evidence that somebody tried to decide who never may, such as an agent. Decides nothing.
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

    /// Takes an approval back.
    pub async fn withdraw(
        &self,
        tenant: &Tenant,
        approval: ApprovalId,
        by: Actor,
        reason: Option<String>,
    ) -> Result<DecideAnswer, StoreError> {
        // It stands in an event, for good: a word or two, not a story, and no secret.
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
            runs: Some(Runs(self.executor.clone())),
            cool_down: self.policy.agents().cool_down,
        };
        match self.store.write(Command::Decide(Box::new(decide))).await? {
            Answer::Decide(answer) => Ok(answer),
            _ => Err(mismatch()),
        }
    }

    /// The policy rules on edited arguments again, before anything is decided.
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

    fn revise(
        &self,
        approval: &Approval,
        position: u8,
        arguments: &crate::call::Arguments,
    ) -> Result<Revision, Refusal> {
        let bad = |reason: String| Refusal::BadEdit {
            call: position,
            reason,
        };
        let call = approval
            .call(position)
            .ok_or_else(|| bad("there is no such call".to_owned()))?;
        if self.policy.act(call.tool.as_str()).is_none() && self.policy.hash() != approval.policy {
            let reason = "the policy at hand does not list the tool, so it cannot rule on other arguments: \
                          edit it where the policy is known, or name that policy";
            return Err(bad(reason.to_owned()));
        }
        if let Some(before) = &call.before {
            let read = self.policy.before(call.tool.as_str(), arguments.as_bytes());
            let is_same = |read: Result<_, _>| read == Ok((before.tool.clone(), before.arguments.clone()));
            if !read.is_none_or(is_same) {
                let reason = "it would change something else than what was shown: have it proposed again";
                return Err(bad(reason.to_owned()));
            }
        }
        let asked = Asked {
            tool: call.tool.as_str(),
            arguments: arguments.as_bytes(),
            definition: call.definition,
            salt: &approval.salt,
            before: call.before.as_deref().map(|before| &*before.result),
        };
        // An edit never makes a call milder: the agent may have asked for more risk than the policy sees in it.
        let least = Some(call.terms.risk());
        let mut terms = self.policy.hold_traced(asked, None, least).map_err(bad)?;
        let changed = Call {
            original: Some(call.arguments.clone()),
            arguments: arguments.clone(),
            ..call.clone()
        };
        let secrecy = Secrecy::of(&changed, &self.policy, &approval.salt);
        terms.hide(self.policy.secrets_of(call), &secrecy);
        Ok(Revision {
            arguments: arguments.clone(),
            terms: Arc::new(terms),
        })
    }
}

/// What an idempotency key stands for: what was decided, not when or through which door.
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
