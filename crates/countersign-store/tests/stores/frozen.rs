//! X88: suspended server processes. No caller waits forever, and every answer is true.

use std::time::{Duration, Instant};

use countersign::command::{Answer, Command};
use countersign::state::State;
use countersign::store::suite::sample;
use countersign::store::{Filter, Store, StoreError};
use countersign_store::postgres::{ConnectError, PostgresOptions, PostgresStore};

use crate::figures::{report, rounds};
use crate::server::{Frozen, Server};

/// Longest acceptable wait for an answer while connections are frozen, on a busy machine.
const ANSWER: Duration = Duration::from_secs(40);
const OURS: &str = "application_name = 'countersign'";

async fn open(server: &Server) -> PostgresStore {
    PostgresStore::connect(&server.url, PostgresOptions::default())
        .await
        .unwrap()
}

async fn propose(store: &PostgresStore, number: u64) -> Result<(), StoreError> {
    match store
        .write(Command::Propose(Box::new(sample::propose(number))))
        .await?
    {
        Answer::Propose(proposed) => {
            proposed.unwrap();
            Ok(())
        }
        other => panic!("{other:?}"),
    }
}

async fn read(store: &PostgresStore, number: u64) -> Result<bool, StoreError> {
    let found = store.approval(&sample::tenant(), sample::id(number)).await?;
    Ok(found.is_some())
}

/// Awaits an answer, and panics if there is none within [`ANSWER`].
async fn answered<T>(what: &str, answer: impl Future<Output = T>) -> T {
    let answered = tokio::time::timeout(ANSWER, answer).await;
    answered.unwrap_or_else(|_| panic!("X88: {what} has no answer after {ANSWER:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x88_frozen_backends_block_no_caller() {
    let server = Server::start();
    let store = open(&server).await;
    let rounds = rounds("X88", 2);
    let (tenant, pending) = (sample::tenant(), Filter::pending());
    let (mut slowest, mut said) = (Duration::ZERO, Vec::new());
    for round in 0..rounds as u64 {
        let (known, new) = (1_000 + 2 * round, 1_001 + 2 * round);
        propose(&store, known).await.unwrap();
        // Twice, so that both read connections are open.
        assert!(read(&store, known).await.unwrap() && read(&store, known).await.unwrap());
        let frozen = Frozen::new(server.processes(OURS).await);
        let begun = Instant::now();
        let (read_answer, listed, now, write_answer) = tokio::join!(
            answered("a read", read(&store, known)),
            answered("a list", store.list(&tenant, &pending)),
            answered("the clock", store.now()),
            answered("a write", propose(&store, new)),
        );
        slowest = slowest.max(begun.elapsed());
        for error in [
            read_answer.err(),
            listed.err(),
            now.err(),
            write_answer.clone().err(),
        ] {
            let told = matches!(
                error,
                None | Some(StoreError::Unavailable(_) | StoreError::InDoubt(_))
            );
            assert!(told, "{error:?}");
        }
        said.push((new, write_answer));
        // New connections replace the frozen ones, which stay frozen.
        until_well(&store, known).await;
        drop(frozen);
    }
    for (number, answer) in said {
        let there = read(&store, number).await.unwrap();
        match answer {
            Ok(()) => assert!(there, "{number} was acknowledged"),
            Err(StoreError::Unavailable(_)) => assert!(!there, "{number} was said not to be written"),
            Err(_) => {}
        }
    }
    let left = server.processes(OURS).await.len();
    assert!(left <= 8, "{left} connections: those given up end when they wake");
    report(
        "X88",
        "postgres",
        rounds,
        &format!("slowest_ms={}", slowest.as_millis()),
    );
}

async fn until_well(store: &PostgresStore, number: u64) {
    let begun = Instant::now();
    loop {
        let well = tokio::join!(
            answered("a read", read(store, number)),
            answered("another read", store.now()),
            answered(
                "a write",
                propose(store, 500_000 + number * 100 + begun.elapsed().as_secs())
            ),
        );
        match well {
            (Ok(true), Ok(_), Ok(())) => return,
            not_yet => assert!(begun.elapsed() < ANSWER, "{not_yet:?}"),
        }
    }
}

/// A listener that hears nothing is replaced. Without that, only the polling fallback would wake waiters, up to a
/// second late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x88_a_frozen_listener_is_replaced() {
    let server = Server::start();
    let (waiting, deciding) = (open(&server).await, open(&server).await);
    let listening = format!("{OURS} AND query LIKE 'LISTEN%'");
    let mut frozen = Vec::new();
    while frozen.len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        frozen = server.processes(&listening).await;
    }
    let count = frozen.len();
    let _frozen = Frozen::new(frozen.clone());
    let begun = Instant::now();
    loop {
        let now = server.processes(&listening).await;
        if now.iter().filter(|process| !frozen.contains(process)).count() >= count {
            break;
        }
        assert!(begun.elapsed() < ANSWER, "X88: nobody listens any more");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Takes the best of several: the machine may be busy, and the polling fallback alone wakes within a second.
    let mut fastest = Duration::MAX;
    for number in 1..=5 {
        propose(&waiting, number).await.unwrap();
        let waiter = waiting.hub().wait_for(sample::id(number));
        let approval = waiting.approval(&sample::tenant(), sample::id(number)).await;
        let decide = sample::approve(&approval.unwrap().unwrap());
        deciding.write(Command::Decide(Box::new(decide))).await.unwrap();
        let begun = Instant::now();
        let woken = answered("a waiter", waiter.changed()).await.unwrap();
        assert_eq!(woken.state, State::Approved);
        fastest = fastest.min(begun.elapsed());
    }
    assert!(fastest < Duration::from_millis(400), "{fastest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x88_a_silent_server_is_unreachable() {
    let server = Server::start();
    let store = open(&server).await;
    propose(&store, 1).await.unwrap();
    let ours = server.processes(OURS).await;
    let postmaster = server.postmaster();
    let _frozen = Frozen::new(ours.into_iter().chain([postmaster]).collect());
    let connecting = PostgresStore::connect(&server.url, PostgresOptions::default());
    let refused = answered("connecting", connecting).await;
    assert!(
        matches!(refused, Err(ConnectError::Unreachable { .. })),
        "{refused:?}"
    );
    let read = answered("a read", read(&store, 1)).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    let write = answered("a write", propose(&store, 2)).await;
    assert!(matches!(write, Err(StoreError::Unavailable(_))), "{write:?}");
}
