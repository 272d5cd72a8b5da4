//! Audit of a database file: compares all rows with each other and with the event log.
//!
//! Input: connections that see the same snapshot of the file. Output: the faults found. Pages and checksums are not
//! checked here, because SQLite checks them itself (`PRAGMA integrity_check`).
//!
//! Reading and hashing are spread over several threads, each with its own connection. A thread takes one range after
//! the other, either of approvals with their calls and events, or of the log.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use countersign::hash::Hash;
use countersign::id::Tenant;
use countersign::log::leaf;
use countersign::registry::Kind;
use countersign::store::audit::{Fault, LogCheck, StoredApproval, StoredCall, StoredEvent, check};
use countersign::store::record::CallColumns;
use countersign::store::{Audit, AuditProgress, Audited, StoreError};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Row};

use super::fault::damaged;
use super::load::{CALLS_PER_APPROVAL, LoadError};
use super::log_head::StoredLogHead;
use super::{open, schema};

/// Maximum number of threads. More would only compete for processor and disk.
const MOST_THREADS: usize = 4;
/// Number of approvals in a range.
const APPROVALS: i64 = 512;
/// Number of events in a range of the log.
const EVENTS: i64 = 8_192;
/// Maximum number of attempts to give all connections the same snapshot.
const SNAPSHOT_ATTEMPTS: usize = 500;

const APPROVAL: &str =
    "SELECT seq, tenant, id, channel, agent, run, state, version, due_at, key, body FROM approval
    WHERE seq > ?1 AND seq <= ?2 ORDER BY seq";
const CALL: &str = "SELECT id, state, tool, arguments, original, result, sealed, body FROM call
    WHERE id > ?1 AND id <= ?2 ORDER BY id";
const EVENT: &str =
    "SELECT approval, number, at, policy, by, what, link, content, seq FROM event INDEXED BY event_approval
    WHERE approval > ?1 AND approval <= ?2 ORDER BY approval, number";
const LOG: &str =
    "SELECT seq, approval, number, link FROM event NOT INDEXED WHERE seq > ?1 AND seq <= ?2 ORDER BY seq";
const TENANT_AND_ID: &str = "SELECT tenant, id FROM approval WHERE seq = ?1";

/// Indexes to check: table, name, and the condition for the rows that each contains.
const INDEXES: [(&str, &str, &str); 7] = [
    ("approval", "approval_id", "1"),
    ("approval", "approval_pending", "state = 0"),
    (
        "approval",
        "approval_channel",
        "state = 0 AND channel IS NOT NULL",
    ),
    ("approval", "approval_due", "due_at IS NOT NULL"),
    ("approval", "approval_key", "key IS NOT NULL"),
    ("approval", "approval_run", "run IS NOT NULL"),
    ("event", "event_approval", "1"),
];

/// Audits a snapshot of the file on threads of its own. Nothing is written, so the file must already have the newest
/// schema.
pub async fn audit_file(
    path: &Path,
    audit: &Audit,
    progress: &(dyn Fn(AuditProgress) + Send + Sync),
) -> Result<Audited, StoreError> {
    let (path, audit): (PathBuf, Audit) = (path.to_owned(), audit.clone());
    let (sender, mut updates) = tokio::sync::mpsc::unbounded_channel();
    let task = tokio::task::spawn_blocking(move || {
        // Fails only if the caller no longer waits.
        audit_snapshot(&path, &audit, &|step| _ = sender.send(step))
    });
    while let Some(step) = updates.recv().await {
        progress(step);
    }
    match task.await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => as_fault(error).map(Audited::ended_by),
        Err(error) => Err(StoreError::Unavailable(error.to_string())),
    }
}

/// Converts a read error: damage becomes a [`Fault`] to report, anything else an error that ends the audit.
fn as_fault(error: LoadError) -> Result<Fault, StoreError> {
    use rusqlite::Error;
    match error {
        LoadError::Damaged(StoreError::Impossible(message)) => Ok(Fault::of_damage(message)),
        LoadError::Damaged(error) => Err(error),
        LoadError::Sql(error) => {
            let is_corrupt = error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt);
            let is_of_another_type = matches!(
                error,
                Error::InvalidColumnType(..)
                    | Error::FromSqlConversionFailure(..)
                    | Error::IntegralValueOutOfRange(..)
            );
            match is_corrupt || is_of_another_type {
                true => Ok(Fault::of_damage(format!("it cannot be read: {error}"))),
                false => Err(super::fault::read_error(&error)),
            }
        }
    }
}

fn audit_snapshot(
    path: &Path,
    audit: &Audit,
    progress: &dyn Fn(AuditProgress),
) -> Result<Audited, LoadError> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS));
    let (connections, stored_head, head_fault) = open_at_one_snapshot(path, threads)?;
    let Some(first) = connections.first() else {
        return Err(damaged("no connection").into());
    };
    let context = AuditContext {
        audit,
        policies: policies(first)?,
    };
    let ranges = ranges(first, audit)?;
    let mut audited = Audited::new(stored_head.head.checkpoint());
    schema_faults(first)?
        .into_iter()
        .for_each(|fault| audited.add(fault));
    entry_faults(first)?
        .into_iter()
        .for_each(|fault| audited.add(fault));
    let is_head_read = head_fault.is_none();
    head_fault.into_iter().for_each(|fault| audited.add(fault));
    let mut merged = MergedResults::new(stored_head, audit, audited);
    merged.is_head_read = is_head_read;
    let next = AtomicUsize::new(0);
    let total = ranges.len() as u64;
    let connections = std::thread::scope(|scope| {
        let (sender, results) = mpsc::sync_channel(threads * 2);
        let workers: Vec<_> = connections
            .into_iter()
            .map(|connection| {
                let (sender, ranges, next, context) = (sender.clone(), &ranges, &next, &context);
                scope.spawn(move || {
                    while let Some(range) = ranges.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if sender.send(context.audit_range(&connection, *range)).is_err() {
                            break;
                        }
                    }
                    connection
                })
            })
            .collect();
        drop(sender);
        for (done, result) in (1..).zip(results) {
            merged.add(result?);
            progress(AuditProgress { done, total });
        }
        let ended = workers.into_iter().map(|worker| worker.join());
        ended
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| LoadError::from(damaged("the audit crashed")))
    })?;
    let is_complete = audit.tenant.is_none() && audit.sample.is_none();
    match connections.first().filter(|_| is_complete) {
        Some(connection) => merged.finish(connection, &context),
        None => Ok(merged.audited),
    }
}

/// Opens connections that all see the same snapshot. Also returns the head of the event log in that snapshot, and a
/// fault if the head cannot be read. If concurrent writes keep the snapshots apart until the last attempt, returns only
/// one connection.
fn open_at_one_snapshot(
    path: &Path,
    count: usize,
) -> Result<(Vec<Connection>, StoredLogHead, Option<Fault>), LoadError> {
    let open = || open::reader(path).map_err(|error| StoreError::Unavailable(error.to_string()));
    let mut connections = (0..count)
        .map(|_| open())
        .collect::<Result<Vec<Connection>, StoreError>>()?;
    if let Some(connection) = connections.first() {
        schema::check(connection).map_err(|error| match error {
            open::OpenError::ChangedMigration { .. } => damaged(error),
            error => StoreError::Unavailable(error.to_string()),
        })?;
    }
    for attempts_left in (0..SNAPSHOT_ATTEMPTS).rev() {
        if attempts_left == 0 {
            connections.truncate(1);
        }
        // A connection's snapshot is taken at its first read. Every write to an approval moves the head of the log, so
        // equal heads mean equal snapshots.
        let mut heads = Vec::with_capacity(connections.len());
        for connection in &connections {
            connection.execute_batch("BEGIN")?;
            // An unreadable head is reported as a fault, and the rest is audited.
            heads.push(match StoredLogHead::read(connection) {
                Ok(stored_head) => Ok(stored_head),
                Err(error) => Err(as_fault(error).map(|fault| Fault {
                    code: "log_head",
                    ..fault
                })?),
            });
        }
        let stored_head = heads.pop().unwrap_or_else(|| Ok(StoredLogHead::default()));
        if heads.iter().all(|other| *other == stored_head) {
            return Ok(match stored_head {
                Ok(stored_head) => (connections, stored_head, None),
                Err(fault) => (connections, StoredLogHead::default(), Some(fault)),
            });
        }
        for connection in &connections {
            connection.execute_batch("COMMIT")?;
        }
    }
    Err(damaged("the log changes while nobody writes").into())
}

fn policies(connection: &Connection) -> Result<HashMap<i64, [u8; 32]>, LoadError> {
    let mut statement = connection.prepare("SELECT id, hash FROM policy")?;
    let policies = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(policies.collect::<Result<_, _>>()?)
}

/// A unit of work: a range of rows, given by the number before its first row and the number of its last row.
#[derive(Clone, Copy, Debug)]
enum Range {
    Approvals(i64, i64),
    /// Events of the log. The third value is the position in the log of the range's first event.
    Log(i64, i64, u64),
}

fn ranges(connection: &Connection, audit: &Audit) -> Result<Vec<Range>, LoadError> {
    if let Some(count) = audit.sample {
        return sample(connection, count);
    }
    // Events come first because they must be merged in order; approvals need not be.
    let mut ranges = Vec::new();
    let mut position = 0;
    for (from, to) in bounds(connection, "event", EVENTS)? {
        ranges.push(Range::Log(from, to, position));
        position += EVENTS as u64;
    }
    let approvals = bounds(connection, "approval", APPROVALS)?;
    ranges.extend(approvals.into_iter().map(|(from, to)| Range::Approvals(from, to)));
    Ok(ranges)
}

/// Splits a table into ranges of `size` rows. The ranges cover all possible numbers, including those of orphaned rows.
fn bounds(connection: &Connection, table: &str, size: i64) -> Result<Vec<(i64, i64)>, LoadError> {
    let sql = format!("SELECT seq FROM {table} NOT INDEXED WHERE seq > ?1 ORDER BY seq LIMIT 1 OFFSET ?2");
    let mut statement = connection.prepare(&sql)?;
    let (mut ranges, mut from) = (Vec::new(), i64::MIN);
    loop {
        let mut rows = statement.query([from, size - 1])?;
        let to = rows.next()?.map_or(Ok(i64::MAX), |row| row.get(0))?;
        ranges.push((from, to));
        if to == i64::MAX {
            return Ok(ranges);
        }
        from = to;
    }
}

/// Picks the `count` newest approvals and up to `count` random ones.
fn sample(connection: &Connection, count: u32) -> Result<Vec<Range>, LoadError> {
    let newest = "SELECT seq FROM approval ORDER BY seq DESC LIMIT ?1";
    let any = "SELECT (SELECT seq FROM approval WHERE seq >= picked.seq ORDER BY seq LIMIT 1) FROM
        (WITH RECURSIVE pick (n, seq) AS (VALUES (0, 0) UNION ALL
            SELECT n + 1, (random() & 9223372036854775807) % (SELECT coalesce(max(seq), 1) FROM approval) FROM pick WHERE n < ?1)
         SELECT seq FROM pick WHERE n > 0) AS picked";
    let mut picked = HashSet::new();
    for sql in [newest, any] {
        let mut statement = connection.prepare(sql)?;
        let found = statement.query_map([count], |row| row.get::<_, Option<i64>>(0))?;
        picked.extend(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten());
    }
    let one = |seq: i64| Range::Approvals(seq.saturating_sub(1), seq);
    Ok(picked.into_iter().map(one).collect())
}

/// Data that all threads of an audit read.
struct AuditContext<'a> {
    audit: &'a Audit,
    policies: HashMap<i64, [u8; 32]>,
}

enum RangeResult {
    Approvals(Audited, IndexCounts),
    /// Position of the first event in the range, the leaf hashes of the range, and a fault for the first event that is
    /// out of order.
    Log(u64, Vec<Hash>, Option<Fault>),
}

/// Number and checksum of the rows that each index must contain, and the policies that events refer to.
#[derive(Default)]
struct IndexCounts {
    rows: [(i64, i64); INDEXES.len()],
    policies: HashSet<i64>,
}

impl IndexCounts {
    fn count(&mut self, index: usize, seq: i64) {
        if let Some((count, sum)) = self.rows.get_mut(index) {
            *count += 1;
            *sum += scrambled(seq);
        }
    }

    fn join(&mut self, other: IndexCounts) {
        for ((count, sum), more) in self.rows.iter_mut().zip(other.rows) {
            *count += more.0;
            *sum += more.1;
        }
        self.policies.extend(other.policies);
    }
}

/// Scrambles a row number exactly as the SQL in [`SCRAMBLED`] does, so that sums over different sets of rows differ.
fn scrambled(seq: i64) -> i64 {
    (i128::from(seq) * 2_654_435_761 % 4_294_967_291) as i64
}
const SCRAMBLED: &str = "seq * 2654435761 % 4294967291";

impl AuditContext<'_> {
    fn audit_range(&self, connection: &Connection, range: Range) -> Result<RangeResult, LoadError> {
        match range {
            Range::Approvals(from, to) => self.audit_approvals(connection, from, to),
            Range::Log(from, to, position) => audit_log(connection, from, to, position),
        }
    }

    fn audit_approvals(&self, connection: &Connection, from: i64, to: i64) -> Result<RangeResult, LoadError> {
        let mut counts = IndexCounts::default();
        let approvals = approvals(connection, from, to, &mut counts)?;
        let mut calls = RowGroups::new(calls(connection, from, to)?);
        let mut events = RowGroups::new(self.events(connection, from, to, &mut counts)?);
        let mut audited = Audited::new(countersign::log::LogHead::default().checkpoint());
        for (seq, row) in approvals {
            self.add_orphans(&mut audited, &calls.before(seq), &events.before(seq));
            let (calls, events) = (calls.of(seq), events.of(seq));
            if self
                .audit
                .tenant
                .as_ref()
                .is_some_and(|of| of.as_str() != row.tenant)
            {
                continue;
            }
            audited.approvals += 1;
            audited.events += events.len() as u64;
            if let Some(fault) = check(&row, calls, events) {
                audited.add(fault);
            }
        }
        self.add_orphans(&mut audited, &calls.rest(), &events.rest());
        Ok(RangeResult::Approvals(audited, counts))
    }

    /// Reports calls and events whose approval does not exist. Does nothing in an audit of one tenant or of a sample.
    fn add_orphans(&self, audited: &mut Audited, calls: &[(i64, StoredCall)], events: &[(i64, StoredEvent)]) {
        // A sample reads one approval at a time, and an orphaned row's tenant is unknown.
        if self.audit.tenant.is_some() || self.audit.sample.is_some() {
            return;
        }
        for (of, event) in events {
            let message = format!(
                "event {} belongs to approval number {of}, which is not there",
                event.number
            );
            audited.add(Fault::of_store("lost_event", message));
        }
        for (of, call) in calls {
            let message = format!(
                "call {} belongs to approval number {of}, which is not there",
                call.position
            );
            audited.add(Fault::of_store("lost_call", message));
        }
    }

    fn events(
        &self,
        connection: &Connection,
        from: i64,
        to: i64,
        counts: &mut IndexCounts,
    ) -> Result<Vec<(i64, StoredEvent)>, LoadError> {
        let mut statement = connection.prepare_cached(EVENT)?;
        let mut rows = statement.query([from, to])?;
        let mut events = Vec::new();
        while let Some(row) = rows.next()? {
            let policy = row.get(3)?;
            counts.policies.insert(policy);
            counts.count(6, row.get(8)?);
            let event = StoredEvent {
                number: row.get(1)?,
                at: row.get(2)?,
                policy: self.policies.get(&policy).copied(),
                by: text(row, 4)?.unwrap_or_default(),
                what: text(row, 5)?.unwrap_or_default(),
                link: fixed(row, 6)?.unwrap_or([0; 32]),
                content: fixed(row, 7)?,
            };
            events.push((row.get(0)?, event));
        }
        Ok(events)
    }
}

fn approvals(
    connection: &Connection,
    from: i64,
    to: i64,
    counts: &mut IndexCounts,
) -> Result<Vec<(i64, StoredApproval)>, LoadError> {
    let mut statement = connection.prepare_cached(APPROVAL)?;
    let mut rows = statement.query([from, to])?;
    let mut approvals = Vec::new();
    while let Some(row) = rows.next()? {
        let seq = row.get(0)?;
        let approval = StoredApproval {
            tenant: text(row, 1)?.unwrap_or_default(),
            id: bytes(row, 2)?.unwrap_or_default(),
            channel: text(row, 3)?,
            agent: text(row, 4)?.unwrap_or_default(),
            run: text(row, 5)?,
            state: row.get(6)?,
            version: row.get(7)?,
            due_at: row.get(8)?,
            key: text(row, 9)?,
            body: bytes(row, 10)?.unwrap_or_default(),
            expires_at: None,
            undoes: None,
        };
        let (is_pending, has_channel) = (approval.state == 0, approval.channel.is_some());
        let is_in = [
            true,
            is_pending,
            is_pending && has_channel,
            approval.due_at.is_some(),
            approval.key.is_some(),
            approval.run.is_some(),
        ];
        for (index, _) in is_in.into_iter().enumerate().filter(|(_, is_in)| *is_in) {
            counts.count(index, seq);
        }
        approvals.push((seq, approval));
    }
    Ok(approvals)
}

fn calls(connection: &Connection, from: i64, to: i64) -> Result<Vec<(i64, StoredCall)>, LoadError> {
    let last_of = |seq: i64| {
        seq.saturating_mul(CALLS_PER_APPROVAL)
            .saturating_add(CALLS_PER_APPROVAL - 1)
    };
    let mut statement = connection.prepare_cached(CALL)?;
    let mut rows = statement.query([last_of(from), last_of(to)])?;
    let mut calls = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let call = StoredCall {
            position: id.rem_euclid(CALLS_PER_APPROVAL),
            columns: CallColumns {
                state: row.get(1)?,
                tool: text(row, 2)?.unwrap_or_default(),
                arguments: bytes(row, 3)?.unwrap_or_default(),
                original: bytes(row, 4)?,
                result: bytes(row, 5)?,
                sealed: bytes(row, 6)?,
            },
            body: bytes(row, 7)?.unwrap_or_default(),
        };
        calls.push((id.div_euclid(CALLS_PER_APPROVAL), call));
    }
    Ok(calls)
}

/// Computes the leaf hashes of a range of the log, and finds the first event that is out of order. Each approval's
/// tenant and id are looked up once per range.
fn audit_log(connection: &Connection, from: i64, to: i64, position: u64) -> Result<RangeResult, LoadError> {
    let mut find = connection.prepare_cached(TENANT_AND_ID)?;
    let mut names: HashMap<i64, (String, [u8; 16])> = HashMap::new();
    let mut statement = connection.prepare_cached(LOG)?;
    let mut rows = statement.query([from, to])?;
    let (mut leaves, mut fault) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        let (seq, approval): (i64, i64) = (row.get(0)?, row.get(1)?);
        let expected = position + leaves.len() as u64 + 1;
        if fault.is_none() && u64::try_from(seq) != Ok(expected) {
            let message = format!("event {seq} stands where event {expected} of the log belongs");
            fault = Some(Fault::of_store("log_order", message));
        }
        if let std::collections::hash_map::Entry::Vacant(slot) = names.entry(approval) {
            let mut found = find.query([approval])?;
            slot.insert(match found.next()? {
                Some(row) => (
                    text(row, 0)?.unwrap_or_default(),
                    fixed(row, 1)?.unwrap_or_default(),
                ),
                None => Default::default(),
            });
        }
        let link = Hash(fixed(row, 3)?.unwrap_or([0; 32]));
        let number = u32::try_from(row.get::<_, i64>(2)?).unwrap_or(u32::MAX);
        if let Some((tenant, id)) = names.get(&approval) {
            leaves.push(leaf(tenant, id, number, link));
        }
    }
    Ok(RangeResult::Log(position, leaves, fault))
}

/// Combined results of all ranges.
struct MergedResults {
    log: LogCheck,
    // Parts of the log that were finished before their predecessors, by position.
    waiting_leaves: BTreeMap<u64, Vec<Hash>>,
    // The `seq` of the last event, according to the head.
    last: i64,
    order_fault: Option<Fault>,
    // False if the head of the log is unreadable, so that the log cannot be compared with it.
    is_head_read: bool,
    counts: IndexCounts,
    audited: Audited,
}

impl MergedResults {
    fn new(stored_head: StoredLogHead, audit: &Audit, audited: Audited) -> MergedResults {
        MergedResults {
            last: stored_head.last,
            log: LogCheck::new(stored_head.head, audit.expected),
            waiting_leaves: BTreeMap::new(),
            order_fault: None,
            is_head_read: true,
            counts: IndexCounts::default(),
            audited,
        }
    }

    fn add(&mut self, result: RangeResult) {
        match result {
            RangeResult::Approvals(audited, counts) => {
                self.audited.join(audited);
                self.counts.join(counts);
            }
            RangeResult::Log(position, leaves, fault) => {
                self.order_fault = self.order_fault.take().or(fault);
                self.waiting_leaves.insert(position, leaves);
                while let Some(leaves) = self.waiting_leaves.remove(&self.log.size()) {
                    leaves.into_iter().for_each(|leaf| self.log.push(leaf));
                }
            }
        }
    }

    fn finish(mut self, connection: &Connection, context: &AuditContext<'_>) -> Result<Audited, LoadError> {
        self.order_fault
            .into_iter()
            .for_each(|fault| self.audited.add(fault));
        let last: i64 =
            connection.query_row("SELECT coalesce(max(seq), 0) FROM event", [], |row| row.get(0))?;
        if last != self.last && self.is_head_read {
            let message = format!(
                "the log ends with event {}, and the last one is {last}",
                self.last
            );
            self.audited.add(Fault::of_store("log_end", message));
        }
        let faults = match self.is_head_read {
            true => self.log.faults(),
            false => Vec::new(),
        };
        faults.into_iter().for_each(|fault| self.audited.add(fault));
        for ((table, index, rows), (count, sum)) in INDEXES.into_iter().zip(self.counts.rows) {
            if index_checksum(connection, table, index, rows) != Ok((count, sum)) {
                let message = format!("the index `{index}` does not have the rows of its table");
                self.audited.add(Fault::of_schema(message));
            }
        }
        let unused = context
            .policies
            .keys()
            .filter(|id| !self.counts.policies.contains(id));
        for id in unused {
            let message = format!("policy number {id} is named by no event");
            self.audited.add(Fault::of_store("policy", message));
        }
        Ok(self.audited)
    }
}

/// Returns the number of rows in an index, and their checksum.
fn index_checksum(
    connection: &Connection,
    table: &str,
    index: &str,
    rows: &str,
) -> Result<(i64, i64), rusqlite::Error> {
    let sql = format!(
        "SELECT count(*), coalesce(sum({SCRAMBLED}), 0) FROM {table} INDEXED BY {index} WHERE {rows}"
    );
    connection.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Compares tables, indexes and triggers with those of a newly created file.
fn schema_faults(connection: &Connection) -> Result<Vec<Fault>, LoadError> {
    let mut fresh = Connection::open_in_memory()?;
    schema::migrate(&mut fresh).map_err(damaged)?;
    let (ours, found) = (objects(&fresh)?, objects(connection)?);
    let missing = ours.iter().filter(|(name, sql)| found.get(*name) != Some(*sql));
    let missing = missing.map(|(name, _)| format!("`{name}` is missing or was changed"));
    let added = found.keys().filter(|name| !ours.contains_key(*name));
    let added = added.map(|name| format!("`{name}` was not created by this program"));
    Ok(missing.chain(added).map(Fault::of_schema).collect())
}

fn objects(connection: &Connection) -> Result<BTreeMap<String, Option<String>>, LoadError> {
    // SQLite's internal tables are not compared.
    let sql =
        "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(sql)?;
    let objects = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(objects.collect::<Result<_, _>>()?)
}

/// Finds entries with an unknown kind or an invalid tenant. Entries have no history, so other changes cannot be
/// detected.
fn entry_faults(connection: &Connection) -> Result<Vec<Fault>, LoadError> {
    let mut statement = connection.prepare("SELECT kind, tenant FROM entry")?;
    let mut rows = statement.query([])?;
    let mut faults = Vec::new();
    while let Some(row) = rows.next()? {
        let kind: i64 = row.get(0)?;
        let is_known = Kind::ALL.iter().any(|known| i64::from(known.code()) == kind);
        let tenant = text(row, 1)?.unwrap_or_default();
        if !is_known || Tenant::new(tenant).is_err() {
            let message = format!("an entry of kind {kind} cannot be read");
            faults.push(Fault::of_store("entry", message));
        }
    }
    Ok(faults)
}

/// Rows sorted by the number of their approval. The methods take rows out in that order.
struct RowGroups<T> {
    rows: std::iter::Peekable<std::vec::IntoIter<(i64, T)>>,
}

impl<T> RowGroups<T> {
    fn new(rows: Vec<(i64, T)>) -> RowGroups<T> {
        RowGroups {
            rows: rows.into_iter().peekable(),
        }
    }

    /// Takes the rows of approvals whose number is less than `seq`.
    fn before(&mut self, seq: i64) -> Vec<(i64, T)> {
        std::iter::from_fn(|| self.rows.next_if(|(of, _)| *of < seq)).collect()
    }

    /// Takes the rows of the approval with number `seq`.
    fn of(&mut self, seq: i64) -> Vec<T> {
        let own = std::iter::from_fn(|| self.rows.next_if(|(of, _)| *of == seq));
        own.map(|(_, row)| row).collect()
    }

    fn rest(self) -> Vec<(i64, T)> {
        self.rows.collect()
    }
}

/// Reads a text column; `None` if its value is neither text nor a blob. Invalid UTF-8 is replaced, which makes the
/// hashes differ.
fn text(row: &Row<'_>, column: usize) -> Result<Option<String>, LoadError> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    })
}

fn bytes(row: &Row<'_>, column: usize) -> Result<Option<Vec<u8>>, LoadError> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.to_vec()),
        _ => None,
    })
}

/// Reads a blob of exactly `N` bytes; `None` if it has another length or type.
fn fixed<const N: usize>(row: &Row<'_>, column: usize) -> Result<Option<[u8; N]>, LoadError> {
    Ok(match row.get_ref(column)? {
        ValueRef::Blob(bytes) => bytes.try_into().ok(),
        _ => None,
    })
}
