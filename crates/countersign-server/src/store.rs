//! Opening the store: an SQLite file or a PostgreSQL server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign::store::{Store, StoreError};
use countersign_store::postgres::{ConnectError, PostgresOptions, PostgresStore};
use countersign_store::sqlite::{OpenError, SqliteOptions, SqliteStore};

use crate::failure::Failure;
use crate::trust::StorePlace;

/// Default store file, in the current folder. It has to be trusted, unless this program created it for this person.
pub const DEFAULT: &str = "countersign.db";

/// Failure code for a schema that was changed by something other than this program. The store is then damaged, not
/// merely unreachable.
pub const SCHEMA_CHANGED: &str = "schema_changed";

/// Interval between checks of a store's health.
const LOOK_AT_STORE_EVERY: Duration = Duration::from_millis(250);

/// Behaviour if the store does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Create the store, for commands that write something new.
    Create,
    /// Fail, for commands about existing approvals: an empty store would be a wrong answer.
    Refuse,
}

/// Whether changes by other processes wake up waiters in this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Changes by other processes are noticed, because the command waits for a decision.
    Others,
    /// Changes by other processes are not noticed, because the command does not wait.
    Nobody,
}

/// Opens a store, given by the path of a SQLite file or a PostgreSQL URL.
pub async fn open(place: &str, missing: Missing, watch: Watch) -> Result<Arc<dyn Store>, Failure> {
    match is_postgres(place) {
        true => open_postgres(place, missing, watch).await,
        false => open_file(Path::new(place), missing, watch),
    }
}

/// Fails if the store is a file that must not be opened, for example because the person has not trusted it. A
/// PostgreSQL URL always passes.
pub fn check(place: &str) -> Result<(), Failure> {
    match is_postgres(place) {
        true => Ok(()),
        false => StorePlace::find(Path::new(place)).map(drop),
    }
}

/// Returns true for a PostgreSQL URL, false for a file.
pub fn is_postgres(place: &str) -> bool {
    place.starts_with("postgres://") || place.starts_with("postgresql://")
}

/// Returns the failure of a process that ends because its store accepts no more writes.
pub fn store_stopped(error: &StoreError) -> Failure {
    let message = format!("stopped, because nothing can be written any more: {error}");
    Failure::error("store_stopped", message).hint(
        "if a file is gone, do as it says before anything else; then see whether the file and its disk are whole \
         (`countersign doctor --full`), and start again",
    )
}

/// Waits until the store reports that it can no longer write, and returns its error.
pub async fn store_fails(store: &dyn Store) -> StoreError {
    loop {
        tokio::time::sleep(LOOK_AT_STORE_EVERY).await;
        if let Err(error) = store.health() {
            return error;
        }
    }
}

fn open_file(path: &Path, missing: Missing, watch: Watch) -> Result<Arc<dyn Store>, Failure> {
    if missing == Missing::Refuse && matches!(path.try_exists(), Ok(false)) {
        let message = format!("there is no store at `{}`", path.display());
        return Err(Failure::error("no_store", message)
            .hint("propose a call first, or name another store with `--store`"));
    }
    let place = StorePlace::find(path)?;
    let options = SqliteOptions {
        other_processes: watch == Watch::Others,
        ..SqliteOptions::default()
    };
    let store = open_sqlite(&place.path, options)?;
    place.remember();
    Ok(Arc::new(store))
}

/// Opens a SQLite file whose path comes from [`StorePlace::find`], or that this process created.
pub fn open_sqlite(path: &Path, options: SqliteOptions) -> Result<SqliteStore, Failure> {
    SqliteStore::open(path, options).map_err(|error| unusable(path, &error))
}

/// Returns the failure for a store that cannot be opened.
pub fn unusable(path: &Path, error: &OpenError) -> Failure {
    let message = format!("cannot open the store `{}`: {error}", path.display());
    Failure::error("store_unusable", message).hint(error.hint())
}

async fn open_postgres(url: &str, missing: Missing, watch: Watch) -> Result<Arc<dyn Store>, Failure> {
    let options = PostgresOptions {
        lanes: 1,
        application_name: "countersign command line".to_owned(),
        notify: watch == Watch::Others,
        migrate: missing == Missing::Create,
        ..PostgresOptions::default()
    };
    let store = PostgresStore::connect(url, options).await.map_err(|error| {
        let code = match &error {
            ConnectError::ChangedMigration(_) => SCHEMA_CHANGED,
            _ => "store_unusable",
        };
        // The error contains no password, and the URL is not repeated.
        Failure::error(code, format!("cannot open the store: {error}")).hint(error.hint())
    })?;
    Ok(Arc::new(store))
}
