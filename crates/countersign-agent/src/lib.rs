//! An agent whose every tool call goes through the gate.
//!
//! A message is first read as a reply to the pending approval; then a specialist and its model answer. The model's tool
//! calls are submitted together, and those that need a person's decision become one card. Sessions are stored in the
//! gate's store.
//! Tools cannot be reached without the gate: they run in an `Executor`, which requires a `Permit`.

pub mod agent;
pub mod file;
pub mod gated;
pub mod message;
pub mod model;
pub mod progress;
pub mod session;
pub mod tool;
