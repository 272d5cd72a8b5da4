//! Callers of the gate, which record acknowledgements and effects.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::approval::Approval;
use countersign::command::{Answer, Command, Erase, Erasure};
use countersign::id::{Actor, ApprovalId, CallId, Channel, Tenant};
use countersign::registry::{Entry, Kind, Put};
use countersign::store::{Store, StoreError};
use countersign_powerloss::Random;

use crate::client::{self, TestClient};

/// A step that the store acknowledged. It must not be lost from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ack {
    /// A step that every client takes.
    Client(client::Ack),
    Superseded(ApprovalId),
    Withdrawn(ApprovalId),
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

/// Returns a client of a gate on a store, which records what is acknowledged and what has an effect.
pub fn recording_client(store: Arc<dyn Store>, record: &Arc<Record>) -> TestClient {
    let (acks, effects) = (record.clone(), record.clone());
    TestClient::new(
        store,
        Arc::new(move |ack| acks.note(Ack::Client(ack))),
        Arc::new(move |call| effects.affect(call)),
    )
}

/// A client that uses the gate until the store fails.
pub struct Caller {
    pub client: TestClient,
    pub record: Arc<Record>,
    pub random: Random,
    /// Name that distinguishes the callers of one machine.
    pub name: String,
}

impl Caller {
    pub async fn live(&mut self, lives: u64) -> Result<(), StoreError> {
        for number in 0..lives {
            let client = &self.client;
            match self.random.below(9) {
                0 => client.approve(&*client.propose("run_by_gate", 2).await?).await?,
                1 | 2 => client.approve(&*client.propose("run_by_host", 1).await?).await?,
                3 => client.deny(&*client.propose("run_by_gate", 1).await?).await?,
                4 => drop(client.propose("run_by_gate", 1).await?),
                5 => self.supersede(number).await?,
                6 => self.withdraw(&*client.propose("run_by_host", 1).await?).await?,
                7 => self.erase_one().await?,
                _ => self.keep_entry(number).await?,
            }
        }
        Ok(())
    }

    async fn supersede(&self, number: u64) -> Result<(), StoreError> {
        let channel = Channel::new(format!("{} {number}", self.name)).unwrap();
        let propose = || self.client.propose_in(Some(channel.clone()), "run_by_gate", 1);
        let first = propose().await?;
        let second = propose().await?;
        // Another caller may have decided the first one meanwhile.
        if let Some(replaced) = second.replaces {
            self.record.note(Ack::Superseded(replaced));
        }
        // Approving the superseded card runs nothing.
        self.client.approve(&first).await?;
        self.client.approve(&second).await
    }

    async fn withdraw(&self, approval: &Approval) -> Result<(), StoreError> {
        let by = Actor::Agent(approval.agent.clone());
        let gate = &self.client.gate;
        let withdrawn = gate.withdraw(&approval.tenant, approval.id, by, None).await?;
        if withdrawn.refusal.is_none() {
            self.record.note(Ack::Withdrawn(approval.id));
        }
        Ok(())
    }

    async fn erase_one(&self) -> Result<(), StoreError> {
        let approval = self.client.propose("run_by_gate", 1).await?;
        self.client.deny(&approval).await?;
        let gate = &self.client.gate;
        let store = gate.store();
        let erase = Erase {
            tenant: approval.tenant.clone(),
            approval: approval.id,
            before: store.now().await?.plus(Duration::from_secs(1)),
            by: Actor::Gate,
            policy: gate.policy().hash(),
        };
        match store.write(Command::Erase(erase)).await? {
            Answer::Erase(Erasure::Done) => self.record.note(Ack::Erased(approval.id)),
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    async fn keep_entry(&self, number: u64) -> Result<(), StoreError> {
        let key = format!("{}/{}", self.name, number % 3);
        let store = self.client.gate.store();
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
