//! A machine whose power is cut repeatedly.
//!
//! A seed determines the steps, the time of each cut and what survives. The order of several callers is up to the
//! scheduler, so only a seed with one caller is fully reproducible. The files after a violation are kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use countersign::store::Store;
use countersign::time::{Clock as _, ManualClock, SystemClock};
use countersign_powerloss::{Cut, Disk, Random, Sync, Tally, When};
use countersign_store::sqlite::{SqliteOptions, SqliteStore};
use futures_util::future::join_all;
use tempfile::TempDir;

use crate::check::{Violation, check, check_file};
use crate::life::{Caller, Record, recording_client};

/// Maximum number of power cuts of one machine.
const MOST_CUTS: u64 = 4;
/// Longer than the time after which an idle writer checkpoints the WAL.
const QUIET: Duration = Duration::from_millis(300);

/// Results of many rounds. A round is one power cut.
#[derive(Debug, Default)]
pub struct Report {
    pub rounds: u64,
    pub violations: Vec<(u64, Violation)>,
    /// Rounds in which an acknowledged step was lost.
    pub losses: u64,
    pub acks: usize,
    pub effects: usize,
    /// Rounds in which the power was cut with unsynced changes of the WAL; the next three fields likewise.
    pub cut_wal: u64,
    pub cut_database: u64,
    pub cut_journal: u64,
    pub cut_entries: u64,
    /// Rounds with writes to the database file, that is, with a checkpoint.
    pub checkpoints: u64,
    /// Rounds in which the power was cut before the store was open.
    pub cut_opening: u64,
}

/// Runs machines until there were `rounds` power cuts. Seeds count up from `first_seed`.
pub fn run(rounds: u64, first_seed: u64, sync: Sync) -> Report {
    let mut report = Report::default();
    let mut seed = first_seed;
    while report.rounds < rounds {
        let mut machine = Machine::new(seed, sync);
        for _ in 0..=machine.random.below(MOST_CUTS) {
            if report.rounds == rounds || !machine.round(&mut report) {
                break;
            }
        }
        machine.end(&mut report);
        seed = seed.wrapping_add(1);
    }
    report
}

/// How a machine is used before its power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// A few callers for a short time.
    Short,
    /// Like `Short`, with checkpoints from other connections, as the store makes them once the WAL has grown.
    Checkpointed,
    /// The store is closed cleanly and reopened.
    Reopened,
    /// The store gets no calls for a moment, so that it empties its WAL.
    Quiet,
    /// The store gets enough calls that it checkpoints its WAL while it is in use.
    Long,
}

struct Machine {
    seed: u64,
    sync: Sync,
    random: Random,
    folder: TempDir,
    clock: Arc<ManualClock>,
    record: Arc<Record>,
    cuts: u64,
}

impl Machine {
    fn new(seed: u64, sync: Sync) -> Machine {
        Machine {
            seed,
            sync,
            random: Random::new(seed),
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::at(SystemClock::default().now())),
            record: Arc::default(),
            cuts: 0,
        }
    }

    /// Uses the machine until its power is cut, and checks the result. Returns false if there is a violation.
    fn round(&mut self, report: &mut Report) -> bool {
        let disk = Disk::new(self.folder.path(), self.sync).unwrap();
        let cut = any_cut(&mut self.random);
        // Usually the store is open before the cut, so that there is something to lose.
        let early = self.random.one_in(if self.cuts == 0 { 2 } else { 5 });
        if early {
            disk.cut_at(cut);
        }
        let opened = runtime().block_on(self.work(&disk, (!early).then_some(cut)));
        disk.cut_now();
        report.count(disk.tally(), opened);
        self.cuts += 1;
        let left = tempfile::tempdir().unwrap();
        disk.survivors(&mut self.random, left.path()).unwrap();
        disk.remove();
        self.folder = left;
        let violations = self.look();
        let is_good = violations.is_empty();
        report.losses += u64::from(violations.iter().any(|violation| violation.starts_with("I5")));
        if !is_good && self.sync == Sync::AsSet {
            self.keep(&violations);
        }
        report
            .violations
            .extend(violations.into_iter().map(|violation| (self.seed, violation)));
        is_good
    }

    fn end(self, report: &mut Report) {
        report.acks += self.record.acks().len();
        report.effects += self.record.effects().len();
    }

    /// Runs callers until the cut, which is counted from the moment the store is open. Returns false if the power was
    /// cut before that.
    async fn work(&mut self, disk: &Disk, cut: Option<Cut>) -> bool {
        let path = self.folder.path().join("store.db");
        let Some(store) = self.open(&path) else {
            assert!(disk.is_off(), "seed {}: the store cannot be opened", self.seed);
            return false;
        };
        if let Some(cut) = cut {
            disk.cut_at(cut);
        }
        let how = any_use(&mut self.random);
        let callers = match how {
            Use::Long => 4,
            _ => 1 + self.random.below(4),
        };
        let lives = match how {
            Use::Long => 200,
            Use::Quiet => 12,
            _ => 1 + self.random.below(10),
        };
        self.call(&store, callers, lives, how == Use::Checkpointed).await;
        match how {
            Use::Quiet => tokio::time::sleep(QUIET).await,
            Use::Reopened => {
                store.close().await;
                drop(store);
                if let Some(store) = self.open(&path) {
                    self.call(&store, callers, lives, false).await;
                    store.close().await;
                }
                return true;
            }
            Use::Short | Use::Checkpointed | Use::Long => {}
        }
        // Some stores are closed cleanly, and the power is cut a moment later.
        if !self.random.one_in(4) {
            disk.cut_now();
        }
        store.close().await;
        true
    }

    async fn call(&mut self, store: &Arc<SqliteStore>, callers: u64, lives: u64, checkpointed: bool) {
        let caller = |number, random: &mut Random| Caller {
            client: recording_client(store.clone(), &self.record),
            record: self.record.clone(),
            random: Random::new(random.below(u64::MAX)),
            name: format!("{} {number}", self.cuts),
        };
        let mut random = Random::new(self.random.below(u64::MAX));
        let first = caller(0, &mut random);
        let resumes = random.one_in(2);
        let path = self.folder.path().join("store.db");
        let mut all: Vec<Caller> = (1..=callers).map(|number| caller(number, &mut random)).collect();
        let working = async {
            // After the power cut there is nothing left to do.
            if resumes && first.client.resume().await.is_err() {
                return;
            }
            let _ = join_all(all.iter_mut().map(|caller| caller.live(lives))).await;
        };
        let moving = async {
            for _ in 0..if checkpointed { 3 } else { 0 } {
                tokio::time::sleep(Duration::from_millis(random.below(20))).await;
                let mode = ["PASSIVE", "RESTART", "TRUNCATE"][random.index(3)];
                let path = path.clone();
                let _ = tokio::task::spawn_blocking(move || checkpoint(&path, mode)).await;
            }
        };
        tokio::join!(working, moving);
    }

    fn open(&self, path: &Path) -> Option<Arc<SqliteStore>> {
        let options = SqliteOptions {
            clock: Some(self.clock.clone()),
            // No other process uses the store.
            other_processes: false,
        };
        SqliteStore::open(path, options).ok().map(Arc::new)
    }

    /// Opens and checks a copy of the surviving files. The machine itself restarts from the originals, which the check
    /// has not changed.
    fn look(&self) -> Vec<Violation> {
        let copy = tempfile::tempdir().unwrap();
        copy_files(self.folder.path(), copy.path());
        let disk = Disk::new(copy.path(), self.sync).unwrap();
        let path = copy.path().join("store.db");
        let clock = Arc::new(ManualClock::at(self.clock.now()));
        let options = SqliteOptions {
            clock: Some(clock.clone()),
            other_processes: false,
        };
        let mut violations = match SqliteStore::open(&path, options) {
            Ok(store) => {
                let store: Arc<dyn Store> = Arc::new(store);
                runtime().block_on(check(store, &clock, &self.record))
            }
            Err(error) => vec![format!("I5: the store cannot be opened: {error}")],
        };
        violations.extend(check_file(&path));
        disk.remove();
        violations
    }

    fn keep(&self, violations: &[Violation]) {
        let kept: PathBuf = std::env::temp_dir().join(format!("countersign-powerloss-{}", self.seed));
        let _ = std::fs::create_dir_all(&kept);
        copy_files(self.folder.path(), &kept);
        println!(
            "seed {} cut {}: {violations:#?}\nkept in {}",
            self.seed,
            self.cuts,
            kept.display()
        );
    }
}

impl Report {
    fn count(&mut self, tally: Tally, opened: bool) {
        self.rounds += 1;
        self.cut_opening += u64::from(!opened);
        self.cut_wal += u64::from(tally.unsynced_wal > 0);
        self.cut_database += u64::from(tally.unsynced_database > 0);
        self.cut_journal += u64::from(tally.unsynced_journal > 0);
        self.cut_entries += u64::from(tally.unsynced_entries > 0);
        self.checkpoints += u64::from(tally.database_writes > 0);
    }
}

fn any_use(random: &mut Random) -> Use {
    match random.below(100) {
        0 => Use::Long,
        1..=4 => Use::Quiet,
        5..=19 => Use::Reopened,
        20..=49 => Use::Checkpointed,
        _ => Use::Short,
    }
}

/// Picks a random moment for the power cut. Its range grows exponentially, so that early and late cuts are equally
/// likely.
fn any_cut(random: &mut Random) -> Cut {
    let (when, most) = match random.below(12) {
        0..=5 => (When::Any, 12),
        6 | 7 => (When::Sync, 7),
        8 | 9 => (When::DatabaseWrite, 6),
        10 => (When::Truncate, 3),
        _ => (When::Entry, 3),
    };
    let most = 1 << random.below(most + 1);
    Cut {
        when,
        count: 1 + random.below(most),
    }
}

fn checkpoint(path: &Path, mode: &str) -> rusqlite::Result<()> {
    let connection = rusqlite::Connection::open(path)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
}

fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}
