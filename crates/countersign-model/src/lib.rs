//! A model of several nodes on one store, checked exhaustively (I1, I2, I3, I6, I8, I12, I13; X77, X84).
//!
//! The model does not restate the rules: each step applies a [`Command`](countersign::command::Command) of the library
//! to rows that the model keeps. The model only adds the actors and the order of their actions: nodes that propose,
//! start, send, finish, crash and pause, people who decide, the sweep, and time. A change of the rules therefore
//! changes what is checked. Where the model depends on a state or an event, it matches without a wildcard, so that a
//! new one does not compile.
//!
//! To run:
//!
//! ```text
//! cargo nextest run -p countersign-model
//! COUNTERSIGN_TEST_MODEL=3 cargo test --release -p countersign-model -- --nocapture
//! ```
//!
//! The first command checks small instances in seconds. The second adds one with 3 nodes, 2 approvals in one channel
//! and 2 deciders.
//!
//! Abstractions: time is counted in ticks; a lease may lapse at any moment (its length is up to the server); checking
//! the deadline and sending are one step, because the tool refuses requests after the signed deadline. Batches, edits,
//! undo and passed calls are not modelled; the store suite's random programs cover them.

mod check;
mod rows;
mod step;
mod world;

pub use check::Fault;
pub use step::Step;
pub use world::{Instance, Rule, World};
