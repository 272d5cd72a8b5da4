//! One transaction for a group of commands: lock, look, read the clock, apply, write, commit. Two exchanges.
//!
//! INVARIANT: the clock is read after every lock is held, by a statement of its own. A decision that waited behind a
//! lock until its approval had expired is refused; see docs/postgres.md.
//!
//! Locks are taken in one order everywhere, first the slots and then the rows, each sorted: two groups may wait for
//! each other, never in a circle.

use std::sync::Arc;
use std::time::Duration;

use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command};
use countersign::hash::Hash;
use countersign::store::StoreError;
use countersign::time::{Clock, Time};
use futures_util::future::join5;
use tokio_postgres::{Client, Error, Row, Statement};

use super::connect::Session;
use super::decode::{self, COLUMNS, WITH_CALLS};
use super::error::{is_collision, is_lost, store_error, words};
use super::rows::{Entry, Wanted, WorkingSet};
use super::save::Writes;

/// Longer than the server's own limits, which answer first as long as the server can be heard.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(20);

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// What makes "one pending approval for each channel" and "one approval for each key" hold while it does not exist yet.
const LOCK_SLOTS: &str = "SELECT count(pg_advisory_xact_lock(slot)) FROM unnest($1::bigint[]) AS slot";

/// The approvals named, and what they would undo.
const NAMED: &str = "
    SELECT tenant, id FROM unnest($1::text[], $2::bytea[]) AS n(tenant, id)
    UNION
    SELECT a.tenant, a.undoes FROM unnest($1::text[], $2::bytea[]) AS n(tenant, id)
    JOIN approval a ON a.tenant = n.tenant AND a.id = n.id WHERE a.undoes IS NOT NULL";

/// Those that hold a channel or a key.
const HOLDERS: &str = "
    UNION
    SELECT a.tenant, a.id FROM unnest($3::text[], $4::text[]) AS s(tenant, channel)
    JOIN approval a ON a.tenant = s.tenant AND a.channel = s.channel AND a.state = 0
    UNION
    SELECT a.tenant, a.id FROM unnest($5::text[], $6::text[], $7::text[]) AS s(tenant, agent, key)
    JOIN approval a ON a.tenant = s.tenant AND a.agent = s.agent AND a.key = s.key";

/// Locked rows are skipped: somebody is busy with them, and the next sweep comes soon.
const LOCK_DUE: &str = "
    SELECT tenant, id FROM approval
    WHERE due_at <= COALESCE($1::bigint, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED";

pub(super) const CLOCK: &str =
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, pg_current_xact_id()::text::bigint";

/// The statements of a lane, prepared on one connection.
pub(super) struct Statements {
    lock_slots: Statement,
    lock_named: Statement,
    load_named: Statement,
    lock_all: Statement,
    load_all: Statement,
    lock_due: Statement,
    clock: Statement,
    writes: Writes,
}

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Statements, Error> {
        let lock = |wanted: &str| {
            format!(
                "WITH wanted AS ({wanted}) SELECT count(*) FROM (
                    SELECT 1 FROM wanted w JOIN approval a ON a.tenant = w.tenant AND a.id = w.id
                    ORDER BY a.tenant, a.id FOR UPDATE OF a) locked"
            )
        };
        // The rows are read by a statement behind the one that locked them: it sees what the wait was for.
        let load = |wanted: &str| {
            format!(
                "WITH wanted AS ({wanted}) SELECT {COLUMNS} FROM wanted w
                 JOIN approval a ON a.tenant = w.tenant AND a.id = w.id {WITH_CALLS}
                 ORDER BY a.tenant, a.id, c.position"
            )
        };
        let all = format!("{NAMED}{HOLDERS}");
        Ok(Statements {
            lock_slots: client.prepare(LOCK_SLOTS).await?,
            lock_named: client.prepare(&lock(NAMED)).await?,
            load_named: client.prepare(&load(NAMED)).await?,
            lock_all: client.prepare(&lock(&all)).await?,
            load_all: client.prepare(&load(&all)).await?,
            lock_due: client.prepare(LOCK_DUE).await?,
            clock: client.prepare(CLOCK).await?,
            writes: Writes::prepare(client).await?,
        })
    }
}

/// What a group did.
pub(super) struct Done {
    /// For each command, in order.
    pub(super) answers: Vec<Result<Answer, StoreError>>,
    /// What changed, for those who wait.
    pub(super) changed: Vec<Changed>,
}

/// An approval that changed.
pub(super) struct Changed {
    pub(super) approval: SharedApproval,
    /// Nobody can have waited for it in another process.
    pub(super) is_new: bool,
}

/// Why a group is not known to be committed.
pub(super) enum Failure {
    /// The server refused; nothing was written, and the connection is in order.
    Refused(StoreError),
    /// Others were in the way: the same again may well succeed. Nothing was written.
    Collided(StoreError),
    /// The connection is gone, and nothing was written.
    Lost(String),
    /// The connection is gone, and transaction `xact` may have been committed.
    InDoubt { xact: i64, done: Done, why: String },
}

/// Runs commands in one transaction.
pub(super) async fn run(
    session: &Session,
    statements: &Statements,
    clock: Option<&Arc<dyn Clock>>,
    commands: &[&Command],
) -> Result<Done, Failure> {
    let client = &session.client;
    let wanted = Wanted::of(commands);
    let locking = async {
        match wanted.due {
            Some(limit) => lock_due(client, statements, clock, limit).await,
            None => lock_and_load(client, statements, &wanted).await,
        }
    };
    let (rows, xact, server_now) = match tokio::time::timeout(EXCHANGE_TIMEOUT, locking).await {
        Ok(Ok(locked)) => locked,
        Ok(Err(error)) => return Err(refused(client, &error).await),
        Err(_) => return Err(Failure::Lost("no answer in time".to_owned())),
    };
    // Lock first, clock second.
    let now = clock.map_or(server_now, |clock| clock.now());
    let found = match decode::approvals(&rows) {
        Ok(found) => found,
        Err(error) => {
            return Err(match client.batch_execute("ROLLBACK").await {
                Ok(()) => Failure::Refused(error),
                Err(lost) => Failure::Lost(words(&lost)),
            });
        }
    };
    let mut set = WorkingSet::new(&wanted, found);
    let answers = commands.iter().map(|command| set.apply(command, now)).collect();
    let entries = set.into_changed();
    let done = Done {
        answers,
        changed: entries.iter().map(changed).collect(),
    };
    let saving = statements.writes.save_and_commit(client, &entries);
    let why = match tokio::time::timeout(EXCHANGE_TIMEOUT, saving).await {
        Ok(Ok(())) => return Ok(done),
        Ok(Err(error)) if !is_lost(&error) => return Err(sorted(&error)),
        Ok(Err(error)) => words(&error),
        Err(_) => "no answer in time".to_owned(),
    };
    Err(Failure::InDoubt { xact, done, why })
}

fn changed(entry: &Entry) -> Changed {
    Changed {
        approval: entry.after.clone(),
        is_new: entry.before.is_none(),
    }
}

type Locked = (Vec<Row>, i64, Time);

/// Begins, locks, reads the rows and then the clock: five statements in one exchange, executed in this order.
async fn lock_and_load(client: &Client, statements: &Statements, wanted: &Wanted) -> Result<Locked, Error> {
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
    let few: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&named.0, &named.1];
    let all: [&(dyn tokio_postgres::types::ToSql + Sync); 7] = [
        &named.0,
        &named.1,
        &channels.0,
        &channels.1,
        &key_tenants,
        &key_agents,
        &keys,
    ];
    let (lock, load, parameters) = match wanted.has_no_slots() {
        true => (&statements.lock_named, &statements.load_named, few.as_slice()),
        false => (&statements.lock_all, &statements.load_all, all.as_slice()),
    };
    let (begun, slotted, locked, rows, clock) = join5(
        client.batch_execute(BEGIN),
        async {
            match slots.is_empty() {
                true => Ok(Vec::new()),
                false => client.query(&statements.lock_slots, &[&slots]).await,
            }
        },
        unless(wanted.is_empty(), client.query(lock, parameters)),
        unless(wanted.is_empty(), client.query(load, parameters)),
        client.query_one(&statements.clock, &[]),
    )
    .await;
    begun?;
    slotted?;
    locked?;
    let rows = rows?;
    let (now, xact) = read_clock(&clock?)?;
    Ok((rows, xact, now))
}

/// The sweep learns only from the first answer which rows it has, and asks for their calls and the clock after that.
async fn lock_due(
    client: &Client,
    statements: &Statements,
    clock: Option<&Arc<dyn Clock>>,
    limit: usize,
) -> Result<Locked, Error> {
    let now = clock.map(|clock| clock.now().as_micros());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let (begun, due) = futures_util::future::join(
        client.batch_execute(BEGIN),
        client.query(&statements.lock_due, &[&now, &limit]),
    )
    .await;
    begun?;
    let due = due?;
    let tenants: Result<Vec<&str>, Error> = due.iter().map(|row| row.try_get(0)).collect();
    let ids: Result<Vec<&[u8]>, Error> = due.iter().map(|row| row.try_get(1)).collect();
    let (tenants, ids) = (tenants?, ids?);
    let (rows, clock) = futures_util::future::join(
        client.query(&statements.load_named, &[&tenants, &ids]),
        client.query_one(&statements.clock, &[]),
    )
    .await;
    let (now, xact) = read_clock(&clock?)?;
    Ok((rows?, xact, now))
}

async fn unless(
    skipped: bool,
    query: impl Future<Output = Result<Vec<Row>, Error>>,
) -> Result<Vec<Row>, Error> {
    match skipped {
        true => Ok(Vec::new()),
        false => query.await,
    }
}

pub(super) fn read_clock(row: &Row) -> Result<(Time, i64), Error> {
    Ok((Time::from_micros(row.try_get(0)?), row.try_get(1)?))
}

/// A number for each channel and key, sorted. Two names with one number only wait for each other needlessly.
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
    let mut slots: Vec<i64> = channels.chain(keys).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Sorts a failure before anything was written.
async fn refused(client: &Client, error: &Error) -> Failure {
    if is_lost(error) {
        return Failure::Lost(words(error));
    }
    match client.batch_execute("ROLLBACK").await {
        Ok(()) => sorted(error),
        Err(lost) => Failure::Lost(words(&lost)),
    }
}

fn sorted(error: &Error) -> Failure {
    match is_collision(error) {
        true => Failure::Collided(store_error(error)),
        false => Failure::Refused(store_error(error)),
    }
}
