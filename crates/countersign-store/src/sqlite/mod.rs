//! The SQLite store: one file, one writing thread, a few readers.
//!
//! Enters: commands and questions. Leaves: answers that survive a power cut.
//! Deliberately absent: rules (they are the library's), and any type of the database in what is public here.

mod backup;
mod entries;
mod fault;
mod gather;
mod load;
mod log;
mod mover;
mod open;
mod own;
mod read;
mod recent;
mod rows;
mod schema;
mod sign;
mod watch;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command};
use countersign::event::Event;
use countersign::id::{ApprovalId, Channel, Tenant};
use countersign::registry::{Entry, Kind};
use countersign::store::{Cursor, FeedEvent, Filter, Released, Store, Stored};
use countersign::time::{Clock, SystemClock, Time};
use countersign::wake::Hub;
use futures_util::FutureExt;
use futures_util::future::ready;
use rusqlite::{Connection, OptionalExtension};

pub use backup::{Backup, BackupError, check_backup};
pub use open::OpenError;
use read::Readers;
use recent::Recent;
use watch::{Seen, Watcher};
use writer::Writer;

/// How a file is used.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The clock to live by; the machine's own when there is none.
    pub clock: Option<Arc<dyn Clock>>,
    /// True when other processes may write to the same file, such as the command line. Their writes wake who waits
    /// here.
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

/// Keeps approvals in an SQLite file.
///
/// Dropping it finishes what was queued and closes the file; [`SqliteStore::close`] does so without blocking.
pub struct SqliteStore {
    path: PathBuf,
    // Dropped in this order: who only reads first, so that the writer is the last and leaves no log behind.
    watcher: std::sync::Mutex<Option<Watcher>>,
    readers: Arc<Readers>,
    writer: Writer,
    clock: Arc<dyn Clock>,
    hub: Arc<Hub>,
}

impl SqliteStore {
    /// Opens the store in this file. A file that is not there is made, for its owner only; one that is not ours is
    /// left as it is.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<SqliteStore, OpenError> {
        let connection = open::writer(path.as_ref())?;
        // With links followed, as SQLite did: its log stands beside the file itself.
        let path = connection.path().map_or(path.as_ref().to_owned(), PathBuf::from);
        let (last_event, last_time) = last_event(&connection)?;
        let clock = options
            .clock
            .unwrap_or_else(|| Arc::new(SystemClock::starting_at(last_time)));
        let hub = Arc::new(Hub::default());
        let seen = Seen::up_to(last_event);
        let watcher = match options.other_processes {
            true => Some(Watcher::start(path.clone(), hub.clone(), seen.clone())?),
            false => None,
        };
        let recent = Arc::new(Recent::default());
        let writer = Writer::start(
            connection,
            path.clone(),
            clock.clone(),
            hub.clone(),
            seen,
            recent.clone(),
        );
        Ok(SqliteStore {
            watcher: std::sync::Mutex::new(watcher),
            readers: Readers::new(path.clone(), recent),
            path,
            writer: writer.map_err(|error| OpenError::Failed(error.to_string()))?,
            clock,
            hub,
        })
    }

    /// Copies the whole store to a new file, as it is at one moment; others go on reading and writing. Beside it, at the
    /// same name with `.sha256` behind it, stands its checksum.
    pub async fn backup_to(&self, path: impl Into<PathBuf>) -> Result<Backup, BackupError> {
        let (from, to) = (self.path.clone(), path.into());
        let place = to.clone();
        let made = tokio::task::spawn_blocking(move || backup::make(&from, &to)).await;
        made.unwrap_or_else(|error| {
            let reason = error.to_string();
            Err(BackupError::File { path: place, reason })
        })
    }

    /// Finishes what was queued and closes the file. Whoever asks later is told that the store stopped.
    pub async fn close(&self) {
        let watcher = self
            .watcher
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        // Ending the thread takes some milliseconds; not on a thread that others need.
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

/// The number and time of the last event: time never goes back behind it, whatever the machine's clock says now.
fn last_event(connection: &Connection) -> Result<(i64, Time), OpenError> {
    let sql = "SELECT seq, at FROM event ORDER BY seq DESC LIMIT 1";
    let found: Option<(i64, i64)> = connection
        .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (seq, at) = found.unwrap_or_default();
    Ok((seq, Time::from_micros(at)))
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
        let look =
            move |connection: &Connection| read::pending_in(connection, &tenant, &channel, clock.now());
        self.readers.glance(look).boxed()
    }

    fn list<'a>(&'a self, tenant: &'a Tenant, filter: &'a Filter) -> Stored<'a, Vec<SharedApproval>> {
        let (tenant, filter, clock) = (tenant.clone(), filter.clone(), self.clock.clone());
        let look = move |connection: &Connection| read::list(connection, &tenant, &filter, clock.now());
        self.readers.read(look).boxed()
    }

    fn events<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Vec<Event>> {
        let tenant = tenant.clone();
        let look = move |connection: &Connection| read::events(connection, &tenant, id);
        self.readers.read(look).boxed()
    }

    fn feed<'a>(&'a self, tenant: &'a Tenant, after: Cursor, limit: usize) -> Stored<'a, Vec<FeedEvent>> {
        let tenant = tenant.clone();
        let look = move |connection: &Connection| read::feed(connection, &tenant, after, limit);
        self.readers.read(look).boxed()
    }

    fn feed_end<'a>(&'a self, _: &'a Tenant) -> Stored<'a, Cursor> {
        self.readers.read(read::feed_end).boxed()
    }

    fn released<'a>(&'a self, tenant: &'a Tenant, after: Cursor) -> Stored<'a, Released> {
        let tenant = tenant.clone();
        let look = move |connection: &Connection| read::released(connection, &tenant, after);
        self.readers.read(look).boxed()
    }

    fn stamp(&self) -> Stored<'_, Option<u64>> {
        ready(self.readers.stamp().map(Some)).boxed()
    }

    fn entry<'a>(&'a self, kind: Kind, key: &'a str) -> Stored<'a, Option<Entry>> {
        let (key, clock) = (key.to_owned(), self.clock.clone());
        let look = move |connection: &Connection| {
            let entry = entries::find(connection, kind, &key)?;
            Ok(entry.filter(|entry| entry.is_there(clock.now())))
        };
        self.readers.glance_once(look).boxed()
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a Tenant,
        kind: Kind,
        after: Option<&'a str>,
        limit: usize,
    ) -> Stored<'a, Vec<Entry>> {
        // No key is empty.
        let after = after.unwrap_or_default().to_owned();
        let (tenant, clock) = (tenant.clone(), self.clock.clone());
        let look = move |connection: &Connection| {
            entries::list(connection, &tenant, kind, &after, clock.now(), limit)
        };
        self.readers.read(look).boxed()
    }

    fn now(&self) -> Stored<'_, Time> {
        ready(Ok(self.clock.now())).boxed()
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }
}
