//! Batches reads of single approvals: reads that are requested while a query is running share the next query.
//!
//! Input: requests for approvals. Output: each approval as of some moment after its request.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign::approval::SharedApproval;
use countersign::id::{ApprovalId, Tenant};
use countersign::store::StoreError;
use tokio::sync::oneshot;

use super::read::Readers;

/// Maximum number of concurrent queries. With a single one, requests that arrive together are answered together.
const MOST_QUERIES: usize = 1;
/// Maximum number of approvals in one query.
const LARGEST_BATCH: usize = 128;

type TenantAndId = (Tenant, ApprovalId);
type ReadResult = Result<Option<SharedApproval>, StoreError>;

/// Requests that wait for the next query.
#[derive(Default)]
pub(super) struct BatchedReads(Mutex<ReadQueue>);

#[derive(Default)]
struct ReadQueue {
    running: usize,
    requests: Vec<(TenantAndId, oneshot::Sender<ReadResult>)>,
}

impl BatchedReads {
    /// Reads one approval, together with others that are requested at the same time; `None` if the approval does not
    /// exist.
    pub(super) async fn read(self: &Arc<Self>, readers: &Arc<Readers>, id: TenantAndId) -> ReadResult {
        let gone = || StoreError::Stopped("the store was closed".to_owned());
        let answered = self.enqueue(readers, id);
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    fn enqueue(self: &Arc<Self>, readers: &Arc<Readers>, id: TenantAndId) -> oneshot::Receiver<ReadResult> {
        let (answer, answered) = oneshot::channel();
        let mut queue = self.queue();
        queue.requests.push((id, answer));
        if queue.running < MOST_QUERIES {
            queue.running += 1;
            // In a task of its own, because the first caller may give up.
            tokio::spawn(self.clone().answer_requests(readers.clone()));
        }
        answered
    }

    /// Runs queries until no requests are left.
    async fn answer_requests(self: Arc<Self>, readers: Arc<Readers>) {
        while let Some(requests) = self.next_batch() {
            // INVARIANT: a query is sent after all requests that share it, so no caller sees an older state.
            let ids: BTreeSet<&TenantAndId> = requests.iter().map(|(id, _)| id).collect();
            let found = readers.approvals(&ids).await.map(by_id);
            for (id, answer) in requests {
                // The send fails if the caller gave up.
                let _ = answer.send(found.clone().map(|found| found.get(&id).cloned()));
            }
        }
    }

    fn next_batch(&self) -> Option<Vec<(TenantAndId, oneshot::Sender<ReadResult>)>> {
        let mut queue = self.queue();
        if queue.requests.is_empty() {
            queue.running -= 1;
            return None;
        }
        let most = queue.requests.len().min(LARGEST_BATCH);
        Some(queue.requests.drain(..most).collect())
    }

    fn queue(&self) -> MutexGuard<'_, ReadQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn by_id(found: Vec<SharedApproval>) -> Arc<HashMap<TenantAndId, SharedApproval>> {
    let found = found.into_iter();
    Arc::new(
        found
            .map(|found| ((found.tenant.clone(), found.id), found))
            .collect(),
    )
}
