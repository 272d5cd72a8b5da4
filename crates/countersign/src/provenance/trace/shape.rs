//! The shape of a value, which determines where such a value ends in a text.
//!
//! A word ends at whitespace. An address does not end at a dot: `acme.com.example.net` does not state `acme.com`.

use super::address;
use super::text::{is_hidden, is_inside_word, neighbours};

/// Kinds of values with different boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Mail address: `maria@acme.com`.
    Mail,
    /// Link, host or path: `https://acme.com/a`, `acme.com`, `notes/plan.docx`.
    Place,
    /// Id or number: `W2378156`, `mia_li_3668`, `12345`.
    Code,
    /// Any other text: ordinary words.
    Words,
}

impl Shape {
    /// Returns the shape of a value.
    pub(super) fn of(value: &str) -> Shape {
        let value = value.trim();
        if value.chars().any(char::is_whitespace) {
            return Shape::Words;
        }
        let is_dotted = value
            .split('.')
            .skip(1)
            .any(|part| part.chars().next().is_some_and(is_inside_word))
            && !value
                .chars()
                .all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '-'));
        match value {
            _ if value.contains('@') => Shape::Mail,
            _ if value.contains("://") || is_dotted || value.contains(['/', '\\']) => Shape::Place,
            _ if value.contains(|c: char| c.is_ascii_digit() || c == '_') => Shape::Code,
            _ => Shape::Words,
        }
    }

    /// Returns true if `text[from..to]` is a whole value of this shape, not part of a longer one.
    pub(super) fn stands_alone(self, text: &str, from: usize, to: usize) -> bool {
        let (before, after) = neighbours(text, from, to);
        let (first, last) = ends(text, from, to);
        let goes_on = |outer: Option<char>, inner: Option<char>| {
            outer.is_some_and(|outer| {
                is_hidden(outer) || is_inside_word(outer) && inner.is_some_and(is_inside_word)
            })
        };
        if goes_on(before, first) || goes_on(after, last) {
            return false;
        }
        let stands = match self {
            Shape::Words => true,
            Shape::Code => !is_joined(before, text, from, "_-") && !continues(after, text, to, "_-"),
            Shape::Mail => {
                !matches!(before, Some('.' | '_' | '-' | '+' | '%' | '@' | '/'))
                    && !continues(after, text, to, ".-_+@%")
            }
            Shape::Place => begins_place(text, from, before) && ends_place(text, to, after),
        };
        stands && !address::is_cut(text, from, to)
    }
}

fn ends(text: &str, from: usize, to: usize) -> (Option<char>, Option<char>) {
    let value = text.get(from..to).unwrap_or_default();
    (value.chars().next(), value.chars().next_back())
}

/// Returns true if a joining character before `from` connects the text there to a preceding word.
fn is_joined(before: Option<char>, text: &str, from: usize, joining: &str) -> bool {
    let Some(character) = before.filter(|character| joining.contains(*character)) else {
        return false;
    };
    let outer = from.saturating_sub(character.len_utf8());
    neighbours(text, outer, outer).0.is_some_and(is_inside_word)
}

/// Returns true if a joining character after `to` connects the text there to a following word.
fn continues(after: Option<char>, text: &str, to: usize, joining: &str) -> bool {
    let Some(character) = after.filter(|character| joining.contains(*character)) else {
        return false;
    };
    let inner = to + character.len_utf8();
    neighbours(text, inner, inner).1.is_some_and(is_inside_word)
}

/// Returns true if a link, host or path can begin at `from`: not in the middle of a name or of another path.
fn begins_place(text: &str, from: usize, before: Option<char>) -> bool {
    match before {
        Some('.') => {
            let head = text.get(..from).unwrap_or_default();
            let head = head.strip_suffix("www.").unwrap_or(head);
            !head.ends_with('.') && !head.chars().next_back().is_some_and(is_inside_word)
        }
        // A link without its scheme may begin right after `://`.
        Some('/' | '\\') => text.get(..from).is_some_and(|head| head.ends_with("://")),
        Some('@') => false,
        Some('-' | '_' | '+' | '%') => !is_joined(before, text, from, "-_+%"),
        _ => true,
    }
}

fn ends_place(text: &str, to: usize, after: Option<char>) -> bool {
    !continues(after, text, to, "./\\?#=&-_+@%")
}
