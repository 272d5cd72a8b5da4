//! The calls of one answer: checked, submitted together, run so far as they pass, and told.
//!
//! Enters: an answer with calls. Leaves: one result for each of them, in the session. The answer is on record before
//! anything runs.

use countersign::approval::SharedApproval;
use countersign::executor::Outcome;
use countersign::gate::{
    LONGEST_CLAIM, Ruled, Submission, SubmitError, SubmittedCall, is_same_but_for_the_flag,
};
use countersign::id::{Actor, ApprovalId, Run};
use countersign::policy::{Definition, Policy};
use countersign::provenance::Told;
use countersign::transcript::exchanges;

use super::turn::{Answer, Turn};
use super::{Specialist, TurnError};
use crate::message::{CallResult, Message, ModelCall, Source, conversation};
use crate::progress::Progress;
use crate::session::Step;

/// What became of an answer's calls.
pub(super) struct RanCalls {
    /// Every one of them waits for a person.
    pub(super) all_held: bool,
}

impl Turn<'_> {
    /// Deals with the calls of one answer.
    pub(super) async fn run_calls(
        &mut self,
        specialist: &Specialist,
        answer: Answer,
    ) -> Result<RanCalls, TurnError> {
        let run = self.session.next_run();
        let calls = named(answer.calls, &run);
        let claim = (!answer.text.is_empty()).then(|| clipped(&answer.text, LONGEST_CLAIM));
        // What earlier answers of this turn called stands in the session before this one does.
        let checked: Vec<Option<CallResult>> =
            calls.iter().map(|call| self.answered(specialist, call)).collect();
        let said = conversation(self.session.messages(), &self.agent.plan.outside);
        self.append(Step {
            messages: vec![Message::Agent {
                text: answer.text,
                calls: calls.clone(),
            }],
            ..Step::default()
        })
        .await?;
        for call in &calls {
            let (id, tool) = (call.id.clone(), call.tool.clone());
            self.tell(Progress::Called { id, tool }).await;
        }
        if let Some(repeated) = self.repeated(&calls) {
            let reason = "It was called too often with the same arguments. It did not run.";
            let results = calls
                .iter()
                .map(|call| refused(call, "repeated", reason))
                .collect();
            self.tell_results(results, None).await?;
            return Err(repeated);
        }
        let submitted = calls
            .iter()
            .zip(&checked)
            .filter(|(_, answered)| answered.is_none());
        let submitted: Vec<SubmittedCall> = submitted
            .map(|(call, _)| self.submitted(specialist, call))
            .collect();
        let submission = Submission {
            claim,
            run: Run::new(run).ok(),
            // The session is the gate's own record of what the person said and what tools answered.
            conversation: Some(Told::heard_by_the_host(said)),
            ..self.submission(submitted)
        };
        let (told, approval) = self.submit(&calls, checked, submission).await?;
        let held = approval.as_ref().map(|approval| approval.id);
        let all_held = told.iter().all(|result| result.status == "pending_confirmation");
        if let Err(error) = self.tell_results(told, held).await {
            if let Some(held) = held {
                // A card that the session does not know is not shown: better there is none.
                let by = Actor::Agent(self.agent.plan.name.clone());
                let reason = Some("the session could not be saved".to_owned());
                let gate = self.agent.gate();
                let _ = gate.withdraw(&self.place.tenant, held, by, reason).await;
            }
            return Err(error);
        }
        self.held = held.or(self.held);
        if let Some(approval) = approval {
            self.tell(Progress::Proposed { approval }).await;
        }
        Ok(RanCalls { all_held })
    }

    /// What every submission of this turn has in common.
    pub(super) fn submission(&self, calls: Vec<SubmittedCall>) -> Submission {
        Submission {
            tenant: self.place.tenant.clone(),
            agent: self.agent.plan.name.clone(),
            requester: self.agent.plan.requester.clone(),
            on_behalf_of: Some(self.place.person.clone()),
            channel: Some(self.place.channel.clone()),
            run: None,
            session: countersign::id::Session::new(self.place.channel.as_str()).ok(),
            claim: None,
            key: None,
            conversation: None,
            calls,
        }
    }

    fn submitted(&self, specialist: &Specialist, call: &ModelCall) -> SubmittedCall {
        let known = specialist
            .tools
            .iter()
            .find(|tool| tool.name.as_str() == call.tool);
        SubmittedCall {
            tool: call.tool.clone(),
            // INVARIANT: the text the model wrote, to the byte.
            arguments: call.arguments.as_bytes().into(),
            definition: Definition::read(known.map(|tool| tool.hash)),
            secret: None,
        }
    }

    /// What is known about a call before the gate is asked; nothing when the gate is to rule on it.
    fn answered(&self, specialist: &Specialist, call: &ModelCall) -> Option<CallResult> {
        let Some(tool) = specialist
            .tools
            .iter()
            .find(|tool| tool.name.as_str() == call.tool)
        else {
            return Some(refused(
                call,
                "unknown_tool",
                "There is no such tool. Nothing ran.",
            ));
        };
        if let Err(problem) = tool.check(call.arguments.as_bytes()) {
            let reason = format!("The arguments do not fit the tool: {problem}. It did not run.");
            return Some(refused(call, "bad_arguments", &reason));
        }
        let decided = self.decided(call)?;
        Some(CallResult {
            id: call.id.clone(),
            ..decided.clone()
        })
    }

    /// What was decided about the same call since the person last asked for something. It is told again, and neither
    /// asked nor run again.
    fn decided(&self, call: &ModelCall) -> Option<&CallResult> {
        let since = self.session.messages().iter().rev();
        let mut since = since
            .take_while(|message| !matches!(message, Message::Person { .. }))
            .peekable();
        while let Some(message) = since.next() {
            let (Message::Results { results }, Some(Message::Agent { calls, .. })) = (message, since.peek())
            else {
                continue;
            };
            let pairs = calls.iter().zip(results);
            let mut same = pairs.filter(|(earlier, result)| {
                is_decided(&result.status)
                    && earlier.tool == call.tool
                    && is_same_but_for_the_flag(earlier.arguments.as_bytes(), call.arguments.as_bytes())
            });
            if let Some((_, result)) = same.next() {
                return Some(result);
            }
        }
        None
    }

    fn repeated(&mut self, calls: &[ModelCall]) -> Option<TurnError> {
        let most = self.agent.plan.limits.repeats;
        let mut repeated = None;
        for call in calls {
            let key = (call.tool.clone(), call.arguments.clone());
            let times = self.repeats.entry(key).or_default();
            *times += 1;
            if *times > most {
                repeated = Some(TurnError::Repeats {
                    tool: call.tool.clone(),
                    times: *times,
                });
            }
        }
        repeated
    }

    async fn submit(
        &self,
        calls: &[ModelCall],
        checked: Vec<Option<CallResult>>,
        submission: Submission,
    ) -> Result<(Vec<CallResult>, Option<SharedApproval>), TurnError> {
        let gate = self.agent.gate();
        let submitted = match submission.calls.is_empty() {
            true => None,
            false => match gate.submit(submission).await {
                Ok(submitted) => Some(submitted),
                Err(error @ (SubmitError::Store(_) | SubmitError::Seal(_))) => return Err(error.into()),
                // The model can mend it, or tell the person why not. Nothing of it ran.
                Err(error) => {
                    let reason = format!("It was refused: {error}. Nothing ran.");
                    let told = calls.iter().zip(checked);
                    let told =
                        told.map(|(call, told)| told.unwrap_or_else(|| refused(call, "refused", &reason)));
                    return Ok((told.collect(), None));
                }
            },
        };
        let approval = submitted
            .as_ref()
            .and_then(|submitted| submitted.approval.clone());
        let policy = gate.policy();
        let pending = approval.as_deref().map(|approval| exchanges(approval, policy));
        let pending = pending.unwrap_or_default();
        let mut ruled = submitted.into_iter().flat_map(|submitted| submitted.calls);
        let mut told = Vec::with_capacity(calls.len());
        for (call, answered) in calls.iter().zip(checked) {
            if let Some(answered) = answered {
                told.push(answered);
                continue;
            }
            told.push(match ruled.next() {
                Some(Ruled::Pass(permit)) => {
                    let outcome = gate.run_passed(permit).await;
                    self.passed(call, hidden(policy, call, outcome))
                }
                Some(Ruled::PassedBefore(id)) => {
                    let outcome = gate.outcome_of(&self.place.tenant, id).await;
                    self.passed(call, hidden(policy, call, outcome))
                }
                Some(Ruled::Held(id)) => {
                    let exchange = pending.get(usize::from(id.position).saturating_sub(1));
                    held(call, exchange.map(|exchange| exchange.result.content.as_str()))
                }
                Some(Ruled::Forbidden { reason }) => refused(
                    call,
                    "forbidden",
                    &format!("It is forbidden: {reason}. It did not run."),
                ),
                None => refused(call, "refused", "The gate did not rule on it. It did not run."),
            });
        }
        Ok((told, approval))
    }

    fn passed(&self, call: &ModelCall, outcome: Outcome) -> CallResult {
        let most = self.agent.plan.limits.result;
        let (status, is_error, content) = match outcome {
            Outcome::Succeeded(result) => ("ok", false, bounded(&result, most)),
            Outcome::Failed(reason) => ("error", true, bounded(&reason, most)),
            Outcome::Unknown(reason) => ("unknown", true, format!("Nobody knows how it ended: {reason}")),
        };
        let from = Source::of(&call.tool, &self.agent.plan.outside);
        CallResult {
            id: call.id.clone(),
            tool: call.tool.clone(),
            status: status.to_owned(),
            is_error,
            content,
            from,
        }
    }

    async fn tell_results(
        &mut self,
        results: Vec<CallResult>,
        opened: Option<ApprovalId>,
    ) -> Result<(), TurnError> {
        self.append(Step {
            messages: vec![Message::Results {
                results: results.clone(),
            }],
            opened,
            ..Step::default()
        })
        .await?;
        for result in results {
            let requires_confirmation = result.status == "pending_confirmation";
            self.tell(Progress::Result {
                id: result.id,
                tool: result.tool,
                status: result.status,
                is_error: result.is_error,
                content: result.content,
                requires_confirmation,
            })
            .await;
        }
        Ok(())
    }
}

/// The words a result begins with when a person, or time, settled the call.
fn is_decided(status: &str) -> bool {
    !matches!(
        status,
        "ok" | "error"
            | "pending_confirmation"
            | "unknown_tool"
            | "bad_arguments"
            | "refused"
            | "forbidden"
            | "repeated"
    )
}

fn refused(call: &ModelCall, status: &str, reason: &str) -> CallResult {
    let content = serde_json::json!({ "status": status, "ran": false, "message": reason });
    CallResult {
        id: call.id.clone(),
        tool: call.tool.clone(),
        status: status.to_owned(),
        is_error: true,
        content: content.to_string(),
        from: Source::Gate,
    }
}

fn held(call: &ModelCall, content: Option<&str>) -> CallResult {
    let pending = r#"{"status":"pending_confirmation","ran":false}"#;
    CallResult {
        id: call.id.clone(),
        tool: call.tool.clone(),
        status: "pending_confirmation".to_owned(),
        is_error: false,
        content: content.unwrap_or(pending).to_owned(),
        from: Source::Gate,
    }
}

/// Gives calls ids that bind results to them, where the model's own do not, and arguments where it wrote none.
fn named(calls: Vec<ModelCall>, run: &str) -> Vec<ModelCall> {
    let mut seen = std::collections::HashSet::new();
    let numbered = (1..).zip(calls).map(|(number, mut call)| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let is_usable = (1..=64).contains(&call.id.len()) && call.id.chars().all(is_plain);
        if !is_usable || !seen.insert(call.id.clone()) {
            call.id = format!("call_{}_{number}", run.replace('/', ""));
        }
        if call.arguments.trim().is_empty() {
            call.arguments = "{}".to_owned();
        }
        call
    });
    numbered.collect()
}

/// A result as a model gets it: of an oversized one the beginning, and that it is only that.
fn bounded(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.len() <= most {
        true => text.into_owned(),
        false => format!(
            "{} … (cut off: {} bytes in all)",
            clipped(&text, most),
            text.len()
        ),
    }
}

fn clipped(text: &str, most: usize) -> String {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// What a call answered, without what is secret in its arguments: a session is kept, and shown to people.
fn hidden(policy: &Policy, call: &ModelCall, outcome: Outcome) -> Outcome {
    let answer = match &outcome {
        Outcome::Succeeded(result) | Outcome::Failed(result) => &**result,
        Outcome::Unknown(reason) => reason.as_bytes(),
    };
    let secrecy = policy.secrecy_of_passed(&call.tool, call.arguments.as_bytes(), answer);
    if !secrecy.has_any() {
        return outcome;
    }
    match &outcome {
        Outcome::Succeeded(result) => Outcome::succeeded(secrecy.bytes(result)),
        Outcome::Failed(result) => Outcome::failed(secrecy.bytes(result)),
        Outcome::Unknown(reason) => Outcome::Unknown(secrecy.text(reason).into_owned()),
    }
}
