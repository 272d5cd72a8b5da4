//! The write-ahead log: how long it may grow before it is moved into the file.
//!
//! Enters: how much was written. Leaves: a log of bounded length.
//! Deliberately absent: SQLite's own automatic, which does this while callers wait and keeps its failures to itself.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;

use super::fault::Fault;
use super::mover::Mover;
use super::open::BUSY_TIMEOUT;

/// A command changes some ten pages, so it is early enough to look again after so many.
const LOOK_EVERY: usize = 64;

/// Sixteen megabytes that have not been moved: moving them costs two syncs, shared by several hundred commands.
const LONG: i64 = 4_000;

/// Then it is time for the log to begin anew, which it does once nothing is left to be moved: who opens the file after a kill
/// reads all of it.
const OLD: i64 = 8_000;

/// So little the writer moves itself, since nobody else can move the last of it.
const LITTLE: i64 = 1_000;

/// Readers that never pause would let it grow for ever; from here on they are waited for.
const TOO_LONG: i64 = 64_000;

/// After so many commands it is worth moving the log while nobody waits: who opens the file after a kill reads all of it.
const WORTH_MOVING: usize = 32;

/// Counts until it is time to look.
pub(super) struct Log {
    mover: Mover,
    since_look: usize,
    since_move: usize,
}

impl Log {
    /// The log of the database at `path`.
    pub(super) fn of(path: PathBuf) -> Log {
        Log {
            mover: Mover::new(path),
            since_look: 0,
            since_move: 0,
        }
    }

    /// INVARIANT: nothing is written after a sync has failed, whoever's it was.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.mover.check()
    }

    /// Has nothing moved any more.
    pub(super) fn stop(&mut self) {
        self.mover.stop();
    }

    /// Notes that so many commands were committed, and has the log moved when it has become long.
    pub(super) fn wrote(&mut self, connection: &Connection, commands: usize) -> Result<(), Fault> {
        self.since_look = self.since_look.saturating_add(commands);
        self.since_move = self.since_move.saturating_add(commands);
        if self.since_look < LOOK_EVERY {
            return Ok(());
        }
        self.since_look = 0;
        let log = checkpoint(connection, "PRAGMA wal_checkpoint(NOOP)")?;
        match (log.length, log.length - log.moved) {
            (TOO_LONG.., _) => checkpoint(connection, "PRAGMA wal_checkpoint(RESTART)").map(|_| ()),
            (OLD.., ..=LITTLE) => move_now(connection),
            (OLD.., _) | (_, LONG..) => self.mover.begin(),
            _ => Ok(()),
        }
    }

    /// True when a quiet moment should be used.
    pub(super) fn is_worth_moving(&self) -> bool {
        self.since_move >= WORTH_MOVING
    }

    /// Moves all that can be moved now, and cuts the log off if nobody reads it: only then is there nothing to read
    /// after a kill. Waits for no reader.
    pub(super) fn empty(&mut self, connection: &Connection) -> Result<(), Fault> {
        self.since_move = 0;
        self.mover.finish()?;
        let patience = |time| connection.busy_timeout(time).map_err(|error| Fault::of(&error));
        patience(Duration::ZERO)?;
        let moved = checkpoint(connection, "PRAGMA wal_checkpoint(TRUNCATE)");
        patience(BUSY_TIMEOUT)?;
        moved.map(|_| ())
    }
}

/// Moves what readers let us move, and waits for nobody.
pub(super) fn move_now(connection: &Connection) -> Result<(), Fault> {
    checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)").map(|_| ())
}

/// In pages.
struct Length {
    length: i64,
    moved: i64,
}

/// One that is busy is looked at again later.
fn checkpoint(connection: &Connection, sql: &str) -> Result<Length, Fault> {
    let run = || {
        connection.prepare_cached(sql)?.query_row([], |row| {
            Ok(Length {
                length: row.get(1)?,
                moved: row.get(2)?,
            })
        })
    };
    run().map_err(|error| Fault::of(&error))
}
