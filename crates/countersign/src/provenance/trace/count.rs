//! Recognises numbers that count things and therefore do not state an id.
//!
//! Input: a folded text and the place of a number in it. Output: whether the number is a count: `"deals": 1`,
//! `total_contacts: 3`, "1 deal".

use std::ops::Range;

use super::text::words;

/// Maximum distance in bytes at which the name or the noun of a number is searched.
const NEAR: usize = 64;

/// Returns true if the number at `at` counts or measures something, by its key or by the noun that follows it.
pub(super) fn is_count(folded: &str, at: &Range<usize>) -> bool {
    match key_before(folded, at.start) {
        Some(key) => is_count_key(key),
        None => is_before_noun(folded, at.end),
    }
}

/// Returns the key of a value: `deals` for the number in `"deals": 1` and in `deals: 1`. `None` if there is no key.
pub(super) fn key_before(folded: &str, at: usize) -> Option<&str> {
    let head = folded.get(..at)?;
    let head = head.trim_end_matches(['"', '\'']).trim_end();
    let head = head.strip_suffix([':', '=']).map(str::trim_end)?;
    let head = head.trim_end_matches(['"', '\'']);
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let key = head.get(head.trim_end_matches(is_name).len()..)?;
    (!key.is_empty() && key.len() <= NEAR).then_some(key)
}

fn is_count_key(key: &str) -> bool {
    const COUNTS: &[&str] = &[
        "amount", "balance", "count", "duration", "length", "limit", "offset", "page", "percent", "price",
        "quantity", "qty", "rating", "score", "size", "sum", "total",
    ];
    let mut parts = key.split(['_', '-']).filter(|part| !part.is_empty());
    let first = parts.clone().next().unwrap_or_default();
    let last = parts.next_back().unwrap_or_default();
    // A plural that holds a number says how many there are. Folding removes the capitals of `dealCount`.
    let is_plural = last.len() > 3 && last.ends_with('s') && !last.ends_with("ss") && !last.ends_with("us");
    let is_counted = COUNTS.iter().any(|word| last.ends_with(word));
    matches!(first, "num" | "total" | "count") || is_counted || is_plural && last != "ids"
}

/// Returns true if a noun follows the number, as in "1 deal". Conjunctions and other function words do not count as
/// nouns.
fn is_before_noun(folded: &str, at: usize) -> bool {
    const NO_NOUNS: &[&str] = &[
        "a", "about", "after", "and", "as", "at", "be", "before", "but", "by", "for", "from", "has", "if",
        "in", "is", "it", "now", "of", "on", "or", "out", "please", "so", "than", "thanks", "that", "the",
        "then", "this", "to", "was", "which", "with",
    ];
    let Some(rest) = folded.get(at..).and_then(|rest| rest.strip_prefix(' ')) else {
        return false;
    };
    let rest = rest.split_inclusive(' ').take(1).collect::<String>();
    let next = words(&rest).next().map(|(from, word)| (from, word.to_owned()));
    next.is_some_and(|(from, word)| {
        from == 0 && word.chars().all(char::is_alphabetic) && !NO_NOUNS.contains(&word.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_from_ids() {
        let check = |text: &str, expected: bool| {
            let from = text.find('7').unwrap();
            assert_eq!(is_count(text, &(from..from + 1)), expected, "{text}");
        };
        check(r#"{"deals": 7}"#, true);
        check(r#"{"deals":7}"#, true);
        check("total_contacts: 7", true);
        check("{'dealcount': 7}", true);
        check("7 deals in all", true);
        check("found 7 contacts", true);
        check(r#"{"id": 7}"#, false);
        check(r#"{"contact": 7}"#, false);
        check(r#"{"status": 7}"#, false);
        check(r#"{"ids": [7, 8]}"#, false);
        check("contact 7", false);
        check("contact 7, please", false);
        check("contact 7 and contact 8", false);
        check("#7", false);
        check("7", false);
    }
}
