//! Finds every occurrence of a set of secrets in a text.
//!
//! A [`Search`] is built once from the secrets and then used for any number of texts. It finds a secret as plain text,
//! escaped, or encoded as base64 or hex, even if whitespace interrupts the encoding. Aho-Corasick automata look for the
//! prefixes of all forms at once, so the time depends on the text's length and hardly on the number of secrets.
//! [`with_marks`](super::decoded::with_marks) replaces what was found.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::decoded::Decoded;
use super::fold::{FoldedText, fold};
use super::form::{Form, forms};
use super::{SHORT, is_word};

/// Maximum length in bytes of a form's prefix in the automaton, which bounds the automaton's size. Where the prefix
/// matches, the whole form is compared.
const LONGEST_NEEDLE: usize = 16;

/// Place in a text at which a secret appears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) place: Range<usize>,
    /// Index of the secret in the list that the search was built from.
    pub(super) secret: usize,
}

/// Prepared search for all forms of a list of secrets.
#[derive(Debug)]
pub(super) struct Search {
    /// Forms that match in any letter case, in case-folded texts.
    folded: Needles,
    /// Forms that match exactly.
    exact: Needles,
}

/// Forms of secrets, and the automaton that finds their beginnings.
#[derive(Debug)]
struct Needles {
    automaton: AhoCorasick,
    patterns: Vec<Pattern>,
}

/// One form of one secret.
#[derive(Debug)]
struct Pattern {
    secret: usize,
    text: String,
    /// True if the form has so few characters that it counts only as a separate word.
    is_short: bool,
    /// True for the secret's own text, without any encoding.
    is_plain: bool,
    /// True for base64 and hex.
    is_encoding: bool,
}

/// Version of a text that is searched for secrets.
#[derive(Clone, Copy, PartialEq)]
enum View {
    AsWritten,
    EscapesResolved,
    WithoutBlanks,
}

impl Search {
    /// Prepares a search for these secrets; `None` if they are too many or too long for one.
    pub(super) fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Option<Search> {
        let (mut folded, mut exact) = (Vec::new(), Vec::new());
        for (secret, text) in secrets.into_iter().enumerate() {
            let plain = fold(text);
            for form in forms(text) {
                let is_encoding = form.is_encoding_of(text);
                let is_exact = matches!(form, Form::Exact(_));
                let (Form::AnyCase(written) | Form::Exact(written)) = form;
                let pattern = Pattern {
                    secret,
                    is_short: written.chars().count() < SHORT,
                    is_plain: is_exact || written == plain,
                    is_encoding,
                    text: written,
                };
                match is_exact {
                    true => exact.push(pattern),
                    false => folded.push(pattern),
                }
            }
        }
        Some(Search {
            folded: Needles::new(folded)?,
            exact: Needles::new(exact)?,
        })
    }

    /// Returns the places in a text at which secrets appear, in order and without overlap. Overlapping places are
    /// merged into one, which counts as the secret that covers most of it.
    pub(super) fn places(&self, text: &str) -> Vec<Found> {
        let mut found = self.in_view(text, View::AsWritten);
        let resolved = Decoded::escapes(text);
        let squeezed = match &resolved {
            Some(resolved) => Decoded::without_blanks(&resolved.text).map(|squeezed| resolved.then(squeezed)),
            None => Decoded::without_blanks(text),
        };
        let views = [(resolved, View::EscapesResolved), (squeezed, View::WithoutBlanks)];
        for (decoded, view) in views {
            let Some(decoded) = decoded else { continue };
            let inside = self.in_view(&decoded.text, view).into_iter();
            found.extend(inside.map(|found| Found {
                place: decoded.original(&found.place),
                ..found
            }));
        }
        joined(found)
    }

    fn in_view(&self, text: &str, view: View) -> Vec<Found> {
        let folded_text = FoldedText::new(text);
        let mut found = self.exact.find(text, view, &|place| place, text);
        let original = |place: Range<usize>| folded_text.original(place);
        found.extend(self.folded.find(folded_text.folded(), view, &original, text));
        found
    }
}

impl Pattern {
    fn is_sought_in(&self, view: View) -> bool {
        match view {
            View::AsWritten => true,
            View::EscapesResolved => self.is_plain,
            View::WithoutBlanks => self.is_encoding,
        }
    }

    fn needle(&self) -> &[u8] {
        let bytes = self.text.as_bytes();
        bytes.get(..LONGEST_NEEDLE).unwrap_or(bytes)
    }

    fn is_longer_than_needle(&self) -> bool {
        self.text.len() > LONGEST_NEEDLE
    }
}

impl Needles {
    fn new(patterns: Vec<Pattern>) -> Option<Needles> {
        let automaton = AhoCorasick::builder()
            // Each approval has its own secrets, so the time to build the automaton matters most.
            .kind(Some(AhoCorasickKind::NoncontiguousNFA))
            .build(patterns.iter().map(Pattern::needle));
        Some(Needles {
            automaton: automaton.ok()?,
            patterns,
        })
    }

    /// Returns the places of these forms. `original` maps a place in the searched text to one in `text`.
    fn find(
        &self,
        searched: &str,
        view: View,
        original: &dyn Fn(Range<usize>) -> Range<usize>,
        text: &str,
    ) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        let mut add = |pattern: &Pattern, place: Range<usize>| {
            let place = original(place);
            if pattern.is_short && !is_word(text, &place) {
                return false;
            }
            found.push(Found {
                place,
                secret: pattern.secret,
            });
            true
        };
        // Forms that are longer than their needle and whose needle was found.
        let mut longer = vec![false; self.patterns.len()];
        let mut last_end = 0;
        for hit in self.automaton.find_overlapping_iter(searched) {
            let index = hit.pattern().as_usize();
            let Some(pattern) = self
                .patterns
                .get(index)
                .filter(|pattern| pattern.is_sought_in(view))
            else {
                continue;
            };
            match (pattern.is_longer_than_needle(), longer.get_mut(index)) {
                (true, Some(longer)) => *longer = true,
                // If several forms end here, the longest comes first and covers the others.
                _ if hit.end() == last_end => {}
                _ => {
                    if add(pattern, hit.range()) {
                        last_end = hit.end();
                    }
                }
            }
        }
        for (pattern, _) in self.patterns.iter().zip(longer).filter(|(_, longer)| *longer) {
            for (at, form) in searched.match_indices(pattern.text.as_str()) {
                add(pattern, at..at + form.len());
            }
        }
        found
    }
}

/// Sorts places, and merges those that overlap.
fn joined(mut found: Vec<Found>) -> Vec<Found> {
    found.retain(|found| !found.place.is_empty());
    // At the same start the longest comes first; of equal ones, the secret that is listed first.
    found.sort_by_key(|found| {
        (
            found.place.start,
            std::cmp::Reverse(found.place.end),
            found.secret,
        )
    });
    let mut joined: Vec<Found> = Vec::new();
    let mut longest = 0;
    for next in found {
        match joined.last_mut() {
            Some(last) if next.place.start < last.place.end => {
                if next.place.len() > longest {
                    longest = next.place.len();
                    last.secret = next.secret;
                }
                last.place.end = last.place.end.max(next.place.end);
            }
            _ => {
                longest = next.place.len();
                joined.push(next);
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(secrets: &[&str], text: &str, expected: &[(&str, usize)]) {
        let search = Search::new(secrets.iter().copied()).unwrap();
        let found = search.places(text).into_iter();
        let found: Vec<(&str, usize)> = found.map(|found| (&text[found.place], found.secret)).collect();
        assert_eq!(found, expected, "{secrets:?} in `{text}`");
    }

    #[test]
    fn places_that_overlap_are_one() {
        check(&["abcdef", "defghi"], "xabcdefghix", &[("abcdefghi", 0)]);
        check(&["defghij", "abcdef"], "xabcdefghijx", &[("abcdefghij", 0)]);
        check(&["abcd", "abcdef"], "abcdef abcd", &[("abcdef", 1), ("abcd", 0)]);
        check(&["cdef", "abcdefgh"], "abcdefgh", &[("abcdefgh", 1)]);
        check(&["abcd"], "abcdABCD", &[("abcd", 0), ("ABCD", 0)]);
        check(&["aaaa"], "aaaaaa", &[("aaaaaa", 0)]);
        check(&["Key-1", "kEY-1"], "key-1", &[("key-1", 0)]);
    }

    #[test]
    fn forms_longer_than_a_needle_are_compared_in_whole() {
        let long = "a secret of more than sixteen bytes";
        check(&[long], "a secret of more than sixteen words", &[]);
        check(&[long, "a secret of more"], &format!("({long})"), &[(long, 0)]);
        check(
            &["STRA\u{df}E".repeat(4).as_str()],
            &format!("\u{e4} {}", "strasse".repeat(4)),
            &[("strasse".repeat(4).as_str(), 0)],
        );
    }

    /// A short secret inside a longer word does not count as found. It must not keep another secret that ends at the
    /// same position from being found.
    #[test]
    fn a_short_secret_hides_no_other() {
        check(&["bcd", "d"], "abcd", &[]);
        check(&["b d", "d"], "ab d", &[("d", 1)]);
        check(&["d", "x-d"], "x-d", &[("x-d", 1)]);
    }
}
