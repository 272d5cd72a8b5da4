//! What a person should be told about a value besides showing it.

use std::fmt;

use icu_properties::CodePointMapData;
use icu_properties::props::Script;
use serde::{Deserialize, Serialize};

use super::punycode::{is_disguised, read_host};
use super::{clip, is_forbidden, is_mark};

/// More warnings than this about one value say nothing new.
const MOST: usize = 8;
/// Words and hosts are named up to this length.
const NAMED_CHARS: usize = 60;

/// Something about a value that the eye may miss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    /// Characters that are not seen; line breaks and tabs do not count.
    HiddenCharacters,
    /// Characters that change the direction of text.
    BidiCharacters,
    /// A word with letters of scripts that are not written together; escaped.
    MixedScript(String),
    /// A host name that stands for another one; escaped.
    Punycode(String),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::HiddenCharacters => f.write_str("contains hidden characters"),
            Warning::BidiCharacters => f.write_str("contains characters that change the direction of text"),
            Warning::MixedScript(word) => write!(f, "mixes alphabets in `{word}`"),
            Warning::Punycode(host) => match read_host(host) {
                Some(meant) => write!(f, "the host `{host}` is shown as `{}` elsewhere", named(&meant)),
                None => write!(f, "the host `{host}` is shown as other characters elsewhere"),
            },
        }
    }
}

/// Whether nothing about these bytes could be odd, told at a glance: printable ASCII, and no host in disguise.
/// False only means that somebody has to look.
pub fn is_unremarkable(bytes: &[u8]) -> bool {
    let is_plain = |byte: &u8| matches!(byte, 0x20..0x7f | b'\n' | b'\r' | b'\t');
    // To the end in any case: then several bytes are looked at in one step.
    let is_ascii = bytes.iter().fold(true, |so_far, byte| so_far & is_plain(byte));
    is_ascii && memchr::memmem::find(bytes, b"--").is_none()
}

/// Lists what is odd about `text`, at most eight things.
pub fn warnings(text: &str) -> Vec<Warning> {
    let mut found = Vec::new();
    if is_unremarkable(text.as_bytes()) {
        return found;
    }
    if text.chars().any(is_bidi) {
        found.push(Warning::BidiCharacters);
    }
    let is_layout = |c| matches!(c, '\n' | '\r' | '\t');
    if text
        .chars()
        .any(|c| is_forbidden(c) && !is_layout(c) && !is_bidi(c))
    {
        found.push(Warning::HiddenCharacters);
    }
    let hosts = text.split(|c: char| c.is_whitespace() || "/@<>()[]\"'`,;:?#=&".contains(c));
    let hosts = hosts.filter(|host| host.split('.').any(is_disguised));
    let punycode = hosts.map(|host| Warning::Punycode(named(host)));
    // A combining mark does not end a word, and neither does a hidden character: it may be there to split one.
    let is_in_word = |c: char| c.is_alphanumeric() || is_mark(c) || is_forbidden(c) && !is_layout(c);
    let words = text
        .split(|c: char| !is_in_word(c))
        .filter(|word| !word.is_ascii());
    let mixed = words
        .filter(|word| is_mixed(word))
        .map(|word| Warning::MixedScript(named(word)));
    for warning in punycode.chain(mixed) {
        if found.len() >= MOST {
            break;
        }
        if !found.contains(&warning) {
            found.push(warning);
        }
    }
    found
}

fn named(piece: &str) -> String {
    clip(piece, NAMED_CHARS).to_string()
}

fn is_bidi(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a word holds scripts that no language writes within one word.
fn is_mixed(word: &str) -> bool {
    let map = CodePointMapData::<Script>::new();
    let mut scripts: Vec<Script> = Vec::new();
    for script in word.chars().map(|character| map.get(character)) {
        let is_neutral = [Script::Common, Script::Inherited, Script::Unknown].contains(&script);
        if !is_neutral && !scripts.contains(&script) {
            scripts.push(script);
        }
    }
    if scripts.len() < 2 {
        return false;
    }
    // Latin stands inside texts of these without a space, and is not mistaken for them.
    let together: [&[Script]; 8] = [
        &[Script::Latin, Script::Han, Script::Hiragana, Script::Katakana],
        &[Script::Latin, Script::Han, Script::Hangul],
        &[Script::Latin, Script::Han, Script::Bopomofo],
        &[Script::Latin, Script::Thai],
        &[Script::Latin, Script::Lao],
        &[Script::Latin, Script::Khmer],
        &[Script::Latin, Script::Myanmar],
        &[Script::Latin, Script::Tibetan],
    ];
    !together
        .iter()
        .any(|allowed| scripts.iter().all(|script| allowed.contains(script)))
}
