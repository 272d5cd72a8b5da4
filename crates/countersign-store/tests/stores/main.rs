//! Tests of both databases: the common suite, random programs, races, kills.
//!
//! Tests specific to one of them are in `sqlite.rs` and `postgres/`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test's helpers fail by panicking, as the test does"
)]

mod client;
mod clock;
mod conformance;
mod database;
mod faults;
mod figures;
mod frozen;
mod kill;
mod kill_server;
mod layer;
mod listen;
mod many;
mod partition;
mod programs;
mod race;
mod server;
mod standby;
#[path = "../postgres/tcp_proxy.rs"]
mod tcp_proxy;
mod workload;
