//! The write-ahead log: how long it may grow before it is moved into the file.
//!
//! Enters: how much was written. Leaves: a log of bounded length.
//! Deliberately absent: SQLite's own automatic, which does this while callers wait and keeps its failures to itself.

use std::time::Duration;

use rusqlite::Connection;

use super::fault::Fault;
use super::open::BUSY_TIMEOUT;

/// A command changes some ten pages, so it is early enough to look again after so many.
const LOOK_EVERY: usize = 64;

/// Sixteen megabytes: moving the log costs two or three syncs, shared by several hundred commands.
const LONG: i64 = 4_000;

/// Readers that never pause would let it grow for ever; from here on they are waited for.
const TOO_LONG: i64 = 64_000;

/// After so many commands it is worth moving the log while nobody waits: who opens the file after a kill reads all of it.
const WORTH_MOVING: usize = 32;

/// Counts until it is time to look.
#[derive(Debug, Default)]
pub(super) struct Log {
    since_look: usize,
    since_move: usize,
}

impl Log {
    /// Notes that so many commands were committed, and moves the log when it has become long.
    pub(super) fn wrote(&mut self, connection: &Connection, commands: usize) -> Result<(), Fault> {
        self.since_look = self.since_look.saturating_add(commands);
        self.since_move = self.since_move.saturating_add(commands);
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

    /// True when a quiet moment should be used.
    pub(super) fn is_worth_moving(&self) -> bool {
        self.since_move >= WORTH_MOVING
    }

    /// Moves all that can be moved now, and cuts the log off if nobody reads it: only then is there nothing to read
    /// after a kill. Waits for nobody.
    pub(super) fn empty(&mut self, connection: &Connection) -> Result<(), Fault> {
        self.since_move = 0;
        let patience = |time| connection.busy_timeout(time).map_err(|error| Fault::of(&error));
        patience(Duration::ZERO)?;
        let moved = checkpoint(connection, "PRAGMA wal_checkpoint(TRUNCATE)");
        patience(BUSY_TIMEOUT)?;
        moved.map(|_| ())
    }
}

/// The length of the log in pages. One that is busy is looked at again later.
fn checkpoint(connection: &Connection, sql: &str) -> Result<i64, Fault> {
    let run = || connection.prepare_cached(sql)?.query_row([], |row| row.get(1));
    run().map_err(|error| Fault::of(&error))
}
