//! What the writer knows to stand in the file without looking there.
//!
//! Enters: what it committed, or read under the lock. Leaves: the same, as it still stands.
//! INVARIANT: used under the write lock alone, and forgotten when anybody else has written in between.

use countersign::id::{ApprovalId, Tenant};
use countersign::recent::Recent;
use countersign::registry::{Entry, Kind};

use super::load::Loaded;
use super::recent::{MOST_BYTES, SMALLEST, weight};

/// Room for some hundred tokens and people.
const MOST_ENTRY_BYTES: usize = 256 * 1024;

/// The writer's own knowledge. Nobody else adds to it: a slow reader could add what is not so any more.
pub(super) struct Own {
    approvals: Recent<ApprovalId, Loaded>,
    entries: Recent<(Kind, String), Entry>,
}

impl Default for Own {
    fn default() -> Self {
        Own {
            approvals: Recent::new(MOST_BYTES),
            entries: Recent::new(MOST_ENTRY_BYTES),
        }
    }
}

impl Own {
    pub(super) fn approval(&self, tenant: &Tenant, id: ApprovalId) -> Option<Loaded> {
        self.approvals.get(&id, |kept| kept.approval.tenant == *tenant)
    }

    /// Keeps what was committed. INVARIANT: never anything that may still be rolled back.
    pub(super) fn keep(&self, loaded: Loaded) {
        let bytes = weight(&loaded.approval);
        self.approvals.keep(loaded.approval.id, loaded, bytes);
    }

    pub(super) fn entry(&self, kind: Kind, key: &str) -> Option<Entry> {
        self.entries.get(&(kind, key.to_owned()), |_| true)
    }

    /// Keeps an entry that was read. INVARIANT: as above.
    pub(super) fn keep_entry(&self, entry: &Entry) {
        let bytes = SMALLEST + entry.body.len();
        let name = (entry.kind, entry.key.clone());
        self.entries.keep(name, entry.clone(), bytes);
    }

    /// Entries are about to change. That is rare beside reading them, so all are forgotten.
    pub(super) fn forget_entries(&self) {
        self.entries.clear();
    }

    /// Somebody else wrote.
    pub(super) fn clear(&self) {
        self.approvals.clear();
        self.entries.clear();
    }
}
