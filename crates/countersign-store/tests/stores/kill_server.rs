//! F09: kill -9 of a PostgreSQL server under load, and its restart. The server is this test's own.
//!
//! Two nodes live through it. What they were told is compared with what is there: what was acknowledged is not lost,
//! what was said not to be written is not there, and nothing ran twice.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use countersign::command::{Answer, Command};
use countersign::event::What;
use countersign::id::{ApprovalId, CallId, Tenant};
use countersign::store::suite::sample;
use countersign::store::{Store, StoreError, Stored};
use countersign::time::{Clock as _, ManualClock, SystemClock};
use countersign_store::postgres::{PostgresOptions, PostgresStore};
use futures_util::FutureExt;
use tempfile::TempDir;

use crate::database::{connect, run};
use crate::layer::{Layer, Layered};
use crate::life::{Ack, Living, check, check_sweep, everything, look};
use crate::programs::from_environment;

const TASKS: usize = 8;
const KILLS: usize = 10;
/// How long after its return a server may seem to be gone.
const RECOVERY: Duration = Duration::from_secs(5);

/// A server of our own, stopped and removed with this.
struct Server {
    _folder: TempDir,
    directory: PathBuf,
    url: String,
}

impl Server {
    fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        // The server's account has to pass through.
        set_mode(folder.path(), 0o711);
        let directory = folder.path().join("postgres");
        let url = start(&directory);
        Server {
            _folder: folder,
            directory,
            url,
        }
    }

    /// kill -9 of the first process; the others notice and end by themselves.
    fn kill(&self) {
        let file = std::fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap();
        let number: u32 = file.lines().next().unwrap().parse().unwrap();
        let status = Process::new("kill").args(["-9", &number.to_string()]).status();
        assert!(status.unwrap().success());
    }

    fn restart(&self) {
        assert_eq!(start(&self.directory), self.url, "it is where it was");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Process::new(script()).arg("stop").arg(&self.directory).status();
    }
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres")
}

/// Returns when the server accepts connections; gives its URL.
fn start(directory: &Path) -> String {
    let output = Process::new(script())
        .arg("start")
        .arg(directory)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let url = said.lines().find_map(|line| line.strip_prefix("url="));
    url.expect("a URL").to_owned()
}

/// What a command does to an approval, and to which call of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Deed {
    Propose(ApprovalId),
    Decide(ApprovalId),
    Start(CallId),
    Finish(CallId),
}

impl Deed {
    fn of(command: &Command) -> Option<Deed> {
        match command {
            Command::Propose(propose) => Some(Deed::Propose(propose.id)),
            Command::Decide(decide) => Some(Deed::Decide(decide.decision.approval())),
            Command::Start(start) => Some(Deed::Start(start.call)),
            Command::Finish(finish) => Some(Deed::Finish(finish.call)),
            _ => None,
        }
    }
}

/// All that was said about a deed, however often it was tried.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    done: bool,
    in_doubt: bool,
    not_done: bool,
}

type Book = Arc<Mutex<HashMap<Deed, Said>>>;

/// Writes down every answer.
struct Noting {
    store: PostgresStore,
    book: Book,
    answered: AtomicUsize,
}

impl Layer for Noting {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn write(&self, command: Command) -> Stored<'_, Answer> {
        async move {
            let deed = Deed::of(&command);
            let answer = self.store.write(command).await;
            let mut book = self.book.lock().unwrap();
            let Some(said) = deed.map(|deed| book.entry(deed).or_default()) else {
                return answer;
            };
            match &answer {
                Ok(_) => {
                    self.answered.fetch_add(1, Ordering::SeqCst);
                    said.done = true;
                }
                Err(StoreError::Unavailable(_) | StoreError::Busy(_)) => said.not_done = true,
                Err(StoreError::InDoubt(_)) => said.in_doubt = true,
                Err(error) => panic!("{error}"),
            }
            answer
        }
        .boxed()
    }
}

struct Node {
    store: Arc<Layered<Noting>>,
    living: Arc<Living>,
}

impl Node {
    async fn connect(
        url: &str,
        acks: &Arc<Mutex<Vec<Ack>>>,
        effects: &Arc<Mutex<Vec<CallId>>>,
        book: &Book,
    ) -> Node {
        let store = Arc::new(Layered(Noting {
            store: PostgresStore::connect(url, PostgresOptions::default())
                .await
                .unwrap(),
            book: book.clone(),
            answered: AtomicUsize::new(0),
        }));
        let (acks, effects) = (acks.clone(), effects.clone());
        let note = move |ack| acks.lock().unwrap().push(ack);
        let effect = move |call| effects.lock().unwrap().push(call);
        let living = Arc::new(Living::new(store.clone(), Arc::new(note), Arc::new(effect)));
        Node { store, living }
    }

    fn answered(&self) -> usize {
        self.store.0.answered.load(Ordering::SeqCst)
    }

    /// Waits until so many more commands were answered.
    async fn answers(&self, count: usize, within: Duration) {
        let (begun, before) = (Instant::now(), self.answered());
        while self.answered() < before + count {
            assert!(
                begun.elapsed() < within,
                "the node does not work after {within:?}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f09_kill_of_the_postgres_server_under_load() {
    let server = Server::start();
    let (acks, effects, book) = (Arc::default(), Arc::default(), Book::default());
    let nodes = [
        Node::connect(&server.url, &acks, &effects, &book).await,
        Node::connect(&server.url, &acks, &effects, &book).await,
    ];
    let over = Arc::new(AtomicBool::new(false));
    let tasks = (0..TASKS).map(|task| {
        let (living, over) = (nodes[task % 2].living.clone(), over.clone());
        tokio::spawn(async move {
            for life in 0u64.. {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                if living.live(life).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let kills = KILLS * from_environment::<usize>("COUNTERSIGN_TEST_KILLS", 1);
    for kill in 0..kills {
        for node in &nodes {
            node.answers(20 + kill * 7 % 31, Duration::from_secs(60)).await;
        }
        server.kill();
        tokio::task::block_in_place(|| server.restart());
        for node in &nodes {
            node.answers(1, RECOVERY).await;
        }
    }
    over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }

    let (acks, effects) = (acks.lock().unwrap().clone(), effects.lock().unwrap().clone());
    let options = PostgresOptions {
        clock: Some(Arc::new(ManualClock::at(SystemClock::default().now()))),
        ..PostgresOptions::default()
    };
    let store = PostgresStore::connect(&server.url, options).await.unwrap();
    check(&store, &acks, &effects).await;
    let book = book.lock().unwrap().clone();
    let hit = check_book(&store, &book).await;
    assert!(hit >= kills, "only {hit} commands were interrupted");
    check_end(&server.url, &effects).await;
}

/// A crash gives the number of a transaction that left no trace to somebody else. That one's commit is not ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f09_kill_before_a_commit_whose_number_a_stranger_takes() {
    let server = Server::start();
    let store = PostgresStore::connect(&server.url, PostgresOptions::default())
        .await
        .unwrap();
    for number in 1..=3 {
        let propose = |number| store.write(Command::Propose(Box::new(sample::propose(number))));
        propose(number + 100).await.unwrap();
        let holder = connect(&server.url).await;
        // Whoever writes now waits, with a number and nothing written.
        run(&holder, "BEGIN; LOCK TABLE countersign.approval IN SHARE MODE").await;
        let crash = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            server.kill();
            tokio::task::block_in_place(|| server.restart());
            let stranger = connect(&server.url).await;
            run(&stranger, "SET synchronous_commit = off").await;
            for _ in 0..50 {
                run(&stranger, "SELECT pg_current_xact_id()").await;
            }
        };
        let (answer, ()) = futures_util::future::join(propose(number), crash).await;
        let told = matches!(answer, Err(StoreError::Unavailable(_) | StoreError::InDoubt(_)));
        assert!(told, "{answer:?}");
        let there = store.approval(&sample::tenant(), sample::id(number)).await;
        assert_eq!(there, Ok(None));
    }
}

/// What was said of every command is true; gives how many were told that it was not done.
async fn check_book(store: &PostgresStore, book: &HashMap<Deed, Said>) -> usize {
    let mut not_done = 0;
    for (deed, said) in book {
        let is_done = is_done(store, *deed).await;
        match said {
            Said { done: true, .. } => {
                // A decision that was refused is an answer, too; there are none here.
                assert!(is_done, "I5: {deed:?} was acknowledged: {said:?}");
            }
            Said { in_doubt: true, .. } => not_done += 1,
            Said { .. } => {
                not_done += 1;
                assert!(!is_done, "{deed:?} was said not to be written: {said:?}");
            }
        }
    }
    not_done
}

async fn is_done(store: &PostgresStore, deed: Deed) -> bool {
    let (Deed::Propose(id) | Deed::Decide(id)) = deed else {
        let (Deed::Start(call) | Deed::Finish(call)) = deed else {
            unreachable!()
        };
        let (_, events) = look(store, call.approval).await;
        return events.iter().any(|event| match (&event.what, deed) {
            (What::Started { call: position, .. }, Deed::Start(_))
            | (What::Succeeded { call: position, .. }, Deed::Finish(_)) => *position == call.position,
            _ => false,
        });
    };
    match (deed, store.approval(&Tenant::single(), id).await.unwrap()) {
        (Deed::Decide(_), Some(approval)) => approval.decision.is_some(),
        (_, approval) => approval.is_some(),
    }
}

/// A day later nothing is open any more, and nothing that ran without an answer runs again.
async fn check_end(url: &str, effects: &[CallId]) {
    let tomorrow = SystemClock::default().now().plus(Duration::from_secs(24 * 3600));
    let options = PostgresOptions {
        clock: Some(Arc::new(ManualClock::at(tomorrow))),
        ..PostgresOptions::default()
    };
    let store = Arc::new(PostgresStore::connect(url, options).await.unwrap());
    let all = everything(&*store).await;
    let again = |call| panic!("call {call} runs again");
    let living = Living::new(store.clone(), Arc::new(|_| {}), Arc::new(again));
    check_sweep(&living.gate, &all).await;
    check(&*store, &[], effects).await;
}
