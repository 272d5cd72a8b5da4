//! The writer: one thread, one connection, and as many commands in one transaction as are waiting.
//!
//! Enters: commands, each with somebody who waits for its answer. Leaves: answers, all of them after the commit.
//! Deliberately absent: rules, and second tries. A sync that failed is never tried again: the store stops.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command, Prepared};
use countersign::store::StoreError;
use countersign::time::Clock;
use countersign::wake::Hub;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Fault;
use super::log::Log;
use super::rows::SqlRows;
use super::watch::Seen;

/// The most commands in one transaction.
const LARGEST_GROUP: usize = 1024;

/// The longest we wait for callers to come back, whatever a commit takes.
const LONGEST_GATHER: Duration = Duration::from_micros(500);

/// We wait for at most this part of what the last commit took: little to lose, and half the syncs to win.
const GATHER_PART: u32 = 4;

/// Nobody came for so long: a quiet moment.
const QUIET: Duration = Duration::from_millis(200);

type Outcome = Result<Answer, StoreError>;

/// The task goes back with the answer: freeing it is work, too, and the caller has time for that.
type Reply = (Outcome, Option<Task>);

/// A command and who waits for its answer.
struct Job {
    task: Task,
    answer: oneshot::Sender<Reply>,
}

/// A command, with what its caller worked out ahead. That serves one try.
struct Task {
    command: Command,
    prepared: Option<Prepared>,
}

enum Message {
    Write(Box<Job>),
    Close(oneshot::Sender<()>),
}

/// The way to the writing thread. Dropping it lets the thread finish what is queued, and waits for that.
pub(super) struct Writer {
    clock: Arc<dyn Clock>,
    queue: Option<Sender<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        clock: Arc<dyn Clock>,
        hub: Arc<Hub>,
        seen: Arc<Seen>,
    ) -> std::io::Result<Writer> {
        let (sender, queue) = channel();
        let work = Work {
            connection,
            clock: clock.clone(),
            hub,
            seen,
            queue,
            log: Log::default(),
            behind: Vec::new(),
            last_group: 0,
            last_commit: Duration::ZERO,
            broken: None,
            closing: None,
        };
        let builder = std::thread::Builder::new().name("countersign-write".to_owned());
        Ok(Writer {
            clock,
            queue: Some(sender),
            thread: Some(builder.spawn(move || work.run())?),
        })
    }

    /// Queues a command and waits for its answer. Once it is queued it will be run, also when nobody waits any more.
    pub(super) async fn write(&self, command: Command) -> Outcome {
        let (answer, receiver) = oneshot::channel();
        // Here, where many can do it at once, and not in the one thread that all wait for.
        let prepared = command.prepare(&*self.clock);
        let task = Task { command, prepared };
        self.send(Message::Write(Box::new(Job { task, answer })))?;
        match receiver.await {
            Ok((outcome, _)) => outcome,
            Err(_) => Err(StoreError::InDoubt("the writer ended".to_owned())),
        }
    }

    /// Finishes what is queued, then closes the file. Later writes are refused.
    pub(super) async fn close(&self) {
        let (done, receiver) = oneshot::channel();
        if self.send(Message::Close(done)).is_ok() {
            // An error only says that it has ended, too.
            let _ = receiver.await;
        }
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
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

/// What the thread owns.
struct Work {
    connection: Connection,
    clock: Arc<dyn Clock>,
    hub: Arc<Hub>,
    seen: Arc<Seen>,
    queue: Receiver<Message>,
    log: Log,
    // Those who queued up while the last group was being committed.
    behind: Vec<Job>,
    last_group: usize,
    last_commit: Duration,
    broken: Option<String>,
    closing: Option<oneshot::Sender<()>>,
}

/// What a transaction did.
struct Committed {
    answers: Vec<Answer>,
    saved: Vec<SharedApproval>,
    events: Option<(i64, i64)>,
    is_changed: bool,
}

impl Work {
    fn run(mut self) {
        while self.closing.is_none() || !self.behind.is_empty() {
            let Some(group) = self.gather() else { break };
            self.last_group = group.len();
            self.serve(group);
        }
        let closing = self.closing.take();
        if self.broken.is_none() {
            // What fails here is found in the log when the file is opened again.
            let _ = self.log.empty(&self.connection);
        }
        drop(self);
        if let Some(done) = closing {
            let _ = done.send(());
        }
    }

    /// The first command, and all that are there or about to be; nothing when the store is gone.
    ///
    /// Whoever was answered just now is likely to come back at once. Without waiting for them, many callers fall into
    /// two halves that take turns and never meet, with twice the syncs. With one caller this never waits.
    fn gather(&mut self) -> Option<Vec<Job>> {
        let mut group = std::mem::take(&mut self.behind);
        let expected = group.len().saturating_add(self.last_group).min(LARGEST_GROUP);
        if group.is_empty() {
            let first = self.next()?;
            self.take(first, &mut group);
        }
        let deadline = Instant::now() + (self.last_commit / GATHER_PART).min(LONGEST_GATHER);
        while group.len() < LARGEST_GROUP && self.closing.is_none() {
            match self.queue.try_recv() {
                Ok(message) => self.take(message, &mut group),
                Err(_) if group.len() >= expected || Instant::now() >= deadline => break,
                Err(_) => std::thread::yield_now(),
            }
        }
        Some(group)
    }

    /// Waits for somebody; a quiet moment is used to move the log.
    fn next(&mut self) -> Option<Message> {
        if self.log.is_worth_moving() && self.broken.is_none() {
            match self.queue.recv_timeout(QUIET) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.move_log(),
            }
        }
        self.queue.recv().ok()
    }

    fn move_log(&mut self) {
        if let Err(Fault::Broken(reason)) = self.log.empty(&self.connection) {
            self.break_down(reason);
        }
    }

    /// Takes who is queued now, before anybody is answered: so nobody is counted twice.
    fn take_behind(&mut self) {
        let mut behind = std::mem::take(&mut self.behind);
        while behind.len() < LARGEST_GROUP && self.closing.is_none() {
            let Ok(message) = self.queue.try_recv() else { break };
            self.take(message, &mut behind);
        }
        self.behind = behind;
    }

    fn take(&mut self, message: Message, group: &mut Vec<Job>) {
        match message {
            Message::Write(job) => group.push(*job),
            Message::Close(done) => self.closing = Some(done),
        }
    }

    /// Runs a group in one transaction; when one of it is at fault, each in a transaction of its own.
    fn serve(&mut self, group: Vec<Job>) {
        let (mut tasks, waiting): (Vec<Task>, Vec<_>) =
            group.into_iter().map(|job| (job.task, job.answer)).unzip();
        let start = Instant::now();
        let outcomes = match self.transact(&mut tasks) {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(Fault::Command(_)) if tasks.len() > 1 => self.one_by_one(&mut tasks),
            Err(fault) => self.refuse(fault, tasks.len()),
        };
        self.last_commit = start.elapsed();
        self.take_behind();
        let count = tasks.len();
        for ((answer, outcome), task) in waiting.into_iter().zip(outcomes).zip(tasks) {
            // Who no longer waits does not want to know.
            let _ = answer.send((outcome, Some(task)));
        }
        self.keep_log_short(count);
    }

    fn one_by_one(&mut self, tasks: &mut [Task]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(tasks.len());
        for task in tasks {
            match self.transact(std::slice::from_mut(task)) {
                Ok(answers) => outcomes.extend(answers.into_iter().map(Ok)),
                Err(fault) => outcomes.extend(self.refuse(fault, 1)),
            }
        }
        outcomes
    }

    /// Says why to all of them, and to those who queued up behind a lock that was not given: they have waited, too.
    fn refuse(&mut self, fault: Fault, count: usize) -> Vec<Outcome> {
        let error = match fault {
            Fault::Transaction(error) | Fault::Command(error) => error,
            Fault::Broken(reason) => StoreError::Stopped(self.break_down(reason)),
        };
        if matches!(error, StoreError::Busy(_)) {
            self.take_behind();
            for job in std::mem::take(&mut self.behind) {
                let _ = job.answer.send((Err(error.clone()), None));
            }
        }
        vec![Err(error); count]
    }

    /// INVARIANT: after this nothing is written: not a command, and not what the log still holds.
    fn break_down(&mut self, reason: String) -> String {
        use rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        // When even this fails, closing syncs once more, but nobody is told that it helped.
        let _ = self
            .connection
            .set_db_config(SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        self.broken.get_or_insert(reason).clone()
    }

    fn transact(&mut self, tasks: &mut [Task]) -> Result<Vec<Answer>, Fault> {
        if let Some(reason) = &self.broken {
            return Err(Fault::Broken(reason.clone()));
        }
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let committed = self.apply(tasks).inspect_err(|_| self.roll_back())?;
        for approval in &committed.saved {
            self.hub.publish(approval);
        }
        self.seen.published(committed.events);
        if committed.is_changed {
            self.hub.signal();
        }
        Ok(committed.answers)
    }

    fn apply(&self, tasks: &mut [Task]) -> Result<Committed, Fault> {
        self.run_sql("BEGIN IMMEDIATE")?;
        self.seen.begin();
        let mut rows = SqlRows::new(&self.connection);
        let mut answers = Vec::with_capacity(tasks.len());
        for task in tasks {
            // INVARIANT: lock first, clock second: see `command`.
            let now = self.clock.now();
            let answer = task.command.apply_prepared(task.prepared.take(), &mut rows, now);
            answers.push(answer.map_err(|error| rows.fault(error))?);
        }
        self.run_sql("COMMIT")?;
        let is_changed = rows.is_changed();
        let (saved, events) = rows.into_saved();
        Ok(Committed {
            answers,
            saved,
            events,
            is_changed,
        })
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

    /// Everybody has an answer by now, so nobody waits for this but the next.
    fn keep_log_short(&mut self, commands: usize) {
        if self.broken.is_some() {
            return;
        }
        if let Err(Fault::Broken(reason)) = self.log.wrote(&self.connection, commands) {
            self.break_down(reason);
        }
    }
}
