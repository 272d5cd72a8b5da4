//! Mistakes in a policy, with line, column and hint.

use std::fmt;

/// A mistake or warning, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Description of the mistake.
    pub message: String,
    /// Advice on how to fix the mistake, if there is any.
    pub hint: Option<String>,
}

impl Problem {
    /// Builds a problem at a byte offset of `text`.
    pub(super) fn at(text: &str, offset: usize, message: String, hint: Option<String>) -> Problem {
        let before = text.get(..offset).unwrap_or(text);
        let last_line = before.rsplit('\n').next().unwrap_or_default();
        Problem {
            line: before.matches('\n').count() + 1,
            column: last_line.chars().count() + 1,
            message,
            hint,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Every mistake found in a policy, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Returns the known word closest to `word`, if it is close enough to be a likely typo.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = if word.chars().count() < 5 { 1 } else { 2 };
    let candidates = known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate));
    let best = candidates.min_by_key(|(distance, _)| *distance);
    best.filter(|(distance, _)| *distance <= allowed)
        .map(|(_, candidate)| candidate)
}

/// Returns the edit distance of two words, counting insertions, deletions, replacements and swaps of neighbours.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    let mut previous = None;
    for (line, letter) in left.chars().enumerate() {
        let mut next = vec![line + 1];
        for (column, other) in right.iter().enumerate() {
            let cost = |cells: &[usize], at: usize| cells.get(at).copied().unwrap_or(usize::MAX / 2);
            let replaced = cost(&row, column) + usize::from(letter != *other);
            let mut best = replaced
                .min(cost(&row, column + 1) + 1)
                .min(cost(&next, column) + 1);
            let neighbour = column.checked_sub(1).and_then(|at| right.get(at));
            if previous == Some(*other) && neighbour == Some(&letter) {
                best = best.min(cost(&before, column - 1) + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
        previous = Some(letter);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_word_that_was_meant() {
        let known = ["effect", "risk", "ttl", "approvers"];
        for (word, expected) in [
            ("efect", Some("effect")),
            ("effetc", Some("effect")),
            ("aprovers", Some("approvers")),
            ("tll", Some("ttl")),
            ("rusk", Some("risk")),
            ("colour", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
