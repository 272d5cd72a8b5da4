//! Reads: a few shared connections, each with many questions under way at once.
//!
//! An approval and its calls come from one statement, so they are of one moment. Every question but two names the
//! tenant: those two serve waiters of this process, who got their ids from questions that did.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign::approval::SharedApproval;
use countersign::event::Event;
use countersign::id::{ApprovalId, Channel, Tenant};
use countersign::registry::{Entry, Kind};
use countersign::state::State;
use countersign::store::{Cursor, FeedEvent, Filter, LONGEST_PAGE, StoreError};
use countersign::time::{Clock, Time};
use tokio::sync::{Mutex, RwLock, RwLockReadGuard};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

use super::clock::ServerClock;
use super::connect::{Connector, Session};
use super::decode::{self, APPROVAL, CALL, EVENT_COLUMNS, WITH_CALLS};
use super::entries::{self, ENTRY};
use super::error::{is_lost, store_error};
use super::tenants::Tenants;

/// The most events one look at the feed gives.
const LONGEST_FEED: usize = 10_000;

/// The server's clock in microseconds; a constant within its statement, so that indexes can be used with it.
const NOW: &str = "(SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)";

type Parameters<'a> = [&'a (dyn ToSql + Sync)];

struct Statements {
    approval: Statement,
    approvals: Statement,
    pending_in: Statement,
    by_ids: Statement,
    versions: Statement,
    events: Statement,
    feed: Statement,
    entry: Statement,
    entries_named: Statement,
    entries: Statement,
}

impl Statements {
    async fn prepare(client: &Client) -> Result<Statements, Error> {
        let approvals = |condition: &str| {
            format!(
                "SELECT {APPROVAL}, {CALL} FROM approval a {WITH_CALLS} WHERE {condition} ORDER BY a.tenant, a.id, c.position"
            )
        };
        let of_several = format!(
            "SELECT {APPROVAL}, {CALL} FROM unnest($1::text[], $2::bytea[]) AS n(tenant, id)
             JOIN approval a ON a.tenant = n.tenant AND a.id = n.id {WITH_CALLS} ORDER BY a.tenant, a.id, c.position"
        );
        let pending = format!(
            "a.tenant = $1 AND a.channel = $2 AND a.state = 0 AND a.expires_at > COALESCE($3::bigint, {NOW})"
        );
        let events =
            format!("SELECT {EVENT_COLUMNS} FROM event WHERE tenant = $1 AND approval = $2 ORDER BY number");
        // A transaction that is still under way may commit behind this one with a smaller number. So the feed ends
        // before the oldest that is under way: whatever commits later stands behind it.
        let feed = format!(
            "SELECT xact::text::bigint, seq, approval, {EVENT_COLUMNS} FROM event
             WHERE tenant = $1 AND (xact, seq) > ($2::text::xid8, $3::integer)
               AND xact < (SELECT pg_snapshot_xmin(pg_current_snapshot()))
             ORDER BY xact, seq LIMIT $4"
        );
        let there = format!("(e.expires_at IS NULL OR e.expires_at > COALESCE($3::bigint, {NOW}))");
        let entry = format!("SELECT {ENTRY} FROM entry e WHERE e.kind = $1 AND e.key = $2 AND {there}");
        let entries_named = format!(
            "SELECT {ENTRY} FROM unnest($1::smallint[], $2::text[]) AS w(kind, key)
             JOIN entry e ON e.kind = w.kind AND e.key = w.key
             WHERE e.expires_at IS NULL OR e.expires_at > COALESCE($3::bigint, {NOW})"
        );
        let entries = format!(
            "SELECT {ENTRY} FROM entry e WHERE e.tenant = $1 AND e.kind = $2 AND e.key > $4 AND {there}
             ORDER BY e.key LIMIT $5"
        );
        Ok(Statements {
            approval: client.prepare(&approvals("a.tenant = $1 AND a.id = $2")).await?,
            approvals: client.prepare(&of_several).await?,
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
    statements: Statements,
    /// Whose rows this connection shows. Questions about the same tenants are under way together; the first about others
    /// waits until they are answered.
    shown: RwLock<Tenants>,
}

impl Reader {
    /// Lets the connection see the rows of these tenants while the returned guard is held.
    async fn show(&self, tenants: &Tenants) -> Result<Option<RwLockReadGuard<'_, Tenants>>, Error> {
        if tenants.is_nobody() {
            return Ok(None);
        }
        let shown = self.shown.read().await;
        if *shown == *tenants {
            return Ok(Some(shown));
        }
        drop(shown);
        let mut shown = self.shown.write().await;
        if *shown != *tenants {
            // Not known until the server has answered: whoever asks may give up meanwhile.
            *shown = Tenants::default();
            tenants.show(&self.session.client).await?;
            shown.clone_from(tenants);
        }
        Ok(Some(shown.downgrade()))
    }
}

/// Something to ask, on whichever connection.
enum Question<'a> {
    Prepared(fn(&Statements) -> &Statement, &'a Parameters<'a>),
    Text(&'a str, &'a [(&'a (dyn ToSql + Sync), Type)]),
}

impl Question<'_> {
    async fn put(&self, reader: &Reader) -> Result<Vec<Row>, Error> {
        let client = &reader.session.client;
        match self {
            Question::Prepared(statement, parameters) => {
                client.query(statement(&reader.statements), parameters).await
            }
            Question::Text(sql, parameters) => client.query_typed(sql, parameters).await,
        }
    }
}

/// The connections that read.
pub(super) struct Readers {
    connector: Arc<Connector>,
    clock: Option<Arc<dyn Clock>>,
    server_clock: Arc<ServerClock>,
    /// Two for questions that name a tenant, one for those that do not.
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

    pub(super) async fn approvals(
        &self,
        ids: &BTreeSet<&(Tenant, ApprovalId)>,
    ) -> Result<Vec<SharedApproval>, StoreError> {
        let tenants: Vec<&str> = ids.iter().map(|(tenant, _)| tenant.as_str()).collect();
        let of = Tenants::several(ids.iter().map(|(tenant, _)| tenant));
        let ids: Vec<&[u8]> = ids.iter().map(|(_, id)| id.as_bytes().as_slice()).collect();
        let rows = match (tenants.as_slice(), ids.as_slice()) {
            ([tenant], [id]) => {
                self.query(of, |statements| &statements.approval, &[tenant, id])
                    .await
            }
            _ => {
                self.query(of, |statements| &statements.approvals, &[&tenants, &ids])
                    .await
            }
        };
        decode::joined(&rows?)
    }

    pub(super) async fn pending_in(
        &self,
        tenant: &Tenant,
        channel: &Channel,
    ) -> Result<Option<SharedApproval>, StoreError> {
        let parameters: &Parameters<'_> = &[&tenant.as_str(), &channel.as_str(), &self.moved_clock()];
        let rows = self
            .query(
                Tenants::one(tenant),
                |statements| &statements.pending_in,
                parameters,
            )
            .await?;
        Ok(decode::joined(&rows)?.pop())
    }

    pub(super) async fn by_ids(&self, ids: &[ApprovalId]) -> Result<Vec<SharedApproval>, StoreError> {
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        let rows = self
            .query(Tenants::all(), |statements| &statements.by_ids, &[&ids])
            .await?;
        decode::joined(&rows)
    }

    pub(super) async fn versions(&self, ids: &[ApprovalId]) -> Result<Vec<(ApprovalId, u32)>, StoreError> {
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        let rows = self
            .query(Tenants::all(), |statements| &statements.versions, &[&ids])
            .await?;
        let version = |row: &Row| Ok((decode::id(row, 0)?, decode::count(decode::get(row, 1)?)?));
        rows.iter().map(version).collect()
    }

    pub(super) async fn events(&self, tenant: &Tenant, id: ApprovalId) -> Result<Vec<Event>, StoreError> {
        let id = id.as_bytes().as_slice();
        let parameters: &Parameters<'_> = &[&tenant.as_str(), &id];
        let rows = self
            .query(Tenants::one(tenant), |statements| &statements.events, parameters)
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
            .query(Tenants::one(tenant), |statements| &statements.feed, parameters)
            .await?;
        rows.iter().map(decode::feed_event).collect()
    }

    /// Everything older than the oldest transaction under way has been given out, or never will be.
    pub(super) async fn feed_end(&self) -> Result<Cursor, StoreError> {
        let sql = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text";
        let rows = self.ask(&Tenants::default(), Question::Text(sql, &[])).await?;
        let row = rows.first().ok_or_else(|| decode::impossible("no snapshot"))?;
        let oldest: String = decode::get(row, 0)?;
        let oldest: u64 = oldest.parse().map_err(|_| decode::impossible("no snapshot"))?;
        Ok(Cursor {
            transaction: oldest.saturating_sub(1),
            sequence: u64::try_from(i32::MAX).unwrap_or_default(),
        })
    }

    pub(super) async fn entry(&self, kind: Kind, key: &str) -> Result<Option<Entry>, StoreError> {
        // A key that cannot be stored is not there; the server would refuse the question.
        if key.contains('\0') {
            return Ok(None);
        }
        let parameters: &Parameters<'_> = &[&kind.code(), &key, &self.moved_clock()];
        let rows = self
            .query(Tenants::default(), |statements| &statements.entry, parameters)
            .await?;
        rows.first().map(entries::read).transpose()
    }

    /// Several entries with one question, in the order asked for.
    pub(super) async fn entries_named(
        &self,
        names: &[(Kind, String)],
    ) -> Result<Vec<Option<Entry>>, StoreError> {
        let asked = names.iter().filter(|(_, key)| !key.contains('\0'));
        let (kinds, keys): (Vec<i16>, Vec<&str>) =
            asked.map(|(kind, key)| (kind.code(), key.as_str())).unzip();
        let parameters: &Parameters<'_> = &[&kinds, &keys, &self.moved_clock()];
        let rows = self
            .query(
                Tenants::default(),
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
        let parameters: &Parameters<'_> = &[
            &tenant.as_str(),
            &kind.code(),
            &self.moved_clock(),
            &after,
            &limit,
        ];
        let rows = self
            .query(Tenants::default(), |statements| &statements.entries, parameters)
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
        let rows = self.ask(&Tenants::default(), Question::Text(&sql, &[])).await?;
        let row = rows.first().ok_or_else(|| decode::impossible("no clock"))?;
        let now = Time::from_micros(decode::get(row, 0)?);
        self.server_clock.hear(now);
        Ok(now)
    }

    pub(super) async fn list(
        &self,
        tenant: &Tenant,
        filter: &Filter,
    ) -> Result<Vec<SharedApproval>, StoreError> {
        let of = Tenants::one(tenant);
        let tenant = tenant.as_str();
        let state = filter.state.map(State::code);
        let agent = filter.agent.as_ref().map(|agent| agent.as_str());
        let channel = filter.channel.as_ref().map(|channel| channel.as_str());
        let run = filter.run.as_ref().map(|run| run.as_str());
        let after = filter.after.as_ref().map(|id| id.as_bytes().as_slice());
        let now = self.moved_clock();
        let limit = i64::try_from(filter.page()).unwrap_or(i64::MAX);
        let order = if filter.oldest_first() { "ASC" } else { "DESC" };
        let side = if filter.oldest_first() { '>' } else { '<' };

        // Only what is asked for is in the text, so that the planner can see which index fits.
        let mut conditions = vec!["tenant = $1".to_owned()];
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
            // Lengths are known without reading the values. This counts less than `Approval::weight` does, never more,
            // so the page below is cut where that says.
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
        let rows = self.ask(&of, Question::Text(&sql, &parameters)).await?;
        let mut approvals = decode::joined(&rows)?;
        approvals.truncate(
            filter
                .count_within(approvals.iter().map(|approval| &**approval))
                .0,
        );
        Ok(approvals)
    }

    /// The clock that tests move, in microseconds; nothing when the server's counts.
    fn moved_clock(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().as_micros())
    }

    async fn query(
        &self,
        of: Tenants,
        statement: fn(&Statements) -> &Statement,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.ask(&of, Question::Prepared(statement, parameters)).await
    }

    /// Asks about rows of these tenants on one of the connections; when that turns out to be gone, once more on another.
    async fn ask(&self, of: &Tenants, question: Question<'_>) -> Result<Vec<Row>, StoreError> {
        match self.put(of, &question).await? {
            Err(error) if is_lost(&error) => {}
            answer => return answer.map_err(|error| store_error(&error)),
        }
        let second = self.put(of, &question).await?;
        second.map_err(|error| store_error(&error))
    }

    async fn put(
        &self,
        of: &Tenants,
        question: &Question<'_>,
    ) -> Result<Result<Vec<Row>, Error>, StoreError> {
        let reader = self.reader(of).await?;
        let _shown = match reader.show(of).await {
            Ok(shown) => shown,
            Err(error) => return Ok(Err(error)),
        };
        Ok(question.put(&reader).await)
    }

    async fn reader(&self, of: &Tenants) -> Result<Arc<Reader>, StoreError> {
        let [first, second, every] = &self.slots;
        let slot = match self.next.fetch_add(1, Ordering::Relaxed) % 2 {
            _ if *of == Tenants::all() => every,
            0 => first,
            _ => second,
        };
        let mut slot = slot.lock().await;
        if let Some(reader) = slot.as_ref().filter(|reader| !reader.session.client.is_closed()) {
            return Ok(reader.clone());
        }
        let session = self.connector.open().await?;
        let statements = Statements::prepare(&session.client).await;
        let statements = statements.map_err(|error| store_error(&error))?;
        let reader = Arc::new(Reader {
            session,
            statements,
            shown: RwLock::default(),
        });
        *slot = Some(reader.clone());
        Ok(reader)
    }
}
