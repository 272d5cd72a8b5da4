//! Forms in which the text of a secret may be repeated.
//!
//! These are the text itself and its usual encodings, longest first. Encodings that are so short that they may occur by
//! chance are left out.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::fold::fold;

/// Shortest encoding that is searched for, in characters.
const LEAST: usize = 8;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// One form in which the text of a secret may appear.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// Case-folded text, which matches in any letter case.
    AnyCase(String),
    /// Text that matches exactly: in base64, another case is another text.
    Exact(String),
}

impl Form {
    pub(super) fn text(&self) -> &str {
        match self {
            Form::AnyCase(text) | Form::Exact(text) => text,
        }
    }
}

impl Form {
    /// Returns true if this form of `text` is base64 or hex. Text in these encodings is often interrupted by
    /// whitespace.
    pub(super) fn is_encoding_of(&self, text: &str) -> bool {
        match self {
            Form::Exact(_) => true,
            Form::AnyCase(form) => {
                let is_hex = form.len() >= LEAST && form.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_hex && *form != fold(text)
            }
        }
    }
}

/// Returns all forms of a secret's text, longest first.
pub(super) fn forms(text: &str) -> Vec<Form> {
    let mut forms = BTreeSet::new();
    // Encodings of upper and lower case differ beyond their case: é is %C3%A9, É is %C3%89.
    for text in BTreeSet::from([text.to_owned(), text.to_lowercase(), text.to_uppercase()]) {
        let written = written(&text).into_iter();
        forms.extend(written.map(|form| Form::AnyCase(fold(&form))));
        forms.extend(encoded(&text).into_iter().map(Form::Exact));
    }
    let mut forms: Vec<Form> = forms.into_iter().filter(|form| !form.text().is_empty()).collect();
    forms.sort_by_key(|form| std::cmp::Reverse(form.text().len()));
    forms
}

/// Returns the text itself, its JSON, URL and HTML escapings, and its hex encoding unless that is too short.
fn written(text: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([text.to_owned()]);
    let mut escaped = BTreeSet::new();
    for ascii in [Ascii::No, Ascii::Lower, Ascii::Upper] {
        for slash in ["/", "\\/"] {
            escaped.insert(json(text, ascii, slash));
        }
    }
    // JSON within JSON: tools often return text that contains a document.
    let twice: Vec<String> = escaped.iter().map(|text| json(text, Ascii::No, "/")).collect();
    let thrice = twice.iter().map(|text| json(text, Ascii::No, "/"));
    forms.extend(thrice.collect::<Vec<_>>());
    forms.extend(twice);
    forms.extend(escaped);
    for kept in ["-_.~", "-_.~!*'()", "-_.~!*'();/?:@&=+$,#"] {
        for upper in [true, false] {
            forms.insert(percent(text, kept, upper));
            forms.insert(percent(text, kept, upper).replace("%20", "+"));
        }
    }
    forms.insert(html(text));
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    forms.extend(Some(hex).filter(|hex| hex.len() >= LEAST));
    forms
}

/// Returns the text in base64, for each possible offset in its group of three bytes.
fn encoded(text: &str) -> BTreeSet<String> {
    let alphabets = [STANDARD, URL_SAFE].into_iter();
    let offsets = alphabets.flat_map(|alphabet| (0..3).map(move |offset| (alphabet, offset)));
    offsets
        .map(|(alphabet, offset)| base64(text.as_bytes(), offset, alphabet))
        .filter(|form| form.len() >= LEAST)
        .collect()
}

/// Treatment of non-ASCII characters by a JSON writer: kept, or escaped with lower- or upper-case digits.
#[derive(Clone, Copy, PartialEq)]
enum Ascii {
    No,
    Lower,
    Upper,
}

fn json(text: &str, ascii: Ascii, slash: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' => written.push_str("\\\""),
            '\\' => written.push_str("\\\\"),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            '\u{8}' => written.push_str("\\b"),
            '\u{c}' => written.push_str("\\f"),
            '/' => written.push_str(slash),
            letter if letter < ' ' || (ascii != Ascii::No && !letter.is_ascii()) => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    // Writing into memory does not fail.
                    let _ = match ascii {
                        Ascii::Upper => write!(written, "\\u{unit:04X}"),
                        _ => write!(written, "\\u{unit:04x}"),
                    };
                }
            }
            letter => written.push(letter),
        }
    }
    written
}

fn percent(text: &str, kept: &str, upper: bool) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        let is_kept = byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte);
        let _ = match (is_kept, upper) {
            (true, _) => write!(written, "{}", char::from(byte)),
            (false, true) => write!(written, "%{byte:02X}"),
            (false, false) => write!(written, "%{byte:02x}"),
        };
    }
    written
}

fn html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// Returns the base64 characters that depend on this text alone, if `offset` bytes precede it in its group of three.
fn base64(text: &[u8], offset: usize, alphabet: &[u8; 64]) -> String {
    let padded: Vec<u8> = std::iter::repeat_n(0, offset)
        .chain(text.iter().copied())
        .collect();
    let bits = padded.len() * 8;
    let first = (offset * 8).div_ceil(6);
    let letter = |at: usize| {
        let value = (0..6).fold(0, |value, bit| {
            let bit = at * 6 + bit;
            let byte = padded.get(bit / 8).copied().unwrap_or(0);
            (value << 1) | usize::from((byte >> (7 - bit % 8)) & 1)
        });
        alphabet.get(value).map(|byte| char::from(*byte))
    };
    (first..bits / 6).filter_map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_found_wherever_it_begins() {
        // `SECRET-1` after zero to two other bytes, encoded by another program.
        for (whole, offset) in [("U0VDUkVULTE=", 0), ("eFNFQ1JFVC0x", 1), ("eHhTRUNSRVQtMQ==", 2)] {
            let form = base64(b"SECRET-1", offset, STANDARD);
            assert!(form.len() >= LEAST && whole.contains(&form), "{whole} {form}");
        }
    }

    #[test]
    fn forms_are_the_usual_encodings() {
        let forms = forms("k\u{e4}/\"7 +");
        for expected in [
            "k\u{e4}/\"7 +",
            "k\u{e4}/\\\"7 +",
            "k\\u00e4\\/\\\"7 +",
            "k\\u00E4/\\\"7 +",
            "k\u{e4}/\\\\\\\"7 +",
            "k%C3%A4%2F%227%20%2B",
            "k%c3%a4%2f%227+%2b",
            "k\u{e4}/&quot;7 +",
            "6bc3a42f2237202b",
        ] {
            let expected = Form::AnyCase(fold(expected));
            assert!(forms.contains(&expected), "{expected:?} {forms:?}");
        }
    }
}
