//! SQLite and PostgreSQL stores for Countersign.
