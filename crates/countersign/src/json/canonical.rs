//! Canonical form of arguments, for recognising a call that was denied before (X99).
//!
//! Arguments are encoded so that all spellings of the same values give equal bytes. Differences in whitespace,
//! invisible characters in strings, key order, number notation (`5000`, `5000.0`, `5e3`) and escapes are ignored, as
//! are members that are `null` and flags that claim confirmation. An empty string, list or object is a value, because
//! tools use it to clear a field.
//!
//! INVARIANT: used only to refuse proposals. This form is never hashed into a digest, shown or run.

use unicode_normalization::UnicodeNormalization as _;

use super::number::decimal;
use super::{Node, TopLevel, Tree};
use crate::display::is_forbidden;

/// Arguments that claim that a person has confirmed. The claim is not trusted, and does not make the call a different
/// one.
pub(crate) const FLAGS: [&str; 2] = ["confirmed", "confirm"];
/// Prefixes of a name that claims confirmation, as in `userConfirmed` and `is_confirmed`.
const WHO_CONFIRMED: [&str; 6] = ["user", "human", "person", "is", "has", "already"];

/// Encodes arguments so that equal values give equal bytes. Arguments that are not a JSON object are kept as written,
/// after a `?`.
pub(crate) fn canonical(arguments: &[u8]) -> Vec<u8> {
    let Ok(tree) = Tree::read(arguments, TopLevel::Object) else {
        return [b"?", arguments].concat();
    };
    let mut out = Vec::with_capacity(arguments.len());
    match &tree.node {
        Node::Object(fields) => {
            object(fields.iter().filter(|(name, _)| !says_confirmed(name)), &mut out);
        }
        _ => write(&tree, &mut out),
    }
    out
}

/// Returns true if a name claims confirmation, in any letter case and with any of the prefixes.
fn says_confirmed(name: &str) -> bool {
    let letters = name.chars().filter(|character| character.is_alphanumeric());
    let letters: String = letters.flat_map(char::to_lowercase).collect();
    let mut rest = letters.as_str();
    while let Some(behind) = WHO_CONFIRMED.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = behind;
    }
    FLAGS.contains(&rest)
}

fn write(tree: &Tree<'_>, out: &mut Vec<u8>) {
    match &tree.node {
        Node::Null => out.push(b'n'),
        Node::Bool(true) => out.push(b't'),
        Node::Bool(false) => out.push(b'f'),
        Node::Number => {
            // Compare digits, not floats, which would make 2^53 and 2^53 + 1 equal.
            let (is_negative, digits, exponent) = decimal(&tree.raw);
            let sign = if is_negative { "-" } else { "" };
            text(b'd', &format!("{sign}{digits}e{exponent}"), out);
        }
        Node::String(string) => text(b's', &seen(string), out),
        Node::Array(items) => {
            count(b'a', items.len(), out);
            items.iter().for_each(|item| write(item, out));
        }
        Node::Object(fields) => object(fields.iter(), out),
    }
}

type Field<'a> = (std::borrow::Cow<'a, str>, Tree<'a>);

fn object<'f, 'a: 'f>(fields: impl Iterator<Item = &'f Field<'a>>, out: &mut Vec<u8>) {
    let written = fields.filter(|(_, value)| value.node != Node::Null);
    let mut written: Vec<(String, Vec<u8>)> = written
        .map(|(name, value)| {
            let mut bytes = Vec::new();
            write(value, &mut bytes);
            (composed(name), bytes)
        })
        .collect();
    written.sort_unstable();
    count(b'o', written.len(), out);
    for (name, value) in written {
        text(b'k', &name, out);
        out.extend_from_slice(&value);
    }
}

/// Normalises a string to what a person sees: without invisible characters and surrounding whitespace, and with only
/// one kind of space. Line breaks and indentation are kept, because they matter in code.
fn seen(string: &str) -> String {
    let seen = string.chars().filter_map(|character| match character {
        '\n' | '\t' => Some(character),
        '\r' => None,
        _ if character.is_whitespace() => Some(' '),
        _ if is_forbidden(character) => None,
        _ => Some(character),
    });
    composed(seen.collect::<String>().trim())
}

fn composed(string: &str) -> String {
    string.nfc().collect()
}

fn count(tag: u8, count: usize, out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&(count as u64).to_be_bytes());
}

fn text(tag: u8, text: &str, out: &mut Vec<u8>) {
    count(tag, text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(left: &str, right: &str, expected: bool) {
        let is_same = canonical(left.as_bytes()) == canonical(right.as_bytes());
        assert_eq!(is_same, expected, "`{left}` and `{right}`");
    }

    #[test]
    fn x99_the_same_values_are_the_same_however_they_are_written() {
        let denied = r#"{"amount":5000,"to":"café","list":[1,null,{"a":1,"b":"x"}]}"#;
        for again in [
            r#"{ "amount" : 5000 , "to":"café","list":[1,null,{"a":1,"b":"x"}]}"#,
            r#"{"to":"café","list":[1,null,{"b":"x","a":1}],"amount":5000}"#,
            r#"{"amount":5000.0,"to":"café","list":[1.0,null,{"a":10e-1,"b":"x"}]}"#,
            r#"{"amount":5e3,"to":"caf\u00e9","list":[1,null,{"a":1,"b":"\u0078"}]}"#,
            r#"{"amount":0.5E+4,"to":"cafe\u0301","list":[1,null,{"a":1,"b":"x"}]}"#,
            r#"{"amount":5000,"to":"café","list":[1,null,{"a":1,"b":"x","c":null}],"x":null}"#,
            r#"{"amount":5000,"to":"café","list":[1,null,{"a":1,"b":"x"}],"confirmed":true}"#,
            r#"{"confirm":"yes","confirmed":false,"amount":5000,"to":"café","list":[1,null,{"a":1,"b":"x"}]}"#,
            r#"{"Confirmed":true,"userConfirmed":1,"is_confirmed":"y","amount":5000,"to":"café","list":[1,null,{"a":1,"b":"x"}]}"#,
        ] {
            check(denied, again, true);
        }
        for text in [
            "caf\u{e9} ",
            " caf\u{e9}\r\n",
            "caf\u{200b}\u{e9}",
            "caf\u{e9}\u{a0}",
            "\u{feff}cafe\u{301}",
            "c\u{ad}a\u{fe0f}f\u{e9}\u{2003}",
        ] {
            let again =
                serde_json::json!({ "amount": 5000, "to": text, "list": [1, null, { "a": 1, "b": "x" }] });
            check(denied, &again.to_string(), true);
        }
        check(r#"{"to":"a b"}"#, "{\"to\":\"a\u{a0}b\"}", true);
        check(r#"{"to":"a b"}"#, r#"{"to":"ab"}"#, false);
        check(r#"{"code":"if x:\n  y"}"#, r#"{"code":"if x:\ny"}"#, false);
        check(r#"{"code":"a\nb"}"#, r#"{"code":"a\r\nb"}"#, true);
        for other in [
            r#"{"amount":5001,"to":"café","list":[1,null,{"a":1,"b":"x"}]}"#,
            r#"{"amount":-5000,"to":"café","list":[1,null,{"a":1,"b":"x"}]}"#,
            r#"{"amount":"5000","to":"café","list":[1,null,{"a":1,"b":"x"}]}"#,
            r#"{"amount":5000,"to":"cafe","list":[1,null,{"a":1,"b":"x"}]}"#,
            r#"{"amount":5000,"to":"café","list":[null,1,{"a":1,"b":"x"}]}"#,
            r#"{"amount":5000,"to":"café","list":[1,{"a":1,"b":"x"}]}"#,
            r#"{"amount":5000,"to":"café","list":[1,null,{"a":1,"b":"x","confirmed":true}]}"#,
            r#"{"amount":5000,"to":"café"}"#,
            // An empty value may clear a field, so this call is a different one.
            r#"{"amount":5000,"to":"café","list":[1,null,{"a":1,"b":"x"}],"note":""}"#,
            r#"{"amount":5000,"to":"café","list":[1,null,{"a":1,"b":"x"}],"tags":[]}"#,
            r#"{"amount":5000,"to":"café","list":[1,null,{"a":1,"b":"x"}],"more":{}}"#,
            r#"{"amount":5000,"to":"café","list":[1,null,{"a":1,"b":"x"}],"confirmation":7}"#,
        ] {
            check(denied, other, false);
        }
        check(r#"{"n":9007199254740992}"#, r#"{"n":9007199254740993}"#, false);
        check(r#"{"n":0}"#, r#"{"n":-0.0e9}"#, true);
        check(r#"{"n":1e400}"#, r#"{"n":10e399}"#, true);
        check(r#"{"a":"bk"}"#, r#"{"ak":"b"}"#, false);
        check("not json", "not json", true);
        check("not json", "not  json", false);
        check("{}", r#"{"x":null}"#, true);
    }
}
