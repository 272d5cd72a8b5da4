//! F20: network partitions between nodes and their server, in both directions or one, and slow connections. Each seed
//! is one scenario.
//!
//! `COUNTERSIGN_TEST_SEED` selects other scenarios.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use countersign_store::postgres::{PostgresOptions, PostgresStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::database::Database;
use crate::figures::{report, rounds, say};
use crate::kill_server::{Node, Records, check_answers, check_end};
use crate::programs::from_environment;
use crate::tcp_proxy;
use crate::workload::check;

const NODES: usize = 3;
/// Number of concurrent scenarios, which mostly wait.
const AT_ONCE: usize = 4;
const STEPS: u64 = 4;

/// States of a connection: what it lets through.
const OPEN: u8 = 0;
const CUT: u8 = 1;
const NOTHING_THERE: u8 = 2;
const NOTHING_BACK: u8 = 3;
const SLOW: u8 = 4;

/// A TCP proxy to the server that can stop forwarding without either end noticing.
struct PartitionProxy {
    url: String,
    state: Arc<AtomicU8>,
}

impl PartitionProxy {
    async fn to(url: &str) -> PartitionProxy {
        let state = Arc::new(AtomicU8::new(OPEN));
        let shared = state.clone();
        let url = tcp_proxy::start(url, move |client, server| {
            let state = shared.clone();
            async move {
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::select! {
                    () = forward(from_client, to_server, &state, NOTHING_THERE) => {}
                    () = forward(from_server, to_client, &state, NOTHING_BACK) => {}
                }
            }
        });
        PartitionProxy {
            url: url.await,
            state,
        }
    }
}

/// Forwards bytes while the connection is open, and holds them back while it is not.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &AtomicU8, closed: u8) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        loop {
            match state.load(Ordering::SeqCst) {
                CUT => return,
                state if state == closed => tokio::time::sleep(Duration::from_millis(10)).await,
                SLOW => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    break;
                }
                _ => break,
            }
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// Seeded random generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }
}

/// Runs one scenario: nodes work while their connections open and close. Returns how many facts were acknowledged.
async fn scenario(seed: u64) -> usize {
    let mut random = Random(seed);
    let database = Database::new().await;
    let (acks, effects, answer_log): Records = Default::default();
    let (mut proxies, mut nodes) = (Vec::new(), Vec::new());
    for _ in 0..NODES {
        let proxy = PartitionProxy::to(&database.url).await;
        nodes.push(Node::connect(&proxy.url, &acks, &effects, &answer_log).await);
        proxies.push(proxy);
    }
    let over = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..2 * NODES)
        .map(|task| {
            let (client, over) = (nodes[task % NODES].client.clone(), over.clone());
            tokio::spawn(async move {
                for life in task as u64.. {
                    if over.load(Ordering::SeqCst) {
                        return;
                    }
                    if client.run_one(life).await.is_err() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            })
        })
        .collect();
    for _ in 0..STEPS {
        let proxy = &proxies[random.below(NODES as u64) as usize];
        let state = random.below(5) as u8;
        proxy.state.store(state, Ordering::SeqCst);
        // Both shorter and longer than the statement timeouts.
        let pause = match random.below(4) {
            0 => 12_000,
            _ => 100 + random.below(1_500),
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if random.below(2) == 0 {
            proxy.state.store(OPEN, Ordering::SeqCst);
        }
    }
    for proxy in &proxies {
        proxy.state.store(OPEN, Ordering::SeqCst);
    }
    for node in &nodes {
        node.answers(1, Duration::from_secs(60)).await;
    }
    over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    for node in &nodes {
        node.settle().await;
    }
    let (acks, effects) = (acks.lock().unwrap().clone(), effects.lock().unwrap().clone());
    let store = PostgresStore::connect(&database.url, PostgresOptions::default())
        .await
        .unwrap();
    check(&store, &acks, &effects).await;
    let answer_log = answer_log.lock().unwrap().clone();
    check_answers(&store, &answer_log).await;
    check_end(&database.url, &effects).await;
    acks.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_partitions_between_nodes_and_server() {
    let first: u64 = from_environment("COUNTERSIGN_TEST_SEED", 20);
    let stories = rounds("F20", 4);
    let mut facts = 0;
    for chunk in (first..first + stories as u64)
        .collect::<Vec<_>>()
        .chunks(AT_ONCE)
    {
        say(&format!("seeds {chunk:?}"));
        let told = chunk.iter().map(|seed| tokio::spawn(scenario(*seed)));
        for told in futures_util::future::join_all(told).await {
            facts += told.expect("a scenario of the seeds above goes wrong");
        }
    }
    report(
        "F20",
        "postgres",
        stories,
        &format!("nodes={NODES} acknowledged={facts}"),
    );
}
