//! Tests the command line as a person uses it: the real binary in an empty folder, with a store in a real file.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "this is a test; the exceptions in clippy.toml end at its helpers"
)]

mod accounts;
mod agents;
mod api;
mod chat;
mod clocks;
mod contract;
mod decide;
mod erasure;
mod faults;
mod files;
mod gone;
mod hook;
mod life;
mod many;
mod nodes;
mod operations;
mod outcome;
mod process;
mod propose;
mod remote;
mod roles;
mod rolling;
mod rows;
mod secrets;
mod served;
mod show;
mod sleep;
mod talking;
mod terminal;
mod test_folder;
mod trust;
mod undo;
mod verify;
mod watch;
mod webhooks;
