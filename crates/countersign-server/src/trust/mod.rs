//! Trust: decides which files, stores, servers and hook commands from outside this program may be used.
//!
//! Input: paths, servers and commands that settings, folders and command lines name. Output: those that the person
//! named explicitly or trusted before, or a refusal that says what to do.
//! Not here: judging whether a policy is a good one. A person reads it before trusting it.

mod file;
mod list;
mod secret;
mod server;
mod store;
mod who;

pub use file::{LARGEST, TrustedContent, absolute, read, ruling};
pub use list::{TrustList, folder};
pub use secret::check_secret;
pub use server::{check_server, normal as normal_server};
pub use store::{FileIdentity, StorePlace};
pub use who::{Folder, check as check_others};
