//! Warnings about a value: properties that a reader may not see.

use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_bidi::{BidiClass, bidi_class};
use unicode_normalization::is_nfc;
use unicode_script::{Script, UnicodeScript as _};
use unicode_security::skeleton;

use super::punycode::{is_disguised, read_host, write_host};
use super::{clip, is_forbidden, is_mark};

/// Maximum number of warnings about one value.
const MOST: usize = 8;
/// Maximum length of a quoted word or host in a warning, in characters.
const NAMED_CHARS: usize = 60;

/// A property of a value that a reader may not see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Warning {
    /// Invisible characters, other than line breaks and tabs.
    HiddenCharacters,
    /// Characters that change the direction of text.
    BidiCharacters,
    /// A word with letters of scripts that are not used together; escaped.
    MixedScript(String),
    /// A host name in Punycode, which other programs show as different characters; escaped.
    Punycode(String),
    /// A host name in letters of another script that look like ASCII letters; escaped.
    LookAlike(String),
    /// A word with a character that looks like the dot or slash of an address; escaped.
    LookAlikeSign(String),
    /// A word with separate (decomposed) accents, which looks the same as the usual spelling; escaped.
    NotComposed(String),
    /// A URL with user info that looks like its host, as in `http://acme.com@evil.example/`; holds the real host,
    /// escaped.
    UserInfo(String),
    /// Right-to-left text together with digits, symbols or left-to-right text.
    MixedDirections,
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
            Warning::LookAlike(host) => {
                write!(f, "the host `{host}` looks like `{}` and is another one", named(&look(host)))?;
                match write_host(host) {
                    Some(plain) => write!(f, ", `{}`", named(&plain)),
                    None => Ok(()),
                }
            }
            Warning::LookAlikeSign(word) => {
                write!(f, "has a character in `{word}` that looks like a dot or a slash and is none")?;
                match word.chars().find(|c| is_like_dot(*c) || is_like_slash(*c)) {
                    Some(sign) => write!(f, " (U+{:04X})", u32::from(sign)),
                    None => Ok(()),
                }
            }
            Warning::NotComposed(word) => write!(
                f,
                "writes `{word}` with separate accents: it looks like another text, and is not the same bytes"
            ),
            Warning::UserInfo(host) => write!(
                f,
                "has an address whose host is `{host}`: what stands before the `@` is not the host"
            ),
            Warning::MixedDirections => f.write_str(
                "has text from right to left beside digits, signs or other text, which may be seen in another order",
            ),
        }
    }
}

/// Returns true if these bytes certainly cause no warning: printable ASCII without Punycode. If false, [`warnings`] has
/// to examine them.
pub fn is_unremarkable(bytes: &[u8]) -> bool {
    let is_plain = |byte: &u8| matches!(byte, 0x20..0x7f | b'\n' | b'\r' | b'\t');
    // No early exit, so that the compiler can vectorise the loop.
    let is_ascii = bytes.iter().fold(true, |so_far, byte| so_far & is_plain(byte));
    let may_be_user_info = || {
        let slashes = memchr::memmem::find(bytes, b"//").or_else(|| memchr::memmem::find(bytes, br"\\"));
        slashes.is_some_and(|at| memchr::memchr(b'@', bytes.get(at..).unwrap_or_default()).is_some())
    };
    is_ascii && memchr::memmem::find(bytes, b"--").is_none() && !may_be_user_info()
}

/// Returns the warnings about `text`, at most eight.
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
    let hosts = text.split(is_between_hosts);
    let hosts = hosts.filter(|host| host.split('.').any(is_disguised));
    let punycode = hosts.map(|host| Warning::Punycode(named(host)));
    // Combining marks and hidden characters do not end a word: a hidden one may be there to split it.
    let is_in_word = |c: char| c.is_alphanumeric() || is_mark(c) || is_forbidden(c) && !is_layout(c);
    let words = text
        .split(|c: char| !is_in_word(c))
        .filter(|word| !word.is_ascii());
    let mixed = words
        .filter(|word| is_mixed(word))
        .map(|word| Warning::MixedScript(named(word)));
    let alike = text
        .split(is_between_hosts)
        .filter(|host| host.contains('.') && is_alike(host))
        .map(|host| Warning::LookAlike(named(host)));
    let signs = text
        .split(char::is_whitespace)
        .filter(|word| has_like_sign(word))
        .map(|word| Warning::LookAlikeSign(named(word)));
    let decomposed = text
        .split(|c: char| !is_in_word(c))
        .filter(|word| !is_nfc(word))
        .map(|word| Warning::NotComposed(named(word)));
    let hosts = text.split(char::is_whitespace).flat_map(hosts_behind_names);
    let user_info = hosts.map(|host| Warning::UserInfo(named(host)));
    let directions = has_mixed_directions(text).then_some(Warning::MixedDirections);
    let more = user_info
        .chain(alike)
        .chain(signs)
        .chain(decomposed)
        .chain(directions);
    for warning in punycode.chain(mixed).chain(more) {
        if found.len() >= MOST {
            break;
        }
        if !found.contains(&warning) {
            found.push(warning);
        }
    }
    found
}

/// Returns the hosts of those URLs in a word that have user info before the host, such as `evil.example` in
/// `http://acme.com@evil.example/`. A backslash counts as a slash, as in browsers.
fn hosts_behind_names(word: &str) -> impl Iterator<Item = &str> {
    let is_slash = |c: char| matches!(c, '/' | '\\');
    let begins = word.char_indices().filter_map(move |(at, c)| {
        let rest = word.get(at..)?;
        let after = rest
            .get(1..)
            .filter(|after| is_slash(c) && after.starts_with(is_slash))?;
        Some(after.trim_start_matches(is_slash))
    });
    begins.filter_map(move |rest| {
        let end = rest.find(|c: char| is_slash(c) || "?#<>\"'`".contains(c));
        let authority = end.map_or(rest, |end| rest.get(..end).unwrap_or(rest));
        authority.rsplit_once('@').map(|(_, host)| host)
    })
}

fn named(piece: &str) -> String {
    clip(piece, NAMED_CHARS).to_string()
}

fn is_between_hosts(character: char) -> bool {
    character.is_whitespace() || "/@<>()[]\"'`,;:?#=&".contains(character)
}

/// Returns true if a label of the host is not ASCII but consists of characters that look like ASCII, according to
/// Unicode's table of confusable characters.
fn is_alike(host: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || is_mark(c) || c == '-';
    let is_alike_label = |label: &str| {
        !label.is_ascii() && label.chars().all(is_of_name) && skeleton(label).all(|c| c.is_ascii_graphic())
    };
    host.split('.').any(is_alike_label)
}

/// Returns a host as a reader perceives it: labels that are not ASCII become the ASCII letters that they resemble.
fn look(host: &str) -> String {
    let label = |label: &str| match label.is_ascii() {
        true => label.to_owned(),
        false => skeleton(label).collect(),
    };
    let labels: Vec<String> = host.split('.').map(label).collect();
    labels.join(".")
}

fn is_like_dot(character: char) -> bool {
    matches!(
        character,
        '\u{ff0e}' | '\u{3002}' | '\u{ff61}' | '\u{2024}' | '\u{fe52}' | '\u{a4f8}' | '\u{701}' | '\u{702}'
    )
}

fn is_like_slash(character: char) -> bool {
    matches!(
        character,
        '\u{2215}'
            | '\u{2044}'
            | '\u{ff0f}'
            | '\u{29f8}'
            | '\u{2571}'
            | '\u{29f5}'
            | '\u{2216}'
            | '\u{ff3c}'
            | '\u{fe68}'
    )
}

/// Returns true if a word may be an address and contains, between plain characters, a character that looks like a dot
/// or a slash. Fractions and the full stop of a sentence do not count.
fn has_like_sign(word: &str) -> bool {
    if word.is_ascii() {
        return false;
    }
    let is_address = word.contains(['.', '@']) || word.contains("://") || word.chars().any(is_like_dot);
    let characters: Vec<char> = word.chars().collect();
    let is_plain = |c: &char| c.is_ascii_alphanumeric();
    is_address
        && characters.windows(3).any(|three| match three {
            [before, sign, after] => {
                let is_sign = is_like_dot(*sign) || is_like_slash(*sign);
                is_sign && is_plain(before) && (is_plain(after) || matches!(after, '.' | '-' | '_'))
            }
            _ => false,
        })
}

/// Returns true if right-to-left text occurs together with characters that it may reorder: digits, symbols of
/// addresses, brackets, or left-to-right text.
fn has_mixed_directions(text: &str) -> bool {
    text.chars().any(is_right_to_left) && text.chars().any(is_moved_by_right_to_left)
}

/// Returns true for letters that run from right to left. The table predates the newest characters and classifies them
/// as left-to-right, so those are recognised by their blocks.
fn is_right_to_left(character: char) -> bool {
    match bidi_class(character) {
        BidiClass::R | BidiClass::AL => true,
        BidiClass::L => matches!(character,
            '\u{590}'..='\u{8ff}'
            | '\u{fb1d}'..='\u{fdff}'
            | '\u{fe70}'..='\u{feff}'
            | '\u{10800}'..='\u{10fff}'
            | '\u{1e800}'..='\u{1efff}'),
        _ => false,
    }
}

fn is_moved_by_right_to_left(character: char) -> bool {
    "/\\@=&#<>()[]{}".contains(character)
        || matches!(
            bidi_class(character),
            BidiClass::L | BidiClass::EN | BidiClass::AN
        ) && !is_right_to_left(character)
}

fn is_bidi(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns true if a word contains scripts that no language combines within one word.
fn is_mixed(word: &str) -> bool {
    let mut scripts: Vec<Script> = Vec::new();
    for script in word.chars().map(|character| character.script()) {
        let is_neutral = [Script::Common, Script::Inherited, Script::Unknown].contains(&script);
        if !is_neutral && !scripts.contains(&script) {
            scripts.push(script);
        }
    }
    if scripts.len() < 2 {
        return false;
    }
    // These scripts are written with Latin words without a space between them, and cannot be mistaken for Latin.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x103_no_direction_or_script_is_missed() {
        use icu_properties::props::{self, BidiClass as Class, GeneralCategory};
        use icu_properties::{CodePointMapData, PropertyNamesLong};
        let category = CodePointMapData::<GeneralCategory>::new();
        let class = CodePointMapData::<Class>::new();
        let script = CodePointMapData::<props::Script>::new();
        let names = PropertyNamesLong::<props::Script>::new();
        for character in '\0'..=char::MAX {
            let name = names.get(script.get(character)).unwrap();
            assert_eq!(character.script().full_name(), name, "{character:?}");
            // An unassigned character is hidden, and warned about as such. A mark is drawn on its base character, whose
            // direction counts.
            let no_direction = [GeneralCategory::Unassigned, GeneralCategory::NonspacingMark];
            if no_direction.contains(&category.get(character)) {
                continue;
            }
            match class.get(character) {
                Class::RightToLeft | Class::ArabicLetter => {
                    assert!(is_right_to_left(character), "{character:?}")
                }
                Class::LeftToRight | Class::EuropeanNumber | Class::ArabicNumber => {
                    assert!(is_moved_by_right_to_left(character), "{character:?}");
                }
                _ => {}
            }
        }
    }
}
