//! SQLite and PostgreSQL stores for Countersign.

pub mod postgres;
pub mod private_file;
pub mod sqlite;
