//! Decodes rows into approvals and events.
//!
//! Input: a connection inside a transaction, and a query. Output: decoded approvals and events. Callers that read
//! several rows hold a transaction, so that the rows are consistent. Nothing is written here.

use std::sync::Arc;

use countersign::approval::SharedApproval;
use countersign::call::Call;
use countersign::event::{ContentHash, Event};
use countersign::hash::Hash;
use countersign::id::{Agent, ApprovalId, Channel, Run, Tenant};
use countersign::store::StoreError;
use countersign::store::record::{
    ApprovalColumns, ApprovalRow, CallColumns, CallRow, decode_approval, decode_call,
};
use countersign::time::Time;
use rusqlite::{Connection, Params, Row};

use super::fault::{bad_record, damaged, read_error};

/// Number of row ids reserved for the calls of each approval; positions 1 to 127 are used.
pub(super) const CALLS_PER_APPROVAL: i64 = 128;

/// Reason why a row could not be read.
#[derive(Debug)]
pub(super) enum LoadError {
    /// Error of SQLite.
    Sql(rusqlite::Error),
    /// The row cannot be decoded.
    Damaged(StoreError),
}

impl From<rusqlite::Error> for LoadError {
    fn from(error: rusqlite::Error) -> Self {
        LoadError::Sql(error)
    }
}

impl From<StoreError> for LoadError {
    fn from(error: StoreError) -> Self {
        LoadError::Damaged(error)
    }
}

impl From<LoadError> for StoreError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Sql(error) => read_error(&error),
            LoadError::Damaged(error) => error,
        }
    }
}

/// A decoded approval with the `seq` of its row.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) seq: i64,
    pub(super) approval: SharedApproval,
}

/// The `seq` and version of an approval's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowVersion {
    pub(super) seq: i64,
    pub(super) version: u32,
}

impl Loaded {
    pub(super) fn row_version(&self) -> RowVersion {
        RowVersion {
            seq: self.seq,
            version: self.approval.version,
        }
    }
}

macro_rules! approvals {
    ($rest:literal) => {
        concat!(
            "SELECT seq, tenant, id, channel, agent, run, state, version, body FROM approval ",
            $rest
        )
    };
}

pub(super) const BY_ID: &str = approvals!("WHERE tenant = ?1 AND id = ?2");
pub(super) const BY_CHANNEL: &str = approvals!("WHERE tenant = ?1 AND channel = ?2 AND state = 0");
pub(super) const BY_KEY: &str = approvals!("WHERE tenant = ?1 AND agent = ?2 AND key = ?3");
pub(super) const PENDING_OF: &str = approvals!(
    "INDEXED BY approval_pending WHERE state = 0 AND tenant = ?1 AND agent = ?2 ORDER BY id LIMIT ?3"
);
pub(super) const COUNT_PENDING_OF: &str = "SELECT count(*) FROM (SELECT 1 FROM approval
    INDEXED BY approval_pending WHERE state = 0 AND tenant = ?1 AND agent = ?2 LIMIT ?3)";
pub(super) const DUE: &str = approvals!("WHERE due_at <= ?1 ORDER BY due_at, tenant, id LIMIT ?2");

// A query names its index if SQLite might otherwise choose one that makes the cost grow with history.
pub(super) const LIST_PENDING: &str = approvals!(
    "INDEXED BY approval_pending WHERE state = 0 AND tenant = ?1 AND id > ?2 AND due_at > ?3 AND (?8 IS NULL OR state <> ?8)
     AND (?4 IS NULL OR agent = ?4) AND (?5 IS NULL OR channel = ?5) AND (?6 IS NULL OR run = ?6)
     ORDER BY id LIMIT ?7"
);
pub(super) const LIST_RUN: &str = approvals!(
    "INDEXED BY approval_run WHERE tenant = ?1 AND id < ?2 AND (?3 IS NULL OR state = ?3) AND (?8 IS NULL OR state <> ?8)
     AND (?4 IS NULL OR agent = ?4) AND (?5 IS NULL OR channel = ?5) AND run = ?6
     ORDER BY id DESC LIMIT ?7"
);
pub(super) const LIST_ALL: &str = approvals!(
    "INDEXED BY approval_id WHERE tenant = ?1 AND id < ?2 AND (?3 IS NULL OR state = ?3) AND (?8 IS NULL OR state <> ?8)
     AND (?4 IS NULL OR agent = ?4) AND (?5 IS NULL OR channel = ?5) AND (?6 IS NULL OR run = ?6)
     ORDER BY id DESC LIMIT ?7"
);
/// Lists open approvals, which are those with a due time.
pub(super) const LIST_OPEN: &str = approvals!(
    "INDEXED BY approval_due WHERE due_at IS NOT NULL AND tenant = ?1 AND id < ?2 AND (?3 IS NULL OR state = ?3) AND (?8 IS NULL OR state <> ?8)
     AND (?4 IS NULL OR agent = ?4) AND (?5 IS NULL OR channel = ?5) AND (?6 IS NULL OR run = ?6)
     ORDER BY id DESC LIMIT ?7"
);
pub(super) const COUNT_PENDING: &str = "SELECT count(*) FROM approval INDEXED BY approval_pending
    WHERE state = 0 AND tenant = ?1 AND due_at > ?2";
/// Finds approvals with a released call and no running one, among those with events in a range.
///
/// Codes in the SQL: approval state 1 is approved, call state 2 is released and 3 is running; an approval has room for
/// 128 calls. An event's text begins with `{"what":"`, and the next four letters identify the events of
/// `EventKind::lets_calls_run`.
pub(super) const RELEASED: &str = approvals!(
    "NOT INDEXED WHERE seq IN (SELECT approval FROM event WHERE seq > ?2 AND seq <= ?3
         AND substr(what, 10, 4) IN ('appr', 'succ', 'fail', 'lost', 'refu'))
     AND tenant = ?1 AND state = 1 AND due_at IS NOT NULL
     AND EXISTS (SELECT 1 FROM call AS c WHERE c.id > approval.seq * 128 AND c.id < (approval.seq + 1) * 128 AND c.state = 2)
     AND NOT EXISTS (SELECT 1 FROM call AS c WHERE c.id > approval.seq * 128 AND c.id < (approval.seq + 1) * 128 AND c.state = 3)
     ORDER BY seq"
);

const CALLS: &str = "SELECT state, tool, arguments, original, result, sealed, body FROM call
    WHERE id > ?1 AND id < ?2 ORDER BY id";

/// Returns the first approval that `sql` finds; `None` if it finds none.
pub(super) fn first_approval(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Option<Loaded>, LoadError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(|row| approval(connection, row)).transpose()
}

/// Returns all approvals that `sql` finds.
pub(super) fn approvals(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<Loaded>, LoadError> {
    approvals_within(connection, sql, params, usize::MAX)
}

/// Returns all approvals that `sql` finds, with a separate result for each: an unreadable one does not hide the others.
pub(super) fn approval_results(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<Result<Loaded, LoadError>>, LoadError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut approvals = Vec::new();
    while let Some(row) = rows.next()? {
        approvals.push(approval(connection, row));
    }
    Ok(approvals)
}

/// Returns approvals that `sql` finds, until their sizes add up to `most_bytes`. Further approvals are not read.
pub(super) fn approvals_within(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    most_bytes: usize,
) -> Result<Vec<Loaded>, LoadError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut approvals = Vec::new();
    let mut bytes = 0_usize;
    while bytes < most_bytes
        && let Some(row) = rows.next()?
    {
        let loaded = approval(connection, row)?;
        bytes = bytes.saturating_add(loaded.approval.weight());
        approvals.push(loaded);
    }
    Ok(approvals)
}

fn approval(connection: &Connection, row: &Row<'_>) -> Result<Loaded, LoadError> {
    let seq: i64 = row.get(0)?;
    let columns = ApprovalColumns {
        tenant: Tenant::new(text(row, 1)?).map_err(damaged)?,
        id: approval_id(row, 2)?,
        channel: optional_text(row, 3)?
            .map(Channel::stored)
            .transpose()
            .map_err(damaged)?,
        agent: Agent::stored(text(row, 4)?).map_err(damaged)?,
        run: optional_text(row, 5)?
            .map(Run::new)
            .transpose()
            .map_err(damaged)?,
        state: row.get(6)?,
        version: row.get(7)?,
    };
    let calls = calls(connection, seq)?;
    let approval = decode_approval(columns, blob(row, 8)?, calls).map_err(|error| bad_record(&error))?;
    Ok(Loaded {
        seq,
        approval: Arc::new(approval),
    })
}

fn calls(connection: &Connection, seq: i64) -> Result<Vec<Call>, LoadError> {
    let first = call_id(seq, 0)?;
    let mut statement = connection.prepare_cached(CALLS)?;
    let mut rows = statement.query((first, first.saturating_add(CALLS_PER_APPROVAL)))?;
    let mut calls = Vec::new();
    while let Some(row) = rows.next()? {
        let columns = CallColumns {
            state: row.get(0)?,
            tool: row.get(1)?,
            arguments: row.get(2)?,
            original: row.get(3)?,
            result: row.get(4)?,
            sealed: row.get(5)?,
        };
        calls.push(decode_call(columns, blob(row, 6)?).map_err(|error| bad_record(&error))?);
    }
    Ok(calls)
}

const EVENTS: &str = "SELECT e.number, e.at, p.hash, e.by, e.what, e.link, e.content
    FROM event AS e CROSS JOIN policy AS p ON p.id = e.policy WHERE e.approval = ?1 ORDER BY e.number";
const ROW: &str = "SELECT tenant, id, channel, agent, run, state, version, body FROM approval WHERE seq = ?1";

/// Returns the events of the approval with this `seq`.
pub(super) fn events(connection: &Connection, seq: i64) -> Result<Vec<Event>, LoadError> {
    let mut statement = connection.prepare_cached(EVENTS)?;
    let mut rows = statement.query([seq])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.push(event(row, 0)?);
    }
    Ok(events)
}

/// Returns the content hash of an approval from its stored rows. `None` if there is no such row, or if it was stored
/// before content hashes were introduced.
pub(super) fn content(connection: &Connection, seq: i64) -> Result<Option<ContentHash>, LoadError> {
    type Columns = (i16, String, Option<Vec<u8>>, Option<Vec<u8>>, Vec<u8>);
    let first = call_id(seq, 0)?;
    let mut statement = connection.prepare_cached(CALLS)?;
    let mut rows = statement.query((first, first.saturating_add(CALLS_PER_APPROVAL)))?;
    let mut calls: Vec<Columns> = Vec::new();
    while let Some(row) = rows.next()? {
        calls.push((row.get(0)?, row.get(1)?, row.get(3)?, row.get(5)?, row.get(6)?));
    }
    let mut statement = connection.prepare_cached(ROW)?;
    let mut rows = statement.query([seq])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let stored = ApprovalRow {
        tenant: text(row, 0)?,
        id: blob(row, 1)?,
        channel: optional_text(row, 2)?,
        agent: text(row, 3)?,
        run: optional_text(row, 4)?,
        state: row.get(5)?,
        version: row.get(6)?,
        body: blob(row, 7)?,
    };
    Ok(
        stored.content(calls.iter().map(|(state, tool, original, sealed, body)| CallRow {
            state: *state,
            tool,
            original: original.as_deref(),
            sealed: sealed.as_deref(),
            body,
        })),
    )
}

/// Returns the id of a call's row. Fails if `position` is too large for an approval.
pub(super) fn call_id(seq: i64, position: u8) -> Result<i64, StoreError> {
    seq.checked_mul(CALLS_PER_APPROVAL)
        .and_then(|first| first.checked_add(position.into()))
        .filter(|_| i64::from(position) < CALLS_PER_APPROVAL)
        .ok_or_else(|| damaged("a call that has no place"))
}

/// Reads an event from seven columns starting at `first`: number, at, policy hash, by, what, link, content.
pub(super) fn event(row: &Row<'_>, first: usize) -> Result<Event, LoadError> {
    let event = Event::stored(
        row.get(first)?,
        Time::from_micros(row.get(first + 1)?),
        Hash(row.get(first + 2)?),
        text(row, first + 3)?.parse().map_err(damaged)?,
        row.get(first + 4)?,
        Hash(row.get(first + 5)?),
        row.get::<_, Option<_>>(first + 6)?.map(ContentHash),
    );
    Ok(event.map_err(damaged)?)
}

pub(super) fn approval_id(row: &Row<'_>, column: usize) -> Result<ApprovalId, LoadError> {
    Ok(ApprovalId::from_bytes(row.get(column)?))
}

pub(super) fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str, LoadError> {
    Ok(row.get_ref(column)?.as_str().map_err(damaged)?)
}

fn optional_text<'a>(row: &'a Row<'_>, column: usize) -> Result<Option<&'a str>, LoadError> {
    Ok(row.get_ref(column)?.as_str_or_null().map_err(damaged)?)
}

fn blob<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8], LoadError> {
    Ok(row.get_ref(column)?.as_blob().map_err(damaged)?)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sqlite::schema;

    /// Returns the steps of SQLite's query plan, with all parameters NULL.
    fn plan(sql: &str) -> String {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let nothing = vec![rusqlite::types::Null; statement.parameter_count()];
        let steps = statement.query_map(rusqlite::params_from_iter(nothing), |row| row.get(3));
        steps
            .unwrap()
            .collect::<Result<Vec<String>, _>>()
            .unwrap()
            .join("; ")
    }

    #[track_caller]
    pub(in crate::sqlite) fn check(sql: &str, expected: &str) {
        assert_eq!(plan(sql), expected, "`{sql}`");
    }

    /// Checks that no step of a query plan scans a table, and that only approvals due at the same moment are sorted. So
    /// finished approvals cost nothing.
    #[test]
    fn f16_cost_does_not_grow_with_history() {
        let by = |index: &str| format!("SEARCH approval USING INDEX {index}");
        check(BY_ID, &by("approval_id (tenant=? AND id=?)"));
        check(BY_CHANNEL, &by("approval_channel (tenant=? AND channel=?)"));
        check(BY_KEY, &by("approval_key (tenant=? AND agent=? AND key=?)"));
        check(LIST_PENDING, &by("approval_pending (tenant=? AND id>?)"));
        check(LIST_RUN, &by("approval_run (tenant=? AND run=? AND id<?)"));
        check(LIST_ALL, &by("approval_id (tenant=? AND id<?)"));
        // This query reads all open approvals, but no finished ones.
        check(
            LIST_OPEN,
            &by("approval_due (due_at>?); USE TEMP B-TREE FOR ORDER BY"),
        );
        check(COUNT_PENDING, &by("approval_pending (tenant=?)"));
        check(
            DUE,
            &by("approval_due (due_at<?); USE TEMP B-TREE FOR LAST 2 TERMS OF ORDER BY"),
        );
        check(
            RELEASED,
            "SEARCH approval USING INTEGER PRIMARY KEY (rowid=?); LIST SUBQUERY 1; \
             SEARCH event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?); CORRELATED SCALAR SUBQUERY 3; \
             SEARCH c USING INTEGER PRIMARY KEY (rowid>? AND rowid<?); \
             SEARCH c EXISTS USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        );
        check(
            CALLS,
            "SEARCH call USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        );
    }
}
