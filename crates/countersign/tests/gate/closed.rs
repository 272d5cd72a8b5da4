//! Fail closed: whatever the store does, no call runs unless its start is on record.

use std::sync::Arc;

use crate::world::*;
use countersign::decision::Verdict;
use countersign::event::verify;
use countersign::gate::{Reply, SubmitError};
use countersign::id::{Channel, Key, Tenant};
use countersign::store::memory::MemoryStore;
use countersign::store::suite::failing::{Breaks, FailingStore, Fault};
use countersign::store::{Filter, Store, StoreError};
use countersign::time::{ManualClock, Time};

/// Creates a world over a store with this fault. Returns the world and the store.
fn failing(fault: Fault) -> (World, Arc<FailingStore<MemoryStore>>) {
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_794_000_000_000_000)));
    let store = Arc::new(FailingStore::new(
        MemoryStore::with_clock(clock.clone()),
        vec![fault],
    ));
    (world_over(store.clone(), clock, POLICY), store)
}

/// Returns all faults that the store call with this number can have.
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

/// Submits a call and approves it with a reply. Fails if either step does.
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
        // Store calls: 1 propose, 2 read the pending approval, 3 decide with start.
        if through.is_err() && fault.call <= 3 {
            assert_eq!(ran, 0, "{fault:?}: an error before the start means nothing ran");
        }
    }
    assert!(interrupted >= 27, "the failures did hit: {interrupted}");
}

/// Counts the recorded starts, checking that each follows an approval.
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
    // Store calls: 1 propose, 2 decide with start, which is committed but its answer is lost.
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

/// Number of operations on each store.
const OPERATIONS: usize = 700;

/// Returns the number of stores needed for the number of operations in `COUNTERSIGN_TEST_F24`.
fn stores() -> u64 {
    let operations = match std::env::var("COUNTERSIGN_TEST_F24") {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => OPERATIONS,
    };
    operations.div_ceil(OPERATIONS) as u64
}

/// F24: half of all store calls end in doubt, half of these after they were committed.
#[tokio::test(start_paused = true)]
async fn f24_a_store_in_doubt_half_the_time_runs_nothing_twice_or_unrecorded() {
    let policy =
        format!("[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n{POLICY}");
    let (mut operations, mut through, mut broken_off, mut ran) = (0, 0, 0, 0);
    for seed in 0..stores() {
        let clock = Arc::new(ManualClock::at(Time::from_micros(1_794_000_000_000_000)));
        let memory = MemoryStore::with_clock(clock.clone());
        let store = Arc::new(FailingStore::by_chance(memory, seed));
        let world = world_over(store.clone(), clock, &policy);
        for life in 0.. {
            if store.calls() >= OPERATIONS {
                break;
            }
            match doubtful_life(&world, life).await {
                true => through += 1,
                false => broken_off += 1,
            }
        }
        operations += store.calls();
        ran += check_all(store.inner(), &world, seed).await;
    }
    assert!(through > 0 && broken_off > 0 && ran > 0);
    println!(
        "F24 memory operations={operations} violations=0 lives={through} broken_off={broken_off} ran={ran}"
    );
}

/// Submits and approves a call with retries; false if they gave up.
async fn doubtful_life(world: &World, life: u64) -> bool {
    const TRIES: usize = 4;
    let arguments = format!(r#"{{"name":"N{life}","email":"e","company":"c"}}"#);
    let mut submission = submission(vec![call("create_contact", &arguments)]);
    submission.channel = Some(Channel::new(format!("chat-{life}")).unwrap());
    submission.key = Some(Key::new(format!("key-{life}")).unwrap());
    let mut approval = None;
    for _ in 0..TRIES {
        if let Ok(submitted) = world.gate.submit(submission.clone()).await {
            approval = submitted.approval;
            break;
        }
    }
    let Some(approval) = approval else { return false };
    for _ in 0..TRIES {
        let mut decision = decision(&approval, alice(), Verdict::Approve);
        decision.key = Some(Key::new(format!("yes-{life}")).unwrap());
        if world.gate.decide_and_run(decision).await.is_ok() {
            return true;
        }
    }
    false
}

/// Checks I1, I2 and I11: each call that ran was approved and started on record, once. Returns how many ran.
async fn check_all(store: &MemoryStore, world: &World, seed: u64) -> usize {
    let ran = world.ran();
    let mut once = ran.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), ran.len(), "seed {seed}: something ran twice");
    let mut started = Vec::new();
    let mut after = None;
    loop {
        let filter = Filter {
            after,
            limit: Some(500),
            ..Filter::default()
        };
        let page = store.list(&Tenant::single(), &filter).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for approval in page {
            let events = store.events(&approval.tenant, approval.id).await.unwrap();
            assert_eq!(verify(&approval, &events), Ok(()), "seed {seed}");
            let words: Vec<_> = events.iter().map(|event| event.what.as_str()).collect();
            let starts = words.iter().filter(|word| **word == "started").count();
            assert!(starts <= 1, "seed {seed}: {words:?}");
            assert!(
                starts == 0 || words.contains(&"approved"),
                "seed {seed}: {words:?}"
            );
            if starts == 1 {
                let bytes = approval.calls[0].arguments.as_bytes();
                started.push(format!("create_contact {}", String::from_utf8_lossy(bytes)));
            }
        }
    }
    for call in &ran {
        assert!(started.contains(call), "seed {seed}: {call} is not on record");
    }
    ran.len()
}
