//! Each world behind a real gate, with the memory store and with SQLite.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "made for tests, where a panic is the report"
)]

mod catalogue;
mod cms;
mod crm;
mod once;
mod outside;
mod ranch;
mod stage;
