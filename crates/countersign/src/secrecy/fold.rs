//! Text without letter case, and finding in it.
//!
//! Enters: a text and a form of a secret, without case. Leaves: where in the text it stands, whatever its case.
//! Deliberately absent: other ways to write a letter, such as full width.

use std::borrow::Cow;
use std::ops::Range;

/// The text without case: also `ß` is `ss`, and both kinds of Greek `σ` are one.
pub(super) fn fold(text: &str) -> String {
    match text.is_ascii() {
        true => text.to_ascii_lowercase(),
        false => text.chars().flat_map(fold_char).collect(),
    }
}

fn fold_char(character: char) -> impl Iterator<Item = char> {
    // By way of upper case, which brings together what lower case keeps apart.
    let upper = character.to_lowercase().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase)
}

/// A text and the same without case, made once for all that is looked for in it.
pub(super) struct Searched<'t> {
    text: Cow<'t, str>,
    folded: String,
}

impl<'t> Searched<'t> {
    pub(super) fn new(text: Cow<'t, str>) -> Searched<'t> {
        let folded = fold(&text);
        Searched { text, folded }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn into_text(self) -> Cow<'t, str> {
        self.text
    }

    /// Where `form`, which is without case, stands in the text; in order, none over another. A letter that is several
    /// without case, such as `ß`, belongs to a place as a whole.
    pub(super) fn places(&self, form: &str) -> Vec<Range<usize>> {
        let found = self.folded.match_indices(form);
        let found = found.map(|(start, form)| start..start + form.len());
        if self.text.is_ascii() {
            return found.collect();
        }
        let mut found = found.peekable();
        if found.peek().is_none() {
            return Vec::new();
        }
        let mut places: Vec<Range<usize>> = Vec::new();
        let mut letters = self.letters();
        // The letter at hand: where it stands, and where it does without case.
        let mut letter = letters.next();
        for range in found {
            while letter
                .as_ref()
                .is_some_and(|(_, folded)| folded.end <= range.start)
            {
                letter = letters.next();
            }
            let Some(start) = letter.as_ref().map(|(at, _)| at.start) else {
                break;
            };
            while letter.as_ref().is_some_and(|(_, folded)| folded.end < range.end) {
                letter = letters.next();
            }
            let end = letter.as_ref().map_or(self.text.len(), |(at, _)| at.end);
            let start = start.max(places.last().map_or(0, |last| last.end));
            if start < end {
                places.push(start..end);
            }
        }
        places
    }

    fn letters(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let mut folded_to = 0;
        self.text.char_indices().map(move |(at, character)| {
            let from = folded_to;
            folded_to += fold_char(character).map(char::len_utf8).sum::<usize>();
            (at..at + character.len_utf8(), from..folded_to)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_whatever_their_case() {
        let check = |text: &str, form: &str, expected: &[&str]| {
            let searched = Searched::new(Cow::Borrowed(text));
            let found = searched.places(&fold(form)).into_iter();
            let found: Vec<&str> = found.map(|place| &text[place]).collect();
            assert_eq!(found, expected, "`{form}` in `{text}`");
        };
        check("a KEY, a key", "Key", &["KEY", "key"]);
        check("keykey", "key", &["key", "key"]);
        check("ä KEY ä Key", "key", &["KEY", "Key"]);
        check(
            "Straße STRASSE strasse",
            "STRAẞE",
            &["Straße", "STRASSE", "strasse"],
        );
        check("ΚΩΔΙΚΟΣ κωδικος", "κωδικοσ", &["ΚΩΔΙΚΟΣ", "κωδικος"]);
        check("xß", "xs", &["xß"]);
        check("ßß", "s", &["ß", "ß"]);
        check("ßß", "sss", &["ßß"]);
        check("a\u{130}b", "\u{130}", &["\u{130}"]);
        check("no", "key", &[]);
        check("ä", "key", &[]);
        check("", "key", &[]);
    }
}
