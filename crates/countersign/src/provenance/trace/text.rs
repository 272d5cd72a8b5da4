//! A text to search, and the rules for finding a value in it.
//!
//! Input: a text and a value. Output: the place where the whole value occurs in the text, if it does. A match is exact
//! after folding, never fuzzy. Invisible characters are not ignored, so a value that contains one differs from the
//! value without it.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::ops::Range;

use memchr::memmem;
use unicode_normalization::UnicodeNormalization as _;

use super::address;
use super::date::{self, Stated};
use super::number::{self, NumberMatch};
use super::shape::Shape;
use crate::display::{is_forbidden, is_mark};

/// A text with lazily computed views of it.
pub(super) struct Text<'c> {
    raw: Cow<'c, str>,
    folded: OnceCell<Cow<'c, str>>,
    number_matches: OnceCell<Vec<NumberMatch>>,
    dates: OnceCell<Vec<Stated>>,
    words: OnceCell<HashSet<String>>,
}

impl<'c> Text<'c> {
    pub(super) fn new(raw: impl Into<Cow<'c, str>>) -> Text<'c> {
        Text {
            raw: raw.into(),
            folded: OnceCell::new(),
            number_matches: OnceCell::new(),
            dates: OnceCell::new(),
            words: OnceCell::new(),
        }
    }

    pub(super) fn raw(&self) -> &str {
        &self.raw
    }

    /// The text with differences of case, spacing and compatibility forms removed.
    pub(super) fn folded(&self) -> &str {
        self.folded.get_or_init(|| Cow::Owned(fold_text(&self.raw)))
    }

    /// Numbers in the text.
    pub(super) fn number_matches(&self) -> &[NumberMatch] {
        self.number_matches
            .get_or_init(|| number::number_matches(self.folded()))
    }

    pub(super) fn dates(&self) -> &[Stated] {
        self.dates.get_or_init(|| date::stated(self.folded()))
    }

    pub(super) fn words(&self) -> &HashSet<String> {
        self.words
            .get_or_init(|| words(self.folded()).map(|(_, word)| word.to_owned()).collect())
    }

    /// Finds the first verbatim occurrence of `value`; `None` if there is none.
    pub(super) fn find_verbatim(&self, value: &str, shape: Shape) -> Option<Range<usize>> {
        find(&self.raw, value, |from, to| {
            shape.stands_alone(&self.raw, from, to)
        })
    }

    /// Finds the first occurrence of a folded value in the folded text; `None` if there is none.
    pub(super) fn find_folded(&self, folded: &str, shape: Shape) -> Option<Range<usize>> {
        let text = self.folded();
        find(text, folded, |from, to| shape.stands_alone(text, from, to))
    }

    /// Finds the first occurrence of a folded value that is not within a longer word. An id may also be a whole
    /// component of an address, as in `https://acme.com/orders/W2378156` or `mia_li_3668@acme.com`; no other part of an
    /// address matches.
    pub(super) fn find_part(&self, folded: &str, shape: Shape) -> Option<Range<usize>> {
        let text = self.folded();
        let is_id = shape == Shape::Code && folded.contains(|c: char| c.is_ascii_digit());
        let joins =
            |outer: Option<char>| outer.is_some_and(|c| matches!(c, '.' | '-' | '_' | '+' | '%' | '~'));
        find(text, folded, |from, to| {
            let (before, after) = neighbours(text, from, to);
            let is_step = is_id && !joins(before) && !joins(after) && before != Some('@');
            !before.is_some_and(is_inside_word)
                && !after.is_some_and(is_inside_word)
                && (is_step || !address::is_cut(text, from, to))
        })
    }

    /// Maps a range of the folded text to the raw text. Where folding combined letters, the range is widened to whole
    /// words.
    pub(super) fn raw_range(&self, folded: &Range<usize>) -> Range<usize> {
        let mut at = 0;
        let (mut start, mut end) = (None, self.raw.len());
        for (from, word) in raw_words(&self.raw) {
            let length = match word.is_ascii() {
                true => word.len(),
                false => fold_text(word).len(),
            };
            let inside = |folded: usize, whole: usize| {
                let offset = offset_in(word, length, folded.saturating_sub(at));
                offset.map_or(whole, |offset| from + offset)
            };
            if start.is_none() && folded.start < at + length {
                start = Some(inside(folded.start, from));
            }
            if start.is_some() && folded.end <= at + length {
                end = inside(folded.end, from + word.len());
                break;
            }
            at += length + 1;
        }
        start.unwrap_or(0)..end
    }
}

/// Maps an offset in a folded word (`length` bytes long) to the raw word; `None` if folding combined letters, so that
/// only the word as a whole can be mapped.
fn offset_in(word: &str, length: usize, folded: usize) -> Option<usize> {
    if word.is_ascii() {
        return Some(folded.min(word.len()));
    }
    let mut buffer = [0; 4];
    let mut at = 0;
    let mut found = None;
    for (offset, character) in word.char_indices() {
        if found.is_none() && at >= folded {
            found = Some(offset);
        }
        at += fold_text(character.encode_utf8(&mut buffer)).len();
    }
    (at == length).then(|| found.unwrap_or(word.len()))
}

fn find(text: &str, value: &str, is_whole: impl Fn(usize, usize) -> bool) -> Option<Range<usize>> {
    if value.is_empty() {
        return None;
    }
    let finder = memmem::Finder::new(value.as_bytes());
    let starts = finder.find_iter(text.as_bytes());
    let mut places = starts.map(|from| from..from + value.len());
    places.find(|place| is_whole(place.start, place.end))
}

/// Returns the characters before and after a range of a text.
pub(super) fn neighbours(text: &str, from: usize, to: usize) -> (Option<char>, Option<char>) {
    let before = text.get(..from).and_then(|before| before.chars().next_back());
    let after = text.get(to..).and_then(|after| after.chars().next());
    (before, after)
}

/// Returns true for letters, digits, combining marks and invisible characters. The latter count so that they cannot
/// make a longer word look as if it ended.
pub(super) fn is_inside_word(character: char) -> bool {
    match character.is_ascii() {
        true => character.is_ascii_alphanumeric(),
        false => character.is_alphanumeric() || is_mark(character) || is_hidden(character),
    }
}

/// Returns true for invisible characters other than whitespace.
pub(super) fn is_hidden(character: char) -> bool {
    !character.is_whitespace() && is_forbidden(character)
}

/// Folds a message, including compatibility forms, since people type full-width digits.
pub(super) fn fold_text(text: &str) -> String {
    fold(text, text.nfkc())
}

/// Folds a value, keeping compatibility forms: `ⓜaria` in an argument is not `maria`.
pub(super) fn fold_value(text: &str) -> String {
    fold(text, text.nfc())
}

/// Folds a text. `normal` yields the text's characters in normal form; it is used only if the text is not ASCII.
fn fold(text: &str, normal: impl Iterator<Item = char>) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut is_blank = true;
    let mut push = |character: char| {
        if character.is_whitespace() {
            if !is_blank {
                folded.push(' ');
            }
            is_blank = true;
        } else {
            is_blank = false;
            folded.push(plain_quote(character));
        }
    };
    match text.is_ascii() {
        true => text
            .bytes()
            .for_each(|byte| push(byte.to_ascii_lowercase().into())),
        false => normal.flat_map(char::to_lowercase).for_each(push),
    }
    folded.truncate(folded.trim_end().len());
    folded
}

/// Replaces typographic quotes, which word processors insert for `'` and `"`.
fn plain_quote(character: char) -> char {
    match character {
        '\u{2018}' | '\u{2019}' => '\'',
        '\u{201c}' | '\u{201d}' => '"',
        other => other,
    }
}

fn raw_words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = text.split(char::is_whitespace).scan(0, |at, word| {
        let from = *at;
        let rest = text.get(from + word.len()..).and_then(|rest| rest.chars().next());
        *at = from + word.len() + rest.map_or(0, char::len_utf8);
        Some((from, word))
    });
    words.filter(|(_, word)| !word.is_empty())
}

/// Splits a folded text into words with their offsets: runs of letters, digits and characters that join them in names
/// and addresses.
pub(super) fn words(folded: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_joined =
        |c: char| is_inside_word(c) || matches!(c, '.' | '_' | '@' | '-' | '+' | '/' | '\'' | '%');
    let runs = folded.split(move |c| !is_joined(c)).scan(0, |at, run| {
        let from = *at;
        let next = folded
            .get(from + run.len()..)
            .and_then(|rest| rest.chars().next());
        *at = from + run.len() + next.map_or(0, char::len_utf8);
        Some((from, run))
    });
    runs.filter_map(|(from, run)| {
        let word = run.trim_start_matches(['.', '_', '-', '+', '/', '\'', '%']);
        let from = from + run.len() - word.len();
        let word = word.trim_end_matches(['.', '_', '-', '+', '/', '\'']);
        let word = word.strip_suffix("'s").unwrap_or(word);
        (!word.is_empty()).then_some((from, word))
    })
}

/// Resolves JSON and YAML escapes in a tool's result; `None` if the result contains none.
///
/// Results are often structured text inside structured text: `Grandma''s`, `\"`, `\n`, and lines folded with `\`.
pub(super) fn without_escapes(text: &str) -> Option<String> {
    if !text.contains('\\') && !text.contains("''") {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'\\', b'\'', rest.as_bytes()) {
        let (before, escape) = rest.split_at_checked(at)?;
        plain.push_str(before);
        if let Some(after) = escape.strip_prefix("''") {
            plain.push('\'');
            rest = after;
            continue;
        }
        let Some(escape) = escape.strip_prefix('\\') else {
            plain.push('\'');
            rest = escape.get(1..).unwrap_or_default();
            continue;
        };
        let mut characters = escape.chars();
        match characters.next() {
            Some('n' | 'r' | 't') => plain.push(' '),
            // A folded line continues at the next character that is not whitespace.
            Some('\n') => {
                rest = characters.as_str().trim_start();
                continue;
            }
            Some('u') => {
                let code = escape
                    .get(1..5)
                    .and_then(|digits| u32::from_str_radix(digits, 16).ok());
                plain.extend(code.and_then(char::from_u32));
                rest = escape.get(5..).unwrap_or_default();
                continue;
            }
            Some(itself) => plain.push(itself),
            None => {}
        }
        rest = characters.as_str();
    }
    plain.push_str(rest);
    Some(plain)
}
