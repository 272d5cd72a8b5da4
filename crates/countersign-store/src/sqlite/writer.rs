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
use super::recent::Recent;
use super::rows::SqlRows;
use super::watch::{Seen, data_version};

/// The most commands in one transaction.
const LARGEST_GROUP: usize = 1024;

/// The longest we stand idle for callers to come back, whatever a commit takes.
const LONGEST_IDLE: Duration = Duration::from_micros(500);

/// We stand idle for at most this part of what the last commit took: little to lose, and half the syncs to win.
const IDLE_PART: u32 = 4;

/// What is learned of one group counts for so much less than what was known before.
const MEMORY: u32 = 8;

/// Nobody came for so long: a quiet moment.
const QUIET: Duration = Duration::from_millis(200);

type Outcome = Result<Answer, StoreError>;

/// The task goes back with the answer: freeing it is work, too, and the caller has time for that.
type Reply = (Outcome, Option<Task>);

/// A command and who waits for its answer.
struct Job {
    task: Task,
    queued_at: Instant,
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
        recent: Arc<Recent>,
    ) -> std::io::Result<Writer> {
        let (sender, queue) = channel();
        let work = Work {
            connection,
            clock: clock.clone(),
            hub,
            seen,
            recent,
            data_version: 0,
            queue,
            log: Log::default(),
            behind: Vec::new(),
            returns: Returns::none(),
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
        let queued_at = Instant::now();
        self.send(Message::Write(Box::new(Job {
            task,
            queued_at,
            answer,
        })))?;
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
    recent: Arc<Recent>,
    // Changes with each commit that is not ours.
    data_version: i64,
    queue: Receiver<Message>,
    log: Log,
    // Those who queued up while the last group was being committed.
    behind: Vec<Job>,
    returns: Returns,
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
    took: Duration,
}

/// How soon those who were answered come back.
struct Returns {
    answered: usize,
    answered_at: Instant,
    back: usize,
    /// How long half of them take.
    half: Duration,
}

impl Returns {
    fn none() -> Returns {
        Returns {
            answered: 0,
            answered_at: Instant::now(),
            back: 0,
            half: Duration::ZERO,
        }
    }

    fn answer(&mut self, count: usize) {
        if self.back < self.answered.div_ceil(2) {
            self.learn(self.answered_at.elapsed());
        }
        (self.answered, self.answered_at, self.back) = (count, Instant::now(), 0);
    }

    /// Somebody came. Those who queued up before the last answers were never gone.
    fn note(&mut self, job: &Job) {
        if let Some(after) = job.queued_at.checked_duration_since(self.answered_at) {
            self.back += 1;
            if self.back == self.answered.div_ceil(2) {
                self.learn(after);
            }
        }
    }

    fn learn(&mut self, half: Duration) {
        self.half = (self.half * (MEMORY - 1) + half) / MEMORY;
    }

    fn missing(&self) -> usize {
        self.answered.saturating_sub(self.back)
    }
}

/// Those who come while a group is at work.
///
/// Whoever was answered just now is likely to come back. If they all do so within a commit, they are waited for: else many
/// callers fall into two halves that take turns and never meet, with twice the syncs. What has come is worked on
/// meanwhile, so little of the wait is lost. If they have more to do between two commands, two halves are just right: one
/// does it while the other is committed. With one caller this never waits.
struct Arrivals {
    /// How long we may still stand idle.
    patience: Duration,
    idle_since: Option<Instant>,
    is_alone: bool,
    closing: Option<oneshot::Sender<()>>,
}

impl Arrivals {
    fn new(last_commit: Duration, returns: &Returns) -> Arrivals {
        let patience = match returns.half * 2 <= last_commit {
            true => (last_commit / IDLE_PART).min(LONGEST_IDLE),
            false => Duration::ZERO,
        };
        Arrivals {
            patience,
            idle_since: None,
            is_alone: false,
            closing: None,
        }
    }

    /// For a command that is to be alone.
    fn none() -> Arrivals {
        Arrivals {
            patience: Duration::ZERO,
            idle_since: None,
            is_alone: true,
            closing: None,
        }
    }

    /// The next to join a group of so many; nothing when it is complete.
    fn next(&mut self, queue: &Receiver<Message>, returns: &mut Returns, count: usize) -> Option<Job> {
        if self.is_alone || count >= LARGEST_GROUP || self.closing.is_some() {
            return None;
        }
        loop {
            match queue.try_recv() {
                Ok(Message::Write(job)) => {
                    self.idle_since = None;
                    returns.note(&job);
                    return Some(*job);
                }
                Ok(Message::Close(done)) => {
                    self.closing = Some(done);
                    return None;
                }
                Err(_) if returns.missing() == 0 => return None,
                Err(_) => self.idle()?,
            }
        }
    }

    /// Lets others work for a moment; nothing when patience has come to its end.
    fn idle(&mut self) -> Option<()> {
        if self.patience.is_zero() {
            return None;
        }
        let now = Instant::now();
        let since = self.idle_since.replace(now).unwrap_or(now);
        self.patience = self.patience.checked_sub(now - since)?;
        std::thread::yield_now();
        Some(())
    }
}

impl Work {
    fn run(mut self) {
        while self.closing.is_none() || !self.behind.is_empty() {
            let Some(group) = self.first() else { break };
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

    /// Those who queued up behind the last group, or the next to come; nothing when the store is gone.
    fn first(&mut self) -> Option<Vec<Job>> {
        let mut group = std::mem::take(&mut self.behind);
        if group.is_empty() {
            let first = self.next()?;
            self.take(first, &mut group);
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
            Message::Write(job) => {
                self.returns.note(&job);
                group.push(*job);
            }
            Message::Close(done) => self.closing = Some(done),
        }
    }

    /// Runs a group in one transaction, with all who come while it is at work; when one of it is at fault, each in a
    /// transaction of its own.
    fn serve(&mut self, mut group: Vec<Job>) {
        let mut arrivals = Arrivals::new(self.last_commit, &self.returns);
        let outcomes = match self.transact(&mut group, &mut arrivals) {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(Fault::Command(_)) if group.len() > 1 => self.one_by_one(&mut group),
            Err(fault) => self.refuse(fault, group.len()),
        };
        self.closing = self.closing.take().or(arrivals.closing);
        self.take_behind();
        let count = group.len();
        self.returns.answer(count);
        for (job, outcome) in group.into_iter().zip(outcomes) {
            // Who no longer waits does not want to know.
            let _ = job.answer.send((outcome, Some(job.task)));
        }
        self.keep_log_short(count);
    }

    fn one_by_one(&mut self, group: &mut Vec<Job>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(group.len());
        for job in std::mem::take(group) {
            let mut alone = vec![job];
            match self.transact(&mut alone, &mut Arrivals::none()) {
                Ok(answers) => outcomes.extend(answers.into_iter().map(Ok)),
                Err(fault) => outcomes.extend(self.refuse(fault, 1)),
            }
            group.append(&mut alone);
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

    fn transact(&mut self, group: &mut Vec<Job>, arrivals: &mut Arrivals) -> Result<Vec<Answer>, Fault> {
        if let Some(reason) = &self.broken {
            return Err(Fault::Broken(reason.clone()));
        }
        if group.is_empty() {
            return Ok(Vec::new());
        }
        let applied = self.apply(group, arrivals);
        let committed = applied.inspect_err(|_| self.roll_back())?;
        self.last_commit = committed.took;
        for approval in &committed.saved {
            self.hub.publish(approval);
        }
        self.seen.published(committed.events);
        if committed.is_changed {
            self.hub.signal();
        }
        Ok(committed.answers)
    }

    fn apply(&mut self, group: &mut Vec<Job>, arrivals: &mut Arrivals) -> Result<Committed, Fault> {
        self.run_sql("BEGIN IMMEDIATE")?;
        let others_wrote = self.heed_others()?;
        self.seen.begin(others_wrote);
        let mut rows = SqlRows::new(&self.connection, &self.recent);
        let mut answers = Vec::with_capacity(group.len());
        loop {
            let Some(job) = group.get_mut(answers.len()) else {
                let Some(job) = arrivals.next(&self.queue, &mut self.returns, group.len()) else {
                    break;
                };
                group.push(job);
                continue;
            };
            // INVARIANT: lock first, clock second: see `command`.
            let (now, task) = (self.clock.now(), &mut job.task);
            let answer = task.command.apply_prepared(task.prepared.take(), &mut rows, now);
            answers.push(answer.map_err(|error| rows.fault(error))?);
        }
        let begun = Instant::now();
        self.run_sql("COMMIT")?;
        let is_changed = rows.is_changed();
        let (saved, events) = rows.into_saved();
        Ok(Committed {
            answers,
            saved,
            events,
            is_changed,
            took: begun.elapsed(),
        })
    }

    /// INVARIANT: what anybody else did to the file is read as it stands before anything is decided or started.
    /// True when others wrote.
    fn heed_others(&mut self) -> Result<bool, Fault> {
        let version = data_version(&self.connection).map_err(|error| Fault::of(&error))?;
        let others_wrote = version != self.data_version;
        if others_wrote {
            self.recent.clear();
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
