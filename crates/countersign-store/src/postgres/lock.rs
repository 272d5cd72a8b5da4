//! Locks and reads the rows that a group of commands needs: in one round trip, or two for a sweep.
//!
//! INVARIANT: the clock is read after all locks are held, by a statement of its own. A decision that waited for a lock
//! until its approval had expired is refused; see docs/postgres.md.
//!
//! All transactions take locks in the same order, first the advisory locks (slots) and then rows, each sorted. So
//! groups may wait for each other, but never in a deadlock.

use std::sync::Arc;

use countersign::command::MOST_LOOKED_AT;
use countersign::hash::Hash;
use countersign::registry::Entry;
use countersign::store::StoreError;
use countersign::time::{Clock, Time};
use futures_util::future::{join, join3, join5};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use super::decode::{self, APPROVAL, CALL, EVENT_COLUMNS, LockedApprovals};
use super::entries::{self, EntryStatements};
use super::rows::NeededRows;

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Takes advisory locks for channels, idempotency keys, agents and entries. These locks stand for rows that do not
/// exist yet, so that a channel gets only one pending approval and a key only one approval.
const LOCK_SLOTS: &str = "SELECT count(pg_advisory_xact_lock(slot)) FROM unnest($1::bigint[]) AS slot";

/// Selects approvals by id.
const NAMED: &str = "SELECT tenant, id FROM unnest($1::text[], $2::bytea[]) AS n(tenant, id)";

/// Selects the approvals that occupy a channel or an idempotency key, and the pending approvals of agents whose
/// approvals are counted.
const HOLDERS: &str = "
    UNION
    SELECT a.tenant, a.id FROM unnest($3::text[], $4::text[]) AS s(tenant, channel)
    JOIN approval a ON a.tenant = s.tenant AND a.channel = s.channel AND a.state = 0
    UNION
    SELECT a.tenant, a.id FROM unnest($5::text[], $6::text[], $7::text[]) AS s(tenant, agent, key)
    JOIN approval a ON a.tenant = s.tenant AND a.agent = s.agent AND a.key = s.key
    UNION
    SELECT p.tenant, p.id FROM unnest($8::text[], $9::text[]) AS s(tenant, agent)
    CROSS JOIN LATERAL (SELECT a.tenant, a.id FROM approval a
        WHERE a.tenant = s.tenant AND a.agent = s.agent AND a.state = 0 ORDER BY a.id LIMIT $10) p";

/// Condition for due approvals. Locked rows are skipped: another transaction is working on them, and the next sweep
/// comes soon.
const DUE: &str = "
    a.due_at <= COALESCE($1::bigint, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    ORDER BY a.due_at LIMIT $2 FOR UPDATE SKIP LOCKED";

/// Condition for open approvals, which are those with a due time. Used to void all of them, so a row that is locked by
/// another transaction is waited for and not skipped.
const OPEN: &str = "a.due_at IS NOT NULL ORDER BY a.due_at LIMIT $1 FOR UPDATE";

const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now, \
    pg_current_xact_id()::text::bigint AS xact";

/// Index of the first column of a call, after the two columns of [`CLOCK`].
const CALLS_FROM: usize = 2;

/// Statements that lock and read rows, prepared on one connection.
pub(super) struct LockStatements {
    lock_slots: Statement,
    lock_needed: Statement,
    calls_of_needed: Statement,
    events_of_needed: Statement,
    calls_of_named: Statement,
    events_of_named: Statement,
    lock_due: Statement,
    lock_open: Statement,
}

impl LockStatements {
    pub(super) async fn prepare(client: &Client) -> Result<LockStatements, Error> {
        // If FOR UPDATE had to wait for a row, it returns the row's latest version, not the one in the statement's
        // snapshot.
        let needed = format!("{NAMED}{HOLDERS}");
        let lock_needed = format!(
            "SELECT {APPROVAL} FROM ({needed}) w JOIN approval a ON a.tenant = w.tenant AND a.id = w.id
             ORDER BY a.tenant, a.id FOR UPDATE OF a"
        );
        // Other tables are still read from the snapshot, so the calls and the clock are read by a later statement.
        let calls = |needed: &str| {
            format!(
                "SELECT t.now, t.xact, c.tenant, c.approval, {CALL} FROM ({CLOCK}) t LEFT JOIN
                 (({needed}) w JOIN call c ON c.tenant = w.tenant AND c.approval = w.id) ON TRUE"
            )
        };
        // For the same reason, events are read by a later statement; see `decode::locked_approvals`.
        let events = |needed: &str| {
            format!(
                "SELECT e.tenant, e.approval, {EVENT_COLUMNS} FROM ({needed}) w
                 JOIN event e ON e.tenant = w.tenant AND e.approval = w.id"
            )
        };
        Ok(LockStatements {
            lock_slots: client.prepare(LOCK_SLOTS).await?,
            lock_needed: client.prepare(&lock_needed).await?,
            calls_of_needed: client.prepare(&calls(&needed)).await?,
            events_of_needed: client.prepare(&events(&needed)).await?,
            calls_of_named: client.prepare(&calls(NAMED)).await?,
            events_of_named: client.prepare(&events(NAMED)).await?,
            lock_due: client
                .prepare(&format!("SELECT {APPROVAL} FROM approval a WHERE {DUE}"))
                .await?,
            lock_open: client
                .prepare(&format!("SELECT {APPROVAL} FROM approval a WHERE {OPEN}"))
                .await?,
        })
    }
}

/// Rows that were locked and read, and the time at which all locks were held.
pub(super) struct LockedRows {
    pub(super) found: LockedApprovals,
    pub(super) entries: Vec<Entry>,
    pub(super) now: Time,
    pub(super) xact: i64,
}

/// Rows that were locked and read. The outer error is the server's; the inner one means that the rows are invalid.
type LockResult = Result<Result<LockedRows, StoreError>, Error>;

/// Begins a transaction, locks the needed rows and reads them. `clock` replaces the server's clock in tests.
pub(super) async fn lock(
    client: &Client,
    locks: &LockStatements,
    entries: &EntryStatements,
    clock: Option<&Arc<dyn Clock>>,
    needed: &NeededRows,
) -> LockResult {
    match needed.due {
        Some(limit) if needed.open => {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let open = async { client.query(&locks.lock_open, &[&limit]).await };
            let no_entries = async { Ok(Vec::new()) };
            lock_rows(client, locks, open, no_entries).await
        }
        Some(limit) => lock_due(client, locks, entries, clock, limit).await,
        None => lock_needed(client, locks, entries, needed).await,
    }
}

/// Begins a transaction, locks, and then reads calls, events and the clock: all in one round trip, executed in this
/// order.
async fn lock_needed(
    client: &Client,
    locks: &LockStatements,
    entries: &EntryStatements,
    needed: &NeededRows,
) -> LockResult {
    let slots = slots(needed);
    let named: (Vec<&str>, Vec<&[u8]>) = needed
        .approvals
        .iter()
        .map(|(tenant, id)| (tenant.as_str(), id.as_bytes().as_slice()))
        .unzip();
    let channels: (Vec<&str>, Vec<&str>) = needed
        .channels
        .iter()
        .map(|(tenant, channel)| (tenant.as_str(), channel.as_str()))
        .unzip();
    let key_tenants: Vec<&str> = needed.keys.iter().map(|(tenant, _, _)| tenant.as_str()).collect();
    let key_agents: Vec<&str> = needed.keys.iter().map(|(_, agent, _)| agent.as_str()).collect();
    let keys: Vec<&str> = needed.keys.iter().map(|(_, _, key)| key.as_str()).collect();
    let agents: (Vec<&str>, Vec<&str>) = needed
        .agents
        .iter()
        .map(|(tenant, agent)| (tenant.as_str(), agent.as_str()))
        .unzip();
    let most = i64::try_from(MOST_LOOKED_AT).unwrap_or(i64::MAX);
    let parameters: [&(dyn ToSql + Sync); 10] = [
        &named.0,
        &named.1,
        &channels.0,
        &channels.1,
        &key_tenants,
        &key_agents,
        &keys,
        &agents.0,
        &agents.1,
        &most,
    ];
    // The registry entries that a decision depends on are read last, so that a command that waited for a lock does not
    // use outdated ones.
    let last = async {
        let calls = client.query(&locks.calls_of_needed, &parameters);
        let events = async {
            // A group that locks only entries needs no events.
            match needed.approvals.is_empty() && needed.has_no_slots() {
                true => Ok(Vec::new()),
                false => client.query(&locks.events_of_needed, &parameters).await,
            }
        };
        join3(
            calls,
            events,
            entries.read_named(client, &needed.read_only_entries),
        )
        .await
    };
    let (begin, slots_locked, named, locked, (calls, events, read_only_entries)) = join5(
        client.batch_execute(BEGIN),
        async {
            match slots.is_empty() {
                true => Ok(Vec::new()),
                false => client.query(&locks.lock_slots, &[&slots]).await,
            }
        },
        entries.lock_named(client, &needed.entries),
        client.query(&locks.lock_needed, &parameters),
        last,
    )
    .await;
    begin?;
    slots_locked?;
    let mut registry = read_only_entries?;
    // Locked entries come last, so that they replace copies read without a lock.
    registry.extend(named?);
    Ok(read(&locked?, &registry, &calls?, &events?))
}

/// Locks the rows that are due, for a sweep. Reading their calls and the clock takes a second round trip, because the
/// first one finds out which rows are due.
async fn lock_due(
    client: &Client,
    locks: &LockStatements,
    entries: &EntryStatements,
    clock: Option<&Arc<dyn Clock>>,
    limit: usize,
) -> LockResult {
    let now = clock.map(|clock| clock.now().as_micros());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let due = async { client.query(&locks.lock_due, &[&now, &limit]).await };
    lock_rows(client, locks, due, entries.lock_due(client, now, limit)).await
}

/// Begins a transaction and locks the rows of `found` and `entries`; then reads calls, events and the clock.
async fn lock_rows(
    client: &Client,
    locks: &LockStatements,
    found: impl Future<Output = Result<Vec<Row>, Error>>,
    entries: impl Future<Output = Result<Vec<Row>, Error>>,
) -> LockResult {
    let (begin, found, entries) = join3(client.batch_execute(BEGIN), found, entries).await;
    begin?;
    let (found, entries) = (found?, entries?);
    let tenants: Result<Vec<&str>, Error> = found.iter().map(|row| row.try_get(0)).collect();
    let ids: Result<Vec<&[u8]>, Error> = found.iter().map(|row| row.try_get(1)).collect();
    let (tenants, ids) = (tenants?, ids?);
    let parameters: [&(dyn ToSql + Sync); 2] = [&tenants, &ids];
    let (calls, events) = join(
        client.query(&locks.calls_of_named, &parameters),
        client.query(&locks.events_of_named, &parameters),
    )
    .await;
    Ok(read(&found, &entries, &calls?, &events?))
}

fn read(
    approvals: &[Row],
    registry: &[Row],
    calls: &[Row],
    events: &[Row],
) -> Result<LockedRows, StoreError> {
    // Even without any call there is one row, with the clock.
    let clock = calls.first().ok_or_else(|| decode::impossible("no clock"))?;
    Ok(LockedRows {
        found: decode::locked_approvals(approvals, calls, CALLS_FROM, events)?,
        entries: registry.iter().map(entries::read).collect::<Result<_, _>>()?,
        now: Time::from_micros(decode::get(clock, 0)?),
        xact: decode::get(clock, 1)?,
    })
}

/// Returns the numbers of the advisory locks for all channels, keys, agents and entries, sorted. A collision of two
/// numbers only causes a needless wait.
fn slots(needed: &NeededRows) -> Vec<i64> {
    let number = |kind: &str, parts: [&str; 3]| {
        // Names contain no control characters, so line breaks separate them.
        let text = format!("{kind}\n{}", parts.join("\n"));
        let hash = Hash::of(text.as_bytes());
        let mut first = [0u8; 8];
        first.iter_mut().zip(hash.0).for_each(|(to, from)| *to = from);
        i64::from_be_bytes(first)
    };
    let channels = needed.channels.iter();
    let channels =
        channels.map(|(tenant, channel)| number("channel", [tenant.as_str(), channel.as_str(), ""]));
    let keys = needed.keys.iter();
    let keys =
        keys.map(|(tenant, agent, key)| number("key", [tenant.as_str(), agent.as_str(), key.as_str()]));
    let agents = needed.agents.iter();
    let agents = agents.map(|(tenant, agent)| number("agent", [tenant.as_str(), agent.as_str(), ""]));
    let entries = needed.entries.iter();
    let entries = entries.map(|(kind, key)| number("entry", [kind.as_str(), key, ""]));
    let mut slots: Vec<i64> = channels.chain(keys).chain(agents).chain(entries).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}
