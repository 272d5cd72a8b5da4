//! SQLite's integrity check of a database file.
//!
//! Input: a store's file, which may be in use. Output: SQLite's messages about damage.
//! Whether the rows make sense is checked by the audit (`audit`), not here.

use std::path::Path;

use super::open::{self, OpenError};

/// Maximum number of findings that SQLite reports before it ends the check.
const MOST_FINDINGS: u32 = 20;

/// Thoroughness of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Checks every page and row, but not that the indexes contain every row. Takes a fraction of the time of a full
    /// check.
    Quick,
    /// Also checks the indexes against their tables.
    Full,
}

/// Returns SQLite's findings about the file; empty if it is intact. Fails if another process keeps the file locked.
pub fn check_integrity(path: &Path, depth: Depth) -> Result<Vec<String>, OpenError> {
    let connection = open::reader(path)?;
    let pragma = match depth {
        Depth::Quick => format!("PRAGMA quick_check({MOST_FINDINGS})"),
        Depth::Full => format!("PRAGMA integrity_check({MOST_FINDINGS})"),
    };
    let mut statement = connection.prepare(&pragma)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    loop {
        match rows.next() {
            Ok(Some(row)) => found.push(row.get::<_, String>(0)?),
            Ok(None) => break,
            // A file that cannot even be checked is damaged, unless another process has locked it.
            Err(error) => match OpenError::from(error) {
                busy @ OpenError::Busy(_) => return Err(busy),
                error => {
                    found.push(error.to_string());
                    break;
                }
            },
        }
    }
    found.retain(|finding| finding != "ok");
    Ok(found)
}
