//! A client of the real gate: whole approvals, with what was acknowledged and what had an effect. The tests of power
//! loss use it, too.

use std::str::FromStr;
use std::sync::Arc;

use countersign::approval::{Approval, SharedApproval};
use countersign::card::WholeCard;
use countersign::decision::{Decider, Decision, Surface, Verdict};
use countersign::executor::{Outcome, Tools};
use countersign::gate::{Gate, Ran, Submission, SubmitError, SubmittedCall};
use countersign::id::{ApprovalId, CallId, Channel, Person, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::state::State;
use countersign::store::{Filter, Store, StoreError};

const POLICY: &str = r#"
[agents]
most_pending = "unlimited"
proposals_per_minute = "unlimited"

[tools.run_by_gate]
effect = "destructive"
approvers = ["alice"]
timeout = "30s"

[tools.left_alone]
effect = "destructive"
approvers = ["alice"]
ttl = "1s"

[tools.run_by_host]
effect = "destructive"
approvers = ["alice"]
timeout = "30s"
"#;

/// A fact acknowledged to a caller. It must hold from then on, whatever crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    Proposed(ApprovalId),
    Approved(ApprovalId),
    Denied(ApprovalId),
    Started(CallId),
    Finished(CallId),
}

impl std::fmt::Display for Ack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ack::Proposed(id) => write!(f, "proposed {id}"),
            Ack::Approved(id) => write!(f, "approved {id}"),
            Ack::Denied(id) => write!(f, "denied {id}"),
            Ack::Started(call) => write!(f, "started {call}"),
            Ack::Finished(call) => write!(f, "finished {call}"),
        }
    }
}

impl FromStr for Ack {
    type Err = String;

    fn from_str(text: &str) -> Result<Ack, String> {
        let (word, id) = text.split_once(' ').ok_or(text)?;
        let approval = || id.parse().map_err(|_| text.to_owned());
        let call = || id.parse().map_err(|_| text.to_owned());
        match word {
            "proposed" => approval().map(Ack::Proposed),
            "approved" => approval().map(Ack::Approved),
            "denied" => approval().map(Ack::Denied),
            "started" => call().map(Ack::Started),
            "finished" => call().map(Ack::Finished),
            _ => Err(text.to_owned()),
        }
    }
}

/// A client of the gate that reports acknowledgements and effects.
pub struct TestClient {
    pub gate: Gate,
    on_ack: Arc<dyn Fn(Ack) + Send + Sync>,
    on_effect: Arc<dyn Fn(CallId) + Send + Sync>,
}

impl TestClient {
    pub fn new(
        store: Arc<dyn Store>,
        on_ack: Arc<dyn Fn(Ack) + Send + Sync>,
        on_effect: Arc<dyn Fn(CallId) + Send + Sync>,
    ) -> TestClient {
        let policy = Arc::new(Policy::parse(POLICY).unwrap());
        let tool_effect = on_effect.clone();
        let tools = Tools::default().with(ToolName::new("run_by_gate").unwrap(), move |permit| {
            tool_effect(permit.call().expect("a held call"));
            async { Outcome::succeeded("done") }
        });
        let gate = Gate::new(store, policy).with_executor(Arc::new(tools));
        TestClient {
            gate,
            on_ack,
            on_effect,
        }
    }

    /// Continues with approvals that another client left behind.
    pub async fn resume(&self) -> Result<(), StoreError> {
        let tenant = Tenant::single();
        let approved = Filter {
            state: Some(State::Approved),
            ..Filter::default()
        };
        for approval in self.gate.store().list(&tenant, &approved).await? {
            self.run_by_host(&approval).await?;
            let (_, ran) = self.gate.run_released(&tenant, approval).await?;
            self.record_finished(&ran);
        }
        for approval in self.gate.store().list(&tenant, &Filter::pending()).await? {
            self.approve(&approval).await?;
        }
        Ok(())
    }

    pub async fn propose(&self, tool: &str, calls: usize) -> Result<SharedApproval, StoreError> {
        self.propose_in(None, tool, calls).await
    }

    /// Proposes a call in a channel, where it supersedes the pending one.
    pub async fn propose_in(
        &self,
        channel: Option<Channel>,
        tool: &str,
        calls: usize,
    ) -> Result<SharedApproval, StoreError> {
        let approval = submit(&self.gate, channel, tool, calls).await?;
        (self.on_ack)(Ack::Proposed(approval.id));
        Ok(approval)
    }

    pub async fn approve(&self, approval: &Approval) -> Result<(), StoreError> {
        let resolved = self.gate.decide_and_run(approve(approval)).await?;
        // Another client may have been faster.
        if resolved.refusal.is_some() {
            return Ok(());
        }
        (self.on_ack)(Ack::Approved(approval.id));
        self.record_finished(&resolved.ran);
        self.run_by_host(&resolved.approval.expect("it is there")).await
    }

    /// Reports calls that succeeded. A call whose record could not be read before sending was not sent and counts as
    /// failed.
    fn record_finished(&self, ran: &[Ran]) {
        let succeeded = |ran: &&Ran| matches!(ran.outcome, Outcome::Succeeded(_));
        for ran in ran.iter().filter(succeeded) {
            (self.on_ack)(Ack::Finished(ran.call));
        }
    }

    async fn run_by_host(&self, approval: &Approval) -> Result<(), StoreError> {
        let next = approval.next_released();
        let own = |position: &u8| {
            approval
                .call(*position)
                .is_some_and(|call| call.tool.as_str() == "run_by_host")
        };
        let Some(position) = next.filter(own) else {
            return Ok(());
        };
        let call = CallId {
            approval: approval.id,
            position,
        };
        let Ok(permit) = self.gate.start(&approval.tenant, call).await? else {
            return Ok(());
        };
        (self.on_ack)(Ack::Started(call));
        (self.on_effect)(call);
        let token = permit.token().expect("a held call");
        let finished = self
            .gate
            .finish(&approval.tenant, call, token, Outcome::succeeded("done"))
            .await?;
        if finished.is_ok() {
            (self.on_ack)(Ack::Finished(call));
        }
        Ok(())
    }

    pub async fn deny(&self, approval: &Approval) -> Result<(), StoreError> {
        let answer = self.gate.decide(decision(approval, Verdict::Deny)).await?;
        if answer.refusal.is_none() {
            (self.on_ack)(Ack::Denied(approval.id));
        }
        Ok(())
    }
}

/// Submits calls of one tool, which are held.
pub async fn submit(
    gate: &Gate,
    channel: Option<Channel>,
    tool: &str,
    calls: usize,
) -> Result<SharedApproval, StoreError> {
    let call = |number| SubmittedCall::new(tool, format!("{{\"number\": {number}}}").into_bytes());
    let calls = (1..=calls).map(call).collect();
    let submission = Submission {
        channel,
        ..Submission::new(Tenant::single(), "crm", "crm-token", calls).unwrap()
    };
    match gate.submit(submission).await {
        Ok(submitted) => Ok(submitted.approval.expect("it is held")),
        Err(SubmitError::Store(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

/// Returns the decision of `alice` to approve.
pub fn approve(approval: &Approval) -> Decision {
    decision(approval, Verdict::Approve)
}

fn decision(approval: &Approval, verdict: Verdict) -> Decision {
    Decision::on(
        approval.tenant.clone(),
        WholeCard::shown(approval),
        Decider::new(Person::new("alice").unwrap(), Vec::new(), Surface::Page),
        verdict,
    )
}
