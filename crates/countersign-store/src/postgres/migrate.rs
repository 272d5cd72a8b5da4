//! The schema: brought forward step by step, never back, each step in one transaction.
//!
//! Enters: a connection. Leaves: a schema this version knows, or the reason why there is none.
//! The table `migration` remembers the SHA-256 of every step, so that a step edited after the fact is noticed.

use countersign::hash::Hash;

use super::connect::{Connector, Session};
use super::error::ConnectError;

/// All steps, in order. A step that was released is never edited.
const STEPS: [(&str, &str); 4] = [
    (
        "0001_approvals",
        include_str!("../../migrations/postgres/0001_approvals.sql"),
    ),
    (
        "0002_entries",
        include_str!("../../migrations/postgres/0002_entries.sql"),
    ),
    (
        "0003_row_security",
        include_str!("../../migrations/postgres/0003_row_security.sql"),
    ),
    (
        "0004_passed",
        include_str!("../../migrations/postgres/0004_passed.sql"),
    ),
];

/// Any number no other program uses: "countersign" in the letters of a telephone.
const LOCK: i64 = 26_868_377_446;

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS migration (
        step       integer PRIMARY KEY,
        name       text NOT NULL,
        sha256     bytea NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    )";

/// Brings the schema forward. Several nodes may do this at once: one works, the others wait and find it done.
pub(super) async fn migrate(connector: &Connector, session: &Session) -> Result<(), ConnectError> {
    let failed = |error| ConnectError::from_driver(&error, connector.target());
    let client = &session.client;
    // A step over a large table takes its time.
    let settings =
        "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0";
    client.batch_execute(settings).await.map_err(failed)?;
    // The lock is the connection's, and goes with it.
    client
        .execute("SELECT pg_advisory_lock($1)", &[&LOCK])
        .await
        .map_err(failed)?;
    if !has_table(session).await.map_err(failed)? {
        client
            .batch_execute("CREATE SCHEMA IF NOT EXISTS countersign")
            .await
            .map_err(failed)?;
        client.batch_execute(TABLE).await.map_err(failed)?;
    }
    let applied = check(&applied(session).await.map_err(failed)?)?;
    for (step, (name, sql)) in (1i32..).zip(STEPS).skip(applied) {
        apply(session, step, name, sql).await.map_err(failed)?;
    }
    client
        .execute("SELECT pg_advisory_unlock($1)", &[&LOCK])
        .await
        .map_err(failed)?;
    Ok(())
}

/// Looks whether the schema is ours, and changes nothing.
pub(super) async fn verify(connector: &Connector, session: &Session) -> Result<(), ConnectError> {
    let failed = |error| ConnectError::from_driver(&error, connector.target());
    let steps = match has_table(session).await.map_err(failed)? {
        true => applied(session).await.map_err(failed)?,
        false => Vec::new(),
    };
    let found = check(&steps)?;
    match found == STEPS.len() {
        true => Ok(()),
        false => Err(ConnectError::OlderSchema {
            found: number(found),
            known: number(STEPS.len()),
        }),
    }
}

async fn has_table(session: &Session) -> Result<bool, tokio_postgres::Error> {
    let sql = "SELECT to_regclass('countersign.migration') IS NOT NULL";
    session.client.query_one(sql, &[]).await?.try_get(0)
}

type Applied = (i32, String, Vec<u8>);

async fn applied(session: &Session) -> Result<Vec<Applied>, tokio_postgres::Error> {
    let rows = session
        .client
        .query("SELECT step, name, sha256 FROM migration ORDER BY step", &[])
        .await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
        .collect()
}

/// How many steps were applied, if they were the first of ours.
fn check(applied: &[Applied]) -> Result<usize, ConnectError> {
    if let Some((found, _, _)) = applied.last()
        && *found > number(STEPS.len())
    {
        return Err(ConnectError::NewerSchema {
            found: *found,
            known: number(STEPS.len()),
        });
    }
    for ((step, (name, sql)), (found, _, sha256)) in (1i32..).zip(STEPS).zip(applied) {
        if step != *found || Hash::of(sql.as_bytes()).0.as_slice() != sha256 {
            return Err(ConnectError::ChangedStep(name.to_owned()));
        }
    }
    Ok(applied.len())
}

async fn apply(session: &Session, step: i32, name: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
    let client = &session.client;
    let run = async {
        client.batch_execute("BEGIN").await?;
        client.batch_execute(sql).await?;
        let remember = "INSERT INTO migration (step, name, sha256) VALUES ($1, $2, $3)";
        let sha256 = Hash::of(sql.as_bytes()).0;
        client
            .execute(remember, &[&step, &name, &sha256.as_slice()])
            .await?;
        client.batch_execute("COMMIT").await
    };
    run.await
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first() -> Applied {
        let (name, sql) = STEPS[0];
        (1, name.to_owned(), Hash::of(sql.as_bytes()).0.to_vec())
    }

    #[test]
    fn h16_refuses_a_newer_schema_and_a_changed_step() {
        assert_eq!(check(&[]), Ok(0));
        assert_eq!(check(&[first()]), Ok(1));
        let newer = [
            first(),
            (number(STEPS.len()) + 1, "later".to_owned(), vec![0; 32]),
        ];
        assert!(matches!(check(&newer), Err(ConnectError::NewerSchema { .. })));
        let changed = [(1, "x".to_owned(), vec![0; 32])];
        assert!(matches!(check(&changed), Err(ConnectError::ChangedStep(_))));
    }
}
