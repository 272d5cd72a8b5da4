//! Background checkpointer: a thread that copies the WAL into the database file while the writer keeps appending to the
//! WAL.
//!
//! Input: requests to checkpoint. Output: a database file that contains what the WAL held at the time of the request,
//! or the reason why a sync failed.
//! Not here: restarting the WAL. SQLite restarts it only once all of it is checkpointed, including the few pages that
//! the writer has appended meanwhile; the writer checkpoints those itself.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::fault::Fault;
use super::{open, wal};

/// Handle of the checkpointer. Its thread starts with the first request, because most WALs never get long enough to
/// need it: the writer checkpoints them while it is idle.
pub(super) struct Checkpointer {
    path: PathBuf,
    running: Option<CheckpointThread>,
}

struct CheckpointThread {
    shared: Arc<CheckpointState>,
    requests: SyncSender<()>,
    thread: JoinHandle<()>,
}

struct CheckpointState {
    // Locked during a checkpoint.
    connection: Mutex<Connection>,
    broken: OnceLock<String>,
}

impl Checkpointer {
    pub(super) fn new(path: PathBuf) -> Checkpointer {
        Checkpointer { path, running: None }
    }

    /// Fails if an earlier sync of the checkpointer has failed.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let broken = self
            .running
            .as_ref()
            .and_then(|running_thread| running_thread.shared.broken.get());
        broken.map_or(Ok(()), |reason| Err(Fault::Broken(reason.clone())))
    }

    /// Requests a checkpoint without waiting for it.
    pub(super) fn request(&mut self) -> Result<(), Fault> {
        self.check()?;
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(CheckpointThread::start(&self.path)?),
        };
        // If the channel is full, the queued request covers this one.
        let _ = running.requests.try_send(());
        Ok(())
    }

    /// Waits for a running checkpoint to end. Fails if a sync of the checkpointer has failed.
    pub(super) fn wait(&self) -> Result<(), Fault> {
        if let Some(running_thread) = &self.running {
            drop(
                running_thread
                    .shared
                    .connection
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
        self.check()
    }

    /// Stops the thread and waits for it. A running checkpoint is finished first.
    pub(super) fn stop(&mut self) {
        if let Some(running_thread) = self.running.take() {
            drop(running_thread.requests);
            // A panic was reported where it happened.
            let _ = running_thread.thread.join();
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl CheckpointThread {
    fn start(path: &Path) -> Result<CheckpointThread, Fault> {
        let failed = |error: String| Fault::Transaction(countersign::store::StoreError::Unavailable(error));
        let connection = open::checkpointer(path).map_err(|error| failed(error.to_string()))?;
        let shared = Arc::new(CheckpointState {
            connection: Mutex::new(connection),
            broken: OnceLock::new(),
        });
        let (requests, queue) = sync_channel(1);
        let builder = std::thread::Builder::new().name("countersign-move".to_owned());
        let thread = builder.spawn({
            let shared = shared.clone();
            move || run(&shared, &queue)
        });
        Ok(CheckpointThread {
            shared,
            requests,
            thread: thread.map_err(|error| failed(error.to_string()))?,
        })
    }
}

fn run(shared: &CheckpointState, queue: &Receiver<()>) {
    while queue.recv().is_ok() {
        let connection = shared.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(Fault::Broken(reason)) = wal::run_passive(&connection) {
            // INVARIANT: a failed sync is never retried, because a later sync could succeed without the lost pages.
            let _ = shared.broken.set(reason);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a database with pages in its WAL, and returns the connection that wrote them.
    fn store_with_wal(folder: &Path) -> (PathBuf, Connection) {
        let path = folder.join("store.db");
        let connection = open::writer(&path).unwrap();
        connection
            .execute_batch("CREATE TABLE note (text); INSERT INTO note VALUES ('a')")
            .unwrap();
        (path, connection)
    }

    /// Returns the number of WAL pages that have not been checkpointed.
    fn pages_left(path: &Path) -> i64 {
        let count = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?);
        let connection = open::checkpointer(path).unwrap();
        connection
            .query_row("PRAGMA wal_checkpoint(NOOP)", [], count)
            .unwrap()
    }

    #[test]
    fn checkpoints_while_the_writer_writes() {
        let folder = tempfile::tempdir().unwrap();
        let (path, connection) = store_with_wal(folder.path());
        assert!(pages_left(&path) > 0);
        let mut checkpointer = Checkpointer::new(path.clone());
        connection
            .execute_batch("BEGIN IMMEDIATE; INSERT INTO note VALUES ('b')")
            .unwrap();
        checkpointer.request().unwrap();
        checkpointer.stop();
        assert_eq!(pages_left(&path), 0, "all that was committed");
        connection.execute_batch("COMMIT").unwrap();
        assert!(pages_left(&path) > 0, "what was written meanwhile is left");
        checkpointer.request().unwrap();
        checkpointer.stop();
        assert_eq!(pages_left(&path), 0);
    }
}
