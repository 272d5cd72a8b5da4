//! Approvals that were read or written last, so that they need not be read and decoded again.
//!
//! Enters: approvals as they stand in the file. Leaves: the same, to whoever has just found their row and version there.
//! Deliberately absent: any claim to be current. That is the file's alone, and every look asks it first.

use countersign::approval::Approval;
use countersign::id::ApprovalId;
use countersign::recent;

use super::load::{Loaded, Place};

/// Room for a thousand usual ones.
pub(super) const MOST_BYTES: usize = 2 * 1024 * 1024;
/// What an approval and a call take beside the bytes they came with.
pub(super) const SMALLEST: usize = 1024;

/// Approvals this process has seen lately.
pub(super) struct Recent(recent::Recent<ApprovalId, Loaded>);

impl Default for Recent {
    fn default() -> Self {
        Recent(recent::Recent::new(MOST_BYTES))
    }
}

impl Recent {
    /// The approval whose row is at this place.
    ///
    /// INVARIANT: a row and a version name one content; a version is written once and never goes back.
    pub(super) fn get(&self, id: ApprovalId, place: Place) -> Option<Loaded> {
        self.0.get(&id, |kept| kept.place() == place)
    }

    /// Keeps what was committed. INVARIANT: never anything that may still be rolled back.
    pub(super) fn keep(&self, loaded: Loaded) {
        let bytes = weight(&loaded.approval);
        self.0.keep(loaded.approval.id, loaded, bytes);
    }

    /// Somebody else wrote to the file: what they did is looked at as it stands.
    pub(super) fn clear(&self) {
        self.0.clear();
    }
}

/// About what an approval takes.
pub(super) fn weight(approval: &Approval) -> usize {
    let calls = approval.calls.iter().map(|call| {
        let result = call.result.as_ref().map_or(0, |result| result.len());
        SMALLEST + call.arguments.as_bytes().len() + result
    });
    SMALLEST + calls.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use countersign::store::memory::MemoryStore;
    use countersign::store::suite::{Fixture, sample};

    use super::*;

    #[tokio::test]
    async fn only_the_version_that_the_file_has_is_given() {
        let clock = Fixture::clock();
        let fixture = Fixture::new(Arc::new(MemoryStore::with_clock(clock.clone())), clock);
        let approval = fixture.propose(sample::propose(1)).await;
        let (id, loaded) = (approval.id, Loaded { seq: 7, approval });
        let (recent, place) = (Recent::default(), loaded.place());
        assert!(recent.get(id, place).is_none());
        recent.keep(loaded);
        assert!(recent.get(id, place).is_some());
        let (seq, version) = (place.seq, place.version);
        let (later, elsewhere) = (
            Place {
                seq,
                version: version + 1,
            },
            Place {
                seq: seq + 1,
                version,
            },
        );
        assert!(recent.get(id, later).is_none());
        assert!(recent.get(id, elsewhere).is_none());
        assert!(recent.get(sample::id(2), place).is_none());
        recent.clear();
        assert!(recent.get(id, place).is_none());
    }
}
