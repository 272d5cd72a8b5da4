//! The write-ahead log: how long it may grow before it is moved into the file.
//!
//! Enters: how much was written. Leaves: a log of bounded length.
//! Deliberately absent: SQLite's own automatic, which does this while callers wait and keeps its failures to itself.

use rusqlite::Connection;

use super::fault::Fault;

/// A command changes some ten pages, so it is early enough to look again after so many.
const LOOK_EVERY: usize = 64;

/// Sixteen megabytes: moving the log costs two or three syncs, shared by several hundred commands.
const LONG: i64 = 4_000;

/// Readers that never pause would let it grow for ever; from here on they are waited for.
const TOO_LONG: i64 = 64_000;

/// Counts until it is time to look.
#[derive(Debug, Default)]
pub(super) struct Log {
    since_look: usize,
}

impl Log {
    /// Notes that so many commands were committed, and moves the log when it has become long.
    pub(super) fn wrote(&mut self, connection: &Connection, commands: usize) -> Result<(), Fault> {
        self.since_look = self.since_look.saturating_add(commands);
        if self.since_look < LOOK_EVERY {
            return Ok(());
        }
        self.since_look = 0;
        match checkpoint(connection, "PRAGMA wal_checkpoint(NOOP)")? {
            TOO_LONG.. => checkpoint(connection, "PRAGMA wal_checkpoint(RESTART)")?,
            LONG.. => checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)")?,
            _ => 0,
        };
        Ok(())
    }

    /// Moves all that can be moved now.
    pub(super) fn empty(&self, connection: &Connection) -> Result<(), Fault> {
        checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)").map(|_| ())
    }
}

/// The length of the log in pages. One that is busy is looked at again later.
fn checkpoint(connection: &Connection, sql: &str) -> Result<i64, Fault> {
    let run = || connection.prepare_cached(sql)?.query_row([], |row| row.get(1));
    run().map_err(|error| Fault::of(&error))
}
