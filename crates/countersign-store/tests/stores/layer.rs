//! A wrapper around a store that can intercept writes or choose the store to call.

use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command};
use countersign::event::Event;
use countersign::id::{ApprovalId, Channel, Tenant};
use countersign::log::{Checkpoint, LogEntry};
use countersign::registry::{Entry, Kind};
use countersign::store::{Audit, AuditProgress, Audited, Cursor, FeedEvent, Filter, Store, Stored};
use countersign::time::Time;
use countersign::wake::Hub;

pub trait Layer: Send + Sync + 'static {
    /// Returns the store to use for the next call.
    fn store(&self) -> &dyn Store;

    fn write(&self, command: Command) -> Stored<'_, Answer> {
        self.store().write(command)
    }
}

pub struct Layered<L>(pub L);

impl<L: Layer> Store for Layered<L> {
    fn write(&self, command: Command) -> Stored<'_, Answer> {
        self.0.write(command)
    }

    fn approval<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Option<SharedApproval>> {
        self.0.store().approval(tenant, id)
    }

    fn pending_in<'a>(
        &'a self,
        tenant: &'a Tenant,
        channel: &'a Channel,
    ) -> Stored<'a, Option<SharedApproval>> {
        self.0.store().pending_in(tenant, channel)
    }

    fn list<'a>(&'a self, tenant: &'a Tenant, filter: &'a Filter) -> Stored<'a, Vec<SharedApproval>> {
        self.0.store().list(tenant, filter)
    }

    fn events<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Vec<Event>> {
        self.0.store().events(tenant, id)
    }

    fn feed<'a>(&'a self, tenant: &'a Tenant, after: Cursor, limit: usize) -> Stored<'a, Vec<FeedEvent>> {
        self.0.store().feed(tenant, after, limit)
    }

    fn feed_end<'a>(&'a self, tenant: &'a Tenant) -> Stored<'a, Cursor> {
        self.0.store().feed_end(tenant)
    }

    fn log_head(&self) -> Stored<'_, Checkpoint> {
        self.0.store().log_head()
    }

    fn log(&self, from: u64, limit: usize) -> Stored<'_, Vec<LogEntry>> {
        self.0.store().log(from, limit)
    }

    fn audit<'a>(
        &'a self,
        audit: &'a Audit,
        progress: &'a (dyn Fn(AuditProgress) + Send + Sync),
    ) -> Stored<'a, Audited> {
        self.0.store().audit(audit, progress)
    }

    fn entry<'a>(&'a self, kind: Kind, key: &'a str) -> Stored<'a, Option<Entry>> {
        self.0.store().entry(kind, key)
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a Tenant,
        kind: Kind,
        after: Option<&'a str>,
        limit: usize,
    ) -> Stored<'a, Vec<Entry>> {
        self.0.store().entries(tenant, kind, after, limit)
    }

    fn now(&self) -> Stored<'_, Time> {
        self.0.store().now()
    }

    fn hub(&self) -> &Hub {
        self.0.store().hub()
    }
}
