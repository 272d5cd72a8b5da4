//! Time limits for answers from the server, and the interval of heartbeats.
//!
//! This program limits every statement itself, because a stuck server process neither answers nor closes its
//! connection. Reads, writes and the log also have shorter limits at the server (`connect`, `read`), so that the server
//! itself ends a slow statement.

use std::time::Duration;

/// Limit for one attempt to connect to one address.
pub(super) const CONNECT: Duration = Duration::from_secs(3);
/// Limit for opening a connection, including attempts at all of its addresses and its settings.
pub(super) const OPEN: Duration = Duration::from_secs(6);
/// Limit for preparing statements on a new connection.
pub(super) const PREPARE: Duration = Duration::from_secs(5);
/// Limit for the next row of a result. The whole result has no limit, because a large one may take long over a slow
/// network.
pub(super) const ROW: Duration = Duration::from_secs(5);
/// Limit for locking and reading the rows that a group of commands needs.
pub(super) const LOCK: Duration = Duration::from_secs(10);
/// Limit for writing and committing, including the wait for a synchronous standby.
pub(super) const COMMIT: Duration = Duration::from_secs(15);
/// Limit for a statement that neither reads nor writes a table: a setting, a ROLLBACK, a heartbeat.
pub(super) const SHORT: Duration = Duration::from_secs(5);
/// Limit for the wait until a synchronous standby has confirmed everything committed so far.
pub(super) const STANDBY: Duration = Duration::from_secs(3);
/// Limit for the wait while another node migrates the schema.
pub(super) const MIGRATION_LOCK: Duration = Duration::from_secs(120);
/// Limit for one step of a migration, which may rewrite a large table.
pub(super) const MIGRATION_STEP: Duration = Duration::from_secs(3600);
/// Interval between heartbeats on the listening connection.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(5);
/// Limit for appending one page of events to the log, which reads thousands of rows.
pub(super) const LOG_PAGE: Duration = Duration::from_secs(20);
/// Limit for one query of an audit, which may sort all events.
pub(super) const AUDIT: Duration = Duration::from_secs(600);
