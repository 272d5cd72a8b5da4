//! Reader cache: decoded approvals that were read or written recently.
//!
//! Input: approvals as stored in the file. Output: the same approvals, for readers that have just looked up the current
//! row and version.
//! Not here: checks whether a cached approval is current. Every read looks up the version in the file first.

use countersign::approval::Approval;
use countersign::cache::GenerationalCache;
use countersign::id::ApprovalId;

use super::load::{Loaded, RowVersion};

/// Maximum size of the cache in bytes: room for about a thousand approvals of usual size.
pub(super) const MOST_BYTES: usize = 2 * 1024 * 1024;
/// Estimated size of an approval or a call without its arguments and result, in bytes.
pub(super) const BASE_BYTES: usize = 1024;

pub(super) struct ReaderCache(GenerationalCache<ApprovalId, Loaded>);

impl Default for ReaderCache {
    fn default() -> Self {
        ReaderCache(GenerationalCache::new(MOST_BYTES))
    }
}

impl ReaderCache {
    /// Returns the approval if it is cached with this row and version.
    ///
    /// INVARIANT: a row and a version identify one content; each version is written once, and versions never decrease.
    pub(super) fn get(&self, id: ApprovalId, current: RowVersion) -> Option<Loaded> {
        self.0.get(&id, |cached| cached.row_version() == current)
    }

    /// Caches an approval. INVARIANT: called only after the approval's transaction has committed.
    pub(super) fn insert(&self, loaded: Loaded) {
        let bytes = estimated_bytes(&loaded.approval);
        self.0.insert(loaded.approval.id, loaded, bytes);
    }

    /// Clears the cache after another process has written, so that its changes are read from the file.
    pub(super) fn clear(&self) {
        self.0.clear();
    }
}

/// Returns the estimated memory use of an approval, in bytes.
pub(super) fn estimated_bytes(approval: &Approval) -> usize {
    let calls = approval.calls.iter().map(|call| {
        let result = call.result.as_ref().map_or(0, |result| result.len());
        BASE_BYTES + call.arguments.as_bytes().len() + result
    });
    BASE_BYTES + calls.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use countersign::store::memory::MemoryStore;
    use countersign::store::suite::{Fixture, sample};

    use super::*;

    #[tokio::test]
    async fn returns_only_the_version_that_the_file_has() {
        let clock = Fixture::clock();
        let fixture = Fixture::new(Arc::new(MemoryStore::with_clock(clock.clone())), clock);
        let approval = fixture.propose(sample::propose(1)).await;
        let (id, loaded) = (approval.id, Loaded { seq: 7, approval });
        let (cache, current) = (ReaderCache::default(), loaded.row_version());
        assert!(cache.get(id, current).is_none());
        cache.insert(loaded);
        assert!(cache.get(id, current).is_some());
        let (seq, version) = (current.seq, current.version);
        let (later, other_row) = (
            RowVersion {
                seq,
                version: version + 1,
            },
            RowVersion {
                seq: seq + 1,
                version,
            },
        );
        assert!(cache.get(id, later).is_none());
        assert!(cache.get(id, other_row).is_none());
        assert!(cache.get(sample::id(2), current).is_none());
        cache.clear();
        assert!(cache.get(id, current).is_none());
    }
}
