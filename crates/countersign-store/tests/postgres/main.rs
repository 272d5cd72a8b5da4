//! What only the PostgreSQL store can get wrong: its locks, its clock, its network, its roles. What every store has to
//! do is in the suite of the library.
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
