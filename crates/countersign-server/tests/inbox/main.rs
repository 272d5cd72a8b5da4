//! Tests the inbox page by page: the real router over the memory store, with a clock that tests set.
//!
//! All requests are those of a browser without script. Behaviour that only a browser can show is in `tests/browser`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is a test; the exceptions in clippy.toml end at its helpers"
)]

mod after;
mod credentials;
mod deciding;
mod editing;
mod hostile;
mod judging;
mod language;
mod list;
mod pages;
mod people;
#[path = "../http/settings.rs"]
mod settings;
mod several;
mod support;
