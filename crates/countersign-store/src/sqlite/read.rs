//! Reads: a few connections that cannot write, each used by one caller at a time.
//!
//! Enters: what to look up. Leaves: approvals and events, each answer from one moment.
//! Deliberately absent: locks. Readers and the writer never wait for each other.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use countersign::approval::SharedApproval;
use countersign::event::Event;
use countersign::id::{ApprovalId, Channel, Tenant};
use countersign::state::State;
use countersign::store::{Cursor, FeedEvent, Filter, Released, StoreError};
use countersign::time::Time;
use rusqlite::{Connection, params};
use tokio::sync::Semaphore;

use super::load::{self, LoadError, Loaded};
use super::open;
use super::recent::Recent;
use super::watch::data_version;

/// More than this would only wait for each other's processor.
const MOST_READERS: usize = 4;

/// Events gone through at a time, for what they led to.
const MOST_EVENTS: i64 = 10_000;

const EVENTS: &str = "SELECT e.number, e.at, p.hash, e.by, e.what, e.link
    FROM event AS e CROSS JOIN policy AS p ON p.id = e.policy
    WHERE e.approval = (SELECT seq FROM approval WHERE tenant = ?1 AND id = ?2) ORDER BY e.number";
const FEED: &str = "SELECT e.seq, a.id, e.number, e.at, p.hash, e.by, e.what, e.link
    FROM event AS e CROSS JOIN approval AS a ON a.seq = e.approval CROSS JOIN policy AS p ON p.id = e.policy
    WHERE e.seq > ?2 AND a.tenant = ?1 ORDER BY e.seq LIMIT ?3";
const FEED_END: &str = "SELECT coalesce(max(seq), 0) FROM event";

/// The connections that read.
pub(super) struct Readers {
    path: PathBuf,
    recent: Arc<Recent>,
    // None once the store is closed.
    idle: Mutex<Option<Vec<Connection>>>,
    permits: Semaphore,
    // Each connection counts for itself what others commit, so one of them counts for all.
    stamps: Mutex<Option<Connection>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, recent: Arc<Recent>) -> Arc<Readers> {
        Arc::new(Readers {
            path,
            recent,
            idle: Mutex::new(Some(Vec::new())),
            permits: Semaphore::new(MOST_READERS),
            stamps: Mutex::default(),
        })
    }

    /// Runs `look` on a thread that may block, in a transaction that sees one moment.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        look: impl FnOnce(&Connection) -> Result<T, LoadError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = self.clone();
        let _permit = self.permits.acquire().await.map_err(|_| closed())?;
        let task = tokio::task::spawn_blocking(move || readers.look(look));
        task.await
            .unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }

    /// Runs `look` at once, on the caller's thread: for single rows by key, which take microseconds. Handing one of
    /// those to another thread costs several times the look itself, and readers never wait for the writer.
    pub(super) async fn glance<T>(
        self: &Arc<Self>,
        look: impl FnOnce(&Connection) -> Result<T, LoadError>,
    ) -> Result<T, StoreError> {
        let _permit = self.permits.acquire().await.map_err(|_| closed())?;
        self.look(look)
    }

    /// The same for a single statement, which sees one moment by itself.
    pub(super) async fn glance_once<T>(
        self: &Arc<Self>,
        look: impl FnOnce(&Connection) -> Result<T, LoadError>,
    ) -> Result<T, StoreError> {
        let _permit = self.permits.acquire().await.map_err(|_| closed())?;
        let connection = self.take()?;
        let result = look(&connection);
        self.give_back(connection);
        Ok(result?)
    }

    /// One approval: as it was seen last, if that is how it still stands.
    pub(super) async fn approval(
        self: &Arc<Self>,
        tenant: &Tenant,
        id: ApprovalId,
    ) -> Result<Option<SharedApproval>, StoreError> {
        let place = self.glance_once(|connection| load::place(connection, tenant, id));
        let Some(place) = place.await? else {
            return Ok(None);
        };
        if let Some(kept) = self.recent.get(id, place) {
            return Ok(Some(kept.approval));
        }
        let loaded = self.glance(|connection| approval(connection, tenant, id)).await?;
        Ok(loaded.map(|loaded| {
            self.recent.keep(loaded.clone());
            loaded.approval
        }))
    }

    fn look<T>(&self, look: impl FnOnce(&Connection) -> Result<T, LoadError>) -> Result<T, StoreError> {
        let connection = self.take()?;
        let result = in_transaction(&connection, look);
        // One that failed half-way is not used again.
        if connection.is_autocommit() {
            self.give_back(connection);
        }
        Ok(result?)
    }

    /// A number that changes with every commit.
    pub(super) fn stamp(&self) -> Result<u64, StoreError> {
        let mut connection = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        if self.permits.is_closed() {
            return Err(closed());
        }
        let connection = match &mut *connection {
            Some(connection) => connection,
            none => {
                let opened = open::reader(&self.path);
                none.insert(opened.map_err(|error| StoreError::Unavailable(error.to_string()))?)
            }
        };
        let version = data_version(connection).map_err(LoadError::from)?;
        Ok(u64::try_from(version).unwrap_or_default())
    }

    /// Lets go of the file.
    pub(super) fn close(&self) {
        self.permits.close();
        *self.stamps.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn take(&self) -> Result<Connection, StoreError> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = idle.as_mut().ok_or_else(closed)?;
        match idle.pop() {
            Some(connection) => Ok(connection),
            None => open::reader(&self.path).map_err(|error| StoreError::Unavailable(error.to_string())),
        }
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(idle) = idle.as_mut() {
            idle.push(connection);
        }
    }
}

fn closed() -> StoreError {
    StoreError::Stopped("it was closed".to_owned())
}

/// Runs `look` so that all it reads is from one moment.
pub(super) fn in_transaction<T>(
    connection: &Connection,
    look: impl FnOnce(&Connection) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    connection.prepare_cached("BEGIN")?.execute([])?;
    let result = look(connection);
    connection.prepare_cached("COMMIT")?.execute([])?;
    result
}

pub(super) fn approval(
    connection: &Connection,
    tenant: &Tenant,
    id: ApprovalId,
) -> Result<Option<Loaded>, LoadError> {
    load::one(connection, load::BY_ID, params![tenant.as_str(), id.as_bytes()])
}

pub(super) fn pending_in(
    connection: &Connection,
    tenant: &Tenant,
    channel: &Channel,
    now: Time,
) -> Result<Option<SharedApproval>, LoadError> {
    let found = load::one(connection, load::BY_CHANNEL, [tenant.as_str(), channel.as_str()])?;
    Ok(found.map(share).filter(|approval| approval.expires_at > now))
}

pub(super) fn list(
    connection: &Connection,
    tenant: &Tenant,
    filter: &Filter,
    now: Time,
) -> Result<Vec<SharedApproval>, LoadError> {
    // Longer than any id, so it comes behind them all; the empty one comes before.
    let end: &[u8] = match filter.oldest_first() {
        true => &[],
        false => &[255; 17],
    };
    let after = filter.after.as_ref().map_or(end, |id| id.as_bytes());
    // A pending approval is due when it expires.
    let (sql, third) = match (filter.oldest_first(), &filter.run) {
        (true, _) => (load::LIST_PENDING, Some(now.as_micros())),
        (false, Some(_)) => (load::LIST_RUN, filter.state.map(code)),
        (false, None) => (load::LIST_ALL, filter.state.map(code)),
    };
    let params = params![
        tenant.as_str(),
        after,
        third,
        filter.agent.as_ref().map(|agent| agent.as_str()),
        filter.channel.as_ref().map(|channel| channel.as_str()),
        filter.run.as_ref().map(|run| run.as_str()),
        limit(filter.page()),
        filter.asked.then(|| code(State::Passed)),
    ];
    let found = load::within(connection, sql, params, filter.most_bytes.unwrap_or(usize::MAX))?;
    Ok(found.into_iter().map(share).collect())
}

pub(super) fn events(
    connection: &Connection,
    tenant: &Tenant,
    id: ApprovalId,
) -> Result<Vec<Event>, LoadError> {
    let mut statement = connection.prepare_cached(EVENTS)?;
    let mut rows = statement.query(params![tenant.as_str(), id.as_bytes()])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.push(load::event(row, 0)?);
    }
    Ok(events)
}

pub(super) fn feed(
    connection: &Connection,
    tenant: &Tenant,
    after: Cursor,
    most: usize,
) -> Result<Vec<FeedEvent>, LoadError> {
    let after = i64::try_from(after.sequence).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(FEED)?;
    let mut rows = statement.query(params![tenant.as_str(), after, limit(most)])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let sequence: i64 = row.get(0)?;
        events.push(FeedEvent {
            cursor: cursor(sequence),
            approval: load::approval_id(row, 1)?,
            event: load::event(row, 2)?,
        });
    }
    Ok(events)
}

pub(super) fn feed_end(connection: &Connection) -> Result<Cursor, LoadError> {
    Ok(cursor(last_event(connection)?))
}

/// Goes through the events without reading what they say: that would be most of the work.
pub(super) fn released(
    connection: &Connection,
    tenant: &Tenant,
    after: Cursor,
) -> Result<Released, LoadError> {
    let after = i64::try_from(after.sequence).unwrap_or(i64::MAX);
    let end = last_event(connection)?;
    let upto = end.min(after.saturating_add(MOST_EVENTS)).max(after);
    let found = load::many(connection, load::RELEASED, (tenant.as_str(), after, upto))?;
    Ok(Released {
        approvals: found.into_iter().map(share).collect(),
        upto: cursor(upto),
        is_more: upto < end,
    })
}

fn last_event(connection: &Connection) -> Result<i64, LoadError> {
    let mut statement = connection.prepare_cached(FEED_END)?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

fn cursor(sequence: i64) -> Cursor {
    Cursor {
        transaction: 0,
        sequence: u64::try_from(sequence).unwrap_or_default(),
    }
}

fn share(loaded: Loaded) -> SharedApproval {
    loaded.approval
}

fn code(state: State) -> i64 {
    state.code().into()
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}
