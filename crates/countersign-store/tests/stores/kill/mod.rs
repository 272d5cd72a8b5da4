//! kill -9 of processes that use a SQLite file: at every step, at random, and one among several.
//!
//! A child (`child`) lives whole lives and says on its standard output what was acknowledged. When it is dead, the
//! parent opens the file and compares. `COUNTERSIGN_TEST_KILLS` multiplies the kills, for a longer run.

mod child;
mod halt;
mod look;

use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use countersign::id::CallId;
use countersign::store::{Filter, Store};
use countersign::time::{Clock, ManualClock, SystemClock};
use tempfile::TempDir;

use crate::database::open_sqlite;
use crate::life::{Ack, Living, check, check_sweep, everything};
use crate::programs::from_environment;
use child::MARK;
use halt::POINTS;

/// Longer than anything in a life waits for.
const HOUR: Duration = Duration::from_secs(3600);
/// How many children may have worked on something before it is swept away.
const GENERATION: usize = 5;

/// A file, and all that was ever acknowledged or done with it.
struct Grave {
    folder: TempDir,
    /// Where the clock of the file stands: each generation lives an hour after the one before.
    clock: Arc<ManualClock>,
    acks: Vec<Ack>,
    /// How many of them belong to generations that were swept.
    swept: usize,
    deaths: usize,
    random: u64,
}

impl Grave {
    fn new(seed: u64) -> Grave {
        Grave {
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::at(SystemClock::default().now())),
            acks: Vec::new(),
            swept: 0,
            deaths: 0,
            random: seed,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    /// A random number below `limit` (splitmix64).
    fn random(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }

    fn child(&self, lives: u64, point: &str, passes: u64) -> Working {
        let clock = self.clock.now().as_micros().to_string();
        spawn(
            "kill::child::works_until_it_is_killed",
            self.folder.path(),
            |command| {
                command
                    .env("COUNTERSIGN_TEST_KILL_CLOCK", clock)
                    .env("COUNTERSIGN_TEST_KILL_LIVES", lives.to_string())
                    .env("COUNTERSIGN_TEST_KILL_POINT", point)
                    .env("COUNTERSIGN_TEST_KILL_PASSES", passes.to_string());
            },
        )
    }

    fn effects(&self) -> Vec<CallId> {
        let text = std::fs::read_to_string(self.folder.path().join("effects")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Takes in what the dead one said, and compares it with what is in the file.
    fn bury(&mut self, said: Vec<Ack>) {
        self.deaths += 1;
        self.acks.extend(said);
        let over = self.deaths.is_multiple_of(GENERATION);
        let recent = &self.acks[self.swept..];
        let approvals: std::collections::HashSet<_> = recent.iter().map(Ack::approval).collect();
        let mut effects = self.effects();
        effects.retain(|call| approvals.contains(&call.approval));
        runtime().block_on(async {
            let store = open_sqlite(&self.path(), self.clock.clone());
            check(&*store, recent, &effects).await;
            if over {
                let filter = Filter {
                    limit: Some(500),
                    ..Filter::default()
                };
                let tenant = countersign::id::Tenant::single();
                let newest = store.list(&tenant, &filter).await.unwrap();
                self.clock.advance(HOUR);
                check_sweep(&living(store).gate, &newest).await;
            }
        });
        if over {
            self.swept = self.acks.len();
        }
    }

    /// Looks at everything once more.
    fn close(self, least_deaths: usize) {
        let effects = self.effects();
        runtime().block_on(async {
            let store = open_sqlite(&self.path(), self.clock.clone());
            let all = everything(&*store).await;
            self.clock.advance(HOUR);
            check_sweep(&living(store.clone()).gate, &all).await;
            check(&*store, &self.acks, &effects).await;
        });
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        let verdict: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(verdict, "ok");
        assert!(self.deaths >= least_deaths, "{} deaths", self.deaths);
        assert!(self.acks.len() > self.deaths, "hardly anything was acknowledged");
        assert!(effects.len() > self.deaths / 4, "hardly anything had an effect");
    }
}

fn living(store: Arc<dyn Store>) -> Living {
    Living::new(
        store,
        Arc::new(|_| {}),
        Arc::new(|call| panic!("call {call} runs again")),
    )
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// This test binary again, as a process of its own that runs one ignored test in a folder.
fn spawn(test: &str, folder: &Path, settings: impl FnOnce(&mut Command)) -> Working {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("COUNTERSIGN_TEST_KILL_FOLDER", folder)
        .stdout(Stdio::piped());
    settings(&mut command);
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    Working { child, output }
}

/// A child that lives.
struct Working {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Working {
    /// Reads on until it says this; gives what was acknowledged on the way.
    fn until(&mut self, word: &str) -> Vec<Ack> {
        let mut acks = Vec::new();
        loop {
            let said = self.next();
            if said == word {
                return acks;
            }
            acks.extend(said.parse::<Ack>());
        }
    }

    /// Reads so many acknowledgements.
    fn more(&mut self, count: u64) -> Vec<Ack> {
        (0..count)
            .map(|_| self.next().parse().expect("an acknowledgement"))
            .collect()
    }

    fn next(&mut self) -> String {
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap() > 0 {
            if let Some(said) = said(&line) {
                return said.to_owned();
            }
            line.clear();
        }
        panic!("the child ended too early");
    }

    /// Waits until it has done everything.
    fn end(mut self) -> Vec<Ack> {
        let acks = self.until("over");
        assert!(self.child.wait().unwrap().success());
        acks
    }

    /// kill -9; gives what it had said before.
    fn kill(mut self) -> Vec<Ack> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest.lines().filter_map(|line| said(line)?.parse().ok()).collect()
    }
}

/// The test harness says things too, also in the middle of a line.
fn said(line: &str) -> Option<&str> {
    line.split_once(MARK).map(|(_, said)| said.trim_end())
}

fn times(kills: usize) -> usize {
    kills * from_environment::<usize>("COUNTERSIGN_TEST_KILLS", 1)
}

#[test]
fn f01_kill_at_every_step_on_sqlite() {
    let mut grave = Grave::new(1);
    let rounds = times(9);
    for round in 0..rounds {
        for point in POINTS {
            let mut child = grave.child(12, point, round as u64 % 3);
            let mut said = child.until(&format!("at {point}"));
            said.extend(child.kill());
            grave.bury(said);
        }
    }
    grave.close(rounds * POINTS.len());
}

#[test]
fn f03_kill_at_random_on_sqlite() {
    let mut grave = Grave::new(2);
    let rounds = times(80);
    for round in 0..rounds {
        let mut child = grave.child(10_000, "", 0);
        let mut said = Vec::new();
        // Some die while they open the file.
        if round % 8 != 0 {
            said.extend(child.until("open"));
            said.extend(child.more(grave.random(10)));
        }
        let delay = grave.random(10_000);
        std::thread::sleep(Duration::from_micros(delay));
        said.extend(child.kill());
        grave.bury(said);
    }
    grave.close(rounds);
}

#[test]
fn f03_kill_of_one_among_three_on_sqlite() {
    let mut grave = Grave::new(3);
    let rounds = times(15);
    for _ in 0..rounds {
        let mut children: Vec<Working> = (0..3).map(|_| grave.child(8, "", 0)).collect();
        let victim = grave.random(3) as usize;
        let mut victim = children.swap_remove(victim);
        let mut said = victim.until("open");
        said.extend(victim.more(grave.random(10)));
        let delay = grave.random(10_000);
        std::thread::sleep(Duration::from_micros(delay));
        said.extend(victim.kill());
        // The others do not even notice.
        for child in children {
            said.extend(child.end());
        }
        grave.bury(said);
    }
    grave.close(rounds);
}

/// K14: a file half made is made by the next.
#[test]
fn f01_kill_while_the_file_is_made_on_sqlite() {
    let mut grave = Grave::new(4);
    let rounds = times(20);
    for _ in 0..rounds {
        let child = grave.child(0, "", 0);
        let delay = grave.random(25_000);
        std::thread::sleep(Duration::from_micros(delay));
        assert_eq!(child.kill(), []);
        drop(open_sqlite(&grave.path(), grave.clock.clone()));
        grave.folder = tempfile::tempdir().unwrap();
    }
}
