//! The log of all events: assigns positions to events after their transactions have committed.
//!
//! Commits run concurrently on several nodes and do not wait for the log. The node that runs a sweep later reads the
//! events of finished transactions and advances the log's head, which counts them in the order of the feed.

use countersign::hash::Hash;
use countersign::id::Tenant;
use countersign::log::{LogEntry, LogHead, leaf};
use countersign::store::StoreError;
use tokio_postgres::{Client, Error, Row};

use super::connect::Session;
use super::decode::{self, impossible};
use super::error::StatementError;
use super::limits;
use super::tenants::VisibleTenants;

/// Maximum number of events that one transaction appends.
const PAGE: i64 = 5_000;
/// Maximum number of transactions per sweep; the next sweep continues.
const PAGES: usize = 20;

/// Number of the advisory lock: "countersign" (as in `migrate`) followed by "log", typed on a telephone keypad.
const LOCK: i64 = 26_868_377_446_564;

pub(super) const HEAD: &str = "SELECT size, xact::text::bigint, seq, frontier FROM log WHERE id = 1";

/// Selects the events after a position in the log. Ends before the oldest running transaction, as the feed does,
/// because the events of that transaction will sort before later ones. The feed's index begins with the tenant, so the
/// next events of each tenant are read and then merged.
const EVENTS_AFTER: &str = "
    WITH RECURSIVE tenants (tenant) AS (
        (SELECT tenant FROM event ORDER BY tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT e.tenant FROM event e WHERE e.tenant > t.tenant ORDER BY e.tenant LIMIT 1)
        FROM tenants t WHERE t.tenant IS NOT NULL)
    SELECT n.xact::text::bigint, n.seq, n.tenant, n.approval, n.number, n.link
    FROM tenants t CROSS JOIN LATERAL (
        SELECT * FROM event e
        WHERE e.tenant = t.tenant AND (e.xact, e.seq) > ($1::text::xid8, $2::integer)
            AND e.xact < (SELECT pg_snapshot_xmin(pg_current_snapshot()))
        ORDER BY e.xact, e.seq LIMIT $3) n
    WHERE t.tenant IS NOT NULL
    ORDER BY n.xact, n.seq LIMIT $3";

/// Entries in the order of the log. No index covers all tenants, so this sorts all events of the log.
const ENTRIES: &str = "
    SELECT e.tenant, e.approval, e.number, e.link FROM log l CROSS JOIN event e
    WHERE l.id = 1 AND (e.xact, e.seq) <= (l.xact, l.seq) ORDER BY e.xact, e.seq OFFSET $1 LIMIT $2";

/// Head of the log as stored.
#[derive(Clone, Debug)]
pub(super) struct StoredLogHead {
    pub(super) head: LogHead,
    /// Position of the last event: transaction id, and sequence number within the transaction.
    pub(super) last: (i64, i32),
}

impl StoredLogHead {
    pub(super) fn read(row: Option<&Row>) -> Result<StoredLogHead, StoreError> {
        let row = row.ok_or_else(|| impossible("the log has no head"))?;
        let size = u64::try_from(decode::get::<i64>(row, 0)?).map_err(impossible)?;
        let frontier: &[u8] = decode::get(row, 3)?;
        let head = LogHead::stored(size, frontier).ok_or_else(|| impossible("the head of the log"))?;
        let last = (decode::get(row, 1)?, decode::get(row, 2)?);
        Ok(StoredLogHead { head, last })
    }
}

/// Appends committed events to the log. Does nothing while another node is doing so.
pub(super) async fn append_committed(session: &Session) -> Result<(), StoreError> {
    let restricted = session.restrict_to(&VisibleTenants::all()).await;
    restricted.map_err(|error| error.store_error())?;
    for _ in 0..PAGES {
        // The connection is closed when a page takes too long, and the server then rolls back.
        let page = session.within(
            limits::LOG_PAGE,
            |client| async move { Ok(append_page(client).await) },
        );
        match page.await.map_err(|error| error.store_error())? {
            Ok(added) if added < PAGE => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                // A connection that cannot roll back is not used again.
                let rolled_back = session.within(limits::SHORT, |client| client.batch_execute("ROLLBACK"));
                rolled_back.await.map_err(|error| error.store_error())?;
                return Err(error);
            }
        }
    }
    Ok(())
}

async fn append_page(client: &Client) -> Result<i64, StoreError> {
    // The commit is not synced: if a crash loses it, the next sweep appends the same events again.
    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off";
    client.batch_execute(begin).await.map_err(failed)?;
    let row = client
        .query_one("SELECT pg_try_advisory_xact_lock($1)", &[&LOCK])
        .await
        .map_err(failed)?;
    let added = match decode::get(&row, 0)? {
        true => append(client).await?,
        false => 0,
    };
    client.batch_execute("COMMIT").await.map_err(failed)?;
    Ok(added)
}

fn failed(error: Error) -> StoreError {
    StatementError::from(error).store_error()
}

async fn append(client: &Client) -> Result<i64, StoreError> {
    let stored_head = StoredLogHead::read(client.query_opt(HEAD, &[]).await.map_err(failed)?.as_ref())?;
    let (xact, seq) = stored_head.last;
    let rows = client
        .query(EVENTS_AFTER, &[&xact.to_string(), &seq, &PAGE])
        .await
        .map_err(failed)?;
    let (mut head, mut last) = (stored_head.head.clone(), stored_head.last);
    for row in &rows {
        last = (decode::get(row, 0)?, decode::get(row, 1)?);
        head.push(entry_leaf(row, 2)?);
    }
    if rows.is_empty() {
        return Ok(0);
    }
    let (size, before) = (number(head.size()), number(stored_head.head.size()));
    let updated = client
        .execute(
            "UPDATE log SET size = $1, xact = $2::text::xid8, seq = $3, frontier = $4 WHERE id = 1 AND size = $5",
            &[&size, &last.0.to_string(), &last.1, &head.frontier(), &before],
        )
        .await
        .map_err(failed)?;
    match updated {
        1 => Ok(i64::try_from(rows.len()).unwrap_or(i64::MAX)),
        _ => Err(impossible("the head of the log was moved by others")),
    }
}

/// Returns the leaf hash of an event from the columns tenant, approval, number and link, the first of which is column
/// `from`. An invalid id or link counts as zeros, so the leaf matches that of no real event.
pub(super) fn entry_leaf(row: &Row, from: usize) -> Result<Hash, StoreError> {
    let approval: &[u8] = decode::get(row, from + 1)?;
    let link: &[u8] = decode::get(row, from + 3)?;
    Ok(leaf(
        decode::get(row, from)?,
        &approval.try_into().unwrap_or_default(),
        u32::try_from(decode::get::<i32>(row, from + 2)?).unwrap_or(u32::MAX),
        Hash(link.try_into().unwrap_or_default()),
    ))
}

/// Reads log entries, beginning at position `from`.
pub(super) async fn entries(session: &Session, from: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
    let restricted = session.restrict_to(&VisibleTenants::all()).await;
    restricted.map_err(|error| error.store_error())?;
    let (from, limit) = (number(from), i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = session
        .within(limits::AUDIT, |client| async move {
            client.query(ENTRIES, &[&from, &limit]).await
        })
        .await;
    let entry = |row: &Row| {
        Ok(LogEntry {
            tenant: Tenant::new(decode::get::<String>(row, 0)?).map_err(impossible)?,
            approval: decode::id(row, 1)?,
            number: decode::count(decode::get(row, 2)?)?,
            link: decode::hash(row, 3)?,
        })
    };
    rows.map_err(|error| error.store_error())?
        .iter()
        .map(entry)
        .collect()
}

fn number(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
