//! Commands: every write to a store, each one a transaction.
//!
//! A command reads the rows that it needs under their lock, and the store's clock after the lock was taken. It produces
//! the rows to save with their events, and an answer. How rows are stored is up to the store. All stores run this code,
//! so all of them behave the same.

mod attempt;
mod authority;
mod decide;
mod denial;
mod erase;
mod finish;
mod owner;
mod propose;
mod register;
mod restraint;
mod start;
mod sweep;
#[cfg(test)]
mod tests;
mod undo;
mod void;

use std::borrow::Cow;
use std::sync::Arc;

use crate::approval::{Approval, SharedApproval};
use crate::event::{Event, EventKind};
use crate::hash::Hash;
use crate::id::{Actor, Agent, ApprovalId, Channel, Key, Tenant};
use crate::registry::{Entry, Kind, Put};
use crate::state::Illegal;
use crate::store::StoreError;
use crate::store::record::Bodies;
use crate::time::Time;

pub use attempt::Attempt;
pub use decide::{Decide, DecideAnswer, Revision, Withdraw};
pub use denial::{CallSet, denial_key};
pub use erase::{ERASED, Erase, Erasure};
pub use finish::{Finish, Finished, Reconcile};
pub use owner::OWNED_FOR;
pub use propose::{NewCall, Propose, ProposeRefusal, Proposed};
pub use register::{PutEntry, TakeEntry};
pub use restraint::{MOST_LOOKED_AT, Restraint};
pub use start::{ExecuteRefusal, SnapshotCheck, Start, Started};
pub use sweep::{Sweep, Swept};
pub use void::{Void, Voided};

/// A write to a store, run as one transaction. Exhaustive, because a store that skips a command loses a write.
#[derive(Clone, Debug)]
pub enum Command {
    /// Creates a pending approval for held calls, or records a passed call together with its start. A crash before the
    /// commit leaves nothing, and a passed call did not run. A crash afterwards leaves the approval pending; a passed
    /// call may have run and ends as unknown.
    Propose(Box<Propose>),
    /// Records a person's decision. A crash before the commit leaves the approval pending; after the commit the
    /// decision is final.
    Decide(Box<Decide>),
    /// Records, as evidence, an attempt to decide by a caller without that right. A crash before the commit leaves no
    /// record.
    Attempt(Attempt),
    /// Withdraws an approval. A crash before the commit leaves the approval pending.
    Withdraw(Withdraw),
    /// Records that a call starts now. If the process crashes before the commit, the call did not run; if it crashes
    /// afterwards, the call may have run and ends as unknown.
    Start(Start),
    /// Records the outcome of a call. A crash before the commit means that the call ends as unknown.
    Finish(Finish),
    /// Records the outcome that a person established for a call that ended as unknown.
    Reconcile(Reconcile),
    /// Ends everything that is due: approvals that have expired, released calls that were not started in time, running
    /// calls past their deadline, and expired entries.
    Sweep(Sweep),
    /// Writes a registry entry. A crash before the commit leaves the old entry.
    PutEntry(PutEntry),
    /// Removes and returns a registry entry. A crash before the commit leaves the entry in place.
    TakeEntry(TakeEntry),
    /// Erases the content of a finished approval. A crash before the commit leaves the content intact.
    Erase(Erase),
    /// Ends everything that is open, after a restore or a clock reset.
    Void(Void),
}

/// Answer to a command. Refusals are answers, not errors.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each is the answer to the command of that name")]
pub enum Answer {
    Propose(Result<Proposed, ProposeRefusal>),
    Decide(DecideAnswer),
    Attempt(Option<SharedApproval>),
    Withdraw(DecideAnswer),
    Start(Result<Started, ExecuteRefusal>),
    Finish(Result<Finished, ExecuteRefusal>),
    Reconcile(Result<SharedApproval, ExecuteRefusal>),
    Sweep(Swept),
    PutEntry(Put),
    TakeEntry(Option<Entry>),
    Erase(Erasure),
    Void(Voided),
}

/// The rows that a command reads and writes inside its transaction.
pub trait Rows {
    /// Locks and returns the approval with this id; `None` if it does not exist.
    fn approval(&mut self, tenant: &Tenant, id: ApprovalId) -> Result<Option<Approval>, StoreError>;
    /// Locks and returns the approval that is pending in this channel, if any. It may have expired and not been swept
    /// yet.
    fn pending_in(&mut self, tenant: &Tenant, channel: &Channel) -> Result<Option<Approval>, StoreError>;
    /// Locks and returns the approval that this agent proposed under this idempotency key, if any.
    fn by_key(&mut self, tenant: &Tenant, agent: &Agent, key: &Key) -> Result<Option<Approval>, StoreError>;
    /// Locks and returns up to `limit` approvals whose [`Approval::due_at`] is not after `now`, longest due first.
    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Approval>, StoreError>;
    /// Returns the latest time that has certainly passed, never after `now`. An approval or call that is due by that
    /// time may be ended permanently. See [`Clock::certain`](crate::time::Clock::certain).
    fn certain(&self, now: Time) -> Time {
        now
    }
    /// Returns the number of approvals that [`Rows::due`] and [`Rows::pending_of`] left out because their rows are
    /// inconsistent.
    fn skipped(&self) -> usize {
        0
    }
    /// Locks and returns up to `limit` pending approvals of this agent, oldest first. Some may have expired and not
    /// been swept yet.
    fn pending_of(
        &mut self,
        tenant: &Tenant,
        agent: &Agent,
        limit: usize,
    ) -> Result<Vec<Approval>, StoreError>;
    /// Counts the pending approvals of this agent, including expired ones, up to `limit`.
    fn count_pending_of(
        &mut self,
        tenant: &Tenant,
        agent: &Agent,
        limit: usize,
    ) -> Result<usize, StoreError> {
        Ok(self.pending_of(tenant, agent, limit)?.len())
    }
    /// Saves a new or changed approval and its new events.
    fn save(&mut self, saved: SavedApproval) -> Result<(), StoreError>;
    /// Returns the entry with this kind and key, even if it has expired; `None` if it does not exist. The entry is
    /// locked, unless it is only read (see [`Needs::read_only_entries`]).
    fn entry(&mut self, kind: Kind, key: &str) -> Result<Option<Entry>, StoreError>;
    /// Locks and returns up to `limit` expired entries by kind and key, longest expired first.
    fn due_entries(&mut self, now: Time, limit: usize) -> Result<Vec<(Kind, String)>, StoreError>;
    /// Writes an entry, replacing any entry with the same kind and key.
    fn keep_entry(&mut self, entry: Entry) -> Result<(), StoreError>;
    /// Removes the entry with this kind and key, if there is one.
    fn remove_entry(&mut self, kind: Kind, key: &str) -> Result<(), StoreError>;
    /// Removes all entries of a kind, of all tenants.
    fn remove_kind(&mut self, kind: Kind) -> Result<(), StoreError>;
}

/// An approval to save, as a command left it.
#[derive(Clone, Debug)]
pub struct SavedApproval {
    /// The approval in its new state.
    pub approval: SharedApproval,
    /// New events, oldest first.
    pub events: Vec<Event>,
    /// The approval's version before the command; 0 if it is new.
    pub version_before: u32,
    /// Encoded bodies of the approval's rows.
    pub bodies: Bodies,
}

/// The rows that a command will read, for stores that lock and read them ahead. Nothing is read for a field that is
/// `None` or empty.
#[derive(Clone, Debug, Default)]
pub struct Needs<'a> {
    /// Tenant of the command; `None` for commands across tenants and for those on registry entries.
    pub tenant: Option<&'a Tenant>,
    /// Ids of approvals. The approvals that these undo are needed, too.
    pub approvals: Vec<ApprovalId>,
    /// Channel whose pending approval is needed.
    pub channel: Option<&'a Channel>,
    /// Idempotency key, with its proposer, whose approval is needed.
    pub key: Option<(&'a Agent, &'a Key)>,
    /// Agent whose pending approvals are all needed.
    pub pending_of: Option<&'a Agent>,
    /// Maximum number of due approvals, and of expired entries, that are needed.
    pub due: Option<usize>,
    /// True if all open approvals count as due, whenever they are due. Expired entries are not needed then.
    pub open: bool,
    /// Registry entries that the command may change.
    pub entries: Vec<(Kind, Cow<'a, str>)>,
    /// Registry entries that the command only reads.
    pub read_only_entries: Vec<(Kind, &'a str)>,
}

impl Command {
    /// Returns the rows that this command will read.
    pub fn needs(&self) -> Needs<'_> {
        let one = |tenant, id| Needs {
            tenant: Some(tenant),
            approvals: vec![id],
            ..Needs::default()
        };
        match self {
            Command::Propose(propose) => propose.needs(),
            Command::Decide(decide) => Needs {
                read_only_entries: decide.authority_entries(),
                ..one(&decide.decision.tenant, decide.decision.approval)
            },
            Command::Attempt(attempt) => one(&attempt.tenant, attempt.approval),
            Command::Withdraw(withdraw) => one(&withdraw.tenant, withdraw.approval),
            Command::Start(start) => Needs {
                channel: start
                    .replacement
                    .as_ref()
                    .and_then(|replacement| replacement.channel.as_ref()),
                entries: start
                    .replacement
                    .iter()
                    .flat_map(|replacement| replacement.owner())
                    .collect(),
                ..one(&start.tenant, start.call.approval)
            },
            Command::Finish(finish) => one(&finish.tenant, finish.call.approval),
            Command::Reconcile(reconcile) => one(&reconcile.tenant, reconcile.call.approval),
            Command::Sweep(sweep) => Needs {
                due: Some(sweep.limit),
                ..Needs::default()
            },
            Command::Erase(erase) => one(&erase.tenant, erase.approval),
            Command::Void(void) => Needs {
                due: Some(void.limit),
                open: true,
                ..Needs::default()
            },
            Command::PutEntry(PutEntry(entry)) => Needs {
                entries: vec![(entry.kind, Cow::from(&entry.key))],
                ..Needs::default()
            },
            Command::TakeEntry(take) => Needs {
                entries: vec![(take.kind, Cow::from(&take.key))],
                ..Needs::default()
            },
        }
    }

    /// Returns the entries that this command needs in addition because of an approval that was found.
    pub fn needs_of(&self, found: &Approval) -> Vec<(Kind, String)> {
        match self {
            Command::Decide(decide) => decide.denials(found),
            _ => Vec::new(),
        }
    }

    /// Applies this command to `rows`. `now` is the store's clock, read after the rows were locked.
    pub fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Answer, StoreError> {
        match self {
            Command::Propose(propose) => propose.apply(rows, now).map(Answer::Propose),
            Command::Decide(decide) => decide.apply(rows, now).map(Answer::Decide),
            Command::Attempt(attempt) => attempt.apply(rows, now).map(Answer::Attempt),
            Command::Withdraw(withdraw) => withdraw.apply(rows, now).map(Answer::Withdraw),
            Command::Start(start) => start.apply(rows, now).map(Answer::Start),
            Command::Finish(finish) => finish.apply(rows, now).map(Answer::Finish),
            Command::Reconcile(reconcile) => reconcile.apply(rows, now).map(Answer::Reconcile),
            Command::Sweep(sweep) => sweep.apply(rows, now).map(Answer::Sweep),
            Command::PutEntry(put) => put.apply(rows, now).map(Answer::PutEntry),
            Command::TakeEntry(take) => take.apply(rows, now).map(Answer::TakeEntry),
            Command::Erase(erase) => erase.apply(rows, now).map(Answer::Erase),
            Command::Void(void) => void.apply(rows, now).map(Answer::Void),
        }
    }
}

/// An approval that is being changed, with the events recorded so far.
struct Change {
    approval: Approval,
    events: Vec<Event>,
    version_before: u32,
    // Link of the event before the last one.
    link_before: Hash,
    at: Time,
    policy: Hash,
}

impl Change {
    /// Creates a change at `now`, or at the time of the approval's last change if that is later. So time never goes
    /// back within one approval, even if other nodes or a new primary have different clocks.
    fn new(approval: Approval, now: Time, policy: Hash) -> Change {
        let version_before = approval.version;
        let at = now.max(approval.changed_at);
        Change {
            link_before: approval.link,
            approval,
            events: Vec::new(),
            version_before,
            at,
            policy,
        }
    }

    fn record(&mut self, by: Actor, what: EventKind) -> Result<(), Illegal> {
        let link_before = self.approval.link;
        let event = self.approval.record(self.at, self.policy, by, what)?;
        self.link_before = link_before;
        self.events.push(event);
        Ok(())
    }

    /// Saves the approval and returns it. Writes nothing if no event was recorded.
    fn save<R: Rows>(self, rows: &mut R) -> Result<SharedApproval, StoreError> {
        if self.events.is_empty() {
            return Ok(Arc::new(self.approval));
        }
        let saved = self.into_saved();
        let approval = saved.approval.clone();
        rows.save(saved)?;
        Ok(approval)
    }

    /// Converts the change for saving.
    ///
    /// INVARIANT: the last event holds a hash of the resulting rows, so that no row can be changed unnoticed.
    fn into_saved(mut self) -> SavedApproval {
        let mut bodies = Bodies::of(&self.approval);
        if let Some(last) = self.events.last_mut()
            && let Some(content) = bodies.content(&self.approval)
        {
            last.bind(self.link_before, content);
            self.approval.link = last.link;
            bodies.put_link(last.link);
        }
        SavedApproval {
            approval: Arc::new(self.approval),
            events: self.events,
            version_before: self.version_before,
            bodies,
        }
    }
}

impl From<Illegal> for StoreError {
    fn from(illegal: Illegal) -> Self {
        StoreError::Impossible(format!("the store holds something impossible: {illegal}"))
    }
}
