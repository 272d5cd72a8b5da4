//! The store: where approvals are kept, and the one trait all stores implement.
//!
//! A store locks, reads its own clock, lets [`Command::apply`] say what changes, saves that in one transaction and
//! wakes who waits. It knows no rule of its own. [`suite`] proves that one behaves.

pub mod memory;
mod purge;
pub mod record;
mod released;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

use crate::approval::{Approval, SharedApproval};
use crate::command::{Answer, Command, PutEntry, TakeEntry, Void, Voided};
use crate::event::Event;
use crate::hash::Hash;
use crate::id::{Agent, ApprovalId, Channel, Run, Tenant};
use crate::registry::{Entry, Kind, Put};
use crate::state::State;
use crate::time::Time;
use crate::wake::Hub;

pub use purge::{Purge, Purged};
pub use released::Released;

/// The most rows one listing gives.
pub const LONGEST_PAGE: usize = 500;

/// What a store's methods give.
pub type Stored<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Keeps approvals, their calls and their events.
pub trait Store: Send + Sync + 'static {
    /// Runs one command in one transaction. When this answers, the answer is durable, so far as the store is.
    ///
    /// A crash before the commit leaves nothing of the command, a crash after it all of it; what that means is
    /// said at each [`Command`].
    fn write(&self, command: Command) -> Stored<'_, Answer>;

    /// One approval, if it is there and this tenant's.
    fn approval<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Option<SharedApproval>>;

    /// The approval pending in a channel; nothing once it has expired by the store's clock.
    fn pending_in<'a>(
        &'a self,
        tenant: &'a Tenant,
        channel: &'a Channel,
    ) -> Stored<'a, Option<SharedApproval>>;

    /// A page of approvals.
    fn list<'a>(&'a self, tenant: &'a Tenant, filter: &'a Filter) -> Stored<'a, Vec<SharedApproval>>;

    /// The whole history of an approval, oldest first; empty when it is not there.
    fn events<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Vec<Event>>;

    /// The events of all approvals behind a cursor, in an order that never skips one: an event that is committed
    /// late stands behind all that were given out before. So it may lag: what was written just now can be missing
    /// for a moment.
    fn feed<'a>(&'a self, tenant: &'a Tenant, after: Cursor, limit: usize) -> Stored<'a, Vec<FeedEvent>>;

    /// Where the feed ends now: behind this cursor comes everything that happens from here on, and little else.
    fn feed_end<'a>(&'a self, tenant: &'a Tenant) -> Stored<'a, Cursor>;

    /// Of what was approved behind a cursor, that which still waits for somebody to run it.
    fn released<'a>(&'a self, tenant: &'a Tenant, after: Cursor) -> Stored<'a, Released> {
        released::released(self, tenant, after).boxed()
    }

    /// A number that stays the same while nothing in the store changes, whoever writes to it: what was read after it was told
    /// is still so while it is told again. Nothing from a store that cannot tell without reading as much.
    fn stamp(&self) -> Stored<'_, Option<u64>> {
        ready(Ok(None)).boxed()
    }

    /// An entry of the registry, while its time is not over. Whoever shows a token is known only after this, so no
    /// tenant is named.
    fn entry<'a>(&'a self, kind: Kind, key: &'a str) -> Stored<'a, Option<Entry>>;

    /// Several entries at once, in the order asked for. Stores with a network in between ask once.
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

    /// A tenant's entries of one kind in the order of their keys, behind `after`; never more than [`LONGEST_PAGE`].
    fn entries<'a>(
        &'a self,
        tenant: &'a Tenant,
        kind: Kind,
        after: Option<&'a str>,
        limit: usize,
    ) -> Stored<'a, Vec<Entry>>;

    /// Keeps an entry, if the version it names is there: compare and swap. With version 0 there must be none.
    fn put_entry(&self, entry: Entry) -> Stored<'_, Put> {
        let answer = self.write(Command::PutEntry(PutEntry(entry)));
        let put = answer.map(|answer| match answer? {
            Answer::PutEntry(put) => Ok(put),
            _ => Err(other_answer()),
        });
        put.boxed()
    }

    /// Removes an entry and gives it, to one caller only.
    fn take_entry<'a>(&'a self, kind: Kind, key: &'a str) -> Stored<'a, Option<Entry>> {
        let key = key.to_owned();
        let answer = self.write(Command::TakeEntry(TakeEntry { kind, key }));
        let taken = answer.map(|answer| match answer? {
            Answer::TakeEntry(taken) => Ok(taken),
            _ => Err(other_answer()),
        });
        taken.boxed()
    }

    /// Erases the content of approvals that are over and have not changed since a time, a page at a time.
    fn purge<'a>(&'a self, purge: &'a Purge) -> Stored<'a, Purged> {
        purge::purge(self, purge).boxed()
    }

    /// Ends everything that is open and takes back every token, session and link: what must happen after a backup was
    /// restored, before anything else does.
    fn void_open(&self, policy: Hash) -> Stored<'_, Voided> {
        async move {
            let mut total = Voided::default();
            loop {
                let limit = LONGEST_PAGE;
                match self.write(Command::Void(Void { limit, policy })).await? {
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

    /// The store's clock.
    fn now(&self) -> Stored<'_, Time>;

    /// Those who wait in this process.
    fn hub(&self) -> &Hub;
}

/// A store that answers another question than it was asked.
fn other_answer() -> StoreError {
    StoreError::Impossible("the store gave the answer to another command".to_owned())
}

/// Which approvals to list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only those in this state. Pending ones come oldest first and only while they can be decided; all else comes
    /// newest first.
    pub state: Option<State>,
    /// Leaves out what the policy let pass: only approvals that a person was asked about.
    pub asked: bool,
    /// Only this agent's.
    pub agent: Option<Agent>,
    /// Only those of this channel.
    pub channel: Option<Channel>,
    /// Only those of this run.
    pub run: Option<Run>,
    /// Only those behind this one in the listing's order.
    pub after: Option<ApprovalId>,
    /// At most so many, and never more than [`LONGEST_PAGE`].
    pub limit: Option<usize>,
    /// The page ends with the approval whose [`Approval::weight`] reaches this in sum; see [`Filter::is_full`].
    pub most_bytes: Option<usize>,
}

impl Filter {
    /// All that wait for a decision.
    pub fn pending() -> Filter {
        Filter {
            state: Some(State::Pending),
            ..Filter::default()
        }
    }

    /// The limit in force.
    pub fn page(&self) -> usize {
        self.limit.unwrap_or(50).min(LONGEST_PAGE)
    }

    /// True when there may be more behind this page: it has as many approvals, or bytes, as it may have.
    pub fn is_full(&self, page: &[SharedApproval]) -> bool {
        page.len() >= self.page() || self.count_within(page.iter().map(|approval| &**approval)).1
    }

    /// How many of these approvals a page has, and whether it ends because of their bytes.
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

    /// True when the listing goes from old to new.
    pub fn oldest_first(&self) -> bool {
        self.state == Some(State::Pending)
    }
}

/// A place in the feed of events. Opaque: only a store's own cursors mean anything to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// The transaction, where the store numbers them.
    pub transaction: u64,
    /// The event's number within the store.
    pub sequence: u64,
}

/// An event with its place in the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEvent {
    /// Where the feed goes on behind it.
    pub cursor: Cursor,
    /// The approval it belongs to.
    pub approval: ApprovalId,
    /// What happened.
    pub event: Event,
}

/// What can go wrong with a store. In every case: do not run anything because of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written; trying again is safe.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// Somebody else held the lock for too long; nothing was written.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// No room; nothing was written.
    #[error("the store is full: {0}")]
    Full(String),
    /// Whether it was written is not known. Look before trying again.
    #[error("the store may or may not have written this: {0}")]
    InDoubt(String),
    /// The store broke while writing and takes no more; a restart will show what is there.
    #[error("the store stopped: {0}")]
    Stopped(String),
    /// What is stored cannot be true.
    #[error("{0}")]
    Impossible(String),
}

impl StoreError {
    /// What to do now.
    pub fn hint(&self) -> &'static str {
        match self {
            StoreError::Unavailable(_) => "check that the database is running and reachable, then try again",
            StoreError::Busy(_) => "try again in a moment",
            StoreError::Full(_) => "free some disk space, then try again",
            StoreError::InDoubt(_) => "look whether it is there before trying again",
            StoreError::Stopped(_) => "see the log, then restart",
            StoreError::Impossible(_) => {
                "the store was changed by other means, or this is a bug: keep a copy of it"
            }
        }
    }
}
