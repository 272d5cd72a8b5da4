//! SQLite and PostgreSQL stores for Countersign.

pub mod sqlite;
