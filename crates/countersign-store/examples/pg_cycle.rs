//! How many whole approvals a second: propose, decide with start, finish. Prints one line of JSON.
//!
//! `pg_cycle URL CONCURRENCY SECONDS [LANES]`, or `pg_cycle URL wake COUNT` for the time from a decision on one node to
//! the waiter on another.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement, not a service"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use countersign::call::Arguments;
use countersign::command::{Answer, Command, Decide, Finish, NewCall, Propose};
use countersign::decision::{Decider, Decision, Surface, Verdict};
use countersign::effect::{Effect, Risk};
use countersign::executor::Outcome;
use countersign::hash::Hash;
use countersign::id::{Agent, ApprovalId, CallId, Person, Tenant, ToolName};
use countersign::policy::{OnFailure, Terms, Undoable};
use countersign::store::Store;
use countersign_store::postgres::{PostgresOptions, PostgresStore};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let text = |index: usize| arguments.get(index).map(String::as_str);
    let url = text(1).unwrap();
    let number = |index| text(index).and_then(|text| text.parse::<usize>().ok());
    if text(2) == Some("wake") {
        return wake(url, number(3).unwrap_or(200)).await;
    }
    let (concurrency, seconds) = (number(2).unwrap_or(16), number(3).unwrap_or(10));
    let mut options = PostgresOptions::default();
    options.lanes = number(4).unwrap_or(options.lanes);
    options.notify = std::env::var_os("NO_NOTIFY").is_none();
    let lanes = options.lanes;
    let store = Arc::new(PostgresStore::connect(url, options).await.unwrap());
    let cycles = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + Duration::from_secs(seconds as u64);
    let begun = Instant::now();
    let tasks: Vec<_> = (0..concurrency)
        .map(|_| {
            let (store, cycles) = (store.clone(), cycles.clone());
            tokio::spawn(async move {
                while Instant::now() < end {
                    cycle(&store).await;
                    cycles.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let per_s = cycles.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    println!("{{\"bench\":\"pg_cycle\",\"conc\":{concurrency},\"lanes\":{lanes},\"per_s\":{per_s:.0}}}");
}

async fn cycle(store: &PostgresStore) {
    let id = fresh();
    store.write(propose(id)).await.unwrap();
    let permit = Hash([7; 32]);
    let Answer::Decide(answer) = store.write(approve(id, Some(permit))).await.unwrap() else {
        return;
    };
    assert_eq!(answer.started, Some(1));
    let finish = Finish {
        tenant: Tenant::single(),
        call: CallId {
            approval: id,
            position: 1,
        },
        permit,
        outcome: Outcome::succeeded("{\"deleted\":13}"),
        policy: Hash([1; 32]),
        start_next: None,
    };
    let Answer::Finish(answer) = store.write(Command::Finish(finish)).await.unwrap() else {
        return;
    };
    answer.unwrap();
}

async fn wake(url: &str, count: usize) {
    let one = PostgresStore::connect(url, PostgresOptions::default())
        .await
        .unwrap();
    let other = PostgresStore::connect(url, PostgresOptions::default())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut after_answer = Vec::new();
    let mut whole = Vec::new();
    for _ in 0..count {
        let id = fresh();
        one.write(propose(id)).await.unwrap();
        let waiter = one.hub().wait_for(id);
        let woken = tokio::spawn(async move {
            waiter.changed().await.unwrap();
            Instant::now()
        });
        let begun = Instant::now();
        other.write(approve(id, None)).await.unwrap();
        let answered = Instant::now();
        let woken = woken.await.unwrap();
        after_answer.push(woken.saturating_duration_since(answered));
        whole.push(woken.duration_since(begun));
    }
    after_answer.sort();
    whole.sort();
    let micros = |times: &[Duration], part: usize| times.get(times.len() * part / 100).unwrap().as_micros();
    println!(
        "{{\"bench\":\"pg_wake\",\"count\":{count},\"after_answer_p50_us\":{},\"after_answer_p99_us\":{},\"whole_p50_us\":{}}}",
        micros(&after_answer, 50),
        micros(&after_answer, 99),
        micros(&whole, 50)
    );
}

/// Ids that grow with time, as the gate makes them.
fn fresh() -> ApprovalId {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let mut random = [0; 10];
    let (one, two) = (
        RandomState::new().build_hasher().finish(),
        RandomState::new().build_hasher().finish(),
    );
    let bytes = one.to_be_bytes().into_iter().chain(two.to_be_bytes());
    random.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    ApprovalId::from_parts(now.as_millis() as u64, &random)
}

fn propose(id: ApprovalId) -> Command {
    let ids: Vec<String> = (0..13).map(|n| format!("\"pad-{n:04}-{n:08x}\"")).collect();
    let reason = format!(
        "The user asked to delete every paddock, and was shown this list. {}",
        ".".repeat(96)
    );
    let arguments = format!(
        "{{\"confirm\": true,\"ids\":[{}],\"reason\":\"{reason}\"}}",
        ids.join(",")
    );
    let terms = Terms {
        effect: Effect::Destructive,
        risk: Risk::High,
        summary: "Delete 13 paddocks".to_owned(),
        yes: None,
        no: None,
        ttl: Duration::from_secs(300),
        start_within: None,
        timeout: Duration::from_secs(60),
        approvers: vec!["alice".to_owned()],
        on_failure: OnFailure::Stop,
        undo: Undoable::No,
        notes: Vec::new(),
    };
    Command::Propose(Box::new(Propose {
        tenant: Tenant::single(),
        id,
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
        calls: vec![NewCall {
            tool: ToolName::new("delete_paddocks").unwrap(),
            definition: None,
            arguments: Arguments::parse(arguments.into_bytes()).unwrap(),
            terms: Arc::new(terms),
            sealed: None,
        }],
    }))
}

fn approve(id: ApprovalId, start: Option<Hash>) -> Command {
    Command::Decide(Box::new(Decide {
        decision: Decision {
            tenant: Tenant::single(),
            approval: id,
            decider: Decider {
                person: Person::new("alice").unwrap(),
                groups: Vec::new(),
                surface: Surface::Page,
            },
            verdict: Verdict::Approve,
            digest: None,
            comment: None,
            claimed_by: None,
            key: None,
        },
        revisions: Vec::new(),
        policy: Hash([1; 32]),
        body: Hash([3; 32]),
        start,
        runs: None,
    }))
}
