//! A separate database for each test, and sample commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use countersign::approval::{Order, SharedApproval};
use countersign::call::Arguments;
use countersign::command::{Answer, Command, Decide, DecideAnswer, NewCall, Propose, Proposed};
use countersign::decision::{Decider, Decision, Surface, Verdict};
use countersign::effect::Effect;
use countersign::hash::Hash;
use countersign::id::{Agent, ApprovalId, Channel, Person, Tenant, ToolName};
use countersign::policy::{Definition, OnFailure, Undoable};
use countersign::store::{Cursor, FeedEvent, Store, StoreError};
use countersign_store::postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

pub const PERMIT: Hash = Hash([7; 32]);

/// Returns the URL of the test server. Tests fail without one rather than being skipped, because half of them would be
/// missing.
pub fn server() -> String {
    std::env::var("COUNTERSIGN_TEST_POSTGRES").expect(
        "COUNTERSIGN_TEST_POSTGRES is not set\nhint: run `scripts/test`, which starts a server for the tests",
    )
}

pub fn authority() -> String {
    std::env::var("COUNTERSIGN_TEST_POSTGRES_CA").expect(
        "COUNTERSIGN_TEST_POSTGRES_CA is not set\nhint: run `scripts/test`, which starts a server with TLS",
    )
}

/// Replaces the database in a URL.
pub fn with_database(url: &str, name: &str) -> String {
    let (base, _) = url.rsplit_once('/').expect("a URL with a database");
    format!("{base}/{name}")
}

/// Replaces the role in a URL.
pub fn with_role(url: &str, role: &str) -> String {
    let (_, place) = url.split_once('@').expect("a URL with a role");
    format!("postgresql://{role}@{place}")
}

pub async fn raw(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("SET search_path = countersign, public")
        .await
        .unwrap();
    client
}

/// Creates an empty database and returns its URL.
pub async fn database() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let server = server();
    let name = format!(
        "test_{}_{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    let admin = raw(&server).await;
    // Process ids are reused, so an earlier run may have left this database behind.
    admin
        .batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        .await
        .unwrap();
    admin
        .batch_execute(&format!("CREATE DATABASE {name}"))
        .await
        .unwrap();
    with_database(&server, &name)
}

pub async fn open(url: &str) -> PostgresStore {
    PostgresStore::connect(url, PostgresOptions::default())
        .await
        .unwrap()
}

pub fn id(number: u64) -> ApprovalId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    ApprovalId::from_parts(1_700_000_000_000 + number, &random)
}

pub fn new_approval(number: u64) -> Propose {
    let mut terms = countersign::store::suite::sample::terms();
    terms.effect = Effect::Destructive;
    terms.summary = "Delete 13 paddocks".to_owned();
    terms.yes = None;
    terms.no = None;
    terms.ttl = Duration::from_secs(300);
    terms.start_within = None;
    terms.timeout = Duration::from_secs(60);
    terms.approvers = vec!["alice".to_owned()];
    terms.on_failure = OnFailure::Stop;
    terms.undo = Undoable::Yes;
    Propose {
        tenant: Tenant::single(),
        id: id(number),
        channel: None,
        agent: Agent::new("crm").unwrap(),
        run: None,
        session: None,
        requester: Person::new("svc").unwrap(),
        on_behalf_of: None,
        claim: None,
        nonce: [1; 16],
        salt: [2; 16],
        ttl: Duration::from_secs(300),
        start_within: Duration::from_secs(60),
        policy: Hash([1; 32]),
        undoes: None,
        key: None,
        restraint: None,
        is_shared: false,
        passes: None,
        order: Order::Given,
        calls: vec![NewCall {
            tool: ToolName::new("delete_paddocks").unwrap(),
            definition: Definition::Unknown,
            // A JSON column would change the order, the notation of numbers and the spaces.
            arguments: Arguments::parse(br#"{"b": 1e2,"a":-0}"#.to_vec()).unwrap(),
            terms: Arc::new(terms),
            sealed: None,
            provenance: None,
            before: None,
            working_folder: None,
        }],
    }
}

pub fn in_channel(number: u64, channel: &str) -> Propose {
    Propose {
        channel: Some(Channel::new(channel).unwrap()),
        ..new_approval(number)
    }
}

pub async fn propose(store: &PostgresStore, propose: Propose) -> SharedApproval {
    try_propose(store, propose).await.unwrap().approval
}

pub async fn try_propose(store: &PostgresStore, propose: Propose) -> Result<Proposed, StoreError> {
    match store.write(Command::Propose(Box::new(propose))).await? {
        Answer::Propose(answer) => Ok(answer.unwrap()),
        other => panic!("{other:?}"),
    }
}

pub fn approval_of(number: u64, by: &str, start: Option<Hash>) -> Command {
    Command::Decide(Box::new(Decide {
        decision: {
            let mut decision = Decision::on(
                Tenant::single(),
                countersign::card::WholeCard::of(id(number), Hash([0; 32])),
                Decider::new(Person::new(by).unwrap(), Vec::new(), Surface::Page),
                Verdict::Approve,
            );
            decision.digest = None;
            decision
        },
        revisions: Vec::new(),
        policy: Hash([1; 32]),
        body: Hash([3; 32]),
        start,
        runs: None,
        cool_down: None,
        shown_under: None,
    }))
}

pub async fn approve(store: &PostgresStore, number: u64) -> Result<DecideAnswer, StoreError> {
    match store.write(approval_of(number, "alice", Some(PERMIT))).await? {
        Answer::Decide(answer) => Ok(answer),
        other => panic!("{other:?}"),
    }
}

pub async fn stored(store: &PostgresStore, number: u64) -> Option<SharedApproval> {
    store.approval(&Tenant::single(), id(number)).await.unwrap()
}

/// Waits until the feed has at least `count` events, and returns it. Transactions of other tests hold it back while
/// they are open.
pub async fn feed(store: &PostgresStore, count: usize) -> Vec<FeedEvent> {
    for _ in 0..200 {
        let feed = store
            .feed(&Tenant::single(), Cursor::default(), 1000)
            .await
            .unwrap();
        if feed.len() >= count {
            return feed;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the feed does not reach {count} events");
}
