//! Runs the whole suite on the memory store.

use std::sync::Arc;

use proptest::strategy::{Strategy, ValueTree};

use super::{Fixture, race};
use crate::store::memory::MemoryStore;

async fn fixture() -> Fixture {
    let clock = Fixture::clock();
    Fixture::new(Arc::new(MemoryStore::with_clock(clock.clone())), clock)
}

crate::conformance!(fixture);

/// Checks that every case is listed, because a case that is missing from the list would never run.
#[test]
fn every_case_is_listed_once() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/suite/cases");
    let found = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files: Vec<String> = found.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let list = include_str!("../suite.rs");
    let written = files.iter().flat_map(|file| file.lines());
    let names = written.filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
    let mut count = 0;
    for name in names {
        count += 1;
        let listed = list.lines().filter(|line| line.trim() == format!("{name},"));
        assert_eq!(listed.count(), 1, "case `{name}`");
    }
    assert!(count >= 150, "{count}");
}

#[test]
fn i1_to_i15_hold_for_random_programs() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fixture = runtime.block_on(fixture());
    super::program::explore(&runtime, &[&fixture], 2_000, 1);
}

/// Checks that random programs reach every kind of event and refusal, because otherwise they prove little.
#[test]
fn random_programs_reach_everything() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fixture = runtime.block_on(fixture());
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = String::new();
    for _ in 0..2_000 {
        let program = super::program::programs()
            .new_tree(&mut runner)
            .unwrap()
            .current();
        seen.push_str(
            &runtime
                .block_on(super::program::run(&program, &fixture))
                .join("\n"),
        );
    }
    for word in [
        "repeated true",
        "KeyReused",
        "NotUndoable",
        "being undone",
        "NotFound",
        "AlreadyDecided",
        "Expired",
        "Superseded",
        "Withdrawn",
        "Stale {",
        "NotAllowed",
        "BadChoices",
        "WrongState",
        "EarlierFirst",
        "NothingToUndo",
        "NotYourPermit",
        "because: Some(Stale)",
        "because: Some(EarlierFailed)",
        "started Some(1)",
        "started Some(2)",
        "approval",
        " denied [",
        " expired [",
        " superseded [",
        " withdrawn [",
        " passed [",
        "NotAsked",
        "\"unknown\"",
        "\"failed\"",
        "\"undone\"",
        "undone by [Some",
        "Written(2)",
        ": Conflict",
        "took Some",
        "took None",
        "over Some",
        "NotLookedAt",
        "because: Changed, successor: Some",
        "because: Changed, successor: None",
        "because: Unreadable",
        "FourEyes",
        "SurfaceTooWeak",
        "AlreadyEndorsed",
        "EditNotAlone",
        "endorsed by 1",
        ": Done",
        ": NotYet",
        ": Already",
    ] {
        assert!(seen.contains(word), "no program ever saw `{word}`");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f14_race_decides() {
    let mut left = figure("F14", 2_000);
    let rounds = left;
    while left > 0 {
        // Use a new store now and then, because finished approvals take up memory.
        let now = left.min(10_000);
        race::race_decides(&fixture().await.store, 64, now).await;
        left -= now;
    }
    println!("F14 memory rounds={rounds} violations=0 tasks=64");
}

/// Returns the number of rounds for a fault: the value of `COUNTERSIGN_TEST_` plus the fault's id, or `usual`.
fn figure(fault: &str, usual: usize) -> usize {
    match std::env::var(format!("COUNTERSIGN_TEST_{fault}")) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => usual,
    }
}

/// Rounds per pair on one store.
const ROUNDS: usize = 400;

fn add(all: &mut race::RaceCounts, more: race::RaceCounts) {
    for (pair, (count, first)) in more {
        let sum = all.entry(pair).or_default();
        *sum = (sum.0 + count, sum.1 + first);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f15_race_all_pairs_and_all_claims() {
    let mut seen = race::RaceCounts::new();
    // Sixteen pairs on each store.
    let stores = figure("F15", ROUNDS * 16).div_ceil(ROUNDS * 16);
    for _ in 0..stores {
        // A fresh store each time, because finished approvals use memory.
        let fixture = fixture().await;
        add(&mut seen, race::race_all_pairs(&fixture, ROUNDS).await);
        add(&mut seen, race::race_all_claims(&fixture, ROUNDS).await);
    }
    assert_eq!(seen.len(), 16);
    // A quarter of the rounds is forced into each order.
    let least = stores * ROUNDS / 4;
    for (pair, (count, first)) in &seen {
        assert!(
            *first >= least && count - first >= least,
            "{pair}: {first} of {count}"
        );
    }
    let rounds: usize = seen.values().map(|(count, _)| count).sum();
    println!("F15 memory rounds={rounds} violations=0 least_of_an_order={least}");
}

#[tokio::test]
async fn f13_requests_come_three_times_and_out_of_order() {
    let (mut requests, mut effects) = (0, 0);
    const REQUESTS: usize = 6_300;
    let stores = figure("F13", REQUESTS).div_ceil(REQUESTS);
    for seed in 0..stores as u64 {
        let resent = super::resend::resend(&fixture().await, REQUESTS as u64, seed).await;
        let seen = [resent.effects, resent.denied, resent.given_up];
        assert!(seen.iter().all(|count| *count > 0), "seed {seed}: {resent:?}");
        requests += resent.requests;
        effects += resent.effects;
    }
    println!("F13 memory requests={requests} violations=0 effects={effects}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn i2_race_starts() {
    race::race_starts(&fixture().await.store, 64, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a17_race_undos() {
    race::race_undos(&fixture().await.store, 8, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a4_race_proposals() {
    race::race_proposals(&fixture().await.store, 32, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn quorum_race() {
    race::race_quorums(&fixture().await.store, 16, 100, 3).await;
}
