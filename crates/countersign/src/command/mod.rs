//! Commands: everything that can be written to a store, each one transaction.
//!
//! Enters: a command, the rows it may see (read under their lock) and the store's clock (read after the lock).
//! Leaves: the rows to save, with their events, and an answer.
//! Deliberately absent: how rows are kept. Every store runs this same code, so every store behaves the same.

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
use crate::event::{Event, What};
use crate::hash::Hash;
use crate::id::{Actor, Agent, ApprovalId, Channel, Key, Tenant};
use crate::registry::{Entry, Kind, Put};
use crate::state::Illegal;
use crate::store::StoreError;
use crate::store::record::Bodies;
use crate::time::{Clock, Time};

pub use attempt::Attempt;
pub use decide::{Decide, DecideAnswer, Revision, Withdraw};
pub use denial::{CallSet, denial_key};
pub use erase::{ERASED, Erase, Erasure};
pub use finish::{Finish, Finished, Reconcile};
pub use owner::OWNED_FOR;
pub use propose::{NewCall, Propose, ProposeRefusal, Proposed};
pub use register::{PutEntry, TakeEntry};
pub use restraint::{MOST_LOOKED_AT, Restraint};
pub use start::{ExecuteRefusal, Seen, Start, Started};
pub use sweep::{Sweep, Swept};
pub use void::{Void, Voided};

/// One transaction.
#[derive(Clone, Debug)]
pub enum Command {
    /// Holds calls: a new pending approval. Crash before: nothing there. After: it is pending. Or records a call that
    /// passes, and its start. Crash before: not run. After: it may have run, and ends as unknown.
    Propose(Box<Propose>),
    /// A person's decision. Crash before: still pending. After: decided, for ever.
    Decide(Box<Decide>),
    /// Keeps as evidence that somebody tried to decide who never may. Crash before: as it was. After: on record.
    Attempt(Attempt),
    /// Takes an approval back. Crash before: still pending. After: withdrawn.
    Withdraw(Withdraw),
    /// Records that a call starts now. Crash before: not run. After: it may have run, and ends as unknown.
    Start(Start),
    /// Records how a call ended. Crash before: it ends as unknown. After: known.
    Finish(Finish),
    /// Records what somebody found out about an unknown call.
    Reconcile(Reconcile),
    /// Ends what is due: expired approvals, stale releases, lost runs.
    Sweep(Sweep),
    /// Keeps an entry of the registry. Crash before: as it was. After: kept.
    PutEntry(PutEntry),
    /// Takes an entry out of the registry. Crash before: still there. After: gone.
    TakeEntry(TakeEntry),
    /// Erases the content of an approval that is over. Crash before: as it was. After: gone.
    Erase(Erase),
    /// Ends everything that is open, after a restore.
    Void(Void),
}

/// What a command answered. Refusals are answers.
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

impl Answer {
    /// True when it recorded the start of a call that somebody is to run now.
    pub fn has_started(&self) -> bool {
        match self {
            Answer::Propose(Ok(proposed)) => {
                !proposed.repeated && proposed.approval.state == crate::state::State::Passed
            }
            Answer::Decide(answer) => answer.started.is_some(),
            Answer::Start(started) => started.is_ok(),
            Answer::Finish(Ok(finished)) => finished.started.is_some(),
            _ => false,
        }
    }
}

/// What a command may see and change, inside its transaction.
pub trait Rows {
    /// The approval of this id, locked.
    fn approval(&mut self, tenant: &Tenant, id: ApprovalId) -> Result<Option<Approval>, StoreError>;
    /// The approval pending in this channel, locked; also when it has expired and nobody wrote that down yet.
    fn pending_in(&mut self, tenant: &Tenant, channel: &Channel) -> Result<Option<Approval>, StoreError>;
    /// The approval this agent proposed under this key, locked.
    fn by_key(&mut self, tenant: &Tenant, agent: &Agent, key: &Key) -> Result<Option<Approval>, StoreError>;
    /// Some approvals whose [`Approval::due_at`] is not after `now`, longest due first, locked.
    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Approval>, StoreError>;
    /// This agent's pending approvals, oldest first, locked; also those that have expired.
    fn pending_of(
        &mut self,
        tenant: &Tenant,
        agent: &Agent,
        limit: usize,
    ) -> Result<Vec<Approval>, StoreError>;
    /// How many approvals of this agent are pending, also expired ones; `limit` stands for all that is not less.
    fn count_pending_of(
        &mut self,
        tenant: &Tenant,
        agent: &Agent,
        limit: usize,
    ) -> Result<usize, StoreError> {
        Ok(self.pending_of(tenant, agent, limit)?.len())
    }
    /// Keeps a changed or new approval and its new events.
    fn save(&mut self, saved: Saved) -> Result<(), StoreError>;
    /// The entry of this kind and key, locked unless it is only looked at; also when its time is over.
    fn entry(&mut self, kind: Kind, key: &str) -> Result<Option<Entry>, StoreError>;
    /// Some entries whose time is over, longest first, locked.
    fn due_entries(&mut self, now: Time, limit: usize) -> Result<Vec<(Kind, String)>, StoreError>;
    /// Keeps an entry in place of whatever has its kind and key.
    fn keep_entry(&mut self, entry: Entry) -> Result<(), StoreError>;
    /// Removes an entry.
    fn remove_entry(&mut self, kind: Kind, key: &str) -> Result<(), StoreError>;
    /// Removes all entries of a kind, whoever's they are.
    fn remove_kind(&mut self, kind: Kind) -> Result<(), StoreError>;
}

/// An approval as a command left it.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The approval.
    pub approval: SharedApproval,
    /// What happened to it, oldest first.
    pub events: Vec<Event>,
    /// The version it had before; 0 when it is new.
    pub version_before: u32,
    /// The bodies of its rows, where they were written ahead of the transaction.
    pub bodies: Option<Bodies>,
}

/// What could be worked out of a command before its transaction.
#[derive(Clone, Debug)]
pub struct Prepared(Saved);

/// The rows a command will ask for, for stores that lock and read ahead.
#[derive(Clone, Debug, Default)]
pub struct Needs<'a> {
    /// Its tenant; none for the sweep and for entries.
    pub tenant: Option<&'a Tenant>,
    /// Approvals by id. What they undo is needed too.
    pub approvals: Vec<ApprovalId>,
    /// The pending approval of a channel.
    pub channel: Option<&'a Channel>,
    /// An approval by its proposer's key.
    pub key: Option<(&'a Agent, &'a Key)>,
    /// All pending approvals of an agent.
    pub pending_of: Option<&'a Agent>,
    /// Up to so many due approvals, and as many entries whose time is over.
    pub due: Option<usize>,
    /// With `due`: whatever will ever be due, and no entries.
    pub open: bool,
    /// Entries of the registry.
    pub entries: Vec<(Kind, Cow<'a, str>)>,
    /// Entries that are only looked at.
    pub grounds: Vec<(Kind, &'a str)>,
}

impl Command {
    /// The rows this will ask for.
    pub fn needs(&self) -> Needs<'_> {
        let one = |tenant, id| Needs {
            tenant: Some(tenant),
            approvals: vec![id],
            ..Needs::default()
        };
        match self {
            Command::Propose(propose) => propose.needs(),
            Command::Decide(decide) => Needs {
                grounds: decide.grounds(),
                ..one(&decide.decision.tenant, decide.decision.approval)
            },
            Command::Attempt(attempt) => one(&attempt.tenant, attempt.approval),
            Command::Withdraw(withdraw) => one(&withdraw.tenant, withdraw.approval),
            Command::Start(start) => Needs {
                channel: start
                    .instead
                    .as_ref()
                    .and_then(|instead| instead.channel.as_ref()),
                entries: start.instead.iter().flat_map(|instead| instead.owner()).collect(),
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

    /// The entries this will ask for besides, once it is known that this approval is among what was found.
    pub fn needs_of(&self, found: &Approval) -> Vec<(Kind, String)> {
        match self {
            Command::Decide(decide) => decide.denials(found),
            _ => Vec::new(),
        }
    }

    /// Works out ahead of the transaction what needs no rows, so that a store's one writer has less to do. `clock` is
    /// the store's; a proposal's time then begins a moment early, never late.
    pub fn prepare(&self, clock: &dyn Clock) -> Option<Prepared> {
        match self {
            Command::Propose(propose) => propose.prepare(clock.now()).map(Prepared),
            _ => None,
        }
    }

    /// Applies this to `rows`. `now` is the store's clock, read after the rows were locked.
    pub fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Answer, StoreError> {
        self.apply_prepared(None, rows, now)
    }

    /// The same, with what was prepared.
    pub fn apply_prepared<R: Rows>(
        &self,
        prepared: Option<Prepared>,
        rows: &mut R,
        now: Time,
    ) -> Result<Answer, StoreError> {
        match self {
            Command::Propose(propose) => {
                let prepared = prepared.map(|Prepared(saved)| saved);
                propose.apply(prepared, rows, now).map(Answer::Propose)
            }
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

/// An approval being changed: collects its events until it is saved.
struct Change {
    approval: Approval,
    events: Vec<Event>,
    version_before: u32,
    at: Time,
    policy: Hash,
}

impl Change {
    /// Time never goes back within one approval, whatever clock a node or a new primary has.
    fn new(approval: Approval, now: Time, policy: Hash) -> Change {
        let version_before = approval.version;
        let at = now.max(approval.changed_at);
        Change {
            approval,
            events: Vec::new(),
            version_before,
            at,
            policy,
        }
    }

    fn record(&mut self, by: Actor, what: What) -> Result<(), Illegal> {
        let event = self.approval.record(self.at, self.policy, by, what)?;
        self.events.push(event);
        Ok(())
    }

    /// Where nothing happened there is nothing to write, and nobody to wake.
    fn save<R: Rows>(self, rows: &mut R) -> Result<SharedApproval, StoreError> {
        let saved = self.into_saved();
        let approval = saved.approval.clone();
        if !saved.events.is_empty() {
            rows.save(saved)?;
        }
        Ok(approval)
    }

    fn into_saved(self) -> Saved {
        Saved {
            approval: Arc::new(self.approval),
            events: self.events,
            version_before: self.version_before,
            bodies: None,
        }
    }
}

impl From<Illegal> for StoreError {
    fn from(illegal: Illegal) -> Self {
        StoreError::Impossible(format!("the store holds something impossible: {illegal}"))
    }
}
