//! Trust: what this program believes although it did not make it.
//!
//! Enters: paths, servers and commands that settings, folders and command lines name. Leaves: those that the person
//! named or trusted before, or a refusal that says what to do.
//! Deliberately absent: deciding whether a policy is a good one. A person reads it before trusting it.

mod file;
mod list;
mod server;
mod store;
mod who;

pub use file::{TrustedContent, absolute, read, ruling};
pub use list::{TrustList, folder};
pub use server::{check_server, normal as normal_server};
pub use store::{FileIdentity, StorePlace};
pub use who::{Folder, check as check_others};
