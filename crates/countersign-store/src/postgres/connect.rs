//! Opens connections, drives each in a background task, and backs off after a failed attempt.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use countersign::store::StoreError;
use futures_util::stream::{self, StreamExt as _};
use tokio::task::JoinHandle;
use tokio_postgres::error::Severity;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Connection, Error, Row, RowStream, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::config::Target;
use super::error::{ConnectError, StatementError};
use super::limits;
use super::tenants::VisibleTenants;

/// Time after a failed attempt to connect during which further attempts fail at once with the same error.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Oldest supported server version. Earlier versions have no 64-bit transaction ids in SQL, which the feed needs.
const OLDEST_SERVER: i32 = 130_000;

/// Settings of every connection.
///
/// - `search_path` contains only the schema `countersign`, and the temporary one last, so that no other schema can
///   shadow its functions and tables.
/// - Waits are bounded: for a lock, for a statement, and for a client that disappears within a transaction.
/// - Plans use indexes from the first row on and are made once. A plan made for an empty table would otherwise scan the
///   table until statistics exist, and planning each execution costs more than the execution.
/// - The server ends statements that run longer than this program waits, and detects vanished clients by TCP
///   keepalives.
/// - An acknowledged commit is on disk, and also on the disk of a synchronous standby if there is one, whatever the
///   defaults of the server and the role. `remote_apply`, which waits for more than that, is kept.
const SETTINGS: &str = "
    SET search_path = countersign, pg_temp;
    SET lock_timeout = '3s';
    SET statement_timeout = '8s';
    SET idle_in_transaction_session_timeout = '20s';
    SET tcp_keepalives_idle = 30;
    SET tcp_keepalives_interval = 10;
    SET tcp_keepalives_count = 3;
    SET enable_seqscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET jit = off;
    SET plan_cache_mode = force_generic_plan;
    SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')";

/// Statement that commits an empty message if a synchronous standby is configured. An answer without a warning proves
/// that the standby has everything that was committed before. Otherwise the server may show commits that the standby
/// lacks: after a crash, or after a cancelled wait for the standby.
pub(super) const CONFIRM: &str = "SELECT pg_logical_emit_message(true, 'countersign', '')
    WHERE current_setting('synchronous_standby_names') <> ''";

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
type Driver = Connection<Socket, Stream>;

/// Opens connections to one server. After a failed attempt, further attempts fail for a short time with the same error.
pub(super) struct Connector {
    target: Target,
    failure: Mutex<Option<(Instant, StoreError)>>,
}

/// A task that is aborted when this handle is dropped.
pub(super) struct AbortOnDrop(JoinHandle<()>);

impl AbortOnDrop {
    pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortOnDrop {
        AbortOnDrop(tokio::spawn(task))
    }

    fn abort(&self) {
        self.0.abort();
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An open connection, which a background task of its own drives.
///
/// Answers are awaited only through [`Session::within`], so that each has a time limit.
pub(super) struct Session {
    client: Client,
    /// Tenants whose rows are visible on this connection; empty if the visible tenants are not known.
    tenants: Mutex<VisibleTenants>,
    /// True if a statement got no answer in time, after which the connection is closed.
    is_timed_out: AtomicBool,
    warnings: Arc<AtomicUsize>,
    driver: AbortOnDrop,
}

impl Session {
    /// Runs statements with a time limit. If there is no answer in time, the connection is closed, because its state is
    /// unknown.
    pub(super) async fn within<'s, T, F>(
        &'s self,
        limit: Duration,
        statements: impl FnOnce(&'s Client) -> F,
    ) -> Result<T, StatementError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        match tokio::time::timeout(limit, statements(&self.client)).await {
            Ok(answered) => answered.map_err(StatementError::Driver),
            Err(_) => {
                self.is_timed_out.store(true, Ordering::SeqCst);
                self.driver.abort();
                Err(StatementError::NoAnswer(limit))
            }
        }
    }

    /// Runs a query and collects its rows. The time limit applies to each row, not to the whole result.
    pub(super) async fn rows<'s, F>(
        &'s self,
        limit: Duration,
        query: impl FnOnce(&'s Client) -> F,
    ) -> Result<Vec<Row>, StatementError>
    where
        F: Future<Output = Result<RowStream, Error>>,
    {
        let mut stream = pin!(self.within(limit, query).await?);
        let mut rows = Vec::new();
        while let Some(row) = self
            .within(limit, |_| async { stream.next().await.transpose() })
            .await?
        {
            rows.push(row);
        }
        Ok(rows)
    }

    /// Sends statements without waiting for the answer.
    pub(super) fn send(&self, statements: impl FnOnce(&Client)) {
        statements(&self.client);
    }

    /// Returns true if this connection can no longer be used.
    pub(super) fn is_closed(&self) -> bool {
        self.is_timed_out.load(Ordering::SeqCst) || self.client.is_closed()
    }

    /// Returns the number of warnings that the server has sent so far. A warning arrives before the answer to its
    /// statement.
    pub(super) fn warnings(&self) -> usize {
        self.warnings.load(Ordering::SeqCst)
    }

    /// Makes only the rows of these tenants visible on this connection. Use this only on connections that have one user
    /// at a time.
    pub(super) async fn restrict_to(&self, tenants: &VisibleTenants) -> Result<(), StatementError> {
        {
            let mut current = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
            if *current == *tenants {
                return Ok(());
            }
            // The visible tenants are unknown until the server has answered.
            *current = VisibleTenants::default();
        }
        self.within(limits::SHORT, |client| tenants.apply(client)).await?;
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

    /// Opens the first connection, for `PostgresStore::connect`. Also checks the server's version. Its errors are more
    /// detailed than those of [`Connector::open`].
    pub(super) async fn open_first(&self) -> Result<Session, ConnectError> {
        let failed = |error| ConnectError::from_statement(&error, &self.target);
        let (session, version) = self.open_in_time().await.map_err(failed)?;
        let number = session
            .within(limits::SHORT, |client| async {
                let row = client.query_one("SHOW server_version_num", &[]).await?;
                row.try_get::<_, String>(0)
            })
            .await
            .map_err(failed)?;
        match number.parse::<i32>() {
            Ok(number) if number >= OLDEST_SERVER => Ok(session),
            _ => Err(ConnectError::OldServer(version)),
        }
    }

    /// Opens a connection. Fails at once if another attempt failed within the last `PAUSE_AFTER_FAILURE`.
    pub(super) async fn open(&self) -> Result<Session, StoreError> {
        if let Some(error) = self.recent_failure() {
            return Err(error);
        }
        let reason = match self.open_in_time().await {
            Ok((session, _)) => {
                *self.failure() = None;
                return Ok(session);
            }
            Err(error) => error.message(),
        };
        let error = StoreError::Unavailable(reason);
        *self.failure() = Some((Instant::now(), error.clone()));
        Err(error)
    }

    /// Opens a connection within `limits::OPEN`. The driver's own limit covers only connecting the socket, once for
    /// each address.
    async fn open_in_time(&self) -> Result<(Session, String), StatementError> {
        let opened = tokio::time::timeout(limits::OPEN, async {
            let (session, version) = self.open_unconfigured(|_| {}).await?;
            session.client.batch_execute(SETTINGS).await?;
            Ok::<_, Error>((session, version))
        });
        let opened = opened.await.map_err(|_| StatementError::NoAnswer(limits::OPEN))?;
        opened.map_err(StatementError::Driver)
    }

    /// Opens a connection without `SETTINGS`; `on_notification` gets the payload of each notification.
    pub(super) async fn open_listening(
        &self,
        on_notification: impl Fn(String) + Send + 'static,
    ) -> Result<Session, StatementError> {
        let opened = tokio::time::timeout(limits::OPEN, self.open_unconfigured(on_notification)).await;
        let opened = opened.map_err(|_| StatementError::NoAnswer(limits::OPEN))?;
        Ok(opened.map_err(StatementError::Driver)?.0)
    }

    async fn open_unconfigured(
        &self,
        on_notification: impl Fn(String) + Send + 'static,
    ) -> Result<(Session, String), Error> {
        let connected = self.target.config.connect(self.target.tls.clone()).await;
        let (client, driver): (Client, Driver) = connected?;
        let version = driver.parameter("server_version").unwrap_or("?").to_owned();
        let warnings = Arc::new(AtomicUsize::new(0));
        let driver = AbortOnDrop::spawn(drive(driver, warnings.clone(), on_notification));
        let session = Session {
            client,
            tenants: Mutex::default(),
            is_timed_out: AtomicBool::new(false),
            warnings,
            driver,
        };
        Ok((session, version))
    }

    /// Cancels the wait for the standby on a connection that is no longer used. Otherwise the connection's server
    /// process would keep waiting, and every further attempt would add another such process.
    pub(super) fn cancel_standby_wait(&self, session: &Session) {
        let (token, tls) = (session.client.cancel_token(), self.target.tls.clone());
        tokio::spawn(async move {
            // If this fails, the server process stays until the standby is back.
            let _ = tokio::time::timeout(limits::OPEN, token.cancel_query(tls)).await;
        });
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

/// Drives a connection until it ends. Users of the connection notice the end through the client.
async fn drive(mut driver: Driver, warnings: Arc<AtomicUsize>, on_notification: impl Fn(String)) {
    let mut messages = stream::poll_fn(move |context| driver.poll_message(context));
    while let Some(Ok(message)) = messages.next().await {
        match message {
            AsyncMessage::Notice(notice) if notice.parsed_severity() == Some(Severity::Warning) => {
                warnings.fetch_add(1, Ordering::SeqCst);
            }
            AsyncMessage::Notification(notification) => on_notification(notification.payload().to_owned()),
            _ => {}
        }
    }
}
