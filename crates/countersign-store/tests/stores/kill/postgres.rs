//! F02: kill -9 of one of three nodes on PostgreSQL, at every step. The other two run in this process and continue.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::command::{Answer, Command};
use countersign::id::CallId;
use countersign::store::{Store, StoreError, Stored};
use countersign::time::{Clock, SystemClock, Time};
use countersign_store::postgres::{PostgresOptions, PostgresStore};
use futures_util::FutureExt as _;
use tempfile::TempDir;

use super::child::{number, say, setting};
use super::halt::{HaltPoint, POINTS, name_in_points, stop};
use super::{ChildProcess, spawn};
use crate::client::TestClient;
use crate::database::{Database, connect, run};
use crate::figures::{report, rounds};
use crate::kill_server::{Node, Records, check_end};
use crate::layer::{Layer, Layered};
use crate::workload::check;

/// The system clock, which can block its caller at a given point. A lane reads it while it holds its locks.
struct HaltingClock {
    clock: SystemClock,
    stops_at: Mutex<Option<String>>,
}

impl Clock for HaltingClock {
    fn now(&self) -> Time {
        if let Some(point) = self.stops_at.lock().unwrap().take() {
            stop(&point);
        }
        self.clock.now()
    }
}

/// Store wrapper that stops around and within commands.
struct HaltingStore {
    store: PostgresStore,
    clock: Arc<HaltingClock>,
    halt: Arc<HaltPoint>,
    /// Time after which the process stops if it is to be killed in the middle of a command.
    delay: Duration,
}

impl Layer for HaltingStore {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn write(&self, command: Command) -> Stored<'_, Answer> {
        let Some(name) = name_in_points(&command) else {
            return self.store.write(command);
        };
        async move {
            self.halt.reached(&format!("before {name}"));
            let (locked, within) = (format!("locked {name}"), format!("within {name}"));
            if self.halt.is_here(&locked) {
                *self.clock.stops_at.lock().unwrap() = Some(locked);
            }
            if self.halt.is_here(&within) {
                let _ = tokio::time::timeout(self.delay, self.store.write(command)).await;
                stop(&within);
            }
            let answer = self.store.write(command).await;
            self.halt.reached(&format!("after {name}"));
            answer
        }
        .boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other half of the test below"]
async fn works_until_it_is_killed() {
    let (Some(folder), Some(url)) = (setting("FOLDER").map(PathBuf::from), setting("URL")) else {
        return;
    };
    let halt = Arc::new(HaltPoint::new(setting("POINT").unwrap(), number("PASSES")));
    let clock = Arc::new(HaltingClock {
        clock: SystemClock::default(),
        stops_at: Mutex::default(),
    });
    let options = PostgresOptions {
        clock: Some(clock.clone()),
        ..PostgresOptions::default()
    };
    let store = Arc::new(Layered(HaltingStore {
        store: PostgresStore::connect(&url, options).await.unwrap(),
        clock,
        halt: halt.clone(),
        delay: Duration::from_micros(number("DELAY")),
    }));
    say("open");
    let effect = move |call| {
        halt.reached("before effect");
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(folder.join("effects"));
        file.unwrap().write_all(format!("{call}\n").as_bytes()).unwrap();
        halt.reached("after effect");
    };
    let client = TestClient::new(store, Arc::new(|ack| say(&ack.to_string())), Arc::new(effect));
    for life in 0.. {
        tolerate(client.run_one(life).await);
        tolerate(client.gate.expire_due().await.map(|_| ()));
        if life % 4 == 0 {
            tolerate(client.resume().await);
        }
    }
}

/// Ignores `Busy`: others may hold a lock for too long, as a node killed during a commit does.
fn tolerate(result: Result<(), StoreError>) {
    match result {
        Ok(()) | Err(StoreError::Busy(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

fn child(folder: &Path, url: &str, point: &str, passes: u64, delay: u64) -> ChildProcess {
    let test = "kill::postgres::works_until_it_is_killed";
    spawn(test, folder, |command: &mut Process| {
        command
            .env("COUNTERSIGN_TEST_KILL_URL", url)
            .env("COUNTERSIGN_TEST_KILL_POINT", point)
            .env("COUNTERSIGN_TEST_KILL_PASSES", passes.to_string())
            .env("COUNTERSIGN_TEST_KILL_DELAY", delay.to_string());
    })
}

fn effects_in(folder: &TempDir) -> Vec<CallId> {
    let text = std::fs::read_to_string(folder.path().join("effects")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f02_kill_of_one_of_three_nodes_on_postgres() {
    let (database, folder) = (Database::new().await, tempfile::tempdir().unwrap());
    let (acks, effects, answer_log): Records = Default::default();
    let nodes = [
        Node::connect(&database.url, &acks, &effects, &answer_log).await,
        Node::connect(&database.url, &acks, &effects, &answer_log).await,
    ];
    let over = Arc::new(AtomicBool::new(false));
    let tasks = nodes.iter().map(|node| {
        let (client, over) = (node.client.clone(), over.clone());
        tokio::spawn(async move {
            for life in 0u64.. {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                // A node killed midway holds its locks until the server notices.
                let _ = client.run_one(life).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let kills = rounds("F02", POINTS.len());
    for kill in 0..kills {
        let point = POINTS[kill % POINTS.len()];
        let (passes, delay) = (kill as u64 / 26 % 3, kill as u64 * 397 % 4_000);
        let new_acks = tokio::task::block_in_place(|| {
            let mut child = child(folder.path(), &database.url, point, passes, delay);
            let mut acks = child.until(&format!("at {point}"));
            acks.extend(child.kill());
            acks
        });
        acks.lock().unwrap().extend(new_acks);
    }
    over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    let acks = acks.lock().unwrap().clone();
    let mut effects = effects.lock().unwrap().clone();
    effects.extend(effects_in(&folder));
    let store = PostgresStore::connect(&database.url, PostgresOptions::default())
        .await
        .unwrap();
    check(&store, &acks, &effects).await;
    check_end(&database.url, &effects).await;
    let details = format!(
        "nodes=3 points={} acknowledged={} effects={}",
        POINTS.len(),
        acks.len(),
        effects.len()
    );
    report("F02", "postgres", kills, &details);
}

/// K14: the next node completes a schema whose creation was interrupted by a kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f02_kill_while_the_schema_is_made_on_postgres() {
    let (database, folder) = (Database::new().await, tempfile::tempdir().unwrap());
    let admin = connect(&database.url).await;
    let rounds = rounds("F02_MIGRATION", 10);
    for round in 0..rounds as u64 {
        run(&admin, "DROP SCHEMA IF EXISTS countersign CASCADE").await;
        tokio::task::block_in_place(|| {
            let child = child(folder.path(), &database.url, "", 0, 0);
            std::thread::sleep(Duration::from_millis(20 + round * 37 % 300));
            child.kill();
        });
        let connecting = PostgresStore::connect(&database.url, PostgresOptions::default());
        drop(connecting.await.unwrap());
    }
    report("F02", "postgres-migration", rounds, "");
}
