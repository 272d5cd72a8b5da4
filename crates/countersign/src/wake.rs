//! Waking: who waits for an approval is woken when it changes, and costs nothing until then.
//!
//! Stores call [`Hub::publish`] after a commit; nothing here polls.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::approval::SharedApproval;
use crate::id::ApprovalId;

const SHARDS: usize = 16;

/// Mostly one waits for an approval: its agent.
type Waiting = Vec<oneshot::Sender<SharedApproval>>;

/// All who wait in this process.
#[derive(Debug, Default)]
pub struct Hub {
    first: Shard,
    others: [Shard; SHARDS - 1],
    hasher: RandomState,
}

type Shard = Mutex<HashMap<ApprovalId, Waiting>>;

/// One who waits. Dropping it ends the wait.
#[derive(Debug)]
pub struct Waiter(oneshot::Receiver<SharedApproval>);

impl Waiter {
    /// The approval after its next change; nothing when the store is gone.
    pub async fn changed(self) -> Option<SharedApproval> {
        self.0.await.ok()
    }
}

impl Hub {
    /// Waits for the next change of an approval. Look at the approval after this, not before: what changes in
    /// between is then seen by one or the other.
    pub fn wait_for(&self, id: ApprovalId) -> Waiter {
        let (sender, receiver) = oneshot::channel();
        let mut shard = self.shard(id).lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = shard.entry(id).or_default();
        // Whoever gave up leaves no trace behind.
        waiting.retain(|sender| !sender.is_closed());
        waiting.push(sender);
        Waiter(receiver)
    }

    /// Wakes all who wait for this approval.
    pub fn publish(&self, approval: &SharedApproval) {
        let mut shard = self
            .shard(approval.id)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waiting = shard.remove(&approval.id);
        drop(shard);
        for sender in waiting.into_iter().flatten() {
            // A closed one has given up.
            let _ = sender.send(approval.clone());
        }
    }

    /// Removes those who gave up waiting for this approval.
    pub fn forget(&self, id: ApprovalId) {
        let mut shard = self.shard(id).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = shard.get_mut(&id) {
            waiting.retain(|sender| !sender.is_closed());
            if waiting.is_empty() {
                shard.remove(&id);
            }
        }
    }

    /// Which of these somebody waits for here; all that are waited for when `ids` is not given.
    pub fn awaited(&self, ids: Option<&[ApprovalId]>) -> Vec<ApprovalId> {
        let is_awaited = |id: &&ApprovalId| {
            self.shard(**id)
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains_key(*id)
        };
        match ids {
            Some(ids) => ids.iter().filter(is_awaited).copied().collect(),
            None => self
                .shards()
                .flat_map(|shard| {
                    let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                    shard.keys().copied().collect::<Vec<_>>()
                })
                .collect(),
        }
    }

    /// True when nobody waits.
    pub fn is_idle(&self) -> bool {
        self.shards()
            .all(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).is_empty())
    }

    fn shard(&self, id: ApprovalId) -> &Shard {
        let index = self.hasher.hash_one(id) as usize % SHARDS;
        self.others.get(index).unwrap_or(&self.first)
    }

    fn shards(&self) -> impl Iterator<Item = &Shard> {
        std::iter::once(&self.first).chain(&self.others)
    }
}
