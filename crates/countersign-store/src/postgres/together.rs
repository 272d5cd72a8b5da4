//! Looks at single approvals, put together: those that come while others are under way share the next question.
//!
//! Enters: who wants to see which approval. Leaves: the approval as it was at some moment after that.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign::approval::SharedApproval;
use countersign::id::{ApprovalId, Tenant};
use countersign::store::StoreError;
use tokio::sync::oneshot;

use super::read::Readers;

/// So many questions may be under way. With one, those who come together are answered together.
const UNDER_WAY: usize = 1;
/// The most approvals in one question.
const LARGEST: usize = 128;

type Id = (Tenant, ApprovalId);
type Seen = Result<Option<SharedApproval>, StoreError>;

/// Those who want to look.
#[derive(Default)]
pub(super) struct Looks(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    under_way: usize,
    who: Vec<(Id, oneshot::Sender<Seen>)>,
}

impl Looks {
    /// Looks at one approval.
    pub(super) async fn look(self: &Arc<Self>, readers: &Arc<Readers>, id: Id) -> Seen {
        let gone = || StoreError::Stopped("the store was closed".to_owned());
        let answered = self.enter(readers, id);
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    fn enter(self: &Arc<Self>, readers: &Arc<Readers>, id: Id) -> oneshot::Receiver<Seen> {
        let (answer, answered) = oneshot::channel();
        let mut waiting = self.waiting();
        waiting.who.push((id, answer));
        if waiting.under_way < UNDER_WAY {
            waiting.under_way += 1;
            // Not in the task of whoever came first: that one may give up.
            tokio::spawn(self.clone().serve(readers.clone()));
        }
        answered
    }

    /// Serves until nobody is left.
    async fn serve(self: Arc<Self>, readers: Arc<Readers>) {
        while let Some(who) = self.next() {
            // INVARIANT: the question is put after all who share it came, so nobody sees what was before.
            let ids: BTreeSet<&Id> = who.iter().map(|(id, _)| id).collect();
            let found = readers.approvals(&ids).await.map(by_id);
            for (id, answer) in who {
                // Whoever gave up does not want to know.
                let _ = answer.send(found.clone().map(|found| found.get(&id).cloned()));
            }
        }
    }

    fn next(&self) -> Option<Vec<(Id, oneshot::Sender<Seen>)>> {
        let mut waiting = self.waiting();
        if waiting.who.is_empty() {
            waiting.under_way -= 1;
            return None;
        }
        let most = waiting.who.len().min(LARGEST);
        Some(waiting.who.drain(..most).collect())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn by_id(found: Vec<SharedApproval>) -> Arc<HashMap<Id, SharedApproval>> {
    let found = found.into_iter();
    Arc::new(
        found
            .map(|found| ((found.tenant.clone(), found.id), found))
            .collect(),
    )
}
