//! Reads over a few shared connections, each with many queries in flight.
//!
//! One statement reads an approval with its calls, so both come from the same snapshot. All queries of approvals and
//! events name the tenant, except `by_ids` and `versions`. Those two serve waiters of this process, whose ids come from
//! queries that named the tenant.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign::approval::SharedApproval;
use countersign::event::Event;
use countersign::id::{ApprovalId, Channel, Tenant};
use countersign::log::Checkpoint;
use countersign::registry::{Entry, Kind};
use countersign::state::State;
use countersign::store::{Cursor, FeedEvent, Filter, LONGEST_PAGE, Released, StoreError};
use countersign::time::{Clock, Time};
use tokio::sync::{Mutex, RwLock, RwLockReadGuard};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

use super::clock::ServerClock;
use super::connect::{Connector, Session};
use super::decode::{self, APPROVAL, CALL, EVENT_COLUMNS, WITH_CALLS};
use super::entries::{self, ENTRY};
use super::error::StatementError;
use super::limits;
use super::log::{HEAD, StoredLogHead};
use super::tenants::VisibleTenants;

/// Maximum number of events in one page of the feed.
const LONGEST_FEED: usize = 10_000;

/// The server's clock in microseconds, evaluated once per statement, so that indexes can be used with it.
const NOW: &str = "(SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)";

type Parameters<'a> = [&'a (dyn ToSql + Sync)];

struct ReadStatements {
    approval: Statement,
    pending_in: Statement,
    by_ids: Statement,
    versions: Statement,
    events: Statement,
    feed: Statement,
    entry: Statement,
    entries_named: Statement,
    entries: Statement,
}

impl ReadStatements {
    async fn prepare(client: &Client) -> Result<ReadStatements, Error> {
        let approvals = |condition: &str| {
            format!(
                "SELECT {APPROVAL}, {CALL} FROM approval a {WITH_CALLS} WHERE {condition} ORDER BY a.tenant, a.id, c.position"
            )
        };
        let pending = format!(
            "a.tenant = $1 AND a.channel = $2 AND a.state = 0 AND a.expires_at > COALESCE($3::bigint, {NOW})"
        );
        let events =
            format!("SELECT {EVENT_COLUMNS} FROM event WHERE tenant = $1 AND approval = $2 ORDER BY number");
        // A running transaction may have a smaller id than one that has already committed. So the feed ends before the
        // oldest running transaction: whatever commits later sorts after that point.
        let feed = format!(
            "SELECT xact::text::bigint, seq, approval, {EVENT_COLUMNS} FROM event
             WHERE tenant = $1 AND (xact, seq) > ($2::text::xid8, $3::integer)
               AND xact < (SELECT pg_snapshot_xmin(pg_current_snapshot()))
             ORDER BY xact, seq LIMIT $4"
        );
        let is_live = format!("(e.expires_at IS NULL OR e.expires_at > COALESCE($3::bigint, {NOW}))");
        let entry = format!("SELECT {ENTRY} FROM entry e WHERE e.kind = $1 AND e.key = $2 AND {is_live}");
        let entries_named = format!(
            "SELECT {ENTRY} FROM unnest($1::smallint[], $2::text[]) AS w(kind, key)
             JOIN entry e ON e.kind = w.kind AND e.key = w.key
             WHERE e.expires_at IS NULL OR e.expires_at > COALESCE($3::bigint, {NOW})"
        );
        let entries = format!(
            "SELECT {ENTRY} FROM entry e WHERE e.tenant = $1 AND e.kind = $2 AND e.key > $4 AND {is_live}
             ORDER BY e.key LIMIT $5"
        );
        Ok(ReadStatements {
            approval: client.prepare(&approvals("a.tenant = $1 AND a.id = $2")).await?,
            pending_in: client.prepare(&approvals(&pending)).await?,
            by_ids: client.prepare(&approvals("a.id = ANY($1::bytea[])")).await?,
            versions: client
                .prepare("SELECT id, version FROM approval WHERE id = ANY($1::bytea[])")
                .await?,
            events: client.prepare(&events).await?,
            feed: client.prepare(&feed).await?,
            entry: client.prepare(&entry).await?,
            entries_named: client.prepare(&entries_named).await?,
            entries: client.prepare(&entries).await?,
        })
    }
}

struct Reader {
    session: Session,
    statements: ReadStatements,
    /// Tenants whose rows this connection sees. Queries for the same tenants run concurrently; one for other tenants
    /// waits until they are done.
    visible: RwLock<VisibleTenants>,
}

impl Reader {
    /// Makes only the rows of the given tenants visible while the returned guard is held. Returns `None`, and changes
    /// nothing, if `tenants` is empty.
    async fn show(
        &self,
        tenants: &VisibleTenants,
    ) -> Result<Option<RwLockReadGuard<'_, VisibleTenants>>, StatementError> {
        if tenants.is_empty() {
            return Ok(None);
        }
        let visible = self.visible.read().await;
        if *visible == *tenants {
            return Ok(Some(visible));
        }
        drop(visible);
        let mut visible = self.visible.write().await;
        if *visible != *tenants {
            // The visible tenants are unknown until the server has answered: the caller may be cancelled meanwhile.
            *visible = VisibleTenants::default();
            let session = &self.session;
            session
                .within(limits::SHORT, |client| tenants.apply(client))
                .await?;
            visible.clone_from(tenants);
        }
        Ok(Some(visible.downgrade()))
    }
}

/// A query that can be run on any of the connections.
enum ReadQuery<'a> {
    Prepared(fn(&ReadStatements) -> &Statement, &'a Parameters<'a>),
    Text(&'a str, &'a [(&'a (dyn ToSql + Sync), Type)]),
}

impl ReadQuery<'_> {
    async fn run(&self, reader: &Reader) -> Result<Vec<Row>, StatementError> {
        let (session, statements) = (&reader.session, &reader.statements);
        match self {
            ReadQuery::Prepared(statement, parameters) => {
                let parameters = parameters.iter().copied();
                let statement = statement(statements);
                session
                    .rows(limits::ROW, |client| client.query_raw(statement, parameters))
                    .await
            }
            ReadQuery::Text(sql, parameters) => {
                let parameters = parameters.iter().map(|(value, of)| (*value, of.clone()));
                session
                    .rows(limits::ROW, |client| client.query_typed_raw(sql, parameters))
                    .await
            }
        }
    }
}

/// Pool of read connections, opened on demand.
pub(super) struct Readers {
    connector: Arc<Connector>,
    clock: Option<Arc<dyn Clock>>,
    server_clock: Arc<ServerClock>,
    /// Connections: two used in turn, and a third for queries that read the rows of all tenants.
    slots: [Mutex<Option<Arc<Reader>>>; 3],
    next: AtomicUsize,
}

impl Readers {
    pub(super) fn new(
        connector: Arc<Connector>,
        clock: Option<Arc<dyn Clock>>,
        server_clock: Arc<ServerClock>,
    ) -> Readers {
        Readers {
            connector,
            clock,
            server_clock,
            slots: Default::default(),
            next: AtomicUsize::new(0),
        }
    }

    pub(super) async fn approval(
        &self,
        tenant: &Tenant,
        id: ApprovalId,
    ) -> Result<Option<SharedApproval>, StoreError> {
        let parameters: &Parameters<'_> = &[&tenant.as_str(), &id.as_bytes().as_slice()];
        let rows = self
            .run_prepared(
                VisibleTenants::one(tenant),
                |statements| &statements.approval,
                parameters,
            )
            .await?;
        Ok(decode::joined_approvals(&rows)?.into_iter().next())
    }

    pub(super) async fn pending_in(
        &self,
        tenant: &Tenant,
        channel: &Channel,
    ) -> Result<Option<SharedApproval>, StoreError> {
        let parameters: &Parameters<'_> = &[&tenant.as_str(), &channel.as_str(), &self.test_clock()];
        let rows = self
            .run_prepared(
                VisibleTenants::one(tenant),
                |statements| &statements.pending_in,
                parameters,
            )
            .await?;
        Ok(decode::joined_approvals(&rows)?.pop())
    }

    pub(super) async fn by_ids(&self, ids: &[ApprovalId]) -> Result<Vec<SharedApproval>, StoreError> {
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        let rows = self
            .run_prepared(VisibleTenants::all(), |statements| &statements.by_ids, &[&ids])
            .await?;
        decode::joined_approvals(&rows)
    }

    pub(super) async fn versions(&self, ids: &[ApprovalId]) -> Result<Vec<(ApprovalId, u32)>, StoreError> {
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        let rows = self
            .run_prepared(VisibleTenants::all(), |statements| &statements.versions, &[&ids])
            .await?;
        let version = |row: &Row| Ok((decode::id(row, 0)?, decode::count(decode::get(row, 1)?)?));
        rows.iter().map(version).collect()
    }

    pub(super) async fn events(&self, tenant: &Tenant, id: ApprovalId) -> Result<Vec<Event>, StoreError> {
        let id = id.as_bytes().as_slice();
        let parameters: &Parameters<'_> = &[&tenant.as_str(), &id];
        let rows = self
            .run_prepared(
                VisibleTenants::one(tenant),
                |statements| &statements.events,
                parameters,
            )
            .await?;
        rows.iter().map(|row| decode::event(row, 0)).collect()
    }

    pub(super) async fn feed(
        &self,
        tenant: &Tenant,
        after: Cursor,
        limit: usize,
    ) -> Result<Vec<FeedEvent>, StoreError> {
        let transaction = after.transaction.to_string();
        let sequence = i32::try_from(after.sequence).unwrap_or(i32::MAX);
        let limit = i64::try_from(limit.min(LONGEST_FEED)).unwrap_or(i64::MAX);
        let parameters: &Parameters<'_> = &[&tenant.as_str(), &transaction, &sequence, &limit];
        let rows = self
            .run_prepared(
                VisibleTenants::one(tenant),
                |statements| &statements.feed,
                parameters,
            )
            .await?;
        rows.iter().map(decode::feed_event).collect()
    }

    /// Returns the end of the feed: a cursor just before the oldest running transaction. No event will be added before
    /// this cursor any more.
    pub(super) async fn feed_end(&self) -> Result<Cursor, StoreError> {
        let sql = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text";
        let rows = self
            .run_query(&VisibleTenants::default(), ReadQuery::Text(sql, &[]))
            .await?;
        let row = rows.first().ok_or_else(|| decode::impossible("no snapshot"))?;
        let oldest: String = decode::get(row, 0)?;
        let oldest: u64 = oldest.parse().map_err(|_| decode::impossible("no snapshot"))?;
        Ok(Cursor {
            transaction: oldest.saturating_sub(1),
            sequence: u64::try_from(i32::MAX).unwrap_or_default(),
        })
    }

    pub(super) async fn log_head(&self) -> Result<Checkpoint, StoreError> {
        let rows = self
            .run_query(&VisibleTenants::default(), ReadQuery::Text(HEAD, &[]))
            .await?;
        Ok(StoredLogHead::read(rows.first())?.head.checkpoint())
    }

    pub(super) async fn entry(&self, kind: Kind, key: &str) -> Result<Option<Entry>, StoreError> {
        // A key with a NUL cannot be stored, and the server would reject the query.
        if key.contains('\0') {
            return Ok(None);
        }
        let parameters: &Parameters<'_> = &[&kind.code(), &key, &self.test_clock()];
        let rows = self
            .run_prepared(
                VisibleTenants::default(),
                |statements| &statements.entry,
                parameters,
            )
            .await?;
        rows.first().map(entries::read).transpose()
    }

    /// Reads several entries with one query. The result is in the order of `names`, with `None` for an entry that does
    /// not exist or has expired.
    pub(super) async fn entries_named(
        &self,
        names: &[(Kind, String)],
    ) -> Result<Vec<Option<Entry>>, StoreError> {
        let keys_without_nul = names.iter().filter(|(_, key)| !key.contains('\0'));
        let (kinds, keys): (Vec<i16>, Vec<&str>) = keys_without_nul
            .map(|(kind, key)| (kind.code(), key.as_str()))
            .unzip();
        let parameters: &Parameters<'_> = &[&kinds, &keys, &self.test_clock()];
        let rows = self
            .run_prepared(
                VisibleTenants::default(),
                |statements| &statements.entries_named,
                parameters,
            )
            .await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let entry = entries::read(row)?;
            found.insert((entry.kind, entry.key.clone()), entry);
        }
        Ok(names.iter().map(|name| found.get(name).cloned()).collect())
    }

    pub(super) async fn entries(
        &self,
        tenant: &Tenant,
        kind: Kind,
        after: &str,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let limit = i64::try_from(limit.min(LONGEST_PAGE)).unwrap_or(i64::MAX);
        let parameters: &Parameters<'_> =
            &[&tenant.as_str(), &kind.code(), &self.test_clock(), &after, &limit];
        let rows = self
            .run_prepared(
                VisibleTenants::default(),
                |statements| &statements.entries,
                parameters,
            )
            .await?;
        rows.iter().map(entries::read).collect()
    }

    pub(super) async fn now(&self) -> Result<Time, StoreError> {
        if let Some(clock) = &self.clock {
            return Ok(clock.now());
        }
        if let Some(now) = self.server_clock.now() {
            return Ok(now);
        }
        let sql = format!("SELECT {NOW}");
        let rows = self
            .run_query(&VisibleTenants::default(), ReadQuery::Text(&sql, &[]))
            .await?;
        let row = rows.first().ok_or_else(|| decode::impossible("no clock"))?;
        let now = Time::from_micros(decode::get(row, 0)?);
        self.server_clock.record(now);
        Ok(now)
    }

    pub(super) async fn list(
        &self,
        tenant: &Tenant,
        filter: &Filter,
    ) -> Result<Vec<SharedApproval>, StoreError> {
        let of = VisibleTenants::one(tenant);
        let tenant = tenant.as_str();
        let state = filter.state.map(State::code);
        let agent = filter.agent.as_ref().map(|agent| agent.as_str());
        let channel = filter.channel.as_ref().map(|channel| channel.as_str());
        let run = filter.run.as_ref().map(|run| run.as_str());
        let after = filter.after.as_ref().map(|id| id.as_bytes().as_slice());
        let now = self.test_clock();
        let limit = i64::try_from(filter.page()).unwrap_or(i64::MAX);
        let order = if filter.oldest_first() { "ASC" } else { "DESC" };
        let side = if filter.oldest_first() { '>' } else { '<' };

        // The query contains only the requested conditions, so that the planner can choose a suitable index.
        let mut conditions = vec!["tenant = $1".to_owned()];
        if filter.open {
            conditions.push("due_at IS NOT NULL".to_owned());
        }
        let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = vec![(&tenant, Type::TEXT)];
        let mut add = |condition: &str, value, kind| {
            parameters.push((value, kind));
            conditions.push(condition.replace('?', &format!("${}", parameters.len())));
        };
        if filter.state == Some(State::Pending) {
            add(
                &format!("state = 0 AND expires_at > COALESCE(?, {NOW})"),
                &now,
                Type::INT8,
            );
        } else if state.is_some() {
            add("state = ?", &state, Type::INT2);
        }
        let passed = State::Passed.code();
        if filter.asked {
            add("state <> ?", &passed, Type::INT2);
        }
        if agent.is_some() {
            add("agent = ?", &agent, Type::TEXT);
        }
        if channel.is_some() {
            add("channel = ?", &channel, Type::TEXT);
        }
        if run.is_some() {
            add("run = ?", &run, Type::TEXT);
        }
        if after.is_some() {
            add(&format!("id {side} ?"), &after, Type::BYTEA);
        }
        parameters.push((&limit, Type::INT8));
        let limit_at = parameters.len();
        let mut page = format!(
            "SELECT * FROM approval WHERE {} ORDER BY id {order} LIMIT ${limit_at}",
            conditions.join(" AND ")
        );
        let most_bytes = filter
            .most_bytes
            .map(|most| i64::try_from(most).unwrap_or(i64::MAX));
        if let Some(most_bytes) = &most_bytes {
            parameters.push((most_bytes, Type::INT8));
            // Computing a length does not read the value. This size is at most `Approval::weight`, so the page may be
            // too large; it is cut by the exact weight below.
            page = format!(
                "SELECT * FROM (SELECT p.*, sum(size) OVER (ORDER BY id {order}) - size AS before FROM
                     (SELECT l.*, (SELECT coalesce(sum(octet_length(c.arguments) + coalesce(octet_length(c.original), 0)
                          + coalesce(octet_length(c.result), 0)), 0)
                      FROM call c WHERE c.tenant = l.tenant AND c.approval = l.id) AS size FROM ({page}) l) p) q
                 WHERE before < ${}",
                parameters.len()
            );
        }
        let sql = format!(
            "SELECT {APPROVAL}, {CALL} FROM ({page}) a {WITH_CALLS} ORDER BY a.id {order}, c.position"
        );
        let rows = self.run_query(&of, ReadQuery::Text(&sql, &parameters)).await?;
        let mut approvals = decode::joined_approvals(&rows)?;
        approvals.truncate(
            filter
                .count_within(approvals.iter().map(|approval| &**approval))
                .0,
        );
        Ok(approvals)
    }

    /// Returns the number of the tenant's approvals that wait for a decision and have not expired.
    pub(super) async fn count_pending(&self, tenant: &Tenant) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT count(*) FROM approval WHERE tenant = $1 AND state = 0 AND expires_at > COALESCE($2, {NOW})"
        );
        let now = self.test_clock();
        let parameters: &[(&(dyn ToSql + Sync), Type)] =
            &[(&tenant.as_str(), Type::TEXT), (&now, Type::INT8)];
        let rows = self
            .run_query(&VisibleTenants::one(tenant), ReadQuery::Text(&sql, parameters))
            .await?;
        let row = rows.first().ok_or_else(|| decode::impossible("no count"))?;
        let count: i64 = decode::get(row, 0)?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Returns the approvals with calls that may run, among those with events after the cursor. Reads them all with one
    /// query.
    pub(super) async fn released(&self, tenant: &Tenant, after: Cursor) -> Result<Released, StoreError> {
        let page = self.feed(tenant, after, LONGEST_PAGE).await?;
        let ids: BTreeSet<ApprovalId> = page
            .iter()
            .filter(|feed_event| feed_event.event.what.lets_calls_run())
            .map(|feed_event| feed_event.approval)
            .collect();
        let mut approvals = Vec::new();
        if !ids.is_empty() {
            let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
            let sql = format!(
                "SELECT {APPROVAL}, {CALL} FROM (SELECT * FROM approval WHERE tenant = $1 AND id = ANY($2) AND state = 1
                     AND due_at IS NOT NULL) a {WITH_CALLS} ORDER BY a.id, c.position"
            );
            let parameters: &[(&(dyn ToSql + Sync), Type)] =
                &[(&tenant.as_str(), Type::TEXT), (&ids, Type::BYTEA_ARRAY)];
            let rows = self
                .run_query(&VisibleTenants::one(tenant), ReadQuery::Text(&sql, parameters))
                .await?;
            approvals = decode::joined_approvals(&rows)?;
            approvals.retain(|approval| approval.is_released());
        }
        Ok(Released {
            approvals,
            upto: page.last().map_or(after, |last| last.cursor),
            is_more: page.len() == LONGEST_PAGE,
        })
    }

    /// Returns the time of the test clock in microseconds; `None` if the server's clock is used.
    fn test_clock(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().as_micros())
    }

    async fn run_prepared(
        &self,
        of: VisibleTenants,
        statement: fn(&ReadStatements) -> &Statement,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.run_query(&of, ReadQuery::Prepared(statement, parameters))
            .await
    }

    /// Runs a query on a connection that sees only the rows of the tenants in `of`. If the connection is lost, retries
    /// once on another connection.
    async fn run_query(&self, of: &VisibleTenants, query: ReadQuery<'_>) -> Result<Vec<Row>, StoreError> {
        match self.run(of, &query).await? {
            Err(error) if error.is_lost() => {}
            answer => return answer.map_err(|error| error.store_error()),
        }
        let second = self.run(of, &query).await?;
        second.map_err(|error| error.store_error())
    }

    async fn run(
        &self,
        of: &VisibleTenants,
        query: &ReadQuery<'_>,
    ) -> Result<Result<Vec<Row>, StatementError>, StoreError> {
        let reader = self.reader(of).await?;
        let _shown = match reader.show(of).await {
            Ok(visible) => visible,
            Err(error) => return Ok(Err(error)),
        };
        Ok(query.run(&reader).await)
    }

    async fn reader(&self, of: &VisibleTenants) -> Result<Arc<Reader>, StoreError> {
        let [first, second, all_tenants] = &self.slots;
        let slot = match self.next.fetch_add(1, Ordering::Relaxed) % 2 {
            _ if *of == VisibleTenants::all() => all_tenants,
            0 => first,
            _ => second,
        };
        let mut slot = slot.lock().await;
        if let Some(reader) = slot.as_ref().filter(|reader| !reader.session.is_closed()) {
            return Ok(reader.clone());
        }
        let session = self.connector.open().await?;
        let prepared = async {
            // Shorter than the limit for a row, so that the server ends a slow query and the connection is kept.
            let timeout = "SET statement_timeout = '4s'";
            session
                .within(limits::SHORT, |client| client.batch_execute(timeout))
                .await?;
            session.within(limits::PREPARE, ReadStatements::prepare).await
        };
        let statements = prepared
            .await
            .map_err(|error: StatementError| error.store_error())?;
        let reader = Arc::new(Reader {
            session,
            statements,
            visible: RwLock::default(),
        });
        *slot = Some(reader.clone());
        Ok(reader)
    }
}
