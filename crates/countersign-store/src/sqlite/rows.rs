//! What one transaction sees and changes: the library's `Rows`, in SQL.
//!
//! Enters: what a command asks for or saves. Leaves: rows, in a transaction that somebody else commits.
//! Deliberately absent: the clock, the commit, and every rule.

use std::collections::HashMap;

use countersign::approval::{Approval, SharedApproval};
use countersign::call::Call;
use countersign::command::{Rows, Saved};
use countersign::event::Event;
use countersign::hash::Hash;
use countersign::id::{Agent, ApprovalId, Channel, Key, Tenant};
use countersign::registry::{Entry, Kind};
use countersign::store::StoreError;
use countersign::store::record::{Bodies, encode_approval, encode_call};
use countersign::time::Time;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, params};

use super::entries;
use super::fault::{Fault, damaged};
use super::load::{self, LoadError, Loaded, call_id};
use super::own::Own;
use super::recent::Recent;

const INSERT_APPROVAL: &str = "INSERT INTO approval
    (tenant, id, channel, agent, run, state, version, due_at, key, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const UPDATE_APPROVAL: &str = "UPDATE approval SET state = ?3, version = ?4, due_at = ?5, body = ?6
    WHERE seq = ?1 AND version = ?2";
const INSERT_CALL: &str = "INSERT INTO call (id, state, tool, arguments, original, result, sealed, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const UPDATE_CALL: &str = "UPDATE call SET state = ?2, result = ?3, sealed = ?4, body = ?5 WHERE id = ?1";
const UPDATE_ARGUMENTS: &str = "UPDATE call SET arguments = ?2, original = ?3 WHERE id = ?1";
const INSERT_EVENT: &str = "INSERT INTO event (approval, number, at, policy, by, what, link)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// Policies whose numbers are remembered; there is rarely more than one in force.
const MOST_POLICIES: usize = 64;

type Id = (Tenant, ApprovalId);

/// One transaction: what it read, what it saved, and what went wrong.
pub(super) struct SqlRows<'a> {
    connection: &'a Connection,
    recent: &'a Recent,
    own: &'a Own,
    // The write lock is held, so what was read once stays true until the end.
    loaded: HashMap<Id, Loaded>,
    policies: HashMap<Hash, i64>,
    saved: Vec<SharedApproval>,
    events: Option<(i64, i64)>,
    entries_changed: bool,
    fault: Option<Fault>,
    // Looked up once for a whole group.
    insert_approval: Slot<'a>,
    insert_call: Slot<'a>,
    insert_event: Slot<'a>,
    update_approval: Slot<'a>,
    update_call: Slot<'a>,
}

type Slot<'a> = Option<CachedStatement<'a>>;

fn statement<'s, 'a>(
    slot: &'s mut Slot<'a>,
    connection: &'a Connection,
    sql: &str,
) -> Result<&'s mut CachedStatement<'a>, rusqlite::Error> {
    match slot {
        Some(statement) => Ok(statement),
        None => Ok(slot.insert(connection.prepare_cached(sql)?)),
    }
}

impl<'a> SqlRows<'a> {
    pub(super) fn new(connection: &'a Connection, recent: &'a Recent, own: &'a Own) -> SqlRows<'a> {
        SqlRows {
            connection,
            recent,
            own,
            loaded: HashMap::new(),
            policies: HashMap::new(),
            saved: Vec::new(),
            events: None,
            entries_changed: false,
            fault: None,
            insert_approval: None,
            insert_call: None,
            insert_event: None,
            update_approval: None,
            update_call: None,
        }
    }

    /// Why the last command failed, sorted.
    pub(super) fn fault(&mut self, error: StoreError) -> Fault {
        self.fault.take().unwrap_or(Fault::Command(error))
    }

    /// True when anything was written.
    pub(super) fn is_changed(&self) -> bool {
        self.events.is_some() || self.entries_changed
    }

    /// After the commit: what changed, oldest first, and the first and last number of its events.
    pub(super) fn into_saved(self) -> (Vec<SharedApproval>, Option<(i64, i64)>) {
        for loaded in self.loaded.into_values() {
            self.own.keep(loaded.clone());
            self.recent.keep(loaded);
        }
        (self.saved, self.events)
    }

    fn find(&mut self, sql: &str, params: impl Params) -> Result<Option<Approval>, StoreError> {
        let found = load::one(self.connection, sql, params);
        let found = found.map_err(|error| self.note(error))?;
        Ok(found.map(|loaded| self.remember(loaded)))
    }

    fn remember(&mut self, loaded: Loaded) -> Approval {
        let approval = Approval::clone(&loaded.approval);
        self.loaded.insert((approval.tenant.clone(), approval.id), loaded);
        approval
    }

    fn note(&mut self, error: LoadError) -> StoreError {
        if let LoadError::Sql(error) = &error {
            self.fault = Some(Fault::of(error));
        }
        error.into()
    }

    fn change_entries(&mut self) {
        self.entries_changed = true;
        self.own.forget_entries();
    }

    fn write(&mut self, saved: &Saved) -> Result<(), LoadError> {
        let approval = &saved.approval;
        let id = (approval.tenant.clone(), approval.id);
        let seq = match (saved.version_before, self.loaded.remove(&id)) {
            (0, _) => self.insert(saved)?,
            (_, None) => return Err(damaged("a change of something that was not read").into()),
            (before, Some(old)) => {
                self.update(before, &old, approval)?;
                old.seq
            }
        };
        for event in &saved.events {
            self.append(seq, event)?;
        }
        let approval = approval.clone();
        self.loaded.insert(id, Loaded { seq, approval });
        Ok(())
    }

    fn insert(&mut self, saved: &Saved) -> Result<i64, LoadError> {
        let approval = &saved.approval;
        let written = saved.bodies.is_none().then(|| Bodies::of(approval));
        let Some(bodies) = saved.bodies.as_ref().or(written.as_ref()) else {
            return Err(damaged("an approval without a body").into());
        };
        let statement = statement(&mut self.insert_approval, self.connection, INSERT_APPROVAL)?;
        let seq = statement.insert(params![
            approval.tenant.as_str(),
            approval.id.as_bytes(),
            approval.channel.as_ref().map(Channel::as_str),
            approval.agent.as_str(),
            approval.run.as_ref().map(|run| run.as_str()),
            approval.state.code(),
            approval.version,
            approval.due_at().map(Time::as_micros),
            approval.key.as_ref().map(|(key, _)| key.as_str()),
            bodies.approval,
        ])?;
        let statement = self::statement(&mut self.insert_call, self.connection, INSERT_CALL)?;
        for ((position, call), body) in approval.numbered().zip(&bodies.calls) {
            statement.execute(params![
                call_id(seq, position)?,
                call.state.code(),
                call.tool.as_str(),
                call.arguments.as_bytes(),
                call.original.as_ref().map(|original| original.as_bytes()),
                call.result.as_deref(),
                call.sealed.as_deref(),
                body,
            ])?;
        }
        Ok(seq)
    }

    /// INVARIANT: compare and swap. Whatever else fails, a version is replaced once.
    fn update(&mut self, before: u32, old: &Loaded, approval: &Approval) -> Result<(), LoadError> {
        let statement = statement(&mut self.update_approval, self.connection, UPDATE_APPROVAL)?;
        let changed = statement.execute(params![
            old.seq,
            before,
            approval.state.code(),
            approval.version,
            approval.due_at().map(Time::as_micros),
            encode_approval(approval),
        ])?;
        if changed != 1 || old.approval.calls.len() != approval.calls.len() {
            return Err(damaged("an approval of another version than was read").into());
        }
        let calls = approval.numbered().zip(&old.approval.calls);
        for ((position, call), old_call) in calls.filter(|((_, call), old_call)| *call != *old_call) {
            self.update_call(call_id(old.seq, position)?, old_call, call)?;
        }
        Ok(())
    }

    fn update_call(&mut self, id: i64, old: &Call, call: &Call) -> Result<(), LoadError> {
        let statement = statement(&mut self.update_call, self.connection, UPDATE_CALL)?;
        statement.execute(params![
            id,
            call.state.code(),
            call.result.as_deref(),
            call.sealed.as_deref(),
            encode_call(call),
        ])?;
        if call.arguments != old.arguments || call.original != old.original {
            let original = call.original.as_ref().map(|original| original.as_bytes());
            let mut statement = self.connection.prepare_cached(UPDATE_ARGUMENTS)?;
            statement.execute(params![id, call.arguments.as_bytes(), original])?;
        }
        Ok(())
    }

    fn append(&mut self, approval: i64, event: &Event) -> Result<(), LoadError> {
        let policy = self.policy(event.policy)?;
        let statement = statement(&mut self.insert_event, self.connection, INSERT_EVENT)?;
        let seq = statement.insert(params![
            approval,
            event.number,
            event.at.as_micros(),
            policy,
            event.by.to_string(),
            event.text(),
            event.link.0,
        ])?;
        let first = self.events.map_or(seq, |(first, _)| first);
        self.events = Some((first, seq));
        Ok(())
    }

    /// The number of a policy in this file; it gets one when it is new.
    fn policy(&mut self, hash: Hash) -> Result<i64, LoadError> {
        if let Some(id) = self.policies.get(&hash) {
            return Ok(*id);
        }
        let mut find = self
            .connection
            .prepare_cached("SELECT id FROM policy WHERE hash = ?1")?;
        let found = find.query_row([hash.0], |row| row.get(0)).optional()?;
        let id = match found {
            Some(id) => id,
            None => self
                .connection
                .prepare_cached("INSERT INTO policy (hash) VALUES (?1)")?
                .insert([hash.0])?,
        };
        if self.policies.len() < MOST_POLICIES {
            self.policies.insert(hash, id);
        }
        Ok(id)
    }
}

impl Rows for SqlRows<'_> {
    fn approval(&mut self, tenant: &Tenant, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        if let Some(loaded) = self.loaded.get(&(tenant.clone(), id)) {
            return Ok(Some(Approval::clone(&loaded.approval)));
        }
        match self.own.approval(tenant, id) {
            Some(loaded) => Ok(Some(self.remember(loaded))),
            None => self.find(load::BY_ID, params![tenant.as_str(), id.as_bytes()]),
        }
    }

    fn pending_in(&mut self, tenant: &Tenant, channel: &Channel) -> Result<Option<Approval>, StoreError> {
        self.find(load::BY_CHANNEL, [tenant.as_str(), channel.as_str()])
    }

    fn by_key(&mut self, tenant: &Tenant, agent: &Agent, key: &Key) -> Result<Option<Approval>, StoreError> {
        self.find(load::BY_KEY, [tenant.as_str(), agent.as_str(), key.as_str()])
    }

    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Approval>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let due = load::many(self.connection, load::DUE, (now.as_micros(), limit));
        let due = due.map_err(|error| self.note(error))?;
        Ok(due.into_iter().map(|loaded| self.remember(loaded)).collect())
    }

    fn pending_of(
        &mut self,
        tenant: &Tenant,
        agent: &Agent,
        limit: usize,
    ) -> Result<Vec<Approval>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let own = load::many(
            self.connection,
            load::PENDING_OF,
            (tenant.as_str(), agent.as_str(), limit),
        );
        let own = own.map_err(|error| self.note(error))?;
        Ok(own.into_iter().map(|loaded| self.remember(loaded)).collect())
    }

    fn count_pending_of(
        &mut self,
        tenant: &Tenant,
        agent: &Agent,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let counted = self
            .connection
            .prepare_cached(load::COUNT_PENDING_OF)
            .and_then(|mut statement| {
                statement.query_row((tenant.as_str(), agent.as_str(), limit), |row| {
                    row.get::<_, i64>(0)
                })
            });
        let count = counted.map_err(|error| self.note(error.into()))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn save(&mut self, saved: Saved) -> Result<(), StoreError> {
        // A refused decision beyond those we count leaves everything as it was.
        if saved.version_before == saved.approval.version {
            return Ok(());
        }
        self.write(&saved).map_err(|error| self.note(error))?;
        // Nobody can wait for what nobody has heard of yet.
        if saved.version_before > 0 {
            self.saved.push(saved.approval);
        }
        Ok(())
    }

    fn entry(&mut self, kind: Kind, key: &str) -> Result<Option<Entry>, StoreError> {
        // What this very transaction changed is not in memory.
        let is_kept = !self.entries_changed;
        if let Some(entry) = self.own.entry(kind, key).filter(|_| is_kept) {
            return Ok(Some(entry));
        }
        let found = entries::find(self.connection, kind, key).map_err(|error| self.note(error))?;
        found
            .iter()
            .filter(|_| is_kept)
            .for_each(|entry| self.own.keep_entry(entry));
        Ok(found)
    }

    fn due_entries(&mut self, now: Time, limit: usize) -> Result<Vec<(Kind, String)>, StoreError> {
        entries::due(self.connection, now, limit).map_err(|error| self.note(error))
    }

    fn keep_entry(&mut self, entry: Entry) -> Result<(), StoreError> {
        self.change_entries();
        entries::keep(self.connection, &entry).map_err(|error| self.note(error))
    }

    fn remove_kind(&mut self, kind: Kind) -> Result<(), StoreError> {
        self.change_entries();
        entries::remove_kind(self.connection, kind).map_err(|error| self.note(error))
    }

    fn remove_entry(&mut self, kind: Kind, key: &str) -> Result<(), StoreError> {
        self.change_entries();
        entries::remove(self.connection, kind, key).map_err(|error| self.note(error))
    }
}
