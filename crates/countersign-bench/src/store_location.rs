//! Location of the measured store: in memory, in a directory, or on a PostgreSQL server.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use countersign::store::Store;
use countersign::store::memory::MemoryStore;
use countersign_store::postgres::{PostgresOptions, PostgresStore};
use countersign_store::sqlite::{SqliteOptions, SqliteStore};

/// Location of the measured store, from the option `--on`.
pub(crate) enum StoreLocation {
    Memory,
    Sqlite { directory: PathBuf, ours: bool },
    Postgres(String),
}

impl StoreLocation {
    pub(crate) fn new(on: Option<&str>) -> anyhow::Result<StoreLocation> {
        match on {
            Some("memory") => Ok(StoreLocation::Memory),
            Some(url) if url.starts_with("postgres") => Ok(StoreLocation::Postgres(url.to_owned())),
            Some(directory) => Ok(StoreLocation::Sqlite {
                directory: PathBuf::from(directory),
                ours: false,
            }),
            None => {
                // The default is in the current directory, so that the disk of the person's own files is measured.
                let directory = PathBuf::from(format!(".countersign-bench-{}", std::process::id()));
                std::fs::create_dir(&directory).context("cannot create a directory for the benchmark")?;
                Ok(StoreLocation::Sqlite {
                    directory,
                    ours: true,
                })
            }
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            StoreLocation::Memory => "memory",
            StoreLocation::Sqlite { .. } => "sqlite",
            StoreLocation::Postgres(_) => "postgres",
        }
    }

    pub(crate) fn directory(&self) -> PathBuf {
        match self {
            StoreLocation::Sqlite { directory, .. } => directory.clone(),
            _ => std::env::temp_dir(),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory().join(format!("bench-{name}.db"))
    }

    /// Opens a store under this name. The SQLite file of an earlier run is removed first.
    pub(crate) async fn open(&self, name: &str) -> anyhow::Result<Arc<dyn Store>> {
        if let StoreLocation::Sqlite { directory, .. } = self {
            std::fs::create_dir_all(directory)?;
            for ending in ["", "-wal", "-shm"] {
                let mut path = self.file(name).into_os_string();
                path.push(ending);
                std::fs::remove_file(path).ok();
            }
        }
        self.reopen(name).await
    }

    /// Opens the store with its existing content.
    pub(crate) async fn reopen(&self, name: &str) -> anyhow::Result<Arc<dyn Store>> {
        Ok(match self {
            StoreLocation::Memory => Arc::new(MemoryStore::default()),
            StoreLocation::Sqlite { .. } => {
                // Other processes are not watched, as in a program that embeds the gate.
                let options = SqliteOptions {
                    other_processes: false,
                    ..SqliteOptions::default()
                };
                Arc::new(SqliteStore::open(self.file(name), options)?)
            }
            StoreLocation::Postgres(url) => {
                Arc::new(PostgresStore::connect(url, PostgresOptions::default()).await?)
            }
        })
    }

    pub(crate) fn clean(&self) {
        if let StoreLocation::Sqlite {
            directory,
            ours: true,
        } = self
        {
            std::fs::remove_dir_all(directory).ok();
        }
    }
}
