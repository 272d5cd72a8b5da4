//! The writer thread: owns the writing connection and runs all queued commands in one transaction (group commit).
//!
//! Input: commands, each with a channel for its answer. Output: answers, sent after the commit.
//! The rules are in the library. A failed fsync is never retried: the store stops.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command};
use countersign::store::StoreError;
use countersign::time::Clock;
use countersign::wake::Hub;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Fault;
use super::file_identity::FileIdentities;
use super::group_commit::{Arrivals, CallerReturns, LARGEST_GROUP};
use super::log_head::StoredLogHead;
use super::rows::SqlRows;
use super::wal::CheckpointPolicy;
use super::watch::{PublishProgress, data_version};
use super::writer_cache::WriterCache;

/// Time for which the queue must be empty before the writer checkpoints the WAL.
const QUIET: Duration = Duration::from_millis(200);

type CommandResult = Result<Answer, StoreError>;

/// A queued command with the channel for its answer.
pub(super) struct Job {
    command: Command,
    pub(super) queued_at: Instant,
    answer: oneshot::Sender<CommandResult>,
}

pub(super) enum WriterMessage {
    Write(Box<Job>),
    /// Checks that the database files have not been moved or deleted.
    CheckFiles,
    Close(oneshot::Sender<()>),
}

/// Handle of the writer thread. Dropping it waits until the thread has finished all queued commands.
pub(super) struct Writer {
    queue: Option<Sender<WriterMessage>>,
    thread: Option<JoinHandle<()>>,
    stop_reason: Arc<OnceLock<String>>,
    // True while a `WriterMessage::CheckFiles` is queued.
    is_check_queued: Arc<AtomicBool>,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        file_identities: FileIdentities,
        clock: Arc<dyn Clock>,
        hub: Arc<Hub>,
        progress: Arc<PublishProgress>,
    ) -> std::io::Result<Writer> {
        let (sender, queue) = channel();
        let stop_reason = Arc::<OnceLock<String>>::default();
        let is_check_queued = Arc::<AtomicBool>::default();
        let thread_state = WriterThread {
            file_identities,
            is_check_queued: is_check_queued.clone(),
            connection,
            clock,
            hub,
            progress,
            writer_cache: WriterCache::default(),
            log_head: None,
            data_version: 0,
            queue,
            checkpoints: CheckpointPolicy::default(),
            next_group: Vec::new(),
            caller_returns: CallerReturns::none(),
            last_commit: Duration::ZERO,
            stop_reason: stop_reason.clone(),
            closing: None,
        };
        let builder = std::thread::Builder::new().name("countersign-write".to_owned());
        Ok(Writer {
            queue: Some(sender),
            thread: Some(builder.spawn(move || thread_state.run())?),
            stop_reason,
            is_check_queued,
        })
    }

    /// Fails if the writer has stopped. Also makes the writer check its files in the background, even if there are no
    /// writes; a later call reports the result.
    pub(super) fn health(&self) -> Result<(), StoreError> {
        match self.stop_reason.get() {
            None => {
                if !self.is_check_queued.swap(true, Ordering::SeqCst) {
                    // The send fails if the writer is closed. Then it has no files to check.
                    let _ = self.send(WriterMessage::CheckFiles);
                }
                Ok(())
            }
            Some(reason) => Err(StoreError::Stopped(reason.clone())),
        }
    }

    /// Queues a command and waits for its answer. A queued command runs even if the caller stops waiting.
    pub(super) async fn write(&self, command: Command) -> CommandResult {
        let (answer, receiver) = oneshot::channel();
        let queued_at = Instant::now();
        self.send(WriterMessage::Write(Box::new(Job {
            command,
            queued_at,
            answer,
        })))?;
        match receiver.await {
            Ok(outcome) => outcome,
            Err(_) => Err(StoreError::InDoubt("the writer ended".to_owned())),
        }
    }

    /// Finishes queued commands, then closes the file. Later writes are refused.
    pub(super) async fn close(&self) {
        let (done, receiver) = oneshot::channel();
        if self.send(WriterMessage::Close(done)).is_ok() {
            // An error means that the writer has ended already.
            let _ = receiver.await;
        }
    }

    fn send(&self, message: WriterMessage) -> Result<(), StoreError> {
        let sent = self.queue.as_ref().map(|queue| queue.send(message));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(StoreError::Stopped("it was closed".to_owned())),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// State of the writer thread.
struct WriterThread {
    checkpoints: CheckpointPolicy,
    connection: Connection,
    clock: Arc<dyn Clock>,
    hub: Arc<Hub>,
    progress: Arc<PublishProgress>,
    writer_cache: WriterCache,
    // Head of the event log after this writer's last commit; `None` if another process may have written since.
    log_head: Option<StoredLogHead>,
    // SQLite's counter of commits by other connections.
    data_version: i64,
    queue: Receiver<WriterMessage>,
    // Commands that were queued while the last group was being committed.
    next_group: Vec<Job>,
    caller_returns: CallerReturns,
    last_commit: Duration,
    file_identities: FileIdentities,
    is_check_queued: Arc<AtomicBool>,
    stop_reason: Arc<OnceLock<String>>,
    closing: Option<oneshot::Sender<()>>,
}

/// Changes of a transaction, to be published to waiting callers.
#[derive(Default)]
struct CommittedChanges {
    saved: Vec<SharedApproval>,
    events: Option<(i64, i64)>,
    has_changes: bool,
}

impl WriterThread {
    fn run(mut self) {
        while self.closing.is_none() || !self.next_group.is_empty() {
            let Some(group) = self.next_group_or_wait() else {
                break;
            };
            self.run_group(group);
        }
        let closing = self.closing.take();
        if self.stop_reason.get().is_none() {
            // If this checkpoint fails, the WAL is replayed when the file is opened again.
            self.checkpoint_all();
        }
        drop(self);
        if let Some(done) = closing {
            let _ = done.send(());
        }
    }

    /// Returns the commands that were queued during the last group, or waits for the next command; `None` when the
    /// store was dropped.
    fn next_group_or_wait(&mut self) -> Option<Vec<Job>> {
        let mut group = std::mem::take(&mut self.next_group);
        if group.is_empty() {
            let first = self.next_message()?;
            self.handle(first, &mut group);
        }
        Some(group)
    }

    /// Waits for the next message; `None` when the store was dropped. Checkpoints the WAL if no message comes for
    /// [`QUIET`].
    fn next_message(&mut self) -> Option<WriterMessage> {
        if self.checkpoints.is_due_when_idle() && self.stop_reason.get().is_none() {
            match self.queue.recv_timeout(QUIET) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.checkpoint_all(),
            }
        }
        self.queue.recv().ok()
    }

    fn checkpoint_all(&mut self) {
        if let Err(Fault::Broken(reason)) = self.checkpoints.truncate(&self.connection) {
            self.stop_store(reason);
        }
    }

    /// Takes the commands that are queued now, before the current group is answered, so that [`CallerReturns`] does not
    /// count their callers as returning.
    fn take_queued(&mut self) {
        let mut next_group = std::mem::take(&mut self.next_group);
        while next_group.len() < LARGEST_GROUP && self.closing.is_none() {
            let Ok(message) = self.queue.try_recv() else { break };
            self.handle(message, &mut next_group);
        }
        self.next_group = next_group;
    }

    fn handle(&mut self, message: WriterMessage, group: &mut Vec<Job>) {
        match message {
            WriterMessage::Write(job) => {
                self.caller_returns.record_queued(job.queued_at);
                group.push(*job);
            }
            WriterMessage::CheckFiles => self.check_files(),
            WriterMessage::Close(done) => self.closing = Some(done),
        }
    }

    /// Stops the store if its files were moved or deleted.
    fn check_files(&mut self) {
        self.is_check_queued.store(false, Ordering::SeqCst);
        if self.stop_reason.get().is_none()
            && let Err(Fault::Broken(reason)) = self.file_identities.check()
        {
            self.stop_store(reason);
        }
    }

    /// Runs a group in one transaction, together with commands that arrive meanwhile. If one of the commands fails,
    /// runs each command in a transaction of its own.
    fn run_group(&mut self, mut group: Vec<Job>) {
        let mut arrivals = Arrivals::new(self.last_commit, &self.caller_returns);
        let (outcomes, changes) = match self.transact(&mut group, &mut arrivals) {
            Ok((answers, changes)) => (answers.into_iter().map(Ok).collect(), changes),
            Err(Fault::Command(_)) if group.len() > 1 => {
                (self.run_one_by_one(&mut group), CommittedChanges::default())
            }
            Err(fault) => (self.refuse_group(fault, group.len()), CommittedChanges::default()),
        };
        self.closing = self.closing.take().or(arrivals.closing);
        self.is_check_queued.store(false, Ordering::SeqCst);
        self.take_queued();
        let count = group.len();
        self.caller_returns.record_answered(count, self.next_group.len());
        self.publish(&changes);
        for (job, outcome) in group.into_iter().zip(outcomes) {
            // Fails only if the caller no longer waits.
            let _ = job.answer.send(outcome);
        }
        self.checkpoint_if_long(count);
    }

    fn run_one_by_one(&mut self, group: &mut Vec<Job>) -> Vec<CommandResult> {
        let mut outcomes = Vec::with_capacity(group.len());
        for job in std::mem::take(group) {
            let mut alone = vec![job];
            match self.transact(&mut alone, &mut Arrivals::closed()) {
                Ok((answers, changes)) => {
                    self.publish(&changes);
                    outcomes.extend(answers.into_iter().map(Ok));
                }
                Err(fault) => outcomes.extend(self.refuse_group(fault, 1)),
            }
            group.append(&mut alone);
        }
        outcomes
    }

    /// Returns the error for each command of the group. If the write lock was not granted, also answers the commands
    /// that are queued behind the group, because they have waited as long.
    fn refuse_group(&mut self, fault: Fault, count: usize) -> Vec<CommandResult> {
        let error = match fault {
            Fault::Transaction(error) | Fault::Command(error) => error,
            Fault::Broken(reason) => StoreError::Stopped(self.stop_store(reason)),
        };
        if matches!(error, StoreError::Busy(_)) {
            self.take_queued();
            for job in std::mem::take(&mut self.next_group) {
                let _ = job.answer.send(Err(error.clone()));
            }
        }
        vec![Err(error); count]
    }

    /// Stops the store. Returns the reason, or the earlier reason if the store had already stopped.
    /// INVARIANT: nothing is written afterwards: no command, and no checkpoint of the WAL.
    fn stop_store(&mut self, reason: String) -> String {
        use rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Some(known) = self.stop_reason.get() {
            return known.clone();
        }
        // A missing file explains any other failure, and the check restores a deleted WAL.
        let reason = match self.file_identities.check() {
            Err(Fault::Broken(cause)) => cause,
            _ => reason,
        };
        // If this call fails, closing the connection syncs once more, but nothing is acknowledged because of that.
        let _ = self
            .connection
            .set_db_config(SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        self.stop_reason.get_or_init(|| reason).clone()
    }

    fn publish(&self, changes: &CommittedChanges) {
        for approval in &changes.saved {
            self.hub.publish(approval);
        }
        self.progress.record_published(changes.events);
        if changes.has_changes {
            self.hub.signal();
        }
    }

    fn transact(
        &mut self,
        group: &mut Vec<Job>,
        arrivals: &mut Arrivals,
    ) -> Result<(Vec<Answer>, CommittedChanges), Fault> {
        if let Some(reason) = self.stop_reason.get() {
            return Err(Fault::Broken(reason.clone()));
        }
        if group.is_empty() {
            return Ok(<(Vec<Answer>, CommittedChanges)>::default());
        }
        // The files are checked before the transaction, too: a commit into a deleted WAL would be visible to readers,
        // although it is never acknowledged.
        self.file_identities.check()?;
        let done = self.apply(group, arrivals).inspect_err(|_| self.roll_back())?;
        // INVARIANT: no commit is acknowledged if its file was deleted or replaced.
        self.file_identities.check()?;
        Ok(done)
    }

    fn apply(
        &mut self,
        group: &mut Vec<Job>,
        arrivals: &mut Arrivals,
    ) -> Result<(Vec<Answer>, CommittedChanges), Fault> {
        self.run_sql("BEGIN IMMEDIATE")?;
        let others_wrote = self.clear_caches_if_others_wrote()?;
        self.progress.record_lock(others_wrote);
        let mut rows = SqlRows::new(&self.connection, &self.writer_cache, self.log_head.as_ref());
        let anchor = self.clock.to_keep();
        if let Some(anchor) = &anchor {
            rows.write_setting(super::CLOCK_ANCHOR, anchor.to_string())?;
        }
        let mut answers = Vec::with_capacity(group.len());
        loop {
            let Some(job) = group.get(answers.len()) else {
                let Some(job) = arrivals.next(&self.queue, &mut self.caller_returns, group.len()) else {
                    break;
                };
                group.push(job);
                continue;
            };
            // INVARIANT: the clock is read after the lock is taken; see `countersign::command`.
            let now = self.clock.now();
            rows.set_certain_time(self.clock.certain());
            let answer = job.command.apply(&mut rows, now);
            answers.push(answer.map_err(|error| rows.fault(error))?);
        }
        rows.write_log_head()?;
        let begun = Instant::now();
        self.run_sql("COMMIT")?;
        if let Some(anchor) = anchor {
            self.clock.kept(anchor);
        }
        let has_changes = rows.has_changes();
        let committed = rows.into_committed();
        self.log_head = committed.log_head.or(self.log_head.take());
        self.last_commit = begun.elapsed();
        let changes = CommittedChanges {
            saved: committed.saved,
            events: committed.events,
            has_changes,
        };
        Ok((answers, changes))
    }

    /// Returns true if another process has committed since the last transaction, and then clears all caches.
    /// INVARIANT: changes by other processes are read from the file before anything is decided or started.
    fn clear_caches_if_others_wrote(&mut self) -> Result<bool, Fault> {
        let version = data_version(&self.connection).map_err(|error| Fault::of(&error))?;
        let others_wrote = version != self.data_version;
        if others_wrote {
            self.writer_cache.clear();
            self.log_head = None;
            self.data_version = version;
        }
        Ok(others_wrote)
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // Fails only when SQLite has rolled back already.
            let _ = self.run_sql("ROLLBACK");
        }
    }

    fn run_sql(&self, sql: &str) -> Result<(), Fault> {
        let run = || self.connection.prepare_cached(sql)?.execute([]);
        run().map(|_| ()).map_err(|error| Fault::of(&error))
    }

    /// Checkpoints the WAL if it is long. Runs after the callers were answered, so it delays only the next group.
    fn checkpoint_if_long(&mut self, commands: usize) {
        if self.stop_reason.get().is_some() {
            return;
        }
        if let Err(Fault::Broken(reason)) = self.checkpoints.record_commands(&self.connection, commands) {
            self.stop_store(reason);
        }
    }
}
