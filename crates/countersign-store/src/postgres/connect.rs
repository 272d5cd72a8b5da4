//! Connections: opening one, keeping it driven, and not knocking too often at a door that is shut.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use countersign::store::StoreError;
use tokio::task::JoinHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::config::{CONNECT_TIMEOUT, Target};
use super::error::{ConnectError, words};
use super::tenants::Tenants;

/// After a failure nobody tries again for so long; all who ask meanwhile get the same answer at once.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(200);

/// The oldest server with 64-bit transaction ids in SQL, which the feed needs.
const OLDEST_SERVER: i32 = 130_000;

/// What every connection is set to.
///
/// - The path holds only our schema, so nobody can put a function or table of theirs before ours.
/// - Waiting ends: for a lock, a statement, a client that went away in the middle.
/// - Plans use indexes from the first row on. A plan made while a table was empty would otherwise read all of it until
///   statistics are taken, and a plan for each execution costs more than the execution.
/// - What is acknowledged is on disk, also where the server's default says otherwise.
const SETTINGS: &str = "
    SET search_path = countersign, pg_temp;
    SET lock_timeout = '3s';
    SET statement_timeout = '15s';
    SET idle_in_transaction_session_timeout = '20s';
    SET enable_seqscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET jit = off;
    SET plan_cache_mode = force_generic_plan;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

pub(super) type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
pub(super) type Driver = Connection<Socket, Stream>;

/// Opens connections.
pub(super) struct Connector {
    target: Target,
    failure: Mutex<Option<(Instant, StoreError)>>,
}

/// A task that ends with its owner.
pub(super) struct Owned(JoinHandle<()>);

impl Owned {
    pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Owned {
        Owned(tokio::spawn(task))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An open connection, driven by a task of its own.
pub(super) struct Session {
    pub(super) client: Client,
    /// Whose rows it sees, when that is known.
    tenants: Mutex<Tenants>,
    _driver: Owned,
}

impl Session {
    /// Lets this connection see the rows of these tenants and no others. For connections that one owner uses at a time.
    pub(super) async fn see(&self, tenants: &Tenants) -> Result<(), Error> {
        {
            let mut seen = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
            if *seen == *tenants {
                return Ok(());
            }
            // Not known until the server has answered.
            *seen = Tenants::default();
        }
        tenants.show(&self.client).await?;
        *self.tenants.lock().unwrap_or_else(PoisonError::into_inner) = tenants.clone();
        Ok(())
    }
}

impl Connector {
    pub(super) fn new(target: Target) -> Arc<Connector> {
        Arc::new(Connector {
            target,
            failure: Mutex::default(),
        })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Opens a connection the way `PostgresStore::connect` reports it.
    pub(super) async fn open_first(&self) -> Result<Session, ConnectError> {
        let failed = |error| ConnectError::from_driver(&error, &self.target);
        let (session, version) = self.open_raw().await.map_err(failed)?;
        let row = session.client.query_one("SHOW server_version_num", &[]).await;
        let number = row.and_then(|row| row.try_get::<_, String>(0)).map_err(failed)?;
        match number.parse::<i32>() {
            Ok(number) if number >= OLDEST_SERVER => Ok(session),
            _ => Err(ConnectError::OldServer(version)),
        }
    }

    /// Opens a connection, or says at once that there is none to be had.
    pub(super) async fn open(&self) -> Result<Session, StoreError> {
        if let Some(error) = self.recent_failure() {
            return Err(error);
        }
        // The driver's own limit is for each address; this one is for all of it.
        let attempt = tokio::time::timeout(CONNECT_TIMEOUT * 2, self.open_raw()).await;
        let why = match attempt {
            Ok(Ok((session, _))) => {
                *self.failure() = None;
                return Ok(session);
            }
            Ok(Err(error)) => words(&error),
            Err(_) => "no answer in time".to_owned(),
        };
        let error = StoreError::Unavailable(why);
        *self.failure() = Some((Instant::now(), error.clone()));
        Err(error)
    }

    /// A connection that nobody drives yet, for the one who wants its notifications.
    pub(super) async fn open_undriven(&self) -> Result<(Client, Driver), tokio_postgres::Error> {
        self.target.config.connect(self.target.tls.clone()).await
    }

    async fn open_raw(&self) -> Result<(Session, String), tokio_postgres::Error> {
        let (client, driver) = self.open_undriven().await?;
        let version = driver.parameter("server_version").unwrap_or("?").to_owned();
        let driver = Owned::spawn(async move {
            // Whoever uses the connection is told of its end by the client.
            let _ = driver.await;
        });
        let session = Session {
            client,
            tenants: Mutex::default(),
            _driver: driver,
        };
        session.client.batch_execute(SETTINGS).await?;
        Ok((session, version))
    }

    fn recent_failure(&self) -> Option<StoreError> {
        let failure = self.failure();
        let (at, error) = failure.as_ref()?;
        (at.elapsed() < PAUSE_AFTER_FAILURE).then(|| error.clone())
    }

    fn failure(&self) -> std::sync::MutexGuard<'_, Option<(Instant, StoreError)>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
