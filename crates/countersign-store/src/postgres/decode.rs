//! From rows to approvals and events. What cannot be read is an error, never a guess.

use std::sync::Arc;

use countersign::approval::{Approval, SharedApproval};
use countersign::call::Call;
use countersign::event::Event;
use countersign::hash::Hash;
use countersign::id::{Agent, ApprovalId, BadName, Channel, Run, Tenant};
use countersign::store::record::{ApprovalColumns, CallColumns, decode_approval, decode_call};
use countersign::store::{Cursor, FeedEvent, StoreError};
use countersign::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// The columns of approvals `a` joined with their calls `c`, in the order [`approvals`] reads them.
pub(super) const COLUMNS: &str = "a.tenant, a.id, a.channel, a.agent, a.run, a.state, a.version, a.body, \
    c.position, c.state, c.tool, c.arguments, c.original, c.result, c.sealed, c.body";

/// The join those columns come from: one statement, so an approval and its calls are of the same moment.
pub(super) const WITH_CALLS: &str = "LEFT JOIN call c ON c.tenant = a.tenant AND c.approval = a.id";

/// The columns of an event, in the order [`event`] reads them.
pub(super) const EVENT_COLUMNS: &str = "number, at, policy, by, what, link";

/// Reads joined rows, which come ordered by approval and position.
pub(super) fn approvals(rows: &[Row]) -> Result<Vec<SharedApproval>, StoreError> {
    let mut approvals = Vec::new();
    let same = |one: &Row, other: &Row| {
        let id = |row: &Row| {
            (
                row.try_get::<_, String>(0).ok(),
                row.try_get::<_, Vec<u8>>(1).ok(),
            )
        };
        id(one) == id(other)
    };
    for group in rows.chunk_by(same) {
        if let Some(first) = group.first() {
            approvals.push(Arc::new(approval(first, group)?));
        }
    }
    Ok(approvals)
}

fn approval(first: &Row, group: &[Row]) -> Result<Approval, StoreError> {
    let columns = ApprovalColumns {
        tenant: name(get::<String>(first, 0)?, Tenant::new)?,
        id: id(first, 1)?,
        channel: optional_name(first, 2, Channel::new)?,
        agent: name(get::<String>(first, 3)?, Agent::new)?,
        run: optional_name(first, 4, Run::new)?,
        state: get(first, 5)?,
        version: count(get(first, 6)?)?,
    };
    let calls: Result<Vec<Call>, StoreError> = group.iter().map(call).collect();
    let calls = calls?;
    let in_order = (1i16..)
        .zip(group)
        .all(|(expected, row)| get::<i16>(row, 8).is_ok_and(|found| found == expected));
    if !in_order {
        return Err(impossible("the calls of an approval have gaps"));
    }
    decode_approval(columns, get(first, 7)?, calls).map_err(impossible)
}

fn call(row: &Row) -> Result<Call, StoreError> {
    let columns = CallColumns {
        state: get(row, 9)?,
        tool: get(row, 10)?,
        arguments: get(row, 11)?,
        original: get(row, 12)?,
        result: get(row, 13)?,
        sealed: get(row, 14)?,
    };
    decode_call(columns, get(row, 15)?).map_err(impossible)
}

/// Reads an event whose columns begin at `from`.
pub(super) fn event(row: &Row, from: usize) -> Result<Event, StoreError> {
    let by: String = get(row, from + 3)?;
    let event = Event::stored(
        count(get(row, from)?)?,
        Time::from_micros(get(row, from + 1)?),
        hash(row, from + 2)?,
        by.parse().map_err(impossible)?,
        get(row, from + 4)?,
        hash(row, from + 5)?,
    );
    event.map_err(impossible)
}

/// Reads an event of the feed: transaction, place, approval, and then the event.
pub(super) fn feed_event(row: &Row) -> Result<FeedEvent, StoreError> {
    let number = |number: i64| u64::try_from(number).map_err(impossible);
    Ok(FeedEvent {
        cursor: Cursor {
            transaction: number(get(row, 0)?)?,
            sequence: number(get::<i32>(row, 1)?.into())?,
        },
        approval: id(row, 2)?,
        event: event(row, 3)?,
    })
}

/// Reads one column.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(impossible)
}

/// Reads an approval's id.
pub(super) fn id(row: &Row, index: usize) -> Result<ApprovalId, StoreError> {
    let bytes: &[u8] = get(row, index)?;
    Ok(ApprovalId::from_bytes(bytes.try_into().map_err(impossible)?))
}

fn hash(row: &Row, index: usize) -> Result<Hash, StoreError> {
    let bytes: &[u8] = get(row, index)?;
    Ok(Hash(bytes.try_into().map_err(impossible)?))
}

fn name<T>(text: String, make: impl Fn(String) -> Result<T, BadName>) -> Result<T, StoreError> {
    make(text).map_err(impossible)
}

fn optional_name<T>(
    row: &Row,
    index: usize,
    make: impl Fn(String) -> Result<T, BadName>,
) -> Result<Option<T>, StoreError> {
    let text: Option<String> = get(row, index)?;
    text.map(|text| name(text, make)).transpose()
}

/// Reads a version or number, which is never negative.
pub(super) fn count(number: i32) -> Result<u32, StoreError> {
    u32::try_from(number).map_err(impossible)
}

/// What is stored cannot be true.
pub(super) fn impossible(why: impl std::fmt::Display) -> StoreError {
    StoreError::Impossible(format!("the store holds something impossible: {why}"))
}
