//! Puts tools behind the gate for agent loops other than [`crate::agent::Agent`].
//!
//! Input: a tool's name and the exact text of its arguments. Output: the tool's answer once it ran, or a [`CallError`]
//! that says why it did not. The tool is only reachable through the gate's executor, so the loop cannot bypass the
//! gate.
//!
//! ```
//! use countersign::executor::{Outcome, Tools};
//! use countersign::gate::Gate;
//! use countersign::id::ToolName;
//! use countersign::policy::Policy;
//! use countersign::store::memory::MemoryStore;
//! use countersign_agent::gated::{CallError, GatedTools};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tools = Tools::default().with(ToolName::new("send_mail")?, |permit| async move {
//!     Outcome::succeeded(format!("sent {}", String::from_utf8_lossy(permit.arguments().as_bytes())))
//! });
//! let policy = Policy::parse("[tools.send_mail]\neffect = \"external\"\n")?;
//! let gate = Gate::new(MemoryStore::default(), policy).with_executor(tools);
//!
//! // In the loop, call this instead of the tool.
//! let gated = GatedTools::new(gate, "support")?;
//! # let gated = gated.with_wait_limit(std::time::Duration::ZERO);
//! match gated.call("send_mail", r#"{"to":"maria@acme.com"}"#).await {
//!     Ok(answer) => println!("{answer}"),
//!     Err(CallError::Rejected(rejected)) => println!("{rejected}"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(()) }
//! ```

mod error;

use std::time::Duration;

use countersign::approval::{Approval, SharedApproval};
use countersign::call::RefusalReason;
use countersign::effect::Risk;
use countersign::executor::Outcome;
use countersign::gate::{ApprovalOptions, Gate, Ruled, Submission, SubmittedCall, Until, Waited};
use countersign::id::{Actor, Agent, ApprovalId, BadName, CallId, Channel, Person, Run, Tenant};
use countersign::provenance::{Conversation, VouchedConversation};
use countersign::state::{CallState, State};
use countersign::store::StoreError;
use serde::Deserialize;

use crate::tool::Tool;

pub use error::{CallError, Rejected, RejectionReason};

/// Name of the tool that lets an agent ask for approval before it acts.
pub const REQUEST_APPROVAL: &str = "requestApproval";
const REQUEST_SCHEMA: &str = r#"{"type":"object","required":["toolName","description","riskLevel"],"properties":{"toolName":{"type":"string","description":"The tool or action that needs approval"},"description":{"type":"string","description":"Why it is needed"},"riskLevel":{"type":"string","enum":["low","medium","high","critical"]}}}"#;

/// Default time that a call waits for a decision.
const DEFAULT_WAIT: Duration = Duration::from_secs(30 * 60);

/// Tools behind a gate, for one agent. Clones share the gate.
#[derive(Clone)]
pub struct GatedTools {
    gate: Gate,
    submission: Submission,
    wait: Duration,
}

/// Approval of a request that an agent made with `requestApproval`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedApproval {
    /// Comment of the person who approved, if they wrote one.
    pub comment: Option<String>,
    /// Person who approved. `None` if that is not on record.
    pub by: Option<Person>,
    /// Id of the approval.
    pub approval: ApprovalId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApprovalRequest {
    #[expect(dead_code, reason = "shown from the bytes; read only to see that it is there")]
    tool_name: String,
    description: String,
    risk_level: Risk,
}

impl GatedTools {
    /// Creates the tools behind `gate` for an agent of this name. Fails if the name is not allowed.
    pub fn new(gate: Gate, agent: &str) -> Result<GatedTools, BadName> {
        Ok(GatedTools {
            gate,
            submission: Submission {
                tenant: Tenant::single(),
                agent: Agent::new(agent)?,
                requester: Person::new(format!("agent:{agent}"))?,
                on_behalf_of: None,
                channel: None,
                run: None,
                session: None,
                claim: None,
                key: None,
                conversation: None,
                options: Default::default(),
                calls: Vec::new(),
            },
            wait: DEFAULT_WAIT,
        })
    }

    /// Limits how long a call waits for a decision. A call that is not decided by then is withdrawn.
    pub fn with_wait_limit(self, wait: Duration) -> GatedTools {
        GatedTools { wait, ..self }
    }

    /// Sets the channel in which calls are proposed. A channel has at most one pending approval at a time.
    pub fn in_channel(mut self, channel: Channel) -> GatedTools {
        self.submission.channel = Some(channel);
        self
    }

    /// Sets the run that proposed calls belong to.
    pub fn in_run(mut self, run: Run) -> GatedTools {
        self.submission.run = Some(run);
        self
    }

    /// Attaches a conversation as the agent reports it, to show the approver where values came from. The report is not
    /// verified, so no policy passes a call because of it.
    pub fn with_conversation(mut self, conversation: Conversation) -> GatedTools {
        self.submission.conversation = Some(VouchedConversation::supplied(conversation));
        self
    }

    /// Attaches a conversation that this program itself received from the person and the tools; see
    /// [`VouchedConversation::recorded_by_host`]. Policies may let calls pass because of it.
    pub fn with_recorded_conversation(mut self, conversation: Conversation) -> GatedTools {
        self.submission.conversation = Some(VouchedConversation::recorded_by_host(conversation));
        self
    }

    /// Calls a tool: at once if the policy passes the call, otherwise after a person has approved exactly these
    /// arguments.
    pub async fn call(&self, tool: &str, arguments: impl AsRef<[u8]>) -> Result<String, CallError> {
        let submission = self.submission(tool, arguments.as_ref());
        let submitted = self.gate.submit(submission).await?;
        match (submitted.calls.into_iter().next(), submitted.approval) {
            (Some(Ruled::Pass(permit)), _) => result_of(tool, self.gate.run_passed(permit).await),
            (Some(Ruled::PassedBefore(id)), _) => {
                let outcome = self.gate.outcome_of(&self.submission.tenant, id).await;
                result_of(tool, outcome)
            }
            (Some(Ruled::Forbidden { reason } | Ruled::Malformed { reason }), _) => {
                Err(CallError::Forbidden {
                    tool: tool.to_owned(),
                    reason,
                })
            }
            (Some(Ruled::Held(call)), Some(approval)) => {
                let approval = self.wait_for_approval(tool, approval.id).await?;
                self.wait_for_result(tool, approval, call).await
            }
            _ => Err(StoreError::Impossible("the gate did not rule on the call".to_owned()).into()),
        }
    }

    /// Returns the definition of `requestApproval`, for agents that ask for approval on their own.
    pub fn request_approval_tool() -> Result<Tool, String> {
        let description = "Request a person's approval for a high-risk action before proceeding".to_owned();
        Tool::new(REQUEST_APPROVAL, description, REQUEST_SCHEMA.to_owned())
    }

    /// Asks a person for approval, as an agent does by calling `requestApproval`. The approval covers only the
    /// description: it releases no tool call, and what the agent calls afterwards goes through the gate as usual.
    pub async fn request_approval(&self, arguments: impl AsRef<[u8]>) -> Result<GrantedApproval, CallError> {
        let arguments = arguments.as_ref();
        let request: ApprovalRequest =
            serde_json::from_slice(arguments).map_err(|error| CallError::BadRequest(error.to_string()))?;
        let options = ApprovalOptions {
            risk: Some(request.risk_level),
            ttl: None,
        };
        let submission = Submission {
            claim: Some(request.description.chars().take(2_000).collect()),
            ..self.submission(REQUEST_APPROVAL, arguments)
        };
        let approval = self.gate.ask(submission, options).await?;
        let approval = self.wait_for_approval(REQUEST_APPROVAL, approval.id).await?;
        self.record_finished(&approval).await?;
        let decision = approval.decision.as_ref();
        Ok(GrantedApproval {
            comment: decision.and_then(|decision| decision.comment.clone()),
            by: decision.map(|decision| decision.by.clone()),
            approval: approval.id,
        })
    }

    fn submission(&self, tool: &str, arguments: &[u8]) -> Submission {
        Submission {
            calls: vec![SubmittedCall::new(tool, arguments)],
            ..self.submission.clone()
        }
    }

    /// Waits for approval. On timeout the approval is withdrawn, so that a late decision runs nothing.
    async fn wait_for_approval(&self, tool: &str, id: ApprovalId) -> Result<SharedApproval, CallError> {
        let tenant = &self.submission.tenant;
        let (approval, is_timed_out) = match self.gate.wait(tenant, id, Until::Decided, self.wait).await? {
            Waited::Done(approval) => (approval, false),
            Waited::NotFound => return Err(StoreError::Impossible("the approval is gone".to_owned()).into()),
            Waited::TimedOut(approval) => {
                let by = Actor::Agent(self.submission.agent.clone());
                let reason = Some("nobody waited for it any longer".to_owned());
                let answer = self.gate.withdraw(tenant, id, by, reason).await?;
                let is_timed_out = answer.refusal.is_none();
                (answer.approval.unwrap_or(approval), is_timed_out)
            }
        };
        match approval.state {
            State::Approved => Ok(approval),
            state => {
                let reason = match state {
                    State::Withdrawn if is_timed_out => RejectionReason::TimedOut,
                    State::Denied => RejectionReason::Denied,
                    State::Expired => RejectionReason::Expired,
                    State::Superseded => RejectionReason::Superseded,
                    _ => RejectionReason::Withdrawn,
                };
                Err(rejected(tool, &approval, reason).into())
            }
        }
    }

    /// Waits until an approved call has finished, and runs the call if nobody has run it yet.
    async fn wait_for_result(
        &self,
        tool: &str,
        approval: SharedApproval,
        call: CallId,
    ) -> Result<String, CallError> {
        let tenant = &self.submission.tenant;
        let limit = approval
            .call(call.position)
            .map_or(Duration::ZERO, |call| call.terms.timeout);
        let (approval, _) = self.gate.run_released(tenant, approval).await?;
        let limit = limit.saturating_add(approval.start_within);
        let waited = self
            .gate
            .wait(tenant, approval.id, Until::Finished, limit)
            .await?;
        let approval = match waited {
            Waited::Done(approval) | Waited::TimedOut(approval) => approval,
            Waited::NotFound => approval,
        };
        let done = approval.call(call.position);
        let result = done.and_then(|done| done.result.as_deref()).unwrap_or_default();
        let result = String::from_utf8_lossy(result).into_owned();
        let tool_name = || tool.to_owned();
        match done.map(|done| (done.state, done.because.as_ref())) {
            Some((CallState::Succeeded | CallState::Undone, _)) => Ok(result),
            Some((CallState::Failed, Some(RefusalReason::NotSent))) => Err(CallError::NotSent {
                tool: tool_name(),
                reason: result,
            }),
            Some((CallState::Failed, _)) => Err(CallError::Failed {
                tool: tool_name(),
                reason: result,
            }),
            Some((CallState::Refused, because)) => {
                let reason = match because {
                    Some(RefusalReason::Denied) => RejectionReason::Denied,
                    _ => RejectionReason::NotRun,
                };
                Err(rejected(tool, &approval, reason).into())
            }
            _ => Err(CallError::Unknown {
                tool: tool_name(),
                reason: result,
            }),
        }
    }

    /// Records the request as succeeded. An approved request has no call to run, so it ends at once.
    async fn record_finished(&self, approval: &Approval) -> Result<(), CallError> {
        let tenant = &self.submission.tenant;
        let call = CallId {
            approval: approval.id,
            position: 1,
        };
        if let Ok(permit) = self.gate.start(tenant, call).await?
            && let Some(token) = permit.token()
        {
            let outcome = Outcome::succeeded(r#"{"approved":true}"#);
            // A refusal means that another caller has already recorded the end.
            let _ = self.gate.finish(tenant, call, token, outcome).await?;
        }
        Ok(())
    }
}

fn result_of(tool: &str, outcome: Outcome) -> Result<String, CallError> {
    let tool = tool.to_owned();
    match outcome {
        Outcome::Succeeded(answer) => Ok(String::from_utf8_lossy(&answer).into_owned()),
        Outcome::Failed(reason) => Err(CallError::Failed {
            tool,
            reason: String::from_utf8_lossy(&reason).into_owned(),
        }),
        Outcome::NotSent(reason) => Err(CallError::NotSent { tool, reason }),
        Outcome::Unknown(reason) => Err(CallError::Unknown { tool, reason }),
    }
}

fn rejected(tool: &str, approval: &Approval, reason: RejectionReason) -> Rejected {
    let decision = approval.decision.as_ref();
    Rejected {
        tool: tool.to_owned(),
        reason,
        comment: decision.and_then(|decision| decision.comment.clone()),
        by: decision.map(|decision| decision.by.clone()),
        approval: approval.id,
    }
}
