//! Locking and reading what a group of commands needs, in one exchange.
//!
//! INVARIANT: the clock is read after every lock is held, by a statement of its own. A decision that waited behind a
//! lock until its approval had expired is refused; see docs/postgres.md.
//!
//! Locks are taken in one order everywhere, first the slots and then the rows, each sorted: two groups may wait for
//! each other, never in a circle.

use std::sync::Arc;

use countersign::approval::SharedApproval;
use countersign::command::MOST_LOOKED_AT;
use countersign::hash::Hash;
use countersign::registry::Entry;
use countersign::store::StoreError;
use countersign::time::{Clock, Time};
use futures_util::future::{join, join3, join5};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, SimpleQueryMessage, Statement};

use super::decode::{self, APPROVAL, CALL};
use super::entries::{self, EntryStatements};
use super::rows::Wanted;

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// What makes "one pending approval for each channel" and "one approval for each key" hold while it does not exist yet;
/// the same for entries.
const LOCK_SLOTS: &str = "SELECT count(pg_advisory_xact_lock(slot)) FROM unnest($1::bigint[]) AS slot";

/// The approvals named. They are looked up, and locked, in the order in which they are sent, which is sorted.
const NAMED: &str = "SELECT tenant, id FROM unnest($1::text[], $2::bytea[]) AS n(tenant, id)";

/// Those that hold a channel or a key, and the pending ones of agents that are counted.
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

/// Locked rows are skipped: somebody is busy with them, and the next sweep comes soon.
const DUE: &str = "
    a.due_at <= COALESCE($1::bigint, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    ORDER BY a.due_at LIMIT $2 FOR UPDATE SKIP LOCKED";

/// Whatever is open is due at some time. Nothing is skipped: after this, none of it may be left.
const OPEN: &str = "a.due_at IS NOT NULL ORDER BY a.due_at LIMIT $1 FOR UPDATE";

const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now, \
    pg_current_xact_id()::text::bigint AS xact";

/// Where the calls' columns begin behind the clock's.
const CALLS_FROM: usize = 2;

/// The statements that lock, prepared on one connection.
pub(super) struct Locks {
    lock_slots: Statement,
    lock_named: Statement,
    calls_of_named: Statement,
    lock_all: Statement,
    calls_of_all: Statement,
    lock_due: Statement,
    lock_open: Statement,
}

impl Locks {
    pub(super) async fn prepare(client: &Client) -> Result<Locks, Error> {
        // A row that was waited for comes as it is now, not as it was when the statement began.
        let lock = |wanted: &str, order: &str| {
            format!(
                "SELECT {APPROVAL} FROM ({wanted}) w JOIN approval a ON a.tenant = w.tenant AND a.id = w.id
                 {order} FOR UPDATE OF a"
            )
        };
        // That holds only for the locked rows themselves. So their calls are read by a statement behind it, and so
        // is the clock.
        let calls = |wanted: &str| {
            format!(
                "SELECT t.now, t.xact, c.tenant, c.approval, {CALL} FROM ({CLOCK}) t LEFT JOIN
                 (({wanted}) w JOIN call c ON c.tenant = w.tenant AND c.approval = w.id) ON TRUE"
            )
        };
        let all = format!("{NAMED}{HOLDERS}");
        Ok(Locks {
            lock_slots: client.prepare(LOCK_SLOTS).await?,
            lock_named: client.prepare(&lock(NAMED, "")).await?,
            calls_of_named: client.prepare(&calls(NAMED)).await?,
            lock_all: client.prepare(&lock(&all, "ORDER BY a.tenant, a.id")).await?,
            calls_of_all: client.prepare(&calls(&all)).await?,
            lock_due: client
                .prepare(&format!("SELECT {APPROVAL} FROM approval a WHERE {DUE}"))
                .await?,
            lock_open: client
                .prepare(&format!("SELECT {APPROVAL} FROM approval a WHERE {OPEN}"))
                .await?,
        })
    }
}

/// What is locked, and the clock as it was after that.
pub(super) struct Locked {
    pub(super) found: Vec<SharedApproval>,
    pub(super) entries: Vec<Entry>,
    pub(super) now: Time,
    pub(super) xact: i64,
}

/// What was read, unless it makes no sense; or the server's failure.
type Read = Result<Result<Locked, StoreError>, Error>;

/// Begins a transaction, locks and reads.
pub(super) async fn lock(
    client: &Client,
    locks: &Locks,
    entries: &EntryStatements,
    clock: Option<&Arc<dyn Clock>>,
    wanted: &Wanted,
) -> Read {
    match wanted.due {
        Some(limit) if wanted.open => {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let open = async { client.query(&locks.lock_open, &[&limit]).await };
            let nothing = async { Ok(Vec::new()) };
            lock_found(client, locks, open, nothing).await
        }
        Some(limit) => lock_due(client, locks, entries, clock, limit).await,
        None if wanted.is_empty() => begin_only(client).await,
        None => lock_wanted(client, locks, entries, wanted).await,
    }
}

/// New approvals without channel or key need nothing but the time.
async fn begin_only(client: &Client) -> Read {
    let messages = client.simple_query(&format!("{BEGIN}; {CLOCK}")).await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let number = |index: usize| {
        let text = row.and_then(|row| row.try_get(index).ok().flatten());
        let number = text.and_then(|text| text.parse::<i64>().ok());
        number.ok_or_else(|| decode::impossible("no clock"))
    };
    Ok(number(0).and_then(|now| {
        Ok(Locked {
            found: Vec::new(),
            entries: Vec::new(),
            now: Time::from_micros(now),
            xact: number(1)?,
        })
    }))
}

/// Begins, locks, and then reads calls and clock: all in one exchange, executed in this order.
async fn lock_wanted(client: &Client, locks: &Locks, entries: &EntryStatements, wanted: &Wanted) -> Read {
    let slots = slots(wanted);
    let named: (Vec<&str>, Vec<&[u8]>) = wanted
        .approvals
        .iter()
        .map(|(tenant, id)| (tenant.as_str(), id.as_bytes().as_slice()))
        .unzip();
    let channels: (Vec<&str>, Vec<&str>) = wanted
        .channels
        .iter()
        .map(|(tenant, channel)| (tenant.as_str(), channel.as_str()))
        .unzip();
    let key_tenants: Vec<&str> = wanted.keys.iter().map(|(tenant, _, _)| tenant.as_str()).collect();
    let key_agents: Vec<&str> = wanted.keys.iter().map(|(_, agent, _)| agent.as_str()).collect();
    let keys: Vec<&str> = wanted.keys.iter().map(|(_, _, key)| key.as_str()).collect();
    let agents: (Vec<&str>, Vec<&str>) = wanted
        .agents
        .iter()
        .map(|(tenant, agent)| (tenant.as_str(), agent.as_str()))
        .unzip();
    let most = i64::try_from(MOST_LOOKED_AT).unwrap_or(i64::MAX);
    let few: [&(dyn ToSql + Sync); 2] = [&named.0, &named.1];
    let all: [&(dyn ToSql + Sync); 10] = [
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
    let (lock, calls, parameters) = match wanted.has_no_slots() {
        true => (&locks.lock_named, &locks.calls_of_named, few.as_slice()),
        false => (&locks.lock_all, &locks.calls_of_all, all.as_slice()),
    };
    // Grounds come last: whoever waited for a lock must not go by what was so before.
    let last = async {
        let calls = client.query(calls, parameters);
        join(calls, entries.read_named(client, &wanted.grounds)).await
    };
    let (begun, slotted, named, locked, (calls, grounds)) = join5(
        client.batch_execute(BEGIN),
        async {
            match slots.is_empty() {
                true => Ok(Vec::new()),
                false => client.query(&locks.lock_slots, &[&slots]).await,
            }
        },
        entries.lock_named(client, &wanted.entries),
        client.query(lock, parameters),
        last,
    )
    .await;
    begun?;
    slotted?;
    let mut registry = grounds?;
    // What is locked stands behind what was only looked at, and so counts.
    registry.extend(named?);
    Ok(read(&locked?, &registry, &calls?))
}

/// The sweep learns only from the first answer which rows it has, and asks for their calls and the clock after that.
async fn lock_due(
    client: &Client,
    locks: &Locks,
    entries: &EntryStatements,
    clock: Option<&Arc<dyn Clock>>,
    limit: usize,
) -> Read {
    let now = clock.map(|clock| clock.now().as_micros());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let due = async { client.query(&locks.lock_due, &[&now, &limit]).await };
    lock_found(client, locks, due, entries.lock_due(client, now, limit)).await
}

/// Begins, and locks what is found; then reads its calls and the clock.
async fn lock_found(
    client: &Client,
    locks: &Locks,
    found: impl Future<Output = Result<Vec<Row>, Error>>,
    entries: impl Future<Output = Result<Vec<Row>, Error>>,
) -> Read {
    let (begun, found, entries) = join3(client.batch_execute(BEGIN), found, entries).await;
    begun?;
    let (found, entries) = (found?, entries?);
    let tenants: Result<Vec<&str>, Error> = found.iter().map(|row| row.try_get(0)).collect();
    let ids: Result<Vec<&[u8]>, Error> = found.iter().map(|row| row.try_get(1)).collect();
    let calls = client.query(&locks.calls_of_named, &[&tenants?, &ids?]).await?;
    Ok(read(&found, &entries, &calls))
}

fn read(approvals: &[Row], registry: &[Row], calls: &[Row]) -> Result<Locked, StoreError> {
    // Without any call there is still one row, with the clock.
    let clock = calls.first().ok_or_else(|| decode::impossible("no clock"))?;
    Ok(Locked {
        found: decode::apart(approvals, calls, CALLS_FROM)?,
        entries: registry.iter().map(entries::read).collect::<Result<_, _>>()?,
        now: Time::from_micros(decode::get(clock, 0)?),
        xact: decode::get(clock, 1)?,
    })
}

/// A number for each channel, key and entry, sorted. Two names with one number only wait for each other needlessly.
fn slots(wanted: &Wanted) -> Vec<i64> {
    let number = |kind: &str, parts: [&str; 3]| {
        // Names hold no control characters.
        let text = format!("{kind}\n{}", parts.join("\n"));
        let hash = Hash::of(text.as_bytes());
        let mut first = [0u8; 8];
        first.iter_mut().zip(hash.0).for_each(|(to, from)| *to = from);
        i64::from_be_bytes(first)
    };
    let channels = wanted.channels.iter();
    let channels =
        channels.map(|(tenant, channel)| number("channel", [tenant.as_str(), channel.as_str(), ""]));
    let keys = wanted.keys.iter();
    let keys =
        keys.map(|(tenant, agent, key)| number("key", [tenant.as_str(), agent.as_str(), key.as_str()]));
    let agents = wanted.agents.iter();
    let agents = agents.map(|(tenant, agent)| number("agent", [tenant.as_str(), agent.as_str(), ""]));
    let entries = wanted.entries.iter();
    let entries = entries.map(|(kind, key)| number("entry", [kind.as_str(), key, ""]));
    let mut slots: Vec<i64> = channels.chain(keys).chain(agents).chain(entries).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}
