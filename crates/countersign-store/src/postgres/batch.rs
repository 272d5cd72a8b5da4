//! Lanes: each has one connection, takes whatever waits for it and runs that as one transaction.
//!
//! While one group is under way the next one gathers, so the more is asked for, the more commands share a commit.
//! Every command keeps its own outcome: a group that the server refuses as a whole is run again one by one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign::approval::Approval;
use countersign::command::{Answer, Command};
use countersign::hash::Hash;
use countersign::store::StoreError;
use countersign::time::Clock;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::{Client, Error};

use super::clock::ServerClock;
use super::connect::{Connector, Session};
use super::error::words;
use super::gather::{Gathering, Job};
use super::notify::Announcer;
use super::tenants::Tenants;
use super::transaction::{Done, Failure, Run, Statements};

/// So many may wait for a lane; more are turned away.
const LONGEST_QUEUE: usize = 4096;
/// How often a command that collided with others is tried alone.
const ATTEMPTS_ALONE: usize = 3;
/// How long we try to find out what became of a commit.
const DOUBT_PATIENCE: Duration = Duration::from_secs(8);
const DOUBT_PAUSE: Duration = Duration::from_millis(50);

type Outcomes = Vec<Result<Answer, StoreError>>;

/// The lanes of a store. The last one is the sweep's, so that it holds nobody up.
pub(super) struct Lanes(Vec<mpsc::Sender<Job>>);

impl Lanes {
    /// Starts so many lanes, and the sweep's.
    pub(super) fn start(count: usize, lane: impl Fn() -> Lane) -> Lanes {
        let start = |_| {
            let (sender, receiver) = mpsc::channel(LONGEST_QUEUE);
            // A lane ends when its store is gone and what was queued is done.
            tokio::spawn(lane().work(receiver));
            sender
        };
        Lanes((0..=count.max(1)).map(start).collect())
    }

    pub(super) async fn write(&self, command: Command) -> Result<Answer, StoreError> {
        let gone = || StoreError::Stopped("the store was closed".to_owned());
        let (answer, answered) = oneshot::channel();
        let lane = self.lane(&command).ok_or_else(gone)?;
        lane.try_send(Job { command, answer })
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => {
                    StoreError::Busy(format!("{LONGEST_QUEUE} commands are waiting"))
                }
                mpsc::error::TrySendError::Closed(_) => gone(),
            })?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    /// What would wait for each other at the server is kept in one lane, where it shares a transaction instead.
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

/// A connection, and what runs on it.
pub(super) struct Lane {
    pub(super) connector: Arc<Connector>,
    pub(super) clock: Option<Arc<dyn Clock>>,
    pub(super) server_clock: Arc<ServerClock>,
    pub(super) announcer: Announcer,
    pub(super) session: Option<(Session, Statements)>,
    pub(super) gathering: Gathering,
}

impl Lane {
    async fn work(mut self, mut queue: mpsc::Receiver<Job>) {
        while let Some(group) = self.gathering.next(&mut queue).await {
            let (commands, answers): (Vec<Command>, Vec<_>) =
                group.into_iter().map(|job| (job.command, job.answer)).unzip();
            let commands: Vec<&Command> = commands.iter().collect();
            let begun = Instant::now();
            let outcomes = self.run_group(&commands).await;
            self.gathering.ran(commands.len(), begun.elapsed(), &mut queue);
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                // Whoever gave up finds the outcome in the store.
                let _ = answer.send(outcome);
            }
        }
    }

    async fn run_group(&mut self, commands: &[&Command]) -> Outcomes {
        // A sweep is a transaction of its own.
        if let [_] | [] = commands {
            return self.run_alone(commands).await;
        }
        if commands.iter().any(|command| command.needs().due.is_some()) {
            return self.run_one_by_one(commands).await;
        }
        match self.attempt(commands).await {
            Ok(done) => done,
            Err(Attempt::Over(error)) => commands.iter().map(|_| Err(error.clone())).collect(),
            Err(Attempt::Refused(_) | Attempt::Collided(_)) => self.run_one_by_one(commands).await,
        }
    }

    async fn run_one_by_one(&mut self, commands: &[&Command]) -> Outcomes {
        // They have waited together; now each gets a short turn, so that one lock does not hold up a whole lane.
        self.set_patience("SET lock_timeout = '100ms'").await;
        let mut outcomes = Vec::with_capacity(commands.len());
        for command in commands {
            outcomes.extend(self.run_alone(&[command]).await);
        }
        self.set_patience("SET lock_timeout = '3s'").await;
        outcomes
    }

    async fn set_patience(&mut self, sql: &str) {
        if let Some((session, _)) = &self.session
            && session.client.batch_execute(sql).await.is_err()
        {
            self.session = None;
        }
    }

    async fn run_alone(&mut self, command: &[&Command]) -> Outcomes {
        let mut refusal = StoreError::Busy("it collides with others".to_owned());
        for _ in 0..ATTEMPTS_ALONE {
            match self.attempt(command).await {
                Ok(done) => return done,
                Err(Attempt::Over(error)) => return command.iter().map(|_| Err(error.clone())).collect(),
                Err(Attempt::Refused(error)) => {
                    refusal = error;
                    break;
                }
                Err(Attempt::Collided(error)) => refusal = error,
            }
        }
        command.iter().map(|_| Err(refusal.clone())).collect()
    }

    /// Runs commands in one transaction, and wakes whoever waits for what changed.
    async fn attempt(&mut self, commands: &[&Command]) -> Result<Outcomes, Attempt> {
        self.connect().await.map_err(Attempt::Over)?;
        let Some((session, statements)) = &self.session else {
            return Err(Attempt::Over(StoreError::Unavailable("no connection".to_owned())));
        };
        let run = Run {
            session,
            statements,
            clock: self.clock.as_ref(),
            server_clock: &self.server_clock,
            announcer: &self.announcer,
        };
        let done = match run.commands(commands).await {
            Ok(done) => done,
            Err(Failure::Refused(error)) => return Err(Attempt::Refused(error)),
            Err(Failure::Collided(error)) => return Err(Attempt::Collided(error)),
            Err(Failure::Lost(why)) => {
                self.session = None;
                return Err(Attempt::Over(StoreError::Unavailable(why)));
            }
            Err(Failure::InDoubt { xact, done, why }) => {
                self.session = None;
                let done = self.resolve(xact, done, why).await.map_err(Attempt::Over)?;
                // Whether the other nodes were told is not known either.
                self.tell(&done);
                done
            }
        };
        self.announcer.publish(&done);
        Ok(done.answers)
    }

    fn tell(&self, done: &Done) {
        if let Some((session, statements)) = &self.session {
            statements.tell(&session.client, &self.announcer.payloads(done));
        }
    }

    async fn connect(&mut self) -> Result<(), StoreError> {
        if self
            .session
            .as_ref()
            .is_some_and(|(session, _)| session.client.is_closed())
        {
            self.session = None;
        }
        if self.session.is_none() {
            let session = self.connector.open().await?;
            let prepared = Statements::prepare(&session.client).await;
            let unavailable = |error: Error| StoreError::Unavailable(words(&error));
            let statements = prepared.map_err(unavailable)?;
            self.session = Some((session, statements));
        }
        Ok(())
    }

    /// Finds out whether a transaction was committed whose COMMIT got no answer.
    async fn resolve(&mut self, xact: i64, done: Done, why: String) -> Result<Done, StoreError> {
        let Some(changed) = done.changed.first() else {
            return match done.entries {
                // Nothing of ours would still be there to tell by.
                true => Err(StoreError::InDoubt(why)),
                // Nothing was to be written, so there is no doubt.
                false => Ok(done),
            };
        };
        let begun = Instant::now();
        while begun.elapsed() < DOUBT_PATIENCE {
            match self.fate(xact, &changed.approval).await {
                Some(Fate::Committed) => return Ok(done),
                Some(Fate::Aborted) => return Err(StoreError::Unavailable(why)),
                Some(Fate::Forgotten) => break,
                // The old connection's process has not noticed yet, or nobody can be asked yet.
                None => tokio::time::sleep(DOUBT_PAUSE).await,
            }
        }
        Err(StoreError::InDoubt(why))
    }

    /// What became of transaction `xact`, which wrote the last event of `approval`.
    async fn fate(&mut self, xact: i64, approval: &Approval) -> Option<Fate> {
        self.connect().await.ok()?;
        let (session, _) = self.session.as_ref()?;
        session.see(&Tenants::one(&approval.tenant)).await.ok()?;
        let sql = "SELECT pg_xact_status($1::text::xid8)";
        let asked = session.client.query_one(sql, &[&xact.to_string()]).await;
        let status = asked.and_then(|row| row.try_get::<_, Option<String>>(0));
        match status {
            // INVARIANT: only our own event says that we committed. A server that crashed gives the numbers of
            // transactions it has no record of to others, and theirs may be committed.
            Ok(Some(status)) if status == "committed" => match wrote(&session.client, approval).await.ok()? {
                true => Some(Fate::Committed),
                false => Some(Fate::Aborted),
            },
            Ok(Some(status)) if status == "aborted" => Some(Fate::Aborted),
            Ok(Some(_)) => None,
            // Too long ago, or another server that never had it.
            Ok(None) => Some(Fate::Forgotten),
            Err(error) if error.code().is_some() && !super::error::is_lost(&error) => Some(Fate::Forgotten),
            Err(_) => None,
        }
    }
}

/// True when the last event of `approval` is on record, link and all.
async fn wrote(client: &Client, approval: &Approval) -> Result<bool, Error> {
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

/// Why an attempt gave no answers.
enum Attempt {
    /// This is the answer.
    Over(StoreError),
    /// The server refused the transaction: perhaps because of one command among many.
    Refused(StoreError),
    /// The same, and trying again may help.
    Collided(StoreError),
}

/// What became of a transaction.
enum Fate {
    Committed,
    Aborted,
    Forgotten,
}
