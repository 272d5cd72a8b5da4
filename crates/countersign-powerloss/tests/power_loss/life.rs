//! Callers of the gate, which record acknowledgements and effects.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::approval::{Approval, SharedApproval};
use countersign::card::WholeCard;
use countersign::command::{Answer, Command, Erase, Erasure};
use countersign::decision::{Decider, Decision, Surface, Verdict};
use countersign::executor::{Outcome, Tools};
use countersign::gate::{Gate, Submission, SubmitError, SubmittedCall};
use countersign::id::{Actor, Agent, ApprovalId, CallId, Channel, Person, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::registry::{Entry, Kind, Put};
use countersign::state::State;
use countersign::store::{Filter, Store, StoreError};
use countersign_powerloss::Random;

const POLICY: &str = r#"
[agents]
most_pending = "unlimited"
proposals_per_minute = "unlimited"

[tools.run_by_gate]
effect = "destructive"
approvers = ["alice"]
timeout = "30s"

[tools.run_by_host]
effect = "destructive"
approvers = ["alice"]
timeout = "30s"
"#;

/// A step that the store acknowledged. It must not be lost from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ack {
    Proposed(ApprovalId),
    Approved(ApprovalId),
    Denied(ApprovalId),
    Superseded(ApprovalId),
    Withdrawn(ApprovalId),
    Started(CallId),
    Finished(CallId),
    Erased(ApprovalId),
    Kept(String, u32),
}

/// Acknowledged steps and external effects of one machine. A power cut changes neither.
#[derive(Debug, Default)]
pub struct Record {
    acks: Mutex<Vec<Ack>>,
    effects: Mutex<Vec<CallId>>,
}

impl Record {
    pub fn acks(&self) -> Vec<Ack> {
        self.acks.lock().unwrap().clone()
    }

    pub fn effects(&self) -> Vec<CallId> {
        self.effects.lock().unwrap().clone()
    }

    fn note(&self, ack: Ack) {
        self.acks.lock().unwrap().push(ack);
    }

    fn affect(&self, call: CallId) {
        self.effects.lock().unwrap().push(call);
    }
}

/// Returns a gate on a store, whose tool records its effects.
pub fn gate(store: Arc<dyn Store>, record: &Arc<Record>) -> Gate {
    let affecting = record.clone();
    let tools = Tools::default().with(ToolName::new("run_by_gate").unwrap(), move |permit| {
        affecting.affect(permit.call().unwrap());
        async { Outcome::succeeded("done") }
    });
    let policy = Arc::new(Policy::parse(POLICY).unwrap());
    Gate::new(store, policy).with_executor(Arc::new(tools))
}

/// A client that uses the gate until the store fails.
pub struct Caller {
    pub gate: Gate,
    pub record: Arc<Record>,
    pub random: Random,
    /// Distinguishes callers of one machine.
    pub name: String,
}

impl Caller {
    pub async fn live(&mut self, lives: u64) -> Result<(), StoreError> {
        for number in 0..lives {
            match self.random.below(9) {
                0 => {
                    self.approve(&*self.propose("run_by_gate", 2, None).await?)
                        .await?
                }
                1 | 2 => {
                    self.approve(&*self.propose("run_by_host", 1, None).await?)
                        .await?
                }
                3 => self.deny(&*self.propose("run_by_gate", 1, None).await?).await?,
                4 => drop(self.propose("run_by_gate", 1, None).await?),
                5 => self.supersede(number).await?,
                6 => {
                    self.withdraw(&*self.propose("run_by_host", 1, None).await?)
                        .await?
                }
                7 => self.erase_one().await?,
                _ => self.keep_entry(number).await?,
            }
        }
        Ok(())
    }

    /// Continues with open approvals, like a service that restarts.
    pub async fn resume(&self) -> Result<(), StoreError> {
        let tenant = Tenant::single();
        let approved = Filter {
            state: Some(State::Approved),
            ..Filter::default()
        };
        for approval in self.gate.store().list(&tenant, &approved).await? {
            self.run_by_host(&approval).await?;
            let (_, ran) = self.gate.run_released(&tenant, approval).await?;
            ran.iter()
                .for_each(|ran| self.record.note(Ack::Finished(ran.call)));
        }
        for approval in self.gate.store().list(&tenant, &Filter::pending()).await? {
            self.approve(&approval).await?;
        }
        Ok(())
    }

    async fn propose(
        &self,
        tool: &str,
        calls: usize,
        channel: Option<Channel>,
    ) -> Result<SharedApproval, StoreError> {
        let call = |number| SubmittedCall::new(tool, format!("{{\"number\": {number}}}").into_bytes());
        let submission = Submission {
            channel,
            ..Submission::new(
                Tenant::single(),
                Agent::new("crm").unwrap(),
                Person::new("crm-token").unwrap(),
                (1..=calls).map(call).collect(),
            )
            .unwrap()
        };
        match self.gate.submit(submission).await {
            Ok(submitted) => {
                let approval = submitted.approval.expect("it is held");
                self.record.note(Ack::Proposed(approval.id));
                if let Some(replaced) = approval.replaces {
                    self.record.note(Ack::Superseded(replaced));
                }
                Ok(approval)
            }
            Err(SubmitError::Store(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    async fn supersede(&self, number: u64) -> Result<(), StoreError> {
        let channel = Channel::new(format!("{} {number}", self.name)).unwrap();
        let first = self.propose("run_by_gate", 1, Some(channel.clone())).await?;
        let second = self.propose("run_by_gate", 1, Some(channel)).await?;
        // Approving the superseded card runs nothing.
        self.approve(&first).await?;
        self.approve(&second).await
    }

    async fn approve(&self, approval: &Approval) -> Result<(), StoreError> {
        let decided = self
            .gate
            .decide_and_run(decision(approval, Verdict::Approve))
            .await?;
        // Another caller may already have decided an approval that was left open.
        if decided.refusal.is_some() {
            return Ok(());
        }
        self.record.note(Ack::Approved(approval.id));
        for ran in &decided.ran {
            self.record.note(Ack::Finished(ran.call));
        }
        self.run_by_host(&decided.approval.expect("it is there")).await
    }

    async fn run_by_host(&self, approval: &Approval) -> Result<(), StoreError> {
        let next = approval.next_released();
        let is_own = |position: &u8| {
            approval
                .call(*position)
                .is_some_and(|call| call.tool.as_str() == "run_by_host")
        };
        let Some(position) = next.filter(is_own) else {
            return Ok(());
        };
        let call = CallId {
            approval: approval.id,
            position,
        };
        let Ok(permit) = self.gate.start(&approval.tenant, call).await? else {
            return Ok(());
        };
        self.record.note(Ack::Started(call));
        self.record.affect(call);
        let token = permit.token().expect("a held call");
        let finished = self
            .gate
            .finish(&approval.tenant, call, token, Outcome::succeeded("done"))
            .await?;
        if finished.is_ok() {
            self.record.note(Ack::Finished(call));
        }
        Ok(())
    }

    async fn deny(&self, approval: &Approval) -> Result<(), StoreError> {
        let answer = self.gate.decide(decision(approval, Verdict::Deny)).await?;
        if answer.refusal.is_none() {
            self.record.note(Ack::Denied(approval.id));
        }
        Ok(())
    }

    async fn withdraw(&self, approval: &Approval) -> Result<(), StoreError> {
        let by = Actor::Agent(approval.agent.clone());
        let withdrawn = self
            .gate
            .withdraw(&approval.tenant, approval.id, by, None)
            .await?;
        if withdrawn.refusal.is_none() {
            self.record.note(Ack::Withdrawn(approval.id));
        }
        Ok(())
    }

    async fn erase_one(&self) -> Result<(), StoreError> {
        let approval = self.propose("run_by_gate", 1, None).await?;
        self.deny(&approval).await?;
        let store = self.gate.store();
        let erase = Erase {
            tenant: approval.tenant.clone(),
            approval: approval.id,
            before: store.now().await?.plus(Duration::from_secs(1)),
            by: Actor::Gate,
            policy: self.gate.policy().hash(),
        };
        match store.write(Command::Erase(erase)).await? {
            Answer::Erase(Erasure::Done) => self.record.note(Ack::Erased(approval.id)),
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    async fn keep_entry(&self, number: u64) -> Result<(), StoreError> {
        let key = format!("{}/{}", self.name, number % 3);
        let store = self.gate.store();
        let there = store.entry(Kind::Setting, &key).await?;
        let entry = Entry {
            kind: Kind::Setting,
            key: key.clone(),
            tenant: Tenant::single(),
            body: Arc::from(&b"kept"[..]),
            version: there.map_or(0, |there| there.version),
            expires_at: None,
        };
        if let Put::Written(version) = store.put_entry(entry).await? {
            self.record.note(Ack::Kept(key, version));
        }
        Ok(())
    }
}

fn decision(approval: &Approval, verdict: Verdict) -> Decision {
    Decision::on(
        approval.tenant.clone(),
        WholeCard::shown(approval),
        Decider::new(Person::new("alice").unwrap(), Vec::new(), Surface::Page),
        verdict,
    )
}
