//! Trust: decides which files, stores, servers and hook commands from outside this program may be used.
//!
//! Paths, servers and commands may come from settings, folders and command lines. Only those that the person named
//! explicitly or trusted before are accepted; the others are refused with a hint that says what to do. Whether a policy
//! is a good one is not judged here: a person reads it before trusting it.

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
