//! SQLite and PostgreSQL stores for Countersign, each behind a feature of that name. Both are on by default.

#[cfg(feature = "postgres")]
pub mod postgres;
pub mod private_file;
#[cfg(feature = "sqlite")]
pub mod sqlite;
