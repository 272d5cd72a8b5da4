//! F12: lost notifications and stuck listeners. Waiters still learn of a decision, and no commit waits for a listener.

use std::time::{Duration, Instant};

use countersign::command::Command;
use countersign::state::State;
use countersign::store::Store;
use countersign::store::suite::sample;
use countersign_store::postgres::{PostgresOptions, PostgresStore};

use crate::database::{Database, connect, run};
use crate::figures::{percentile, report, rounds};

/// Maximum time from a decision until a waiter wakes, without the allowance for a busy machine.
const WAKE: Duration = Duration::from_millis(1_100);
const BUSY: Duration = Duration::from_millis(1_400);

async fn open(url: &str) -> PostgresStore {
    PostgresStore::connect(url, PostgresOptions::default())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f12_a_killed_listener_costs_a_second_at_most() {
    let database = Database::new().await;
    let (waiting, deciding) = (open(&database.url).await, open(&database.url).await);
    let killer = connect(&database.url).await;
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND query LIKE 'LISTEN%' AND pid <> pg_backend_pid()";
    let rounds = rounds("F12", 10);
    let mut waits = Vec::with_capacity(rounds);
    for number in 0..rounds as u64 {
        let propose = Command::Propose(Box::new(sample::propose(number)));
        waiting.write(propose).await.unwrap();
        let waiter = waiting.hub().wait_for(sample::id(number));
        let approval = waiting.approval(&sample::tenant(), sample::id(number)).await;
        let decide = sample::approve(&approval.unwrap().unwrap());
        // Some listeners reconnect before the decision, some do not.
        run(&killer, kill).await;
        tokio::time::sleep(Duration::from_millis(number % 7 * 40)).await;
        deciding.write(Command::Decide(Box::new(decide))).await.unwrap();
        let begun = Instant::now();
        let woken = tokio::time::timeout(Duration::from_secs(10), waiter.changed()).await;
        assert_eq!(woken.unwrap().unwrap().state, State::Approved, "I14");
        waits.push(begun.elapsed());
    }
    let late = waits.iter().filter(|wait| **wait > WAKE).count();
    let (median, slowest) = (percentile(&mut waits, 50), percentile(&mut waits, 100));
    assert!(slowest < WAKE + BUSY, "I14: {slowest:?}");
    let more = format!(
        "median_ms={} slowest_ms={} over_1100_ms={late}",
        median.as_millis(),
        slowest.as_millis()
    );
    report("F12", "postgres", rounds, &more);
}

/// A listener in an open transaction keeps the notification queue from advancing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f12_a_stuck_listener_delays_no_commit() {
    let database = Database::new().await;
    let store = open(&database.url).await;
    let stuck = connect(&database.url).await;
    run(&stuck, "LISTEN countersign").await;
    run(&stuck, "BEGIN; SELECT 1").await;
    let begun = Instant::now();
    for number in 0..200 {
        let propose = Command::Propose(Box::new(sample::propose(number)));
        store.write(propose).await.unwrap();
        let approval = store.approval(&sample::tenant(), sample::id(number)).await;
        let decide = sample::approve(&approval.unwrap().unwrap());
        store.write(Command::Decide(Box::new(decide))).await.unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let usage = connect(&database.url).await;
    let row = usage
        .query_one("SELECT pg_notification_queue_usage() >= 0", &[])
        .await
        .unwrap();
    assert!(row.get::<_, bool>(0));
    run(&stuck, "ROLLBACK").await;
}
