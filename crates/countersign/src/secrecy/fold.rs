//! Case-folded copies of texts, with a mapping from ranges of the copy to ranges of the text.
//!
//! Only letter case is folded, not other variants of a letter such as full width. The search for secrets is in
//! `search`.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

/// Folds the case of a text: `ß` becomes `ss`, and both lower-case forms of Greek sigma become `σ`.
pub(super) fn fold(text: &str) -> String {
    match text.is_ascii() {
        true => text.to_ascii_lowercase(),
        false => text.chars().flat_map(fold_char).collect(),
    }
}

fn fold_char(character: char) -> impl Iterator<Item = char> {
    // Converts via upper case, which merges letters that lower case keeps apart.
    let upper = character.to_lowercase().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase)
}

/// A text and its case-folded copy.
pub(super) struct FoldedText<'t> {
    text: &'t str,
    folded: Cow<'t, str>,
    is_ascii: bool,
    /// Start of each letter, in the folded copy and in the text. Computed on first use; not needed for ASCII text.
    letters: OnceCell<Vec<(usize, usize)>>,
}

impl<'t> FoldedText<'t> {
    pub(super) fn new(text: &'t str) -> FoldedText<'t> {
        let is_folded = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
        let folded = match text.bytes().all(is_folded) {
            true => Cow::Borrowed(text),
            false => Cow::Owned(fold(text)),
        };
        FoldedText {
            is_ascii: text.is_ascii(),
            text,
            folded,
            letters: OnceCell::new(),
        }
    }

    pub(super) fn folded(&self) -> &str {
        &self.folded
    }

    /// Returns the range of the text that a range of the folded copy came from. A letter that folds to several, such as
    /// `ß`, is included as a whole.
    pub(super) fn original(&self, place: Range<usize>) -> Range<usize> {
        if self.is_ascii {
            return place;
        }
        let letters = self.letters.get_or_init(|| self.letters());
        let begun = letters.partition_point(|(folded, _)| *folded <= place.start);
        let start = begun.checked_sub(1).and_then(|index| letters.get(index));
        let behind = letters.partition_point(|(folded, _)| *folded < place.end);
        let end = letters.get(behind).map_or(self.text.len(), |(_, at)| *at);
        start.map_or(0, |(_, at)| *at)..end
    }

    fn letters(&self) -> Vec<(usize, usize)> {
        let mut folded_to = 0;
        let letters = self.text.char_indices().map(|(at, character)| {
            let from = folded_to;
            folded_to += fold_char(character).map(char::len_utf8).sum::<usize>();
            (from, at)
        });
        letters.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_whatever_their_case() {
        let check = |text: &str, form: &str, expected: &[&str]| {
            let folded_text = FoldedText::new(text);
            let form = fold(form);
            let found = folded_text.folded().match_indices(&form);
            let found = found.map(|(at, form)| &text[folded_text.original(at..at + form.len())]);
            let found: Vec<&str> = found.collect();
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
        check("ßß", "s", &["ß", "ß", "ß", "ß"]);
        check("ßß", "sss", &["ßß"]);
        check("a\u{130}b", "\u{130}", &["\u{130}"]);
        check("no", "key", &[]);
        check("ä", "key", &[]);
        check("", "key", &[]);
    }
}
