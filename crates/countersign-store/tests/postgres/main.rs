//! Tests specific to the PostgreSQL store: locks, clock, network, roles. The requirements on every store are in the
//! library's suite.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test's helpers fail by panicking, as the test does"
)]

mod clock;
mod connect;
mod faults;
mod nodes;
mod proxy;
mod support;
mod tcp_proxy;
