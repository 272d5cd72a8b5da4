//! Benchmarks of the SQLite store: `cargo bench -p countersign-store --bench sqlite -- FOLDER SECONDS`.
//!
//! Prints one line per measurement. Run it under `strace -f -c -e fsync,fdatasync` with `-- FOLDER SECONDS cycle
//! CALLERS` to count syncs per approval. `-- FOLDER 0 audit COUNT` creates COUNT approvals, audits them, and measures
//! the migration that builds the log of an older file.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a program for people who measure"
)]

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign::id::Tenant;
use countersign::store::{Audit, Filter, Store};
use countersign_store::sqlite::{SqliteOptions, SqliteStore, audit_file};

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let word = |place: usize| words.get(place).map(String::as_str);
    let folder = tempfile::tempdir_in(word(0).unwrap_or(".")).expect("a folder");
    let seconds = word(1).and_then(|word| word.parse().ok()).unwrap_or(1.0);
    let duration = Duration::from_secs_f64(seconds);
    let callers = word(3).and_then(|word| word.parse().ok());
    match (word(2), callers) {
        (Some("propose"), Some(callers)) => load(folder.path(), "propose", callers, duration).await,
        (Some("audit"), Some(count)) => audit(folder.path(), count).await,
        (Some("cycle"), Some(callers)) => load(folder.path(), "cycle", callers, duration).await,
        _ => {
            for callers in [1, 64] {
                load(folder.path(), "propose", callers, duration).await;
                load(folder.path(), "cycle", callers, duration).await;
            }
            size(folder.path(), 5_000).await;
            reads(folder.path()).await;
        }
    }
}

fn store(folder: &Path, name: &str) -> Arc<SqliteStore> {
    let path = folder.join(name);
    Arc::new(SqliteStore::open(path, SqliteOptions::default()).expect("a store"))
}

/// Runs `callers` concurrent callers, each with one write in flight.
async fn load(folder: &Path, what: &'static str, callers: usize, duration: Duration) {
    let store = store(folder, &format!("{what}-{callers}.db"));
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut done = 0usize;
                while start.elapsed() < duration {
                    match what {
                        "propose" => {
                            let propose = fixture::propose(fixture::new_id());
                            fixture::proposed(&*store, propose).await.expect("a proposal");
                        }
                        _ => fixture::whole(&*store).await.expect("an approval"),
                    }
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.expect("a caller");
    }
    let per_second = done as f64 / start.elapsed().as_secs_f64();
    println!("{what}, {callers} callers: {done} done, {per_second:.0}/s");
    store.close().await;
    check_kept(folder, &format!("{what}-{callers}.db"), what, done);
}

/// Checks that the file holds exactly what was acknowledged; otherwise the figure does not count.
fn check_kept(folder: &Path, name: &str, what: &str, done: usize) {
    let file = rusqlite::Connection::open(folder.join(name)).expect("the file");
    let count = |sql: &str| {
        file.query_row(sql, [], |row| row.get::<_, i64>(0))
            .expect("a count")
    };
    let (state, events) = match what {
        "propose" => (0, 1),
        _ => (4, 4),
    };
    let done = i64::try_from(done).expect("a number");
    assert_eq!(count("SELECT count(*) FROM approval"), done, "approvals");
    assert_eq!(
        count(&format!("SELECT count(*) FROM call WHERE state = {state}")),
        done,
        "calls"
    );
    assert_eq!(count("SELECT count(*) FROM event"), done * events, "events");
}

/// Measures the audit of a file, and the migration that builds the log of an older one.
async fn audit(folder: &Path, count: usize) {
    fill(folder, count).await;
    let path = folder.join("size.db");
    for _ in 0..3 {
        let start = Instant::now();
        let audited = audit_file(&path, &Audit::default(), &|_| ())
            .await
            .expect("an audit");
        assert!(audited.is_sound(), "{:?}", audited.faults);
        assert_eq!(audited.approvals, count as u64, "approvals");
        let (seconds, events) = (start.elapsed().as_secs_f64(), audited.events);
        let per_second = count as f64 / seconds;
        println!("audit: {count} approvals with {events} events in {seconds:.2} s, {per_second:.0}/s");
    }
    let file = rusqlite::Connection::open(&path).expect("the file");
    file.execute_batch(
        "ALTER TABLE event DROP COLUMN content; DROP TABLE log; DELETE FROM migration WHERE version = 4;
         PRAGMA user_version = 3",
    )
    .expect("an older file");
    drop(file);
    let start = Instant::now();
    store(folder, "size.db").close().await;
    println!("migration: {:?}", start.elapsed());
}

async fn size(folder: &Path, count: usize) {
    fill(folder, count).await;
    let bytes = std::fs::metadata(folder.join("size.db")).expect("the file").len();
    println!("size: {} bytes per finished approval", bytes / count as u64);
}

/// Creates a file with `count` finished approvals.
async fn fill(folder: &Path, count: usize) {
    let store = store(folder, "size.db");
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..count / 50 {
                    fixture::whole(&*store).await.expect("an approval");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a caller");
    }
    store.close().await;
}

async fn reads(folder: &Path) {
    let store = store(folder, "size.db");
    let tenant = Tenant::single();
    let id = fixture::new_id();
    fixture::proposed(&*store, fixture::propose(id))
        .await
        .expect("a proposal");
    for (name, rounds) in [("approval", 5_000u32), ("list pending", 2_000)] {
        let start = Instant::now();
        for _ in 0..rounds {
            match name {
                "approval" => _ = store.approval(&tenant, id).await.expect("an approval"),
                _ => _ = store.list(&tenant, &Filter::pending()).await.expect("a list"),
            }
        }
        println!("{name}: {:?} each", start.elapsed() / rounds);
    }
    store.close().await;
}
