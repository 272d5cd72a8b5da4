//! Fail closed: whatever the store does, nothing runs that was not recorded as started.

use std::sync::Arc;

use crate::world::*;
use countersign::decision::Verdict;
use countersign::gate::{Reply, SubmitError};
use countersign::id::{Channel, Tenant};
use countersign::store::memory::MemoryStore;
use countersign::store::suite::failing::{Breaks, FailingStore, Fault};
use countersign::store::{Filter, Store, StoreError};
use countersign::time::{ManualClock, Time};

/// A world whose store has this fault, and the store.
fn failing(fault: Fault) -> (World, Arc<FailingStore<MemoryStore>>) {
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_794_000_000_000_000)));
    let store = Arc::new(FailingStore::new(
        MemoryStore::with_clock(clock.clone()),
        vec![fault],
    ));
    (world_over(store.clone(), clock, POLICY), store)
}

/// Every fault a call can have.
fn faults_of(call: usize) -> Vec<Fault> {
    FailingStore::<MemoryStore>::faults_of(call)
}

#[tokio::test]
async fn a12_when_saving_fails_the_turn_aborts_and_nothing_runs() {
    for fault in faults_of(1) {
        let (world, _) = failing(fault);
        let calls = vec![call("search_contacts", "{}"), call("create_contact", MARIA)];
        let error = world.gate.submit(submission(calls)).await.unwrap_err();
        assert!(matches!(error, SubmitError::Store(_)), "{error}");
        assert!(
            world.ran().is_empty(),
            "not even the read: its permit was never given out"
        );
    }
}

/// One whole conversation; true when it got through.
async fn whole_life(world: &World) -> Result<(), StoreError> {
    let submitted = world
        .gate
        .submit(submission(vec![call("create_contact", MARIA)]))
        .await;
    let Ok(submitted) = submitted else {
        return Err(StoreError::Unavailable("submit".into()));
    };
    let approval = submitted.approval.unwrap();
    let yes = Reply {
        tenant: approval.tenant.clone(),
        channel: Channel::new("chat-1").unwrap(),
        sender: alice(),
        reading: countersign::reply::Reading::Yes,
        seen: Some(countersign::card::WholeCard::shown(&approval)),
        message: None,
    };
    world.gate.hear(yes).await.map(|_| ())
}

#[tokio::test(start_paused = true)]
async fn i11_no_failing_store_call_ever_lets_an_unrecorded_run_happen() {
    let mut interrupted = 0;
    for fault in (1..=12).flat_map(faults_of) {
        let (world, store) = failing(fault.clone());
        let through = whole_life(&world).await;
        interrupted += usize::from(through.is_err());
        let ran = world.ran().len();
        let starts = starts_on_record(store.inner(), &fault).await;
        assert!(
            ran <= starts && starts <= 1,
            "{fault:?}: ran {ran}, started {starts}"
        );
        // Calls: 1 propose, 2 what is pending, 3 decide with start.
        if through.is_err() && fault.call <= 3 {
            assert_eq!(ran, 0, "{fault:?}: an error before the start means nothing ran");
        }
    }
    assert!(interrupted >= 27, "the failures did hit: {interrupted}");
}

/// How many calls were started; each of them behind an approval.
async fn starts_on_record(store: &MemoryStore, fault: &Fault) -> usize {
    let mut starts = 0;
    for approval in store.list(&Tenant::single(), &Filter::default()).await.unwrap() {
        let events = store.events(&approval.tenant, approval.id).await.unwrap();
        let words: Vec<_> = events.iter().map(|event| event.what.as_str()).collect();
        let started = words.iter().filter(|word| **word == "started").count();
        assert!(
            started == 0 || words.contains(&"approved"),
            "{fault:?}: {words:?}"
        );
        starts += started;
    }
    starts
}

#[tokio::test(start_paused = true)]
async fn i11_a_lost_answer_to_the_decision_runs_nothing_and_ends_as_unknown() {
    // Calls: 1 propose, 2 decide with start: committed, but the answer is lost.
    let (world, store) = failing(Fault {
        call: 2,
        breaks: Breaks::After,
        error: StoreError::InDoubt("cut".to_owned()),
    });
    let approval = world.hold(vec![call("create_contact", MARIA)]).await;
    world
        .gate
        .decide_and_run(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap_err();
    assert!(world.ran().is_empty());
    world.clock.advance(std::time::Duration::from_secs(61));
    world.gate.expire_due().await.unwrap();
    let after = store
        .inner()
        .approval(&approval.tenant, approval.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(after.calls[0].state, countersign::state::CallState::Unknown);
}
