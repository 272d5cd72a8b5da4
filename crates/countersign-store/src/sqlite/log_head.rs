//! Head of the event log, written in the same transaction as the events.
//!
//! Input: events as they are appended. Output: the number of events, and the hashes from which the root over them is
//! computed.
//! The log needs no copy of the events: the event table is already in the order of the log, by `seq`.

use countersign::hash::Hash;
use countersign::log::{LogHead, leaf};
use rusqlite::{Connection, params};

use super::fault::damaged;
use super::load::LoadError;

const READ: &str = "SELECT size, last, frontier FROM log WHERE id = 1";
const WRITE: &str = "UPDATE log SET size = ?1, last = ?2, frontier = ?3 WHERE id = 1";
/// Selects the events after the last one in the log. An orphaned event counts with an empty tenant and a zero id.
const EVENTS_AFTER: &str =
    "SELECT e.seq, coalesce(a.tenant, ''), coalesce(a.id, zeroblob(16)), e.number, e.link
    FROM event AS e LEFT JOIN approval AS a ON a.seq = e.approval WHERE e.seq > ?1 ORDER BY e.seq";

/// Stored head of the event log, with the `seq` of the last event that it covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredLogHead {
    pub(super) head: LogHead,
    /// The `seq` of the last event in the log.
    pub(super) last: i64,
}

impl StoredLogHead {
    /// Reads the stored head. Events may have been appended since; see [`StoredLogHead::current`].
    pub(super) fn read(connection: &Connection) -> Result<StoredLogHead, LoadError> {
        let mut statement = connection.prepare_cached(READ)?;
        let mut rows = statement.query([])?;
        let Some(row) = rows.next()? else {
            return Err(damaged("the log has no head").into());
        };
        let size = u64::try_from(row.get::<_, i64>(0)?).map_err(damaged)?;
        let frontier = row.get_ref(2)?.as_blob().map_err(damaged)?;
        let head = LogHead::stored(size, frontier).ok_or_else(|| damaged("the head of the log"))?;
        Ok(StoredLogHead {
            head,
            last: row.get(1)?,
        })
    }

    /// Reads the head and adds events that it does not cover yet: older versions of this program append events without
    /// updating the head.
    pub(super) fn current(connection: &Connection) -> Result<StoredLogHead, LoadError> {
        let mut stored = StoredLogHead::read(connection)?;
        let mut statement = connection.prepare_cached(EVENTS_AFTER)?;
        let mut rows = statement.query([stored.last])?;
        while let Some(row) = rows.next()? {
            let tenant = row.get_ref(1)?.as_str().map_err(damaged)?;
            let leaf = leaf(tenant, &row.get(2)?, row.get(3)?, Hash(row.get(4)?));
            stored.push(row.get(0)?, leaf);
        }
        Ok(stored)
    }

    pub(super) fn push(&mut self, seq: i64, leaf: Hash) {
        self.head.push(leaf);
        self.last = seq;
    }

    pub(super) fn write(&self, connection: &Connection) -> Result<(), LoadError> {
        let size = i64::try_from(self.head.size()).unwrap_or(i64::MAX);
        let mut statement = connection.prepare_cached(WRITE)?;
        match statement.execute(params![size, self.last, self.head.frontier()])? {
            1 => Ok(()),
            _ => Err(damaged("the log has no head").into()),
        }
    }
}
