//! The agent as a whole: real gate, real store, scripted or misbehaving models.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what they expect"
)]

mod closed;
mod dialogue;
mod evaluator;
mod misbehaving;
mod puppet;
mod routing;
mod session;
mod world;
