//! One transaction for a group of commands: lock, look, read the clock, apply, write, commit. Two exchanges.
//!
//! Enters: commands. Leaves: their answers, or whether anything can have been written.

use std::sync::Arc;
use std::time::Duration;

use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command};
use countersign::store::StoreError;
use countersign::time::Clock;
use futures_util::FutureExt as _;
use tokio_postgres::{Client, Error, Statement};

use super::clock::ServerClock;
use super::connect::Session;
use super::entries::EntryStatements;
use super::error::{is_collision, is_lost, store_error, words};
use super::lock::{self, Locked, Locks};
use super::notify::Announcer;
use super::rows::{Entry, Wanted, WorkingSet};
use super::save::Writes;

/// Longer than the server's own limits, which answer first as long as the server can be heard.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(20);

/// The statements of a lane, prepared on one connection.
pub(super) struct Statements {
    locks: Locks,
    writes: Writes,
    entries: EntryStatements,
    tell: Statement,
}

/// In a transaction of its own, which is worth no disk: otherwise the server would sync for each notification.
const TELL: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify('countersign', $1)";

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Statements, Error> {
        Ok(Statements {
            locks: Locks::prepare(client).await?,
            writes: Writes::prepare(client).await?,
            entries: EntryStatements::prepare(client).await?,
            tell: client.prepare(TELL).await?,
        })
    }

    /// Tells other nodes, behind whatever was sent before. Nobody waits for it: what is lost is found by the floor.
    pub(super) fn tell(&self, client: &Client, payloads: &[String]) {
        for payload in payloads {
            // It is sent when it is first polled; the answer is dropped.
            let _ = client.query(&self.tell, &[payload]).now_or_never();
        }
    }
}

/// What a group did.
pub(super) struct Done {
    /// For each command, in order.
    pub(super) answers: Vec<Result<Answer, StoreError>>,
    /// What changed, for those who wait.
    pub(super) changed: Vec<Changed>,
    /// True when entries of the registry changed.
    pub(super) entries: bool,
}

impl Done {
    /// True when nothing was written.
    pub(super) fn is_unchanged(&self) -> bool {
        self.changed.is_empty() && !self.entries
    }
}

/// An approval that changed.
pub(super) struct Changed {
    pub(super) approval: SharedApproval,
    /// Nobody can have waited for it in another process.
    pub(super) is_new: bool,
}

/// Why a group is not known to be committed.
pub(super) enum Failure {
    /// The server refused; nothing was written, and the connection is in order.
    Refused(StoreError),
    /// Others were in the way: the same again may well succeed. Nothing was written.
    Collided(StoreError),
    /// The connection is gone, and nothing was written.
    Lost(String),
    /// The connection is gone, and transaction `xact` may have been committed.
    InDoubt { xact: i64, done: Done, why: String },
}

/// Where a transaction runs, and by which clock.
pub(super) struct Run<'a> {
    pub(super) session: &'a Session,
    pub(super) statements: &'a Statements,
    /// Replaces the server's, in tests.
    pub(super) clock: Option<&'a Arc<dyn Clock>>,
    pub(super) server_clock: &'a ServerClock,
    pub(super) announcer: &'a Announcer,
}

impl Run<'_> {
    /// Runs commands in one transaction.
    pub(super) async fn commands(&self, commands: &[&Command]) -> Result<Done, Failure> {
        let Run {
            statements, clock, ..
        } = *self;
        let client = &self.session.client;
        let mut wanted = Wanted::of(commands);
        let tenants = wanted.tenants();
        let shown = self.session.see(&tenants);
        match tokio::time::timeout(EXCHANGE_TIMEOUT, shown).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if is_lost(&error) => return Err(Failure::Lost(words(&error))),
            Ok(Err(error)) => return Err(sorted(&error)),
            Err(_) => return Err(Failure::Lost("no answer in time".to_owned())),
        }
        let mut locked = lock(client, statements, clock, &wanted).await?;
        // What an approval would undo never changes, so it is known now; but its lock has to be taken in order. Accounts
        // that endorsed it are looked at again, behind the lock, and so is where a denial is noted.
        let named = wanted.approvals.clone();
        let decides = commands
            .iter()
            .any(|command| matches!(command, Command::Decide(_)));
        while wanted.due.is_none()
            && (wanted.add_undone(&named, &locked.found)
                | (decides && wanted.add_endorsers(&locked.found))
                | (decides && wanted.add_needs_of(commands, &locked.found)))
        {
            roll_back(client).await?;
            locked = lock(client, statements, clock, &wanted).await?;
        }
        self.server_clock.hear(locked.now);
        // Lock first, clock second.
        let now = clock.map_or(locked.now, |clock| clock.now());
        let mut set = WorkingSet::new(&wanted, locked.found, locked.entries);
        let answers = commands.iter().map(|command| set.apply(command, now)).collect();
        let (entries, registry) = set.into_changed();
        let done = Done {
            answers,
            changed: entries.iter().map(changed).collect(),
            entries: !registry.is_empty(),
        };
        let payloads = self.announcer.payloads(&done);
        let registry = (&statements.entries, &registry);
        let behind = || statements.tell(client, &payloads);
        let saving = statements
            .writes
            .save_and_commit(client, &entries, registry, behind);
        let why = match tokio::time::timeout(EXCHANGE_TIMEOUT, saving).await {
            Ok(Ok(())) => return Ok(done),
            Ok(Err(error)) if !is_lost(&error) => return Err(sorted(&error)),
            Ok(Err(error)) => words(&error),
            Err(_) => "no answer in time".to_owned(),
        };
        let xact = locked.xact;
        Err(Failure::InDoubt { xact, done, why })
    }
}

fn changed(entry: &Entry) -> Changed {
    Changed {
        approval: entry.after.clone(),
        is_new: entry.before.is_none(),
    }
}

/// Begins a transaction, locks and reads. A failure leaves no transaction behind.
async fn lock(
    client: &Client,
    statements: &Statements,
    clock: Option<&Arc<dyn Clock>>,
    wanted: &Wanted,
) -> Result<Locked, Failure> {
    let locking = lock::lock(client, &statements.locks, &statements.entries, clock, wanted);
    match tokio::time::timeout(EXCHANGE_TIMEOUT, locking).await {
        Ok(Ok(Ok(locked))) => Ok(locked),
        Ok(Ok(Err(unreadable))) => {
            roll_back(client).await?;
            Err(Failure::Refused(unreadable))
        }
        Ok(Err(error)) if is_lost(&error) => Err(Failure::Lost(words(&error))),
        Ok(Err(error)) => {
            roll_back(client).await?;
            Err(sorted(&error))
        }
        Err(_) => Err(Failure::Lost("no answer in time".to_owned())),
    }
}

async fn roll_back(client: &Client) -> Result<(), Failure> {
    let rolled_back = client.batch_execute("ROLLBACK").await;
    rolled_back.map_err(|lost| Failure::Lost(words(&lost)))
}

fn sorted(error: &Error) -> Failure {
    match is_collision(error) {
        true => Failure::Collided(store_error(error)),
        false => Failure::Refused(store_error(error)),
    }
}
