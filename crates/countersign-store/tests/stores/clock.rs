//! M2: a decision that waited for the file's lock past expiry is refused. The same test for PostgreSQL is in
//! `postgres/clock.rs`.

use std::time::Duration;

use countersign::command::{Answer, Command};
use countersign::decision::Refusal;
use countersign::state::State;
use countersign::store::suite::{Fixture, sample};
use countersign::time::Clock as _;
use rusqlite::Connection;

use crate::database::open_sqlite;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_a_decision_that_waited_past_expiry_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = Fixture::clock();
    let fixture = Fixture::new(open_sqlite(&path, clock.clone()), clock.clone());
    let late = fixture.propose(sample::propose(1)).await;
    let other = fixture.propose(sample::propose(2)).await;

    let connect = || {
        let connection = Connection::open(&path).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        connection
    };
    let holder = connect();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store = fixture.store.clone();
    let decision = Command::Decide(Box::new(sample::approve(&late)));
    let decided = tokio::spawn(async move { store.write(decision).await.unwrap() });
    // Control: the naive guard approves too late, because its clock is read before the lock.
    let naive = {
        let (connection, now) = (connect(), clock.now().as_micros());
        tokio::task::spawn_blocking(move || {
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            let sql =
                "UPDATE approval SET state = 1, due_at = NULL WHERE id = ?1 AND state = 0 AND due_at > ?2";
            let changed = connection.execute(sql, (other.id.as_bytes(), now)).unwrap();
            connection.execute_batch("ROLLBACK").unwrap();
            changed
        })
    };
    // By now both wait for the lock.
    tokio::time::sleep(Duration::from_millis(300)).await;
    clock.advance(sample::TTL);
    holder.execute_batch("ROLLBACK").unwrap();

    let Answer::Decide(answer) = decided.await.unwrap() else {
        panic!("not the answer to a decision");
    };
    let expired = Refusal::Expired {
        id: late.id,
        at: late.expires_at,
    };
    assert_eq!(answer.refusal, Some(expired));
    assert_eq!(fixture.get(&late).await.state, State::Expired);
    assert_eq!(naive.await.unwrap(), 1, "the naive guard accepts after expiry");
}
