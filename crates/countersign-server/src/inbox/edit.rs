//! Changing arguments: from exact bytes to a text field and back.
//!
//! Enters: a call's bytes, later what a person typed. Leaves: text in which no character acts, later the choice made.
//! INVARIANT: a field that was not touched means the bytes as proposed, to the byte, whatever the browser did to its
//! line breaks.

use countersign::call::Arguments;
use countersign::decision::Choice;
use countersign::display::escape;
use countersign::json::Malformed;

/// The bytes as text for a field. Characters that would act on the page stand as JSON escapes, which mean the same.
pub fn field(arguments: &[u8]) -> String {
    let text = String::from_utf8_lossy(arguments);
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match acts(character) {
            true => push_escape(character, &mut shown),
            false => shown.push(character),
        }
    }
    shown
}

/// What a person means by what stands in the field now.
pub fn read(arguments: &Arguments, typed: &str) -> Result<Choice, String> {
    let typed = line_breaks(typed);
    if typed == line_breaks(&field(arguments.as_bytes())) {
        return Ok(Choice::Approve);
    }
    let bytes = typed.clone().into_bytes();
    Arguments::parse(bytes)
        .map(Choice::Edit)
        .map_err(|problem| told(&typed, problem))
}

/// Browsers send every line break as two characters.
fn line_breaks(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Where the fault is, as a person looks for it.
fn told(typed: &str, problem: Malformed) -> String {
    let before = typed.get(..problem.at).unwrap_or(typed);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {}", problem.reason)
}

/// In JSON outside of strings there is nothing but ASCII, so whatever acts stands in a string.
fn acts(character: char) -> bool {
    if character.is_ascii() {
        return false;
    }
    // Behind a letter, so that a mark that belongs to one is left alone.
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
            let sent = line_breaks(&field(arguments.as_bytes())).replace('\n', "\r\n");
            assert_eq!(read(&arguments, &sent), Ok(Choice::Approve), "{json}");
        }
    }

    #[test]
    fn x16_nothing_in_the_field_acts() {
        let shown = field("{\"a\":\"\u{202e}evil\u{200b}\u{e0041}é日न\u{93f}\"}".as_bytes());
        assert_eq!(shown, "{\"a\":\"\\u202eevil\\u200b\\udb40\\udc41é日न\u{93f}\"}");
    }

    #[test]
    fn a_change_is_what_was_typed() {
        let arguments = arguments("{\"a\":1}");
        let Ok(Choice::Edit(edited)) = read(&arguments, "{\r\n\"a\": 2}") else {
            panic!("an edit");
        };
        assert_eq!(edited.as_bytes(), b"{\n\"a\": 2}");
    }

    #[test]
    fn a_fault_is_told_by_line_and_column() {
        let arguments = arguments("{\"a\":1}");
        let problem = read(&arguments, "{\r\n  \"a\": 1,\r\n  \"a\": 2}").unwrap_err();
        assert!(problem.starts_with("line 3, column 3: "), "{problem}");
    }
}
