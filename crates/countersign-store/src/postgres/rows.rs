//! Working set: the rows that were locked for a group of commands, as stored and as the commands leave them.
//!
//! Input: the commands' needs, and the rows found for them. Output: the rows to save.
//! Commands are applied in order, and each sees the changes of those before it. A command that fails changes nothing.

use std::collections::{BTreeSet, HashMap};

use countersign::approval::{Approval, EndorsingAccount, SharedApproval};
use countersign::command::{Answer, Command, Rows, SavedApproval};
use countersign::event::Event;
use countersign::id::{Agent, ApprovalId, Channel, Key, Tenant};
use countersign::registry::{Entry as RegistryEntry, Kind};
use countersign::state::State;
use countersign::store::StoreError;
use countersign::store::record::Bodies;
use countersign::time::Time;

use super::decode::{CorruptApproval, LockedApprovals};
use super::entries::{EntryChanges, EntryKey, GroupEntries};
use super::tenants::VisibleTenants;

pub(super) type TenantAndId = (Tenant, ApprovalId);

/// Rows to lock, sorted and without duplicates.
#[derive(Default)]
pub(super) struct NeededRows {
    pub(super) approvals: BTreeSet<TenantAndId>,
    pub(super) channels: BTreeSet<(Tenant, Channel)>,
    pub(super) keys: BTreeSet<(Tenant, Agent, Key)>,
    /// Agents whose pending approvals are counted.
    pub(super) agents: BTreeSet<(Tenant, Agent)>,
    pub(super) entries: BTreeSet<EntryKey>,
    /// Entries that are read without a lock.
    pub(super) read_only_entries: BTreeSet<EntryKey>,
    /// Tenants whose rows the commands read or write.
    tenants: BTreeSet<Tenant>,
    /// For a sweep: the maximum number of due approvals to lock, and of expired entries. `None` for other commands.
    pub(super) due: Option<usize>,
    /// True to lock up to `due` open approvals, whether they are due or not, and no entries. Used only together with
    /// `due`.
    pub(super) open: bool,
}

impl NeededRows {
    pub(super) fn of(commands: &[&Command]) -> NeededRows {
        let mut needed = NeededRows::default();
        for command in commands {
            let needs = command.needs();
            needed.due = needed.due.max(needs.due);
            needed.open |= needs.open;
            let entries = needs.entries.into_iter();
            needed
                .entries
                .extend(entries.map(|(kind, key)| (kind, key.into_owned())));
            let read_only_entries = needs
                .read_only_entries
                .into_iter()
                .map(|(kind, key)| (kind, key.to_owned()));
            needed.read_only_entries.extend(read_only_entries);
            let Some(tenant) = needs.tenant else { continue };
            needed.tenants.insert(tenant.clone());
            let approvals = needs.approvals.into_iter().map(|id| (tenant.clone(), id));
            needed.approvals.extend(approvals);
            needed
                .channels
                .extend(needs.channel.map(|channel| (tenant.clone(), channel.clone())));
            let key = needs
                .key
                .map(|(agent, key)| (tenant.clone(), agent.clone(), key.clone()));
            needed.keys.extend(key);
            let agent = needs.pending_of.map(|agent| (tenant.clone(), agent.clone()));
            needed.agents.extend(agent);
        }
        needed
    }

    /// Adds the approvals that would be undone by those approvals in `found` whose ids are in `named`. Returns true if
    /// an approval was added.
    pub(super) fn add_undone(&mut self, named: &BTreeSet<TenantAndId>, found: &[SharedApproval]) -> bool {
        let before = self.approvals.len();
        for approval in found {
            if let Some(undoes) = approval.undoes
                && named.contains(&(approval.tenant.clone(), approval.id))
            {
                self.approvals.insert((approval.tenant.clone(), undoes.approval));
            }
        }
        self.approvals.len() > before
    }

    /// Adds the accounts that gave the endorsements of `found`. Returns true if an account was added.
    pub(super) fn add_endorsers(&mut self, found: &[SharedApproval]) -> bool {
        let before = self.read_only_entries.len();
        let endorsed = found.iter().flat_map(|approval| &approval.endorsements);
        for endorsement in endorsed {
            if let EndorsingAccount::Account(key, _) = &endorsement.account {
                self.read_only_entries.insert((Kind::Person, key.clone()));
            }
        }
        self.read_only_entries.len() > before
    }

    /// Adds the entries that commands need because of an approval in `found`. Returns true if an entry was added.
    pub(super) fn add_needs_of(&mut self, commands: &[&Command], found: &[SharedApproval]) -> bool {
        let before = self.entries.len();
        for command in commands {
            let needed = found.iter().flat_map(|approval| command.needs_of(approval));
            self.entries.extend(needed);
        }
        self.entries.len() > before
    }

    /// Returns the tenants whose rows the connection has to see.
    pub(super) fn tenants(&self) -> VisibleTenants {
        match self.due {
            Some(_) => VisibleTenants::all(),
            None => VisibleTenants::of(self.tenants.iter()),
        }
    }

    /// Returns true if no channel, key or agent is needed.
    pub(super) fn has_no_slots(&self) -> bool {
        self.channels.is_empty() && self.keys.is_empty() && self.agents.is_empty()
    }
}

/// One approval of the working set.
pub(super) struct WorkingApproval {
    /// The stored approval; `None` if the commands created it.
    pub(super) before: Option<SharedApproval>,
    /// The approval as the commands leave it.
    pub(super) after: SharedApproval,
    /// Events that the commands added.
    pub(super) events: Vec<Event>,
    /// Encoded bodies of the approval's rows; `None` until a command has saved it.
    pub(super) bodies: Option<Bodies>,
}

impl WorkingApproval {
    /// Returns true if a command has changed the approval, so that it has to be written.
    pub(super) fn is_changed(&self) -> bool {
        match &self.before {
            None => true,
            Some(before) => !self.events.is_empty() || before != &self.after,
        }
    }
}

/// The rows that a group of commands may read and change.
#[derive(Default)]
pub(super) struct WorkingSet {
    // `None` if the row was queried and does not exist. Rows that were not queried are not in the map.
    entries: HashMap<TenantAndId, Option<WorkingApproval>>,
    // Corrupt approvals: a command that asks for one gets an error.
    corrupt: HashMap<TenantAndId, CorruptApproval>,
    channels: HashMap<(Tenant, Channel), Option<ApprovalId>>,
    keys: HashMap<(Tenant, Agent, Key), Option<ApprovalId>>,
    agents: BTreeSet<(Tenant, Agent)>,
    due: Vec<TenantAndId>,
    // In the order in which they were first saved, which is the order of the feed.
    saved: Vec<TenantAndId>,
    registry: GroupEntries,
}

impl WorkingSet {
    pub(super) fn new(
        needed: &NeededRows,
        found: LockedApprovals,
        entries: Vec<RegistryEntry>,
    ) -> WorkingSet {
        let mut set = WorkingSet {
            corrupt: found.corrupt,
            registry: GroupEntries::new(needed.entries.union(&needed.read_only_entries), entries),
            ..WorkingSet::default()
        };
        set.channels
            .extend(needed.channels.iter().cloned().map(|slot| (slot, None)));
        set.keys
            .extend(needed.keys.iter().cloned().map(|slot| (slot, None)));
        set.agents.extend(needed.agents.iter().cloned());
        set.entries
            .extend(needed.approvals.iter().cloned().map(|id| (id, None)));
        for approval in found.consistent {
            let id = (approval.tenant.clone(), approval.id);
            set.take_slots(&approval);
            let entry = WorkingApproval {
                before: Some(approval.clone()),
                after: approval,
                events: Vec::new(),
                bodies: None,
            };
            set.due.push(id.clone());
            set.entries.insert(id, Some(entry));
        }
        set
    }

    /// Applies one command. If it fails, the working set stays as it was. `certain` is the latest time that has
    /// certainly passed, even if the clock is wrong: a sweep ends nothing that is due later.
    pub(super) fn apply(
        &mut self,
        command: &Command,
        now: Time,
        certain: Time,
    ) -> Result<Answer, StoreError> {
        let mut staged = StagedCommand {
            set: self,
            certain,
            saved: Vec::new(),
            entries: Vec::new(),
            kinds: Vec::new(),
        };
        let answer = command.apply(&mut staged, now);
        let (saved, entries, kinds) = (staged.saved, staged.entries, staged.kinds);
        // Changes are kept only if the whole command succeeded.
        let answer = answer?;
        saved.into_iter().for_each(|saved| self.keep(saved));
        for (key, entry) in entries {
            self.registry.change(key, entry);
        }
        kinds.into_iter().for_each(|kind| self.registry.clear(kind));
        Ok(answer)
    }

    /// Returns the approvals and entries to write, approvals in the order in which they were first saved.
    pub(super) fn into_changed(mut self) -> (Vec<WorkingApproval>, EntryChanges) {
        let saved = std::mem::take(&mut self.saved);
        let entries = saved.iter().filter_map(|id| self.entries.remove(id).flatten());
        let entries = entries.filter(WorkingApproval::is_changed).collect();
        (entries, self.registry.into_changes())
    }

    fn keep(&mut self, saved: SavedApproval) {
        let id = (saved.approval.tenant.clone(), saved.approval.id);
        self.take_slots(&saved.approval);
        let slot = self.entries.entry(id.clone()).or_insert(None);
        let mut entry = slot.take().unwrap_or_else(|| WorkingApproval {
            before: None,
            after: saved.approval.clone(),
            events: Vec::new(),
            bodies: None,
        });
        entry.after = saved.approval;
        entry.bodies = Some(saved.bodies);
        entry.events.extend(saved.events);
        *slot = Some(entry);
        if !self.saved.contains(&id) {
            self.saved.push(id);
        }
    }

    /// Updates which approval occupies the channel and the idempotency key of `approval`, if the group has locked them.
    /// An approval that is no longer pending frees its channel.
    fn take_slots(&mut self, approval: &Approval) {
        let tenant = &approval.tenant;
        if let Some(channel) = &approval.channel
            && let Some(slot) = self.channels.get_mut(&(tenant.clone(), channel.clone()))
        {
            match approval.state == State::Pending {
                true => *slot = Some(approval.id),
                false if *slot == Some(approval.id) => *slot = None,
                false => {}
            }
        }
        if let Some((key, _)) = &approval.key {
            let slot = (tenant.clone(), approval.agent.clone(), key.clone());
            if let Some(slot) = self.keys.get_mut(&slot) {
                *slot = Some(approval.id);
            }
        }
    }
}

/// View of one command: sees its own changes, and buffers them until it succeeds.
struct StagedCommand<'a> {
    set: &'a mut WorkingSet,
    certain: Time,
    saved: Vec<SavedApproval>,
    entries: Vec<(EntryKey, Option<RegistryEntry>)>,
    kinds: Vec<Kind>,
}

impl StagedCommand<'_> {
    fn find(&self, tenant: &Tenant, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        let mut staged = self.saved.iter().rev().map(|saved| &saved.approval);
        if let Some(approval) = staged.find(|approval| approval.tenant == *tenant && approval.id == id) {
            return Ok(Some(Approval::clone(approval)));
        }
        if let Some(corrupt) = self.set.corrupt.get(&(tenant.clone(), id)) {
            return Err(corrupt.reason.clone());
        }
        let entry = self.set.entries.get(&(tenant.clone(), id)).ok_or_else(unlocked)?;
        Ok(entry.as_ref().map(|entry| Approval::clone(&entry.after)))
    }

    /// Returns the approval with `id`, which occupies a channel or an idempotency key. If `id` is `None` but a corrupt
    /// approval may occupy the channel or key (`may_hold`), fails with the error of that approval.
    fn find_held(
        &self,
        tenant: &Tenant,
        id: Option<ApprovalId>,
        may_hold: impl Fn(&CorruptApproval) -> bool,
    ) -> Result<Option<Approval>, StoreError> {
        let own = self.set.corrupt.iter().filter(|((of, _), _)| of == tenant);
        let mut holders = own
            .map(|(_, corrupt)| corrupt)
            .filter(|corrupt| may_hold(corrupt));
        match (id, holders.next()) {
            (Some(id), _) => self.find(tenant, id),
            (None, Some(corrupt)) => Err(corrupt.reason.clone()),
            (None, None) => Ok(None),
        }
    }
}

impl Rows for StagedCommand<'_> {
    fn certain(&self, now: Time) -> Time {
        self.certain.min(now)
    }

    fn approval(&mut self, tenant: &Tenant, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.find(tenant, id)
    }

    fn pending_in(&mut self, tenant: &Tenant, channel: &Channel) -> Result<Option<Approval>, StoreError> {
        let slot = (tenant.clone(), channel.clone());
        let id = self.set.channels.get(&slot).ok_or_else(unlocked)?;
        self.find_held(tenant, *id, |corrupt| {
            corrupt.channel.as_deref() == Some(channel.as_str())
        })
    }

    fn by_key(&mut self, tenant: &Tenant, agent: &Agent, key: &Key) -> Result<Option<Approval>, StoreError> {
        let slot = (tenant.clone(), agent.clone(), key.clone());
        let id = self.set.keys.get(&slot).ok_or_else(unlocked)?;
        self.find_held(tenant, *id, |corrupt| corrupt.agent == agent.as_str())
    }

    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Approval>, StoreError> {
        let found = self.set.due.iter().map(|(tenant, id)| self.find(tenant, *id));
        let found: Result<Vec<Option<Approval>>, StoreError> = found.collect();
        let is_due = |approval: &Approval| approval.due_at().is_some_and(|due_at| due_at <= now);
        let due = found?.into_iter().flatten().filter(is_due);
        Ok(due.take(limit).collect())
    }

    fn pending_of(
        &mut self,
        tenant: &Tenant,
        agent: &Agent,
        limit: usize,
    ) -> Result<Vec<Approval>, StoreError> {
        if !self.set.agents.contains(&(tenant.clone(), agent.clone())) {
            return Err(unlocked());
        }
        let ids = self.set.entries.keys().filter(|(of, _)| of == tenant);
        let mut ids: Vec<ApprovalId> = ids.map(|(_, id)| *id).collect();
        ids.sort_unstable();
        let found: Result<Vec<Option<Approval>>, StoreError> =
            ids.into_iter().map(|id| self.find(tenant, id)).collect();
        let is_own = |approval: &Approval| approval.agent == *agent && approval.state == State::Pending;
        Ok(found?.into_iter().flatten().filter(is_own).take(limit).collect())
    }

    fn skipped(&self) -> usize {
        self.set.corrupt.len()
    }

    fn save(&mut self, saved: SavedApproval) -> Result<(), StoreError> {
        let approval = &saved.approval;
        // A new approval was not queried; if its id exists already, the insert fails.
        let version = match saved.version_before {
            0 if !self
                .set
                .entries
                .contains_key(&(approval.tenant.clone(), approval.id)) =>
            {
                0
            }
            _ => self
                .find(&approval.tenant, approval.id)?
                .map_or(0, |current| current.version),
        };
        if version != saved.version_before {
            return Err(StoreError::Impossible(format!(
                "approval {} has version {version} where {} was expected",
                approval.id, saved.version_before
            )));
        }
        self.saved.push(saved);
        Ok(())
    }

    // No command reads an entry again after changing it.
    fn entry(&mut self, kind: Kind, key: &str) -> Result<Option<RegistryEntry>, StoreError> {
        self.set.registry.find(kind, key)
    }

    fn due_entries(&mut self, now: Time, limit: usize) -> Result<Vec<EntryKey>, StoreError> {
        Ok(self.set.registry.due(now, limit))
    }

    fn keep_entry(&mut self, entry: RegistryEntry) -> Result<(), StoreError> {
        self.entries.push(((entry.kind, entry.key.clone()), Some(entry)));
        Ok(())
    }

    fn remove_kind(&mut self, kind: Kind) -> Result<(), StoreError> {
        self.kinds.push(kind);
        Ok(())
    }

    fn remove_entry(&mut self, kind: Kind, key: &str) -> Result<(), StoreError> {
        self.entries.push(((kind, key.to_owned()), None));
        Ok(())
    }
}

/// Returns the error for a row that was not locked. Such a row must not be read, and must not be taken for absent.
pub(super) fn unlocked() -> StoreError {
    StoreError::Impossible("a command asked for a row it had not named".to_owned())
}
