//! Connections that break before, during and after the commit. The answer is either right or in doubt.

use std::time::{Duration, Instant};

use countersign::event::EventKind;
use countersign::id::Tenant;
use countersign::state::State;
use countersign::store::{Store, StoreError};
use countersign_store::postgres::{PostgresOptions, PostgresStore};

use crate::proxy::Proxy;
use crate::support::{approve, database, id, new_approval, open, propose, raw, stored, try_propose};

#[tokio::test]
async fn recovers_after_all_connections_were_killed() {
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
    // The listener has reconnected too.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let other = open(&url).await;
    propose(&store, new_approval(2)).await;
    let waiter = store.hub().wait_for(id(2));
    approve(&other, 2).await.unwrap().accepted().unwrap();
    let woken = tokio::time::timeout(Duration::from_millis(1100), waiter.changed()).await;
    assert!(woken.unwrap().is_some());
}

/// Returns how often the connection is cut at every byte, from `COUNTERSIGN_TEST_F11`. `None` means that it is cut
/// once, at some of the bytes.
fn repeats() -> Option<usize> {
    let text = std::env::var("COUNTERSIGN_TEST_F11").ok()?;
    Some(text.parse().expect("a number"))
}

/// Command that is in flight when the connection is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Propose,
    /// A decision together with the start of its call.
    Approve,
}

/// Results of cuts at many points of the exchange.
#[derive(Default)]
struct Cuts {
    cuts: usize,
    committed: usize,
    aborted: usize,
    /// Number of commits whose outcome the store could not determine in time. This happens on a busy machine.
    in_doubt: usize,
}

/// Cuts the connection to the server at many points of the exchange, and checks that every answer is true. Repeats run
/// in parallel, each with a connection of its own, because a cut mostly waits for the next connection.
#[expect(clippy::print_stdout, reason = "a script collects the figures")]
async fn check_cuts(operation: Operation, step: i64, cut: fn(&Proxy, i64)) -> Cuts {
    let url = database().await;
    let direct = open(&url).await;
    let (step, repeats) = repeats().map_or((step, 1), |repeats| (1, repeats));
    let passes = (0..repeats as u64).map(|pass| cut_everywhere(&url, &direct, operation, pass, step, cut));
    let mut all = Cuts::default();
    for pass in futures_util::future::join_all(passes).await {
        all.cuts += pass.cuts;
        all.committed += pass.committed;
        all.aborted += pass.aborted;
        all.in_doubt += pass.in_doubt;
    }
    let Cuts {
        cuts,
        committed,
        aborted,
        in_doubt,
    } = all;
    assert!(in_doubt <= cuts / 100, "{in_doubt} of {cuts} are in doubt");
    println!(
        "F11 postgres rounds={cuts} violations=0 operation={operation:?} every={step} committed={committed} aborted={aborted} in_doubt={in_doubt}"
    );
    all
}

/// Cuts once at every `step`th byte of the exchange.
async fn cut_everywhere(
    url: &str,
    direct: &PostgresStore,
    operation: Operation,
    pass: u64,
    step: i64,
    cut: fn(&Proxy, i64),
) -> Cuts {
    let proxy = Proxy::before(url).await;
    let options = PostgresOptions {
        lanes: 1,
        notify: false,
        migrate: false,
        ..PostgresOptions::default()
    };
    let store = PostgresStore::connect(&proxy.url, options).await.unwrap();
    let mut found = Cuts::default();
    for place in 0.. {
        let number = pass * 1_000_000 + 1 + place;
        // Makes sure that a connection is open, so that the cut falls into the exchange.
        propose(&store, new_approval(1_000_000_000 + number)).await;
        if operation == Operation::Approve {
            propose(direct, new_approval(number)).await;
        }
        cut(&proxy, i64::try_from(place).unwrap() * step);
        let answer = match operation {
            Operation::Propose => try_propose(&store, new_approval(number)).await.map(|_| ()),
            Operation::Approve => approve(&store, number)
                .await
                .map(|answer| assert_eq!(answer.started, Some(1))),
        };
        let was_cut = proxy.mend();
        found.cuts += usize::from(was_cut);
        let there = match operation {
            Operation::Propose => stored(direct, number).await.is_some(),
            Operation::Approve => stored(direct, number).await.unwrap().state == State::Approved,
        };
        match answer {
            Ok(()) => {
                found.committed += usize::from(was_cut);
                assert!(there, "cut {place}: said to be there");
            }
            Err(StoreError::Unavailable(_)) => {
                found.aborted += 1;
                assert!(!there, "cut {place}: said not to be there");
            }
            Err(StoreError::InDoubt(_)) => found.in_doubt += 1,
            Err(error) => panic!("cut {place}: {error:?}"),
        }
        if operation == Operation::Approve {
            // A second attempt starts the call or is told that it was started; never both.
            let _ = approve(direct, number).await.unwrap();
        }
        let events = direct.events(&Tenant::single(), id(number)).await.unwrap();
        let starts = events
            .iter()
            .filter(|event| matches!(event.what, EventKind::Started { .. }));
        let expected = usize::from(operation == Operation::Approve);
        assert_eq!(starts.count(), expected, "I2: cut {place}");
        if !was_cut {
            // The exchange is shorter than this offset: all points were tried.
            break;
        }
    }
    found
}

#[tokio::test]
async fn f11_cut_on_the_way_to_the_server() {
    for operation in [Operation::Propose, Operation::Approve] {
        let Cuts { aborted, .. } = check_cuts(operation, 31, Proxy::cut_to_server).await;
        assert!(aborted > 20, "{aborted}");
    }
}

#[tokio::test]
async fn f11_cut_on_the_way_back() {
    for operation in [Operation::Propose, Operation::Approve] {
        let Cuts {
            committed, aborted, ..
        } = check_cuts(operation, 7, Proxy::cut_to_client).await;
        assert!(
            committed >= 3,
            "{committed}: the COMMIT went through, and its answer did not"
        );
        assert!(aborted >= 3, "{aborted}");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_reported() {
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
async fn a_closed_store_reports_it() {
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
