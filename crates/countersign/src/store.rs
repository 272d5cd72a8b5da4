//! The [`Store`] trait, implemented by every backend that keeps approvals.
//!
//! For each write a store takes its lock, reads its own clock, lets [`Command::apply`] compute the changes, saves them
//! in one transaction and then wakes waiting tasks. All rules are in the commands. [`suite`] is the conformance suite
//! that every store has to pass.

pub mod audit;
pub mod memory;
mod purge;
pub mod record;
mod released;
mod shared;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

use crate::approval::{Approval, SharedApproval};
use crate::command::{Answer, Command, PutEntry, TakeEntry, Void, Voided};
use crate::event::Event;
use crate::hash::Hash;
use crate::id::{Agent, ApprovalId, Channel, Run, Tenant};
use crate::log::{Checkpoint, LogEntry};
use crate::registry::{Entry, Kind, Put};
use crate::state::State;
use crate::time::{ClockTrouble, Time};
use crate::wake::Hub;

pub use audit::{Audit, AuditProgress, Audited};
pub use purge::{Purge, Purged};
pub use released::Released;

/// Maximum number of rows in one page.
pub const LONGEST_PAGE: usize = 500;

/// Future returned by the store's methods.
pub type Stored<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Storage for approvals, their calls, their events and the registry.
///
/// Most programs only pass a store to a [`Gate`](crate::Gate). It can also be read directly:
///
/// ```
/// use countersign::store::Filter;
/// use countersign::{MemoryStore, Store, Tenant};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), countersign::StoreError> {
/// let store = MemoryStore::default();
/// let pending = store.list(&Tenant::single(), &Filter::pending()).await?;
/// assert!(pending.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// To write a store, implement this trait and run the conformance suite: enable the feature `suite` and see [`suite`].
///
/// A new method also has to be forwarded in `store/shared.rs`.
pub trait Store: Send + Sync + 'static {
    /// Runs one command in one transaction. The result is as durable as the store allows once the future resolves.
    ///
    /// A crash before the commit leaves no trace of the command, a crash after the commit leaves all of it. Each
    /// [`Command`] documents what that means for its caller.
    fn write(&self, command: Command) -> Stored<'_, Answer>;

    /// Returns an approval, or `None` if the tenant has none with this id.
    fn approval<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Option<SharedApproval>>;

    /// Returns the approval pending in a channel, or `None` once it has expired by the store's clock.
    fn pending_in<'a>(
        &'a self,
        tenant: &'a Tenant,
        channel: &'a Channel,
    ) -> Stored<'a, Option<SharedApproval>>;

    /// Returns one page of the approvals that the filter selects, in the order that [`Filter::state`] describes.
    fn list<'a>(&'a self, tenant: &'a Tenant, filter: &'a Filter) -> Stored<'a, Vec<SharedApproval>>;

    /// Returns the full history of an approval, oldest first; empty if the approval does not exist.
    fn events<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Vec<Event>>;

    /// Returns a tenant's events after a cursor, in an order that never skips one: an event that commits late is placed
    /// after everything already returned. To guarantee that, the feed may lag behind the newest commits for a moment.
    fn feed<'a>(&'a self, tenant: &'a Tenant, after: Cursor, limit: usize) -> Stored<'a, Vec<FeedEvent>>;

    /// Returns a cursor at the current end of the feed. Reading from there returns all future events, and possibly a
    /// few recent ones.
    fn feed_end<'a>(&'a self, tenant: &'a Tenant) -> Stored<'a, Cursor>;

    /// Returns size and Merkle root of the log of all tenants' events, as stored. Like the feed, the log may lag.
    fn log_head(&self) -> Stored<'_, Checkpoint>;

    /// Returns log entries starting at a position, at most [`LONGEST_PAGE`]. Positions count from 0 without gaps.
    fn log(&self, from: u64, limit: usize) -> Stored<'_, Vec<LogEntry>>;

    /// Verifies everything stored, as of one moment, without changing anything. Calls `progress` from time to time.
    fn audit<'a>(
        &'a self,
        audit: &'a Audit,
        progress: &'a (dyn Fn(AuditProgress) + Send + Sync),
    ) -> Stored<'a, Audited>;

    /// Returns approvals with a call that is ready to run and no running call. Considers only approvals that were
    /// approved, or in which a call ended, after the cursor.
    fn released<'a>(&'a self, tenant: &'a Tenant, after: Cursor) -> Stored<'a, Released> {
        released::released(self, tenant, after).boxed()
    }

    /// Counts the approvals that wait for a decision.
    fn count_pending<'a>(&'a self, tenant: &'a Tenant) -> Stored<'a, u64> {
        async move {
            let mut filter = Filter {
                limit: Some(LONGEST_PAGE),
                ..Filter::pending()
            };
            let mut count = 0;
            loop {
                let page = self.list(tenant, &filter).await?;
                count += page.len() as u64;
                filter.after = page.last().map(|approval| approval.id);
                if !filter.is_full(&page) {
                    return Ok(count);
                }
            }
        }
        .boxed()
    }

    /// Fails with [`StoreError::Stopped`] once the store permanently refuses writes; the process then has to be
    /// restarted.
    fn health(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the detected fault of the store's clock, if there is one.
    fn clock_trouble(&self) -> Option<ClockTrouble> {
        None
    }

    /// Returns a change counter: while its value stays the same, nothing in the store has changed, whichever process
    /// writes, so anything read after the first call is still current. `None` if the store cannot tell without reading
    /// the data itself.
    fn change_counter(&self) -> Stored<'_, Option<u64>> {
        ready(Ok(None)).boxed()
    }

    /// Returns a registry entry that has not expired; `None` if there is none. Takes no tenant, because the tenant of a
    /// token is known only after this lookup.
    fn entry<'a>(&'a self, kind: Kind, key: &'a str) -> Stored<'a, Option<Entry>>;

    /// Returns several entries in the order of `names`, with `None` for each that is missing or expired. Stores on a
    /// network override this to save round trips.
    fn entries_named<'a>(&'a self, names: &'a [(Kind, String)]) -> Stored<'a, Vec<Option<Entry>>> {
        async move {
            let mut found = Vec::with_capacity(names.len());
            for (kind, key) in names {
                found.push(self.entry(*kind, key).await?);
            }
            Ok(found)
        }
        .boxed()
    }

    /// Returns a tenant's entries of one kind, ordered by key, after the key `after`; at most [`LONGEST_PAGE`].
    fn entries<'a>(
        &'a self,
        tenant: &'a Tenant,
        kind: Kind,
        after: Option<&'a str>,
        limit: usize,
    ) -> Stored<'a, Vec<Entry>>;

    /// Writes an entry if its version matches the stored one (compare-and-swap). Version 0 means that no entry may
    /// exist yet.
    fn put_entry(&self, entry: Entry) -> Stored<'_, Put> {
        let answer = self.write(Command::PutEntry(PutEntry(entry)));
        let put = answer.map(|answer| match answer? {
            Answer::PutEntry(put) => Ok(put),
            _ => Err(other_answer()),
        });
        put.boxed()
    }

    /// Removes an entry and returns it; `None` if it is missing or expired. If several callers race, only one gets the
    /// entry.
    fn take_entry<'a>(&'a self, kind: Kind, key: &'a str) -> Stored<'a, Option<Entry>> {
        let key = key.to_owned();
        let answer = self.write(Command::TakeEntry(TakeEntry { kind, key }));
        let taken = answer.map(|answer| match answer? {
            Answer::TakeEntry(taken) => Ok(taken),
            _ => Err(other_answer()),
        });
        taken.boxed()
    }

    /// Erases the content of one page of approvals that are over and have not changed since a given time.
    fn purge<'a>(&'a self, purge: &'a Purge) -> Stored<'a, Purged> {
        purge::purge(self, purge).boxed()
    }

    /// Ends every open approval and revokes every token, session and link. After a backup was restored, this must run
    /// before anything else.
    fn void_open(&self, policy: Hash) -> Stored<'_, Voided> {
        async move {
            let mut total = Voided::default();
            loop {
                let limit = LONGEST_PAGE;
                let void = Void {
                    limit,
                    policy,
                    changed_after: None,
                };
                match self.write(Command::Void(void)).await? {
                    Answer::Void(voided) => {
                        total.pending += voided.pending;
                        total.released += voided.released;
                        total.running += voided.running;
                        if !voided.more {
                            return Ok(total);
                        }
                    }
                    _ => return Err(other_answer()),
                }
            }
        }
        .boxed()
    }

    /// Returns the time of the store's clock.
    fn now(&self) -> Stored<'_, Time>;

    /// Returns the hub that wakes waiting tasks of this process.
    fn hub(&self) -> &Hub;
}

/// Returns the error for a store that returned the answer of another command.
fn other_answer() -> StoreError {
    StoreError::Impossible("the store gave the answer to another command".to_owned())
}

/// Selects the approvals to list. A field that is `None` or false does not restrict the selection.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only approvals in this state. Pending ones are listed oldest first, and only until they expire. All other
    /// listings, also those of all states, are newest first.
    pub state: Option<State>,
    /// If true, only approvals that a person was asked about: calls that the policy passed are left out.
    pub asked: bool,
    /// If true, only approvals that are not over: pending, or with calls that run or may still run.
    pub open: bool,
    /// Only approvals of this agent.
    pub agent: Option<Agent>,
    /// Only approvals in this channel.
    pub channel: Option<Channel>,
    /// Only approvals of this run.
    pub run: Option<Run>,
    /// Cursor: only approvals after this one, in the listing's order.
    pub after: Option<ApprovalId>,
    /// Page size, capped at [`LONGEST_PAGE`]; 50 by default.
    pub limit: Option<usize>,
    /// Byte budget: the page ends with the approval at which the sum of [`Approval::weight`] reaches it; see
    /// [`Filter::is_full`].
    pub most_bytes: Option<usize>,
}

impl Filter {
    /// Selects all approvals that wait for a decision.
    pub fn pending() -> Filter {
        Filter {
            state: Some(State::Pending),
            ..Filter::default()
        }
    }

    /// Returns the page size: `limit`, or the default if absent, and at most [`LONGEST_PAGE`].
    pub fn page(&self) -> usize {
        self.limit.unwrap_or(50).min(LONGEST_PAGE)
    }

    /// Returns true if more approvals may follow this page: it reached the page size or the byte budget.
    pub fn is_full(&self, page: &[SharedApproval]) -> bool {
        page.len() >= self.page() || self.count_within(page.iter().map(|approval| &**approval)).1
    }

    /// Returns how many of these approvals fit on a page, and true if the byte budget ended the page.
    pub fn count_within<'a>(&self, approvals: impl Iterator<Item = &'a Approval>) -> (usize, bool) {
        let most = self.most_bytes.unwrap_or(usize::MAX);
        let (mut count, mut bytes) = (0, 0_usize);
        for approval in approvals {
            count += 1;
            bytes = bytes.saturating_add(approval.weight());
            if bytes >= most {
                return (count, true);
            }
        }
        (count, false)
    }

    /// Returns true if the listing is ordered from old to new.
    pub fn oldest_first(&self) -> bool {
        self.state == Some(State::Pending)
    }
}

/// A position in the event feed. Opaque: only meaningful to the store that issued it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// Transaction number, if the store has one; 0 otherwise.
    pub transaction: u64,
    /// Number of the event within the store.
    pub sequence: u64,
}

/// An event with its position in the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEvent {
    /// Cursor to resume the feed after this event.
    pub cursor: Cursor,
    /// The approval that the event belongs to.
    pub approval: ApprovalId,
    /// The event itself.
    pub event: Event,
}

/// Errors of a store. The text in each is the cause, for operators. After any of them, the caller must not run anything
/// that depends on the failed request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store cannot be reached. Nothing was written; a retry is safe.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// Another writer held the lock for too long; nothing was written.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// No disk space left; nothing was written.
    #[error("the store is full: {0}")]
    Full(String),
    /// Unknown whether the command was written. Check before a retry.
    #[error("the store may or may not have written this: {0}")]
    InDoubt(String),
    /// A write failed in a way that stopped the store permanently. What was written can be seen after a restart.
    #[error("the store stopped: {0}")]
    Stopped(String),
    /// The stored data is inconsistent, or the program has a bug.
    #[error("{0}")]
    Impossible(String),
}

impl StoreError {
    /// Returns a hint on what to do.
    pub fn hint(&self) -> &'static str {
        match self {
            StoreError::Unavailable(_) => "check that the database is running and reachable, then try again",
            StoreError::Busy(_) => "try again in a moment",
            StoreError::Full(_) => "free some disk space, then try again",
            StoreError::InDoubt(_) => "check whether it exists before you try again",
            StoreError::Stopped(_) => "see the log, then restart",
            StoreError::Impossible(_) => {
                "keep a copy of the store and run `countersign verify`: something else has changed it, or this is a bug"
            }
        }
    }
}
