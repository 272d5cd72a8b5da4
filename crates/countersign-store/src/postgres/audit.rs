//! Audits a database: checks every row against other rows that state the same fact, in one read-only transaction.
//!
//! Input: a connection that is used for nothing else and sees one snapshot with the rows of all tenants. Output: the
//! faults found. Pages and the content of indexes are not checked, because PostgreSQL has its own tool for that
//! (`amcheck`).

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use countersign::id::Tenant;
use countersign::registry::Kind;
use countersign::store::audit::{Fault, LogCheck, StoredApproval, StoredCall, StoredEvent, check};
use countersign::store::record::CallColumns;
use countersign::store::{Audit, AuditProgress, Audited, StoreError};
use futures_util::TryStreamExt as _;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connect::Session;
use super::decode::get;
use super::error::StatementError;
use super::limits;
use super::log::{HEAD, StoredLogHead, entry_leaf};
use super::tenants::VisibleTenants;

/// Number of approvals read per query.
const PAGE: usize = 1_000;

const BEGIN: &str =
    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; RESET enable_seqscan;
    RESET enable_hashjoin; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

const APPROVAL: &str =
    "tenant, id, channel, agent, run, state, version, due_at, key, body, expires_at, undoes FROM approval";
const CALL: &str =
    "tenant, approval, position, state, tool, arguments, original, result, sealed, body FROM call";
const EVENT: &str = "tenant, approval, number, at, policy, by, what, link, content FROM event";
const LOG: &str =
    "SELECT xact::text::bigint, seq, tenant, approval, number, link FROM event ORDER BY xact, seq";

/// Indexes that the migrations create.
const INDEXES: [&str; 15] = [
    "approval_channel",
    "approval_due",
    "approval_id",
    "approval_key",
    "approval_pending",
    "approval_pkey",
    "approval_run",
    "call_pkey",
    "entry_expiry",
    "entry_pkey",
    "entry_tenant",
    "event_feed",
    "event_pkey",
    "log_pkey",
    "migration_pkey",
];

/// An approval's tenant and id.
type TenantAndIdBytes = (String, Vec<u8>);

/// Audits the database over this connection, which must not be used for anything else meanwhile. Damage that makes it
/// impossible to continue ends the audit and is returned as a fault, not as an error.
pub(super) async fn run(
    session: &Session,
    audit: &Audit,
    progress: &(dyn Fn(AuditProgress) + Send + Sync),
) -> Result<Audited, StoreError> {
    match audit_snapshot(session, audit, progress).await {
        Err(StoreError::Impossible(message)) => Ok(Audited::ended_by(Fault::of_damage(message))),
        found => found,
    }
}

async fn audit_snapshot(
    session: &Session,
    audit: &Audit,
    progress: &(dyn Fn(AuditProgress) + Send + Sync),
) -> Result<Audited, StoreError> {
    let failed = |error: StatementError| error.store_error();
    session
        .restrict_to(&VisibleTenants::all())
        .await
        .map_err(failed)?;
    let begin = session.within(limits::SHORT, |client| client.batch_execute(BEGIN));
    begin.await.map_err(failed)?;
    let head = session.within(limits::SHORT, |client| client.query_opt(HEAD, &[]));
    let stored_head = match StoredLogHead::read(head.await.map_err(failed)?.as_ref()) {
        Ok(stored_head) => Ok(stored_head),
        // An unreadable head is reported as a fault, and the rest is audited.
        Err(StoreError::Impossible(message)) => Err(Fault {
            code: "log_head",
            ..Fault::of_damage(message)
        }),
        Err(error) => return Err(error),
    };
    let mut audit_run = AuditRun {
        session,
        audit,
        audited: match &stored_head {
            Ok(stored_head) => Audited::new(stored_head.head.checkpoint()),
            Err(fault) => Audited::ended_by(fault.clone()),
        },
    };
    audit_run.check_schema().await?;
    audit_run.check_entries().await?;
    match audit.sample {
        Some(count) => audit_run.check_sample(count).await?,
        None => {
            audit_run.check_approvals(progress).await?;
            if audit.tenant.is_none()
                && let Ok(stored_head) = stored_head
            {
                audit_run.check_log(stored_head).await?;
            }
        }
    }
    Ok(audit_run.audited)
}

struct AuditRun<'a> {
    session: &'a Session,
    audit: &'a Audit,
    audited: Audited,
}

impl AuditRun<'_> {
    async fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, StoreError> {
        let rows = self
            .session
            .within(limits::AUDIT, |client| client.query(sql, parameters));
        rows.await.map_err(|error| error.store_error())
    }

    /// Checks all approvals in the order of tenant and id, a page at a time, each with its calls and events.
    async fn check_approvals(
        &mut self,
        progress: &(dyn Fn(AuditProgress) + Send + Sync),
    ) -> Result<(), StoreError> {
        let total = self.query("SELECT count(*) FROM approval", &[]).await?;
        let total = total.first().map_or(Ok(0), |row| get::<i64>(row, 0))?;
        let total = u64::try_from(total).unwrap_or_default();
        let mut after = TenantAndIdBytes::default();
        let mut done = 0;
        loop {
            let sql =
                format!("SELECT {APPROVAL} WHERE (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT {PAGE}");
            let approvals = self.query(&sql, &[&after.0, &after.1]).await?;
            let last = approvals.last().filter(|_| approvals.len() == PAGE);
            let upto = last.map(tenant_and_id).transpose()?;
            let (calls, events) = self.between(&after, upto.as_ref()).await?;
            done += approvals.len() as u64;
            self.check_page(&approvals, &calls, &events)?;
            progress(AuditProgress {
                done,
                total: total.max(done),
            });
            match upto {
                Some(upto) => after = upto,
                None => return Ok(()),
            }
        }
    }

    /// Returns the calls and events of the approvals after `after`, up to and including `upto`, where approvals are
    /// ordered by tenant and id. Without `upto`, returns those of all approvals after `after`.
    async fn between(
        &self,
        after: &TenantAndIdBytes,
        upto: Option<&TenantAndIdBytes>,
    ) -> Result<(Vec<Row>, Vec<Row>), StoreError> {
        let after_condition = "(tenant, approval) > ($1, $2)";
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&after.0, &after.1];
        let condition = match upto {
            None => after_condition.to_owned(),
            Some(upto) => {
                parameters.extend([&upto.0 as &(dyn ToSql + Sync), &upto.1]);
                format!("{after_condition} AND (tenant, approval) <= ($3, $4)")
            }
        };
        let calls = format!("SELECT {CALL} WHERE {condition}");
        let events = format!("SELECT {EVENT} WHERE {condition}");
        Ok((
            self.query(&calls, &parameters).await?,
            self.query(&events, &parameters).await?,
        ))
    }

    /// Checks the newest `count` approvals, and up to `count` more that are picked at random from the table.
    async fn check_sample(&mut self, count: u32) -> Result<(), StoreError> {
        let newest = format!("SELECT tenant, id FROM approval ORDER BY id DESC LIMIT {count}");
        let share = "SELECT least(100, 400.0 * $1::bigint / greatest(reltuples, 1))::real FROM pg_class
            WHERE oid = 'countersign.approval'::regclass";
        let share = self.query(share, &[&i64::from(count)]).await?;
        let share: f32 = share.first().map_or(Ok(100.0), |row| get(row, 0))?;
        let any = format!("SELECT tenant, id FROM approval TABLESAMPLE SYSTEM ({share}) LIMIT {count}");
        let mut picked_ids = BTreeSet::new();
        for sql in [newest, any] {
            for row in self.query(&sql, &[]).await? {
                picked_ids.insert(tenant_and_id(&row)?);
            }
        }
        let (tenants, ids): (Vec<String>, Vec<Vec<u8>>) = picked_ids.into_iter().unzip();
        let picked = "unnest($1::text[], $2::bytea[]) AS n(of, of_id)";
        let of = |columns: &str, id: &str| {
            let (columns, table) = columns.split_once(" FROM ").unwrap_or((columns, "approval"));
            format!("SELECT {columns} FROM {picked} JOIN {table} ON tenant = n.of AND {id} = n.of_id")
        };
        let approvals = self.query(&of(APPROVAL, "id"), &[&tenants, &ids]).await?;
        let calls = self.query(&of(CALL, "approval"), &[&tenants, &ids]).await?;
        let events = self.query(&of(EVENT, "approval"), &[&tenants, &ids]).await?;
        self.check_page(&approvals, &calls, &events)
    }

    fn check_page(&mut self, approvals: &[Row], calls: &[Row], events: &[Row]) -> Result<(), StoreError> {
        let mut calls = grouped(calls, call, |call| call.position)?;
        let mut events = grouped(events, event, |event| event.number)?;
        for row in approvals {
            let row = approval(row)?;
            let of = (row.tenant.clone(), row.id.clone());
            let (calls, events) = (calls.remove(&of), events.remove(&of));
            if self
                .audit
                .tenant
                .as_ref()
                .is_some_and(|tenant| tenant.as_str() != row.tenant)
            {
                continue;
            }
            let events = events.unwrap_or_default();
            self.audited.approvals += 1;
            self.audited.events += events.len() as u64;
            if let Some(fault) = check(&row, calls.unwrap_or_default(), events) {
                self.audited.add(fault);
            }
        }
        if self.audit.tenant.is_none() {
            for (tenant, id) in calls.keys().chain(events.keys()) {
                let message = "there are calls or events, and no approval";
                self.audited
                    .add(Fault::of_approval(tenant, id, "lost_rows", message));
            }
        }
        Ok(())
    }

    async fn check_log(&mut self, stored_head: StoredLogHead) -> Result<(), StoreError> {
        let failed = |error: StatementError| error.store_error();
        let mut log = LogCheck::new(stored_head.head, self.audit.expected);
        let nothing: [&(dyn ToSql + Sync); 0] = [];
        let session = self.session;
        let rows = session.within(limits::AUDIT, |client| client.query_raw(LOG, nothing));
        let mut rows = pin!(rows.await.map_err(failed)?);
        let (mut last, mut before, mut is_in_order) = ((0, 0), (0i64, 0i32), true);
        while let Some(row) = session
            .within(limits::AUDIT, |_| rows.try_next())
            .await
            .map_err(failed)?
        {
            let position: (i64, i32) = (get(&row, 0)?, get(&row, 1)?);
            // Each transaction numbers its events from 1 on.
            is_in_order &= match position.0 == before.0 {
                true => position.1 == before.1.saturating_add(1),
                false => position.1 == 1,
            };
            before = position;
            match position <= stored_head.last {
                true => {
                    log.push(entry_leaf(&row, 2)?);
                    last = position;
                }
                false => self.audited.unlogged += 1,
            }
        }
        if !is_in_order {
            let message = "the events of a transaction are not numbered from 1 without gaps";
            self.audited.add(Fault::of_store("log_order", message));
        }
        if last != stored_head.last {
            let message = "the log does not end with the last of its events";
            self.audited.add(Fault::of_store("log_end", message));
        }
        for fault in log.faults() {
            self.audited.add(fault);
        }
        Ok(())
    }

    async fn check_schema(&mut self) -> Result<(), StoreError> {
        let indexes = "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE c.relnamespace = 'countersign'::regnamespace AND i.indisvalid AND i.indisready";
        let found = self.query(indexes, &[]).await?;
        let found = found
            .iter()
            .map(|row| get::<String>(row, 0))
            .collect::<Result<BTreeSet<_>, _>>()?;
        for index in INDEXES {
            if !found.contains(index) {
                let message = format!("the index `{index}` is missing or not valid");
                self.audited.add(Fault::of_schema(message));
            }
        }
        let foreign_objects =
            "SELECT 'trigger ' || t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
            WHERE c.relnamespace = 'countersign'::regnamespace AND NOT t.tgisinternal
            UNION ALL SELECT 'rule ' || r.rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
            WHERE c.relnamespace = 'countersign'::regnamespace AND c.relkind = 'r'";
        for row in self.query(foreign_objects, &[]).await? {
            let message = format!("`{}` was not created by this program", get::<String>(&row, 0)?);
            self.audited.add(Fault::of_schema(message));
        }
        let without_row_security =
            "SELECT relname::text FROM pg_class WHERE relnamespace = 'countersign'::regnamespace
            AND relname IN ('approval', 'call', 'event') AND NOT (relrowsecurity AND relforcerowsecurity)";
        for row in self.query(without_row_security, &[]).await? {
            let message = format!("row security is off for `{}`", get::<String>(&row, 0)?);
            self.audited.add(Fault::of_schema(message));
        }
        Ok(())
    }

    /// Checks that all entries have a known kind and a valid tenant. Nothing else is checked, because entries have no
    /// history to compare with.
    async fn check_entries(&mut self) -> Result<(), StoreError> {
        for row in self.query("SELECT DISTINCT kind, tenant FROM entry", &[]).await? {
            let kind: i16 = get(&row, 0)?;
            let is_known = Kind::ALL.iter().any(|known| known.code() == kind);
            if !is_known || Tenant::new(get::<String>(&row, 1)?).is_err() {
                let message = format!("an entry of kind {kind} cannot be read");
                self.audited.add(Fault::of_store("entry", message));
            }
        }
        Ok(())
    }
}

fn tenant_and_id(row: &Row) -> Result<TenantAndIdBytes, StoreError> {
    Ok((get(row, 0)?, get(row, 1)?))
}

/// Groups rows by approval, each group sorted by `position`.
fn grouped<T>(
    rows: &[Row],
    read: fn(&Row) -> Result<T, StoreError>,
    position: fn(&T) -> i64,
) -> Result<BTreeMap<TenantAndIdBytes, Vec<T>>, StoreError> {
    let mut groups: BTreeMap<TenantAndIdBytes, Vec<T>> = BTreeMap::new();
    for row in rows {
        groups.entry(tenant_and_id(row)?).or_default().push(read(row)?);
    }
    groups.values_mut().for_each(|group| group.sort_by_key(position));
    Ok(groups)
}

fn approval(row: &Row) -> Result<StoredApproval, StoreError> {
    Ok(StoredApproval {
        tenant: get(row, 0)?,
        id: get(row, 1)?,
        channel: get(row, 2)?,
        agent: get(row, 3)?,
        run: get(row, 4)?,
        state: get::<i16>(row, 5)?.into(),
        version: get::<i32>(row, 6)?.into(),
        due_at: get(row, 7)?,
        key: get(row, 8)?,
        body: get(row, 9)?,
        expires_at: Some(get(row, 10)?),
        undoes: Some(get(row, 11)?),
    })
}

fn call(row: &Row) -> Result<StoredCall, StoreError> {
    Ok(StoredCall {
        position: get::<i16>(row, 2)?.into(),
        columns: CallColumns {
            state: get(row, 3)?,
            tool: get(row, 4)?,
            arguments: get(row, 5)?,
            original: get(row, 6)?,
            result: get(row, 7)?,
            sealed: get(row, 8)?,
        },
        body: get(row, 9)?,
    })
}

fn event(row: &Row) -> Result<StoredEvent, StoreError> {
    let policy: &[u8] = get(row, 4)?;
    let link: &[u8] = get(row, 7)?;
    let content: Option<&[u8]> = get(row, 8)?;
    Ok(StoredEvent {
        number: get::<i32>(row, 2)?.into(),
        at: get(row, 3)?,
        policy: policy.try_into().ok(),
        by: get(row, 5)?,
        what: get(row, 6)?,
        link: link.try_into().unwrap_or_default(),
        content: content.and_then(|content| content.try_into().ok()),
    })
}
