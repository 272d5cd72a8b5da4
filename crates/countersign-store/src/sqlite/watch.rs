//! Other processes: wakes who waits here for what another process commits to the same file.
//!
//! Enters: a sign that somebody wrote to the log. Leaves: the approvals whose events nobody here has published yet, and
//! the signal that something changed.
//! Deliberately absent: any work while nothing is written; see `sign` for the systems where that cannot be had.

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
use super::sign::{Ringer, Sign};
use super::{open, read};

/// The log is written some time before its commit can be seen, and nothing tells of the latter. So we look again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// While this process writes again and again, its writer sees what others wrote sooner than we would, and wakes us.
const LOOK_AGAIN_BUSY: Duration = Duration::from_millis(20);
/// Also while nobody waits: who comes in between must not miss it.
const LOOK_AGAIN_UNWATCHED: Duration = Duration::from_millis(20);
/// A commit that takes longer than this has failed, or its disk has.
const LONGEST_COMMIT: Duration = Duration::from_secs(5);
/// Events looked through at a time.
const PAGE: usize = 1_000;

const NEW: &str =
    "SELECT e.seq, a.tenant, a.id FROM event AS e CROSS JOIN approval AS a ON a.seq = e.approval
    WHERE e.seq > ?1 ORDER BY e.seq LIMIT ?2";

/// How far the events are published, whoever wrote them, how often this process began to write, and whether it then found
/// that others had.
#[derive(Debug)]
pub(super) struct Seen {
    published: AtomicI64,
    began: AtomicU64,
    others: AtomicBool,
    wrote: AtomicBool,
    watcher: OnceLock<Thread>,
}

impl Seen {
    pub(super) fn up_to(seq: i64) -> Arc<Seen> {
        Arc::new(Seen {
            published: AtomicI64::new(seq),
            began: AtomicU64::new(0),
            others: AtomicBool::new(false),
            wrote: AtomicBool::new(false),
            watcher: OnceLock::new(),
        })
    }

    /// This process got the write lock: what others wrote before can be seen now, and it says whether they did.
    pub(super) fn begin(&self, others_wrote: bool) {
        if others_wrote {
            self.others.store(true, Ordering::SeqCst);
        }
        self.began.fetch_add(1, Ordering::SeqCst);
        if others_wrote {
            self.watcher.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// The writer published its own events. When others stand before them, the watcher goes through all of them.
    pub(super) fn published(&self, events: Option<(i64, i64)>) {
        if let Some((first, last)) = events {
            self.wrote.store(true, Ordering::SeqCst);
            let before = first.saturating_sub(1);
            let _ = self
                .published
                .compare_exchange(before, last, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}

/// The watching thread. Dropping this ends it.
pub(super) struct Watcher {
    ringer: Ringer,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(super) fn start(path: PathBuf, hub: Arc<Hub>, seen: Arc<Seen>) -> Result<Watcher, open::OpenError> {
        let connection = open::reader(&path)?;
        let (sign, ringer) = Sign::of_writing(&path);
        let watch = Watch {
            connection,
            sign,
            hub,
            seen: seen.clone(),
            data_version: 0,
        };
        let builder = std::thread::Builder::new().name("countersign-watch".to_owned());
        let thread = builder.spawn(move || watch.run());
        let thread = thread.map_err(|error| open::OpenError::Failed(error.to_string()))?;
        let _ = seen.watcher.set(thread.thread().clone());
        Ok(Watcher {
            ringer,
            thread: Some(thread),
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.ringer.stop(self.thread.as_ref());
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

struct Watch {
    connection: Connection,
    sign: Sign,
    hub: Arc<Hub>,
    seen: Arc<Seen>,
    // Changes with each commit, whoever made it.
    data_version: i64,
}

impl Watch {
    fn run(mut self) {
        while self.sign.wait() {
            match self.sign.is_poll() {
                true if self.hub.is_idle() => {}
                true => self.look(),
                false => self.follow(),
            }
        }
    }

    /// Looks until what was being written can be seen, or never will be.
    fn follow(&mut self) {
        let mut began = self.seen.began.load(Ordering::SeqCst);
        let mut quiet = Duration::ZERO;
        while quiet < LONGEST_COMMIT && !self.sign.is_over() {
            // Who writes just now is mostly this process: its writer may be there again before we have to look.
            if self.seen.wrote.swap(false, Ordering::SeqCst) {
                std::thread::park_timeout(LOOK_AGAIN_BUSY);
            }
            // Once we had the lock ourselves, all that others wrote before is there to be seen.
            let is_last = self.seen.began.load(Ordering::SeqCst) != began;
            // INVARIANT: asked behind `began`, so it speaks of all that was written before that lock was ours.
            let is_ours = is_last && !self.seen.others.swap(false, Ordering::SeqCst);
            if !is_ours {
                self.look();
            }
            let least = match self.hub.is_idle() {
                true => LOOK_AGAIN_UNWATCHED,
                false if is_ours => LOOK_AGAIN_BUSY,
                false => LOOK_AGAIN,
            };
            let pause = least.max(quiet / 4);
            std::thread::park_timeout(pause);
            match self.sign.again() {
                // INVARIANT: counted behind the sign, so only a lock we got after that write ends the looking.
                true => (began, quiet) = (self.seen.began.load(Ordering::SeqCst), Duration::ZERO),
                false if is_last => return,
                false => quiet += pause,
            }
        }
    }

    fn look(&mut self) {
        // A failed look is made good by the next one; there is nobody to tell.
        let _ = self.publish_new();
        let _ = self.signal_change();
    }

    /// Events are not all that others write: there are entries, too. So this goes by the file as a whole.
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

    /// Goes through the events that nobody here has published yet.
    fn publish_new(&mut self) -> Result<(), StoreError> {
        loop {
            let after = self.seen.published.load(Ordering::SeqCst);
            let new = read::in_transaction(&self.connection, |connection| new(connection, after))?;
            let Some((last, _, _)) = new.last() else {
                return Ok(());
            };
            for (_, tenant, id) in &new {
                self.publish(tenant, *id)?;
            }
            self.seen.published.fetch_max(*last, Ordering::SeqCst);
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

/// A number that changes with each commit of another connection.
pub(super) fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    let mut statement = connection.prepare_cached("PRAGMA data_version")?;
    statement.query_row([], |row| row.get(0))
}

type New = (i64, Tenant, ApprovalId);

fn new(connection: &Connection, after: i64) -> Result<Vec<New>, LoadError> {
    let mut statement = connection.prepare_cached(NEW)?;
    let mut rows = statement.query((after, i64::try_from(PAGE).unwrap_or(i64::MAX)))?;
    let mut new = Vec::new();
    while let Some(row) = rows.next()? {
        let tenant: String = row.get(1)?;
        let tenant = Tenant::new(tenant).map_err(super::fault::damaged)?;
        new.push((row.get(0)?, tenant, super::load::approval_id(row, 2)?));
    }
    Ok(new)
}
