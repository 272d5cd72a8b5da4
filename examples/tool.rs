//! A tool of a world: a function from argument bytes to a JSON result.
//!
//! Enters: exact bytes that a policy let through. Leaves: a result, or a reason that a person understands.
//! Deliberately absent: whether it may run. That was decided before.

use countersign::executor::Outcome;
use countersign::id::CallId;
use futures_util::future::BoxFuture;
use rusqlite::Connection;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What a tool did, or why it did nothing.
pub type Done = Result<Value, Fault>;

/// How a tool acts.
#[derive(Clone, Copy)]
pub enum Act {
    /// Looks. Whatever it did to the data would be taken back.
    Read(fn(&Connection, &[u8]) -> Done),
    /// Changes the world's data, in one transaction.
    Write(fn(&Connection, &[u8]) -> Done),
    /// Acts on something outside, where no transaction reaches.
    Send(fn(Option<CallId>, Vec<u8>) -> BoxFuture<'static, Outcome>),
}

/// Why a tool did nothing.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The call makes no sense here, or no longer.
    #[error("{0}")]
    Said(String),
    /// The file failed.
    #[error("the example's data cannot be used: {0}")]
    Data(#[from] rusqlite::Error),
}

impl Fault {
    /// A reason.
    pub fn said(reason: impl Into<String>) -> Fault {
        Fault::Said(reason.into())
    }
}

/// Reads the arguments as what the tool needs.
pub fn read<T: DeserializeOwned>(arguments: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(arguments)
        .map_err(|error| Fault::Said(format!("the arguments do not fit: {error}")))
}

/// Fails unless what a person was shown is still so. A card says names and counts; they come from the arguments, so the
/// tool holds the arguments to the truth.
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

/// What stands in a `LIKE` for text that may hold its wildcards.
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
