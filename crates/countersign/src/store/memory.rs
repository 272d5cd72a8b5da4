//! A store in memory, for tests and for agents that need no persistence. Its data is lost when the process ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::ready;

use super::audit::{Audit, AuditProgress, Audited, Fault, LogCheck};
use super::{Cursor, FeedEvent, Filter, LONGEST_PAGE, Store, StoreError, Stored};
use crate::approval::{Approval, SharedApproval};
use crate::command::{Answer, Command, Rows, SavedApproval};
use crate::event::{Event, verify};
use crate::id::{Agent, ApprovalId, Channel, Key, Tenant};
use crate::log::{Checkpoint, LogEntry, LogHead};
use crate::registry::{Entry, Kind};
use crate::state::State;
use crate::time::{Clock, SystemClock, Time};
use crate::wake::Hub;

/// Keeps approvals, events and the registry in memory.
pub struct MemoryStore {
    inner: Mutex<Inner>,
    clock: Arc<dyn Clock>,
    hub: Hub,
}

type Id = (Tenant, ApprovalId);

#[derive(Default)]
struct Inner {
    approvals: HashMap<Id, (SharedApproval, Vec<Event>)>,
    // Ordered by id, and so by time of creation.
    all: BTreeSet<Id>,
    pending: BTreeSet<Id>,
    due: BTreeSet<(Time, Tenant, ApprovalId)>,
    channels: HashMap<(Tenant, Channel), ApprovalId>,
    keys: HashMap<(Tenant, Agent, Key), ApprovalId>,
    // Events of each tenant by sequence number, which counts over all tenants.
    feed: HashMap<Tenant, Vec<(u64, ApprovalId, u32)>>,
    sequence: u64,
    // Events of all tenants in order, and the head of that log.
    log: Vec<LogEntry>,
    head: LogHead,
    entries: BTreeMap<(Kind, String), Entry>,
    changes: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::with_clock(Arc::new(SystemClock::default()))
    }
}

impl MemoryStore {
    /// Creates an empty store that uses this clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> MemoryStore {
        MemoryStore {
            inner: Mutex::default(),
            clock,
            hub: Hub::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, command: &Command) -> Result<Answer, StoreError> {
        let mut inner = self.lock();
        // Read the clock only after taking the lock. Otherwise a decision that waited for the lock could be accepted
        // after the approval's expiry.
        let (now, certain) = (self.clock.now(), self.clock.certain());
        let mut staged = Staged {
            inner: &inner,
            certain,
            saved: Vec::new(),
            entries: Vec::new(),
        };
        let answer = command.apply(&mut staged, now);
        let (saved, entries) = (staged.saved, staged.entries);
        let answer = answer?;
        let is_changed = !saved.is_empty() || !entries.is_empty();
        inner.changes += u64::from(is_changed);
        for (place, entry) in entries {
            match entry {
                Some(entry) => _ = inner.entries.insert(place, entry),
                None => _ = inner.entries.remove(&place),
            }
        }
        for saved in &saved {
            inner.keep(saved);
        }
        drop(inner);
        for saved in saved {
            self.hub.publish(&saved.approval);
        }
        if is_changed {
            self.hub.signal();
        }
        Ok(answer)
    }
}

impl Inner {
    fn keep(&mut self, saved: &SavedApproval) {
        let approval = &saved.approval;
        let id = (approval.tenant.clone(), approval.id);
        let entry = self.approvals.entry(id.clone());
        let entry = entry.or_insert_with(|| (approval.clone(), Vec::new()));
        if let Some(due) = entry.0.due_at() {
            self.due.remove(&(due, id.0.clone(), id.1));
        }
        entry.0 = approval.clone();
        entry.1.extend(saved.events.iter().cloned());
        self.all.insert(id.clone());
        if let Some(due) = approval.due_at() {
            self.due.insert((due, id.0.clone(), id.1));
        }
        let feed = self.feed.entry(id.0.clone()).or_default();
        for event in &saved.events {
            self.sequence += 1;
            feed.push((self.sequence, id.1, event.number));
            let entry = LogEntry {
                tenant: id.0.clone(),
                approval: id.1,
                number: event.number,
                link: event.link,
            };
            self.head.push(entry.leaf());
            self.log.push(entry);
        }
        if let Some((key, _)) = &approval.key {
            self.keys
                .insert((id.0.clone(), approval.agent.clone(), key.clone()), id.1);
        }
        let slot = approval.channel.clone().map(|channel| (id.0.clone(), channel));
        match (approval.state, slot) {
            (State::Pending, Some(slot)) => _ = self.channels.insert(slot, id.1),
            (_, Some(slot)) if self.channels.get(&slot) == Some(&id.1) => _ = self.channels.remove(&slot),
            _ => {}
        }
        match approval.state {
            State::Pending => _ = self.pending.insert(id),
            _ => _ = self.pending.remove(&id),
        }
    }

    fn audit(&self, audit: &Audit) -> Audited {
        let mut audited = Audited::new(self.head.checkpoint());
        let of_tenant = |id: &&Id| audit.tenant.as_ref().is_none_or(|tenant| id.0 == *tenant);
        for (id, (approval, events)) in self.approvals.iter().filter(|(id, _)| of_tenant(id)) {
            audited.approvals += 1;
            audited.events += events.len() as u64;
            if let Err(broken) = verify(approval, events) {
                audited.add(Fault::of_approval(
                    id.0.as_str(),
                    id.1.as_bytes(),
                    "history",
                    broken,
                ));
            }
        }
        let mut log = LogCheck::new(self.head.clone(), audit.expected);
        self.log.iter().for_each(|entry| log.push(entry.leaf()));
        log.faults().into_iter().for_each(|fault| audited.add(fault));
        audited
    }

    fn get(&self, tenant: &Tenant, id: ApprovalId) -> Option<&SharedApproval> {
        self.approvals
            .get(&(tenant.clone(), id))
            .map(|(approval, _)| approval)
    }

    fn list(&self, tenant: &Tenant, filter: &Filter, now: Time) -> Vec<SharedApproval> {
        let (first, last) = (ApprovalId::from_bytes([0; 16]), ApprovalId::from_bytes([255; 16]));
        let range = |set: &BTreeSet<Id>, low: ApprovalId, high: ApprovalId| -> Vec<ApprovalId> {
            let range = set.range((tenant.clone(), low)..=(tenant.clone(), high));
            range
                .map(|(_, id)| *id)
                .filter(|id| filter.after != Some(*id))
                .collect()
        };
        let ids = match filter.oldest_first() {
            true => range(&self.pending, filter.after.unwrap_or(first), last),
            false => {
                let mut ids = range(&self.all, first, filter.after.unwrap_or(last));
                ids.reverse();
                ids
            }
        };
        let approvals = ids.into_iter().filter_map(|id| self.get(tenant, id));
        let mut page: Vec<SharedApproval> = approvals
            .filter(|approval| fits(approval, filter, now))
            .take(filter.page())
            .cloned()
            .collect();
        page.truncate(filter.count_within(page.iter().map(|approval| &**approval)).0);
        page
    }
}

fn fits(approval: &Approval, filter: &Filter, now: Time) -> bool {
    filter.state.is_none_or(|state| approval.state == state)
        && (filter.state != Some(State::Pending) || approval.expires_at > now)
        && (!filter.asked || approval.state != State::Passed)
        && (!filter.open || approval.due_at().is_some())
        && filter.agent.as_ref().is_none_or(|agent| approval.agent == *agent)
        && (filter.channel.is_none() || approval.channel == filter.channel)
        && (filter.run.is_none() || approval.run == filter.run)
}

/// A transaction: reads see its own changes, which become visible to others only if the command succeeds.
struct Staged<'a> {
    inner: &'a Inner,
    certain: Time,
    saved: Vec<SavedApproval>,
    // `None` marks a removed entry.
    entries: Vec<((Kind, String), Option<Entry>)>,
}

impl Staged<'_> {
    fn find(&self, tenant: &Tenant, id: ApprovalId) -> Option<Approval> {
        self.current(tenant, id).map(|approval| Approval::clone(approval))
    }

    fn version(&self, tenant: &Tenant, id: ApprovalId) -> u32 {
        self.current(tenant, id).map_or(0, |approval| approval.version)
    }

    fn current(&self, tenant: &Tenant, id: ApprovalId) -> Option<&SharedApproval> {
        let staged = self.saved.iter().rev().map(|saved| &saved.approval);
        let mut staged = staged.filter(|approval| approval.tenant == *tenant && approval.id == id);
        staged.next().or_else(|| self.inner.get(tenant, id))
    }
}

impl Rows for Staged<'_> {
    fn certain(&self, now: Time) -> Time {
        self.certain.min(now)
    }

    fn approval(&mut self, tenant: &Tenant, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        Ok(self.find(tenant, id))
    }

    fn pending_in(&mut self, tenant: &Tenant, channel: &Channel) -> Result<Option<Approval>, StoreError> {
        let id = self.inner.channels.get(&(tenant.clone(), channel.clone()));
        Ok(id.and_then(|id| self.find(tenant, *id)))
    }

    fn by_key(&mut self, tenant: &Tenant, agent: &Agent, key: &Key) -> Result<Option<Approval>, StoreError> {
        let id = self.inner.keys.get(&(tenant.clone(), agent.clone(), key.clone()));
        Ok(id.and_then(|id| self.find(tenant, *id)))
    }

    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Approval>, StoreError> {
        let due = self
            .inner
            .due
            .iter()
            .take_while(|(at, _, _)| *at <= now)
            .take(limit);
        Ok(due.filter_map(|(_, tenant, id)| self.find(tenant, *id)).collect())
    }

    fn pending_of(
        &mut self,
        tenant: &Tenant,
        agent: &Agent,
        limit: usize,
    ) -> Result<Vec<Approval>, StoreError> {
        let (first, last) = (ApprovalId::from_bytes([0; 16]), ApprovalId::from_bytes([255; 16]));
        let range = self
            .inner
            .pending
            .range((tenant.clone(), first)..=(tenant.clone(), last));
        let pending = range.filter_map(|(_, id)| self.current(tenant, *id));
        let own = pending.filter(|approval| approval.agent == *agent && approval.state == State::Pending);
        Ok(own
            .take(limit)
            .map(|approval| Approval::clone(approval))
            .collect())
    }

    fn save(&mut self, saved: SavedApproval) -> Result<(), StoreError> {
        let approval = &saved.approval;
        // Without this check, a new approval could overwrite an old one with the same id.
        if self.version(&approval.tenant, approval.id) != saved.version_before {
            let id = approval.id;
            return Err(StoreError::Impossible(format!("approval {id} changed meanwhile")));
        }
        self.saved.push(saved);
        Ok(())
    }

    // Ignores staged changes: no command reads an entry that it has changed itself.
    fn entry(&mut self, kind: Kind, key: &str) -> Result<Option<Entry>, StoreError> {
        Ok(self.inner.entries.get(&(kind, key.to_owned())).cloned())
    }

    fn due_entries(&mut self, now: Time, limit: usize) -> Result<Vec<(Kind, String)>, StoreError> {
        let over = self.inner.entries.iter().filter(|(_, entry)| !entry.is_live(now));
        let mut over: Vec<_> = over.map(|(place, entry)| (entry.expires_at, place)).collect();
        over.sort_unstable();
        let over = over.into_iter().take(limit);
        Ok(over.map(|(_, place)| place.clone()).collect())
    }

    fn keep_entry(&mut self, entry: Entry) -> Result<(), StoreError> {
        self.entries.push(((entry.kind, entry.key.clone()), Some(entry)));
        Ok(())
    }

    fn remove_entry(&mut self, kind: Kind, key: &str) -> Result<(), StoreError> {
        self.entries.push(((kind, key.to_owned()), None));
        Ok(())
    }

    fn remove_kind(&mut self, kind: Kind) -> Result<(), StoreError> {
        let places = self.inner.entries.keys().filter(|(found, _)| *found == kind);
        self.entries.extend(places.map(|place| (place.clone(), None)));
        Ok(())
    }
}

impl Store for MemoryStore {
    fn write(&self, command: Command) -> Stored<'_, Answer> {
        ready(self.run(&command)).boxed()
    }

    fn approval<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Option<SharedApproval>> {
        ready(Ok(self.lock().get(tenant, id).cloned())).boxed()
    }

    fn pending_in<'a>(
        &'a self,
        tenant: &'a Tenant,
        channel: &'a Channel,
    ) -> Stored<'a, Option<SharedApproval>> {
        let inner = self.lock();
        let id = inner.channels.get(&(tenant.clone(), channel.clone()));
        let approval = id.and_then(|id| inner.get(tenant, *id)).cloned();
        let now = self.clock.now();
        ready(Ok(approval.filter(|approval| approval.expires_at > now))).boxed()
    }

    fn list<'a>(&'a self, tenant: &'a Tenant, filter: &'a Filter) -> Stored<'a, Vec<SharedApproval>> {
        ready(Ok(self.lock().list(tenant, filter, self.clock.now()))).boxed()
    }

    fn events<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Vec<Event>> {
        let inner = self.lock();
        let events = inner
            .approvals
            .get(&(tenant.clone(), id))
            .map(|(_, events)| events.clone());
        ready(Ok(events.unwrap_or_default())).boxed()
    }

    fn feed<'a>(&'a self, tenant: &'a Tenant, after: Cursor, limit: usize) -> Stored<'a, Vec<FeedEvent>> {
        let inner = self.lock();
        let own = inner.feed.get(tenant).map_or(&[][..], Vec::as_slice);
        let seen = own.partition_point(|(sequence, _, _)| *sequence <= after.sequence);
        let events = own.iter().skip(seen).filter_map(|(sequence, approval, number)| {
            let (_, events) = inner.approvals.get(&(tenant.clone(), *approval))?;
            let event = events
                .get(usize::try_from(*number).ok()?.checked_sub(1)?)?
                .clone();
            Some(FeedEvent {
                cursor: Cursor {
                    transaction: 0,
                    sequence: *sequence,
                },
                approval: *approval,
                event,
            })
        });
        ready(Ok(events.take(limit).collect())).boxed()
    }

    fn feed_end<'a>(&'a self, _: &'a Tenant) -> Stored<'a, Cursor> {
        let sequence = self.lock().sequence;
        ready(Ok(Cursor {
            transaction: 0,
            sequence,
        }))
        .boxed()
    }

    fn log_head(&self) -> Stored<'_, Checkpoint> {
        ready(Ok(self.lock().head.checkpoint())).boxed()
    }

    fn log(&self, from: u64, limit: usize) -> Stored<'_, Vec<LogEntry>> {
        let inner = self.lock();
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let page = inner.log.iter().skip(from).take(limit.min(LONGEST_PAGE));
        ready(Ok(page.cloned().collect())).boxed()
    }

    fn audit<'a>(
        &'a self,
        audit: &'a Audit,
        _: &'a (dyn Fn(AuditProgress) + Send + Sync),
    ) -> Stored<'a, Audited> {
        ready(Ok(self.lock().audit(audit))).boxed()
    }

    fn change_counter(&self) -> Stored<'_, Option<u64>> {
        ready(Ok(Some(self.lock().changes))).boxed()
    }

    fn entry<'a>(&'a self, kind: Kind, key: &'a str) -> Stored<'a, Option<Entry>> {
        let entry = self.lock().entries.get(&(kind, key.to_owned())).cloned();
        let now = self.clock.now();
        ready(Ok(entry.filter(|entry| entry.is_live(now)))).boxed()
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a Tenant,
        kind: Kind,
        after: Option<&'a str>,
        limit: usize,
    ) -> Stored<'a, Vec<Entry>> {
        let inner = self.lock();
        let now = self.clock.now();
        // Keys are never empty, so the empty string precedes all of them.
        let after = after.unwrap_or_default();
        let behind = inner.entries.range((kind, after.to_owned())..);
        let own = behind.take_while(|((found, _), _)| *found == kind);
        let own = own.map(|(_, entry)| entry);
        let there = own.filter(|entry| entry.key != after && entry.tenant == *tenant && entry.is_live(now));
        ready(Ok(there.take(limit.min(LONGEST_PAGE)).cloned().collect())).boxed()
    }

    fn now(&self) -> Stored<'_, Time> {
        ready(Ok(self.clock.now())).boxed()
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }
}
