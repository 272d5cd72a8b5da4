//! F05: power loss. Every acknowledged step survives a power cut, and nothing runs twice.
//!
//! `COUNTERSIGN_TEST_F05` is the number of power cuts (5,000 for the full figure), `COUNTERSIGN_TEST_F05_SEED` the seed
//! of the first machine.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test's helpers fail by panicking, and say their seeds"
)]

mod check;
// The tests of kills use the same client.
#[path = "../../../countersign-store/tests/stores/client.rs"]
mod client;
mod life;
mod machine;

use countersign_powerloss::{Disk, Random, Sync, install};
use countersign_store::sqlite::{SqliteOptions, SqliteStore};

/// Number of rounds that CI can run.
const ROUNDS: u64 = 120;
const SEED: u64 = 20_261_117;

fn from_environment(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => default,
    }
}

#[test]
fn f05_power_loss_loses_nothing_that_was_acknowledged() {
    install();
    let rounds = from_environment("COUNTERSIGN_TEST_F05", ROUNDS);
    let seed = from_environment("COUNTERSIGN_TEST_F05_SEED", SEED);
    println!("seeds from {seed}");
    let report = machine::run(rounds, seed, Sync::AsSet);
    println!("{report:#?}");
    let control = machine::run(control_rounds(rounds), seed, Sync::Normal);
    println!(
        "F05 sqlite rounds={} violations={} control_losses={}",
        report.rounds,
        report.violations.len(),
        control.losses
    );
    assert_eq!(report.violations, []);
    // Without these checks, a harness that never cuts at critical moments would pass too.
    if rounds >= ROUNDS {
        let seen = [
            ("the WAL", report.cut_wal),
            ("the database", report.cut_database),
            ("the directory", report.cut_entries),
            ("a checkpoint", report.checkpoints),
            ("opening", report.cut_opening),
            // Only written while the database file is created.
            ("a journal", report.cut_journal + u64::from(rounds < 1_000)),
        ];
        for (what, count) in seen {
            assert!(count > rounds / 250, "hardly ever cut in {what}: {count} times");
        }
        assert!(report.acks as u64 > rounds, "hardly anything was acknowledged");
        assert!(
            report.effects as u64 > rounds / 4,
            "hardly anything had an effect"
        );
        assert!(control.losses > 0, "the harness sees no loss");
    }
}

/// Control: with `synchronous=NORMAL` the same harness must find lost acknowledged steps.
#[test]
fn f05_control_synchronous_normal_loses_what_was_acknowledged() {
    install();
    let seed = from_environment("COUNTERSIGN_TEST_F05_SEED", SEED);
    let report = machine::run(ROUNDS / 4, seed, Sync::Normal);
    println!("F05 control rounds={} losses={}", report.rounds, report.losses);
    assert!(report.losses >= report.rounds / 10, "{report:#?}");
}

/// Returns true if the journal from the store's creation survives any of many power cuts.
fn journal_comes_back(sync: Sync) -> bool {
    install();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    // A store without WAL mode, next to an old WAL file, as after a cut while the database was created. SQLite syncs
    // the directory only for a new WAL file.
    drop(SqliteStore::open(&path, SqliteOptions::default()).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
    drop(connection);
    std::fs::write(folder.path().join("store.db-wal"), "").unwrap();

    let disk = Disk::new(folder.path(), sync).unwrap();
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    disk.cut_now();
    drop(store);
    let is_back = (0..50).any(|seed| {
        let left = tempfile::tempdir().unwrap();
        disk.survivors(&mut Random::new(seed), left.path()).unwrap();
        left.path().join("store.db-journal").exists()
    });
    disk.remove();
    is_back
}

/// A journal that reappears would be rolled back into a database that has a WAL by then, and corrupt it.
#[test]
fn f05_the_journal_of_the_first_start_does_not_come_back() {
    assert!(journal_comes_back(Sync::Normal), "the control");
    assert!(!journal_comes_back(Sync::AsSet));
}

fn control_rounds(rounds: u64) -> u64 {
    (rounds / 10).max(10)
}
