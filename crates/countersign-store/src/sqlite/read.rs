//! Reader connections: a small pool of read-only connections, each used by one caller at a time.
//!
//! Input: queries. Output: approvals and events, each answer from one snapshot. Readers and the writer never wait for
//! each other.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use countersign::approval::SharedApproval;
use countersign::event::Event;
use countersign::hash::Hash;
use countersign::id::{ApprovalId, Channel, Tenant};
use countersign::log::LogEntry;
use countersign::state::State;
use countersign::store::{Cursor, FeedEvent, Filter, LONGEST_PAGE, Released, StoreError};
use countersign::time::Time;
use rusqlite::{Connection, params};
use tokio::sync::Semaphore;

use super::fault::damaged;
use super::load::{self, LoadError, Loaded};
use super::open;
use super::watch::data_version;

/// Maximum number of reader connections. More would only compete for the processor.
const MOST_READERS: usize = 4;

/// Maximum number of events that [`released`] scans in one call.
const MOST_EVENTS: i64 = 10_000;

const EVENTS: &str = "SELECT e.number, e.at, p.hash, e.by, e.what, e.link, e.content
    FROM event AS e CROSS JOIN policy AS p ON p.id = e.policy
    WHERE e.approval = (SELECT seq FROM approval WHERE tenant = ?1 AND id = ?2) ORDER BY e.number";
const FEED: &str = "SELECT e.seq, a.id, e.number, e.at, p.hash, e.by, e.what, e.link, e.content
    FROM event AS e CROSS JOIN approval AS a ON a.seq = e.approval CROSS JOIN policy AS p ON p.id = e.policy
    WHERE e.seq > ?2 AND a.tenant = ?1 ORDER BY e.seq LIMIT ?3";
// `seq` starts at 1, positions in the log at 0.
const LOG: &str =
    "SELECT a.tenant, a.id, e.number, e.link FROM event AS e CROSS JOIN approval AS a ON a.seq = e.approval
    WHERE e.seq > ?1 ORDER BY e.seq LIMIT ?2";
const FEED_END: &str = "SELECT coalesce(max(seq), 0) FROM event";

/// The pool of reader connections.
pub(super) struct Readers {
    path: PathBuf,
    // `None` once the store is closed.
    idle: Mutex<Option<Vec<Connection>>>,
    permits: Semaphore,
    // The change counter belongs to a connection, so it is always read from the same one.
    counter_connection: Mutex<Option<Connection>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Arc<Readers> {
        Arc::new(Readers {
            path,
            idle: Mutex::new(Some(Vec::new())),
            permits: Semaphore::new(MOST_READERS),
            counter_connection: Mutex::default(),
        })
    }

    /// Runs `query` on a blocking thread, in a transaction with one snapshot.
    pub(super) async fn run_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T, LoadError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = self.clone();
        let _permit = self.permits.acquire().await.map_err(|_| closed())?;
        let task = tokio::task::spawn_blocking(move || readers.run(query));
        task.await
            .unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }

    /// Runs `query` on the caller's thread: for single rows by key, which take microseconds. Moving such a read to
    /// another thread costs several times as much, and readers never wait for the writer.
    pub(super) async fn run_inline<T>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T, LoadError>,
    ) -> Result<T, StoreError> {
        let _permit = self.permits.acquire().await.map_err(|_| closed())?;
        self.run(query)
    }

    /// Like [`Readers::run_inline`], but for a single statement, which needs no transaction.
    pub(super) async fn run_statement<T>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T, LoadError>,
    ) -> Result<T, StoreError> {
        let _permit = self.permits.acquire().await.map_err(|_| closed())?;
        let connection = self.take()?;
        let result = query(&connection);
        self.give_back(connection);
        Ok(result?)
    }

    /// Returns one approval; `None` if it does not exist.
    pub(super) async fn approval(
        self: &Arc<Self>,
        tenant: &Tenant,
        id: ApprovalId,
    ) -> Result<Option<SharedApproval>, StoreError> {
        let loaded = self.run_inline(|connection| approval(connection, tenant, id));
        Ok(loaded.await?.map(|loaded| loaded.approval))
    }

    fn run<T>(&self, query: impl FnOnce(&Connection) -> Result<T, LoadError>) -> Result<T, StoreError> {
        let connection = self.take()?;
        let result = in_transaction(&connection, query);
        // A connection with an open transaction is not used again.
        if connection.is_autocommit() {
            self.give_back(connection);
        }
        Ok(result?)
    }

    /// Returns a number that changes with every commit of any process, so that callers can tell whether what they have
    /// read is still current.
    pub(super) fn change_counter(&self) -> Result<u64, StoreError> {
        let mut connection = self
            .counter_connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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

    /// Closes all reader connections. Later reads fail.
    pub(super) fn close(&self) {
        self.permits.close();
        *self
            .counter_connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
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

/// Runs `query` in a transaction, so that it sees one snapshot.
pub(super) fn in_transaction<T>(
    connection: &Connection,
    query: impl FnOnce(&Connection) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    connection.prepare_cached("BEGIN")?.execute([])?;
    let result = query(connection);
    connection.prepare_cached("COMMIT")?.execute([])?;
    result
}

pub(super) fn approval(
    connection: &Connection,
    tenant: &Tenant,
    id: ApprovalId,
) -> Result<Option<Loaded>, LoadError> {
    load::first_approval(connection, load::BY_ID, params![tenant.as_str(), id.as_bytes()])
}

pub(super) fn pending_in(
    connection: &Connection,
    tenant: &Tenant,
    channel: &Channel,
    now: Time,
) -> Result<Option<SharedApproval>, LoadError> {
    let found = load::first_approval(connection, load::BY_CHANNEL, [tenant.as_str(), channel.as_str()])?;
    Ok(found
        .map(into_approval)
        .filter(|approval| approval.expires_at > now))
}

pub(super) fn list(
    connection: &Connection,
    tenant: &Tenant,
    filter: &Filter,
    now: Time,
) -> Result<Vec<SharedApproval>, LoadError> {
    // Start of the list. A blob of 17 bytes sorts after all ids, which are shorter; the empty blob sorts before them.
    let end: &[u8] = match filter.oldest_first() {
        true => &[],
        false => &[255; 17],
    };
    let after = filter.after.as_ref().map_or(end, |id| id.as_bytes());
    // The due time of a pending approval is its expiry.
    let (sql, third) = match (filter.oldest_first(), &filter.run) {
        (true, _) => (load::LIST_PENDING, Some(now.as_micros())),
        (false, _) if filter.open => (load::LIST_OPEN, filter.state.map(code)),
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
    let found = load::approvals_within(connection, sql, params, filter.most_bytes.unwrap_or(usize::MAX))?;
    Ok(found.into_iter().map(into_approval).collect())
}

pub(super) fn count_pending(connection: &Connection, tenant: &Tenant, now: Time) -> Result<u64, LoadError> {
    let mut statement = connection.prepare_cached(load::COUNT_PENDING)?;
    let count: i64 = statement.query_row(params![tenant.as_str(), now.as_micros()], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or_default())
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

pub(super) fn log(connection: &Connection, from: u64, most: usize) -> Result<Vec<LogEntry>, LoadError> {
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(LOG)?;
    let mut rows = statement.query([from, limit(most.min(LONGEST_PAGE))])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(LogEntry {
            tenant: Tenant::new(load::text(row, 0)?).map_err(damaged)?,
            approval: load::approval_id(row, 1)?,
            number: row.get(2)?,
            link: Hash(row.get(3)?),
        });
    }
    Ok(entries)
}

pub(super) fn feed_end(connection: &Connection) -> Result<Cursor, LoadError> {
    Ok(cursor(last_event(connection)?))
}

/// Finds approvals with calls that may run, among those with events after the cursor. Does not decode the events, which
/// would be most of the work.
pub(super) fn released(
    connection: &Connection,
    tenant: &Tenant,
    after: Cursor,
) -> Result<Released, LoadError> {
    let after = i64::try_from(after.sequence).unwrap_or(i64::MAX);
    let end = last_event(connection)?;
    let upto = end.min(after.saturating_add(MOST_EVENTS)).max(after);
    let found = load::approvals(connection, load::RELEASED, (tenant.as_str(), after, upto))?;
    Ok(Released {
        approvals: found.into_iter().map(into_approval).collect(),
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

fn into_approval(loaded: Loaded) -> SharedApproval {
    loaded.approval
}

fn code(state: State) -> i64 {
    state.code().into()
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}
