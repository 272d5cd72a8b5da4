//! Checkpoint policy of the write-ahead log (WAL): when the writer copies it into the database file.
//!
//! Input: the number of commands committed. Output: a WAL of bounded length. SQLite's automatic checkpoint is not used,
//! because it runs while callers wait and does not report failures.

use std::time::Duration;

use rusqlite::Connection;

use super::fault::Fault;
use super::open::BUSY_TIMEOUT;

/// Number of commands between two checks of the WAL's length. A command changes about ten pages.
const CHECK_EVERY: usize = 64;

/// Number of pages not yet checkpointed (16 MB) from which the writer checkpoints them. A checkpoint costs two syncs,
/// shared by several hundred commands.
const LONG_PAGES: i64 = 4_000;

/// Length in pages from which the WAL should restart, which needs a complete checkpoint. After a crash the whole WAL is
/// read when the file is opened.
const RESTART_PAGES: i64 = 8_000;

/// Length in pages from which the writer waits for readers. Continuous readers would otherwise let the WAL grow
/// forever.
const BLOCKING_PAGES: i64 = 64_000;

/// Number of commands after which an idle writer checkpoints the WAL, so that less of it has to be read after a crash.
const IDLE_CHECKPOINT_COMMANDS: usize = 32;

/// Counts commands since the last length check and since the last idle checkpoint.
#[derive(Default)]
pub(super) struct CheckpointPolicy {
    since_check: usize,
    since_checkpoint: usize,
}

impl CheckpointPolicy {
    /// Records that `commands` were committed, and checkpoints the WAL if it has become long.
    pub(super) fn record_commands(&mut self, connection: &Connection, commands: usize) -> Result<(), Fault> {
        self.since_check = self.since_check.saturating_add(commands);
        self.since_checkpoint = self.since_checkpoint.saturating_add(commands);
        if self.since_check < CHECK_EVERY {
            return Ok(());
        }
        self.since_check = 0;
        let wal = run_pragma(connection, "PRAGMA wal_checkpoint(NOOP)")?;
        match (wal.length, wal.length - wal.checkpointed) {
            (BLOCKING_PAGES.., _) => run_pragma(connection, "PRAGMA wal_checkpoint(RESTART)").map(|_| ()),
            // Copies as much as readers permit, without waiting for them.
            (RESTART_PAGES.., _) | (_, LONG_PAGES..) => {
                run_pragma(connection, "PRAGMA wal_checkpoint(PASSIVE)").map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Returns true if enough commands have been committed for a checkpoint while the writer is idle.
    pub(super) fn is_due_when_idle(&self) -> bool {
        self.since_checkpoint >= IDLE_CHECKPOINT_COMMANDS
    }

    /// Checkpoints as much as possible, and truncates the WAL if no reader uses it. Only a truncated WAL leaves nothing
    /// to be read after a crash. Does not wait for readers.
    pub(super) fn truncate(&mut self, connection: &Connection) -> Result<(), Fault> {
        self.since_checkpoint = 0;
        let set_busy_timeout = |time| connection.busy_timeout(time).map_err(|error| Fault::of(&error));
        set_busy_timeout(Duration::ZERO)?;
        let checkpointed = run_pragma(connection, "PRAGMA wal_checkpoint(TRUNCATE)");
        set_busy_timeout(BUSY_TIMEOUT)?;
        checkpointed.map(|_| ())
    }
}

/// Length of the WAL, and how much of it is checkpointed, in pages.
struct WalLength {
    length: i64,
    checkpointed: i64,
}

/// Runs a checkpoint pragma. A busy database is not an error: the result then shows how far the checkpoint came.
fn run_pragma(connection: &Connection, sql: &str) -> Result<WalLength, Fault> {
    let run = || {
        connection.prepare_cached(sql)?.query_row([], |row| {
            Ok(WalLength {
                length: row.get(1)?,
                checkpointed: row.get(2)?,
            })
        })
    };
    run().map_err(|error| Fault::of(&error))
}
