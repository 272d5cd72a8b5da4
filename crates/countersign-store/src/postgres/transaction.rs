//! Runs a group of commands in one transaction: lock, read, read the clock, apply, write, commit. Two round trips.
//!
//! Input: commands. Output: their answers, or a failure that says whether anything can have been written.

use std::sync::Arc;

use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command};
use countersign::store::StoreError;
use countersign::time::{Clock, LARGEST_JUMP, SystemClock};
use futures_util::FutureExt as _;
use tokio_postgres::{Client, Error, Statement};

use super::clock::ServerClock;
use super::connect::Session;
use super::entries::EntryStatements;
use super::error::StatementError;
use super::limits;
use super::lock::{self, LockStatements, LockedRows};
use super::notify::Announcer;
use super::rows::{NeededRows, WorkingApproval, WorkingSet};
use super::save::WriteStatements;

/// The statements of a lane, prepared on one connection.
pub(super) struct LaneStatements {
    locks: LockStatements,
    writes: WriteStatements,
    entries: EntryStatements,
    notify: Statement,
}

/// Statement that notifies other nodes, in a transaction without a sync: a lost notification does no harm.
const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify('countersign', $1)";

/// Statement that ends a transaction without writes, after the standby has confirmed earlier commits; see
/// `connect::CONFIRM`.
const CONFIRM_AND_COMMIT: &str = "SELECT pg_logical_emit_message(true, 'countersign', '')
    WHERE current_setting('synchronous_standby_names') <> ''; COMMIT";

impl LaneStatements {
    pub(super) async fn prepare(client: &Client) -> Result<LaneStatements, Error> {
        Ok(LaneStatements {
            locks: LockStatements::prepare(client).await?,
            writes: WriteStatements::prepare(client).await?,
            entries: EntryStatements::prepare(client).await?,
            notify: client.prepare(NOTIFY).await?,
        })
    }

    /// Notifies other nodes without waiting for an answer. The notification is sent after all statements sent before.
    /// If it is lost, other nodes find the change by polling; see `notify::poll`.
    pub(super) fn notify(&self, client: &Client, payloads: &[String]) {
        for payload in payloads {
            // The first poll sends the query; the answer is dropped.
            let _ = client.query(&self.notify, &[payload]).now_or_never();
        }
    }
}

/// Result of a group's transaction.
pub(super) struct GroupResult {
    /// Answers, one for each command, in order.
    pub(super) answers: Vec<Result<Answer, StoreError>>,
    /// Approvals that changed, so that their waiters can be woken.
    pub(super) changed: Vec<ChangedApproval>,
    /// True if registry entries changed.
    pub(super) entries: bool,
}

impl GroupResult {
    /// Returns true if nothing was written.
    pub(super) fn is_unchanged(&self) -> bool {
        self.changed.is_empty() && !self.entries
    }
}

pub(super) struct ChangedApproval {
    pub(super) approval: SharedApproval,
    /// True if the transaction created the approval, so that no other process can be waiting for it.
    pub(super) is_new: bool,
}

/// Reason why a group is not known to be committed.
pub(super) enum GroupError {
    /// The server refused the transaction. Nothing was written, and the connection can be used again.
    Refused(StoreError),
    /// The transaction conflicted with a concurrent one, so a retry may succeed. Nothing was written.
    Collided(StoreError),
    /// The connection is lost, for this reason, and nothing was written.
    Lost(String),
    /// The connection was lost during the commit, or the server answered the commit with a warning. Transaction `xact`
    /// may have been committed, perhaps without reaching a standby.
    InDoubt {
        xact: i64,
        result: GroupResult,
        reason: String,
    },
}

/// Connection, statements and clocks of a transaction.
pub(super) struct GroupTransaction<'a> {
    pub(super) session: &'a Session,
    pub(super) statements: &'a LaneStatements,
    /// Clock to use instead of the server's, in tests.
    pub(super) clock: Option<&'a Arc<dyn Clock>>,
    pub(super) server_clock: &'a ServerClock,
    /// Clock of this machine. Sweeps end nothing that is due more than [`LARGEST_JUMP`] after the time that has
    /// certainly passed by this clock.
    pub(super) machine_clock: &'a SystemClock,
    pub(super) announcer: &'a Announcer,
}

impl GroupTransaction<'_> {
    /// Runs commands in one transaction. The error shows whether anything can have been written.
    pub(super) async fn run(&self, commands: &[&Command]) -> Result<GroupResult, GroupError> {
        let GroupTransaction {
            session,
            statements,
            clock,
            ..
        } = *self;
        let mut needed = NeededRows::of(commands);
        let tenants = needed.tenants();
        session
            .restrict_to(&tenants)
            .await
            .map_err(|error| classify(&error))?;
        let mut locked = lock(session, statements, clock, &needed).await?;
        // The rows found may name further ones: the approval to undo (which never changes), accounts that endorsed, the
        // entry that notes a denial. Locks are taken in one order, so roll back and lock all rows again.
        let first_approvals = needed.approvals.clone();
        let has_decision = commands
            .iter()
            .any(|command| matches!(command, Command::Decide(_)));
        while needed.due.is_none()
            && (needed.add_undone(&first_approvals, &locked.found.consistent)
                | (has_decision && needed.add_endorsers(&locked.found.consistent))
                | (has_decision && needed.add_needs_of(commands, &locked.found.consistent)))
        {
            roll_back(session).await?;
            locked = lock(session, statements, clock, &needed).await?;
        }
        self.server_clock.record(locked.now);
        // The clock is read after the locks are held.
        let now = clock.map_or(locked.now, |clock| clock.now());
        let certain = match clock {
            Some(clock) => clock.certain(),
            None => now.min(self.machine_clock.certain().plus(LARGEST_JUMP)),
        };
        let mut working_set = WorkingSet::new(&needed, locked.found, locked.entries);
        let answers = commands
            .iter()
            .map(|command| working_set.apply(command, now, certain))
            .collect();
        let (entries, registry) = working_set.into_changed();
        let result = GroupResult {
            answers,
            changed: entries.iter().map(changed_approval).collect(),
            entries: !registry.is_empty(),
        };
        let payloads = self.announcer.payloads(&result);
        let registry = (&statements.entries, &registry);
        // A refusal, or the answer to a repeated request, is based on rows that may be on no standby yet, so the
        // standby confirms them first. A sweep that finds nothing promises nothing and needs no confirmation.
        let commit = match result.is_unchanged() && needed.due.is_none() {
            true => CONFIRM_AND_COMMIT,
            false => "COMMIT",
        };
        let warnings = session.warnings();
        let saved = session.within(limits::COMMIT, |client| {
            let after_commit = || statements.notify(client, &payloads);
            statements
                .writes
                .save_and_commit(client, &entries, registry, commit, after_commit)
        });
        let reason = match saved.await {
            Ok(()) if session.warnings() == warnings => return Ok(result),
            // INVARIANT: a COMMIT with a warning is no acknowledgement. The server warns when its wait for the standby
            // was cancelled, and commits all the same.
            Ok(()) => "the server warned that the standby may not have it".to_owned(),
            Err(error) if !error.is_lost() => return Err(classify(&error)),
            Err(error) => error.message(),
        };
        let xact = locked.xact;
        Err(GroupError::InDoubt { xact, result, reason })
    }
}

fn changed_approval(entry: &WorkingApproval) -> ChangedApproval {
    ChangedApproval {
        approval: entry.after.clone(),
        is_new: entry.before.is_none(),
    }
}

/// Begins a transaction, locks the needed rows and reads them. A failure leaves no transaction open.
async fn lock(
    session: &Session,
    statements: &LaneStatements,
    clock: Option<&Arc<dyn Clock>>,
    needed: &NeededRows,
) -> Result<LockedRows, GroupError> {
    let locking = session.within(limits::LOCK, |client| {
        lock::lock(client, &statements.locks, &statements.entries, clock, needed)
    });
    match locking.await {
        Ok(Ok(locked)) => Ok(locked),
        Ok(Err(unreadable)) => {
            roll_back(session).await?;
            Err(GroupError::Refused(unreadable))
        }
        Err(error) if error.is_lost() => Err(classify(&error)),
        Err(error) => {
            roll_back(session).await?;
            Err(classify(&error))
        }
    }
}

async fn roll_back(session: &Session) -> Result<(), GroupError> {
    let rolled_back = session.within(limits::SHORT, |client| client.batch_execute("ROLLBACK"));
    rolled_back.await.map_err(|lost| GroupError::Lost(lost.message()))
}

/// Classifies a failure that happened before the commit, when nothing can have been written.
fn classify(error: &StatementError) -> GroupError {
    if error.is_lost() {
        GroupError::Lost(error.message())
    } else if error.is_collision() {
        GroupError::Collided(error.store_error())
    } else {
        GroupError::Refused(error.store_error())
    }
}
