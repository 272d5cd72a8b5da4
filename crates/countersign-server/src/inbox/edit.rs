//! Converts a call's arguments to the text of an editable field, and the submitted text back to arguments.
//!
//! In the text, invisible and bidirectional characters are escaped.
//! INVARIANT: a field that was not edited yields exactly the proposed bytes, even if the browser changed its line breaks.
//! INVARIANT: no field contains a secret. It contains the placeholder [`KEPT`] instead, which is replaced with the secret
//! only where the secret was.

use std::collections::HashMap;

use countersign::call::Arguments;
use countersign::decision::Choice;
use countersign::display::escape;
pub use countersign::gate::KEPT;
use countersign::json::{self, Kind, Malformed};

/// Converts arguments to text for a field. Characters that would affect the page's rendering become JSON escapes, which
/// mean the same. Values at JSON pointers for which `is_secret` returns true are replaced with [`KEPT`].
pub fn field(arguments: &[u8], is_secret: impl Fn(&str) -> bool) -> String {
    let secrets = json::find(arguments, is_secret);
    let kept = secrets.into_iter().map(|(_, range)| (range, quoted_kept()));
    let text = spliced(arguments, kept.collect());
    visible(&String::from_utf8_lossy(&text))
}

/// Replaces characters that would affect the page's rendering with JSON escapes.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match affects_rendering(character) {
            true => push_escape(character, &mut shown),
            false => shown.push(character),
        }
    }
    shown
}

/// Parses the field's text. An unchanged text means that the arguments are approved as proposed; any other text
/// replaces them. Fails with a message for the person.
pub fn read(arguments: &Arguments, typed: &str, is_secret: impl Fn(&str) -> bool) -> Result<Choice, String> {
    let typed = line_breaks(typed);
    let proposed = arguments.as_bytes();
    if typed == line_breaks(&field(proposed, &is_secret)) {
        return Ok(Choice::Approve);
    }
    let edited =
        Arguments::parse(typed.clone().into_bytes()).map_err(|problem| describe_problem(&typed, problem))?;
    let kept = find_kept_secrets(proposed, &typed, is_secret)?;
    if kept.is_empty() {
        return Ok(Choice::Edit(edited));
    }
    Arguments::parse(spliced(typed.as_bytes(), kept))
        .map(Choice::Edit)
        .map_err(|problem| problem.reason.to_string())
}

/// Finds where to put the secrets back into the typed text. A secret may return only to the JSON pointer it came from;
/// elsewhere it could be displayed.
fn find_kept_secrets(
    proposed: &[u8],
    typed: &str,
    is_secret: impl Fn(&str) -> bool,
) -> Result<Vec<Splice>, String> {
    let secrets: HashMap<String, _> = json::find(proposed, is_secret).into_iter().collect();
    let said = json::leaves(proposed);
    let mut kept = Vec::new();
    for leaf in json::leaves(typed.as_bytes()) {
        if leaf.kind != Kind::String || leaf.text() != KEPT {
            continue;
        }
        let own = secrets
            .get(&leaf.pointer)
            .and_then(|range| proposed.get(range.clone()));
        let is_as_proposed = || {
            said.iter()
                .any(|old| old.pointer == leaf.pointer && old.text() == KEPT)
        };
        match own {
            Some(secret) => kept.push((leaf.range, secret.to_vec())),
            None if is_as_proposed() => {}
            None => {
                let place = escape(&leaf.pointer);
                return Err(format!("no secret was proposed at {place}: type its value there"));
            }
        }
    }
    Ok(kept)
}

/// Byte range, and the bytes that replace it.
type Splice = (std::ops::Range<usize>, Vec<u8>);

/// Replaces byte ranges. `places` has to be sorted by range.
pub fn spliced(bytes: &[u8], places: Vec<Splice>) -> Vec<u8> {
    let mut whole = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for (range, instead) in places {
        whole.extend_from_slice(bytes.get(from..range.start).unwrap_or_default());
        whole.extend(instead);
        from = range.end;
    }
    whole.extend_from_slice(bytes.get(from..).unwrap_or_default());
    whole
}

fn quoted_kept() -> Vec<u8> {
    format!("\"{KEPT}\"").into_bytes()
}

/// Converts CRLF line breaks, which browsers submit, to LF.
pub fn line_breaks(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Describes a JSON error with its line and column.
fn describe_problem(typed: &str, problem: Malformed) -> String {
    let before = typed.get(..problem.at).unwrap_or(typed);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {}", problem.reason)
}

/// Returns true if the character would affect the page's rendering. Outside strings, valid JSON is plain ASCII, so such
/// a character is always inside a string and can be escaped.
pub fn affects_rendering(character: char) -> bool {
    if character.is_ascii() {
        return false;
    }
    // Probe after a letter, because combining marks that follow one are fine.
    let mut probe = String::from("a");
    probe.push(character);
    escape(&probe).contains("\\u{")
}

fn push_escape(character: char, shown: &mut String) {
    let mut units = [0; 2];
    for unit in character.encode_utf16(&mut units) {
        shown.push_str(&format!("\\u{unit:04x}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(json: &str) -> Arguments {
        Arguments::parse(json.as_bytes()).unwrap()
    }

    #[test]
    fn an_untouched_field_means_the_bytes_as_proposed() {
        for json in [
            "{\"a\":1}",
            "{\n  \"a\": 1\n}\n",
            "{\r\n\"a\":\t1}",
            "{\"a\":\"\u{202e}x\u{e0041}\"}",
        ] {
            let arguments = arguments(json);
            let sent = line_breaks(&field(arguments.as_bytes(), |_| false)).replace('\n', "\r\n");
            assert_eq!(read(&arguments, &sent, |_| false), Ok(Choice::Approve), "{json}");
        }
    }

    #[test]
    fn x16_nothing_in_the_field_acts() {
        let shown = field(
            "{\"a\":\"\u{202e}evil\u{200b}\u{e0041}é日न\u{93f}\"}".as_bytes(),
            |_| false,
        );
        assert_eq!(shown, "{\"a\":\"\\u202eevil\\u200b\\udb40\\udc41é日न\u{93f}\"}");
    }

    #[test]
    fn a_change_is_what_was_typed() {
        let arguments = arguments("{\"a\":1}");
        let Ok(Choice::Edit(edited)) = read(&arguments, "{\r\n\"a\": 2}", |_| false) else {
            panic!("an edit");
        };
        assert_eq!(edited.as_bytes(), b"{\n\"a\": 2}");
    }

    #[test]
    fn a_fault_is_told_by_line_and_column() {
        let arguments = arguments("{\"a\":1}");
        let problem = read(&arguments, "{\r\n  \"a\": 1,\r\n  \"a\": 2}", |_| false).unwrap_err();
        assert!(problem.starts_with("line 3, column 3: "), "{problem}");
    }

    const LOGIN: &str = r#"{ "name":"M", "auth":{"user":"u", "pass":"canary"}, "n": 1.0 }"#;

    fn is_auth(pointer: &str) -> bool {
        pointer == "/auth" || pointer.starts_with("/auth/")
    }

    fn edited(typed: &str) -> Result<String, String> {
        match read(&arguments(LOGIN), typed, is_auth)? {
            Choice::Edit(edited) => Ok(String::from_utf8(edited.as_bytes().to_vec()).unwrap()),
            other => Ok(format!("{other:?}")),
        }
    }

    #[test]
    fn x31_a_secret_stands_in_no_field_and_goes_back_to_its_place_to_the_byte() {
        let shown = field(LOGIN.as_bytes(), is_auth);
        assert_eq!(
            shown,
            LOGIN.replace(r#"{"user":"u", "pass":"canary"}"#, r#""(secret, kept as it is)""#)
        );
        assert_eq!(edited(&shown), Ok("Approve".to_owned()));
        let typed = shown.replace("\"M\"", "\"Maria\"");
        assert_eq!(edited(&typed), Ok(LOGIN.replace("\"M\"", "\"Maria\"")));
        let renewed = shown.replace(&format!("\"{KEPT}\""), "{}");
        assert_eq!(
            edited(&renewed),
            Ok(r#"{ "name":"M", "auth":{}, "n": 1.0 }"#.to_owned())
        );
    }

    #[test]
    fn x31_a_secret_cannot_be_moved_to_where_it_is_shown() {
        for moved in [
            r#"{"name":"(secret, kept as it is)","auth":{}}"#,
            r#"{"name":"M","auth":"(secret, kept as it is)","note":"(secret, \u006bept as it is)"}"#,
            r#"{"name":"M","auth":{"user":"(secret, kept as it is)"}}"#,
        ] {
            let problem = edited(moved).unwrap_err();
            assert!(problem.starts_with("no secret was proposed at /"), "{problem}");
        }
        // A proposed value that happens to equal the placeholder is kept as an ordinary value.
        let odd = arguments(r#"{"name":"(secret, kept as it is)","auth":1}"#);
        let typed = r#"{"name":"(secret, kept as it is)","auth":2}"#;
        let Ok(Choice::Edit(edited)) = read(&odd, typed, is_auth) else {
            panic!("an edit");
        };
        assert_eq!(edited.as_bytes(), typed.as_bytes());
    }
}
