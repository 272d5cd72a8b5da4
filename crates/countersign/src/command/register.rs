//! Put and take: the commands that change registry entries.

use super::Rows;
use crate::registry::{Entry, Kind, Put};
use crate::store::StoreError;
use crate::time::Time;

/// Writes an entry if the stored version matches (compare-and-swap).
#[derive(Clone, Debug)]
pub struct PutEntry(pub Entry);

impl PutEntry {
    pub(super) fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Put, StoreError> {
        let entry = &self.0;
        entry
            .check()
            .map_err(|bad| StoreError::Impossible(bad.to_string()))?;
        let stored = rows.entry(entry.kind, &entry.key)?;
        let there = stored.as_ref().filter(|stored| stored.is_live(now));
        let expected = match there {
            // An entry never changes its tenant. Other tenants cannot use its key.
            Some(there) => there.tenant == entry.tenant && there.version == entry.version,
            None => entry.version == 0,
        };
        if !expected {
            return Ok(Put::Conflict);
        }
        // The version counts on from an expired entry, too, so that a caller that knows the old version cannot change
        // the new entry.
        let version = stored.map_or(0, |stored| stored.version).saturating_add(1);
        rows.keep_entry(Entry {
            version,
            ..entry.clone()
        })?;
        Ok(Put::Written(version))
    }
}

/// Removes an entry and returns it. Only one of several concurrent callers gets the entry.
#[derive(Clone, Debug)]
pub struct TakeEntry {
    /// Kind of the entry.
    pub kind: Kind,
    /// Key of the entry.
    pub key: String,
}

impl TakeEntry {
    pub(super) fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Option<Entry>, StoreError> {
        let Some(entry) = rows.entry(self.kind, &self.key)? else {
            return Ok(None);
        };
        // Expired entries are left to the sweep.
        if !entry.is_live(now) {
            return Ok(None);
        }
        rows.remove_entry(self.kind, &self.key)?;
        Ok(Some(entry))
    }
}
