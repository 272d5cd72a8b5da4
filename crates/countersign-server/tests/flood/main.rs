//! Floods against the real program in a process of its own, on loopback: what it takes of the machine, and whether
//! others are still served.
//!
//! `COUNTERSIGN_FLOOD_BIN` names another build to run all of this against. The figures in `docs/benchmarks.md` are made by
//! `cargo test -p countersign-server --test flood -- --ignored --nocapture`.

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
