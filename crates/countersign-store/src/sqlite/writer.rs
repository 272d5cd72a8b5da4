//! The writer: one thread, one connection, and as many commands in one transaction as are waiting.
//!
//! Enters: commands, each with somebody who waits for its answer. Leaves: answers, all of them after the commit.
//! Deliberately absent: rules, and second tries. A sync that failed is never tried again: the store stops.

use std::path::PathBuf;
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
use super::gather::{Arrivals, LARGEST_GROUP, Returns};
use super::log::Log;
use super::own::Own;
use super::recent::Recent;
use super::rows::SqlRows;
use super::watch::{Seen, data_version};

/// Nobody came for so long: a quiet moment.
const QUIET: Duration = Duration::from_millis(200);

type Outcome = Result<Answer, StoreError>;

/// The task goes back with the answer: freeing it is work, too, and the caller has time for that.
type Reply = (Outcome, Option<Task>);

/// A command and who waits for its answer.
pub(super) struct Job {
    task: Task,
    pub(super) queued_at: Instant,
    answer: oneshot::Sender<Reply>,
}

/// A command, with what its caller worked out ahead. That serves one try.
struct Task {
    command: Command,
    prepared: Option<Prepared>,
}

pub(super) enum Message {
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
        path: PathBuf,
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
            own: Own::default(),
            data_version: 0,
            queue,
            log: Log::of(path),
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
    // Dropped before the connection, which is the last to close and so leaves no log behind.
    log: Log,
    connection: Connection,
    clock: Arc<dyn Clock>,
    hub: Arc<Hub>,
    seen: Arc<Seen>,
    recent: Arc<Recent>,
    own: Own,
    // Changes with each commit that is not ours.
    data_version: i64,
    queue: Receiver<Message>,
    // Those who queued up while the last group was being committed.
    behind: Vec<Job>,
    returns: Returns,
    last_commit: Duration,
    broken: Option<String>,
    closing: Option<oneshot::Sender<()>>,
}

/// What a transaction did, for those who wait for it elsewhere.
#[derive(Default)]
struct News {
    saved: Vec<SharedApproval>,
    events: Option<(i64, i64)>,
    is_changed: bool,
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
            self.move_log();
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
                self.returns.note(job.queued_at);
                group.push(*job);
            }
            Message::Close(done) => self.closing = Some(done),
        }
    }

    /// Runs a group in one transaction, with all who come while it is at work; when one of it is at fault, each in a
    /// transaction of its own.
    fn serve(&mut self, mut group: Vec<Job>) {
        let mut arrivals = Arrivals::new(self.last_commit, &self.returns);
        let (outcomes, news) = match self.transact(&mut group, &mut arrivals) {
            Ok((answers, news)) => (answers.into_iter().map(Ok).collect(), news),
            Err(Fault::Command(_)) if group.len() > 1 => (self.one_by_one(&mut group), News::default()),
            Err(fault) => (self.refuse(fault, group.len()), News::default()),
        };
        self.closing = self.closing.take().or(arrivals.closing);
        self.take_behind();
        let count = group.len();
        self.returns.answer(count, self.behind.len());
        // Who has a call to run hears first: it may end while the next group is at work, and be recorded with it.
        let has_started = |(_, outcome): &(_, Outcome)| outcome.as_ref().is_ok_and(Answer::has_started);
        let (first, others): (Vec<_>, Vec<_>) = group.into_iter().zip(outcomes).partition(has_started);
        let answer = |(job, outcome): (Job, Outcome)| {
            // Who no longer waits does not want to know.
            let _ = job.answer.send((outcome, Some(job.task)));
        };
        first.into_iter().for_each(answer);
        self.publish(&news);
        others.into_iter().for_each(answer);
        self.keep_log_short(count);
    }

    fn one_by_one(&mut self, group: &mut Vec<Job>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(group.len());
        for job in std::mem::take(group) {
            let mut alone = vec![job];
            match self.transact(&mut alone, &mut Arrivals::none()) {
                Ok((answers, news)) => {
                    self.publish(&news);
                    outcomes.extend(answers.into_iter().map(Ok));
                }
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
        self.log.stop();
        // When even this fails, closing syncs once more, but nobody is told that it helped.
        let _ = self
            .connection
            .set_db_config(SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        self.broken.get_or_insert(reason).clone()
    }

    fn publish(&self, news: &News) {
        for approval in &news.saved {
            self.hub.publish(approval);
        }
        self.seen.published(news.events);
        if news.is_changed {
            self.hub.signal();
        }
    }

    fn transact(
        &mut self,
        group: &mut Vec<Job>,
        arrivals: &mut Arrivals,
    ) -> Result<(Vec<Answer>, News), Fault> {
        if let Some(reason) = &self.broken {
            return Err(Fault::Broken(reason.clone()));
        }
        self.log.check()?;
        if group.is_empty() {
            return Ok(<(Vec<Answer>, News)>::default());
        }
        self.apply(group, arrivals).inspect_err(|_| self.roll_back())
    }

    fn apply(&mut self, group: &mut Vec<Job>, arrivals: &mut Arrivals) -> Result<(Vec<Answer>, News), Fault> {
        self.run_sql("BEGIN IMMEDIATE")?;
        let others_wrote = self.heed_others()?;
        self.seen.begin(others_wrote);
        let mut rows = SqlRows::new(&self.connection, &self.recent, &self.own);
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
        self.last_commit = begun.elapsed();
        let news = News {
            saved,
            events,
            is_changed,
        };
        Ok((answers, news))
    }

    /// INVARIANT: what anybody else did to the file is read as it stands before anything is decided or started.
    /// True when others wrote.
    fn heed_others(&mut self) -> Result<bool, Fault> {
        let version = data_version(&self.connection).map_err(|error| Fault::of(&error))?;
        let others_wrote = version != self.data_version;
        if others_wrote {
            self.recent.clear();
            self.own.clear();
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
