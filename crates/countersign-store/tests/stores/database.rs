//! Fresh stores: a file, or a separate database on the test server.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use countersign::store::Store;
use countersign::store::suite::Fixture;
use countersign::time::{Clock, ManualClock};
use countersign_store::postgres::{PostgresOptions, PostgresStore};
use countersign_store::sqlite::{SqliteOptions, SqliteStore};
use futures_util::FutureExt;
use tokio_postgres::{Client, NoTls};

/// Creates a SQLite store in a directory that is removed with its fixture.
pub async fn sqlite() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = Fixture::clock();
    let open = {
        let clock = clock.clone();
        move || open_sqlite(&path, clock.clone())
    };
    Fixture::new(open(), clock)
        .with_reopen(Box::new(move || {
            let store = open();
            async move { store }.boxed()
        }))
        .keeping(folder)
}

pub fn open_sqlite(path: &Path, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
    let options = SqliteOptions {
        clock: Some(clock),
        ..SqliteOptions::default()
    };
    Arc::new(SqliteStore::open(path, options).unwrap())
}

/// Creates a PostgreSQL store in a database that is dropped with its fixture.
pub async fn postgres() -> Fixture {
    let database = Database::new().await;
    let (clock, url) = (Fixture::clock(), database.url.clone());
    let store = open_postgres(url.clone(), clock.clone()).await;
    let reopening = clock.clone();
    Fixture::new(store, clock)
        .with_reopen(Box::new(move || {
            open_postgres(url.clone(), reopening.clone()).boxed()
        }))
        .keeping(database)
}

/// Opens one node. Several may share a database.
pub async fn open_postgres(url: String, clock: Arc<ManualClock>) -> Arc<dyn Store> {
    let options = PostgresOptions {
        clock: Some(clock),
        migrate: false,
        ..PostgresOptions::default()
    };
    Arc::new(PostgresStore::connect(&url, options).await.unwrap())
}

/// A migrated database, dropped with this value.
pub struct Database {
    pub url: String,
    name: String,
}

impl Database {
    pub async fn new() -> Database {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let admin = connect(&server()).await;
        let template = template(&admin).await;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("case_{}_{number}", std::process::id());
        // Process ids are reused, so a killed run may have left this database behind.
        run(&admin, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
        run(&admin, &format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        let url = with_database(&server(), &name);
        Database { url, name }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop_it = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // On a separate thread, because the test's runtime may run on this one.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                run(&connect(&server()).await, &drop_it).await;
            });
        });
        let _ = dropping.join();
    }
}

/// Returns the name of a migrated database to copy from, creating it if necessary. Each test is a process, so the
/// server has to remember the template; a hash of the schema is in its name.
async fn template(admin: &Client) -> String {
    let mut schema = DefaultHasher::new();
    include_str!("../../migrations/postgres/0001_approvals.sql").hash(&mut schema);
    include_str!("../../migrations/postgres/0002_entries.sql").hash(&mut schema);
    include_str!("../../migrations/postgres/0003_row_security.sql").hash(&mut schema);
    include_str!("../../migrations/postgres/0004_passed.sql").hash(&mut schema);
    include_str!("../../migrations/postgres/0005_log.sql").hash(&mut schema);
    let name = format!("countersign_template_{:016x}", schema.finish());
    let made = format!("SELECT 1 FROM pg_database WHERE datname = '{name}' AND datistemplate");
    run(admin, "SELECT pg_advisory_lock(20261115)").await;
    if admin.query_opt(&made, &[]).await.unwrap().is_none() {
        run(admin, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
        run(admin, &format!("CREATE DATABASE {name}")).await;
        let url = with_database(&server(), &name);
        drop(
            PostgresStore::connect(&url, PostgresOptions::default())
                .await
                .unwrap(),
        );
        wait_until_unused(admin, &name).await;
        run(admin, &format!("ALTER DATABASE {name} IS_TEMPLATE true")).await;
    }
    run(admin, "SELECT pg_advisory_unlock(20261115)").await;
    name
}

/// Waits until nobody uses a database, which copying it requires.
async fn wait_until_unused(admin: &Client, name: &str) {
    let used = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'");
    for _ in 0..500 {
        if admin.query_one(&used, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the store does not let go of its connections");
}

/// Returns the URL of the test server. Tests fail without one rather than being skipped, because half of them would be
/// missing.
fn server() -> String {
    std::env::var("COUNTERSIGN_TEST_POSTGRES").expect(
        "COUNTERSIGN_TEST_POSTGRES is not set\nhint: run `scripts/test`, which starts a server for the tests",
    )
}

fn with_database(url: &str, name: &str) -> String {
    let (base, _) = url.rsplit_once('/').expect("a URL with a database");
    format!("{base}/{name}")
}

pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap();
}
