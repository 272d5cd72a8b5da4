//! The same random programs on memory, SQLite and PostgreSQL, which must agree step by step.
//!
//! `COUNTERSIGN_TEST_SEED` gives other programs, `COUNTERSIGN_TEST_PROGRAMS` more of them.

use std::sync::Arc;

use countersign::store::memory::MemoryStore;
use countersign::store::suite::{Fixture, program};

use crate::database::{postgres, sqlite};

const SEED: u64 = 20_261_115;
/// In each of the eight tests, which run side by side.
const PROGRAMS: u32 = 250;

fn from_environment<T: std::str::FromStr>(name: &str, default: T) -> T {
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

macro_rules! parts {
    ($($name:ident: $part:literal,)*) => {
        $(
            #[test]
            fn $name() {
                agree($part);
            }
        )*
    };
}

parts! {
    i1_to_i15_stores_agree_on_programs_1: 1,
    i1_to_i15_stores_agree_on_programs_2: 2,
    i1_to_i15_stores_agree_on_programs_3: 3,
    i1_to_i15_stores_agree_on_programs_4: 4,
    i1_to_i15_stores_agree_on_programs_5: 5,
    i1_to_i15_stores_agree_on_programs_6: 6,
    i1_to_i15_stores_agree_on_programs_7: 7,
    i1_to_i15_stores_agree_on_programs_8: 8,
}
