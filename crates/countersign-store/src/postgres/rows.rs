//! The working set: the rows a group of commands locked, as they were and as the commands leave them.
//!
//! Enters: what the commands need, and the rows found for it. Leaves: what is to be saved.
//! Commands are applied in order, and each sees what those before it did. One that fails leaves no trace.

use std::collections::{BTreeSet, HashMap};

use countersign::approval::{Approval, EndorsedWith, SharedApproval};
use countersign::command::{Answer, Command, Rows, Saved};
use countersign::event::Event;
use countersign::id::{Agent, ApprovalId, Channel, Key, Tenant};
use countersign::registry::{Entry as RegistryEntry, Kind};
use countersign::state::State;
use countersign::store::StoreError;
use countersign::time::Time;

use super::entries::{Changes, Entries, Place};
use super::tenants::Tenants;

pub(super) type Id = (Tenant, ApprovalId);

/// Which rows to lock, in an order without repeats.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) approvals: BTreeSet<Id>,
    pub(super) channels: BTreeSet<(Tenant, Channel)>,
    pub(super) keys: BTreeSet<(Tenant, Agent, Key)>,
    /// Agents whose pending approvals are counted.
    pub(super) agents: BTreeSet<(Tenant, Agent)>,
    pub(super) entries: BTreeSet<Place>,
    /// Entries that are only looked at.
    pub(super) grounds: BTreeSet<Place>,
    /// Whose rows are looked at and written.
    tenants: BTreeSet<Tenant>,
    /// Up to so many due ones, for the sweep.
    pub(super) due: Option<usize>,
    /// With `due`: whatever will ever be due, and no entries.
    pub(super) open: bool,
}

impl Wanted {
    pub(super) fn of(commands: &[&Command]) -> Wanted {
        let mut wanted = Wanted::default();
        for command in commands {
            let needs = command.needs();
            wanted.due = wanted.due.max(needs.due);
            wanted.open |= needs.open;
            let entries = needs.entries.into_iter();
            wanted
                .entries
                .extend(entries.map(|(kind, key)| (kind, key.into_owned())));
            let grounds = needs
                .grounds
                .into_iter()
                .map(|(kind, key)| (kind, key.to_owned()));
            wanted.grounds.extend(grounds);
            let Some(tenant) = needs.tenant else { continue };
            wanted.tenants.insert(tenant.clone());
            let approvals = needs.approvals.into_iter().map(|id| (tenant.clone(), id));
            wanted.approvals.extend(approvals);
            wanted
                .channels
                .extend(needs.channel.map(|channel| (tenant.clone(), channel.clone())));
            let key = needs
                .key
                .map(|(agent, key)| (tenant.clone(), agent.clone(), key.clone()));
            wanted.keys.extend(key);
            let agent = needs.pending_of.map(|agent| (tenant.clone(), agent.clone()));
            wanted.agents.extend(agent);
        }
        wanted
    }

    /// Adds what those of the named ones that were found would undo; true when that was not wanted before.
    pub(super) fn add_undone(&mut self, named: &BTreeSet<Id>, found: &[SharedApproval]) -> bool {
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

    /// Adds the accounts that endorsements of those found rest on; true when one was not wanted before.
    pub(super) fn add_endorsers(&mut self, found: &[SharedApproval]) -> bool {
        let before = self.grounds.len();
        let endorsed = found.iter().flat_map(|approval| &approval.endorsements);
        for endorsement in endorsed {
            if let EndorsedWith::Account(key, _) = &endorsement.account {
                self.grounds.insert((Kind::Person, key.clone()));
            }
        }
        self.grounds.len() > before
    }

    /// Adds the entries that commands ask for because of an approval that was found; true when one was not wanted before.
    pub(super) fn add_needs_of(&mut self, commands: &[&Command], found: &[SharedApproval]) -> bool {
        let before = self.entries.len();
        for command in commands {
            let needed = found.iter().flat_map(|approval| command.needs_of(approval));
            self.entries.extend(needed);
        }
        self.entries.len() > before
    }

    /// The tenants whose rows the connection has to see.
    pub(super) fn tenants(&self) -> Tenants {
        match self.due {
            Some(_) => Tenants::all(),
            None => Tenants::several(self.tenants.iter()),
        }
    }

    /// True when no row has to be looked at.
    pub(super) fn is_empty(&self) -> bool {
        self.approvals.is_empty() && self.has_no_slots() && self.entries.is_empty()
    }

    /// True when neither a channel nor a key nor an agent is needed.
    pub(super) fn has_no_slots(&self) -> bool {
        self.channels.is_empty() && self.keys.is_empty() && self.agents.is_empty()
    }
}

/// One approval of the working set.
pub(super) struct Entry {
    /// As it is stored; nothing when it is new.
    pub(super) before: Option<SharedApproval>,
    /// As the commands left it.
    pub(super) after: SharedApproval,
    /// What happened in between.
    pub(super) events: Vec<Event>,
}

impl Entry {
    /// True when there is something to write.
    pub(super) fn is_changed(&self) -> bool {
        match &self.before {
            None => true,
            Some(before) => !self.events.is_empty() || before != &self.after,
        }
    }
}

/// The rows a group may see.
#[derive(Default)]
pub(super) struct WorkingSet {
    // Nothing stands for a row that was looked for and is not there. A row nobody looked for has no entry at all.
    entries: HashMap<Id, Option<Entry>>,
    channels: HashMap<(Tenant, Channel), Option<ApprovalId>>,
    keys: HashMap<(Tenant, Agent, Key), Option<ApprovalId>>,
    agents: BTreeSet<(Tenant, Agent)>,
    due: Vec<Id>,
    // In the order in which they were first saved, which is the order of the feed.
    saved: Vec<Id>,
    registry: Entries,
}

impl WorkingSet {
    pub(super) fn new(
        wanted: &Wanted,
        found: Vec<SharedApproval>,
        entries: Vec<RegistryEntry>,
    ) -> WorkingSet {
        let mut set = WorkingSet {
            registry: Entries::new(wanted.entries.union(&wanted.grounds), entries),
            ..WorkingSet::default()
        };
        set.channels
            .extend(wanted.channels.iter().cloned().map(|slot| (slot, None)));
        set.keys
            .extend(wanted.keys.iter().cloned().map(|slot| (slot, None)));
        set.agents.extend(wanted.agents.iter().cloned());
        set.entries
            .extend(wanted.approvals.iter().cloned().map(|id| (id, None)));
        for approval in found {
            let id = (approval.tenant.clone(), approval.id);
            set.take_slots(&approval);
            let entry = Entry {
                before: Some(approval.clone()),
                after: approval,
                events: Vec::new(),
            };
            set.due.push(id.clone());
            set.entries.insert(id, Some(entry));
        }
        set
    }

    /// Applies one command.
    pub(super) fn apply(&mut self, command: &Command, now: Time) -> Result<Answer, StoreError> {
        let mut staged = Staged {
            set: self,
            saved: Vec::new(),
            entries: Vec::new(),
            kinds: Vec::new(),
        };
        let answer = command.apply(&mut staged, now);
        let (saved, entries, kinds) = (staged.saved, staged.entries, staged.kinds);
        // Only a command that is through as a whole is kept.
        let answer = answer?;
        saved.into_iter().for_each(|saved| self.keep(saved));
        for (place, entry) in entries {
            self.registry.change(place, entry);
        }
        kinds.into_iter().for_each(|kind| self.registry.clear(kind));
        Ok(answer)
    }

    /// What is to be written, in the order it was saved.
    pub(super) fn into_changed(mut self) -> (Vec<Entry>, Changes) {
        let saved = std::mem::take(&mut self.saved);
        let entries = saved.iter().filter_map(|id| self.entries.remove(id).flatten());
        let entries = entries.filter(Entry::is_changed).collect();
        (entries, self.registry.into_changes())
    }

    fn keep(&mut self, saved: Saved) {
        let id = (saved.approval.tenant.clone(), saved.approval.id);
        self.take_slots(&saved.approval);
        let slot = self.entries.entry(id.clone()).or_insert(None);
        let mut entry = slot.take().unwrap_or_else(|| Entry {
            before: None,
            after: saved.approval.clone(),
            events: Vec::new(),
        });
        entry.after = saved.approval;
        entry.events.extend(saved.events);
        *slot = Some(entry);
        if !self.saved.contains(&id) {
            self.saved.push(id);
        }
    }

    /// Notes the channel and key an approval holds now, among those that were looked for.
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

/// One command's view: sees its own changes, and keeps them back until it is through.
struct Staged<'a> {
    set: &'a mut WorkingSet,
    saved: Vec<Saved>,
    entries: Vec<(Place, Option<RegistryEntry>)>,
    kinds: Vec<Kind>,
}

impl Staged<'_> {
    fn find(&self, tenant: &Tenant, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        let mut staged = self.saved.iter().rev().map(|saved| &saved.approval);
        if let Some(approval) = staged.find(|approval| approval.tenant == *tenant && approval.id == id) {
            return Ok(Some(Approval::clone(approval)));
        }
        let entry = self.set.entries.get(&(tenant.clone(), id)).ok_or_else(unlocked)?;
        Ok(entry.as_ref().map(|entry| Approval::clone(&entry.after)))
    }

    fn find_held(&self, tenant: &Tenant, id: Option<ApprovalId>) -> Result<Option<Approval>, StoreError> {
        id.map_or(Ok(None), |id| self.find(tenant, id))
    }
}

impl Rows for Staged<'_> {
    fn approval(&mut self, tenant: &Tenant, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.find(tenant, id)
    }

    fn pending_in(&mut self, tenant: &Tenant, channel: &Channel) -> Result<Option<Approval>, StoreError> {
        let slot = (tenant.clone(), channel.clone());
        let id = self.set.channels.get(&slot).ok_or_else(unlocked)?;
        self.find_held(tenant, *id)
    }

    fn by_key(&mut self, tenant: &Tenant, agent: &Agent, key: &Key) -> Result<Option<Approval>, StoreError> {
        let slot = (tenant.clone(), agent.clone(), key.clone());
        let id = self.set.keys.get(&slot).ok_or_else(unlocked)?;
        self.find_held(tenant, *id)
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

    fn save(&mut self, saved: Saved) -> Result<(), StoreError> {
        let approval = &saved.approval;
        // A new approval was not looked for; a row of its id shows when it is inserted.
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

    // No command looks at an entry again that it changed itself.
    fn entry(&mut self, kind: Kind, key: &str) -> Result<Option<RegistryEntry>, StoreError> {
        self.set.registry.find(kind, key)
    }

    fn due_entries(&mut self, now: Time, limit: usize) -> Result<Vec<Place>, StoreError> {
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

/// A row that was not locked must not be looked at, still less taken for absent.
pub(super) fn unlocked() -> StoreError {
    StoreError::Impossible("a command asked for a row it had not named".to_owned())
}
