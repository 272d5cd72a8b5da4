//! Faults that need no killed process: misbehaving executors, lost answers, full or broken disks, and locks held by
//! others.
//!
//! Each test prints one line, such as `F06 sqlite rounds=20 violations=0`. `COUNTERSIGN_TEST_F06=1000` sets the number
//! of rounds.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command};
use countersign::executor::{Outcome, Permit, Tools};
use countersign::gate::Gate;
use countersign::id::{CallId, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::state::{CallState, State};
use countersign::store::suite::Fixture;
use countersign::store::{Store, StoreError, Stored};
use countersign_store::sqlite::{SqliteOptions, SqliteStore};
use futures_util::FutureExt;
use futures_util::future::join_all;

use crate::client::{approve, submit};
use crate::database;
use crate::figures::rounds;
use crate::layer::{Layer, Layered};
use crate::workload::{all_approvals, verified_approval};

const POLICY: &str = r#"
[agents]
most_pending = "unlimited"
proposals_per_minute = "unlimited"

[tools.count]
effect = "destructive"
approvers = ["alice"]
timeout = "30s"

[tools.hang]
effect = "destructive"
approvers = ["alice"]
timeout = "3s"

[tools.late]
effect = "destructive"
approvers = ["alice"]
timeout = "3s"

[tools.panic]
effect = "destructive"
approvers = ["alice"]

[tools.large]
effect = "destructive"
approvers = ["alice"]

[tools.host]
effect = "destructive"
approvers = ["alice"]
"#;

/// Prints the result line that `scripts/faults` collects.
#[expect(clippy::print_stdout, reason = "the line is the result")]
pub fn report(fault: &str, store: &str, rounds: usize) {
    println!("{fault} {store} rounds={rounds} violations=0");
}

type Effects = Arc<Mutex<HashMap<CallId, usize>>>;

fn gate(store: Arc<dyn Store>, effects: &Effects) -> Gate {
    let mut tools = Tools::default();
    for name in ["count", "hang", "late", "panic", "large"] {
        let effects = effects.clone();
        tools = tools.with(ToolName::new(name).unwrap(), move |permit: Permit| {
            let call = permit.call().expect("a held call");
            *effects.lock().unwrap().entry(call).or_default() += 1;
            async move {
                match name {
                    "hang" => std::future::pending().await,
                    "late" => tokio::time::sleep(Duration::from_millis(5_000)).await,
                    "panic" => panic!("the tool blew up"),
                    "large" => return Outcome::succeeded(vec![b'x'; 10 << 20]),
                    _ => {}
                }
                Outcome::succeeded("done")
            }
        });
    }
    Gate::new(store, Arc::new(Policy::parse(POLICY).unwrap())).with_executor(Arc::new(tools))
}

async fn propose(gate: &Gate, tool: &str) -> Result<SharedApproval, StoreError> {
    submit(gate, None, tool, 1).await
}

async fn wait_until(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// F18: runs one call whose executor misbehaves as `tool` says.
async fn misbehave(gate: &Gate, effects: &Effects, tool: &str) {
    let approval = propose(gate, tool).await.unwrap();
    let id = CallId {
        approval: approval.id,
        position: 1,
    };
    if tool == "host" {
        return answer_twice(gate, &approval, id).await;
    }
    let begun = Instant::now();
    let resolved = gate.decide_and_run(approve(&approval)).await.unwrap();
    let took = begun.elapsed();
    let state = resolved.approval.unwrap().calls[0].state;
    let expected = match tool {
        "hang" | "late" | "panic" => CallState::Unknown,
        _ => CallState::Succeeded,
    };
    assert_eq!(state, expected, "{tool}");
    // The promise is one second after the timeout; a debug build shares its cores with other tests.
    let slack = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 1 });
    assert!(took < Duration::from_secs(3) + slack, "{tool} took {took:?}");
    if tool == "late" {
        let store = gate.store();
        wait_until("the late answer is not on record", async || {
            // Not `verified_approval`: the late answer may arrive between its two reads.
            let now = store.approval(&approval.tenant, approval.id).await.unwrap();
            now.expect("it was proposed").calls[0].state == CallState::Succeeded
        })
        .await;
        let (_, events) = verified_approval(store, approval.id).await;
        let words: Vec<_> = events.iter().map(|event| event.what.as_str()).collect();
        assert_eq!(words, ["proposed", "approved", "started", "lost", "reconciled"]);
    }
    assert_eq!(effects.lock().unwrap().get(&id), Some(&1), "{tool} ran once");
}

async fn answer_twice(gate: &Gate, approval: &SharedApproval, id: CallId) {
    assert_eq!(gate.decide(approve(approval)).await.unwrap().refusal, None);
    let permit = gate.start(&approval.tenant, id).await.unwrap().unwrap();
    let token = permit.token().unwrap();
    let finish = async |outcome| gate.finish(&approval.tenant, id, token, outcome).await.unwrap();
    finish(Outcome::succeeded("first")).await.unwrap();
    finish(Outcome::succeeded("first"))
        .await
        .expect("the same end twice");
    let other = finish(Outcome::failed("second")).await;
    assert_eq!(other.unwrap_err().code(), "wrong_state");
    let (now, events) = verified_approval(gate.store(), approval.id).await;
    assert_eq!(now.calls[0].state, CallState::Succeeded);
    assert_eq!(events.len(), 4, "the second answer changes nothing");
}

async fn f18(fixture: Fixture, store: &str) {
    let effects = Effects::default();
    let gate = gate(fixture.store.clone(), &effects);
    let rounds = rounds("F18", 16);
    for (tool, at_once) in [
        ("hang", 16),
        ("panic", 16),
        ("large", 4),
        ("late", 16),
        ("host", 16),
    ] {
        let mut left = rounds;
        while left > 0 {
            let now = left.min(at_once);
            join_all((0..now).map(|_| misbehave(&gate, &effects, tool))).await;
            left -= now;
        }
    }
    report("F18", store, rounds * 5);
}

#[tokio::test]
async fn f18_executors_that_misbehave_on_sqlite() {
    f18(database::sqlite().await, "sqlite").await;
}

#[tokio::test]
async fn f18_executors_that_misbehave_on_postgres() {
    f18(database::postgres().await, "postgres").await;
}

/// A store that loses a quarter of the commands, and a quarter of the answers.
struct LossyStore {
    store: Arc<dyn Store>,
    is_on: AtomicBool,
    operations: AtomicUsize,
    random: Mutex<u64>,
}

impl LossyStore {
    fn random(&self) -> u64 {
        let mut random = self.random.lock().unwrap();
        *random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) % 4
    }
}

impl Layer for LossyStore {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn write(&self, command: Command) -> Stored<'_, Answer> {
        self.operations.fetch_add(1, Ordering::SeqCst);
        let fate = match self.is_on.load(Ordering::SeqCst) {
            true => self.random(),
            false => 2,
        };
        let doubt = || Err(StoreError::InDoubt("cut".to_owned()));
        async move {
            match fate {
                0 => doubt(),
                1 => {
                    self.store.write(command).await?;
                    doubt()
                }
                _ => self.store.write(command).await,
            }
        }
        .boxed()
    }
}

/// F24, I11: whatever is lost, nothing runs without a recorded start, nothing runs twice, and everything that ran is
/// recorded.
async fn f24(fixture: Fixture, name: &str) {
    let store = Arc::new(Layered(LossyStore {
        store: fixture.store.clone(),
        is_on: AtomicBool::new(true),
        operations: AtomicUsize::new(0),
        random: Mutex::new(24),
    }));
    let effects = Effects::default();
    let gate = gate(store.clone(), &effects);
    let enough = rounds("F24", 1_500);
    while store.0.operations.load(Ordering::SeqCst) < enough {
        let life = async || {
            let Ok(approval) = propose(&gate, "count").await else {
                return;
            };
            let _ = gate.decide_and_run(approve(&approval)).await;
        };
        join_all((0..32).map(|_| life())).await;
    }
    store.0.is_on.store(false, Ordering::SeqCst);
    wait_until("outcomes are not on record", async || gate.unrecorded() == 0).await;
    fixture.advance(Duration::from_secs(3_600));
    gate.expire_due().await.unwrap();
    let effects = effects.lock().unwrap().clone();
    let mut ran = 0;
    for approval in all_approvals(&*store).await {
        let (now, _) = verified_approval(&*store, approval.id).await;
        assert_ne!(now.state, State::Pending);
        let id = CallId {
            approval: now.id,
            position: 1,
        };
        let times = effects.get(&id).copied().unwrap_or_default();
        ran += times;
        let state = now.calls[0].state;
        let is_right = match times {
            0 => matches!(state, CallState::Refused | CallState::Unknown),
            1 => state == CallState::Succeeded,
            _ => false,
        };
        assert!(is_right, "{id} ran {times} times and is {state}");
    }
    assert_eq!(
        ran,
        effects.values().sum::<usize>(),
        "an effect without an approval"
    );
    assert!(ran > enough / 40, "hardly anything ran: {ran}");
    report("F24", name, enough);
}

#[tokio::test]
async fn f24_lost_commands_and_answers_on_sqlite() {
    f24(database::sqlite().await, "sqlite").await;
}

#[tokio::test]
async fn f24_lost_commands_and_answers_on_postgres() {
    f24(database::postgres().await, "postgres").await;
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteOptions::default()).unwrap()
}

/// Runs a test of this binary in a child process, started by a shell command that prepares its environment.
#[track_caller]
fn run_child(shell: &str, test: &str, folder: &Path) {
    let mut command = Process::new("sh");
    command
        .args(["-c", shell])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("COUNTERSIGN_TEST_FAULT_FOLDER", folder);
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn child_folder() -> Option<PathBuf> {
    std::env::var_os("COUNTERSIGN_TEST_FAULT_FOLDER").map(PathBuf::from)
}

/// F06: a file system of two megabytes is filled and freed repeatedly. Mounting it needs user namespaces.
#[test]
fn f06_a_full_disk_refuses_cleanly_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let mount =
        "mount -t tmpfs -o size=2m,mode=0700 tmpfs \"$COUNTERSIGN_TEST_FAULT_FOLDER\" && exec \"$0\" \"$@\"";
    let shell = format!("exec unshare -rm sh -c '{mount}' \"$0\" \"$@\"");
    run_child(&shell, "faults::fills_the_disk", folder.path());
    report("F06", "sqlite", rounds("F06", 20));
}

#[tokio::test]
#[ignore = "the other half of the test above"]
async fn fills_the_disk() {
    let Some(folder) = child_folder() else { return };
    let path = folder.join("store.db");
    let effects = Effects::default();
    let store = Arc::new(open(&path));
    let gate = gate(store.clone(), &effects);
    let mut acknowledged = Vec::new();
    let kept = propose(&gate, "count").await.unwrap();
    acknowledged.push(kept.id);
    for round in 0..rounds("F06", 20) {
        // Another program takes all remaining space.
        let ballast = folder.join("ballast");
        fill(&ballast);
        let mut refused = 0;
        for _ in 0..50 {
            match propose(&gate, "count").await {
                Ok(approval) => acknowledged.push(approval.id),
                Err(StoreError::Full(_)) => refused += 1,
                Err(error) => panic!("round {round}: {error}"),
            }
            if refused == 3 {
                break;
            }
        }
        assert_eq!(refused, 3, "round {round}: the disk was never full");
        store.health().expect("a full disk is no broken one");
        assert!(
            store
                .approval(&Tenant::single(), kept.id)
                .await
                .unwrap()
                .is_some(),
            "it can be read"
        );
        std::fs::remove_file(ballast).unwrap();
        // The store continues without a restart once there is space.
        let approval = propose(&gate, "count").await.unwrap();
        acknowledged.push(approval.id);
        let resolved = gate.decide_and_run(approve(&approval)).await.unwrap();
        assert_eq!((resolved.refusal, resolved.ran.len()), (None, 1));
        // A thousand rounds do not fit into two megabytes.
        if round % 10 == 9 {
            for id in acknowledged.drain(..) {
                assert!(
                    store.approval(&Tenant::single(), id).await.unwrap().is_some(),
                    "I5: {id} is lost"
                );
            }
            drop(delete_and_checkpoint(&path, &store).await);
            acknowledged.push(kept.id);
        }
    }
    store.close().await;
    let verdict: String = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(verdict, "ok");
    let again = open(&path);
    for id in acknowledged {
        assert!(
            again.approval(&Tenant::single(), id).await.unwrap().is_some(),
            "I5: {id} is lost"
        );
    }
}

/// Writes to the file `ballast` until the disk is full.
fn fill(ballast: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(ballast).unwrap();
    for size in [65_536, 4_096, 512, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

/// Deletes old rows directly in the file, to make space for further rounds.
async fn delete_and_checkpoint(path: &Path, store: &SqliteStore) -> rusqlite::Connection {
    let _ = store.now().await;
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection
        .execute_batch(
            "DELETE FROM call WHERE id > 256; DELETE FROM event WHERE approval > 1; DELETE FROM approval WHERE seq > 1;
             PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .unwrap();
    connection
}

/// F07: writes fail as on a broken disk, at another file size in each round. The store stops, and afterwards it holds
/// exactly what was acknowledged.
#[test]
fn f07_a_failing_write_stops_the_store_on_sqlite() {
    let each = rounds("F07", 12);
    for n in 1..=each {
        let folder = tempfile::tempdir().unwrap();
        open(&folder.path().join("store.db"));
        // Limit of the file size in blocks of 512 bytes. Each page in the WAL takes a little more than eight blocks.
        let blocks = 200 + n * 200 / each * 9;
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        run_child(&limited, "faults::writes_until_it_stops", folder.path());
        let acknowledged = std::fs::read_to_string(folder.path().join("acknowledged")).unwrap();
        // Ids from the same millisecond are unordered.
        let acknowledged: BTreeSet<&str> = acknowledged.lines().collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let store = open(&folder.path().join("store.db"));
            let found = all_approvals(&store).await;
            for approval in &found {
                verified_approval(&store, approval.id).await;
            }
            let found: BTreeSet<String> = found.iter().map(|approval| approval.id.to_string()).collect();
            let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
            assert_eq!(found, acknowledged, "n = {n}");
        });
    }
    report("F07", "sqlite", each);
}

#[tokio::test]
#[ignore = "the other half of the test above"]
async fn writes_until_it_stops() {
    let Some(folder) = child_folder() else { return };
    let store = Arc::new(open(&folder.join("store.db")));
    let gate = gate(store.clone(), &Effects::default());
    let mut acknowledged = String::new();
    let error = loop {
        match propose(&gate, "count").await {
            Ok(approval) => acknowledged.push_str(&format!("{}\n", approval.id)),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Stopped(_)), "{error}");
    assert!(matches!(store.health(), Err(StoreError::Stopped(_))));
    assert!(propose(&gate, "count").await.is_err(), "nothing is tried again");
    std::fs::write(folder.join("acknowledged"), acknowledged).unwrap();
}

/// F08: another program repeatedly holds the write lock. Each caller is answered within five seconds.
#[test]
fn f08_busy_storms_on_sqlite() {
    let each = rounds("F08", 48).div_ceil(16);
    let storms: Vec<_> = (0..16)
        .map(|seed| std::thread::spawn(move || lock_storm(seed, each)))
        .collect();
    for storm in storms {
        storm.join().unwrap();
    }
    report("F08", "sqlite", each * 16);
}

fn lock_storm(seed: u64, rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let gate = gate(Arc::new(open(&path)), &Effects::default());
        let mut random = seed;
        for round in 0..rounds {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Up to ten seconds; most are short enough for the writer to wait for the lock.
            let held = Duration::from_millis((random >> 33) % if round % 3 == 2 { 10_000 } else { 3_000 });
            let other = rusqlite::Connection::open(&path).unwrap();
            other.busy_timeout(Duration::from_secs(5)).unwrap();
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            let releasing = std::thread::spawn(move || {
                std::thread::sleep(held);
                other.execute_batch("ROLLBACK").unwrap();
            });
            let begun = Instant::now();
            let answer = propose(&gate, "count").await;
            let took = begun.elapsed();
            // Five seconds, and some slack for a busy machine.
            assert!(took < Duration::from_secs(8), "an answer after {took:?}");
            match answer {
                Ok(approval) => drop(verified_approval(gate.store(), approval.id).await),
                Err(error) => assert!(matches!(error, StoreError::Busy(_)), "{error}"),
            }
            releasing.join().unwrap();
            propose(&gate, "count").await.expect("free again");
        }
    });
}
