//! The one who is killed: this test binary again, as another process.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use countersign::store::StoreError;
use countersign::time::Time;

use super::halt::{Halt, Halting, HaltingClock};
use crate::database::open_sqlite;
use crate::layer::Layered;
use crate::life::Living;

/// Begins what the child says.
pub const MARK: &str = "@@ ";

/// Says something to the parent. It is in the pipe before this returns.
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
    let halt = Arc::new(Halt::new(setting("POINT").unwrap(), number("PASSES")));
    let begin = Time::from_micros(i64::try_from(number("CLOCK")).unwrap());
    let clock = Arc::new(HaltingClock::starting_at(begin));
    let store = open_sqlite(&folder.join("store.db"), clock.clone());
    let store = Arc::new(Layered(Halting {
        store,
        clock,
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
    let living = Living::new(store, Arc::new(|ack| say(&ack.to_string())), Arc::new(effect));
    tolerate(living.resume().await);
    for life in 0..number("LIVES") {
        tolerate(living.live(life).await);
    }
    say("over");
}

/// With several processes on one file, a slow disk can make one wait for too long. Nothing was written then.
fn tolerate(result: Result<(), StoreError>) {
    match result {
        Ok(()) | Err(StoreError::Busy(_)) => {}
        Err(error) => panic!("{error}"),
    }
}
