//! Both dialects against a local server that speaks the documented wire format, to the byte.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what they expect"
)]

mod anthropic;
mod openai;
mod server;
mod trouble;
