//! Shows values on cards so that two different values never look the same.
//!
//! Input: the type and text of a JSON value, or the name of a member. Output: its shown form. A text is shown without
//! quotes if it can only be that text. A text that could be mistaken for a number, a literal, a list, an empty value or
//! a placeholder of this module is put in quotes. Names are treated the same way.
//! INVARIANT: no text without quotes begins with one, so removing the quotes is unambiguous.

use std::borrow::Cow;

use super::{clip, clip_to, escape, is_blank, is_plain};
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
    // A short text becomes long if many of its characters are escaped.
    let is_long = text.len() > max_chars || !is_plain(text);
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

/// Returns a text of several lines as cards show it: escaped, with real line breaks. Line breaks at either end would not
/// be visible, so such a text is put in quotes as well.
pub fn lines(text: &str) -> String {
    let shown = broken(&escape(text));
    match text.starts_with('\n') || text.ends_with('\n') {
        true => format!("\"{shown}\""),
        false if text.is_empty() => EMPTY.to_owned(),
        false if needs_quotes(text) => format!("\"{shown}\""),
        false => shown,
    }
}

/// Stands for a line break in text on one line. If a text contains this character itself, the character is escaped, so
/// that nobody can fake a line break.
pub const LINE_BREAK: char = '↵';

/// Maximum number of lines that are shown as lines; more could push what follows out of sight.
const MOST_LINES: usize = 40;
/// Widest indentation of a line that is shown as spaces.
const WIDEST_INDENT: usize = 32;
/// Form in which [`escape`] writes a line break. It never writes this for a text that contains these characters
/// literally.
const ESCAPED_LINE_BREAK: &str = "\\u{a}";
/// Beginning of the form in which [`escape`] writes several line breaks in a row.
const ESCAPED_LINE_BREAKS: &str = "\\u{a×";

/// Returns escaped text, such as a summary, on one line: line breaks become [`LINE_BREAK`].
pub fn one_line(escaped: &str) -> Cow<'_, str> {
    match escaped.contains(LINE_BREAK) || escaped.contains(ESCAPED_LINE_BREAK) {
        false => Cow::Borrowed(escaped),
        // Summaries that were stored before this character was reserved contain it as it is.
        true => Cow::Owned(
            without_signs(escaped).replace(ESCAPED_LINE_BREAK, LINE_BREAK.encode_utf8(&mut [0; 4])),
        ),
    }
}

/// Returns escaped text, such as a summary, with real line breaks; on one line if it has more than 40 lines. The caller
/// has to mark every line as text of others.
pub fn with_line_breaks(escaped: &str) -> Cow<'_, str> {
    up_to_lines(escaped, MOST_LINES)
}

/// Like [`with_line_breaks`], for text of up to `most` lines.
pub fn up_to_lines(escaped: &str, most: usize) -> Cow<'_, str> {
    if !escaped.contains(ESCAPED_LINE_BREAK) && !escaped.contains(ESCAPED_LINE_BREAKS) {
        return one_line(escaped);
    }
    let broken = broken(escaped);
    match broken.split('\n').count() > most {
        true => one_line(escaped),
        false => Cow::Owned(broken),
    }
}

/// Escapes characters that only this module may write, such as [`LINE_BREAK`].
fn without_signs(escaped: &str) -> Cow<'_, str> {
    match escaped.contains(LINE_BREAK) {
        true => Cow::Owned(escaped.replace(LINE_BREAK, "\\u{21b5}")),
        false => Cow::Borrowed(escaped),
    }
}

/// Returns escaped text with real line breaks. No two texts look the same, and no empty lines hide the text after them:
/// more than three line breaks in a row stay escaped, with the text after them on a new line, and so does whitespace at
/// the end of a line. Only the indentation of a line is shown unescaped.
fn broken(escaped: &str) -> String {
    let escaped = without_signs(escaped);
    let mut shown = String::with_capacity(escaped.len());
    let mut line = String::new();
    let mut rest: &str = &escaped;
    let mut is_first = true;
    while let Some(at) = rest.find("\\u{a") {
        let (before, code) = rest.split_at_checked(at).unwrap_or((rest, ""));
        line.push_str(before);
        if let Some(after) = code.strip_prefix(ESCAPED_LINE_BREAK) {
            push_line(&mut shown, &line, is_first);
            rest = after;
        } else if let Some((count, after)) = code
            .strip_prefix(ESCAPED_LINE_BREAKS)
            .and_then(|run| run.split_once('}'))
        {
            line.push_str(&format!("{ESCAPED_LINE_BREAKS}{count}}}"));
            if after.is_empty() {
                rest = after;
                break;
            }
            push_line(&mut shown, &line, is_first);
            rest = after;
        } else {
            // Another character whose code begins with an `a`.
            let (begin, after) = code.split_at_checked("\\u{a".len()).unwrap_or((code, ""));
            line.push_str(begin);
            rest = after;
            continue;
        }
        shown.push('\n');
        line.clear();
        is_first = false;
    }
    line.push_str(rest);
    if is_first {
        return line;
    }
    push_line(&mut shown, &line, is_first);
    shown
}

/// Appends one line of several, with its indentation as spaces and with whitespace at its end escaped.
fn push_line(shown: &mut String, line: &str, is_first: bool) {
    let text = line.trim_end_matches(is_blank);
    let (indent, text) = match indentation(text).filter(|(_, after)| !is_first && !after.is_empty()) {
        Some((width, after)) => (width, after),
        None => (0, text),
    };
    shown.extend(std::iter::repeat_n(' ', indent));
    shown.push_str(text);
    for blank in line
        .get(line.trim_end_matches(is_blank).len()..)
        .unwrap_or_default()
        .chars()
    {
        shown.push_str(&format!("\\u{{{:x}}}", u32::from(blank)));
    }
}

/// Splits the escape for many spaces off the beginning of a line and returns their number with the rest. `None` if
/// there is no such escape, or the indentation is too wide to be shown as spaces.
fn indentation(line: &str) -> Option<(usize, &str)> {
    let (count, after) = line.strip_prefix("\\u{20×")?.split_once('}')?;
    let width = count.parse().ok().filter(|width| *width <= WIDEST_INDENT)?;
    Some((width, after))
}

/// Returns true if a text without quotes could be mistaken for another value, or would not be visible in full.
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

/// Returns true if a text looks like a number or a literal, in JSON or in other languages.
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
    fn x08_a_value_that_is_cut_because_of_its_codes_says_so() {
        for (text, is_cut) in [
            ("a\tb".repeat(20), true),
            ("a\tb".to_owned(), false),
            ("é".repeat(100), false),
        ] {
            let (shown, is_clipped) = clip_value(Kind::String, &text, 100);
            assert_eq!(
                (shown.contains("bytes not shown]"), is_clipped),
                (is_cut, is_cut),
                "{shown}"
            );
        }
    }

    #[test]
    fn escaped_line_breaks_become_real_ones_and_hide_nothing() {
        for (text, expected) in [
            ("a\nb\n\nc", "a\nb\n\nc"),
            ("a\r\nb", "a\\u{d}\nb"),
            ("a\\u{a}b", "a\\u{5c}u{a}b"),
            ("a\\\nu{a}b", "a\\\nu{a}b"),
            ("a\n\n\n\nb", "a\\u{a×4}\nb"),
            ("a\n\n\n\n", "a\\u{a×4}"),
            ("a\n \n \nb", "a\n\\u{20}\n\\u{20}\nb"),
            ("a \nb  \nc", "a\\u{20}\nb\\u{20}\\u{20}\nc"),
            ("def f:\n    x\n\ty\n", "def f:\n    x\n\\u{9}y\n"),
            ("a\n    \nb", "a\n\\u{20×4}\nb"),
            ("    a\nb", "\\u{20×4}a\nb"),
            ("a\u{ad}\u{a0}b", "a\\u{ad}\\u{a0}b"),
            ("a\u{ad}\n\u{a0}b", "a\\u{ad}\n\\u{a0}b"),
            ("a↵b", "a\\u{21b5}b"),
            ("a↵\nb", "a\\u{21b5}\nb"),
            ("a", "a"),
        ] {
            assert_eq!(with_line_breaks(&escape(text)), expected, "{text:?}");
        }
        let wide = format!("a\n{}b", " ".repeat(WIDEST_INDENT + 1));
        assert_eq!(with_line_breaks(&escape(&wide)), "a\n\\u{20×33}b");
        let long = "x\n".repeat(MOST_LINES);
        assert_eq!(with_line_breaks(&escape(&long)), "x↵".repeat(MOST_LINES));
    }

    #[test]
    fn x56_nobody_types_a_line_break_that_is_none() {
        for (text, expected) in [
            ("a\nb", "a↵b"),
            ("a↵b", "a\\u{21b5}b"),
            ("a\\u{a}b", "a\\u{5c}u{a}b"),
            ("a\n\n\n\nb", "a\\u{a×4}b"),
        ] {
            assert_eq!(one_line(&escape(text)), expected, "{text:?}");
        }
        // As a summary that was stored earlier.
        assert_eq!(one_line("a↵b"), "a\\u{21b5}b");
        assert_eq!(with_line_breaks("a↵b\\u{a}c"), "a\\u{21b5}b\nc");
    }

    proptest::proptest! {
        /// Checks that the text can be recovered from both forms, so that no two texts look the same.
        #[test]
        fn x56_no_two_texts_look_the_same(text in "[ab ↵\\\\u{}×0-9\n\n\n\u{3000}\u{202e}]{0,24}") {
            let escaped = escape(&text);
            proptest::prop_assert_eq!(unescaped(&broken(&escaped), '\n'), text.clone());
            proptest::prop_assert_eq!(unescaped(&one_line(&escaped), LINE_BREAK), text);
        }
    }

    /// Reads shown text as a person would.
    fn unescaped(shown: &str, line_break: char) -> String {
        let mut text = String::new();
        let mut rest = shown;
        while let Some(character) = rest.chars().next() {
            if let Some((code, after)) = rest.strip_prefix("\\u{").and_then(|code| code.split_once('}')) {
                let (code, count) = code.split_once('×').unwrap_or((code, "1"));
                let character = char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap();
                text.extend(std::iter::repeat_n(character, count.parse().unwrap()));
                rest = after;
                if character == '\n' && line_break == '\n' {
                    // The line ends after several breaks.
                    rest = rest.strip_prefix('\n').unwrap_or(rest);
                }
                continue;
            }
            text.push(if character == line_break { '\n' } else { character });
            rest = &rest[character.len_utf8()..];
        }
        text
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
