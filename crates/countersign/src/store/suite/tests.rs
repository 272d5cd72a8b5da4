//! The memory store runs the whole suite.

use std::sync::Arc;

use super::Fixture;
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
        include_str!("cases/decisions.rs"),
        include_str!("cases/edits.rs"),
        include_str!("cases/proposals.rs"),
        include_str!("cases/reads.rs"),
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
    super::program::explore(&runtime, &[&fixture], 2_000);
}
