//! Writer cache: approvals and entries that the writer can use without reading the file.
//!
//! Input: rows that the writer committed, or read under the write lock. Output: the same rows, if still current.
//! INVARIANT: used only under the write lock, and cleared when another process has written. An approval is cached only
//! if its events match it: either the writer wrote it, or the writer compared it with its events when reading it.

use countersign::cache::GenerationalCache;
use countersign::id::{ApprovalId, Tenant};
use countersign::registry::{Entry, Kind};

use super::load::Loaded;
use super::reader_cache::{BASE_BYTES, MOST_BYTES, estimated_bytes};

/// Maximum size of the cached entries in bytes: room for a few hundred tokens and accounts.
const MOST_ENTRY_BYTES: usize = 256 * 1024;

/// The writer cache. Only the writer fills the cache, because a slow reader could add an outdated row.
pub(super) struct WriterCache {
    approvals: GenerationalCache<ApprovalId, Loaded>,
    entries: GenerationalCache<(Kind, String), Entry>,
}

impl Default for WriterCache {
    fn default() -> Self {
        WriterCache {
            approvals: GenerationalCache::new(MOST_BYTES),
            entries: GenerationalCache::new(MOST_ENTRY_BYTES),
        }
    }
}

impl WriterCache {
    pub(super) fn approval(&self, tenant: &Tenant, id: ApprovalId) -> Option<Loaded> {
        self.approvals
            .get(&id, |cached| cached.approval.tenant == *tenant)
    }

    /// Caches an approval. INVARIANT: called only after the approval's transaction has committed.
    pub(super) fn insert(&self, loaded: Loaded) {
        let bytes = estimated_bytes(&loaded.approval);
        self.approvals.insert(loaded.approval.id, loaded, bytes);
    }

    pub(super) fn entry(&self, kind: Kind, key: &str) -> Option<Entry> {
        self.entries.get(&(kind, key.to_owned()), |_| true)
    }

    /// Caches an entry that was read. INVARIANT: called only for a committed entry.
    pub(super) fn insert_entry(&self, entry: &Entry) {
        let bytes = BASE_BYTES + entry.body.len();
        let name = (entry.kind, entry.key.clone());
        self.entries.insert(name, entry.clone(), bytes);
    }

    /// Clears all cached entries. Called before an entry changes, which is rare.
    pub(super) fn clear_entries(&self) {
        self.entries.clear();
    }

    /// Clears the cache after another process has written.
    pub(super) fn clear(&self) {
        self.approvals.clear();
        self.entries.clear();
    }
}
