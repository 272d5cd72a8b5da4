//! The process that is killed: this test binary, started again.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use countersign::store::StoreError;
use countersign::time::Time;
use countersign_store::sqlite::{SqliteOptions, SqliteStore};

use super::halt::{HaltPoint, HaltingClock, HaltingStore};
use crate::database::open_sqlite;
use crate::layer::Layered;
use crate::workload::TestClient;

/// Pause after which the idle writer has checkpointed the WAL.
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

#[tokio::test]
#[ignore = "the other half of the tests in `kill`"]
async fn works_until_it_is_killed() {
    let Some(folder) = setting("FOLDER").map(PathBuf::from) else {
        return;
    };
    let halt = Arc::new(HaltPoint::new(setting("POINT").unwrap(), number("PASSES")));
    let begin = Time::from_micros(i64::try_from(number("CLOCK")).unwrap());
    let clock = Arc::new(HaltingClock::starting_at(begin));
    let store = open_sqlite(&folder.join("store.db"), clock.clone());
    let store = Arc::new(Layered(HaltingStore {
        store,
        clock: clock.clone(),
        halt: halt.clone(),
    }));
    say("open");
    let effects = folder.join("effects");
    let effect = move |call| {
        halt.reached("before effect");
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&effects)
            .unwrap();
        file.write_all(format!("{call}\n").as_bytes()).unwrap();
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
    let begin = Time::from_micros(i64::try_from(number("CLOCK")).unwrap());
    let clock = Arc::new(HaltingClock::starting_at(begin));
    let options = SqliteOptions {
        clock: Some(clock),
        ..SqliteOptions::default()
    };
    let store = Arc::new(SqliteStore::open(folder.join("store.db"), options).unwrap());
    let effects = folder.join("effects");
    let effect = move |call| {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&effects)
            .unwrap();
        file.write_all(format!("{call}\n").as_bytes()).unwrap();
    };
    let client = TestClient::new(
        store.clone(),
        Arc::new(|ack| say(&ack.to_string())),
        Arc::new(effect),
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
