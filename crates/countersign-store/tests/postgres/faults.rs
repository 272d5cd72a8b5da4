//! Connections that die: before, during and after the commit. The answer is right, or says that it does not know.

use std::time::{Duration, Instant};

use countersign::id::Tenant;
use countersign::store::{Store, StoreError};
use countersign_store::postgres::{PostgresOptions, PostgresStore};

use crate::proxy::Proxy;
use crate::support::{approve, database, id, new_approval, open, propose, raw, stored, try_propose};

#[tokio::test]
async fn works_again_after_every_connection_was_killed() {
    let url = database().await;
    let store = open(&url).await;
    propose(&store, new_approval(1)).await;
    assert!(stored(&store, 1).await.is_some());
    let killer = raw(&url).await;
    killer
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'countersign'",
            &[],
        )
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(stored(&store, 1).await.is_some());
    assert_eq!(approve(&store, 1).await.unwrap().started, Some(1));
    // The listener came back too.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let other = open(&url).await;
    propose(&store, new_approval(2)).await;
    let waiter = store.hub().wait_for(id(2));
    approve(&other, 2).await.unwrap();
    let woken = tokio::time::timeout(Duration::from_millis(1100), waiter.changed()).await;
    assert!(woken.unwrap().is_some());
}

/// Cuts the road to the server at many places of the exchange. Whatever the answer, it is true.
async fn check_cuts(step: i64, cut: impl Fn(&Proxy, i64)) -> (usize, usize) {
    let url = database().await;
    let direct = open(&url).await;
    let proxy = Proxy::before(&url).await;
    let options = PostgresOptions {
        lanes: 1,
        notify: false,
        migrate: false,
        ..PostgresOptions::default()
    };
    let store = PostgresStore::connect(&proxy.url, options).await.unwrap();
    let (mut committed, mut aborted) = (0, 0);
    for number in 0u64.. {
        // A connection that stands, so that the cut falls into the exchange.
        propose(&store, new_approval(1_000_000 + number)).await;
        cut(&proxy, number as i64 * step);
        let answer = try_propose(&store, new_approval(number)).await;
        let was_cut = proxy.mend();
        let there = stored(&direct, number).await;
        match answer {
            Ok(proposed) => {
                committed += usize::from(was_cut);
                assert_eq!(there, Some(proposed.approval), "cut {number}: said to be there");
                let events = direct.events(&Tenant::single(), id(number)).await.unwrap();
                assert_eq!(events.len(), 1);
            }
            Err(StoreError::Unavailable(_)) => {
                aborted += 1;
                assert_eq!(there, None, "cut {number}: said not to be there");
            }
            Err(error) => panic!("cut {number}: {error:?}"),
        }
        if !was_cut {
            // The exchange is shorter than that: every place was tried.
            return (committed, aborted);
        }
    }
    unreachable!()
}

#[tokio::test]
async fn f11_cut_on_the_way_to_the_server() {
    let (_, aborted) = check_cuts(31, Proxy::cut_to_server).await;
    assert!(aborted > 20, "{aborted}");
}

#[tokio::test]
async fn f11_cut_on_the_way_back() {
    let (committed, aborted) = check_cuts(7, Proxy::cut_to_client).await;
    assert!(
        committed >= 3,
        "{committed}: the COMMIT went through, and its answer did not"
    );
    assert!(aborted >= 3, "{aborted}");
}

#[tokio::test]
async fn a_server_that_is_gone_is_said_to_be_gone() {
    let url = database().await;
    let store = open(&url).await;
    propose(&store, new_approval(1)).await;
    let server = raw(&crate::support::server()).await;
    let (_, name) = url.rsplit_once('/').unwrap();
    server
        .batch_execute(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
        .await
        .unwrap();
    let kill = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    server.batch_execute(&kill).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    for _ in 0..3 {
        let answer = approve(&store, 1).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    assert!(store.approval(&Tenant::single(), id(1)).await.is_err());
    assert!(begun.elapsed() < Duration::from_secs(3));
    server
        .batch_execute(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(approve(&store, 1).await.unwrap().started, Some(1));
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let url = database().await;
    let store = open(&url).await;
    propose(&store, new_approval(1)).await;
    assert!(!format!("{store:?}").contains('@'), "{store:?}");
    store.close();
    let answer = try_propose(&store, new_approval(2)).await;
    assert!(matches!(answer, Err(StoreError::Stopped(_))), "{answer:?}");
    drop(store);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let client = raw(&url).await;
    let left = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'countersign'";
    let row = client.query_one(left, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0, "no connection outlives its store");
}
