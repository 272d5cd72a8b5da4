//! From rows to approvals and events. What cannot be read is an error, never a guess.

use std::collections::HashMap;
use std::sync::Arc;

use countersign::approval::{Approval, SharedApproval};
use countersign::call::Call;
use countersign::event::Event;
use countersign::hash::Hash;
use countersign::id::{Agent, ApprovalId, BadName, Channel, Run, Tenant};
use countersign::state::State;
use countersign::store::record::{ApprovalColumns, CallColumns, decode_approval, decode_call};
use countersign::store::{Cursor, FeedEvent, StoreError};
use countersign::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// The columns of an approval `a`.
pub(super) const APPROVAL: &str = "a.tenant, a.id, a.channel, a.agent, a.run, a.state, a.version, a.body";
const APPROVAL_WIDTH: usize = 8;
const STATE: usize = 5;

/// The columns of a call `c`.
pub(super) const CALL: &str =
    "c.position, c.state, c.tool, c.arguments, c.original, c.result, c.sealed, c.body";

/// The join of both: one statement, so an approval and its calls are of the same moment.
pub(super) const WITH_CALLS: &str = "LEFT JOIN call c ON c.tenant = a.tenant AND c.approval = a.id";

/// The columns of an event, in the order [`event`] reads them.
pub(super) const EVENT_COLUMNS: &str = "number, at, policy, by, what, link";

/// Reads rows of [`APPROVAL`] and [`CALL`] joined, which come ordered by approval and position.
pub(super) fn joined(rows: &[Row]) -> Result<Vec<SharedApproval>, StoreError> {
    let mut approvals = Vec::new();
    for group in rows.chunk_by(|one, other| key(one, 0) == key(other, 0)) {
        if let Some(first) = group.first() {
            let calls: Vec<&Row> = group.iter().collect();
            approvals.push(Arc::new(approval(first, &calls, APPROVAL_WIDTH)?));
        }
    }
    Ok(approvals)
}

/// Reads rows of [`APPROVAL`], and of their calls: the calls' tenant and approval at `from`, then [`CALL`].
///
/// Who held a channel and ended while its lock was waited for is left out: the statement behind the wait, which reads
/// the calls, no longer finds it in the channel.
pub(super) fn apart(
    approvals: &[Row],
    calls: &[Row],
    from: usize,
) -> Result<Vec<SharedApproval>, StoreError> {
    let mut placed: HashMap<_, Vec<&Row>> = HashMap::with_capacity(approvals.len());
    for call in calls {
        placed.entry(key(call, from)).or_default().push(call);
    }
    for calls in placed.values_mut() {
        calls.sort_by_key(|call| call.try_get::<_, Option<i16>>(from + 2).ok().flatten());
    }
    let is_wanted = |row: &&Row| {
        let is_pending = row
            .try_get(STATE)
            .is_ok_and(|state: i16| state == State::Pending.code());
        is_pending || placed.contains_key(&key(row, 0))
    };
    let read = |row: &Row| {
        let calls = placed.get(&key(row, 0)).map(Vec::as_slice).unwrap_or_default();
        Ok(Arc::new(approval(row, calls, from + 2)?))
    };
    approvals.iter().filter(is_wanted).map(read).collect()
}

type ReadKey<'a> = (Option<&'a str>, Option<&'a [u8]>);

fn key(row: &Row, from: usize) -> ReadKey<'_> {
    (row.try_get(from).ok(), row.try_get(from + 1).ok())
}

/// Reads an approval whose calls, ordered by position, have their columns from `from` on.
fn approval(row: &Row, calls: &[&Row], from: usize) -> Result<Approval, StoreError> {
    let columns = ApprovalColumns {
        tenant: name(get::<String>(row, 0)?, Tenant::new)?,
        id: id(row, 1)?,
        channel: optional_name(row, 2, Channel::stored)?,
        agent: name(get::<String>(row, 3)?, Agent::stored)?,
        run: optional_name(row, 4, Run::new)?,
        state: get(row, STATE)?,
        version: count(get(row, 6)?)?,
    };
    let in_order = (1i16..)
        .zip(calls)
        .all(|(expected, row)| get::<i16>(row, from).is_ok_and(|found| found == expected));
    if calls.is_empty() || !in_order {
        return Err(impossible("the calls of an approval have gaps"));
    }
    let calls: Result<Vec<Call>, StoreError> = calls.iter().map(|row| call(row, from)).collect();
    decode_approval(columns, get(row, 7)?, calls?).map_err(impossible)
}

fn call(row: &Row, from: usize) -> Result<Call, StoreError> {
    let columns = CallColumns {
        state: get(row, from + 1)?,
        tool: get(row, from + 2)?,
        arguments: get(row, from + 3)?,
        original: get(row, from + 4)?,
        result: get(row, from + 5)?,
        sealed: get(row, from + 6)?,
    };
    decode_call(columns, get(row, from + 7)?).map_err(impossible)
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
