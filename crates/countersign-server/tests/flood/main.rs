//! Floods the real program over loopback and checks its memory use, and that other clients are still served.
//!
//! `COUNTERSIGN_FLOOD_BIN` selects another build to test. `cargo test -p countersign-server --test flood -- --ignored
//! --nocapture` produces the figures in `docs/benchmarks.md`.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "this is a test; the exceptions in clippy.toml end at its helpers"
)]

mod measure;
mod service;
mod x61;
mod x62;
