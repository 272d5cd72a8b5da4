//! A condition on a call's arguments, written in CEL.
//!
//! Input: an expression at load time, arguments at each call. Output: true, false, or why evaluation failed; on failure
//! the policy holds the call. Without the feature `cel` no condition compiles, so a policy that has one is refused.

#[cfg(not(feature = "cel"))]
mod absent;
#[cfg(feature = "cel")]
mod evaluator;

use crate::provenance::Counts;

#[cfg(not(feature = "cel"))]
pub(super) use absent::Condition;
#[cfg(feature = "cel")]
pub(super) use evaluator::Condition;

/// Origins of a call's values, as conditions see them.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "cel"),
    expect(dead_code, reason = "only conditions read the counts")
)]
pub(super) enum Origins {
    /// No conversation, or one without the person's messages.
    Unknown,
    /// Counts from a conversation supplied by the proposer.
    Supplied(Counts),
    /// Counts from a conversation that the gate recorded itself.
    Heard(Counts),
}

/// Error in a condition, with its byte offset and a hint.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadCondition {
    pub(super) offset: usize,
    pub(super) message: String,
    pub(super) hint: String,
}
