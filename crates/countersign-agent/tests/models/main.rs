//! Both API clients against a local server that speaks the documented wire format.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what they expect"
)]

mod anthropic;
mod errors;
mod openai;
mod server;
