//! For loops that are not ours: any tool behind the gate, in a few lines.
//!
//! Enters: a tool's name and the exact text of its arguments. Leaves: what the tool answered, once it ran; or a
//! [`CallError`] that says why it did not. The tool itself is the gate's executor's, so there is no way around it.
//!
//! ```
//! # use std::sync::Arc;
//! use countersign::executor::{Outcome, Tools};
//! use countersign::gate::Gate;
//! use countersign::id::ToolName;
//! use countersign::policy::Policy;
//! use countersign::store::memory::MemoryStore;
//! use countersign_agent::gated::{CallError, Gated};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tools = Tools::default().with(ToolName::new("send_mail")?, |permit| async move {
//!     Outcome::succeeded(format!("sent {}", String::from_utf8_lossy(permit.arguments().as_bytes())))
//! });
//! let policy = Policy::parse("[tools.send_mail]\neffect = \"external\"\n")?;
//! let gate = Gate::new(Arc::new(MemoryStore::default()), Arc::new(policy)).with_executor(Arc::new(tools));
//!
//! // In the loop: instead of the tool.
//! let gated = Gated::new(gate, "support")?;
//! # let gated = gated.waiting(std::time::Duration::ZERO);
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
use countersign::call::Because;
use countersign::effect::Risk;
use countersign::executor::Outcome;
use countersign::gate::{Asking, Gate, Ruled, Submission, SubmittedCall, Until, Waited};
use countersign::id::{Actor, Agent, ApprovalId, BadName, CallId, Channel, Person, Run, Tenant};
use countersign::provenance::{Conversation, Told};
use countersign::state::{CallState, State};
use countersign::store::StoreError;
use serde::Deserialize;

use crate::tool::Tool;

pub use error::{CallError, How, Rejected};

/// What an agent calls that wants leave before it does something.
pub const REQUEST_APPROVAL: &str = "requestApproval";
const REQUEST_SCHEMA: &str = r#"{"type":"object","required":["toolName","description","riskLevel"],"properties":{"toolName":{"type":"string","description":"The tool or action that needs approval"},"description":{"type":"string","description":"Why it is needed"},"riskLevel":{"type":"string","enum":["low","medium","high","critical"]}}}"#;

/// How long a call waits for a decision, unless it is told otherwise.
const WAIT: Duration = Duration::from_secs(30 * 60);

/// Tools behind a gate, for one agent. Clones share the gate.
#[derive(Clone)]
pub struct Gated {
    gate: Gate,
    submission: Submission,
    wait: Duration,
}

/// What a person said yes to, when an agent asked for leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// What they added.
    pub comment: Option<String>,
    /// Who it was.
    pub by: Option<Person>,
    /// Where it can be looked up.
    pub approval: ApprovalId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    #[expect(dead_code, reason = "shown from the bytes; read only to see that it is there")]
    tool_name: String,
    description: String,
    risk_level: Risk,
}

impl Gated {
    /// Tools for an agent of this name.
    pub fn new(gate: Gate, agent: &str) -> Result<Gated, BadName> {
        Ok(Gated {
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
                calls: Vec::new(),
            },
            wait: WAIT,
        })
    }

    /// Waits at most so long for a decision. What is not decided by then is taken back.
    pub fn waiting(self, wait: Duration) -> Gated {
        Gated { wait, ..self }
    }

    /// In this conversation: at most one approval is pending there.
    pub fn in_channel(mut self, channel: Channel) -> Gated {
        self.submission.channel = Some(channel);
        self
    }

    /// As part of this run.
    pub fn in_run(mut self, run: Run) -> Gated {
        self.submission.run = Some(run);
        self
    }

    /// After this was said, as the agent tells it, so that each value's origin can be shown. It lets nothing pass.
    pub fn after(mut self, conversation: Conversation) -> Gated {
        self.submission.conversation = Some(Told::supplied(conversation));
        self
    }

    /// After this was said, as this program itself heard it from the person and the tools; see
    /// [`Told::heard_by_the_host`]. Policies may let calls pass because of it.
    pub fn after_hearing(mut self, conversation: Conversation) -> Gated {
        self.submission.conversation = Some(Told::heard_by_the_host(conversation));
        self
    }

    /// Calls a tool: at once where the policy lets it pass, otherwise when a person has approved exactly this.
    pub async fn call(&self, tool: &str, arguments: impl AsRef<[u8]>) -> Result<String, CallError> {
        let submission = self.submission(tool, arguments.as_ref());
        let submitted = self.gate.submit(submission).await?;
        match (submitted.calls.into_iter().next(), submitted.approval) {
            (Some(Ruled::Pass(permit)), _) => answered(tool, self.gate.run_passed(permit).await),
            (Some(Ruled::PassedBefore(id)), _) => {
                let outcome = self.gate.outcome_of(&self.submission.tenant, id).await;
                answered(tool, outcome)
            }
            (Some(Ruled::Forbidden { reason }), _) => Err(CallError::Forbidden {
                tool: tool.to_owned(),
                reason,
            }),
            (Some(Ruled::Held(call)), Some(approval)) => {
                let approval = self.decided(tool, approval.id).await?;
                self.finished(tool, approval, call).await
            }
            _ => Err(StoreError::Impossible("the gate did not rule on the call".to_owned()).into()),
        }
    }

    /// The definition of `requestApproval`, for agents that ask for leave by themselves.
    pub fn request_approval_tool() -> Result<Tool, String> {
        let description = "Request a person's approval for a high-risk action before proceeding".to_owned();
        Tool::new(REQUEST_APPROVAL, description, REQUEST_SCHEMA.to_owned())
    }

    /// Asks for leave, as an agent that calls `requestApproval` does. A yes is a yes to this description: it opens no
    /// tool, and what the agent then calls goes through the gate like everything else.
    pub async fn request_approval(&self, arguments: impl AsRef<[u8]>) -> Result<Granted, CallError> {
        let arguments = arguments.as_ref();
        let request: Request =
            serde_json::from_slice(arguments).map_err(|error| CallError::BadRequest(error.to_string()))?;
        let asking = Asking {
            risk: Some(request.risk_level),
            ttl: None,
        };
        let submission = Submission {
            claim: Some(request.description.chars().take(2_000).collect()),
            ..self.submission(REQUEST_APPROVAL, arguments)
        };
        let approval = self.gate.ask(submission, asking).await?;
        let approval = self.decided(REQUEST_APPROVAL, approval.id).await?;
        self.close(&approval).await?;
        let decision = approval.decision.as_ref();
        Ok(Granted {
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

    /// Waits for a yes. Whoever stops waiting takes the question back: a yes that nobody waits for must not run.
    async fn decided(&self, tool: &str, id: ApprovalId) -> Result<SharedApproval, CallError> {
        let tenant = &self.submission.tenant;
        let (approval, is_late) = match self.gate.wait(tenant, id, Until::Decided, self.wait).await? {
            Waited::Done(approval) => (approval, false),
            Waited::NotFound => return Err(StoreError::Impossible("the approval is gone".to_owned()).into()),
            Waited::TimedOut(approval) => {
                let by = Actor::Agent(self.submission.agent.clone());
                let reason = Some("nobody waited for it any longer".to_owned());
                let answer = self.gate.withdraw(tenant, id, by, reason).await?;
                let is_late = answer.refusal.is_none();
                (answer.approval.unwrap_or(approval), is_late)
            }
        };
        match approval.state {
            State::Approved => Ok(approval),
            state => {
                let how = match state {
                    State::Withdrawn if is_late => How::TimedOut,
                    State::Denied => How::Denied,
                    State::Expired => How::Expired,
                    State::Superseded => How::Superseded,
                    _ => How::Withdrawn,
                };
                Err(rejected(tool, &approval, how).into())
            }
        }
    }

    /// Waits until an approved call has run, and runs it where its decider did not.
    async fn finished(
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
        let named = || tool.to_owned();
        match done.map(|done| (done.state, done.because.as_ref())) {
            Some((CallState::Succeeded | CallState::Undone, _)) => Ok(result),
            Some((CallState::Failed, _)) => Err(CallError::Failed {
                tool: named(),
                reason: result,
            }),
            Some((CallState::Refused, because)) => {
                let how = match because {
                    Some(Because::Denied) => How::Denied,
                    _ => How::NotRun,
                };
                Err(rejected(tool, &approval, how).into())
            }
            _ => Err(CallError::Unknown {
                tool: named(),
                reason: result,
            }),
        }
    }

    /// There is nothing to run behind a description: what was asked is answered, and that is on record.
    async fn close(&self, approval: &Approval) -> Result<(), CallError> {
        let tenant = &self.submission.tenant;
        let call = CallId {
            approval: approval.id,
            position: 1,
        };
        if let Ok(permit) = self.gate.start(tenant, call).await?
            && let Some(token) = permit.token()
        {
            let outcome = Outcome::succeeded(r#"{"approved":true}"#);
            // Somebody else closed it meanwhile; it is closed.
            let _ = self.gate.finish(tenant, call, token, outcome).await?;
        }
        Ok(())
    }
}

fn answered(tool: &str, outcome: Outcome) -> Result<String, CallError> {
    let tool = tool.to_owned();
    match outcome {
        Outcome::Succeeded(answer) => Ok(String::from_utf8_lossy(&answer).into_owned()),
        Outcome::Failed(reason) => Err(CallError::Failed {
            tool,
            reason: String::from_utf8_lossy(&reason).into_owned(),
        }),
        Outcome::Unknown(reason) => Err(CallError::Unknown { tool, reason }),
    }
}

fn rejected(tool: &str, approval: &Approval, how: How) -> Rejected {
    let decision = approval.decision.as_ref();
    Rejected {
        tool: tool.to_owned(),
        how,
        comment: decision.and_then(|decision| decision.comment.clone()),
        by: decision.map(|decision| decision.by.clone()),
        approval: approval.id,
    }
}
