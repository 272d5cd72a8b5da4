//! The agent as a whole: real gate, real store, scripted or misbehaving models.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what they expect"
)]

mod dialogue;
mod evaluator;
mod fake_model;
mod misbehaving;
mod routing;
mod session;
mod store_failures;
mod world;
