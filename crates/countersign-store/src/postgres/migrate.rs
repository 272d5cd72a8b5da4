//! Migrates the schema: step by step, never back, each step in one transaction.
//!
//! Input: a connection. Output: an up-to-date schema, or the reason why the database cannot be used. The table
//! `migration` records the SHA-256 of every step, so that an edited step is detected.

use countersign::hash::Hash;

use super::connect::{Connector, Session};
use super::error::{ConnectError, StatementError};
use super::limits;

/// All steps, in order. A released step is never edited.
const MIGRATIONS: [(&str, &str); 5] = [
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
    ("0005_log", include_str!("../../migrations/postgres/0005_log.sql")),
];

/// Number of the advisory lock: "countersign" typed on a telephone keypad, which another program is unlikely to use.
const LOCK: i64 = 26_868_377_446;

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS migration (
        step       integer PRIMARY KEY,
        name       text NOT NULL,
        sha256     bytea NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    )";

/// Applies missing steps. Several nodes may call this at once: one applies the steps while the others wait.
pub(super) async fn migrate(connector: &Connector, session: &Session) -> Result<(), ConnectError> {
    let failed = |error| ConnectError::from_statement(&error, connector.target());
    // Usually the schema is up to date, and no lock is needed.
    if check(&applied(session).await.map_err(failed)?)? == MIGRATIONS.len() {
        return Ok(());
    }
    // A step over a large table may take long.
    let settings =
        "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0";
    session
        .within(limits::SHORT, |client| client.batch_execute(settings))
        .await
        .map_err(failed)?;
    // The lock belongs to the connection and is released with it.
    let lock = "SELECT pg_advisory_lock($1)";
    let locked = session
        .within(limits::MIGRATION_LOCK, |client| client.execute(lock, &[&LOCK]))
        .await;
    match locked {
        Err(StatementError::NoAnswer(_)) => return Err(ConnectError::Migrating),
        locked => locked.map_err(failed)?,
    };
    if !has_table(session).await.map_err(failed)? {
        let make = format!("CREATE SCHEMA IF NOT EXISTS countersign; {TABLE}");
        session
            .within(limits::SHORT, |client| client.batch_execute(&make))
            .await
            .map_err(failed)?;
    }
    let applied = check(&applied(session).await.map_err(failed)?)?;
    for (step, (name, sql)) in (1i32..).zip(MIGRATIONS).skip(applied) {
        apply(session, step, name, sql).await.map_err(failed)?;
    }
    let unlock = "SELECT pg_advisory_unlock($1)";
    session
        .within(limits::SHORT, |client| client.execute(unlock, &[&LOCK]))
        .await
        .map_err(failed)?;
    Ok(())
}

/// Checks that the schema is up to date, without changing it.
pub(super) async fn verify(connector: &Connector, session: &Session) -> Result<(), ConnectError> {
    let failed = |error| ConnectError::from_statement(&error, connector.target());
    let found = check(&applied(session).await.map_err(failed)?)?;
    match found == MIGRATIONS.len() {
        true => Ok(()),
        false => Err(ConnectError::OlderSchema {
            found: number(found),
            known: number(MIGRATIONS.len()),
        }),
    }
}

async fn has_table(session: &Session) -> Result<bool, StatementError> {
    let sql = "SELECT to_regclass('countersign.migration') IS NOT NULL";
    session
        .within(limits::SHORT, |client| async {
            client.query_one(sql, &[]).await?.try_get(0)
        })
        .await
}

type Applied = (i32, String, Vec<u8>);

/// Returns the recorded steps; an empty list if there is no `migration` table.
async fn applied(session: &Session) -> Result<Vec<Applied>, StatementError> {
    if !has_table(session).await? {
        return Ok(Vec::new());
    }
    let sql = "SELECT step, name, sha256 FROM migration ORDER BY step";
    let rows = session
        .within(limits::SHORT, |client| client.query(sql, &[]))
        .await?;
    let read = |row: &tokio_postgres::Row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
    rows.iter().map(read).collect()
}

/// Returns the number of applied steps. Fails unless they are the first steps of `MIGRATIONS`, in order.
fn check(applied: &[Applied]) -> Result<usize, ConnectError> {
    if let Some((found, _, _)) = applied.last()
        && *found > number(MIGRATIONS.len())
    {
        return Err(ConnectError::NewerSchema {
            found: *found,
            known: number(MIGRATIONS.len()),
        });
    }
    for ((step, (name, sql)), (found, _, sha256)) in (1i32..).zip(MIGRATIONS).zip(applied) {
        if step != *found || Hash::of(sql.as_bytes()).0.as_slice() != sha256 {
            return Err(ConnectError::ChangedMigration(name.to_owned()));
        }
    }
    Ok(applied.len())
}

async fn apply(session: &Session, step: i32, name: &str, sql: &str) -> Result<(), StatementError> {
    session
        .within(limits::MIGRATION_STEP, |client| async move {
            client.batch_execute("BEGIN").await?;
            client.batch_execute(sql).await?;
            let insert = "INSERT INTO migration (step, name, sha256) VALUES ($1, $2, $3)";
            let sha256 = Hash::of(sql.as_bytes()).0;
            client
                .execute(insert, &[&step, &name, &sha256.as_slice()])
                .await?;
            client.batch_execute("COMMIT").await
        })
        .await
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first() -> Applied {
        let (name, sql) = MIGRATIONS[0];
        (1, name.to_owned(), Hash::of(sql.as_bytes()).0.to_vec())
    }

    #[test]
    fn h16_refuses_a_newer_schema_and_a_changed_step() {
        assert_eq!(check(&[]), Ok(0));
        assert_eq!(check(&[first()]), Ok(1));
        let newer = [
            first(),
            (number(MIGRATIONS.len()) + 1, "later".to_owned(), vec![0; 32]),
        ];
        assert!(matches!(check(&newer), Err(ConnectError::NewerSchema { .. })));
        let changed = [(1, "x".to_owned(), vec![0; 32])];
        assert!(matches!(check(&changed), Err(ConnectError::ChangedMigration(_))));
    }
}
