//! PostgreSQL store, for several nodes that share their approvals.
//!
//! A write goes through a lane (`lanes`), which runs it with others in one transaction (`transaction`: `lock`, `rows`,
//! `save`). Reads use connections of their own (`read`), and `notify` wakes waiters. Nodes hold no state: any of them
//! may stop at any time.

mod audit;
mod clock;
mod composite;
mod composite_rows;
mod config;
mod connect;
mod decode;
mod entries;
mod error;
mod group_commit;
mod lanes;
mod limits;
mod lock;
mod log;
mod migrate;
mod notify;
mod read;
mod rows;
mod save;
mod tenants;
mod transaction;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command};
use countersign::event::Event;
use countersign::id::{ApprovalId, Channel, Tenant};
use countersign::log::{Checkpoint, LogEntry};
use countersign::registry::{Entry, Kind};
use countersign::store::{
    Audit, AuditProgress, Audited, Cursor, FeedEvent, Filter, LONGEST_PAGE, Released, Store, StoreError,
    Stored,
};
use countersign::time::{Clock, ClockTrouble, LARGEST_JUMP, SystemClock, Time};
use countersign::wake::Hub;

use clock::ServerClock;
use config::Target;
use connect::Connector;
use group_commit::GroupCommit;
use lanes::{Lane, Lanes};
use notify::Wakers;
use read::Readers;

pub use error::ConnectError;

/// Options for connecting to a database.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Number of concurrent write transactions of this node. One is usually best: commands that wait for a lane share
    /// its commit, and with more lanes fewer commands share each commit. More lanes help if a commit takes long, for
    /// example because of a distant standby.
    pub lanes: usize,
    /// Clock to use instead of the server's, for tests; `None` otherwise.
    pub clock: Option<Arc<dyn Clock>>,
    /// Application name of this node's connections, as shown in the server's `pg_stat_activity`; by default
    /// `countersign`.
    pub application_name: String,
    /// True (the default) to apply missing migrations when connecting. If false, connecting fails if any are missing.
    pub migrate: bool,
    /// File with the CA certificates to verify the server with (PEM), instead of those that this machine trusts.
    pub ca_file: Option<PathBuf>,
    /// True (the default) to notify other nodes of changes and to listen for their notifications. Set it to false
    /// behind a connection pooler that does not support LISTEN; waiters then learn of other nodes' changes within a
    /// second.
    pub notify: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        PostgresOptions {
            lanes: 1,
            clock: None,
            application_name: "countersign".to_owned(),
            migrate: true,
            ca_file: None,
            notify: true,
        }
    }
}

/// A store in a PostgreSQL database. Several nodes may use the same database at once.
pub struct PostgresStore {
    address: String,
    connector: Arc<Connector>,
    lanes: RwLock<Option<Arc<Lanes>>>,
    readers: Arc<Readers>,
    server_clock: Arc<ServerClock>,
    machine_clock: Arc<SystemClock>,
    wakers: RwLock<Option<Wakers>>,
    hub: Arc<Hub>,
}

impl PostgresStore {
    /// Connects, and migrates or checks the schema. `url` has the form `postgresql://role:password@host:5432/database`
    /// and may contain `sslmode` and `sslrootcert`. Over a network the server's certificate is always verified, unless
    /// the URL contains `sslmode=disable`.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<PostgresStore, ConnectError> {
        let target = Target::read(url, &options.application_name, options.ca_file.as_deref())?;
        let address = format!("{}/{}", target.address(), target.database());
        let connector = Connector::new(target);
        let first = connector.open_first().await?;
        match options.migrate {
            true => migrate::migrate(&connector, &first).await?,
            false => migrate::verify(&connector, &first).await?,
        }
        drop(first);
        let hub = Arc::new(Hub::default());
        let server_clock = Arc::new(ServerClock::default());
        let machine_clock = Arc::new(SystemClock::default());
        let readers = Readers::new(connector.clone(), options.clock.clone(), server_clock.clone());
        let readers = Arc::new(readers);
        let (wakers, announcer) = Wakers::start(&hub, &connector, &readers, options.notify);
        let lanes = Lanes::start(options.lanes, || Lane {
            connector: connector.clone(),
            clock: options.clock.clone(),
            server_clock: server_clock.clone(),
            machine_clock: machine_clock.clone(),
            announcer: announcer.clone(),
            session: None,
            group_commit: GroupCommit::default(),
        });
        Ok(PostgresStore {
            address,
            connector,
            lanes: RwLock::new(Some(Arc::new(lanes))),
            readers,
            server_clock: server_clock.clone(),
            machine_clock,
            wakers: RwLock::new(Some(wakers)),
            hub,
        })
    }

    /// Refuses further writes and stops the background tasks. Writes that were already accepted are finished. Dropping
    /// the store does the same.
    pub fn close(&self) {
        *self.lanes.write().unwrap_or_else(PoisonError::into_inner) = None;
        *self.wakers.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn lanes(&self) -> Result<Arc<Lanes>, StoreError> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes
            .clone()
            .ok_or_else(|| StoreError::Stopped("the store was closed".to_owned()))
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PostgresStore({})", self.address)
    }
}

impl Store for PostgresStore {
    fn write(&self, command: Command) -> Stored<'_, Answer> {
        Box::pin(async move { self.lanes()?.write(command).await })
    }

    fn approval<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Option<SharedApproval>> {
        Box::pin(self.readers.approval(tenant, id))
    }

    fn pending_in<'a>(
        &'a self,
        tenant: &'a Tenant,
        channel: &'a Channel,
    ) -> Stored<'a, Option<SharedApproval>> {
        Box::pin(self.readers.pending_in(tenant, channel))
    }

    fn list<'a>(&'a self, tenant: &'a Tenant, filter: &'a Filter) -> Stored<'a, Vec<SharedApproval>> {
        Box::pin(self.readers.list(tenant, filter))
    }

    fn events<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Vec<Event>> {
        Box::pin(self.readers.events(tenant, id))
    }

    fn feed<'a>(&'a self, tenant: &'a Tenant, after: Cursor, limit: usize) -> Stored<'a, Vec<FeedEvent>> {
        Box::pin(self.readers.feed(tenant, after, limit))
    }

    fn released<'a>(&'a self, tenant: &'a Tenant, after: Cursor) -> Stored<'a, Released> {
        Box::pin(self.readers.released(tenant, after))
    }

    fn count_pending<'a>(&'a self, tenant: &'a Tenant) -> Stored<'a, u64> {
        Box::pin(self.readers.count_pending(tenant))
    }

    fn feed_end<'a>(&'a self, _: &'a Tenant) -> Stored<'a, Cursor> {
        Box::pin(self.readers.feed_end())
    }

    fn log_head(&self) -> Stored<'_, Checkpoint> {
        Box::pin(self.readers.log_head())
    }

    fn log(&self, from: u64, limit: usize) -> Stored<'_, Vec<LogEntry>> {
        Box::pin(
            async move { log::entries(&self.connector.open().await?, from, limit.min(LONGEST_PAGE)).await },
        )
    }

    fn audit<'a>(
        &'a self,
        audit: &'a Audit,
        progress: &'a (dyn Fn(AuditProgress) + Send + Sync),
    ) -> Stored<'a, Audited> {
        Box::pin(async move { audit::run(&self.connector.open().await?, audit, progress).await })
    }

    fn entry<'a>(&'a self, kind: Kind, key: &'a str) -> Stored<'a, Option<Entry>> {
        Box::pin(self.readers.entry(kind, key))
    }

    fn entries_named<'a>(&'a self, names: &'a [(Kind, String)]) -> Stored<'a, Vec<Option<Entry>>> {
        Box::pin(self.readers.entries_named(names))
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a Tenant,
        kind: Kind,
        after: Option<&'a str>,
        limit: usize,
    ) -> Stored<'a, Vec<Entry>> {
        // Every key is greater than the empty one.
        Box::pin(
            self.readers
                .entries(tenant, kind, after.unwrap_or_default(), limit),
        )
    }

    fn clock_trouble(&self) -> Option<ClockTrouble> {
        let ahead = self.server_clock.now()?.since(self.machine_clock.now());
        (ahead > LARGEST_JUMP).then_some(ClockTrouble::StoreIsAhead(ahead))
    }

    fn now(&self) -> Stored<'_, Time> {
        Box::pin(self.readers.now())
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }
}
