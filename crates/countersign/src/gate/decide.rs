//! Deciding: from a person's decision to the end of what it released.

use std::sync::Arc;

use super::{Gate, Ran, mismatch, new_token};
use crate::approval::{Approval, SharedApproval};
use crate::command::{
    Answer, Attempt, Command, Decide, DecideAnswer, PutEntry, Revision, Withdraw, denial_key,
};
use crate::decision::{Choice, Decision, Refusal, Surface, Verdict};
use crate::executor::{PermitToken, Runs};
use crate::hash::{Fields, Hash};
use crate::id::{Actor, ApprovalId, Tenant};
use crate::policy::Asked;
use crate::registry::{Entry, Kind};
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

/// Calls that run: the approval when they are over, and how each ended.
pub type Running = tokio::task::JoinHandle<Result<(SharedApproval, Vec<Ran>), StoreError>>;

impl Gate {
    /// Records a decision. Released calls wait for their host to start them.
    pub async fn decide(&self, decision: Decision) -> Result<DecideAnswer, StoreError> {
        self.record_decision(decision, None).await
    }

    /// Records a decision and runs what it releases, so far as this gate's executor runs those tools.
    ///
    /// The start of the first call is recorded together with the decision. The runs go on when the caller goes away.
    pub async fn decide_and_run(&self, decision: Decision) -> Result<Resolved, StoreError> {
        let (answer, running) = self.decide_and_start(decision).await?;
        let Some(running) = running else {
            return Ok(Resolved {
                approval: answer.approval,
                refusal: answer.refusal,
                ran: Vec::new(),
            });
        };
        let (approval, ran) = running
            .await
            .map_err(|error| StoreError::InDoubt(error.to_string()))??;
        Ok(Resolved {
            approval: Some(approval),
            refusal: None,
            ran,
        })
    }

    /// As [`decide_and_run`](Self::decide_and_run), but answers as soon as the decision is on record; the task runs on.
    pub async fn decide_and_start(
        &self,
        decision: Decision,
    ) -> Result<(DecideAnswer, Option<Running>), StoreError> {
        let tenant = decision.tenant.clone();
        let token = match decision.verdict {
            Verdict::Deny => None,
            _ => Some(new_token()?),
        };
        let permit = token.as_ref().map(PermitToken::hash);
        let answer = self.record_decision(decision, permit).await?;
        let gate = self.clone();
        let running = match (answer.approval.clone(), answer.started, token) {
            (Some(approval), Some(position), Some(token)) => {
                tokio::spawn(async move { gate.run_from(tenant, approval, position, token).await })
            }
            // What it would change is looked at again before the start is on record.
            (Some(approval), None, Some(_)) if answer.refusal.is_none() && self.has_to_look(&approval) => {
                tokio::spawn(async move { gate.run_released(&tenant, approval).await })
            }
            _ => return Ok((answer, None)),
        };
        Ok((answer, Some(running)))
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
        // It stands in an event, for good: a word or two, not a story.
        let reason = reason.map(|reason| reason.chars().take(LONGEST_REASON).collect());
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
        };
        match self.store.write(Command::Decide(Box::new(decide))).await? {
            Answer::Decide(answer) => {
                self.cool_down(&answer).await;
                Ok(answer)
            }
            _ => Err(mismatch()),
        }
    }

    /// Notes for a while that exactly these calls were denied. The decision stands without it: should the store fail
    /// here, the agent may merely ask again sooner.
    async fn cool_down(&self, answer: &DecideAnswer) {
        let (Some(wait), Some(approval), None) =
            (self.policy.agents().cool_down, &answer.approval, &answer.refusal)
        else {
            return;
        };
        let Some(decided) = approval.decision.as_ref().filter(|decided| !decided.approved) else {
            return;
        };
        let calls = approval.calls.iter();
        let calls = calls.map(|call| (call.tool.as_str(), call.arguments.as_bytes()));
        let entry = Entry {
            kind: Kind::Denial,
            key: denial_key(&approval.tenant, &approval.agent, calls),
            tenant: approval.tenant.clone(),
            body: [].into(),
            version: 0,
            expires_at: Some(decided.at.plus(wait)),
        };
        let _ = self.store.write(Command::PutEntry(PutEntry(entry))).await;
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
        let terms = self.policy.hold(asked).map_err(bad)?;
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
