//! Decodes rows into approvals and events. Anything unreadable is an error, never a guess.

use std::collections::HashMap;
use std::sync::Arc;

use countersign::approval::{Approval, SharedApproval};
use countersign::call::Call;
use countersign::event::{ContentHash, Event};
use countersign::hash::Hash;
use countersign::id::{Agent, ApprovalId, BadName, Channel, Run, Tenant};
use countersign::state::State;
use countersign::store::audit::check_locked;
use countersign::store::record::{
    ApprovalColumns, ApprovalRow, CallColumns, CallRow, decode_approval, decode_call,
};
use countersign::store::{Cursor, FeedEvent, StoreError};
use countersign::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// Columns of an approval, with the table alias `a`.
pub(super) const APPROVAL: &str = "a.tenant, a.id, a.channel, a.agent, a.run, a.state, a.version, a.body";
const APPROVAL_WIDTH: usize = 8;
const STATE: usize = 5;

/// Columns of a call, with the table alias `c`.
pub(super) const CALL: &str =
    "c.position, c.state, c.tool, c.arguments, c.original, c.result, c.sealed, c.body";

/// Joins an approval with its calls. One statement reads both, so they come from the same snapshot.
pub(super) const WITH_CALLS: &str = "LEFT JOIN call c ON c.tenant = a.tenant AND c.approval = a.id";

/// Columns of an event, in the order in which [`event`] reads them.
pub(super) const EVENT_COLUMNS: &str = "number, at, policy, by, what, link, content";

/// Decodes joined rows of [`APPROVAL`] and [`CALL`], which must be ordered by approval and position.
pub(super) fn joined_approvals(rows: &[Row]) -> Result<Vec<SharedApproval>, StoreError> {
    let mut approvals = Vec::new();
    for group in rows.chunk_by(|one, other| key(one, 0) == key(other, 0)) {
        if let Some(first) = group.first() {
            let calls: Vec<&Row> = group.iter().collect();
            approvals.push(Arc::new(approval(first, &calls, APPROVAL_WIDTH)?));
        }
    }
    Ok(approvals)
}

/// Decodes locked approvals, whose rows have the columns of [`APPROVAL`]. A row of `calls` has the tenant and the
/// approval's id at column `from`, then the columns of [`CALL`]. A row of `events` begins with the tenant and the
/// approval's id.
///
/// Skips an approval that was selected only as a pending approval of a channel or an agent, and is no longer pending
/// once its lock is held: the later statement that reads the calls does not find it.
///
/// INVARIANT: an approval counts as consistent only if its events agree with its rows; see `check_locked`.
pub(super) fn locked_approvals(
    approvals: &[Row],
    calls: &[Row],
    from: usize,
    events: &[Row],
) -> Result<LockedApprovals, StoreError> {
    let mut events_by_approval: HashMap<_, Vec<&Row>> = HashMap::with_capacity(approvals.len());
    for event in events {
        events_by_approval.entry(key(event, 0)).or_default().push(event);
    }
    for events in events_by_approval.values_mut() {
        events.sort_by_key(|event| event.try_get::<_, i32>(2).ok());
    }
    let mut calls_by_approval: HashMap<_, Vec<&Row>> = HashMap::with_capacity(approvals.len());
    for call in calls {
        calls_by_approval.entry(key(call, from)).or_default().push(call);
    }
    for calls in calls_by_approval.values_mut() {
        calls.sort_by_key(|call| call.try_get::<_, Option<i16>>(from + 2).ok().flatten());
    }
    let is_current = |row: &&Row| {
        let is_pending = row
            .try_get(STATE)
            .is_ok_and(|state: i16| state == State::Pending.code());
        is_pending || calls_by_approval.contains_key(&key(row, 0))
    };
    let read = |row: &Row| {
        let calls = calls_by_approval
            .get(&key(row, 0))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let events = events_by_approval
            .get(&key(row, 0))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let approval = approval(row, calls, from + 2)?;
        let events = events
            .iter()
            .map(|row| event(row, 2))
            .collect::<Result<Vec<Event>, _>>()?;
        check_locked(&approval, &events, content_of(row, calls, from + 2)?)?;
        Ok(Arc::new(approval))
    };
    let mut found = LockedApprovals::default();
    for row in approvals.iter().filter(is_current) {
        match read(row) {
            Ok(approval) => found.consistent.push(approval),
            Err(error) => {
                let id = (name(get::<String>(row, 0)?, Tenant::new)?, id(row, 1)?);
                let (channel, agent) = (get(row, 2)?, get(row, 3)?);
                let reason = error;
                found.corrupt.insert(
                    id,
                    CorruptApproval {
                        channel,
                        agent,
                        reason,
                    },
                );
            }
        }
    }
    Ok(found)
}

/// Locked approvals, divided into consistent and corrupt ones.
#[derive(Default)]
pub(super) struct LockedApprovals {
    pub(super) consistent: Vec<SharedApproval>,
    /// Approvals whose rows cannot be decoded or disagree with their events.
    pub(super) corrupt: HashMap<(Tenant, ApprovalId), CorruptApproval>,
}

/// A corrupt approval, with the channel that it may occupy and the agent whose idempotency keys it may use.
pub(super) struct CorruptApproval {
    pub(super) channel: Option<String>,
    pub(super) agent: String,
    pub(super) reason: StoreError,
}

/// Computes the content hash of an approval from its stored rows. `None` if the approval was stored before content
/// hashes were introduced.
fn content_of(row: &Row, calls: &[&Row], from: usize) -> Result<Option<ContentHash>, StoreError> {
    let stored = ApprovalRow {
        tenant: get(row, 0)?,
        id: get(row, 1)?,
        channel: get(row, 2)?,
        agent: get(row, 3)?,
        run: get(row, 4)?,
        state: get(row, STATE)?,
        version: count(get(row, 6)?)?,
        body: get(row, 7)?,
    };
    let calls = calls.iter().map(|row| {
        Ok(CallRow {
            state: get(row, from + 1)?,
            tool: get(row, from + 2)?,
            original: get(row, from + 4)?,
            sealed: get(row, from + 6)?,
            body: get(row, from + 7)?,
        })
    });
    let calls = calls.collect::<Result<Vec<CallRow<'_>>, StoreError>>()?;
    Ok(stored.content(calls.into_iter()))
}

type ReadKey<'a> = (Option<&'a str>, Option<&'a [u8]>);

fn key(row: &Row, from: usize) -> ReadKey<'_> {
    (row.try_get(from).ok(), row.try_get(from + 1).ok())
}

/// Decodes an approval and its calls, which are ordered by position. The columns of a call begin at index `from`.
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

/// Decodes an event whose columns begin at `from`.
pub(super) fn event(row: &Row, from: usize) -> Result<Event, StoreError> {
    let by: String = get(row, from + 3)?;
    let event = Event::stored(
        count(get(row, from)?)?,
        Time::from_micros(get(row, from + 1)?),
        hash(row, from + 2)?,
        by.parse().map_err(impossible)?,
        get(row, from + 4)?,
        hash(row, from + 5)?,
        content(row, from + 6)?,
    );
    event.map_err(impossible)
}

/// Decodes a row of the feed: transaction, sequence and approval, then the event's columns.
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

/// Reads one column. Fails with [`StoreError::Impossible`] if the stored value does not fit the type.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(impossible)
}

pub(super) fn id(row: &Row, index: usize) -> Result<ApprovalId, StoreError> {
    let bytes: &[u8] = get(row, index)?;
    Ok(ApprovalId::from_bytes(bytes.try_into().map_err(impossible)?))
}

fn content(row: &Row, index: usize) -> Result<Option<ContentHash>, StoreError> {
    let bytes: Option<&[u8]> = get(row, index)?;
    let hash = bytes.map(|bytes| bytes.try_into().map(ContentHash));
    hash.transpose().map_err(impossible)
}

pub(super) fn hash(row: &Row, index: usize) -> Result<Hash, StoreError> {
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

/// Converts a stored version or event number. Fails if it is negative, which can only be corruption.
pub(super) fn count(number: i32) -> Result<u32, StoreError> {
    u32::try_from(number).map_err(impossible)
}

/// Returns the error for stored data that cannot be valid.
pub(super) fn impossible(reason: impl std::fmt::Display) -> StoreError {
    StoreError::Impossible(format!("the store holds something impossible: {reason}"))
}
