//! SQL statements for registry entries.
//!
//! Input: a connection, and a kind, key or tenant. Output: the entries found, or changed rows.
//! Which changes are permitted is decided by the library, and the caller begins and commits transactions.

use countersign::id::Tenant;
use countersign::registry::{Entry, Kind};
use countersign::store::LONGEST_PAGE;
use countersign::time::Time;
use rusqlite::{Connection, Row, params};

use super::fault::damaged;
use super::load::LoadError;

const BY_KEY: &str =
    "SELECT kind, key, tenant, body, version, expires_at FROM entry WHERE kind = ?1 AND key = ?2";
const LIST: &str = "SELECT kind, key, tenant, body, version, expires_at FROM entry INDEXED BY entry_tenant
    WHERE tenant = ?1 AND kind = ?2 AND key > ?3 AND (expires_at IS NULL OR expires_at > ?4)
    ORDER BY key LIMIT ?5";
const EXPIRED: &str =
    "SELECT kind, key FROM entry WHERE expires_at <= ?1 ORDER BY expires_at, kind, key LIMIT ?2";
const UPSERT: &str = "INSERT INTO entry (kind, key, tenant, body, version, expires_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (kind, key) DO UPDATE SET tenant = excluded.tenant, body = excluded.body,
        version = excluded.version, expires_at = excluded.expires_at";
const REMOVE_KIND: &str = "DELETE FROM entry WHERE kind = ?1";
const REMOVE: &str = "DELETE FROM entry WHERE kind = ?1 AND key = ?2";

/// Returns the entry with this kind and key, even if it has expired; `None` if there is no such entry.
pub(super) fn find(connection: &Connection, kind: Kind, key: &str) -> Result<Option<Entry>, LoadError> {
    let mut statement = connection.prepare_cached(BY_KEY)?;
    let mut rows = statement.query(params![kind.code(), key])?;
    rows.next()?.map(entry).transpose()
}

/// Returns a page of a tenant's entries that have not expired, ordered by key.
pub(super) fn list(
    connection: &Connection,
    tenant: &Tenant,
    kind: Kind,
    after: &str,
    now: Time,
    limit: usize,
) -> Result<Vec<Entry>, LoadError> {
    let limit = i64::try_from(limit.min(LONGEST_PAGE)).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(LIST)?;
    let mut rows = statement.query(params![
        tenant.as_str(),
        kind.code(),
        after,
        now.as_micros(),
        limit
    ])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(entry(row)?);
    }
    Ok(entries)
}

/// Returns up to `limit` expired entries, the longest expired first.
pub(super) fn expired(
    connection: &Connection,
    now: Time,
    limit: usize,
) -> Result<Vec<(Kind, String)>, LoadError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(EXPIRED)?;
    let mut rows = statement.query((now.as_micros(), limit))?;
    let mut expired = Vec::new();
    while let Some(row) = rows.next()? {
        expired.push((kind(row)?, row.get(1)?));
    }
    Ok(expired)
}

pub(super) fn upsert(connection: &Connection, entry: &Entry) -> Result<(), LoadError> {
    connection.prepare_cached(UPSERT)?.execute(params![
        entry.kind.code(),
        entry.key,
        entry.tenant.as_str(),
        &*entry.body,
        entry.version,
        entry.expires_at.map(Time::as_micros),
    ])?;
    Ok(())
}

pub(super) fn remove_kind(connection: &Connection, kind: Kind) -> Result<(), LoadError> {
    connection.prepare_cached(REMOVE_KIND)?.execute([kind.code()])?;
    Ok(())
}

pub(super) fn remove(connection: &Connection, kind: Kind, key: &str) -> Result<(), LoadError> {
    connection
        .prepare_cached(REMOVE)?
        .execute(params![kind.code(), key])?;
    Ok(())
}

fn entry(row: &Row<'_>) -> Result<Entry, LoadError> {
    let tenant: String = row.get(2)?;
    let expires_at: Option<i64> = row.get(5)?;
    Ok(Entry {
        kind: kind(row)?,
        key: row.get(1)?,
        tenant: Tenant::new(tenant).map_err(damaged)?,
        body: row.get_ref(3)?.as_blob().map_err(damaged)?.into(),
        version: row.get(4)?,
        expires_at: expires_at.map(Time::from_micros),
    })
}

fn kind(row: &Row<'_>) -> Result<Kind, LoadError> {
    let code: i16 = row.get(0)?;
    Ok(Kind::from_code(code).ok_or_else(|| damaged(format!("an entry of kind {code}")))?)
}

#[cfg(test)]
mod tests {
    use super::super::load::tests::check;
    use super::*;

    #[test]
    fn f16_statements_read_only_the_rows_they_return() {
        check(BY_KEY, "SEARCH entry USING PRIMARY KEY (kind=? AND key=?)");
        check(
            LIST,
            "SEARCH entry USING INDEX entry_tenant (tenant=? AND kind=? AND key>?)",
        );
        // A sort is needed only among entries that expire at the same moment.
        check(
            EXPIRED,
            "SEARCH entry USING COVERING INDEX entry_expiry (expires_at<?)",
        );
    }
}
