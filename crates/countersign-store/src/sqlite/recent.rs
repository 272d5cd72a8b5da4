//! What was read or written last, so that it need not be read and decoded again.
//!
//! Enters: approvals as they stand in the file. Leaves: the same, to whoever has just found their row and version there.
//! Deliberately absent: any claim to be current. That is the file's alone, and every look asks it first.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign::approval::Approval;
use countersign::id::ApprovalId;

use super::load::{Loaded, Place};

/// Kept twice at most: what is young, and what was young before.
const MOST_BYTES: usize = 1024 * 1024;
/// What an approval and a call take beside the bytes they came with.
const APPROVAL_BYTES: usize = 1024;

/// Approvals this process has seen lately.
#[derive(Default)]
pub(super) struct Recent(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<ApprovalId, Loaded>,
    old: HashMap<ApprovalId, Loaded>,
    bytes: usize,
}

impl Recent {
    /// The approval whose row is at this place.
    ///
    /// INVARIANT: a row and a version name one content; a version is written once and never goes back.
    pub(super) fn get(&self, id: ApprovalId, place: Place) -> Option<Loaded> {
        let generations = self.open();
        let kept = generations.young.get(&id).or_else(|| generations.old.get(&id))?;
        (kept.place() == place).then(|| kept.clone())
    }

    /// Keeps what was committed. INVARIANT: never anything that may still be rolled back.
    pub(super) fn keep(&self, loaded: Loaded) {
        let id = loaded.approval.id;
        let mut generations = self.open();
        generations.old.remove(&id);
        generations.bytes += weight(&loaded.approval);
        let before = generations.young.insert(id, loaded);
        if generations.bytes > MOST_BYTES {
            let young = std::mem::take(&mut generations.young);
            let old = std::mem::replace(&mut generations.old, young);
            generations.bytes = 0;
            // Freeing takes a while; nobody has to wait for it.
            drop(generations);
            drop(old);
        }
        drop(before);
    }

    /// Forgets everything: somebody else wrote to the file, and what they did is looked at as it stands.
    pub(super) fn clear(&self) {
        let cleared = std::mem::take(&mut *self.open());
        drop(cleared);
    }

    fn open(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn weight(approval: &Approval) -> usize {
    let calls = approval.calls.iter().map(|call| {
        let result = call.result.as_ref().map_or(0, |result| result.len());
        APPROVAL_BYTES + call.arguments.as_bytes().len() + result
    });
    APPROVAL_BYTES + calls.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use countersign::store::suite::{Fixture, sample};

    use super::*;

    async fn loaded(number: u64) -> Loaded {
        let clock = Fixture::clock();
        let store = Arc::new(countersign::store::memory::MemoryStore::with_clock(clock.clone()));
        let approval = Fixture::new(store, clock).propose(sample::propose(number)).await;
        Loaded { seq: 7, approval }
    }

    #[tokio::test]
    async fn only_the_version_that_the_file_has_is_given() {
        let (recent, loaded) = (Recent::default(), loaded(1).await);
        let (id, place) = (loaded.approval.id, loaded.place());
        assert!(recent.get(id, place).is_none());
        recent.keep(loaded);
        assert!(recent.get(id, place).is_some());
        let (seq, version) = (place.seq, place.version);
        assert!(
            recent
                .get(
                    id,
                    Place {
                        seq,
                        version: version + 1
                    }
                )
                .is_none(),
            "a later version"
        );
        assert!(
            recent
                .get(
                    id,
                    Place {
                        seq: seq + 1,
                        version
                    }
                )
                .is_none(),
            "another row"
        );
        assert!(recent.get(sample::id(2), place).is_none(), "another approval");
        recent.clear();
        assert!(recent.get(id, place).is_none());
    }

    #[tokio::test]
    async fn what_is_kept_has_an_end() {
        let (recent, loaded) = (Recent::default(), loaded(1).await);
        let place = loaded.place();
        let mut count = 0;
        for number in 0..10_000 {
            let mut approval = Approval::clone(&loaded.approval);
            approval.id = sample::id(number);
            recent.keep(Loaded {
                seq: place.seq,
                approval: Arc::new(approval),
            });
            let generations = recent.open();
            count = count.max(generations.young.len() + generations.old.len());
        }
        assert!((500..1_200).contains(&count), "{count}");
        assert!(recent.get(sample::id(9_999), place).is_some());
        assert!(recent.get(sample::id(1), place).is_none());
    }
}
