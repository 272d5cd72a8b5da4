//! The schema and the steps that lead to it.
//!
//! Enters: a connection that may write. Leaves: a database of the newest schema, or why there is none.
//! Deliberately absent: steps back. An older version of ours refuses a newer file.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use sha2::{Digest, Sha256};

use super::open::OpenError;

/// Written into every file of ours ("csgn"), so that nobody takes another program's file for one.
pub(super) const APPLICATION_ID: i64 = 0x6373_676e;

/// A step, once released, is never changed: its checksum is kept in every file it was applied to.
struct Step {
    version: i64,
    sql: &'static str,
}

const STEPS: &[Step] = &[
    Step {
        version: 1,
        sql: include_str!("../../migrations/sqlite/0001_first.sql"),
    },
    Step {
        version: 2,
        sql: include_str!("../../migrations/sqlite/0002_entries.sql"),
    },
    Step {
        version: 3,
        sql: include_str!("../../migrations/sqlite/0003_passed.sql"),
    },
];

const MIGRATION_TABLE: &str = "CREATE TABLE IF NOT EXISTS migration (
    version  INTEGER PRIMARY KEY,
    checksum BLOB NOT NULL CHECK (length(checksum) = 32)
) STRICT";

/// The schema this version writes.
pub(super) fn newest() -> i64 {
    STEPS.last().map_or(0, |step| step.version)
}

/// What a file says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    application_id: i64,
    version: i64,
    tables: i64,
}

impl Label {
    /// The bytes at the beginning of a file that say what it is.
    pub(super) const HEADER: usize = 100;

    /// What the first bytes of a file say. A file without any is empty; one that has begun is taken to hold tables.
    pub(super) fn from_header(bytes: &[u8]) -> Option<Label> {
        let number = |at: usize| {
            let four = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(i64::from(i32::from_be_bytes(four)))
        };
        if bytes.is_empty() {
            return Some(Label {
                application_id: 0,
                version: 0,
                tables: 0,
            });
        }
        bytes.starts_with(b"SQLite format 3\0").then_some(())?;
        Some(Label {
            application_id: number(68)?,
            version: number(60)?,
            tables: 1,
        })
    }

    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Label> {
        // All from one moment: somebody may be making this very file. Within a transaction it is one anyway.
        let outside = connection.is_autocommit();
        let _moment = outside.then(|| connection.unchecked_transaction()).transpose()?;
        let number = |sql| connection.query_row(sql, [], |row| row.get(0));
        Ok(Label {
            application_id: number("PRAGMA application_id")?,
            version: number("PRAGMA user_version")?,
            tables: number("SELECT count(*) FROM sqlite_schema")?,
        })
    }

    /// Refuses what is not ours, and what only a newer version can read.
    pub(super) fn check(self) -> Result<(), OpenError> {
        let is_empty = self.tables == 0 && self.application_id == 0 && self.version == 0;
        match self.application_id {
            _ if is_empty => Ok(()),
            APPLICATION_ID if self.version <= newest() => Ok(()),
            APPLICATION_ID => Err(OpenError::Newer {
                found: self.version,
                known: newest(),
            }),
            found => Err(OpenError::Foreign { found }),
        }
    }

    pub(super) fn is_newest(self) -> bool {
        self.application_id == APPLICATION_ID && self.version == newest()
    }
}

/// Brings the file to the newest schema and checks that the steps behind it are the ones we know.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), OpenError> {
    let label = Label::read(connection)?;
    label.check()?;
    if !label.is_newest() {
        for step in STEPS {
            apply(connection, step)?;
        }
    }
    STEPS.iter().try_for_each(|step| check_applied(connection, step))
}

/// One step is one transaction, with the version it leads to: a crash leaves the step out or all of it in.
fn apply(connection: &mut Connection, step: &Step) -> Result<(), OpenError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster; only under the lock is this certain.
    let label = Label::read(&transaction)?;
    label.check()?;
    if label.version >= step.version {
        return Ok(());
    }
    transaction.execute_batch(MIGRATION_TABLE)?;
    transaction.execute_batch(step.sql)?;
    transaction.execute(
        "INSERT INTO migration (version, checksum) VALUES (?1, ?2)",
        (step.version, checksum(step.sql)),
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", step.version)?;
    transaction.commit()?;
    Ok(())
}

fn check_applied(connection: &Connection, step: &Step) -> Result<(), OpenError> {
    let sql = "SELECT checksum FROM migration WHERE version = ?1";
    let found: Option<Vec<u8>> = connection
        .query_row(sql, [step.version], |row| row.get(0))
        .optional()?;
    match found.is_some_and(|found| found == checksum(step.sql)) {
        true => Ok(()),
        false => Err(OpenError::ChangedStep {
            version: step.version,
        }),
    }
}

fn checksum(sql: &str) -> [u8; 32] {
    Sha256::digest(sql.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbered_without_gaps() {
        let versions: Vec<i64> = STEPS.iter().map(|step| step.version).collect();
        let expected: Vec<i64> = (1..).take(STEPS.len()).collect();
        assert_eq!(versions, expected);
    }

    #[test]
    fn a_store_of_before_passed_calls_takes_them_after_its_migration() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let mut connection = Connection::open(&path).unwrap();
        STEPS[..2]
            .iter()
            .for_each(|step| apply(&mut connection, step).unwrap());
        let insert = |connection: &Connection, n: u8, state: u8| {
            let sql = "INSERT INTO approval (tenant, id, agent, state, version, body) VALUES ('t', ?1, 'a', ?2, 1, x'')";
            connection.execute(sql, (vec![n; 16], state))
        };
        insert(&connection, 1, 5).unwrap();
        insert(&connection, 2, 6).unwrap_err();
        // Another process has the file open, and has read the old schema.
        let other = Connection::open(&path).unwrap();
        insert(&other, 3, 6).unwrap_err();
        migrate(&mut connection).unwrap();
        insert(&connection, 4, 6).unwrap();
        insert(&other, 5, 6).unwrap();
        insert(&connection, 6, 7).unwrap_err();
        let fresh = Connection::open(&path).unwrap();
        insert(&fresh, 7, 6).unwrap();
        insert(&fresh, 8, 7).unwrap_err();
        let sound: String = fresh
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
        let writable: i64 = connection
            .query_row("PRAGMA writable_schema", [], |row| row.get(0))
            .unwrap();
        assert_eq!(writable, 0);
    }

    #[test]
    fn a_changed_step_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        connection
            .execute("UPDATE migration SET checksum = zeroblob(32)", [])
            .unwrap();
        assert!(matches!(
            migrate(&mut connection),
            Err(OpenError::ChangedStep { version: 1 })
        ));
    }
}
