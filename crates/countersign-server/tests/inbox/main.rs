//! The inbox, page by page: the real router over the memory store, with a clock that is moved by hand.
//!
//! Everything here goes the way of a browser without script. What only a browser can show is in `tests/browser`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is a test; the exceptions in clippy.toml end at its helpers"
)]

mod after;
mod deciding;
mod editing;
mod hostile;
mod judging;
mod list;
mod pages;
mod support;
