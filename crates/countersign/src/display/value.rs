//! Shows values on cards so that two different values never look the same.
//!
//! Input: the type and text of a JSON value, or the name of a member. Output: its shown form. A text is shown without
//! quotes if it can only be that text. One that could be read as a number, a literal, a list, nothing at all or one of
//! our own placeholders is put in quotes. Names are treated the same way.
//! INVARIANT: no text without quotes begins with one, so removing the quotes is unambiguous.

use std::borrow::Cow;

use super::{clip, clip_to, escape, is_blank};
use crate::json::Kind;

/// Shown in place of an empty text.
pub const EMPTY: &str = "(empty)";

/// Appends a value to `shown` as cards show it on one line, clipped to about `max_chars`.
pub(crate) fn push_value(shown: &mut String, kind: Kind, text: &str, max_chars: usize) {
    match kind {
        Kind::String if text.is_empty() => shown.push_str(EMPTY),
        Kind::String if needs_quotes(text) => {
            shown.push('"');
            clip_to(shown, text, max_chars);
            shown.push('"');
        }
        // Blanks inside the brackets do not matter.
        Kind::Array => shown.push_str("[]"),
        Kind::Object => shown.push_str("{}"),
        Kind::String | Kind::Number | Kind::Bool | Kind::Null => clip_to(shown, text, max_chars),
    }
}

/// Returns a value as cards show it on one line, clipped to about `max_chars`, and whether it was clipped.
pub fn clip_value(kind: Kind, text: &str, max_chars: usize) -> (String, bool) {
    let mut shown = String::with_capacity(text.len().min(max_chars) + 2);
    push_value(&mut shown, kind, text, max_chars);
    let is_long = text.len() > max_chars || !text.is_ascii();
    (shown, is_long && clip(text, max_chars).is_clipped())
}

/// Returns a value as cards show it on one line: escaped, whole, and in quotes if it would be ambiguous.
pub fn value(kind: Kind, text: &str) -> String {
    clip_value(kind, text, usize::MAX).0
}

/// Returns a value in quotes if it would be ambiguous, without escaping it.
pub(crate) fn unescaped_value(kind: Kind, text: &str) -> String {
    match kind {
        Kind::String if text.is_empty() => EMPTY.to_owned(),
        Kind::String if needs_quotes(text) => format!("\"{text}\""),
        _ => text.to_owned(),
    }
}

/// Returns a text of several lines as cards show it, with each line escaped. Line breaks at either end would not be
/// visible, so such a text is put in quotes as well.
pub fn lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(escape).collect();
    let shown = lines.join("\n");
    match text.starts_with('\n') || text.ends_with('\n') {
        true => format!("\"{shown}\""),
        false if text.is_empty() => EMPTY.to_owned(),
        false if needs_quotes(text) => format!("\"{shown}\""),
        false => shown,
    }
}

/// More lines than this are not shown as lines: they could push what follows out of sight.
const MOST_LINES: usize = 40;
/// More consecutive empty lines than this could push later text out of sight.
const MOST_EMPTY_LINES: usize = 2;
/// A line break as [`escape`] writes it. The escaper never writes this for a text that contains these characters.
const ESCAPED_LINE_BREAK: &str = "\\u{a}";

/// Returns escaped text, such as a summary, with its line breaks as real ones; unchanged if that would make too many
/// lines, or a gap that could hide the text after it. A surface has to mark every line as text of others.
pub fn with_line_breaks(escaped: &str) -> Cow<'_, str> {
    if !escaped.contains(ESCAPED_LINE_BREAK) {
        return Cow::Borrowed(escaped);
    }
    let broken = escaped.replace(ESCAPED_LINE_BREAK, "\n");
    match broken.split('\n').count() > MOST_LINES || has_gap(&broken) {
        true => Cow::Borrowed(escaped),
        false => Cow::Owned(broken),
    }
}

/// Returns true if a text has so many empty lines in a row that they could push the text after them out of sight.
pub fn has_gap(text: &str) -> bool {
    let mut empty = 0;
    text.split('\n').any(|line| {
        empty = if line.trim().is_empty() { empty + 1 } else { 0 };
        empty > MOST_EMPTY_LINES
    })
}

/// Returns true if a text without quotes could be read as another value, or would not be visible in full.
pub(crate) fn needs_quotes(text: &str) -> bool {
    let is_between = |open: char, close: char| text.starts_with(open) && text.ends_with(close);
    text.is_empty()
        || text.starts_with(is_blank)
        || text.ends_with(is_blank)
        || text.starts_with('"')
        || is_between('(', ')')
        || is_between('[', ']')
        || is_between('{', '}')
        || is_literal(text)
}

/// Returns true if a text reads as a number or a literal, in JSON or in other languages.
fn is_literal(text: &str) -> bool {
    const LONGEST_WORD: usize = 9;
    const WORDS: [&str; 5] = ["true", "false", "null", "none", "undefined"];
    let is_word = || WORDS.iter().any(|word| text.eq_ignore_ascii_case(word));
    (text.len() <= LONGEST_WORD && is_word()) || text.parse::<f64>().is_ok()
}

/// Returns a member's name as part of a shown path. A name that could be read as an index, or seem to end early, is put
/// in quotes.
pub(crate) fn shown_name(name: &str) -> Cow<'_, str> {
    let is_plain = |character: char| !character.is_whitespace() && !matches!(character, '"' | ':' | ',');
    let is_index = name.bytes().all(|byte| byte.is_ascii_digit());
    let shown = escape(name);
    match !is_index && name.chars().all(is_plain) {
        true => shown,
        // The escaper itself never writes `\u{22}`, so this is unambiguous.
        false => Cow::Owned(format!("\"{}\"", shown.replace('"', "\\u{22}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x56_a_text_that_could_be_something_else_stands_in_quotes() {
        for (kind, text, expected) in [
            (Kind::String, "Ana Lopez", "Ana Lopez"),
            (Kind::String, "+49 30 1234", "+49 30 1234"),
            (Kind::String, "2026-11-17", "2026-11-17"),
            (Kind::String, "(see below) and [this]", "(see below) and [this]"),
            (Kind::String, "say \"hi\"", "say \"hi\""),
            (Kind::String, "false", "\"false\""),
            (Kind::Bool, "false", "false"),
            (Kind::String, "True", "\"True\""),
            (Kind::String, "null", "\"null\""),
            (Kind::Null, "null", "null"),
            (Kind::String, "1", "\"1\""),
            (Kind::Number, "1", "1"),
            (Kind::Number, "1.0", "1.0"),
            (Kind::String, "007", "\"007\""),
            (Kind::String, "-1.5e3", "\"-1.5e3\""),
            (Kind::String, "", "(empty)"),
            (Kind::String, "(empty)", "\"(empty)\""),
            (Kind::String, "\"\"", "\"\"\"\""),
            (Kind::String, "\"1\"", "\"\"1\"\""),
            (Kind::String, "[]", "\"[]\""),
            (Kind::Array, "[ ]", "[]"),
            (Kind::String, "{}", "\"{}\""),
            (Kind::Object, "{}", "{}"),
            (Kind::String, " x", "\" x\""),
            (Kind::String, "x\u{3000}", "\"x\u{3000}\""),
            (Kind::String, "a\n", "a\\u{a}"),
        ] {
            assert_eq!(value(kind, text), expected, "{text}");
        }
        assert_eq!(lines("a\nb"), "a\nb");
        assert_eq!(lines("a\nb\n"), "\"a\nb\n\"");
        assert_eq!(lines(" a\nb"), "\" a\nb\"");
    }

    #[test]
    fn escaped_line_breaks_become_real_ones_where_they_hide_nothing() {
        for (text, expected) in [
            ("a\nb\n\nc", "a\nb\n\nc"),
            ("a\r\nb", "a\\u{d}\nb"),
            ("a\\u{a}b", "a\\u{5c}u{a}b"),
            ("a\n\n\n\nb", "a\\u{a×4}b"),
            ("a\n \n \n \nb", "a\\u{a} \\u{a} \\u{a} \\u{a}b"),
            ("a", "a"),
        ] {
            assert_eq!(with_line_breaks(&escape(text)), expected, "{text:?}");
        }
        let long = escape(&"x\n".repeat(MOST_LINES)).into_owned();
        assert_eq!(with_line_breaks(&long), long);
    }

    #[test]
    fn x56_a_name_that_could_be_an_index_or_end_early_stands_in_quotes() {
        for (name, expected) in [
            ("to", "to"),
            ("größe-2", "größe-2"),
            ("0", "\"0\""),
            ("", "\"\""),
            ("a: b", "\"a: b\""),
            ("a\": b", "\"a\\u{22}: b\""),
        ] {
            assert_eq!(shown_name(name), expected);
        }
    }
}
