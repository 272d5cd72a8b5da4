//! What else deserves a second look: short warnings with a reason, from bytes and history alone.
//!
//! Enters: a call, and what the same agent asked before. Leaves: concerns, the gravest first, each safe to show.
//! Deliberately absent: models and scores. Each concern is a fact that a person can check.

mod history;
#[cfg(test)]
mod tests;

pub use history::History;

use std::fmt;
use std::time::Duration;

/// How far back a denial of the same call is worth a word.
const LATELY: Duration = Duration::from_secs(60 * 60);
/// A batch is large when it has more than twice the calls of the largest before, and more than this.
const LARGE_BATCH: usize = 5;
/// A number is far outside when it is more than ten times the largest before.
const FAR: f64 = 10.0;
/// So many numbers make a history.
const SOME: usize = 3;

/// Something about a call that a person should look at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concern {
    /// A call with the same values was denied within the last hour.
    DeniedLately,
    /// A value is one letter away from one that was used before.
    LooksLike {
        /// Where the value stands; escaped.
        pointer: String,
        /// The one that was used before; escaped.
        known: String,
    },
    /// The tool is not what it was when it was last approved.
    DefinitionChanged,
    /// A number is far larger than any before.
    FarLarger {
        /// Where it stands; escaped.
        pointer: String,
        /// The largest before; escaped.
        largest: String,
    },
    /// More calls at once than ever before.
    LargeBatch {
        /// How many.
        calls: usize,
        /// The most before.
        most: usize,
    },
    /// This agent did not ask for this tool before.
    FirstUse {
        /// So many of its latest approvals were looked at; nothing when these were all.
        among: Option<usize>,
    },
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Concern::DeniedLately => f.write_str("the same call was denied within the last hour"),
            Concern::LooksLike { pointer, known } => {
                write!(
                    f,
                    "{pointer} is one letter away from `{known}`, which was used before"
                )
            }
            Concern::DefinitionChanged => f.write_str("the tool has changed since it was last approved"),
            Concern::FarLarger { pointer, largest } => {
                write!(
                    f,
                    "{pointer} is more than ten times the largest before, {largest}"
                )
            }
            Concern::LargeBatch { calls, most } => {
                write!(f, "{calls} calls at once; the most before were {most}")
            }
            Concern::FirstUse { among: None } => f.write_str("this agent never asked for this tool before"),
            Concern::FirstUse {
                among: Some(looked_at),
            } => {
                write!(
                    f,
                    "this agent did not ask for this tool in its last {looked_at} approvals"
                )
            }
        }
    }
}
