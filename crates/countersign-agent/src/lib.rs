//! An agent whose every tool call goes through the gate.
//!
//! A person's message enters, the pending approval first; a specialist and its model answer; their tool calls are
//! submitted together, and what a person has to sign becomes one card. Sessions are kept in the gate's store.
//! Deliberately absent: any way to a tool but the gate. Tools are reached by an `Executor`, which takes a `Permit`.

pub mod agent;
pub mod client;
pub mod file;
pub mod gated;
pub mod message;
pub mod model;
pub mod progress;
pub mod session;
pub mod tool;
