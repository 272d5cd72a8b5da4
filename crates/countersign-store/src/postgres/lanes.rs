//! Writer lanes: each owns one connection and runs all commands queued for it as one transaction (group commit).
//!
//! While one group runs, the next one queues up, so under load more commands share a commit. Every command keeps its
//! own outcome: if the server refuses a group, its commands run again one by one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign::approval::Approval;
use countersign::command::{Answer, Command};
use countersign::hash::Hash;
use countersign::store::StoreError;
use countersign::time::{Clock, SystemClock};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::{Client, Error};

use super::clock::ServerClock;
use super::connect::{CONFIRM, Connector, Session};
use super::error::StatementError;
use super::group_commit::{GroupCommit, Job};
use super::limits;
use super::log;
use super::notify::Announcer;
use super::tenants::VisibleTenants;
use super::transaction::{GroupError, GroupResult, GroupTransaction, LaneStatements};

/// Maximum number of commands that wait for one lane; further ones fail with `StoreError::Busy`.
const LONGEST_QUEUE: usize = 4096;
/// Attempts for a single command that collides with other transactions.
const ATTEMPTS_ALONE: usize = 3;
/// How long to keep asking whether a commit that got no answer took effect.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(8);
const RESOLVE_PAUSE: Duration = Duration::from_millis(50);

type Outcomes = Vec<Result<Answer, StoreError>>;

/// The lanes of a store. The last one is reserved for sweeps, so that they delay no other command.
pub(super) struct Lanes(Vec<mpsc::Sender<Job>>);

impl Lanes {
    /// Starts `count` lanes (at least one), and another one for sweeps.
    pub(super) fn start(count: usize, lane: impl Fn() -> Lane) -> Lanes {
        let start = |_| {
            let (sender, receiver) = mpsc::channel(LONGEST_QUEUE);
            // The task ends once the store is dropped and the lane's queue is empty.
            tokio::spawn(lane().run(receiver));
            sender
        };
        Lanes((0..=count.max(1)).map(start).collect())
    }

    pub(super) async fn write(&self, command: Command) -> Result<Answer, StoreError> {
        let closed = || StoreError::Stopped("the store was closed".to_owned());
        let (answer, answered) = oneshot::channel();
        let lane = self.lane(&command).ok_or_else(closed)?;
        lane.try_send(Job { command, answer })
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => {
                    StoreError::Busy(format!("{LONGEST_QUEUE} commands are waiting"))
                }
                mpsc::error::TrySendError::Closed(_) => closed(),
            })?;
        answered.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Returns the lane for a command; `None` only if there are no lanes. Commands that would wait for each other's
    /// locks at the server go to the same lane, where they share a transaction.
    fn lane(&self, command: &Command) -> Option<&mpsc::Sender<Job>> {
        let (sweep, lanes) = self.0.split_last()?;
        let needs = command.needs();
        if needs.due.is_some() {
            return Some(sweep);
        }
        let number = match (command, needs.channel, needs.key, needs.approvals.first()) {
            (_, Some(channel), _, _) => number(channel.as_str().as_bytes()),
            (_, _, Some((_, key)), _) => number(key.as_str().as_bytes()),
            (_, _, _, Some(id)) => number(id.as_bytes()),
            (Command::Propose(propose), _, _, _) => number(propose.id.as_bytes()),
            _ => needs.entries.first().map_or(0, |(_, key)| number(key.as_bytes())),
        };
        lanes.get(number % lanes.len().max(1))
    }
}

fn number(name: &[u8]) -> usize {
    let Hash(bytes) = Hash::of(name);
    usize::from(bytes.first().copied().unwrap_or(0))
}

/// A writer with its own connection.
pub(super) struct Lane {
    pub(super) connector: Arc<Connector>,
    pub(super) clock: Option<Arc<dyn Clock>>,
    pub(super) server_clock: Arc<ServerClock>,
    pub(super) machine_clock: Arc<SystemClock>,
    pub(super) announcer: Announcer,
    pub(super) session: Option<(Session, LaneStatements)>,
    pub(super) group_commit: GroupCommit,
}

impl Lane {
    async fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        while let Some(group) = self.group_commit.next_group(&mut queue).await {
            let (commands, answers): (Vec<Command>, Vec<_>) =
                group.into_iter().map(|job| (job.command, job.answer)).unzip();
            let commands: Vec<&Command> = commands.iter().collect();
            let started = Instant::now();
            let outcomes = self.run_group(&commands).await;
            if commands
                .iter()
                .any(|command| matches!(command, Command::Sweep(_)))
            {
                self.append_to_log().await;
            }
            self.group_commit
                .record_group(commands.len(), started.elapsed(), &mut queue);
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                // The send fails if the caller no longer waits. The outcome can still be read from the store.
                let _ = answer.send(outcome);
            }
        }
    }

    /// Advances the head of the log. After a failure the next sweep tries again, since no answer depends on the head.
    async fn append_to_log(&mut self) {
        if let Some((session, _)) = &self.session
            && log::append_committed(session).await.is_err()
            && session
                .within(limits::SHORT, |client| client.batch_execute(""))
                .await
                .is_err()
        {
            self.session = None;
        }
    }

    async fn run_group(&mut self, commands: &[&Command]) -> Outcomes {
        // A single command or a sweep gets a transaction of its own.
        if let [_] | [] = commands {
            return self.run_alone(commands).await;
        }
        if commands.iter().any(|command| command.needs().due.is_some()) {
            return self.run_one_by_one(commands).await;
        }
        match self.attempt(commands).await {
            Ok(outcomes) => outcomes,
            Err(AttemptError::Final(error)) => commands.iter().map(|_| Err(error.clone())).collect(),
            Err(AttemptError::Refused(_) | AttemptError::Collided(_)) => self.run_one_by_one(commands).await,
        }
    }

    async fn run_one_by_one(&mut self, commands: &[&Command]) -> Outcomes {
        // All commands have already waited for locks once. A short lock timeout keeps one locked row from blocking the
        // whole lane again.
        self.set_lock_timeout("SET lock_timeout = '100ms'").await;
        let mut outcomes = Vec::with_capacity(commands.len());
        for command in commands {
            outcomes.extend(self.run_alone(&[command]).await);
        }
        self.set_lock_timeout("SET lock_timeout = '3s'").await;
        outcomes
    }

    async fn set_lock_timeout(&mut self, sql: &str) {
        let Some((session, _)) = &self.session else {
            return;
        };
        let set = session.within(limits::SHORT, |client| client.batch_execute(sql));
        if set.await.is_err() {
            self.session = None;
        }
    }

    async fn run_alone(&mut self, command: &[&Command]) -> Outcomes {
        let mut refusal = StoreError::Busy("it collides with others".to_owned());
        for _ in 0..ATTEMPTS_ALONE {
            match self.attempt(command).await {
                Ok(outcomes) => return outcomes,
                Err(AttemptError::Final(error)) => {
                    return command.iter().map(|_| Err(error.clone())).collect();
                }
                Err(AttemptError::Refused(error)) => {
                    refusal = error;
                    break;
                }
                Err(AttemptError::Collided(error)) => refusal = error,
            }
        }
        command.iter().map(|_| Err(refusal.clone())).collect()
    }

    /// Runs commands in one transaction, then wakes local waiters of the approvals that changed.
    async fn attempt(&mut self, commands: &[&Command]) -> Result<Outcomes, AttemptError> {
        self.connect().await.map_err(AttemptError::Final)?;
        let Some((session, statements)) = &self.session else {
            return Err(AttemptError::Final(StoreError::Unavailable(
                "no connection".to_owned(),
            )));
        };
        let transaction = GroupTransaction {
            session,
            statements,
            clock: self.clock.as_ref(),
            server_clock: &self.server_clock,
            machine_clock: &self.machine_clock,
            announcer: &self.announcer,
        };
        let result = match transaction.run(commands).await {
            Ok(result) => result,
            Err(GroupError::Refused(error)) => return Err(AttemptError::Refused(error)),
            Err(GroupError::Collided(error)) => return Err(AttemptError::Collided(error)),
            Err(GroupError::Lost(reason)) => {
                self.session = None;
                return Err(AttemptError::Final(StoreError::Unavailable(reason)));
            }
            Err(GroupError::InDoubt { xact, result, reason }) => {
                self.session = None;
                let result = self
                    .resolve(xact, result, reason)
                    .await
                    .map_err(AttemptError::Final)?;
                // The notification may have been lost with the connection, so it is sent again.
                self.notify(&result);
                result
            }
        };
        self.announcer.publish(&result);
        Ok(result.answers)
    }

    fn notify(&self, result: &GroupResult) {
        if let Some((session, statements)) = &self.session {
            session.send(|client| statements.notify(client, &self.announcer.payloads(result)));
        }
    }

    async fn connect(&mut self) -> Result<(), StoreError> {
        if self
            .session
            .as_ref()
            .is_some_and(|(session, _)| session.is_closed())
        {
            self.session = None;
        }
        if self.session.is_none() {
            let session = self.connector.open().await?;
            let prepared = session.within(limits::PREPARE, LaneStatements::prepare).await;
            let unavailable = |error: StatementError| StoreError::Unavailable(error.message());
            let statements = prepared.map_err(unavailable)?;
            // After a crash, the server may show commits that no standby has. No answer may be based on them.
            self.confirm_standby(&session).await?;
            self.session = Some((session, statements));
        }
        Ok(())
    }

    /// Waits until the synchronous standby, if one is configured, has everything that this connection can see.
    async fn confirm_standby(&self, session: &Session) -> Result<(), StoreError> {
        let warnings = session.warnings();
        let confirmed = session.within(limits::STANDBY, |client| client.batch_execute(CONFIRM));
        let reason = match confirmed.await {
            Ok(()) if session.warnings() == warnings => return Ok(()),
            Ok(()) => "somebody ended the wait for it".to_owned(),
            Err(error) => {
                self.connector.cancel_standby_wait(session);
                error.message()
            }
        };
        Err(StoreError::Unavailable(format!(
            "the synchronous standby has not confirmed what is there: {reason}"
        )))
    }

    /// Determines whether a transaction whose COMMIT got no answer was committed.
    async fn resolve(
        &mut self,
        xact: i64,
        result: GroupResult,
        reason: String,
    ) -> Result<GroupResult, StoreError> {
        let Some(changed) = result.changed.first() else {
            return match result.entries {
                // Entries alone leave no event by which the transaction could be recognised.
                true => Err(StoreError::InDoubt(reason)),
                // Nothing was written, but the rows behind the answer may not survive a fail-over.
                false => Err(StoreError::Unavailable(reason)),
            };
        };
        let started = Instant::now();
        while started.elapsed() < RESOLVE_TIMEOUT {
            match self.commit_status(xact, &changed.approval).await {
                // INVARIANT: a commit found this way may be on no standby yet, so it is acknowledged only after the
                // standby has confirmed it.
                Some(CommitStatus::Committed) => match self.confirm_current_session().await {
                    Ok(()) => return Ok(result),
                    Err(_) => self.session = None,
                },
                Some(CommitStatus::Aborted) => return Err(StoreError::Unavailable(reason)),
                Some(CommitStatus::Unknown) => break,
                // The server process of the old connection is still at work, or no server can be reached yet.
                None => tokio::time::sleep(RESOLVE_PAUSE).await,
            }
        }
        Err(StoreError::InDoubt(reason))
    }

    async fn confirm_current_session(&self) -> Result<(), StoreError> {
        match &self.session {
            Some((session, _)) => self.confirm_standby(session).await,
            None => Err(StoreError::Unavailable("no connection".to_owned())),
        }
    }

    /// Returns the status of transaction `xact`, which wrote the last event of `approval`; `None` if it is not
    /// known yet.
    async fn commit_status(&mut self, xact: i64, approval: &Approval) -> Option<CommitStatus> {
        self.connect().await.ok()?;
        let (session, _) = self.session.as_ref()?;
        session
            .restrict_to(&VisibleTenants::one(&approval.tenant))
            .await
            .ok()?;
        let sql = "SELECT pg_xact_status($1::text::xid8)";
        let number = xact.to_string();
        let status = session.within(limits::SHORT, |client| async {
            let row = client.query_one(sql, &[&number]).await?;
            row.try_get::<_, Option<String>>(0)
        });
        match status.await {
            // INVARIANT: only the event of this transaction proves that it committed. A server that crashed reuses the
            // ids of transactions it has no record of, and another transaction with the same id may well be committed.
            Ok(Some(status)) if status == "committed" => {
                let has_event = session.within(limits::SHORT, |client| has_last_event(client, approval));
                match has_event.await.ok()? {
                    true => Some(CommitStatus::Committed),
                    false => Some(CommitStatus::Aborted),
                }
            }
            Ok(Some(status)) if status == "aborted" => Some(CommitStatus::Aborted),
            Ok(Some(_)) => None,
            // The transaction is too old, or this is another server that never had it.
            Ok(None) => Some(CommitStatus::Unknown),
            Err(error) if error.is_refusal() => Some(CommitStatus::Unknown),
            Err(_) => None,
        }
    }
}

/// Returns true if the last event of `approval` is stored, with the same link.
async fn has_last_event(client: &Client, approval: &Approval) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM event WHERE tenant = $1 AND approval = $2 AND number = $3 AND link = $4";
    let number = i32::try_from(approval.version).unwrap_or(i32::MAX);
    let id = approval.id.as_bytes().as_slice();
    let found = client
        .query_opt(
            sql,
            &[
                &approval.tenant.as_str(),
                &id,
                &number,
                &approval.link.0.as_slice(),
            ],
        )
        .await?;
    Ok(found.is_some())
}

/// Failure of an attempt to run commands.
enum AttemptError {
    /// Final: every command of the attempt gets this error.
    Final(StoreError),
    /// The server refused the transaction, perhaps because of a single command in it.
    Refused(StoreError),
    /// The server refused the transaction because of a concurrent one; a retry may succeed.
    Collided(StoreError),
}

/// Status of a transaction whose COMMIT got no answer.
enum CommitStatus {
    Committed,
    Aborted,
    Unknown,
}
