//! Opening the store: a file, or a PostgreSQL server.

use std::path::Path;
use std::sync::Arc;

use countersign::store::Store;
use countersign_store::postgres::{PostgresOptions, PostgresStore};
use countersign_store::sqlite::{SqliteOptions, SqliteStore};

use crate::failure::Failure;
use crate::trust::StorePlace;

/// Where the store is when nobody says. One that this program has not made for this person has to be trusted.
pub const DEFAULT: &str = "countersign.db";

/// Whether a store that is not there yet is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The command writes something new, so there may be a first time.
    Create,
    /// The command is about what is there: an empty store would be a wrong answer.
    Refuse,
}

/// Whether other processes' writes wake us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// The command waits for somebody else's decision.
    Others,
    /// It is over before anything can happen.
    Nobody,
}

/// Opens a store.
pub async fn open(place: &str, missing: Missing, watch: Watch) -> Result<Arc<dyn Store>, Failure> {
    match is_postgres(place) {
        true => open_postgres(place, missing, watch).await,
        false => open_file(Path::new(place), missing, watch),
    }
}

/// Refuses a store that the person does not stand for, before anything else is done.
pub fn check(place: &str) -> Result<(), Failure> {
    match is_postgres(place) {
        true => Ok(()),
        false => StorePlace::find(Path::new(place)).map(drop),
    }
}

/// Whether a place is a server's, not a file's.
pub fn is_postgres(place: &str) -> bool {
    place.starts_with("postgres://") || place.starts_with("postgresql://")
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

/// Opens a file that was found with [`StorePlace::find`], or that this process has made.
pub fn open_sqlite(path: &Path, options: SqliteOptions) -> Result<SqliteStore, Failure> {
    SqliteStore::open(path, options).map_err(|error| {
        let message = format!("cannot open the store `{}`: {error}", path.display());
        Failure::error("store_unusable", message).hint(error.hint())
    })
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
        // The message holds no password, and the URL is not repeated.
        Failure::error("store_unusable", format!("cannot open the store: {error}")).hint(error.hint())
    })?;
    Ok(Arc::new(store))
}
