//! The memory store runs the whole suite.

use std::sync::Arc;

use proptest::strategy::{Strategy, ValueTree};

use super::{Fixture, race};
use crate::store::memory::MemoryStore;

async fn fixture() -> Fixture {
    let clock = Fixture::clock();
    Fixture::new(Arc::new(MemoryStore::with_clock(clock.clone())), clock)
}

crate::conformance!(fixture);

/// A case that nobody listed would prove nothing.
#[test]
fn every_case_is_listed_once() {
    let files = [
        include_str!("cases/authority.rs"),
        include_str!("cases/decisions.rs"),
        include_str!("cases/edits.rs"),
        include_str!("cases/entries.rs"),
        include_str!("cases/proposals.rs"),
        include_str!("cases/reads.rs"),
        include_str!("cases/retention.rs"),
        include_str!("cases/runs.rs"),
        include_str!("cases/tenants.rs"),
        include_str!("cases/time.rs"),
        include_str!("cases/undos.rs"),
        include_str!("cases/waiting.rs"),
    ];
    let list = include_str!("../suite.rs");
    let written = files.iter().flat_map(|file| file.lines());
    let names = written.filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
    let mut count = 0;
    for name in names {
        count += 1;
        let listed = list.lines().filter(|line| line.trim() == format!("{name},"));
        assert_eq!(listed.count(), 1, "case `{name}`");
    }
    assert!(count >= 60, "{count}");
}

#[test]
fn i1_to_i15_hold_for_random_programs() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fixture = runtime.block_on(fixture());
    super::program::explore(&runtime, &[&fixture], 2_000, 1);
}

/// A generator that never gets anywhere would prove nothing.
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
        "Kept(2)",
        ": Changed",
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
    race::race_decides(&fixture().await.store, 64, 2_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn x38_race_all_pairs() {
    let seen = race::race_all_pairs(&fixture().await, 400).await;
    assert_eq!(seen.len(), 10);
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
