//! Time and order: commands that wait for a lock, and the feed meanwhile.

use std::time::Duration;

use countersign::command::{Answer, Command, Propose, Sweep};
use countersign::decision::Refusal;
use countersign::hash::Hash;
use countersign::id::Tenant;
use countersign::state::State;
use countersign::store::{Cursor, Filter, Store, StoreError};
use countersign_store::postgres::{PostgresOptions, PostgresStore};

use crate::support::{approve, database, feed, id, in_channel, new_approval, open, propose, raw, stored};

fn short_lived(number: u64) -> Propose {
    Propose {
        ttl: Duration::from_millis(700),
        ..new_approval(number)
    }
}

/// A decision that waited for a lock until its approval had expired is refused, by the server's own clock.
#[tokio::test]
async fn m1_a_decision_that_waited_past_expiry_is_refused() {
    let url = database().await;
    let store = open(&url).await;
    propose(&store, short_lived(1)).await;
    propose(&store, short_lived(2)).await;
    let holder = raw(&url).await;
    holder
        .batch_execute("BEGIN; SELECT 1 FROM approval FOR UPDATE")
        .await
        .unwrap();

    let late = async { approve(&store, 1).await.unwrap() };
    // Control: the naive guard in one statement approves too late, because its clock is read before the wait.
    let client = raw(&url).await;
    let naive = "UPDATE approval SET state = 1, due_at = NULL
                 WHERE id = $1 AND state = 0 AND expires_at > (extract(epoch FROM now()) * 1000000)::bigint";
    let number = id(2);
    let bytes = number.as_bytes().as_slice();
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&bytes];
    let naive = client.execute(naive, &parameters);
    let release = async {
        tokio::time::sleep(Duration::from_millis(1200)).await;
        holder.batch_execute("ROLLBACK").await.unwrap();
    };
    let (late, naive, ()) = futures_util::future::join3(late, naive, release).await;

    assert!(matches!(late.refusal, Some(Refusal::Expired { .. })), "{late:?}");
    assert_eq!(late.started, None);
    assert_eq!(stored(&store, 1).await.unwrap().state, State::Expired);
    assert_eq!(naive.unwrap(), 1, "the naive guard accepts after expiry");
}

/// A decision that waited for a lock sees the approval as decided meanwhile, with its calls.
#[tokio::test]
async fn rows_are_read_after_the_lock_is_granted() {
    let url = database().await;
    let (one, other) = (open(&url).await, open(&url).await);
    propose(&one, new_approval(1)).await;
    let holder = raw(&url).await;
    holder
        .batch_execute("BEGIN; SELECT 1 FROM approval FOR UPDATE")
        .await
        .unwrap();
    let release = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        holder.batch_execute("ROLLBACK").await.unwrap();
    };
    let (first, second, ()) =
        futures_util::future::join3(approve(&one, 1), approve(&other, 1), release).await;
    let answers = [first.unwrap(), second.unwrap()];
    let started = answers.iter().filter(|answer| answer.started.is_some()).count();
    let refused = answers
        .iter()
        .filter(|answer| matches!(answer.refusal, Some(Refusal::AlreadyDecided { .. })));
    assert_eq!((started, refused.count()), (1, 1), "{answers:?}");
}

/// A proposal that waited for its channel's pending approval finds the channel free once that is decided.
#[tokio::test]
async fn a_proposal_continues_after_the_approval_it_waited_for_is_decided() {
    let url = database().await;
    let (one, other) = (open(&url).await, open(&url).await);
    propose(&one, in_channel(1, "c")).await;
    let holder = raw(&url).await;
    holder
        .batch_execute("BEGIN; SELECT 1 FROM approval FOR UPDATE")
        .await
        .unwrap();
    let second = async {
        // Queues behind the decision.
        tokio::time::sleep(Duration::from_millis(200)).await;
        propose(&other, in_channel(2, "c")).await
    };
    let release = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        holder.batch_execute("ROLLBACK").await.unwrap();
    };
    let (decided, second, ()) = futures_util::future::join3(approve(&one, 1), second, release).await;
    assert_eq!(decided.unwrap().started, Some(1));
    assert_eq!(second.replaces, None);
    assert_eq!(stored(&one, 1).await.unwrap().state, State::Approved);
}

/// A lock held for too long fails the waiting command as busy, and no other.
#[tokio::test]
async fn a_lock_held_too_long_is_reported_as_busy() {
    let url = database().await;
    let store = open(&url).await;
    propose(&store, new_approval(1)).await;
    let holder = raw(&url).await;
    holder
        .batch_execute("BEGIN; SELECT 1 FROM approval FOR UPDATE")
        .await
        .unwrap();
    let begun = std::time::Instant::now();
    let busy = approve(&store, 1).await;
    assert!(matches!(busy, Err(StoreError::Busy(_))), "{busy:?}");
    assert!(begun.elapsed() < Duration::from_secs(8));
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(approve(&store, 1).await.unwrap().started, Some(1));
}

/// In a group commit, only the command whose row is locked fails.
#[tokio::test]
async fn each_command_of_a_group_keeps_its_own_outcome() {
    let url = database().await;
    let options = PostgresOptions {
        lanes: 1,
        ..PostgresOptions::default()
    };
    let store = PostgresStore::connect(&url, options).await.unwrap();
    for number in 0..20 {
        propose(&store, new_approval(number)).await;
    }
    let holder = raw(&url).await;
    let number = id(7);
    holder.batch_execute("BEGIN").await.unwrap();
    holder
        .query(
            "SELECT 1 FROM approval WHERE id = $1 FOR UPDATE",
            &[&number.as_bytes().as_slice()],
        )
        .await
        .unwrap();
    let begun = std::time::Instant::now();
    let answers = futures_util::future::join_all((0..20).map(|number| approve(&store, number))).await;
    assert!(begun.elapsed() < Duration::from_secs(6));
    for (number, answer) in answers.into_iter().enumerate() {
        match number {
            7 => assert!(matches!(answer, Err(StoreError::Busy(_))), "{answer:?}"),
            _ => assert_eq!(answer.unwrap().started, Some(1), "{number}"),
        }
    }
}

/// An event that commits late is placed after all events returned before.
#[tokio::test]
async fn the_feed_never_skips_a_late_commit() {
    let url = database().await;
    let store = open(&url).await;
    let tenant = Tenant::single();
    let insert = |number: u8| {
        format!(
            "INSERT INTO event (seq, tenant, approval, number, at, policy, by, what, link)
             VALUES (1, 'main', decode(repeat('0{number}', 16), 'hex'), 1, 0, decode(repeat('00', 32), 'hex'), 'gate',
                     '{{\"what\":\"expired\"}}', decode(repeat('00', 32), 'hex'))"
        )
    };
    let (early, late) = (raw(&url).await, raw(&url).await);
    early.batch_execute("BEGIN").await.unwrap();
    early.batch_execute(&insert(1)).await.unwrap();
    late.batch_execute("BEGIN").await.unwrap();
    late.batch_execute(&insert(2)).await.unwrap();
    late.batch_execute("COMMIT").await.unwrap();
    // The second is committed, but a reader that saw it now would later skip the first.
    assert!(
        store
            .feed(&tenant, Cursor::default(), 10)
            .await
            .unwrap()
            .is_empty()
    );
    early.batch_execute("COMMIT").await.unwrap();
    let all = feed(&store, 2).await;
    assert_eq!(all.len(), 2);
    assert!(all[0].cursor < all[1].cursor);
    let rest = store.feed(&tenant, all[0].cursor, 10).await.unwrap();
    assert_eq!(rest, all[1..]);
    let other = Tenant::new("other").unwrap();
    assert!(
        store
            .feed(&other, Cursor::default(), 10)
            .await
            .unwrap()
            .is_empty(),
        "X20"
    );
}

/// The sweep uses the server's clock and skips rows that others have locked.
#[tokio::test]
async fn the_sweep_skips_locked_rows() {
    let url = database().await;
    let store = open(&url).await;
    for number in 1..=3 {
        propose(&store, short_lived(number)).await;
    }
    propose(&store, new_approval(4)).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    let pending = store.list(&Tenant::single(), &Filter::pending()).await.unwrap();
    assert_eq!(
        pending.len(),
        1,
        "what has expired is not pending, whether swept or not"
    );
    let holder = raw(&url).await;
    let number = id(2);
    let lock = "SELECT 1 FROM approval WHERE id = $1 FOR UPDATE";
    holder.batch_execute("BEGIN").await.unwrap();
    holder
        .query(lock, &[&number.as_bytes().as_slice()])
        .await
        .unwrap();
    let sweep = || {
        store.write(Command::Sweep(Sweep {
            limit: 10,
            policy: Hash([1; 32]),
        }))
    };
    let Answer::Sweep(swept) = sweep().await.unwrap() else {
        panic!()
    };
    assert_eq!(swept.expired, 2);
    holder.batch_execute("ROLLBACK").await.unwrap();
    let Answer::Sweep(swept) = sweep().await.unwrap() else {
        panic!()
    };
    assert_eq!(swept.expired, 1);
}
