//! The store in PostgreSQL: for several nodes that share their approvals.
//!
//! A write goes through a lane (`batch`), which runs it with others in one transaction (`transaction`: `lock`,
//! `rows`, `save`). Reads go over connections of their own (`read`), waiters are woken by `notify`. Nodes hold no state:
//! any of them may stop at any time.

mod batch;
mod clock;
mod composite;
mod config;
mod connect;
mod decode;
mod entries;
mod error;
mod fields;
mod gather;
mod lock;
mod migrate;
mod notify;
mod read;
mod rows;
mod save;
mod tenants;
mod together;
mod transaction;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command};
use countersign::event::Event;
use countersign::id::{ApprovalId, Channel, Tenant};
use countersign::registry::{Entry, Kind};
use countersign::store::{Cursor, FeedEvent, Filter, Store, StoreError, Stored};
use countersign::time::{Clock, Time};
use countersign::wake::Hub;

use batch::{Lane, Lanes};
use clock::ServerClock;
use config::Target;
use connect::Connector;
use gather::Gathering;
use notify::Wakers;
use read::Readers;
use together::Looks;

pub use error::ConnectError;

/// How to use a database.
#[derive(Clone)]
pub struct PostgresOptions {
    /// How many transactions this node has under way at once. One is mostly best: what waits for a lane shares its
    /// commit, and more lanes make smaller groups. More help where a commit takes long, as with a distant standby.
    pub lanes: usize,
    /// Replaces the server's clock, in tests.
    pub clock: Option<Arc<dyn Clock>>,
    /// The name the server shows for our connections.
    pub application_name: String,
    /// Brings the schema forward first; otherwise it has to be there.
    pub migrate: bool,
    /// The authority that signed the server's certificate, when it is not one this machine trusts anyway.
    pub ca_file: Option<PathBuf>,
    /// Tells other nodes of changes, and listens to them. A pooler that knows no LISTEN needs this off; waiters then
    /// learn of other nodes' changes within a second.
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

/// Keeps approvals in PostgreSQL.
pub struct PostgresStore {
    place: String,
    lanes: RwLock<Option<Arc<Lanes>>>,
    readers: Arc<Readers>,
    looks: Arc<Looks>,
    wakers: RwLock<Option<Wakers>>,
    hub: Arc<Hub>,
}

impl PostgresStore {
    /// Connects, and makes or checks the schema. The URL's `sslmode` and `sslrootcert` are understood; over a network
    /// the server's certificate is always verified, unless the URL says `sslmode=disable`.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<PostgresStore, ConnectError> {
        let target = Target::read(url, &options.application_name, options.ca_file.as_deref())?;
        let place = format!("{}/{}", target.place(), target.database());
        let connector = Connector::new(target);
        let first = connector.open_first().await?;
        match options.migrate {
            true => migrate::migrate(&connector, &first).await?,
            false => migrate::verify(&connector, &first).await?,
        }
        drop(first);
        let hub = Arc::new(Hub::default());
        let server_clock = Arc::new(ServerClock::default());
        let readers = Readers::new(connector.clone(), options.clock.clone(), server_clock.clone());
        let readers = Arc::new(readers);
        let (wakers, announcer) = Wakers::start(&hub, &connector, &readers, options.notify);
        let lanes = Lanes::start(options.lanes, || Lane {
            connector: connector.clone(),
            clock: options.clock.clone(),
            server_clock: server_clock.clone(),
            announcer: announcer.clone(),
            session: None,
            gathering: Gathering::default(),
        });
        Ok(PostgresStore {
            place,
            lanes: RwLock::new(Some(Arc::new(lanes))),
            readers,
            looks: Arc::default(),
            wakers: RwLock::new(Some(wakers)),
            hub,
        })
    }

    /// Takes no more writes and ends what runs in the background. What was taken already is still finished. Dropping
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
        write!(f, "PostgresStore({})", self.place)
    }
}

impl Store for PostgresStore {
    fn write(&self, command: Command) -> Stored<'_, Answer> {
        Box::pin(async move { self.lanes()?.write(command).await })
    }

    fn approval<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Option<SharedApproval>> {
        Box::pin(self.looks.look(&self.readers, (tenant.clone(), id)))
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

    fn feed_end<'a>(&'a self, _: &'a Tenant) -> Stored<'a, Cursor> {
        Box::pin(self.readers.feed_end())
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
        // No key is empty.
        Box::pin(
            self.readers
                .entries(tenant, kind, after.unwrap_or_default(), limit),
        )
    }

    fn now(&self) -> Stored<'_, Time> {
        Box::pin(self.readers.now())
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }
}
