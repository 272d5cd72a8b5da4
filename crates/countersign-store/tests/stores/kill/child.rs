//! The process that is killed: this test binary, started again.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use countersign::id::CallId;
use countersign::store::{Store, StoreError};
use countersign::time::Time;
use countersign_store::sqlite::{SqliteOptions, SqliteStore};

use super::halt::{HaltPoint, HaltingClock, HaltingStore};
use crate::client::TestClient;
use crate::database::open_sqlite;
use crate::layer::Layered;

/// Pause after which an idle writer has certainly checkpointed the WAL.
const MOVED_AFTER: Duration = Duration::from_millis(300);

/// Prefix of the child's messages.
pub const MARK: &str = "@@ ";

/// Sends a message to the parent. It is in the pipe before this returns.
pub fn say(text: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{MARK}{text}").unwrap();
    output.flush().unwrap();
}

pub fn setting(name: &str) -> Option<String> {
    std::env::var(format!("COUNTERSIGN_TEST_KILL_{name}")).ok()
}

pub fn number(name: &str) -> u64 {
    setting(name).unwrap().parse().unwrap()
}

fn clock() -> Arc<HaltingClock> {
    let begin = Time::from_micros(i64::try_from(number("CLOCK")).unwrap());
    Arc::new(HaltingClock::starting_at(begin))
}

/// Opens the store in the child's folder, with a clock. The store stops the process at the point that the parent named.
pub fn open_halting(folder: &Path) -> (Arc<dyn Store>, Arc<HaltingClock>, Arc<HaltPoint>) {
    let halt = Arc::new(HaltPoint::new(setting("POINT").unwrap(), number("PASSES")));
    let clock = clock();
    let store = Layered(HaltingStore {
        store: open_sqlite(&folder.join("store.db"), clock.clone()),
        clock: clock.clone(),
        halt: halt.clone(),
    });
    (Arc::new(store), clock, halt)
}

/// Appends a line about an effect to the file that the parent reads.
pub fn write_effect(folder: &Path, line: &str) {
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).open(folder.join("effects"));
    file.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
}

#[tokio::test]
#[ignore = "the other half of the tests in `kill`"]
async fn works_until_it_is_killed() {
    let Some(folder) = setting("FOLDER").map(PathBuf::from) else {
        return;
    };
    let (store, clock, halt) = open_halting(&folder);
    say("open");
    let effect = move |call: CallId| {
        halt.reached("before effect");
        write_effect(&folder, &call.to_string());
        halt.reached("after effect");
    };
    let client = TestClient::new(store, Arc::new(|ack| say(&ack.to_string())), Arc::new(effect));
    tolerate(client.resume().await);
    for life in 0..number("LIVES") {
        tolerate(client.run_one(life).await);
        // The approval left alone has expired by now.
        clock.advance(Duration::from_secs(2));
        tolerate(client.gate.expire_due().await.map(drop));
    }
    say("over");
}

#[tokio::test]
#[ignore = "the other half of the tests in `kill`"]
async fn backs_up_until_it_is_killed() {
    let Some(folder) = setting("FOLDER").map(PathBuf::from) else {
        return;
    };
    let options = SqliteOptions {
        clock: Some(clock()),
        ..SqliteOptions::default()
    };
    let store = Arc::new(SqliteStore::open(folder.join("store.db"), options).unwrap());
    let effects = folder.clone();
    let client = TestClient::new(
        store.clone(),
        Arc::new(|ack| say(&ack.to_string())),
        Arc::new(move |call| write_effect(&effects, &call.to_string())),
    );
    say("open");
    tolerate(client.resume().await);
    for round in 0.. {
        // Enough commands for the WAL to be checkpointed in the pause that follows.
        for life in 0..12 {
            tolerate(client.run_one(life).await);
        }
        let copy = folder.join(format!("copy-{}-{round}", std::process::id()));
        let (made, ()) = tokio::join!(store.backup_to(copy), tokio::time::sleep(MOVED_AFTER));
        made.unwrap();
    }
}

/// Ignores `Busy`: with several processes on a slow disk one may wait too long, and then nothing was written.
fn tolerate(result: Result<(), StoreError>) {
    match result {
        Ok(()) | Err(StoreError::Busy(_)) => {}
        Err(error) => panic!("{error}"),
    }
}
