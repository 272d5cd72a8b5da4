//! Tests the HTTP API route by route: the real router over the memory store, with a clock that tests set.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "this is a test; the exceptions in clippy.toml end at its helpers"
)]

mod access;
mod accounts;
mod agents;
mod approvals;
mod before;
mod calls;
mod channels;
mod credentials;
mod denials;
mod document;
mod door;
mod doubtful;
mod events;
mod facts;
mod flag;
mod matrix;
mod names;
mod operations;
mod origins;
mod own_runs;
mod own_words;
mod owners;
mod passes;
mod people;
mod replies;
mod secrets;
mod settings;
mod simple;
mod streams;
mod support;
mod talks;
mod tenants;
mod tokens;
mod whole;
