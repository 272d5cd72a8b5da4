//! Tests the inbox in a real browser against the real program: behaviour that only a browser can show.
//!
//! Needs chromium and its driver; `scripts/test` installs them. Without them these tests fail rather than being
//! skipped.
//! Each test starts its own browser and service and runs several scenes with them.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "this is a test; the exceptions in clippy.toml end at its helpers"
)]

mod hostile;
mod keyboard;
mod live;
mod looks;
mod plain;
mod playground;
mod restart;
mod service;
mod stage;
mod together;
mod webdriver;
