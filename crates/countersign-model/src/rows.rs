//! A store that can be cloned: the rows that commands are applied to.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign::approval::{Approval, SharedApproval};
use countersign::command::{Rows, SavedApproval};
use countersign::event::Event;
use countersign::id::{Agent, ApprovalId, Channel, Key, Tenant};
use countersign::registry::{Entry, Kind};
use countersign::state::State;
use countersign::store::StoreError;
use countersign::time::Time;

/// Approvals with their events, and registry entries. A transaction works on a clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: BTreeMap<ApprovalId, Row>,
    entries: BTreeMap<(Kind, String), Entry>,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) approval: SharedApproval,
    pub(crate) events: Arc<Vec<Event>>,
}

impl Table {
    fn find(&self, fits: impl Fn(&Approval) -> bool) -> Option<Approval> {
        let mut all = self.rows.values().map(|row| &row.approval);
        all.find(|approval| fits(approval))
            .map(|approval| Approval::clone(approval))
    }
}

impl Rows for Table {
    fn approval(&mut self, tenant: &Tenant, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        Ok(self.find(|approval| approval.id == id && approval.tenant == *tenant))
    }

    fn pending_in(&mut self, tenant: &Tenant, channel: &Channel) -> Result<Option<Approval>, StoreError> {
        Ok(self.find(|approval| {
            approval.state == State::Pending
                && approval.channel.as_ref() == Some(channel)
                && approval.tenant == *tenant
        }))
    }

    fn by_key(&mut self, tenant: &Tenant, agent: &Agent, key: &Key) -> Result<Option<Approval>, StoreError> {
        Ok(self.find(|approval| {
            approval.key.as_ref().is_some_and(|(found, _)| found == key)
                && approval.agent == *agent
                && approval.tenant == *tenant
        }))
    }

    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Approval>, StoreError> {
        let due = self
            .rows
            .values()
            .filter(|row| row.approval.due_at().is_some_and(|due| due <= now));
        Ok(due
            .take(limit)
            .map(|row| Approval::clone(&row.approval))
            .collect())
    }

    fn pending_of(
        &mut self,
        tenant: &Tenant,
        agent: &Agent,
        limit: usize,
    ) -> Result<Vec<Approval>, StoreError> {
        let pending = self.rows.values().filter(|row| {
            row.approval.state == State::Pending
                && row.approval.agent == *agent
                && row.approval.tenant == *tenant
        });
        Ok(pending
            .take(limit)
            .map(|row| Approval::clone(&row.approval))
            .collect())
    }

    fn save(&mut self, saved: SavedApproval) -> Result<(), StoreError> {
        let id = saved.approval.id;
        let found = self.rows.get(&id);
        if found.map_or(0, |row| row.approval.version) != saved.version_before {
            return Err(StoreError::Impossible(format!("approval {id} changed meanwhile")));
        }
        let mut events = found.map_or_else(Vec::new, |row| row.events.to_vec());
        events.extend(saved.events);
        let row = Row {
            approval: saved.approval,
            events: Arc::new(events),
        };
        self.rows.insert(id, row);
        Ok(())
    }

    fn entry(&mut self, kind: Kind, key: &str) -> Result<Option<Entry>, StoreError> {
        Ok(self.entries.get(&(kind, key.to_owned())).cloned())
    }

    fn due_entries(&mut self, now: Time, limit: usize) -> Result<Vec<(Kind, String)>, StoreError> {
        let over = self.entries.iter().filter(|(_, entry)| !entry.is_live(now));
        Ok(over.take(limit).map(|(place, _)| place.clone()).collect())
    }

    fn keep_entry(&mut self, entry: Entry) -> Result<(), StoreError> {
        self.entries.insert((entry.kind, entry.key.clone()), entry);
        Ok(())
    }

    fn remove_entry(&mut self, kind: Kind, key: &str) -> Result<(), StoreError> {
        self.entries.remove(&(kind, key.to_owned()));
        Ok(())
    }

    fn remove_kind(&mut self, kind: Kind) -> Result<(), StoreError> {
        self.entries.retain(|(found, _), _| *found != kind);
        Ok(())
    }
}
