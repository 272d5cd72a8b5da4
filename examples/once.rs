//! Makes each call id act at most once.
//!
//! Input: a call's id, tool and argument bytes. Output: `None` for a new call, otherwise its recorded outcome.
//! A change and its record are one transaction. An outside request is recorded before it is sent; after a crash in
//! between its outcome is unknown, and it is not sent again.

use countersign::executor::Outcome;
use countersign::hash::Hash;
use countersign::id::{CallId, Tenant};
use rusqlite::{Connection, OptionalExtension as _, params};

pub const TABLE: &str = "CREATE TABLE call (
    tenant TEXT NOT NULL, id TEXT NOT NULL, tool TEXT NOT NULL, arguments BLOB NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('begun', 'succeeded', 'failed', 'unknown')), result BLOB NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;";

/// Identity of a call, taken from its permit.
#[derive(Clone)]
pub struct Entry {
    pub tenant: Tenant,
    pub id: CallId,
    pub tool: String,
    /// Hash of the argument bytes.
    pub arguments: Hash,
}

/// Returns the recorded outcome if this call id was used before; a failed outcome if it was used for another tool or
/// other arguments; `None` for a new call.
pub fn earlier(connection: &Connection, entry: &Entry) -> rusqlite::Result<Option<Outcome>> {
    let sql = "SELECT tool, arguments, outcome, result FROM call WHERE tenant = ? AND id = ?";
    let found = connection
        .query_row(sql, params![entry.tenant.as_str(), entry.id.to_string()], |row| {
            let (tool, arguments): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
            let (outcome, result): (String, Vec<u8>) = (row.get(2)?, row.get(3)?);
            Ok((tool, arguments, outcome, result))
        })
        .optional()?;
    Ok(found.map(|(tool, arguments, outcome, result)| {
        if tool != entry.tool || arguments != entry.arguments.0 {
            return Outcome::failed(format!("call `{}` was another call", entry.id));
        }
        match outcome.as_str() {
            "succeeded" => Outcome::succeeded(result),
            "failed" => Outcome::failed(result),
            "unknown" => Outcome::Unknown(String::from_utf8_lossy(&result).into_owned()),
            _ => Outcome::Unknown("it was begun before, and how that ended was not written down".to_owned()),
        }
    }))
}

/// Records that a call is about to be sent outside.
pub fn begin(connection: &Connection, entry: &Entry) -> rusqlite::Result<()> {
    insert(connection, entry, "begun", b"")
}

/// Records the outcome of a call.
pub fn end(connection: &Connection, entry: &Entry, outcome: &Outcome) -> rusqlite::Result<()> {
    match outcome {
        Outcome::Succeeded(result) => insert(connection, entry, "succeeded", result),
        Outcome::Failed(reason) => insert(connection, entry, "failed", reason),
        Outcome::NotSent(reason) => insert(connection, entry, "failed", reason.as_bytes()),
        Outcome::Unknown(reason) => insert(connection, entry, "unknown", reason.as_bytes()),
    }
}

fn insert(connection: &Connection, entry: &Entry, outcome: &str, result: &[u8]) -> rusqlite::Result<()> {
    let sql = "INSERT INTO call (tenant, id, tool, arguments, outcome, result) VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT (tenant, id) DO UPDATE SET outcome = excluded.outcome, result = excluded.result
        WHERE outcome = 'begun'";
    let (tenant, id) = (entry.tenant.as_str(), entry.id.to_string());
    connection.execute(
        sql,
        params![tenant, id, entry.tool, entry.arguments.0, outcome, result],
    )?;
    Ok(())
}
