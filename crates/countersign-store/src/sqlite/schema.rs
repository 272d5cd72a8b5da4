//! The schema and its migrations.
//!
//! Input: a writable connection. Output: a database with the newest schema, or the reason why the file cannot be used.
//! There are no downgrades: an older version of this program refuses a newer file.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use sha2::{Digest, Sha256};

use super::load::LoadError;
use super::log_head::StoredLogHead;
use super::open::OpenError;

/// SQLite application id ("csgn") in the header of every store file, which distinguishes it from other programs' files.
pub(super) const APPLICATION_ID: i64 = 0x6373_676e;

type DataMigration = fn(&Connection) -> Result<(), LoadError>;

/// A migration. Its checksum is stored in every file it was applied to, so it must never be changed after a release.
struct Migration {
    version: i64,
    sql: &'static str,
    /// Additional work that SQL cannot do, in the same transaction.
    data_migration: Option<DataMigration>,
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        sql: include_str!("../../migrations/sqlite/0001_first.sql"),
        data_migration: None,
    },
    Migration {
        version: 2,
        sql: include_str!("../../migrations/sqlite/0002_entries.sql"),
        data_migration: None,
    },
    Migration {
        version: 3,
        sql: include_str!("../../migrations/sqlite/0003_passed.sql"),
        data_migration: None,
    },
    Migration {
        version: 4,
        sql: include_str!("../../migrations/sqlite/0004_log.sql"),
        data_migration: Some(|connection| StoredLogHead::current(connection)?.write(connection)),
    },
];

const MIGRATION_TABLE: &str = "CREATE TABLE IF NOT EXISTS migration (
    version  INTEGER PRIMARY KEY,
    checksum BLOB NOT NULL CHECK (length(checksum) = 32)
) STRICT";

/// Returns the schema version that this program writes.
pub(super) fn newest() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

/// Identification of a database file: application id, schema version and number of tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileHeader {
    application_id: i64,
    version: i64,
    tables: i64,
}

impl FileHeader {
    /// Length of the SQLite header in bytes.
    pub(super) const LENGTH: usize = 100;

    /// Decodes the first bytes of a file; `None` if they are not an SQLite header. Empty bytes give an empty header.
    /// Any other file is assumed to contain tables.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<FileHeader> {
        let number = |at: usize| {
            let four = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(i64::from(i32::from_be_bytes(four)))
        };
        if bytes.is_empty() {
            return Some(FileHeader {
                application_id: 0,
                version: 0,
                tables: 0,
            });
        }
        bytes.starts_with(b"SQLite format 3\0").then_some(())?;
        Some(FileHeader {
            application_id: number(68)?,
            version: number(60)?,
            tables: 1,
        })
    }

    pub(super) fn read(connection: &Connection) -> rusqlite::Result<FileHeader> {
        // Use one transaction, because another process may be creating this file. The caller may have begun a
        // transaction already.
        let needs_transaction = connection.is_autocommit();
        let _transaction = needs_transaction
            .then(|| connection.unchecked_transaction())
            .transpose()?;
        let number = |sql| connection.query_row(sql, [], |row| row.get(0));
        Ok(FileHeader {
            application_id: number("PRAGMA application_id")?,
            version: number("PRAGMA user_version")?,
            tables: number("SELECT count(*) FROM sqlite_schema")?,
        })
    }

    /// Fails if the file belongs to another program or was written by a newer version of this one.
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

/// Migrates the file to the newest schema, and checks that its applied migrations are the known ones.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), OpenError> {
    let header = FileHeader::read(connection)?;
    header.check()?;
    if !header.is_newest() {
        for migration in MIGRATIONS {
            apply(connection, migration)?;
        }
    }
    MIGRATIONS
        .iter()
        .try_for_each(|migration| check_applied(connection, migration))
}

/// Checks that a file has the newest schema and the known migrations. Changes nothing.
pub(super) fn check(connection: &Connection) -> Result<(), OpenError> {
    let header = FileHeader::read(connection)?;
    header.check()?;
    if !header.is_newest() {
        return Err(OpenError::Older {
            found: header.version,
            known: newest(),
        });
    }
    MIGRATIONS
        .iter()
        .try_for_each(|migration| check_applied(connection, migration))
}

/// Applies a migration and sets the schema version in one transaction, so a crash leaves either all of it or nothing.
fn apply(connection: &mut Connection, migration: &Migration) -> Result<(), OpenError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated the file; check again under the lock.
    let header = FileHeader::read(&transaction)?;
    header.check()?;
    if header.version >= migration.version {
        return Ok(());
    }
    transaction.execute_batch(MIGRATION_TABLE)?;
    transaction.execute_batch(migration.sql)?;
    if let Some(data_migration) = migration.data_migration {
        data_migration(&transaction).map_err(|error| match error {
            LoadError::Sql(error) => OpenError::from(error),
            LoadError::Damaged(error) => OpenError::Failed(error.to_string()),
        })?;
    }
    transaction.execute(
        "INSERT INTO migration (version, checksum) VALUES (?1, ?2)",
        (migration.version, checksum(migration.sql)),
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", migration.version)?;
    transaction.commit()?;
    Ok(())
}

fn check_applied(connection: &Connection, migration: &Migration) -> Result<(), OpenError> {
    let sql = "SELECT checksum FROM migration WHERE version = ?1";
    let found: Option<Vec<u8>> = connection
        .query_row(sql, [migration.version], |row| row.get(0))
        .optional()?;
    match found.is_some_and(|found| found == checksum(migration.sql)) {
        true => Ok(()),
        false => Err(OpenError::ChangedMigration {
            version: migration.version,
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
    fn migrations_are_numbered_without_gaps() {
        let versions: Vec<i64> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        let expected: Vec<i64> = (1..).take(MIGRATIONS.len()).collect();
        assert_eq!(versions, expected);
    }

    #[test]
    fn a_migrated_store_accepts_passed_calls() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let mut connection = Connection::open(&path).unwrap();
        MIGRATIONS[..2]
            .iter()
            .for_each(|migration| apply(&mut connection, migration).unwrap());
        let insert = |connection: &Connection, n: u8, state: u8| {
            let sql = "INSERT INTO approval (tenant, id, agent, state, version, body) VALUES ('t', ?1, 'a', ?2, 1, x'')";
            connection.execute(sql, (vec![n; 16], state))
        };
        insert(&connection, 1, 5).unwrap();
        insert(&connection, 2, 6).unwrap_err();
        // Another process has the file open and has read the old schema.
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
    fn i16_the_migration_counts_earlier_events() {
        let mut connection = Connection::open_in_memory().unwrap();
        for migration in &MIGRATIONS[..3] {
            apply(&mut connection, migration).unwrap();
        }
        let sql = "INSERT INTO approval (seq, tenant, id, agent, state, version, body) VALUES (1, 't', ?1, 'a', 1, 3, x'')";
        connection.execute(sql, [vec![7; 16]]).unwrap();
        let mut expected = countersign::log::LogHead::default();
        for number in 1..=3u8 {
            let link = [number; 32];
            let sql = "INSERT INTO event (approval, number, at, policy, by, what, link) VALUES (1, ?1, 0, 1, 'gate', '', ?2)";
            connection.execute(sql, (number, link)).unwrap();
            let link = countersign::hash::Hash(link);
            expected.push(countersign::log::leaf("t", &[7; 16], number.into(), link));
        }
        migrate(&mut connection).unwrap();
        let found = StoredLogHead::read(&connection).unwrap();
        assert_eq!((found.head, found.last), (expected, 3));
    }

    #[test]
    fn a_changed_migration_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        connection
            .execute("UPDATE migration SET checksum = zeroblob(32)", [])
            .unwrap();
        assert!(matches!(
            migrate(&mut connection),
            Err(OpenError::ChangedMigration { version: 1 })
        ));
    }
}
