//! A tool of a world: a function from argument bytes to a JSON result.
//!
//! Input: exact argument bytes that the policy accepted. Output: a result, or an error message for people. Permissions
//! are not checked here: the gate has already decided that the call may run.

use countersign::executor::Outcome;
use countersign::id::CallId;
use futures_util::future::BoxFuture;
use rusqlite::Connection;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Result of a tool, or the reason why the tool did nothing.
pub type Done = Result<Value, Fault>;

/// How a tool acts.
#[derive(Clone, Copy)]
pub enum Act {
    /// Reads data. Changes would be rolled back.
    Read(fn(&Connection, &[u8]) -> Done),
    /// Changes the world's data in one transaction.
    Write(fn(&Connection, &[u8]) -> Done),
    /// Acts on an outside system, beyond any transaction.
    Send(fn(Option<CallId>, Vec<u8>) -> BoxFuture<'static, Outcome>),
}

/// Reason why a tool did nothing.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The call does not fit the data, or no longer does; with a message for people.
    #[error("{0}")]
    Said(String),
    /// SQLite failed.
    #[error("the example's data cannot be used: {0}")]
    Data(#[from] rusqlite::Error),
}

impl Fault {
    /// Creates an error with a message for people.
    pub fn said(reason: impl Into<String>) -> Fault {
        Fault::Said(reason.into())
    }
}

/// Deserializes the arguments.
pub fn read<T: DeserializeOwned>(arguments: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(arguments)
        .map_err(|error| Fault::Said(format!("the arguments do not fit: {error}")))
}

/// Fails unless a value that the person was shown is still true. Names and counts on a card come from the arguments, so
/// the tool has to check them against the data.
pub fn expect_same<T: PartialEq + std::fmt::Display>(
    what: &str,
    shown: Option<&T>,
    found: &T,
) -> Result<(), Fault> {
    match shown {
        Some(shown) if shown != found => Err(Fault::Said(format!(
            "{what} is `{found}`, not `{shown}` as was shown; nothing was changed"
        ))),
        _ => Ok(()),
    }
}

/// Returns a `LIKE` pattern for a substring, with wildcards escaped by `\`.
pub fn containing(text: &str) -> String {
    let mut pattern = String::from("%");
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}
