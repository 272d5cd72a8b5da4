//! The gate as an embedding program uses it: a real policy, the memory store, and tools that record what they did.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod before;
mod closed;
mod conversation;
mod deciding;
mod dialogue;
mod embedding;
mod interleaving;
mod origins;
mod outcomes;
mod passes;
mod replies;
mod restraint;
mod running;
mod submitting;
mod values;
mod world;
