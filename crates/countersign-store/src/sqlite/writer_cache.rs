//! Writer cache: approvals that the writer can use without reading the file.
//!
//! Input: approvals that the writer committed, or read under the write lock. Output: the same approvals, if still current.
//! INVARIANT: used only under the write lock, and cleared when another process has written. An approval is cached only
//! if its events match it: either the writer wrote it, or the writer compared it with its events when reading it.

use countersign::approval::Approval;
use countersign::cache::GenerationalCache;
use countersign::id::{ApprovalId, Tenant};

use super::load::Loaded;

/// Maximum size of the cache in bytes: room for about a thousand approvals of usual size.
const MOST_BYTES: usize = 2 * 1024 * 1024;
/// Estimated size of an approval or a call without its arguments and result, in bytes.
const BASE_BYTES: usize = 1024;

/// The writer cache. Only the writer fills the cache, because a slow reader could add an outdated row.
pub(super) struct WriterCache(GenerationalCache<ApprovalId, Loaded>);

impl Default for WriterCache {
    fn default() -> Self {
        WriterCache(GenerationalCache::new(MOST_BYTES))
    }
}

impl WriterCache {
    pub(super) fn approval(&self, tenant: &Tenant, id: ApprovalId) -> Option<Loaded> {
        self.0.get(&id, |cached| cached.approval.tenant == *tenant)
    }

    /// Caches an approval. INVARIANT: called only after the approval's transaction has committed.
    pub(super) fn insert(&self, loaded: Loaded) {
        let bytes = estimated_bytes(&loaded.approval);
        self.0.insert(loaded.approval.id, loaded, bytes);
    }

    /// Clears the cache after another process has written.
    pub(super) fn clear(&self) {
        self.0.clear();
    }
}

/// Returns the estimated memory use of an approval, in bytes.
fn estimated_bytes(approval: &Approval) -> usize {
    let calls = approval.calls.iter().map(|call| {
        let result = call.result.as_ref().map_or(0, |result| result.len());
        BASE_BYTES + call.arguments.as_bytes().len() + result
    });
    BASE_BYTES + calls.sum::<usize>()
}
