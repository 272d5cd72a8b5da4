//! Locks, reads and writes registry entries, in the same transaction as the approvals of a group of commands.
//!
//! Input: the entries that a group of commands names, and the changes that its commands make to them. Output: the
//! changes to write. The library decides which changes are allowed, and `transaction` begins and commits the
//! transaction.

use std::collections::{BTreeSet, HashMap};

use countersign::id::Tenant;
use countersign::registry::{Entry, Kind};
use countersign::store::StoreError;
use countersign::time::Time;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use super::composite_rows::number;
use super::decode;

/// Kind and key of an entry.
pub(super) type EntryKey = (Kind, String);

/// Columns of an entry, in the order [`read`] reads them.
pub(super) const ENTRY: &str = "e.kind, e.key, e.tenant, e.body, e.version, e.expires_at";

const REMOVE_KINDS: &str = "DELETE FROM entry WHERE kind = ANY($1::smallint[])";

const REMOVE: &str = "
    DELETE FROM entry e USING unnest($1::smallint[], $2::text[]) AS r(kind, key)
    WHERE e.kind = r.kind AND e.key = r.key";

const UPSERT: &str = "
    INSERT INTO entry (kind, key, tenant, body, version, expires_at)
    SELECT * FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bytea[], $5::integer[], $6::bigint[])
    ON CONFLICT (kind, key) DO UPDATE
    SET tenant = excluded.tenant, body = excluded.body, version = excluded.version, expires_at = excluded.expires_at";

/// The statements for entries, prepared on one connection.
pub(super) struct EntryStatements {
    lock_named: Statement,
    read_named: Statement,
    lock_due: Statement,
    upsert: Statement,
    remove: Statement,
    remove_kinds: Statement,
}

impl EntryStatements {
    pub(super) async fn prepare(client: &Client) -> Result<EntryStatements, Error> {
        let named = format!(
            "SELECT {ENTRY} FROM unnest($1::smallint[], $2::text[]) AS w(kind, key)
             JOIN entry e ON e.kind = w.kind AND e.key = w.key"
        );
        // Locked rows are skipped: another transaction is about to replace them, and the next sweep comes soon.
        let due = format!(
            "SELECT {ENTRY} FROM entry e
             WHERE e.expires_at <= COALESCE($1::bigint, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
             ORDER BY e.expires_at LIMIT $2 FOR UPDATE SKIP LOCKED"
        );
        Ok(EntryStatements {
            lock_named: client
                .prepare(&format!("{named} ORDER BY e.kind, e.key FOR UPDATE OF e"))
                .await?,
            read_named: client.prepare(&named).await?,
            lock_due: client.prepare(&due).await?,
            upsert: client.prepare(UPSERT).await?,
            remove: client.prepare(REMOVE).await?,
            remove_kinds: client.prepare(REMOVE_KINDS).await?,
        })
    }

    /// Locks and reads the named entries. An entry that does not exist yet is protected by an advisory lock; see
    /// `lock`.
    pub(super) async fn lock_named(
        &self,
        client: &Client,
        needed: &BTreeSet<EntryKey>,
    ) -> Result<Vec<Row>, Error> {
        find(client, &self.lock_named, needed).await
    }

    /// Reads the named entries without locking them, so that commands that change an entry do not wait for this one,
    /// nor this one for them.
    pub(super) async fn read_named(
        &self,
        client: &Client,
        needed: &BTreeSet<EntryKey>,
    ) -> Result<Vec<Row>, Error> {
        find(client, &self.read_named, needed).await
    }

    /// Locks and reads up to `limit` entries that have expired at `now` (in microseconds), or by the server's clock if
    /// `now` is `None`. Skips entries that another transaction has locked.
    pub(super) async fn lock_due(
        &self,
        client: &Client,
        now: Option<i64>,
        limit: i64,
    ) -> Result<Vec<Row>, Error> {
        client.query(&self.lock_due, &[&now, &limit]).await
    }

    /// Deletes the entries that a group removed.
    pub(super) async fn remove(&self, client: &Client, changes: &EntryChanges) -> Result<(), Error> {
        // If a whole kind is removed, that is the group's only change to entries; see `GroupEntries::clear`.
        if !changes.1.is_empty() {
            let kinds: Vec<i16> = changes.1.iter().map(|kind| kind.code()).collect();
            return client.execute(&self.remove_kinds, &[&kinds]).await.map(|_| ());
        }
        let removed = changes.0.iter().filter(|(_, entry)| entry.is_none());
        let removed: Vec<&EntryKey> = removed.map(|(key, _)| key).collect();
        if removed.is_empty() {
            return Ok(());
        }
        let kinds: Vec<i16> = removed.iter().map(|(kind, _)| kind.code()).collect();
        let keys: Vec<&str> = removed.iter().map(|(_, key)| key.as_str()).collect();
        client.execute(&self.remove, &[&kinds, &keys]).await.map(|_| ())
    }

    /// Inserts or updates the entries that a group added or changed.
    pub(super) async fn upsert(&self, client: &Client, changes: &EntryChanges) -> Result<(), Error> {
        let upserted: Vec<&Entry> = changes.0.iter().filter_map(|(_, entry)| entry.as_ref()).collect();
        if upserted.is_empty() {
            return Ok(());
        }
        let parameters: [&(dyn ToSql + Sync); 6] = [
            &column(&upserted, |entry| entry.kind.code()),
            &column(&upserted, |entry| entry.key.as_str()),
            &column(&upserted, |entry| entry.tenant.as_str()),
            &column(&upserted, |entry| &*entry.body),
            &column(&upserted, |entry| number(entry.version)),
            &column(&upserted, |entry| entry.expires_at.map(Time::as_micros)),
        ];
        client.execute(&self.upsert, &parameters).await.map(|_| ())
    }
}

async fn find(
    client: &Client,
    statement: &Statement,
    needed: &BTreeSet<EntryKey>,
) -> Result<Vec<Row>, Error> {
    if needed.is_empty() {
        return Ok(Vec::new());
    }
    let kinds: Vec<i16> = needed.iter().map(|(kind, _)| kind.code()).collect();
    let keys: Vec<&str> = needed.iter().map(|(_, key)| key.as_str()).collect();
    client.query(statement, &[&kinds, &keys]).await
}

fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// Decodes the columns of [`ENTRY`].
pub(super) fn read(row: &Row) -> Result<Entry, StoreError> {
    let code: i16 = decode::get(row, 0)?;
    let tenant: &str = decode::get(row, 2)?;
    let body: &[u8] = decode::get(row, 3)?;
    let expires_at: Option<i64> = decode::get(row, 5)?;
    Ok(Entry {
        kind: Kind::from_code(code).ok_or_else(|| decode::impossible(format!("an entry of kind {code}")))?,
        key: decode::get(row, 1)?,
        tenant: Tenant::new(tenant).map_err(decode::impossible)?,
        body: body.into(),
        version: decode::count(decode::get(row, 4)?)?,
        expires_at: expires_at.map(Time::from_micros),
    })
}

/// A group's changes: single entries, with `None` for a removed one, and kinds whose entries are all removed.
#[derive(Default)]
pub(super) struct EntryChanges(Vec<(EntryKey, Option<Entry>)>, Vec<Kind>);

impl EntryChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty() && self.1.is_empty()
    }
}

/// The entries a group may see and change.
#[derive(Default)]
pub(super) struct GroupEntries {
    // `None` if the entry does not exist. Entries that the group did not name are not in the map.
    current: HashMap<EntryKey, Option<Entry>>,
    due: Vec<EntryKey>,
    changed: BTreeSet<EntryKey>,
    cleared: Vec<Kind>,
}

impl GroupEntries {
    pub(super) fn new<'w>(needed: impl Iterator<Item = &'w EntryKey>, found: Vec<Entry>) -> GroupEntries {
        let mut entries = GroupEntries::default();
        entries.current.extend(needed.cloned().map(|key| (key, None)));
        for entry in found {
            let key = (entry.kind, entry.key.clone());
            entries.due.push(key.clone());
            entries.current.insert(key, Some(entry));
        }
        entries
    }

    /// Returns the current entry, or `None` if it does not exist. Fails if the group did not name the entry.
    pub(super) fn find(&self, kind: Kind, key: &str) -> Result<Option<Entry>, StoreError> {
        let key = (kind, key.to_owned());
        let found = self.current.get(&key).ok_or_else(super::rows::unlocked)?;
        Ok(found.clone())
    }

    /// Returns the keys of up to `limit` entries that have expired at `now`, the longest expired first.
    pub(super) fn due(&self, now: Time, limit: usize) -> Vec<EntryKey> {
        let is_over = |key: &&EntryKey| {
            let entry = self.current.get(key).and_then(Option::as_ref);
            entry.is_some_and(|entry| !entry.is_live(now))
        };
        self.due.iter().filter(is_over).take(limit).cloned().collect()
    }

    /// Sets an entry, or removes it if `entry` is `None`. The change is written when the group commits.
    pub(super) fn change(&mut self, key: EntryKey, entry: Option<Entry>) {
        self.changed.insert(key.clone());
        self.current.insert(key, entry);
    }

    /// Removes all entries of a kind. Only a command that runs alone and changes no other entry does this.
    pub(super) fn clear(&mut self, kind: Kind) {
        self.cleared.push(kind);
    }

    /// Returns the changes to write.
    pub(super) fn into_changes(mut self) -> EntryChanges {
        let changed = std::mem::take(&mut self.changed);
        let changes = changed.into_iter().map(|key| {
            let entry = self.current.remove(&key).flatten();
            (key, entry)
        });
        EntryChanges(changes.collect(), self.cleared)
    }
}
