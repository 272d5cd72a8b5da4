//! Notification hub: wakes tasks that wait for an approval when it changes.
//!
//! Stores call [`Hub::publish`] and [`Hub::signal`] after a commit. Nothing here polls.

mod changes;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use crate::approval::SharedApproval;
use crate::id::ApprovalId;
pub use changes::Changes;
use changes::Signal;

const SHARDS: usize = 16;

/// Waiters for one approval. Usually there is one: the agent that proposed.
type Waiting = Vec<WaiterSlot>;

/// Registry of all tasks of this process that wait for changes.
#[derive(Debug, Default)]
pub struct Hub(Arc<Shards>, Signal);

#[derive(Debug, Default)]
struct Shards {
    first: Shard,
    others: [Shard; SHARDS - 1],
    hasher: RandomState,
}

type Shard = Mutex<HashMap<ApprovalId, Waiting>>;

/// Pending notification of one waiter: only the newest change is kept.
#[derive(Debug, Default)]
struct Change {
    newest: Option<SharedApproval>,
    waker: Option<Waker>,
    /// Newest version published so far. An older change, read late from another node, is dropped.
    version: u32,
    is_closed: bool,
}

type Shared = Arc<Mutex<Change>>;

/// Handle by which the hub notifies a waiter. Dropping it tells the waiter that the store is gone.
#[derive(Debug)]
struct WaiterSlot(Shared);

impl WaiterSlot {
    /// Stores a change and returns the waker to call. `None` if no task is waiting, or if a newer change was stored
    /// before.
    fn notify(&self, approval: &SharedApproval) -> Option<Waker> {
        let mut change = lock(&self.0);
        if approval.version < change.version {
            return None;
        }
        change.version = approval.version;
        change.newest = Some(approval.clone());
        change.waker.take()
    }
}

impl Drop for WaiterSlot {
    fn drop(&mut self) {
        let mut change = lock(&self.0);
        change.is_closed = true;
        let waker = change.waker.take();
        drop(change);
        waker.into_iter().for_each(Waker::wake);
    }
}

fn lock(change: &Shared) -> MutexGuard<'_, Change> {
    change.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Receives the changes of one approval from its creation on; several unread changes collapse into the newest. Dropping
/// a waiter unregisters it.
#[derive(Debug)]
pub struct Waiter {
    id: ApprovalId,
    change: Shared,
    // Weak, so that dropping the hub closes the waiter.
    shards: Weak<Shards>,
}

impl Waiter {
    /// Waits for the next change and returns the approval; `None` if the store is gone.
    pub async fn changed(&self) -> Option<SharedApproval> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Option<SharedApproval>> {
        let mut change = lock(&self.change);
        if let Some(newest) = change.newest.take() {
            return Poll::Ready(Some(newest));
        }
        if change.is_closed {
            return Poll::Ready(None);
        }
        change.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(shards) = self.shards.upgrade() {
            shards.forget(self.id, &self.change);
        }
    }
}

impl Hub {
    /// Registers a waiter for an approval. Read the approval after this call, not before, so that a change in between
    /// is not missed.
    pub fn wait_for(&self, id: ApprovalId) -> Waiter {
        let change = Shared::default();
        let mut shard = self.0.shard(id).lock().unwrap_or_else(PoisonError::into_inner);
        shard.entry(id).or_default().push(WaiterSlot(change.clone()));
        Waiter {
            id,
            change,
            shards: Arc::downgrade(&self.0),
        }
    }

    /// Wakes all waiters for this approval.
    pub fn publish(&self, approval: &SharedApproval) {
        let shard = self.0.shard(approval.id);
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = shard.get(&approval.id).map(Vec::as_slice).unwrap_or_default();
        let wakers: Vec<Waker> = waiting.iter().filter_map(|slot| slot.notify(approval)).collect();
        // Wake without holding the lock, since a waker may run arbitrary code.
        drop(shard);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Subscribes to every commit from now on, in this process and, as far as the store learns of them, in others. Read
    /// the feed after this call, not before.
    pub fn changes(&self) -> Changes {
        self.1.changes()
    }

    /// Signals that something in the store may have changed.
    pub fn signal(&self) {
        self.1.give();
    }

    /// Returns true if anyone subscribed with [`Hub::changes`].
    pub fn is_followed(&self) -> bool {
        self.1.has_subscribers()
    }

    /// Returns the approvals that have waiters in this process: those among `ids`, or all of them if `ids` is `None`.
    pub fn awaited(&self, ids: Option<&[ApprovalId]>) -> Vec<ApprovalId> {
        let is_awaited = |id: &&ApprovalId| {
            self.0
                .shard(**id)
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains_key(*id)
        };
        match ids {
            Some(ids) => ids.iter().filter(is_awaited).copied().collect(),
            None => self
                .0
                .shards()
                .flat_map(|shard| {
                    let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                    shard.keys().copied().collect::<Vec<_>>()
                })
                .collect(),
        }
    }

    /// Returns true if there are no waiters and no subscribers.
    pub fn is_idle(&self) -> bool {
        !self.is_followed()
            && self
                .0
                .shards()
                .all(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).is_empty())
    }
}

impl Shards {
    /// Unregisters a waiter.
    fn forget(&self, id: ApprovalId, change: &Shared) {
        let mut shard = self.shard(id).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = shard.get_mut(&id) {
            let place = waiting.iter().position(|slot| Arc::ptr_eq(&slot.0, change));
            let slot = place.map(|place| waiting.swap_remove(place));
            if waiting.is_empty() {
                shard.remove(&id);
            }
            // Drop without holding the lock, as in `publish`.
            drop(shard);
            drop(slot);
        }
    }

    fn shard(&self, id: ApprovalId) -> &Shard {
        let index = self.hasher.hash_one(id) as usize % SHARDS;
        self.others.get(index).unwrap_or(&self.first)
    }

    fn shards(&self) -> impl Iterator<Item = &Shard> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;

    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::suite::{Fixture, sample};

    async fn fixture() -> Fixture {
        let clock = Fixture::clock();
        Fixture::new(Arc::new(MemoryStore::with_clock(clock.clone())), clock)
    }

    #[tokio::test]
    async fn d2_all_who_wait_are_woken_once() {
        let fixture = fixture().await;
        let approval = fixture.propose(sample::propose(1)).await;
        let hub = Hub::default();
        let waiters = [hub.wait_for(approval.id), hub.wait_for(approval.id)];
        let other = hub.wait_for(sample::id(2));
        hub.publish(&approval);
        for waiter in waiters {
            assert_eq!(waiter.changed().now_or_never().flatten(), Some(approval.clone()));
        }
        assert_eq!(other.changed().now_or_never(), None, "somebody else's change");
        hub.publish(&approval);
        let late = hub.wait_for(approval.id);
        assert_eq!(late.changed().now_or_never(), None, "only what comes next");
        hub.publish(&approval);
        assert_eq!(late.changed().now_or_never().flatten(), Some(approval.clone()));
    }

    /// A waiter receives every change, or the newest of several, and never an older one.
    #[tokio::test]
    async fn d2_a_waiter_hears_of_later_changes_too() {
        let fixture = fixture().await;
        let proposed = fixture.propose(sample::propose(1)).await;
        let approve = crate::command::Command::Decide(Box::new(sample::approve(&proposed)));
        fixture.store.write(approve).await.unwrap();
        let seen = fixture.store.approval(&proposed.tenant, proposed.id).await;
        let decided = seen.unwrap().unwrap();
        assert!(decided.version > proposed.version);
        let hub = Hub::default();
        let waiter = hub.wait_for(proposed.id);
        hub.publish(&proposed);
        assert_eq!(waiter.changed().now_or_never().flatten(), Some(proposed.clone()));
        hub.publish(&decided);
        hub.publish(&proposed);
        assert_eq!(waiter.changed().now_or_never().flatten(), Some(decided));
        assert_eq!(waiter.changed().now_or_never(), None, "each is heard once");
    }

    #[test]
    fn d2_a_waiter_learns_that_the_store_is_gone() {
        let hub = Hub::default();
        let waiter = hub.wait_for(sample::id(1));
        drop(hub);
        assert_eq!(waiter.changed().now_or_never(), Some(None));
    }

    #[test]
    fn d2_who_gave_up_leaves_no_trace() {
        let hub = Hub::default();
        let id = sample::id(1);
        let stays = hub.wait_for(id);
        for _ in 0..1000 {
            drop(hub.wait_for(id));
        }
        let waiting = |hub: &Hub| -> usize {
            let shard = hub.0.shard(id).lock().unwrap();
            shard.get(&id).map_or(0, Vec::len)
        };
        assert_eq!(waiting(&hub), 1, "who still waits is not forgotten");
        drop(stays);
        assert!(hub.is_idle());
    }

    #[tokio::test]
    async fn d2_who_waits_learns_that_the_store_is_gone() {
        let hub = Hub::default();
        let waiter = hub.wait_for(sample::id(1));
        drop(hub);
        assert_eq!(waiter.changed().await, None);
    }

    #[test]
    fn d2_awaited_says_who_is_waited_for() {
        let hub = Hub::default();
        let ids: Vec<ApprovalId> = (1..=50).map(sample::id).collect();
        let waiters: Vec<Waiter> = ids.iter().map(|id| hub.wait_for(*id)).collect();
        let mut awaited = hub.awaited(None);
        awaited.sort_unstable();
        assert_eq!(awaited, ids);
        assert_eq!(
            hub.awaited(Some(&[sample::id(7), sample::id(99)])),
            [sample::id(7)]
        );
        assert_eq!(waiters.len(), 50);
    }

    /// Registering first and reading afterwards misses no change, however the two interleave.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn d2_race_nothing_is_lost_between_registering_and_looking() {
        for n in 0..2_000 {
            let fixture = Arc::new(fixture().await);
            let approval = fixture.propose(sample::propose(n)).await;
            let (store, id, tenant) = (fixture.store.clone(), approval.id, approval.tenant.clone());
            let waiting = tokio::spawn(async move {
                let waiter = store.hub().wait_for(id);
                let seen = store.approval(&tenant, id).await.unwrap().unwrap();
                match seen.state {
                    crate::state::State::Pending => waiter.changed().await.unwrap().state,
                    state => state,
                }
            });
            let deciding = {
                let (store, deny) = (fixture.store.clone(), sample::deny(&approval));
                tokio::spawn(
                    async move { store.write(crate::command::Command::Decide(Box::new(deny))).await },
                )
            };
            deciding.await.unwrap().unwrap();
            let state = tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await;
            assert_eq!(state.expect("woken").unwrap(), crate::state::State::Denied);
        }
    }
}
