//! A disk that loses its power, for tests of the SQLite store (F05).
//!
//! After `kill -9`, the operating system still writes its cache to the disk; after a power cut it does not. Here SQLite
//! runs on its own file system code through a VFS that records each write, truncation, sync, creation and deletion
//! ([`Disk`]). At a cut the disk keeps everything that was synced, and a random part of the rest: in random order, with
//! torn sectors, and likewise for file sizes and directory entries. The store is then reopened on the result.
//!
//! [`install`] makes the VFS the process's default, so that the store is opened as usual, without any setting for this.
//!
//! To run the tests in `tests/power_loss`:
//!
//! ```text
//! cargo nextest run -p countersign-powerloss --no-capture
//! COUNTERSIGN_TEST_F05=5000 cargo test --release -p countersign-powerloss -- --nocapture
//! COUNTERSIGN_TEST_F05_SEED=7 COUNTERSIGN_TEST_F05=1 cargo test -p countersign-powerloss -- --nocapture
//! ```
//!
//! Errors of a disk that keeps working (disk full, failing syncs) are not simulated, nor are disks that lie about
//! syncs.

mod disk;
mod random;
mod survive;
mod vfs;

pub use disk::{Cut, Disk, Sync, Tally, When};
pub use random::Random;
pub use vfs::install;
