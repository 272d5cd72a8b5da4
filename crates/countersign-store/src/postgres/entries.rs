//! The registry's entries: locked and read with a group's rows, and written with them.
//!
//! Enters: which entries a group names, and what its commands make of them. Leaves: what is to be written.
//! Deliberately absent: what may be changed (the library's), and transactions (`transaction`).

use std::collections::{BTreeSet, HashMap};

use countersign::id::Tenant;
use countersign::registry::{Entry, Kind};
use countersign::store::StoreError;
use countersign::time::Time;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use super::decode;
use super::fields::number;

/// Which entry.
pub(super) type Place = (Kind, String);

/// The columns of an entry, in the order [`read`] reads them.
pub(super) const ENTRY: &str = "e.kind, e.key, e.tenant, e.body, e.version, e.expires_at";

const REMOVE_KINDS: &str = "DELETE FROM entry WHERE kind = ANY($1::smallint[])";

const REMOVE: &str = "
    DELETE FROM entry e USING unnest($1::smallint[], $2::text[]) AS r(kind, key)
    WHERE e.kind = r.kind AND e.key = r.key";

const KEEP: &str = "
    INSERT INTO entry (kind, key, tenant, body, version, expires_at)
    SELECT * FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bytea[], $5::integer[], $6::bigint[])
    ON CONFLICT (kind, key) DO UPDATE
    SET tenant = excluded.tenant, body = excluded.body, version = excluded.version, expires_at = excluded.expires_at";

/// The statements for entries, prepared on one connection.
pub(super) struct EntryStatements {
    lock_named: Statement,
    read_named: Statement,
    lock_due: Statement,
    keep: Statement,
    remove: Statement,
    remove_kinds: Statement,
}

impl EntryStatements {
    pub(super) async fn prepare(client: &Client) -> Result<EntryStatements, Error> {
        let named = format!(
            "SELECT {ENTRY} FROM unnest($1::smallint[], $2::text[]) AS w(kind, key)
             JOIN entry e ON e.kind = w.kind AND e.key = w.key"
        );
        // Locked rows are skipped: somebody is about to replace them, and the next sweep comes soon.
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
            keep: client.prepare(KEEP).await?,
            remove: client.prepare(REMOVE).await?,
            remove_kinds: client.prepare(REMOVE_KINDS).await?,
        })
    }

    /// Locks and reads the entries named. What is not there is locked by its slot; see `lock`.
    pub(super) async fn lock_named(
        &self,
        client: &Client,
        wanted: &BTreeSet<Place>,
    ) -> Result<Vec<Row>, Error> {
        find(client, &self.lock_named, wanted).await
    }

    /// Reads the entries named as they are now. Whoever takes one away waits for nobody, and nobody for them.
    pub(super) async fn read_named(
        &self,
        client: &Client,
        wanted: &BTreeSet<Place>,
    ) -> Result<Vec<Row>, Error> {
        find(client, &self.read_named, wanted).await
    }

    /// Locks and reads some whose time is over.
    pub(super) async fn lock_due(
        &self,
        client: &Client,
        now: Option<i64>,
        limit: i64,
    ) -> Result<Vec<Row>, Error> {
        client.query(&self.lock_due, &[&now, &limit]).await
    }

    /// Removes what a group removed.
    pub(super) async fn remove(&self, client: &Client, changes: &Changes) -> Result<(), Error> {
        // Comes alone: see `Entries::clear`.
        if !changes.1.is_empty() {
            let kinds: Vec<i16> = changes.1.iter().map(|kind| kind.code()).collect();
            return client.execute(&self.remove_kinds, &[&kinds]).await.map(|_| ());
        }
        let removed = changes.0.iter().filter(|(_, entry)| entry.is_none());
        let removed: Vec<&Place> = removed.map(|(place, _)| place).collect();
        if removed.is_empty() {
            return Ok(());
        }
        let kinds: Vec<i16> = removed.iter().map(|(kind, _)| kind.code()).collect();
        let keys: Vec<&str> = removed.iter().map(|(_, key)| key.as_str()).collect();
        client.execute(&self.remove, &[&kinds, &keys]).await.map(|_| ())
    }

    /// Writes what a group kept.
    pub(super) async fn keep(&self, client: &Client, changes: &Changes) -> Result<(), Error> {
        let kept: Vec<&Entry> = changes.0.iter().filter_map(|(_, entry)| entry.as_ref()).collect();
        if kept.is_empty() {
            return Ok(());
        }
        let parameters: [&(dyn ToSql + Sync); 6] = [
            &column(&kept, |entry| entry.kind.code()),
            &column(&kept, |entry| entry.key.as_str()),
            &column(&kept, |entry| entry.tenant.as_str()),
            &column(&kept, |entry| &*entry.body),
            &column(&kept, |entry| number(entry.version)),
            &column(&kept, |entry| entry.expires_at.map(Time::as_micros)),
        ];
        client.execute(&self.keep, &parameters).await.map(|_| ())
    }
}

async fn find(client: &Client, statement: &Statement, wanted: &BTreeSet<Place>) -> Result<Vec<Row>, Error> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let kinds: Vec<i16> = wanted.iter().map(|(kind, _)| kind.code()).collect();
    let keys: Vec<&str> = wanted.iter().map(|(_, key)| key.as_str()).collect();
    client.query(statement, &[&kinds, &keys]).await
}

fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// Reads the columns of [`ENTRY`].
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

/// What a group's commands made of its entries; nothing stands for one that was removed.
#[derive(Default)]
pub(super) struct Changes(Vec<(Place, Option<Entry>)>, Vec<Kind>);

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty() && self.1.is_empty()
    }
}

/// The entries a group may see.
#[derive(Default)]
pub(super) struct Entries {
    // Nothing stands for one that is not there. One that nobody locked has no place here at all.
    current: HashMap<Place, Option<Entry>>,
    due: Vec<Place>,
    changed: BTreeSet<Place>,
    cleared: Vec<Kind>,
}

impl Entries {
    pub(super) fn new<'w>(wanted: impl Iterator<Item = &'w Place>, found: Vec<Entry>) -> Entries {
        let mut entries = Entries::default();
        entries.current.extend(wanted.cloned().map(|place| (place, None)));
        for entry in found {
            let place = (entry.kind, entry.key.clone());
            entries.due.push(place.clone());
            entries.current.insert(place, Some(entry));
        }
        entries
    }

    /// The entry as it is now; an error when nobody locked it.
    pub(super) fn find(&self, kind: Kind, key: &str) -> Result<Option<Entry>, StoreError> {
        let place = (kind, key.to_owned());
        let found = self.current.get(&place).ok_or_else(super::rows::unlocked)?;
        Ok(found.clone())
    }

    /// Those whose time is over, longest first.
    pub(super) fn due(&self, now: Time, limit: usize) -> Vec<Place> {
        let is_over = |place: &&Place| {
            let entry = self.current.get(place).and_then(Option::as_ref);
            entry.is_some_and(|entry| !entry.is_there(now))
        };
        self.due.iter().filter(is_over).take(limit).cloned().collect()
    }

    /// Keeps or removes one.
    pub(super) fn change(&mut self, place: Place, entry: Option<Entry>) {
        self.changed.insert(place.clone());
        self.current.insert(place, entry);
    }

    /// Removes all of a kind. Only a command that runs alone, and changes no other entry, does this.
    pub(super) fn clear(&mut self, kind: Kind) {
        self.cleared.push(kind);
    }

    /// What is to be written.
    pub(super) fn into_changes(mut self) -> Changes {
        let changed = std::mem::take(&mut self.changed);
        let changes = changed.into_iter().map(|place| {
            let entry = self.current.remove(&place).flatten();
            (place, entry)
        });
        Changes(changes.collect(), self.cleared)
    }
}
