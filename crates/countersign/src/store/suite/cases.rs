//! The test cases. Each takes a fresh store and is listed once, in `for_each_store_case`.

#![expect(missing_docs, reason = "the name of a case says what must be so")]

mod authority;
mod conversations;
mod decisions;
mod edits;
mod entries;
mod logs;
mod orders;
mod owners;
mod passes;
mod proposals;
mod reads;
mod restraint;
mod retention;
mod runs;
mod snapshots;
mod tenants;
mod time;
mod undos;
mod waiting;

pub use authority::*;
pub use conversations::*;
pub use decisions::*;
pub use edits::*;
pub use entries::*;
pub use logs::*;
pub use orders::*;
pub use owners::*;
pub use passes::*;
pub use proposals::*;
pub use reads::*;
pub use restraint::*;
pub use retention::*;
pub use runs::*;
pub use snapshots::*;
pub use tenants::*;
pub use time::*;
pub use undos::*;
pub use waiting::*;
