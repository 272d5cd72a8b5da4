//! JSON for errors and notices, and escaping of JSON for terminals.

use countersign::display::escape;
use serde::Serialize;

#[derive(Serialize)]
struct Error<'a> {
    code: &'a str,
    message: &'a str,
    hint: Option<&'a str>,
}

/// Formats an error as `{"error":{"code","message","hint"}}`, the form that all surfaces use.
pub fn error(code: &str, message: &str, hint: Option<&str>) -> String {
    let error = Error { code, message, hint };
    serde_json::json!({ "error": error }).to_string()
}

/// Formats a notice as `{"notice":{"code","message"}}`.
pub fn notice(code: &str, message: &str) -> String {
    serde_json::json!({ "notice": { "code": code, "message": message } }).to_string()
}

/// Replaces characters that could affect a terminal with `\u` escapes. In JSON, non-ASCII characters occur only inside
/// strings, where the escape means the same.
pub fn for_terminal(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut buffer = [0; 4];
    for character in json.chars() {
        let is_harmless = match character {
            '\n' | ' '..='~' => true,
            other => escape(other.encode_utf8(&mut buffer)).chars().eq([other]),
        };
        if is_harmless {
            text.push(character);
            continue;
        }
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x15_json_on_a_terminal_cannot_act_and_means_the_same() {
        let json = "{\"a\": \"\u{202e}x\u{9b}31m\u{e0041}é\"}";
        let shown = for_terminal(json);
        assert!(!shown.chars().any(|c| c.is_control() || c == '\u{202e}'));
        let (before, after): (serde_json::Value, serde_json::Value) = (
            serde_json::from_str(json).unwrap(),
            serde_json::from_str(&shown).unwrap(),
        );
        assert_eq!(before, after);
    }
}
