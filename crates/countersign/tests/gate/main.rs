//! The gate as those who embed it meet it: real policy, real store (in memory), tools that write down what they did.
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
mod interleaving;
mod origins;
mod passes;
mod replies;
mod restraint;
mod running;
mod submitting;
mod world;
