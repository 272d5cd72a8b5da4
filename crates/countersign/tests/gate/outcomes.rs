//! X87: an outcome must not be lost because the store fails when it is reported.

use std::sync::Arc;
use std::time::Duration;

use crate::world::*;
use countersign::decision::Verdict;
use countersign::executor::Outcome;
use countersign::id::{CallId, Person};
use countersign::state::CallState;
use countersign::store::memory::MemoryStore;
use countersign::store::suite::failing::{Breaks, FailingStore, Fault};
use countersign::store::{Store, StoreError};
use countersign::time::{ManualClock, Time};

/// Creates a world over a store with injectable faults.
fn failing() -> (World, Arc<FailingStore<MemoryStore>>) {
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_794_000_000_000_000)));
    let memory = MemoryStore::with_clock(clock.clone());
    let store = Arc::new(FailingStore::new(memory, Vec::new()));
    (world_over(store.clone(), clock, POLICY), store)
}

fn full() -> StoreError {
    StoreError::Full("no space left".to_owned())
}

/// Makes `count` store calls fail, beginning with number `from`.
fn fail(store: &FailingStore<MemoryStore>, from: usize, count: usize, error: &StoreError) {
    let faults = (from..from + count).map(|call| Fault {
        call,
        breaks: Breaks::Before,
        error: error.clone(),
    });
    store.set(faults.collect());
}

async fn state(store: &FailingStore<MemoryStore>, call: CallId) -> CallState {
    let found = store
        .inner()
        .approval(&countersign::id::Tenant::single(), call.approval)
        .await;
    found.unwrap().unwrap().call(call.position).unwrap().state
}

fn first_call(resolved: &countersign::gate::Resolved) -> CallId {
    CallId {
        approval: resolved.approval.as_ref().unwrap().id,
        position: 1,
    }
}

async fn until_recorded(world: &World) {
    for _ in 0..10_000 {
        if world.gate.unrecorded() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{} outcomes are still not on record", world.gate.unrecorded());
}

#[tokio::test(start_paused = true)]
async fn x87_a_known_outcome_is_kept_until_the_store_takes_it() {
    let (world, store) = failing();
    let approval = world
        .hold(vec![
            call("create_contact", MARIA),
            call("refund", r#"{"amount":100}"#),
        ])
        .await;
    // The decision with its start is the first store call; those after it fail for a long while.
    fail(&store, 2, 60, &full());
    let resolved = world
        .gate
        .decide_and_run(decision(&approval, alice(), Verdict::Approve))
        .await
        .expect("the decision is on record, whatever comes after it");
    assert!(resolved.ran.is_empty(), "what is not on record is not told");
    let id = first_call(&resolved);
    assert_eq!(world.gate.unrecorded(), 1);
    assert_eq!(state(&store, id).await, CallState::Running);
    until_recorded(&world).await;
    assert_eq!(state(&store, id).await, CallState::Succeeded);
    assert_eq!(world.ran().len(), 1, "it ran once");
    // The next call is released, for followers of the feed to run.
    let next = CallId { position: 2, ..id };
    assert_eq!(state(&store, next).await, CallState::Released);
}

/// The sweep gives the call up before its outcome is recorded, which then counts as a late result.
#[tokio::test(start_paused = true)]
async fn x87_an_outcome_that_was_given_up_meanwhile_is_late_and_not_lost() {
    let (world, store) = failing();
    let approval = world.hold(vec![call("create_contact", MARIA)]).await;
    fail(&store, 2, 20, &full());
    let resolved = world
        .gate
        .decide_and_run(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap();
    let id = first_call(&resolved);
    world.clock.advance(Duration::from_secs(61));
    let sweep = countersign::command::Command::Sweep(countersign::command::Sweep {
        limit: 10,
        policy: world.gate.policy().hash(),
    });
    store.inner().write(sweep).await.unwrap();
    assert_eq!(state(&store, id).await, CallState::Unknown);
    until_recorded(&world).await;
    assert_eq!(state(&store, id).await, CallState::Succeeded);
    assert_eq!(
        world.history(&approval).await,
        ["proposed", "approved", "started", "lost", "reconciled"]
    );
}

/// A stopped store accepts no more writes. The outcomes are handed over for another process to record.
#[tokio::test(start_paused = true)]
async fn x87_outcomes_are_handed_to_the_next_process() {
    let (world, store) = failing();
    let approval = world.hold(vec![call("create_contact", MARIA)]).await;
    let stopped = StoreError::Stopped("a sync failed".to_owned());
    fail(&store, 2, 10_000, &stopped);
    let resolved = world
        .gate
        .decide_and_run(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap();
    let rest = world.gate.flush_unrecorded(Duration::from_secs(3)).await;
    assert_eq!(rest.len(), 1);
    assert!(matches!(rest[0].outcome, Outcome::Succeeded(_)));
    // Simulates the next process, on the same store.
    store.set(Vec::new());
    let next = world_over(store.clone(), world.clock.clone(), POLICY);
    next.gate.requeue_outcomes(rest.clone());
    until_recorded(&next).await;
    assert_eq!(state(&store, first_call(&resolved)).await, CallState::Succeeded);
    // Recording the outcome twice has no further effect.
    next.gate.requeue_outcomes(rest);
    until_recorded(&next).await;
    assert_eq!(
        next.history(&approval).await,
        ["proposed", "approved", "started", "succeeded"]
    );
}

#[tokio::test(start_paused = true)]
async fn x87_one_outcome_that_cannot_be_written_does_not_hold_up_the_others() {
    let (world, store) = failing();
    let mut ran = Vec::new();
    for n in 0..100 {
        let approval = world
            .gate
            .submit(countersign::gate::Submission {
                channel: None,
                ..submission(vec![call(
                    "create_contact",
                    &format!(r#"{{"name":"{n}","email":"e"}}"#),
                )])
            })
            .await
            .unwrap()
            .approval
            .unwrap();
        fail(&store, 2, 4, &full());
        let resolved = world
            .gate
            .decide_and_run(decision(&approval, alice(), Verdict::Approve))
            .await
            .unwrap();
        ran.push(first_call(&resolved));
        store.set(Vec::new());
    }
    until_recorded(&world).await;
    for call in ran {
        assert_eq!(state(&store, call).await, CallState::Succeeded);
    }
    assert_eq!(world.ran().len(), 100);
}

/// A person reconciles the call first: the tool's result is appended, and the person's word stands.
#[tokio::test(start_paused = true)]
async fn x87_a_late_answer_behind_a_persons_word_is_appended() {
    let world = world();
    let approval = world.hold(vec![call("sleep", "{}")]).await;
    let resolved = world
        .gate
        .decide_and_run(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap();
    let id = resolved.ran[0].call;
    let person = Person::new("alice").unwrap();
    world
        .gate
        .reconcile(&approval.tenant, id, person, false, None)
        .await
        .unwrap()
        .unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.now(&approval).await.calls[0].state, CallState::Failed);
    assert_eq!(
        world.history(&approval).await,
        [
            "proposed",
            "approved",
            "started",
            "lost",
            "reconciled",
            "late_result"
        ]
    );
}
