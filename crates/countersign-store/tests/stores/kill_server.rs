//! F09: kill -9 of a PostgreSQL server under load, and its restart. The test starts a server of its own.
//!
//! Two nodes keep working across the kills. Their answers are compared with the database: acknowledged writes are not
//! lost, writes reported as failed are absent, and nothing ran twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use countersign::command::{Answer, Command};
use countersign::event::EventKind;
use countersign::id::{ApprovalId, CallId, Tenant};
use countersign::store::suite::sample;
use countersign::store::{Store, StoreError, Stored};
use countersign::time::{Clock as _, ManualClock, SystemClock};
use countersign_store::postgres::{PostgresOptions, PostgresStore};
use futures_util::FutureExt;

use crate::client::{Ack, TestClient};
use crate::database::{connect, run};
use crate::figures::{report, rounds};
use crate::layer::{Layer, Layered};
use crate::server::Server;
use crate::workload::{all_approvals, check, check_sweep, verified_approval};

const TASKS: usize = 8;
const KILLS: usize = 10;
/// Longest time until a node works after the server is back. The promise is five seconds; a debug build shares its
/// cores with other tests.
const RECOVERY: Duration = Duration::from_secs(if cfg!(debug_assertions) { 30 } else { 5 });
/// Longest time until all outcomes are recorded.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// Kind of a command, with the approval or call that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Propose(ApprovalId),
    Decide(ApprovalId),
    Start(CallId),
    Finish(CallId),
}

impl Operation {
    fn of(command: &Command) -> Option<Operation> {
        match command {
            Command::Propose(propose) => Some(Operation::Propose(propose.id)),
            Command::Decide(decide) => Some(Operation::Decide(decide.decision.approval())),
            Command::Start(start) => Some(Operation::Start(start.call)),
            Command::Finish(finish) => Some(Operation::Finish(finish.call)),
            _ => None,
        }
    }
}

/// All answers to an operation, however often it was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answers {
    done: bool,
    in_doubt: bool,
    not_done: bool,
}

pub type AnswerLog = Arc<Mutex<HashMap<Operation, Answers>>>;
/// Records of a run: acknowledgements, effects, and all answers.
pub type Records = (Arc<Mutex<Vec<Ack>>>, Arc<Mutex<Vec<CallId>>>, AnswerLog);

/// A store layer that records every answer.
pub struct RecordingLayer {
    store: PostgresStore,
    answer_log: AnswerLog,
    answered: AtomicUsize,
}

impl Layer for RecordingLayer {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn write(&self, command: Command) -> Stored<'_, Answer> {
        async move {
            let operation = Operation::of(&command);
            let answer = self.store.write(command).await;
            let mut answer_log = self.answer_log.lock().unwrap();
            let Some(answers) = operation.map(|operation| answer_log.entry(operation).or_default()) else {
                return answer;
            };
            match &answer {
                Ok(_) => {
                    self.answered.fetch_add(1, Ordering::SeqCst);
                    answers.done = true;
                }
                Err(StoreError::Unavailable(_) | StoreError::Busy(_)) => answers.not_done = true,
                Err(StoreError::InDoubt(_)) => answers.in_doubt = true,
                Err(error) => panic!("{error}"),
            }
            answer
        }
        .boxed()
    }
}

pub struct Node {
    pub store: Arc<Layered<RecordingLayer>>,
    pub client: Arc<TestClient>,
}

impl Node {
    pub async fn connect(
        url: &str,
        acks: &Arc<Mutex<Vec<Ack>>>,
        effects: &Arc<Mutex<Vec<CallId>>>,
        answer_log: &AnswerLog,
    ) -> Node {
        let store = Arc::new(Layered(RecordingLayer {
            store: PostgresStore::connect(url, PostgresOptions::default())
                .await
                .unwrap(),
            answer_log: answer_log.clone(),
            answered: AtomicUsize::new(0),
        }));
        let (acks, effects) = (acks.clone(), effects.clone());
        let on_ack = move |ack| acks.lock().unwrap().push(ack);
        let effect = move |call| effects.lock().unwrap().push(call);
        let client = Arc::new(TestClient::new(store.clone(), Arc::new(on_ack), Arc::new(effect)));
        Node { store, client }
    }

    pub fn answered(&self) -> usize {
        self.store.0.answered.load(Ordering::SeqCst)
    }

    /// Waits until `count` more commands were answered.
    pub async fn answers(&self, count: usize, within: Duration) {
        let (started, before) = (Instant::now(), self.answered());
        while self.answered() < before + count {
            assert!(
                started.elapsed() < within,
                "the node does not work after {within:?}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the gate has recorded all outcomes. Before that, a call may be finished in the store while its
    /// answer is not in the log of answers yet.
    pub async fn settle(&self) {
        let started = Instant::now();
        while self.client.gate.unrecorded() > 0 {
            assert!(started.elapsed() < SETTLED_WITHIN, "outcomes are not on record");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f09_kill_of_the_postgres_server_under_load() {
    let server = Server::start();
    let (acks, effects, answer_log) = (Arc::default(), Arc::default(), AnswerLog::default());
    let nodes = [
        Node::connect(&server.url, &acks, &effects, &answer_log).await,
        Node::connect(&server.url, &acks, &effects, &answer_log).await,
    ];
    let over = Arc::new(AtomicBool::new(false));
    let tasks = (0..TASKS).map(|task| {
        let (client, over) = (nodes[task % 2].client.clone(), over.clone());
        tokio::spawn(async move {
            for life in 0u64.. {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                if client.run_one(life).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let kills = rounds("F09", KILLS);
    let mut slowest = Duration::ZERO;
    for kill in 0..kills {
        for node in &nodes {
            node.answers(20 + kill * 7 % 31, Duration::from_secs(60)).await;
        }
        server.kill();
        tokio::task::block_in_place(|| server.restart());
        let up = Instant::now();
        for node in &nodes {
            node.answers(1, RECOVERY).await;
        }
        slowest = slowest.max(up.elapsed());
    }
    over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    for node in &nodes {
        node.settle().await;
    }

    let (acks, effects) = (acks.lock().unwrap().clone(), effects.lock().unwrap().clone());
    let options = PostgresOptions {
        clock: Some(Arc::new(ManualClock::at(SystemClock::default().now()))),
        ..PostgresOptions::default()
    };
    let store = PostgresStore::connect(&server.url, options).await.unwrap();
    check(&store, &acks, &effects).await;
    let answer_log = answer_log.lock().unwrap().clone();
    let hit = check_answers(&store, &answer_log).await;
    assert!(hit >= kills, "only {hit} commands were interrupted");
    check_end(&server.url, &effects).await;
    let more = format!("acknowledged={} recovery_ms={}", acks.len(), slowest.as_millis());
    report("F09", "postgres", kills, &more);
}

/// After a crash PostgreSQL may assign an unused transaction number again. The commit of the other transaction must not
/// be taken for ours.
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
        // Writers now wait, with a transaction number but nothing written.
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

/// Checks every answer against the database. Returns the number of commands that were not acknowledged.
pub async fn check_answers(store: &PostgresStore, answer_log: &HashMap<Operation, Answers>) -> usize {
    let mut not_done = 0;
    for (operation, answers) in answer_log {
        let is_done = is_done(store, *operation).await;
        match answers {
            Answers { done: true, .. } => {
                // A refused decision would also count as done; there are none here.
                assert!(is_done, "I5: {operation:?} was acknowledged: {answers:?}");
            }
            Answers { in_doubt: true, .. } => not_done += 1,
            Answers { .. } => {
                not_done += 1;
                assert!(!is_done, "{operation:?} was said not to be written: {answers:?}");
            }
        }
    }
    not_done
}

async fn is_done(store: &PostgresStore, operation: Operation) -> bool {
    let (Operation::Propose(id) | Operation::Decide(id)) = operation else {
        let (Operation::Start(call) | Operation::Finish(call)) = operation else {
            unreachable!()
        };
        let (_, events) = verified_approval(store, call.approval).await;
        return events.iter().any(|event| match (&event.what, operation) {
            (EventKind::Started { call: position, .. }, Operation::Start(_))
            | (EventKind::Succeeded { call: position, .. }, Operation::Finish(_)) => {
                *position == call.position
            }
            _ => false,
        });
    };
    match (operation, store.approval(&Tenant::single(), id).await.unwrap()) {
        (Operation::Decide(_), Some(approval)) => approval.decision.is_some(),
        (_, approval) => approval.is_some(),
    }
}

/// Checks that a day later nothing is open, and that no call without a known outcome runs again.
pub async fn check_end(url: &str, effects: &[CallId]) {
    let tomorrow = SystemClock::default().now().plus(Duration::from_secs(24 * 3600));
    let options = PostgresOptions {
        clock: Some(Arc::new(ManualClock::at(tomorrow))),
        ..PostgresOptions::default()
    };
    let store = Arc::new(PostgresStore::connect(url, options).await.unwrap());
    let all = all_approvals(&*store).await;
    let again = |call| panic!("call {call} runs again");
    let client = TestClient::new(store.clone(), Arc::new(|_| {}), Arc::new(again));
    check_sweep(&client.gate, &all).await;
    check(&*store, &[], effects).await;
}
