//! F16: with very many pending approvals, listing, deciding and sweeping cost the same as with few.

use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign::command::{Answer, Command, Propose, Sweep};
use countersign::hash::Hash;
use countersign::id::{Agent, ApprovalId};
use countersign::store::suite::{Fixture, sample};
use countersign::store::{Filter, Store};

use crate::database::{postgres, sqlite};
use crate::figures::{percentile, report, rounds};

/// Number of commands in flight while the store is filled.
const CONCURRENT: usize = 256;
const READS: usize = 200;
/// Factor on the time limits, which are for a release build on a quiet machine. With work that grows with the number of
/// approvals, even these limits would be exceeded.
const SLACK: u32 = 20;

fn proposal(number: u64) -> Propose {
    Propose {
        agent: Agent::new(format!("agent-{}", number % 500)).unwrap(),
        ..sample::propose(number)
    }
}

async fn fill(store: &Arc<dyn Store>, count: usize) {
    for first in (0..count).step_by(CONCURRENT) {
        let numbers = first..count.min(first + CONCURRENT);
        let proposals = numbers.map(|number| {
            let propose = Command::Propose(Box::new(proposal(number as u64)));
            async move { store.write(propose).await.unwrap() }
        });
        futures_util::future::join_all(proposals).await;
    }
}

/// Returns the 99th percentile of the time to read a page, for pages from all parts of the list.
async fn list(store: &Arc<dyn Store>, count: usize) -> Duration {
    let mut took = Vec::with_capacity(READS);
    for read in 0..READS {
        let after = sample::id((read * 7919 % count) as u64);
        let filter = Filter {
            after: Some(after),
            limit: Some(50),
            ..Filter::pending()
        };
        let begun = Instant::now();
        store.list(&sample::tenant(), &filter).await.unwrap();
        took.push(begun.elapsed());
    }
    percentile(&mut took, 99)
}

async fn decide(store: &Arc<dyn Store>, id: ApprovalId) -> Duration {
    let approval = store.approval(&sample::tenant(), id).await.unwrap().unwrap();
    let decide = Command::Decide(Box::new(sample::approve(&approval)));
    let begun = Instant::now();
    let Answer::Decide(answer) = store.write(decide).await.unwrap() else {
        panic!("not the answer to a decision");
    };
    assert_eq!(answer.refusal, None);
    begun.elapsed()
}

/// Sweeps all expired approvals in batches, as a service does. Returns the time it took.
async fn sweep(store: &Arc<dyn Store>, expected: usize) -> Duration {
    let begun = Instant::now();
    let mut expired = 0;
    loop {
        let sweep = Command::Sweep(Sweep {
            limit: 500,
            policy: Hash([1; 32]),
        });
        let Answer::Sweep(swept) = store.write(sweep).await.unwrap() else {
            panic!("not the answer to a sweep");
        };
        match swept.expired {
            0 => break,
            count => expired += count,
        }
    }
    assert!(expired >= expected, "{expired} of {expected} have expired");
    begun.elapsed()
}

/// Returns the resident memory of this process, in MiB.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<usize>().ok());
    kibibytes.unwrap_or(0) / 1024
}

async fn many(kind: &str, fixture: Fixture, decide_goal: Duration) {
    let count = rounds("F16", 3_000);
    let store = &fixture.store;
    fill(store, count).await;
    let listed = list(store, count).await;
    let mut decided = Vec::with_capacity(READS);
    for read in 0..READS {
        decided.push(decide(store, sample::id((read * (count / READS)) as u64)).await);
    }
    let decided = percentile(&mut decided, 99);
    let memory = memory();
    fixture.clock.advance(sample::TTL);
    // Decides newly proposed approvals while all others are swept.
    let fresh: Vec<u64> = (0..20).map(|n| (count + n) as u64).collect();
    for number in &fresh {
        let propose = Command::Propose(Box::new(proposal(*number)));
        store.write(propose).await.unwrap();
    }
    let deciding = async {
        let mut slowest = Duration::ZERO;
        for number in fresh {
            slowest = slowest.max(decide(store, sample::id(number)).await);
        }
        slowest
    };
    let (swept, meanwhile) = futures_util::future::join(sweep(store, count - READS), deciding).await;
    assert!(listed < Duration::from_millis(50) * SLACK, "list: {listed:?}");
    assert!(decided < decide_goal * SLACK, "decide: {decided:?}");
    assert!(
        meanwhile < Duration::from_millis(250) * SLACK,
        "decide during the sweep: {meanwhile:?}"
    );
    let more = format!(
        "list_p99_ms={} decide_p99_ms={} sweep_ms={} decide_during_sweep_ms={} rss_mb={memory}",
        listed.as_millis(),
        decided.as_millis(),
        swept.as_millis(),
        meanwhile.as_millis()
    );
    report("F16", kind, count, &more);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f16_many_pending_on_postgres() {
    many("postgres", postgres().await, Duration::from_millis(25)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f16_many_pending_on_sqlite() {
    many("sqlite", sqlite().await, Duration::from_millis(50)).await;
}
