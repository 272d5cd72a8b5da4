//! Time limits for answers from the server, and the interval of heartbeats.
//!
//! Every statement has a limit on our side, because a stuck server process neither answers nor closes its connection.
//! Reads, writes and the log also have shorter limits at the server (`connect`, `read`), so that the server itself ends
//! a slow statement.

use std::time::Duration;

/// One attempt to connect to one address.
pub(super) const CONNECT: Duration = Duration::from_secs(3);
/// Opening a connection, including all its addresses and its settings.
pub(super) const OPEN: Duration = Duration::from_secs(6);
/// Preparing statements on a new connection.
pub(super) const PREPARE: Duration = Duration::from_secs(5);
/// The next row of a result, not the whole result: a large one may take its time over a slow network.
pub(super) const ROW: Duration = Duration::from_secs(5);
/// Locking and reading what a group of commands needs.
pub(super) const LOCK: Duration = Duration::from_secs(10);
/// Writing and committing, including the wait for a synchronous standby.
pub(super) const COMMIT: Duration = Duration::from_secs(15);
/// A statement that reads and writes no table: a setting, a ROLLBACK, a heartbeat.
pub(super) const SHORT: Duration = Duration::from_secs(5);
/// Wait for a synchronous standby to confirm everything committed so far.
pub(super) const STANDBY: Duration = Duration::from_secs(3);
/// Waiting while another node migrates.
pub(super) const MIGRATION_LOCK: Duration = Duration::from_secs(120);
/// One step of a migration, which may rewrite a large table.
pub(super) const MIGRATION_STEP: Duration = Duration::from_secs(3600);
/// Interval between heartbeats on the listening connection.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(5);
/// Appending one page to the log, which reads thousands of rows.
pub(super) const LOG_PAGE: Duration = Duration::from_secs(20);
/// One query of an audit, which may sort all events.
pub(super) const AUDIT: Duration = Duration::from_secs(600);
