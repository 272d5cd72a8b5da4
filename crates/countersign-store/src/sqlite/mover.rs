//! A thread that moves the log into the file while the writer goes on writing to it.
//!
//! Enters: that the log is long. Leaves: a file that holds what the log held then, or why it does not.
//! Deliberately absent: the end of the log. It begins anew only when nothing is left in it, and what was written meanwhile is
//! left: that little is the writer's.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::fault::Fault;
use super::{log, open};

/// Begins its thread when there is something to move: most logs are moved in a quiet moment, by the writer itself.
pub(super) struct Mover {
    path: PathBuf,
    at_work: Option<AtWork>,
}

struct AtWork {
    shared: Arc<Shared>,
    requests: SyncSender<()>,
    thread: JoinHandle<()>,
}

struct Shared {
    // Held while it moves.
    connection: Mutex<Connection>,
    broken: OnceLock<String>,
}

impl Mover {
    pub(super) fn new(path: PathBuf) -> Mover {
        Mover { path, at_work: None }
    }

    /// Fails once a sync of the thread has failed.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let broken = self.at_work.as_ref().and_then(|work| work.shared.broken.get());
        broken.map_or(Ok(()), |reason| Err(Fault::Broken(reason.clone())))
    }

    /// Has the log moved, and does not wait for it.
    pub(super) fn begin(&mut self) -> Result<(), Fault> {
        self.check()?;
        let work = match &mut self.at_work {
            Some(work) => work,
            none => none.insert(AtWork::begin(&self.path)?),
        };
        // Full: that request stands for this one, too.
        let _ = work.requests.try_send(());
        Ok(())
    }

    /// Waits until nothing is being moved.
    pub(super) fn finish(&self) -> Result<(), Fault> {
        if let Some(work) = &self.at_work {
            drop(
                work.shared
                    .connection
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
        self.check()
    }

    /// Ends the thread, with what it is at.
    pub(super) fn stop(&mut self) {
        if let Some(work) = self.at_work.take() {
            drop(work.requests);
            // A panic was reported where it happened.
            let _ = work.thread.join();
        }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.stop();
    }
}

impl AtWork {
    fn begin(path: &Path) -> Result<AtWork, Fault> {
        let failed = |error: String| Fault::Transaction(countersign::store::StoreError::Unavailable(error));
        let connection = open::mover(path).map_err(|error| failed(error.to_string()))?;
        let shared = Arc::new(Shared {
            connection: Mutex::new(connection),
            broken: OnceLock::new(),
        });
        let (requests, queue) = sync_channel(1);
        let builder = std::thread::Builder::new().name("countersign-move".to_owned());
        let thread = builder.spawn({
            let shared = shared.clone();
            move || run(&shared, &queue)
        });
        Ok(AtWork {
            shared,
            requests,
            thread: thread.map_err(|error| failed(error.to_string()))?,
        })
    }
}

fn run(shared: &Shared, queue: &Receiver<()>) {
    while queue.recv().is_ok() {
        let connection = shared.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(Fault::Broken(reason)) = log::move_now(&connection) {
            // INVARIANT: a sync that failed is never tried again.
            let _ = shared.broken.set(reason);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database with something in its log, and what wrote it.
    fn written(folder: &Path) -> (PathBuf, Connection) {
        let path = folder.join("store.db");
        let connection = open::writer(&path).unwrap();
        connection
            .execute_batch("CREATE TABLE note (text); INSERT INTO note VALUES ('a')")
            .unwrap();
        (path, connection)
    }

    /// How many pages of the log have not been moved.
    fn left(path: &Path) -> i64 {
        let ask = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?);
        let looking = open::mover(path).unwrap();
        looking.query_row("PRAGMA wal_checkpoint(NOOP)", [], ask).unwrap()
    }

    #[test]
    fn the_log_is_moved_while_the_writer_writes() {
        let folder = tempfile::tempdir().unwrap();
        let (path, connection) = written(folder.path());
        assert!(left(&path) > 0);
        let mut mover = Mover::new(path.clone());
        connection
            .execute_batch("BEGIN IMMEDIATE; INSERT INTO note VALUES ('b')")
            .unwrap();
        mover.begin().unwrap();
        mover.stop();
        assert_eq!(left(&path), 0, "all that was committed");
        connection.execute_batch("COMMIT").unwrap();
        assert!(left(&path) > 0, "what was written meanwhile is left");
        mover.begin().unwrap();
        mover.stop();
        assert_eq!(left(&path), 0);
    }
}
