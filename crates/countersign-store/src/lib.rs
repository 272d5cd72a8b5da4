//! SQLite and PostgreSQL stores for Countersign.

pub mod postgres;
pub mod sqlite;
