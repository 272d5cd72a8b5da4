//! kill -9 of processes that use a SQLite file: at every step, at random, and one among several. For PostgreSQL see
//! `postgres`.
//!
//! A child process (`child`) runs whole approvals and prints what was acknowledged. Once it is dead, the parent opens
//! the file and compares. `COUNTERSIGN_TEST_F01=10500` sets the number of kills of F01, and so on.

mod child;
mod halt;
mod postgres;
mod snapshot;

use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use countersign::id::CallId;
use countersign::store::{Filter, Store};
use countersign::time::{Clock, ManualClock, SystemClock};
use tempfile::TempDir;

use crate::client::{Ack, TestClient};
use crate::database::open_sqlite;
use crate::faults::report;
use crate::figures::rounds;
use crate::workload::{all_approvals, check, check_sweep};
use child::MARK;
use halt::POINTS;

/// Longer than any deadline of a test approval.
const HOUR: Duration = Duration::from_secs(3600);
/// Number of kills after which all open approvals are swept.
const GENERATION: usize = 5;

/// A store file, with everything that was ever acknowledged or run on it.
struct KillHistory {
    folder: TempDir,
    /// Clock of the file. Each generation runs an hour after the one before.
    clock: Arc<ManualClock>,
    acks: Vec<Ack>,
    /// Number of acknowledgements in `acks` from generations that were swept.
    swept: usize,
    deaths: usize,
    random: u64,
}

impl KillHistory {
    fn new(seed: u64) -> KillHistory {
        KillHistory {
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

    /// Returns a random number below `limit` (splitmix64).
    fn random(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }

    fn child(&self, lives: u64, point: &str, passes: u64) -> ChildProcess {
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

    fn backing_up(&self) -> ChildProcess {
        let clock = self.clock.now().as_micros().to_string();
        spawn(
            "kill::child::backs_up_until_it_is_killed",
            self.folder.path(),
            |command| {
                command.env("COUNTERSIGN_TEST_KILL_CLOCK", clock);
            },
        )
    }

    /// Checks that every backup under its final name is complete; interrupted ones have another name.
    fn check_copies(&self) {
        let entries = self.folder.path().read_dir().unwrap().flatten();
        let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
        let copies: Vec<(String, PathBuf)> = named.filter(|(name, _)| name.starts_with("copy-")).collect();
        for (name, path) in copies.iter().filter(|(name, _)| !name.contains('.')) {
            countersign_store::sqlite::check_backup(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        for (_, path) in copies {
            std::fs::remove_file(path).unwrap();
        }
    }

    fn effects(&self) -> Vec<CallId> {
        let text = std::fs::read_to_string(self.folder.path().join("effects")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Adds the acknowledgements of a killed child, and compares them with the file.
    fn verify_after_kill(&mut self, acks: Vec<Ack>) {
        self.deaths += 1;
        self.acks.extend(acks);
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
                check_sweep(&client(store).gate, &newest).await;
            }
        });
        if over {
            self.swept = self.acks.len();
        }
    }

    /// Checks everything once more, and that there were at least `least_deaths` kills.
    fn close(self, least_deaths: usize) {
        let effects = self.effects();
        runtime().block_on(async {
            let store = open_sqlite(&self.path(), self.clock.clone());
            let all = all_approvals(&*store).await;
            self.clock.advance(HOUR);
            check_sweep(&client(store.clone()).gate, &all).await;
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

/// Number of store files that are worked on at the same time. A round mostly waits for processes and for the disk.
const FILES: usize = 3;

/// Runs `rounds` rounds of `kills` kills each, spread over several store files in parallel, and checks each file at the
/// end.
fn kill_in_parallel(seed: u64, rounds: usize, kills: usize, kill: impl Fn(&mut KillHistory, usize) + Sync) {
    let of_file = |file: usize| (file..rounds).step_by(FILES);
    std::thread::scope(|scope| {
        for file in 0..FILES {
            let kill = &kill;
            scope.spawn(move || {
                let mut history = KillHistory::new(seed + 100 * file as u64);
                for round in of_file(file) {
                    kill(&mut history, round);
                }
                history.close(of_file(file).count() * kills);
            });
        }
    });
}

fn client(store: Arc<dyn Store>) -> TestClient {
    TestClient::new(
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

/// Starts this test binary again as a process that runs one ignored test in a folder.
fn spawn(test: &str, folder: &Path, settings: impl FnOnce(&mut Command)) -> ChildProcess {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("COUNTERSIGN_TEST_KILL_FOLDER", folder)
        .stdout(Stdio::piped());
    settings(&mut command);
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    ChildProcess { child, output }
}

struct ChildProcess {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl ChildProcess {
    /// Reads until the child prints this word, and returns the acknowledgements on the way.
    fn until(&mut self, word: &str) -> Vec<Ack> {
        let mut acks = Vec::new();
        loop {
            let message = self.next();
            if message == word {
                return acks;
            }
            acks.extend(message.parse::<Ack>());
        }
    }

    /// Reads `count` acknowledgements.
    fn read_acks(&mut self, count: u64) -> Vec<Ack> {
        (0..count)
            .map(|_| self.next().parse().expect("an acknowledgement"))
            .collect()
    }

    fn next(&mut self) -> String {
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap() > 0 {
            if let Some(message) = child_message(&line) {
                return message.to_owned();
            }
            line.clear();
        }
        panic!("the child ended too early");
    }

    /// Waits until the child has finished.
    fn end(mut self) -> Vec<Ack> {
        let acks = self.until("over");
        assert!(self.child.wait().unwrap().success());
        acks
    }

    /// Kills the child with SIGKILL, and returns what it printed before.
    fn kill(mut self) -> Vec<Ack> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest.lines()
            .filter_map(|line| child_message(line)?.parse().ok())
            .collect()
    }
}

/// Returns the child's message in a line of output; the test harness prints too, even in the middle of a line.
fn child_message(line: &str) -> Option<&str> {
    line.split_once(MARK).map(|(_, message)| message.trim_end())
}

#[test]
fn f01_kill_at_every_step_on_sqlite() {
    // Each round kills once at each point.
    let rounds = rounds("F01", 9 * POINTS.len()).div_ceil(POINTS.len());
    kill_in_parallel(1, rounds, POINTS.len(), |history, round| {
        for point in POINTS {
            let mut child = history.child(12, point, round as u64 % 3);
            let mut acks = child.until(&format!("at {point}"));
            acks.extend(child.kill());
            history.verify_after_kill(acks);
        }
    });
    report("F01", "sqlite", rounds * POINTS.len());
}

/// K15: kills during a backup and during a checkpoint.
#[test]
fn f01_kill_during_backup_and_checkpoint_on_sqlite() {
    let kills = rounds("F01", 16);
    kill_in_parallel(5, kills, 1, |history, _| {
        let mut child = history.backing_up();
        let mut acks = child.until("open");
        let delay = history.random(900_000);
        std::thread::sleep(Duration::from_micros(delay));
        acks.extend(child.kill());
        history.verify_after_kill(acks);
        history.check_copies();
    });
    report("F01-K15", "sqlite", kills);
}

#[test]
fn f03_kill_at_random_on_sqlite() {
    let rounds = rounds("F03", 80);
    kill_in_parallel(2, rounds, 1, |history, round| {
        let mut child = history.child(10_000, "", 0);
        let mut acks = Vec::new();
        // Some are killed while they open the file.
        if round % 8 != 0 {
            acks.extend(child.until("open"));
            acks.extend(child.read_acks(history.random(10)));
        }
        let delay = history.random(10_000);
        std::thread::sleep(Duration::from_micros(delay));
        acks.extend(child.kill());
        history.verify_after_kill(acks);
    });
    report("F03", "sqlite", rounds);
}

#[test]
fn f03_kill_of_one_among_three_on_sqlite() {
    let rounds = rounds("F03", 15);
    kill_in_parallel(3, rounds, 1, |history, _| {
        let mut children: Vec<ChildProcess> = (0..3).map(|_| history.child(8, "", 0)).collect();
        let victim = history.random(3) as usize;
        let mut victim = children.swap_remove(victim);
        let mut acks = victim.until("open");
        acks.extend(victim.read_acks(history.random(10)));
        let delay = history.random(10_000);
        std::thread::sleep(Duration::from_micros(delay));
        acks.extend(victim.kill());
        // The others continue undisturbed.
        for child in children {
            acks.extend(child.end());
        }
        history.verify_after_kill(acks);
    });
    report("F03", "sqlite-three", rounds);
}

/// K14: the next process completes a file whose creation was interrupted by a kill.
#[test]
fn f01_kill_while_the_file_is_made_on_sqlite() {
    let mut history = KillHistory::new(4);
    let rounds = rounds("F01", 20);
    for _ in 0..rounds {
        let child = history.child(0, "", 0);
        let delay = history.random(25_000);
        std::thread::sleep(Duration::from_micros(delay));
        assert_eq!(child.kill(), []);
        drop(open_sqlite(&history.path(), history.clock.clone()));
        history.folder = tempfile::tempdir().unwrap();
    }
    report("F01-K14", "sqlite", rounds);
}
