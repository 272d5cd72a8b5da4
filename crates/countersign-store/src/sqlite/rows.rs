//! Implementation of the library's `Rows` in SQL: reads and writes of one transaction.
//!
//! Input: the rows that a command reads or saves. Output: changed rows, in a transaction that the caller commits.
//! The caller reads the clock and commits. The rules are in the library.

use std::collections::HashMap;

use countersign::approval::{Approval, SharedApproval};
use countersign::call::Call;
use countersign::command::{Rows, SavedApproval};
use countersign::event::Event;
use countersign::hash::Hash;
use countersign::id::{Agent, ApprovalId, Channel, Key, Tenant};
use countersign::log::leaf;
use countersign::registry::{Entry, Kind};
use countersign::store::StoreError;
use countersign::store::audit::check_locked;
use countersign::time::Time;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, params};

use super::entries;
use super::fault::{Fault, damaged};
use super::load::{self, LoadError, Loaded, call_id};
use super::log_head::StoredLogHead;
use super::writer_cache::WriterCache;

const INSERT_APPROVAL: &str = "INSERT INTO approval
    (tenant, id, channel, agent, run, state, version, due_at, key, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const UPDATE_APPROVAL: &str = "UPDATE approval SET state = ?3, version = ?4, due_at = ?5, body = ?6
    WHERE seq = ?1 AND version = ?2";
const INSERT_CALL: &str = "INSERT INTO call (id, state, tool, arguments, original, result, sealed, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const UPDATE_CALL: &str = "UPDATE call SET state = ?2, result = ?3, sealed = ?4, body = ?5 WHERE id = ?1";
const UPDATE_ARGUMENTS: &str = "UPDATE call SET arguments = ?2, original = ?3 WHERE id = ?1";
const INSERT_EVENT: &str = "INSERT INTO event (approval, number, at, policy, by, what, link, content)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

/// Maximum number of cached policy numbers; there is rarely more than one policy in force.
const MOST_POLICIES: usize = 64;

type TenantAndId = (Tenant, ApprovalId);

/// State of one transaction: the rows it has read and saved, and the fault that made a statement fail.
pub(super) struct SqlRows<'a> {
    connection: &'a Connection,
    writer_cache: &'a WriterCache,
    // Head of the event log after the last commit, unless another process has written since.
    last_log_head: Option<&'a StoredLogHead>,
    // Latest time that has certainly passed, even if the clock is wrong. Sweeps end only approvals that are due by
    // then.
    certain: Time,
    // Head of the event log, including the events of this transaction.
    log_head: Option<StoredLogHead>,
    // Number of approvals that were left out because their rows are inconsistent.
    skipped: usize,
    // Approvals read or saved so far. The write lock is held, so they remain current.
    loaded: HashMap<TenantAndId, Loaded>,
    policies: HashMap<Hash, i64>,
    saved: Vec<SharedApproval>,
    events: Option<(i64, i64)>,
    entries_changed: bool,
    fault: Option<Fault>,
    // Statements, prepared once per group.
    insert_approval: StatementSlot<'a>,
    insert_call: StatementSlot<'a>,
    insert_event: StatementSlot<'a>,
    update_approval: StatementSlot<'a>,
    update_call: StatementSlot<'a>,
}

/// Result of a committed transaction.
pub(super) struct Committed {
    /// Approvals that existed before and were changed, oldest change first.
    pub(super) saved: Vec<SharedApproval>,
    /// The `seq` of the transaction's first and last event; `None` if it has no events.
    pub(super) events: Option<(i64, i64)>,
    /// Head of the log after the transaction's events; `None` if it has no events.
    pub(super) log_head: Option<StoredLogHead>,
}

type StatementSlot<'a> = Option<CachedStatement<'a>>;

fn statement<'s, 'a>(
    slot: &'s mut StatementSlot<'a>,
    connection: &'a Connection,
    sql: &str,
) -> Result<&'s mut CachedStatement<'a>, rusqlite::Error> {
    match slot {
        Some(statement) => Ok(statement),
        None => Ok(slot.insert(connection.prepare_cached(sql)?)),
    }
}

impl<'a> SqlRows<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        writer_cache: &'a WriterCache,
        last_log_head: Option<&'a StoredLogHead>,
    ) -> SqlRows<'a> {
        SqlRows {
            connection,
            writer_cache,
            last_log_head,
            certain: Time::from_micros(i64::MAX),
            log_head: None,
            skipped: 0,
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

    /// Sets the time that has certainly passed, even if the clock is wrong. Sweeps end nothing that is due later.
    pub(super) fn set_certain_time(&mut self, certain: Time) {
        self.certain = certain;
    }

    /// Writes a setting, and overwrites any earlier value.
    pub(super) fn write_setting(&mut self, key: &str, body: String) -> Result<(), Fault> {
        let before = self
            .entry(Kind::Setting, key)
            .map_err(|error| self.fault(error))?;
        let entry = Entry {
            kind: Kind::Setting,
            key: key.to_owned(),
            tenant: Tenant::single(),
            body: body.into_bytes().into(),
            version: before.map_or(0, |before| before.version).saturating_add(1),
            expires_at: None,
        };
        self.keep_entry(entry).map_err(|error| self.fault(error))
    }

    /// Returns the recorded fault of a failed statement, if there is one. Otherwise `error` concerns only the command.
    pub(super) fn fault(&mut self, error: StoreError) -> Fault {
        self.fault.take().unwrap_or(Fault::Command(error))
    }

    /// Returns true if the transaction wrote anything.
    pub(super) fn has_changes(&self) -> bool {
        self.events.is_some() || self.entries_changed
    }

    /// Writes the head of the log if events were appended. To be called before the commit.
    pub(super) fn write_log_head(&mut self) -> Result<(), Fault> {
        let written = self
            .log_head
            .as_ref()
            .map_or(Ok(()), |log| log.write(self.connection));
        written.map_err(|error| {
            let error = self.record_error(error);
            self.fault(error)
        })
    }

    /// Adds the transaction's approvals to the writer cache and returns the changes. To be called after the commit.
    pub(super) fn into_committed(self) -> Committed {
        for loaded in self.loaded.into_values() {
            self.writer_cache.insert(loaded);
        }
        Committed {
            saved: self.saved,
            events: self.events,
            log_head: self.log_head,
        }
    }

    fn find(&mut self, sql: &str, params: impl Params) -> Result<Option<Approval>, StoreError> {
        let found = load::first_approval(self.connection, sql, params);
        let found = found.map_err(|error| self.record_error(error))?;
        found.map(|loaded| self.accept(loaded)).transpose()
    }

    /// Checks an approval that was read from the file, and remembers it for this transaction. INVARIANT: fails if the
    /// approval does not match its events; see `check_locked`.
    fn accept(&mut self, loaded: Loaded) -> Result<Approval, StoreError> {
        let (tenant, id) = (&loaded.approval.tenant, loaded.approval.id);
        let known = self.loaded.get(&(tenant.clone(), id)).cloned();
        let known = known.or_else(|| self.writer_cache.approval(tenant, id));
        if known.is_none_or(|known| known.row_version() != loaded.row_version()) {
            let read = load::events(self.connection, loaded.seq)
                .and_then(|events| Ok((events, load::content(self.connection, loaded.seq)?)));
            let (events, content) = read.map_err(|error| self.record_error(error))?;
            check_locked(&loaded.approval, &events, content)?;
        }
        Ok(self.remember(loaded))
    }

    /// Accepts the approvals that match their events. The others are counted as skipped, so that a person can look at
    /// them.
    fn accept_consistent(
        &mut self,
        found: Vec<Result<Loaded, LoadError>>,
    ) -> Result<Vec<Approval>, StoreError> {
        let mut consistent = Vec::with_capacity(found.len());
        for loaded in found {
            let accepted = match loaded {
                Ok(loaded) => self.accept(loaded),
                Err(error) => Err(self.record_error(error)),
            };
            match accepted {
                Ok(approval) => consistent.push(approval),
                Err(StoreError::Impossible(_)) if self.fault.is_none() => self.skipped += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(consistent)
    }

    fn remember(&mut self, loaded: Loaded) -> Approval {
        let approval = Approval::clone(&loaded.approval);
        self.loaded.insert((approval.tenant.clone(), approval.id), loaded);
        approval
    }

    fn record_error(&mut self, error: LoadError) -> StoreError {
        if let LoadError::Sql(error) = &error {
            self.fault = Some(Fault::of(error));
        }
        error.into()
    }

    fn write(&mut self, saved: &SavedApproval) -> Result<(), LoadError> {
        let approval = &saved.approval;
        let id = (approval.tenant.clone(), approval.id);
        let seq = match (saved.version_before, self.loaded.remove(&id)) {
            (0, _) => self.insert(saved)?,
            (_, None) => return Err(damaged("a change of something that was not read").into()),
            (before, Some(old)) => {
                self.update(before, &old, saved)?;
                old.seq
            }
        };
        for event in &saved.events {
            self.append(seq, approval, event)?;
        }
        let approval = approval.clone();
        self.loaded.insert(id, Loaded { seq, approval });
        Ok(())
    }

    fn insert(&mut self, saved: &SavedApproval) -> Result<i64, LoadError> {
        let approval = &saved.approval;
        let bodies = &saved.bodies;
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

    /// Updates an approval and its changed calls.
    /// INVARIANT: compare-and-swap on the version, so each version is replaced only once.
    fn update(&mut self, before: u32, old: &Loaded, saved: &SavedApproval) -> Result<(), LoadError> {
        let (approval, bodies) = (&saved.approval, &saved.bodies);
        let statement = statement(&mut self.update_approval, self.connection, UPDATE_APPROVAL)?;
        let changed = statement.execute(params![
            old.seq,
            before,
            approval.state.code(),
            approval.version,
            approval.due_at().map(Time::as_micros),
            bodies.approval,
        ])?;
        if changed != 1 || old.approval.calls.len() != approval.calls.len() {
            return Err(damaged("an approval of another version than was read").into());
        }
        let calls = approval.numbered().zip(&old.approval.calls).zip(&bodies.calls);
        for (((position, call), old_call), body) in calls {
            if call != old_call {
                self.update_call(call_id(old.seq, position)?, old_call, call, body)?;
            }
        }
        Ok(())
    }

    fn update_call(&mut self, id: i64, old: &Call, call: &Call, body: &[u8]) -> Result<(), LoadError> {
        let statement = statement(&mut self.update_call, self.connection, UPDATE_CALL)?;
        statement.execute(params![
            id,
            call.state.code(),
            call.result.as_deref(),
            call.sealed.as_deref(),
            body,
        ])?;
        if call.arguments != old.arguments || call.original != old.original {
            let original = call.original.as_ref().map(|original| original.as_bytes());
            let mut statement = self.connection.prepare_cached(UPDATE_ARGUMENTS)?;
            statement.execute(params![id, call.arguments.as_bytes(), original])?;
        }
        Ok(())
    }

    fn append(&mut self, number: i64, approval: &Approval, event: &Event) -> Result<(), LoadError> {
        let policy = self.policy_id(event.policy)?;
        if self.log_head.is_none() {
            self.log_head = Some(match self.last_log_head {
                Some(known) => known.clone(),
                None => StoredLogHead::current(self.connection)?,
            });
        }
        let statement = statement(&mut self.insert_event, self.connection, INSERT_EVENT)?;
        let seq = statement.insert(params![
            number,
            event.number,
            event.at.as_micros(),
            policy,
            event.by.to_string(),
            event.text(),
            event.link.0,
            event.content.map(|content| content.0),
        ])?;
        if let Some(log) = &mut self.log_head {
            let (tenant, id) = (approval.tenant.as_str(), approval.id.as_bytes());
            log.push(seq, leaf(tenant, id, event.number, event.link));
        }
        let first = self.events.map_or(seq, |(first, _)| first);
        self.events = Some((first, seq));
        Ok(())
    }

    /// Returns the number of a policy in this file. Assigns a number if the policy is new.
    fn policy_id(&mut self, hash: Hash) -> Result<i64, LoadError> {
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
        match self.writer_cache.approval(tenant, id) {
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
        let skipped_before = self.skipped;
        let mut wanted = limit;
        loop {
            let most = i64::try_from(wanted).unwrap_or(i64::MAX);
            let due = load::approval_results(self.connection, load::DUE, (now.as_micros(), most));
            let due = due.map_err(|error| self.record_error(error))?;
            let is_last = due.len() < wanted;
            let mut consistent = self.accept_consistent(due)?;
            if is_last || consistent.len() >= limit {
                consistent.truncate(limit);
                return Ok(consistent);
            }
            // Inconsistent approvals stay due. They must not take the places of others.
            wanted = wanted.saturating_add(self.skipped - skipped_before);
            self.skipped = skipped_before;
        }
    }

    fn certain(&self, now: Time) -> Time {
        self.certain.min(now)
    }

    fn skipped(&self) -> usize {
        self.skipped
    }

    fn pending_of(
        &mut self,
        tenant: &Tenant,
        agent: &Agent,
        limit: usize,
    ) -> Result<Vec<Approval>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let own = load::approval_results(
            self.connection,
            load::PENDING_OF,
            (tenant.as_str(), agent.as_str(), limit),
        );
        let own = own.map_err(|error| self.record_error(error))?;
        self.accept_consistent(own)
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
        let count = counted.map_err(|error| self.record_error(error.into()))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn save(&mut self, saved: SavedApproval) -> Result<(), StoreError> {
        // Refused decisions are recorded only up to a maximum number per approval. A further refusal changes nothing.
        if saved.version_before == saved.approval.version {
            return Ok(());
        }
        self.write(&saved).map_err(|error| self.record_error(error))?;
        // No caller can wait for a new approval, so only approvals that existed before are published.
        if saved.version_before > 0 {
            self.saved.push(saved.approval);
        }
        Ok(())
    }

    fn entry(&mut self, kind: Kind, key: &str) -> Result<Option<Entry>, StoreError> {
        entries::find(self.connection, kind, key).map_err(|error| self.record_error(error))
    }

    fn due_entries(&mut self, now: Time, limit: usize) -> Result<Vec<(Kind, String)>, StoreError> {
        entries::expired(self.connection, now, limit).map_err(|error| self.record_error(error))
    }

    fn keep_entry(&mut self, entry: Entry) -> Result<(), StoreError> {
        self.entries_changed = true;
        entries::upsert(self.connection, &entry).map_err(|error| self.record_error(error))
    }

    fn remove_kind(&mut self, kind: Kind) -> Result<(), StoreError> {
        self.entries_changed = true;
        entries::remove_kind(self.connection, kind).map_err(|error| self.record_error(error))
    }

    fn remove_entry(&mut self, kind: Kind, key: &str) -> Result<(), StoreError> {
        self.entries_changed = true;
        entries::remove(self.connection, kind, key).map_err(|error| self.record_error(error))
    }
}
