//! Whole approvals through the real gate: checks after a crash what was acknowledged before.

use std::collections::{BTreeSet, HashSet};

use countersign::approval::{Approval, SharedApproval};
use countersign::event::{Event, EventKind, verify};
use countersign::gate::Gate;
use countersign::id::{Actor, ApprovalId, CallId, Person, Tenant};
use countersign::state::{CallState, State};
use countersign::store::{Filter, Store, StoreError};

use crate::client::{Ack, TestClient};

impl Ack {
    pub fn approval(&self) -> ApprovalId {
        match self {
            Ack::Proposed(id) | Ack::Approved(id) | Ack::Denied(id) => *id,
            Ack::Started(call) | Ack::Finished(call) => call.approval,
        }
    }
}

impl TestClient {
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
}

/// Checks I1, I2, I4 and I5: every acknowledged fact is stored, and every effect was approved and started before, and
/// happened once.
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

/// Reads an approval and its history, and checks that they agree.
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

/// Checks I12: a running call becomes unknown once its time is over, and never starts again. The clock must be past all
/// deadlines.
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
    use std::sync::Arc;

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
