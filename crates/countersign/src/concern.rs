//! Concerns: facts about a call that deserve a second look, found from its bytes and the agent's history alone.
//!
//! Input: a call, and the same agent's earlier approvals. Output: concerns, the gravest first, each safe to show. There
//! are no models and no scores: each concern is a fact that a person can check.

mod changes;
mod history;
#[cfg(test)]
mod tests;

pub use history::History;

use std::fmt;
use std::time::Duration;

use crate::time::Time;

/// Period within which a denial of the same call raises a concern.
const DENIAL_WINDOW: Duration = Duration::from_secs(60 * 60);
/// Period within which a card is compared with one that was withdrawn in the same channel.
const REPLACED_WITHIN: Duration = Duration::from_secs(10 * 60);
/// A batch is large if it has more calls than this, and more than twice as many as the largest earlier batch.
const LARGE_BATCH: usize = 5;
/// A number is far larger if it is more than this many times the largest earlier number.
const LARGER_FACTOR: f64 = 10.0;
/// Minimum number of earlier values that a number is compared with. With fewer there is no concern.
const MIN_SAMPLES: usize = 3;

/// A fact about a call that deserves a second look.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Concern {
    /// A call with the same values was started before, and its outcome is not known.
    StartedBefore {
        /// Time at which the earlier call was started.
        at: Time,
    },
    /// A call with the same values was denied within the last hour.
    DeniedLately,
    /// A value differs by one letter from a value that was used before.
    LooksLike {
        /// JSON pointer of the value; escaped.
        pointer: String,
        /// The value that was used before; escaped.
        known: String,
    },
    /// The tool's definition differs from the one last approved.
    DefinitionChanged,
    /// A number is more than ten times the largest earlier number.
    FarLarger {
        /// JSON pointer of the number; escaped.
        pointer: String,
        /// Largest number in earlier calls; escaped.
        largest: String,
    },
    /// The approval has far more calls than any earlier one.
    LargeBatch {
        /// Number of calls in this approval.
        calls: usize,
        /// Number of calls in the largest earlier approval.
        most: usize,
    },
    /// The call came without a conversation, although earlier calls of the agent came with one.
    NoConversation,
    /// The agent has not asked for this tool before, but for others. An undo is no request of the agent: it neither
    /// raises this concern nor counts as an earlier request.
    FirstUse {
        /// Number of the agent's latest approvals that were checked; `None` if all of them were.
        among: Option<usize>,
    },
    /// A value differs from the card that this one replaces.
    Changed {
        /// JSON pointer of the value; escaped.
        pointer: String,
        /// The value on the earlier card, escaped; `None` if it had none.
        was: Option<String>,
        /// The value on this card, escaped; `None` if it has none.
        now: Option<String>,
    },
    /// Further values differ from the card that this one replaces.
    MoreChanged {
        /// Number of further values.
        count: usize,
    },
    /// The call was not on the card that this one replaces.
    Added,
    /// A call of the card that this one replaces is no longer there.
    LeftOut {
        /// Summary of the call; escaped.
        summary: String,
    },
    /// Further calls of the card that this one replaces are no longer there.
    MoreLeftOut {
        /// Number of further calls.
        count: usize,
    },
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Concern::StartedBefore { at } => {
                write!(
                    f,
                    "the same call was started at {at}, and its outcome is not known"
                )
            }
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
            Concern::NoConversation => f.write_str(
                "where the values came from is unknown: earlier calls of this agent came with a conversation, \
                 this one did not",
            ),
            Concern::FirstUse { among: None } => f.write_str("this agent never asked for this tool before"),
            Concern::FirstUse {
                among: Some(looked_at),
            } => {
                write!(
                    f,
                    "this agent did not ask for this tool in its last {looked_at} approvals"
                )
            }
            Concern::Changed { pointer, was, now } => {
                f.write_str("changed since the last card: ")?;
                match (was, now) {
                    (Some(was), Some(now)) => write!(f, "{pointer}: `{was}` → `{now}`"),
                    (None, Some(now)) => write!(f, "{pointer} is new: `{now}`"),
                    (Some(was), None) => write!(f, "{pointer} is gone: `{was}`"),
                    (None, None) => f.write_str(pointer),
                }
            }
            Concern::MoreChanged { count } => write!(f, "changed since the last card: {count} more values"),
            Concern::Added => f.write_str("this was not on the last card"),
            Concern::LeftOut { summary } => write!(f, "no longer on the card: {summary}"),
            Concern::MoreLeftOut { count } => write!(f, "no longer on the card: {count} more calls"),
        }
    }
}
