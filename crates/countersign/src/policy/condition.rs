//! A condition on a call's arguments, written in CEL.
//!
//! An expression is compiled when the policy is loaded, and evaluated for the arguments of each call. If the evaluation
//! fails, the policy holds the call. Without the feature `cel` no condition compiles, so a policy that has one is
//! refused.

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

/// Maximum number of arguments that [`deny_words`] names.
const MOST_NAMED: usize = 4;

/// Describes a `deny` condition that was met, for the agent: names the arguments that the condition uses, but not the
/// values that it compares them with.
pub(super) fn deny_words(source: &str) -> String {
    let names = arguments_in(source);
    match names.as_slice() {
        [only] => format!("its `{only}` meets a `deny` condition"),
        [first @ .., last] if names.len() <= MOST_NAMED => {
            format!(
                "its `{}` and `{last}` meet a `deny` condition",
                first.join("`, `")
            )
        }
        _ => "it meets a `deny` condition".to_owned(),
    }
}

/// Returns all words of a condition: its names and the texts in quotes, which may be names of arguments
/// (`args["confirmed"]`). More than the names of arguments, because a condition may build those in many ways.
pub(super) fn words_in(source: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let names = source.split(|c| !is_name(c));
    // A text that contains the other kind of quote is split into more parts, and is among them as a whole, too.
    let quoted = source.split('"').chain(source.split('\''));
    let mut words = Vec::new();
    for word in names.chain(quoted) {
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        if !word.is_empty() && !is_number && !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    words
}

/// Returns the names of the arguments in a condition, each once: `amount` of `args.amount` and `paths.amount`.
fn arguments_in(source: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = Vec::new();
    for (at, variable) in source
        .match_indices("args.")
        .chain(source.match_indices("paths."))
    {
        let before = source.get(..at).and_then(|before| before.chars().next_back());
        let after = source.get(at + variable.len()..).unwrap_or_default();
        let name = after.split(|c| !is_name(c)).next().unwrap_or_default();
        let is_call = after.get(name.len()..).is_some_and(|rest| rest.starts_with('('));
        let is_part = before.is_some_and(|c| is_name(c) || c == '.');
        if !is_part && !is_call && !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_condition_name_arguments_and_nothing_else() {
        for (source, expected) in [
            (
                "args.amount > 100.0 || args.amount < 0",
                "its `amount` meets a `deny` condition",
            ),
            (
                "paths.to.exists(p, p == 'x') && args.a == 1 && args.b > 2",
                "its `a`, `b` and `to` meet a `deny` condition",
            ),
            ("args.size() > 3", "it meets a `deny` condition"),
            ("true", "it meets a `deny` condition"),
            ("my_args.x || a.args.y", "it meets a `deny` condition"),
            (
                "args.a + args.b + args.c + args.d + args.e > 1",
                "it meets a `deny` condition",
            ),
        ] {
            assert_eq!(deny_words(source), expected, "{source}");
        }
    }
}
