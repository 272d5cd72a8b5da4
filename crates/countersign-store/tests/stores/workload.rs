//! Whole approvals through the real gate: records what was acknowledged, and checks it after a crash.

use std::collections::{BTreeSet, HashSet};
use std::str::FromStr;
use std::sync::Arc;

use countersign::approval::{Approval, SharedApproval};
use countersign::decision::{Decider, Decision, Surface, Verdict};
use countersign::event::{Event, EventKind, verify};
use countersign::executor::{Outcome, Tools};
use countersign::gate::{Gate, Ran, Submission, SubmitError, SubmittedCall};
use countersign::id::{Actor, Agent, ApprovalId, CallId, Person, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::state::{CallState, State};
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

impl Ack {
    pub fn approval(&self) -> ApprovalId {
        match self {
            Ack::Proposed(id) | Ack::Approved(id) | Ack::Denied(id) => *id,
            Ack::Started(call) | Ack::Finished(call) => call.approval,
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

    /// Runs one approval: decided and run by the gate, decided and run by its host, denied, or left pending.
    pub async fn run_one(&self, number: u64) -> Result<(), StoreError> {
        match number % 4 {
            0 => self.approve(&*self.propose("run_by_gate", 2).await?).await,
            1 => self.approve(&*self.propose("run_by_host", 1).await?).await,
            2 => self.deny(&*self.propose("run_by_gate", 1).await?).await,
            _ => {
                self.propose("run_by_gate", 1).await?;
                // Expires soon, for the sweep.
                self.propose("left_alone", 1).await.map(|_| ())
            }
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

    async fn propose(&self, tool: &str, calls: usize) -> Result<SharedApproval, StoreError> {
        let call = |number| SubmittedCall::new(tool, format!("{{\"number\": {number}}}").into_bytes());
        let submission = Submission {
            tenant: Tenant::single(),
            agent: Agent::new("crm").unwrap(),
            requester: Person::new("crm-token").unwrap(),
            on_behalf_of: None,
            channel: None,
            run: None,
            session: None,
            claim: None,
            key: None,
            conversation: None,
            calls: (1..=calls).map(call).collect(),
        };
        match self.gate.submit(submission).await {
            Ok(submitted) => {
                let approval = submitted.approval.expect("it is held");
                (self.on_ack)(Ack::Proposed(approval.id));
                Ok(approval)
            }
            Err(SubmitError::Store(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    async fn approve(&self, approval: &Approval) -> Result<(), StoreError> {
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

    async fn deny(&self, approval: &Approval) -> Result<(), StoreError> {
        let answer = self.gate.decide(decision(approval, Verdict::Deny)).await?;
        if answer.refusal.is_none() {
            (self.on_ack)(Ack::Denied(approval.id));
        }
        Ok(())
    }
}

/// An approval by `alice`.
pub fn approve(approval: &Approval) -> Decision {
    decision(approval, Verdict::Approve)
}

fn decision(approval: &Approval, verdict: Verdict) -> Decision {
    Decision::on(
        approval.tenant.clone(),
        countersign::card::WholeCard::shown(approval),
        Decider::new(Person::new("alice").unwrap(), Vec::new(), Surface::Page),
        verdict,
    )
}

/// I1, I2, I4, I5: checks that every acknowledged fact is stored, and that every effect was approved and started
/// before, and happened once.
pub async fn check(store: &dyn Store, acks: &[Ack], effects: &[CallId]) {
    let mut once = HashSet::new();
    for call in effects {
        assert!(once.insert(*call), "I2: call {call} had its effect twice");
    }
    let acknowledged = acks.iter().map(Ack::approval);
    let ids: BTreeSet<ApprovalId> = acknowledged
        .chain(effects.iter().map(|call| call.approval))
        .collect();
    for id in ids {
        let (approval, events) = verified_approval(store, id).await;
        for ack in acks.iter().filter(|ack| ack.approval() == id) {
            let holds = match ack {
                Ack::Proposed(_) => true,
                Ack::Approved(_) => approval.state == State::Approved,
                Ack::Denied(_) => approval.state == State::Denied,
                Ack::Started(call) => starts(&events, call.position) == 1,
                Ack::Finished(call) => state(&approval, *call) == CallState::Succeeded,
            };
            assert!(holds, "I5: `{ack}` was acknowledged, and is lost: {approval:?}");
        }
        for call in effects.iter().filter(|call| call.approval == id) {
            assert_eq!(starts(&events, call.position), 1, "I1: the effect of call {call}");
            let was_started = matches!(
                state(&approval, *call),
                CallState::Running | CallState::Succeeded | CallState::Unknown
            );
            assert!(was_started, "I1: call {call} is {}", state(&approval, *call));
        }
    }
}

/// Returns an approval and its history after verifying them.
pub async fn verified_approval(store: &dyn Store, id: ApprovalId) -> (SharedApproval, Vec<Event>) {
    let tenant = Tenant::single();
    let approval = store.approval(&tenant, id).await.unwrap();
    let approval = approval.unwrap_or_else(|| panic!("I5: approval {id} is lost"));
    let events = store.events(&tenant, id).await.unwrap();
    assert_eq!(verify(&approval, &events), Ok(()), "I4: approval {id}");
    let mut approved = false;
    for event in &events {
        match event.what {
            EventKind::Approved { .. } => {
                assert_eq!(event.by, Actor::Person(Person::new("alice").unwrap()), "I1");
                approved = true;
            }
            EventKind::Started { call, .. } => {
                assert!(
                    approved,
                    "I1: call {id}.{call} was started and nobody had approved it"
                );
                assert_eq!(starts(&events, call), 1, "I2: call {id}.{call}");
            }
            _ => {}
        }
    }
    (approval, events)
}

/// I12: checks that a running call becomes unknown once its time is over, and never starts again. The clock must be
/// past all deadlines.
pub async fn check_sweep(gate: &Gate, approvals: &[SharedApproval]) {
    gate.expire_due().await.unwrap();
    for before in approvals {
        let (after, _) = verified_approval(gate.store(), before.id).await;
        assert_ne!(after.state, State::Pending, "approval {}", after.id);
        for (position, call) in after.numbered() {
            assert!(
                call.state.is_over(),
                "call {}.{position} is {}",
                after.id,
                call.state
            );
            let was_running = before
                .call(position)
                .is_some_and(|call| call.state == CallState::Running);
            assert!(
                !was_running || call.state == CallState::Unknown,
                "I12: call {}.{position} became {}",
                after.id,
                call.state
            );
            let approval = after.id;
            let again = gate.start(&after.tenant, CallId { approval, position }).await;
            assert!(
                again.unwrap().is_err(),
                "I2: call {approval}.{position} started again"
            );
        }
    }
}

/// Returns all approvals, newest first.
pub async fn all_approvals(store: &dyn Store) -> Vec<SharedApproval> {
    let mut all: Vec<SharedApproval> = Vec::new();
    loop {
        let filter = Filter {
            after: all.last().map(|approval| approval.id),
            limit: Some(500),
            ..Filter::default()
        };
        let page = store.list(&Tenant::single(), &filter).await.unwrap();
        match page.is_empty() {
            true => return all,
            false => all.extend(page),
        }
    }
}

fn starts(events: &[Event], position: u8) -> usize {
    let started = |event: &&Event| matches!(event.what, EventKind::Started { call, .. } if call == position);
    events.iter().filter(started).count()
}

fn state(approval: &Approval, call: CallId) -> CallState {
    approval.call(call.position).expect("it has that call").state
}

/// Tests that `check` detects violations.
mod tests {
    use countersign::store::memory::MemoryStore;

    use super::*;

    async fn finished_workload() -> (Arc<MemoryStore>, CallId) {
        let store = Arc::new(MemoryStore::default());
        let client = TestClient::new(store.clone(), Arc::new(|_| {}), Arc::new(|_| {}));
        let approval = client.propose("run_by_gate", 1).await.unwrap().id;
        (
            store,
            CallId {
                approval,
                position: 1,
            },
        )
    }

    #[tokio::test]
    #[should_panic = "I5: approval"]
    async fn check_finds_a_lost_proposal() {
        let (_, call) = finished_workload().await;
        check(&MemoryStore::default(), &[Ack::Proposed(call.approval)], &[]).await;
    }

    #[tokio::test]
    #[should_panic = "I5: `approved"]
    async fn check_finds_a_lost_decision() {
        let (store, call) = finished_workload().await;
        check(&*store, &[Ack::Approved(call.approval)], &[]).await;
    }

    #[tokio::test]
    #[should_panic = "I1: the effect of call"]
    async fn check_finds_an_effect_without_a_start() {
        let (store, call) = finished_workload().await;
        check(&*store, &[], &[call]).await;
    }

    #[tokio::test]
    #[should_panic = "had its effect twice"]
    async fn check_finds_a_repeated_effect() {
        let (store, call) = finished_workload().await;
        check(&*store, &[], &[call, call]).await;
    }
}
