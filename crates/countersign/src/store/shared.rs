//! Implements [`Store`] for a shared pointer to a store, so that a gate and its host can hold the same one.
//!
//! Every method is forwarded, even those with a default implementation: otherwise a store's own implementation would be
//! bypassed.

use std::sync::Arc;

use super::{
    Audit, AuditProgress, Audited, Cursor, FeedEvent, Filter, Purge, Purged, Released, Store, Stored,
};
use crate::approval::SharedApproval;
use crate::command::{Answer, Command, Voided};
use crate::event::Event;
use crate::hash::Hash;
use crate::id::{ApprovalId, Channel, Tenant};
use crate::log::{Checkpoint, LogEntry};
use crate::registry::{Entry, Kind, Put};
use crate::store::StoreError;
use crate::time::{ClockTrouble, Time};
use crate::wake::Hub;

impl<S: Store + ?Sized> Store for Arc<S> {
    fn write(&self, command: Command) -> Stored<'_, Answer> {
        (**self).write(command)
    }

    fn approval<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Option<SharedApproval>> {
        (**self).approval(tenant, id)
    }

    fn pending_in<'a>(
        &'a self,
        tenant: &'a Tenant,
        channel: &'a Channel,
    ) -> Stored<'a, Option<SharedApproval>> {
        (**self).pending_in(tenant, channel)
    }

    fn list<'a>(&'a self, tenant: &'a Tenant, filter: &'a Filter) -> Stored<'a, Vec<SharedApproval>> {
        (**self).list(tenant, filter)
    }

    fn events<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Vec<Event>> {
        (**self).events(tenant, id)
    }

    fn feed<'a>(&'a self, tenant: &'a Tenant, after: Cursor, limit: usize) -> Stored<'a, Vec<FeedEvent>> {
        (**self).feed(tenant, after, limit)
    }

    fn feed_end<'a>(&'a self, tenant: &'a Tenant) -> Stored<'a, Cursor> {
        (**self).feed_end(tenant)
    }

    fn log_head(&self) -> Stored<'_, Checkpoint> {
        (**self).log_head()
    }

    fn log(&self, from: u64, limit: usize) -> Stored<'_, Vec<LogEntry>> {
        (**self).log(from, limit)
    }

    fn audit<'a>(
        &'a self,
        audit: &'a Audit,
        progress: &'a (dyn Fn(AuditProgress) + Send + Sync),
    ) -> Stored<'a, Audited> {
        (**self).audit(audit, progress)
    }

    fn released<'a>(&'a self, tenant: &'a Tenant, after: Cursor) -> Stored<'a, Released> {
        (**self).released(tenant, after)
    }

    fn count_pending<'a>(&'a self, tenant: &'a Tenant) -> Stored<'a, u64> {
        (**self).count_pending(tenant)
    }

    fn health(&self) -> Result<(), StoreError> {
        (**self).health()
    }

    fn clock_trouble(&self) -> Option<ClockTrouble> {
        (**self).clock_trouble()
    }

    fn change_counter(&self) -> Stored<'_, Option<u64>> {
        (**self).change_counter()
    }

    fn entry<'a>(&'a self, kind: Kind, key: &'a str) -> Stored<'a, Option<Entry>> {
        (**self).entry(kind, key)
    }

    fn entries_named<'a>(&'a self, names: &'a [(Kind, String)]) -> Stored<'a, Vec<Option<Entry>>> {
        (**self).entries_named(names)
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a Tenant,
        kind: Kind,
        after: Option<&'a str>,
        limit: usize,
    ) -> Stored<'a, Vec<Entry>> {
        (**self).entries(tenant, kind, after, limit)
    }

    fn put_entry(&self, entry: Entry) -> Stored<'_, Put> {
        (**self).put_entry(entry)
    }

    fn take_entry<'a>(&'a self, kind: Kind, key: &'a str) -> Stored<'a, Option<Entry>> {
        (**self).take_entry(kind, key)
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> Stored<'a, Purged> {
        (**self).purge(purge)
    }

    fn void_open(&self, policy: Hash) -> Stored<'_, Voided> {
        (**self).void_open(policy)
    }

    fn now(&self) -> Stored<'_, Time> {
        (**self).now()
    }

    fn hub(&self) -> &Hub {
        (**self).hub()
    }
}
