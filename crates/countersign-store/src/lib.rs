//! SQLite and PostgreSQL stores for Countersign, behind the features `sqlite` and `postgres`. Both features are on by
//! default.

#[cfg(feature = "postgres")]
pub mod postgres;
pub mod private_file;
#[cfg(feature = "sqlite")]
pub mod sqlite;
