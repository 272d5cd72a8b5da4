//! Both databases under everything a store must stand: the common suite, random programs, races, kills.
//!
//! What only one of them has is tested in `sqlite.rs` and `postgres/`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test's helpers fail by panicking, as the test does"
)]

mod clock;
mod conformance;
mod database;
mod kill;
mod kill_server;
mod layer;
mod life;
mod programs;
mod race;
