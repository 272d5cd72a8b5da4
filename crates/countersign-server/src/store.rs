//! Opening the store: a file, or a PostgreSQL server.

use std::path::Path;
use std::sync::Arc;

use countersign::store::Store;
use countersign_store::sqlite::{SqliteOptions, SqliteStore};

use crate::failure::Failure;

/// Where the store is when nobody says.
pub const DEFAULT: &str = "countersign.db";

/// Whether a store that is not there yet is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The command writes something new, so there may be a first time.
    Create,
    /// The command is about what is there: an empty store would be a wrong answer.
    Refuse,
}

/// Opens a store.
pub async fn open(place: &str, missing: Missing) -> Result<Arc<dyn Store>, Failure> {
    match is_postgres(place) {
        true => open_postgres(place).await,
        false => open_file(Path::new(place), missing),
    }
}

fn is_postgres(place: &str) -> bool {
    place.starts_with("postgres://") || place.starts_with("postgresql://")
}

fn open_file(path: &Path, missing: Missing) -> Result<Arc<dyn Store>, Failure> {
    if missing == Missing::Refuse && matches!(path.try_exists(), Ok(false)) {
        let message = format!("there is no store at `{}`", path.display());
        return Err(Failure::error("no_store", message)
            .hint("propose a call first, or name another store with `--store`"));
    }
    let store = SqliteStore::open(path, SqliteOptions::default()).map_err(|error| {
        let message = format!("cannot open the store `{}`: {error}", path.display());
        Failure::error("store_unusable", message).hint(error.hint())
    })?;
    Ok(Arc::new(store))
}

async fn open_postgres(_url: &str) -> Result<Arc<dyn Store>, Failure> {
    Err(Failure::error("no_postgres", "PostgreSQL is not built in yet"))
}
