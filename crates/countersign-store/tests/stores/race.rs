//! Races on both databases. On PostgreSQL two nodes share the tasks, so that the server has to arbitrate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign::store::Store;
use countersign::store::suite::{Fixture, race};

use crate::database::{Database, open_postgres, sqlite};
use crate::figures::{report, rounds};
use crate::layer::{Layer, Layered};

/// A store that passes its calls on to several nodes in turn.
struct InTurn {
    nodes: [Arc<dyn Store>; 2],
    calls: AtomicUsize,
}

impl Layer for InTurn {
    fn store(&self) -> &dyn Store {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        &*self.nodes[call % self.nodes.len()]
    }
}

async fn two_nodes() -> Fixture {
    let database = Database::new().await;
    let clock = Fixture::clock();
    let nodes = [
        open_postgres(database.url.clone(), clock.clone()).await,
        open_postgres(database.url.clone(), clock.clone()).await,
    ];
    let calls = AtomicUsize::new(0);
    Fixture::new(Arc::new(Layered(InTurn { nodes, calls })), clock).keeping(database)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_race_decides_on_postgres() {
    let rounds = rounds("F14", 1_000);
    race::race_decides(&two_nodes().await.store, 64, rounds).await;
    report("F14", "postgres", rounds, "tasks=64 nodes=2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_race_decides_on_sqlite() {
    let rounds = rounds("F14", 500);
    race::race_decides(&sqlite().await.store, 16, rounds).await;
    report("F14", "sqlite", rounds, "tasks=16");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f15_race_all_pairs_on_postgres() {
    let rounds = rounds("F15", 100);
    assert_eq!(race::race_all_pairs(&two_nodes().await, rounds).await.len(), 10);
    report("F15", "postgres", rounds, "pairs=10 nodes=2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f15_race_all_pairs_on_sqlite() {
    let rounds = rounds("F15", 100);
    assert_eq!(race::race_all_pairs(&sqlite().await, rounds).await.len(), 10);
    report("F15", "sqlite", rounds, "pairs=10");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i2_race_starts_on_postgres() {
    race::race_starts(&two_nodes().await.store, 32, 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i2_race_starts_on_sqlite() {
    race::race_starts(&sqlite().await.store, 16, 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a17_race_undos_on_postgres() {
    race::race_undos(&two_nodes().await.store, 8, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a17_race_undos_on_sqlite() {
    race::race_undos(&sqlite().await.store, 8, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_race_proposals_on_postgres() {
    race::race_proposals(&two_nodes().await.store, 16, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_race_proposals_on_sqlite() {
    race::race_proposals(&sqlite().await.store, 16, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_race_on_postgres() {
    race::race_quorums(&two_nodes().await.store, 16, 30, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_race_on_sqlite() {
    race::race_quorums(&sqlite().await.store, 16, 30, 3).await;
}
