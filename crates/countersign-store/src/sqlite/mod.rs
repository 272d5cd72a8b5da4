//! The SQLite store: one file, one writer thread, and a few reader connections.
//!
//! A command is answered once its writes are safe from a power loss. The rules for commands are in the `countersign`
//! library. No type of the database library appears in the public interface.

mod audit;
mod backup;
mod entries;
mod fault;
mod file_identity;
mod group_commit;
mod integrity;
mod load;
mod log_head;
mod open;
mod read;
mod rows;
mod schema;
mod wal;
mod wal_watch;
mod watch;
mod writer;
mod writer_cache;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command};
use countersign::event::Event;
use countersign::id::{ApprovalId, Channel, Tenant};
use countersign::log::{Checkpoint, LogEntry};
use countersign::registry::{Entry, Kind};
use countersign::store::{
    Audit, AuditProgress, Audited, Cursor, FeedEvent, Filter, Released, Store, StoreError, Stored,
};
use countersign::time::{Clock, ClockTrouble, SystemClock, Time};
use countersign::wake::Hub;
use futures_util::FutureExt;
use futures_util::future::ready;
use rusqlite::{Connection, OptionalExtension};

pub use audit::audit_file;
pub use backup::{Backup, BackupError, check_backup, check_unused};
use fault::Fault;
use file_identity::FileIdentities;
pub use integrity::{Depth, check_integrity};
pub use open::{OpenError, is_unused};
use read::Readers;
use watch::{PublishProgress, Watcher};
use writer::Writer;

/// Key of the setting that holds the `seq` of the last event before a clock reset. The times of events up to that one
/// are ignored when the store's clock starts.
pub const CLOCK_RESET: &str = "clock/reset";

/// Key of the setting that holds the clock's [`Anchor`](countersign::time::Anchor).
pub const CLOCK_ANCHOR: &str = "clock/anchor";

/// Options for opening a [`SqliteStore`].
#[derive(Clone)]
pub struct SqliteOptions {
    /// Clock of the store; the system clock if `None`.
    pub clock: Option<Arc<dyn Clock>>,
    /// True if other processes, such as the command line, may write to the same file. A watcher thread then wakes
    /// callers of this process when another process commits.
    pub other_processes: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions {
            clock: None,
            other_processes: true,
        }
    }
}

/// A store in an SQLite file.
///
/// Dropping the store finishes queued commands and closes the file; [`SqliteStore::close`] does so without blocking.
pub struct SqliteStore {
    path: PathBuf,
    // Drop order matters: readers close first, so that the writer is the last connection and removes the WAL.
    watcher: std::sync::Mutex<Option<Watcher>>,
    readers: Arc<Readers>,
    writer: Writer,
    clock: Arc<dyn Clock>,
    hub: Arc<Hub>,
}

impl SqliteStore {
    /// Opens the store at `path`. A missing file is created, readable only by its owner; another program's file is left
    /// unchanged.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<SqliteStore, OpenError> {
        let connection = open::writer(path.as_ref())?;
        // SQLite resolves symbolic links, and its WAL is next to the real file.
        let path = connection.path().map_or(path.as_ref().to_owned(), PathBuf::from);
        let (last_event, last_time) = last_event(&connection)?;
        // An unreadable anchor is ignored and replaced with the next write.
        let anchor = setting(&connection, CLOCK_ANCHOR)?.and_then(|text| text.parse().ok());
        let file_identities = FileIdentities::record(&path, &connection).map_err(|fault| match fault {
            Fault::Broken(said) => OpenError::Moved(said),
            Fault::Transaction(error) | Fault::Command(error) => OpenError::Failed(error.to_string()),
        })?;
        let clock = options
            .clock
            .unwrap_or_else(|| Arc::new(SystemClock::resuming(last_time, anchor)));
        let hub = Arc::new(Hub::default());
        let progress = PublishProgress::starting_at(last_event);
        let watcher = match options.other_processes {
            true => Some(Watcher::start(path.clone(), hub.clone(), progress.clone())?),
            false => None,
        };
        let writer = Writer::start(connection, file_identities, clock.clone(), hub.clone(), progress);
        Ok(SqliteStore {
            watcher: std::sync::Mutex::new(watcher),
            readers: Readers::new(path.clone()),
            path,
            writer: writer.map_err(|error| OpenError::Failed(error.to_string()))?,
            clock,
            hub,
        })
    }

    /// Copies a consistent snapshot of the store to a new file while reads and writes continue. The checksum of the
    /// copy is written to a second file, with `.sha256` appended to the name.
    pub async fn backup_to(&self, path: impl Into<PathBuf>) -> Result<Backup, BackupError> {
        let (from, to) = (self.path.clone(), path.into());
        let target = to.clone();
        let created = tokio::task::spawn_blocking(move || backup::create(&from, &to)).await;
        created.unwrap_or_else(|error| {
            let reason = error.to_string();
            Err(BackupError::File { path: target, reason })
        })
    }

    /// Finishes queued commands and closes the file. Later calls fail with [`StoreError::Stopped`].
    pub async fn close(&self) {
        let watcher = self
            .watcher
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        // Joining the thread takes some milliseconds, too long for an async worker thread.
        let _ = tokio::task::spawn_blocking(move || drop(watcher)).await;
        self.readers.close();
        self.writer.close().await;
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.readers.close();
    }
}

/// Returns the `seq` and time of the last event. The store's clock never goes back before that time, even if the system
/// clock does. If an operator has reset the clock since the event, the returned time is 0.
fn last_event(connection: &Connection) -> Result<(i64, Time), OpenError> {
    let sql = "SELECT seq, at FROM event ORDER BY seq DESC LIMIT 1";
    let found: Option<(i64, i64)> = connection
        .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (seq, at) = found.unwrap_or_default();
    let reset = setting(connection, CLOCK_RESET)?.and_then(|text| text.parse::<i64>().ok());
    match reset {
        Some(reset) if seq <= reset => Ok((seq, Time::from_micros(0))),
        _ => Ok((seq, Time::from_micros(at))),
    }
}

fn setting(connection: &Connection, key: &str) -> Result<Option<String>, OpenError> {
    let entry = entries::find(connection, Kind::Setting, key)
        .map_err(|error| OpenError::Failed(StoreError::from(error).to_string()))?;
    Ok(entry.and_then(|entry| String::from_utf8(entry.body.to_vec()).ok()))
}

impl Store for SqliteStore {
    fn write(&self, command: Command) -> Stored<'_, Answer> {
        self.writer.write(command).boxed()
    }

    fn approval<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Option<SharedApproval>> {
        self.readers.approval(tenant, id).boxed()
    }

    fn pending_in<'a>(
        &'a self,
        tenant: &'a Tenant,
        channel: &'a Channel,
    ) -> Stored<'a, Option<SharedApproval>> {
        let (tenant, channel, clock) = (tenant.clone(), channel.clone(), self.clock.clone());
        let query =
            move |connection: &Connection| read::pending_in(connection, &tenant, &channel, clock.now());
        self.readers.run_statement(query).boxed()
    }

    fn list<'a>(&'a self, tenant: &'a Tenant, filter: &'a Filter) -> Stored<'a, Vec<SharedApproval>> {
        let (tenant, filter, clock) = (tenant.clone(), filter.clone(), self.clock.clone());
        let query = move |connection: &Connection| read::list(connection, &tenant, &filter, clock.now());
        self.readers.run_blocking(query).boxed()
    }

    fn events<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Vec<Event>> {
        let tenant = tenant.clone();
        let query = move |connection: &Connection| read::events(connection, &tenant, id);
        self.readers.run_blocking(query).boxed()
    }

    fn feed<'a>(&'a self, tenant: &'a Tenant, after: Cursor, limit: usize) -> Stored<'a, Vec<FeedEvent>> {
        let tenant = tenant.clone();
        let query = move |connection: &Connection| read::feed(connection, &tenant, after, limit);
        self.readers.run_blocking(query).boxed()
    }

    fn feed_end<'a>(&'a self, _: &'a Tenant) -> Stored<'a, Cursor> {
        self.readers.run_blocking(read::feed_end).boxed()
    }

    fn log_head(&self) -> Stored<'_, Checkpoint> {
        let query =
            |connection: &Connection| Ok(log_head::StoredLogHead::read(connection)?.head.checkpoint());
        self.readers.run_blocking(query).boxed()
    }

    fn log(&self, from: u64, limit: usize) -> Stored<'_, Vec<LogEntry>> {
        let query = move |connection: &Connection| read::log(connection, from, limit);
        self.readers.run_blocking(query).boxed()
    }

    fn audit<'a>(
        &'a self,
        audit: &'a Audit,
        progress: &'a (dyn Fn(AuditProgress) + Send + Sync),
    ) -> Stored<'a, Audited> {
        audit::audit_file(&self.path, audit, progress).boxed()
    }

    fn released<'a>(&'a self, tenant: &'a Tenant, after: Cursor) -> Stored<'a, Released> {
        let tenant = tenant.clone();
        let query = move |connection: &Connection| read::released(connection, &tenant, after);
        self.readers.run_blocking(query).boxed()
    }

    fn count_pending<'a>(&'a self, tenant: &'a Tenant) -> Stored<'a, u64> {
        let (tenant, clock) = (tenant.clone(), self.clock.clone());
        let query = move |connection: &Connection| read::count_pending(connection, &tenant, clock.now());
        self.readers.run_blocking(query).boxed()
    }

    fn health(&self) -> Result<(), StoreError> {
        self.writer.health()
    }

    fn clock_trouble(&self) -> Option<ClockTrouble> {
        self.clock.trouble()
    }

    fn change_counter(&self) -> Stored<'_, Option<u64>> {
        ready(self.readers.change_counter().map(Some)).boxed()
    }

    fn entry<'a>(&'a self, kind: Kind, key: &'a str) -> Stored<'a, Option<Entry>> {
        let (key, clock) = (key.to_owned(), self.clock.clone());
        let query = move |connection: &Connection| {
            let entry = entries::find(connection, kind, &key)?;
            Ok(entry.filter(|entry| entry.is_live(clock.now())))
        };
        self.readers.run_inline(query).boxed()
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a Tenant,
        kind: Kind,
        after: Option<&'a str>,
        limit: usize,
    ) -> Stored<'a, Vec<Entry>> {
        // The empty string sorts before all keys, none of which is empty.
        let after = after.unwrap_or_default().to_owned();
        let (tenant, clock) = (tenant.clone(), self.clock.clone());
        let query = move |connection: &Connection| {
            entries::list(connection, &tenant, kind, &after, clock.now(), limit)
        };
        self.readers.run_blocking(query).boxed()
    }

    fn now(&self) -> Stored<'_, Time> {
        ready(Ok(self.clock.now())).boxed()
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }
}
