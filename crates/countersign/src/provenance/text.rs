//! A text that values are looked for in, and what counts as finding one.
//!
//! Enters: a text and a value. Leaves: where the value stands in it as a whole, or nothing.
//! Deliberately absent: likeness. A value is found when it is there, letter for letter after folding; hidden
//! characters are letters here, so a value with one is another value.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::ops::Range;

use icu_normalizer::{ComposingNormalizer, ComposingNormalizerBorrowed};
use memchr::memmem;

use super::address;
use super::date::{self, Stated};
use super::number::{self, Figure};
use super::shape::Shape;
use crate::display::{is_forbidden, is_mark};

/// A text, with what has been worked out about it so far.
pub(super) struct Text<'c> {
    raw: Cow<'c, str>,
    folded: OnceCell<Cow<'c, str>>,
    figures: OnceCell<Vec<Figure>>,
    dates: OnceCell<Vec<Stated>>,
    words: OnceCell<HashSet<String>>,
}

impl<'c> Text<'c> {
    pub(super) fn new(raw: impl Into<Cow<'c, str>>) -> Text<'c> {
        Text {
            raw: raw.into(),
            folded: OnceCell::new(),
            figures: OnceCell::new(),
            dates: OnceCell::new(),
            words: OnceCell::new(),
        }
    }

    pub(super) fn raw(&self) -> &str {
        &self.raw
    }

    /// Without the differences of case, spacing and compatibility forms.
    pub(super) fn folded(&self) -> &str {
        self.folded.get_or_init(|| Cow::Owned(fold_text(&self.raw)))
    }

    /// Its numbers.
    pub(super) fn figures(&self) -> &[Figure] {
        self.figures.get_or_init(|| number::figures(self.folded()))
    }

    /// Its dates.
    pub(super) fn dates(&self) -> &[Stated] {
        self.dates.get_or_init(|| date::stated(self.folded()))
    }

    /// Its words, each once.
    pub(super) fn words(&self) -> &HashSet<String> {
        self.words
            .get_or_init(|| words(self.folded()).map(|(_, word)| word.to_owned()).collect())
    }

    /// The first place where `value` stands as it is.
    pub(super) fn find_verbatim(&self, value: &str, shape: Shape) -> Option<Range<usize>> {
        find(&self.raw, value, |from, to| {
            shape.stands_alone(&self.raw, from, to)
        })
    }

    /// The first place in the folded text where a folded value stands.
    pub(super) fn find_folded(&self, folded: &str, shape: Shape) -> Option<Range<usize>> {
        let text = self.folded();
        find(text, folded, |from, to| shape.stands_alone(text, from, to))
    }

    /// The first place where a folded value stands between anything but letters and digits. An id may be a whole step
    /// of an address, as in `https://acme.com/orders/W2378156` or `mia_li_3668@acme.com`; no other part of one counts.
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

    /// The bytes of the raw text that became `folded`, to the word where its letters changed each other.
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

/// Where in a word the byte stands that is the `folded`th of the `length` it has when folded; nothing where its letters
/// change each other, so that only the word as a whole can be told.
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

/// The characters before and after a part of a text.
pub(super) fn neighbours(text: &str, from: usize, to: usize) -> (Option<char>, Option<char>) {
    let before = text.get(..from).and_then(|before| before.chars().next_back());
    let after = text.get(to..).and_then(|after| after.chars().next());
    (before, after)
}

/// Letters, digits, their marks, and what cannot be seen: it may be there to end a word that goes on.
pub(super) fn is_inside_word(character: char) -> bool {
    match character.is_ascii() {
        true => character.is_ascii_alphanumeric(),
        false => character.is_alphanumeric() || is_mark(character) || is_hidden(character),
    }
}

/// Characters that are not seen. Blanks are.
pub(super) fn is_hidden(character: char) -> bool {
    !character.is_whitespace() && is_forbidden(character)
}

/// Folds what was said: compatibility forms too, since people type full-width digits.
pub(super) fn fold_text(text: &str) -> String {
    fold(text, ComposingNormalizer::new_nfkc())
}

/// Folds a value: its compatibility forms stay, because `ⓜaria` in an argument is not `maria`.
pub(super) fn fold_value(text: &str) -> String {
    fold(text, ComposingNormalizer::new_nfc())
}

fn fold(text: &str, form: ComposingNormalizerBorrowed<'_>) -> String {
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
        false => {
            let normal = form.normalize(text);
            normal.chars().flat_map(char::to_lowercase).for_each(push);
        }
    }
    folded.truncate(folded.trim_end().len());
    folded
}

/// Typographic quotes are how word processors write `'` and `"`.
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

/// Words of a folded text with their places: runs of letters, digits and what joins them in names and addresses.
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

/// A tool's result without the escapes of JSON and YAML, if it has any.
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
            // A folded line goes on where its text begins.
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
