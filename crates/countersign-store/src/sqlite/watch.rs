//! Watcher thread: wakes callers in this process when another process commits to the same file.
//!
//! Input: notifications that the WAL was written. Output: approvals with events that this process has not published
//! yet, and a signal that something changed. The thread sleeps while nothing is written, and polls only if inotify is
//! unavailable (`wal_watch`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use countersign::id::{ApprovalId, Tenant};
use countersign::store::StoreError;
use countersign::wake::Hub;
use rusqlite::Connection;

use super::load::LoadError;
use super::wal_watch::{StopHandle, WalWatch};
use super::{open, read};

/// Interval between two checks for a new commit. The WAL is written some time before the commit becomes visible, and
/// the moment at which the commit becomes visible is not notified.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Interval while this process writes often. Its writer then notices other processes' commits sooner, and wakes this
/// thread.
const CHECK_INTERVAL_BUSY: Duration = Duration::from_millis(20);
/// Interval while no caller waits. Checks continue, so that a caller that begins to wait meanwhile misses nothing.
const CHECK_INTERVAL_UNWATCHED: Duration = Duration::from_millis(20);
/// Longest time to wait for a commit to become visible. If it takes longer, the commit or its disk has failed.
const LONGEST_COMMIT: Duration = Duration::from_secs(5);
/// Maximum number of events per query.
const PAGE: usize = 1_000;

const UNPUBLISHED: &str =
    "SELECT e.seq, a.tenant, a.id FROM event AS e CROSS JOIN approval AS a ON a.seq = e.approval
    WHERE e.seq > ?1 ORDER BY e.seq LIMIT ?2";

/// Progress shared by the writer and the watcher: the last published event, how often this process has taken the write
/// lock, and whether other processes had written before the last lock.
#[derive(Debug)]
pub(super) struct PublishProgress {
    published: AtomicI64,
    lock_count: AtomicU64,
    others_wrote: AtomicBool,
    wrote_recently: AtomicBool,
    watcher: OnceLock<Thread>,
}

impl PublishProgress {
    pub(super) fn starting_at(seq: i64) -> Arc<PublishProgress> {
        Arc::new(PublishProgress {
            published: AtomicI64::new(seq),
            lock_count: AtomicU64::new(0),
            others_wrote: AtomicBool::new(false),
            wrote_recently: AtomicBool::new(false),
            watcher: OnceLock::new(),
        })
    }

    /// Records that this process took the write lock, so that all earlier commits of other processes are visible now.
    /// `others_wrote` is true if there have been such commits since the last lock.
    pub(super) fn record_lock(&self, others_wrote: bool) {
        if others_wrote {
            self.others_wrote.store(true, Ordering::SeqCst);
        }
        self.lock_count.fetch_add(1, Ordering::SeqCst);
        if others_wrote {
            self.watcher.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// Records the first and last event of a transaction that the writer has published. If unpublished events of other
    /// processes come before the first one, the watcher publishes all of them.
    pub(super) fn record_published(&self, events: Option<(i64, i64)>) {
        if let Some((first, last)) = events {
            self.wrote_recently.store(true, Ordering::SeqCst);
            let before = first.saturating_sub(1);
            let _ = self
                .published
                .compare_exchange(before, last, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}

/// Handle of the watcher thread. Dropping the handle ends the thread.
pub(super) struct Watcher {
    stop_handle: StopHandle,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(super) fn start(
        path: PathBuf,
        hub: Arc<Hub>,
        progress: Arc<PublishProgress>,
    ) -> Result<Watcher, open::OpenError> {
        let connection = open::reader(&path)?;
        let (wal_watch, stop_handle) = WalWatch::start(&path);
        let state = WatcherThread {
            connection,
            wal_watch,
            hub,
            progress: progress.clone(),
            data_version: 0,
        };
        let builder = std::thread::Builder::new().name("countersign-watch".to_owned());
        let thread = builder.spawn(move || state.run());
        let thread = thread.map_err(|error| open::OpenError::Failed(error.to_string()))?;
        let _ = progress.watcher.set(thread.thread().clone());
        Ok(Watcher {
            stop_handle,
            thread: Some(thread),
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop_handle.stop(self.thread.as_ref());
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

struct WatcherThread {
    connection: Connection,
    wal_watch: WalWatch,
    hub: Arc<Hub>,
    progress: Arc<PublishProgress>,
    // SQLite's counter of commits by other connections.
    data_version: i64,
}

impl WatcherThread {
    fn run(mut self) {
        while self.wal_watch.wait() {
            match self.wal_watch.is_polling() {
                true if self.hub.is_idle() => {}
                true => self.check(),
                false => self.check_until_visible(),
            }
        }
    }

    /// Checks repeatedly until the noticed write has become visible, or must have failed.
    fn check_until_visible(&mut self) {
        let mut lock_count = self.progress.lock_count.load(Ordering::SeqCst);
        let mut quiet = Duration::ZERO;
        while quiet < LONGEST_COMMIT && !self.wal_watch.is_stopped() {
            // Most writes are by this process: its writer may take the lock again before a check is needed.
            if self.progress.wrote_recently.swap(false, Ordering::SeqCst) {
                std::thread::park_timeout(CHECK_INTERVAL_BUSY);
            }
            // After this process has taken the write lock, all earlier writes of others are visible.
            let is_last = self.progress.lock_count.load(Ordering::SeqCst) != lock_count;
            // INVARIANT: read after `lock_count`, so it covers everything written before this process took the lock.
            let is_ours = is_last && !self.progress.others_wrote.swap(false, Ordering::SeqCst);
            if !is_ours {
                self.check();
            }
            let interval = match self.hub.is_idle() {
                true => CHECK_INTERVAL_UNWATCHED,
                false if is_ours => CHECK_INTERVAL_BUSY,
                false => CHECK_INTERVAL,
            };
            let pause = interval.max(quiet / 4);
            std::thread::park_timeout(pause);
            match self.wal_watch.was_written() {
                // INVARIANT: read after the notification, so only a lock taken after that write ends the loop.
                true => {
                    (lock_count, quiet) = (self.progress.lock_count.load(Ordering::SeqCst), Duration::ZERO)
                }
                false if is_last => return,
                false => quiet += pause,
            }
        }
    }

    fn check(&mut self) {
        // A failed check is repeated by the next one. No caller waits for its result.
        let _ = self.publish_new();
        let _ = self.signal_change();
    }

    /// Signals a change if the file has changed at all. Other processes also write entries, which have no events.
    fn signal_change(&mut self) -> Result<(), StoreError> {
        if !self.hub.is_followed() {
            return Ok(());
        }
        let version = data_version(&self.connection).map_err(LoadError::from)?;
        if version != self.data_version {
            self.data_version = version;
            self.hub.signal();
        }
        Ok(())
    }

    /// Publishes the approvals of events that this process has not published yet.
    fn publish_new(&mut self) -> Result<(), StoreError> {
        loop {
            let after = self.progress.published.load(Ordering::SeqCst);
            let events = read::in_transaction(&self.connection, |connection| {
                unpublished_events(connection, after)
            })?;
            let Some((last, _, _)) = events.last() else {
                return Ok(());
            };
            for (_, tenant, id) in &events {
                self.publish(tenant, *id)?;
            }
            self.progress.published.fetch_max(*last, Ordering::SeqCst);
        }
    }

    fn publish(&self, tenant: &Tenant, id: ApprovalId) -> Result<(), StoreError> {
        if self.hub.awaited(Some(&[id])).is_empty() {
            return Ok(());
        }
        let approval = read::in_transaction(&self.connection, |connection| {
            read::approval(connection, tenant, id)
        })?;
        if let Some(approval) = approval {
            self.hub.publish(&approval.approval);
        }
        Ok(())
    }
}

/// Returns a number that changes with each commit of another connection.
pub(super) fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    let mut statement = connection.prepare_cached("PRAGMA data_version")?;
    statement.query_row([], |row| row.get(0))
}

type UnpublishedEvent = (i64, Tenant, ApprovalId);

fn unpublished_events(connection: &Connection, after: i64) -> Result<Vec<UnpublishedEvent>, LoadError> {
    let mut statement = connection.prepare_cached(UNPUBLISHED)?;
    let mut rows = statement.query((after, i64::try_from(PAGE).unwrap_or(i64::MAX)))?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let tenant: String = row.get(1)?;
        let tenant = Tenant::new(tenant).map_err(super::fault::damaged)?;
        events.push((row.get(0)?, tenant, super::load::approval_id(row, 2)?));
    }
    Ok(events)
}
