//! Handles the tool calls of one model answer: checks them, submits them together, runs those that pass, and reports
//! the results.
//!
//! Input: an answer with calls. Output: one result per call, in the session. The answer is saved before anything runs.

use countersign::approval::SharedApproval;
use countersign::executor::Outcome;
use countersign::gate::{
    LONGEST_CLAIM, Ruled, Submission, SubmitError, SubmittedCall, is_same_but_for_the_flag,
};
use countersign::id::{Actor, ApprovalId, Run};
use countersign::policy::{Definition, Policy};
use countersign::provenance::VouchedConversation;
use countersign::transcript::exchanges;

use super::turn::{ModelAnswer, Turn};
use super::{Specialist, TurnError};
use crate::message::{CallResult, Message, ModelCall, Source, conversation};
use crate::progress::Progress;
use crate::session::Step;

/// Result of handling an answer's calls.
pub(super) struct RanCalls {
    /// True if every call waits for a person's decision.
    pub(super) all_held: bool,
}

impl Turn<'_> {
    /// Checks, submits and runs the calls of one answer, and adds their results to the session.
    pub(super) async fn run_calls(
        &mut self,
        specialist: &Specialist,
        answer: ModelAnswer,
    ) -> Result<RanCalls, TurnError> {
        let run = self.session.next_run();
        let calls = with_unique_ids(answer.calls, &run);
        let claim = (!answer.text.is_empty()).then(|| truncate(&answer.text, LONGEST_CLAIM));
        // Check before this answer is appended, so that the session holds only the calls of earlier answers.
        let checked: Vec<Option<CallResult>> = calls
            .iter()
            .map(|call| self.early_result(specialist, call))
            .collect();
        let conversation_so_far = conversation(self.session.messages(), &self.agent.config.outside_tools);
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
            self.report(Progress::Called { id, tool }).await;
        }
        if let Some(repeated) = self.count_repeats(&calls) {
            let reason = "It was called too often with the same arguments. It did not run.";
            let results = calls
                .iter()
                .map(|call| refused_result(call, "repeated", reason))
                .collect();
            self.report_results(results, None).await?;
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
            conversation: Some(VouchedConversation::recorded_by_host(conversation_so_far)),
            ..self.submission(submitted)
        };
        let (results, approval) = self.submit(&calls, checked, submission).await?;
        let held = approval.as_ref().map(|approval| approval.id);
        let all_held = results
            .iter()
            .all(|result| result.status == "pending_confirmation");
        if let Err(error) = self.report_results(results, held).await {
            if let Some(held) = held {
                // A card that the session does not know would never be settled, so withdraw the approval.
                let by = Actor::Agent(self.agent.config.name.clone());
                let reason = Some("the session could not be saved".to_owned());
                let gate = self.agent.gate();
                let _ = gate.withdraw(&self.context.tenant, held, by, reason).await;
            }
            return Err(error);
        }
        self.pending_card = held.or(self.pending_card);
        if let Some(approval) = approval {
            self.report(Progress::Proposed { approval }).await;
        }
        Ok(RanCalls { all_held })
    }

    /// Builds a submission with the fields that are the same for all submissions of this turn.
    pub(super) fn submission(&self, calls: Vec<SubmittedCall>) -> Submission {
        Submission {
            tenant: self.context.tenant.clone(),
            agent: self.agent.config.name.clone(),
            requester: self.agent.config.requester.clone(),
            on_behalf_of: Some(self.context.person.clone()),
            channel: Some(self.context.channel.clone()),
            run: None,
            session: countersign::id::Session::new(self.context.channel.as_str()).ok(),
            claim: None,
            key: None,
            conversation: None,
            options: Default::default(),
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
            // INVARIANT: the arguments are the exact bytes that the model wrote.
            arguments: call.arguments.as_bytes().into(),
            definition: Definition::read(known.map(|tool| tool.hash)),
            secret: self
                .agent
                .config
                .credentials
                .as_ref()
                .and_then(|credentials| credentials.credential(&self.context, &call.tool)),
            working_folder: None,
        }
    }

    /// Returns a result for a call that needs no ruling (unknown tool, bad arguments, already decided), or `None` if
    /// the gate has to rule on the call.
    fn early_result(&self, specialist: &Specialist, call: &ModelCall) -> Option<CallResult> {
        let Some(tool) = specialist
            .tools
            .iter()
            .find(|tool| tool.name.as_str() == call.tool)
        else {
            return Some(refused_result(
                call,
                "unknown_tool",
                "There is no such tool. Nothing ran.",
            ));
        };
        if let Err(problem) = tool.check(call.arguments.as_bytes()) {
            let reason = format!("The arguments do not fit the tool: {problem}. It did not run.");
            return Some(refused_result(call, "bad_arguments", &reason));
        }
        let decided = self.decided_result(call)?;
        Some(CallResult {
            id: call.id.clone(),
            ..decided.clone()
        })
    }

    /// Returns the result of an identical earlier call that was decided since the person's last message, or `None` if
    /// there is no such call. The model gets that result again, and the call is neither proposed nor run again.
    fn decided_result(&self, call: &ModelCall) -> Option<&CallResult> {
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

    fn count_repeats(&mut self, calls: &[ModelCall]) -> Option<TurnError> {
        let limit = self.agent.config.limits.repeats;
        let mut repeated = None;
        for call in calls {
            let key = (call.tool.clone(), call.arguments.clone());
            let times = self.call_counts.entry(key).or_default();
            *times += 1;
            if *times > limit {
                repeated = Some(TurnError::RepeatedCall {
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
                // The model can correct the call or tell the person why it was refused. Nothing ran.
                Err(error) => {
                    let reason = format!("It was refused: {error}. Nothing ran.");
                    let results = calls.iter().zip(checked);
                    let results = results.map(|(call, result)| {
                        result.unwrap_or_else(|| refused_result(call, "refused", &reason))
                    });
                    return Ok((results.collect(), None));
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
        let mut results = Vec::with_capacity(calls.len());
        for (call, answered) in calls.iter().zip(checked) {
            if let Some(answered) = answered {
                results.push(answered);
                continue;
            }
            results.push(match ruled.next() {
                Some(Ruled::Pass(permit)) => {
                    let outcome = gate.run_passed(permit).await;
                    self.passed_result(call, mask_secrets(policy, call, outcome))
                }
                Some(Ruled::PassedBefore(id)) => {
                    let outcome = gate.outcome_of(&self.context.tenant, id).await;
                    self.passed_result(call, mask_secrets(policy, call, outcome))
                }
                Some(Ruled::Held(id)) => {
                    let exchange = pending.get(usize::from(id.position).saturating_sub(1));
                    held_result(call, exchange.map(|exchange| exchange.result.content.as_str()))
                }
                Some(Ruled::Forbidden { reason } | Ruled::Malformed { reason }) => refused_result(
                    call,
                    "forbidden",
                    &format!("It is forbidden: {reason}. It did not run."),
                ),
                None => refused_result(call, "refused", "The gate did not rule on it. It did not run."),
            });
        }
        Ok((results, approval))
    }

    fn passed_result(&self, call: &ModelCall, outcome: Outcome) -> CallResult {
        let limit = self.agent.config.limits.result;
        let mut from = Source::of(&call.tool, &self.agent.config.outside_tools);
        let (status, is_error, content) = match outcome {
            Outcome::Succeeded(result) => ("ok", false, truncated_text(&result, limit)),
            Outcome::Failed(reason) => ("error", true, truncated_text(&reason, limit)),
            Outcome::NotSent(reason) => {
                from = Source::Gate;
                (
                    "not_sent",
                    true,
                    format!("It was not sent, so nothing ran: {reason}"),
                )
            }
            Outcome::Unknown(reason) => ("unknown", true, format!("Nobody knows how it ended: {reason}")),
        };
        CallResult {
            id: call.id.clone(),
            tool: call.tool.clone(),
            status: status.to_owned(),
            is_error,
            content,
            from,
        }
    }

    async fn report_results(
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
            self.report(Progress::Result {
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

/// Returns true if the status comes from a settled card, such as `denied`, `expired` or `succeeded`. `unknown` counts
/// too: a call whose outcome is unknown must not run again.
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

fn refused_result(call: &ModelCall, status: &str, reason: &str) -> CallResult {
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

fn held_result(call: &ModelCall, content: Option<&str>) -> CallResult {
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

/// Replaces ids that the model APIs would refuse or that occur twice, and replaces empty arguments with `{}`.
fn with_unique_ids(calls: Vec<ModelCall>, run: &str) -> Vec<ModelCall> {
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

/// Converts a result to text for the model, cut off after `limit` bytes with a note about the full length.
fn truncated_text(bytes: &[u8], limit: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.len() <= limit {
        true => text.into_owned(),
        false => format!(
            "{} … (cut off: {} bytes in all)",
            truncate(&text, limit),
            text.len()
        ),
    }
}

/// Returns the beginning of a text, at most `limit` bytes, without cutting a character in two.
pub(super) fn truncate(text: &str, limit: usize) -> String {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// Masks the secrets of a call's arguments in its outcome, because sessions are stored and shown to people.
fn mask_secrets(policy: &Policy, call: &ModelCall, outcome: Outcome) -> Outcome {
    let answer = match &outcome {
        Outcome::Succeeded(result) | Outcome::Failed(result) => &**result,
        Outcome::NotSent(reason) | Outcome::Unknown(reason) => reason.as_bytes(),
    };
    let secrecy = policy.secrecy_of_passed(&call.tool, call.arguments.as_bytes(), answer);
    if !secrecy.has_any() {
        return outcome;
    }
    match &outcome {
        Outcome::Succeeded(result) => Outcome::succeeded(secrecy.bytes(result)),
        Outcome::Failed(result) => Outcome::failed(secrecy.bytes(result)),
        Outcome::NotSent(reason) => Outcome::NotSent(secrecy.text(reason).into_owned()),
        Outcome::Unknown(reason) => Outcome::Unknown(secrecy.text(reason).into_owned()),
    }
}
