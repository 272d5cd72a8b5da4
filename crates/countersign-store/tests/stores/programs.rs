//! Runs the same random programs on memory, SQLite and PostgreSQL, which must agree step by step.
//!
//! `COUNTERSIGN_TEST_SEED` selects other programs, `COUNTERSIGN_TEST_PROGRAMS` their number.

use std::sync::Arc;

use countersign::store::memory::MemoryStore;
use countersign::store::suite::{Fixture, program};

use crate::database::{postgres, sqlite};

const SEED: u64 = 20_261_115;
/// Number of programs for each of the eight seeds.
const PROGRAMS: u32 = 250;

pub fn from_environment<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().ok().expect("a number"),
        Err(_) => default,
    }
}

fn agree(part: u64) {
    let seed = from_environment("COUNTERSIGN_TEST_SEED", SEED).wrapping_add(part);
    let count = from_environment("COUNTERSIGN_TEST_PROGRAMS", PROGRAMS);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let clock = Fixture::clock();
    let memory = Fixture::new(Arc::new(MemoryStore::with_clock(clock.clone())), clock);
    let (sqlite, postgres) = runtime.block_on(async { (sqlite().await, postgres().await) });
    program::explore(&runtime, &[&memory, &sqlite, &postgres], count, seed);
}

/// Runs two parts of the programs at a time, because both databases mostly wait for the disk.
fn agree_on_both(parts: [u64; 2]) {
    std::thread::scope(|scope| {
        for part in parts {
            scope.spawn(move || agree(part));
        }
    });
}

#[test]
fn i1_to_i15_stores_agree_on_programs_1_and_2() {
    agree_on_both([1, 2]);
}

#[test]
fn i1_to_i15_stores_agree_on_programs_3_and_4() {
    agree_on_both([3, 4]);
}

#[test]
fn i1_to_i15_stores_agree_on_programs_5_and_6() {
    agree_on_both([5, 6]);
}

#[test]
fn i1_to_i15_stores_agree_on_programs_7_and_8() {
    agree_on_both([7, 8]);
}
