//! Put and take: the ways in which an entry of the registry comes and goes.

use super::Rows;
use crate::registry::{Entry, Kind, Put};
use crate::store::StoreError;
use crate::time::Time;

/// Keeps an entry, if what is there has the version it names.
#[derive(Clone, Debug)]
pub struct PutEntry(pub Entry);

impl PutEntry {
    pub(super) fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Put, StoreError> {
        let entry = &self.0;
        entry
            .check()
            .map_err(|bad| StoreError::Impossible(bad.to_string()))?;
        let stored = rows.entry(entry.kind, &entry.key)?;
        let there = stored.as_ref().filter(|stored| stored.is_there(now));
        let expected = match there {
            // An entry belongs to one tenant for ever; to others it is merely taken.
            Some(there) => there.tenant == entry.tenant && there.version == entry.version,
            None => entry.version == 0,
        };
        if !expected {
            return Ok(Put::Changed);
        }
        // Also behind one whose time was over: who still holds that one's version must not change this one.
        let version = stored.map_or(0, |stored| stored.version).saturating_add(1);
        rows.keep_entry(Entry {
            version,
            ..entry.clone()
        })?;
        Ok(Put::Kept(version))
    }
}

/// Removes an entry and gives it to whoever asked, once.
#[derive(Clone, Debug)]
pub struct TakeEntry {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub key: String,
}

impl TakeEntry {
    pub(super) fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Option<Entry>, StoreError> {
        let Some(entry) = rows.entry(self.kind, &self.key)? else {
            return Ok(None);
        };
        // One whose time is over is the sweep's.
        if !entry.is_there(now) {
            return Ok(None);
        }
        rows.remove_entry(self.kind, &self.key)?;
        Ok(Some(entry))
    }
}
