//! Trust: what this program believes although it did not make it.
//!
//! Enters: paths, servers and commands that settings, folders and command lines name. Leaves: those that the person
//! named or trusted before, or a refusal that says what to do.
//! Deliberately absent: deciding whether a policy is a good one. A person reads it before trusting it.

mod list;
mod server;
mod who;

pub use list::TrustList;
pub use server::{check_server, normal as normal_server};
