//! The one form of a name: which names can be given to accounts, agents, tokens and tenants, and when two are the same.
//!
//! Enters: a text, or two. Leaves: why it is no name to give, its normal form, or whether two can be taken for each other.
//! Two names with one normal form are one name, so that `ana`, `Ana` and `ana ` cannot stand for different people. Names
//! that merely look alike (`bill` and `bi1l`, Latin `cop` and Cyrillic `сор`) are different, and no second one is made.

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::props::{GeneralCategory, Script};
use icu_properties::{CodePointMapData, PropertyNamesLong};
use unicode_security::skeleton;

use crate::display::is_forbidden;

/// Why a text is not taken as the name of something new.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OddName {
    /// Spaces that are not seen.
    #[error("a name has no spaces around it, and single plain spaces inside")]
    Spaces,
    /// A character that is not seen, or not everywhere.
    #[error("a name has no invisible characters: `{}` is one", .0.escape_unicode())]
    Invisible(char),
    /// Another way to write other characters.
    #[error("write the name as `{0}`")]
    Form(String),
    /// A sign that is easily taken for another one.
    #[error("a name has letters, digits 0-9 and plain punctuation: `{0}` is none of them")]
    Sign(char),
    /// Letters that no language writes together.
    #[error("a name is written in one script, not in several: this one has {0}")]
    Scripts(String),
}

/// Says why this is no name to give to anything new.
pub fn check(text: &str) -> Result<(), OddName> {
    if text.trim() != text || text.contains("  ") {
        return Err(OddName::Spaces);
    }
    if let Some(hidden) = text.chars().find(|character| is_forbidden(*character)) {
        return match hidden.is_whitespace() {
            true => Err(OddName::Spaces),
            false => Err(OddName::Invisible(hidden)),
        };
    }
    if text.is_ascii() {
        return Ok(());
    }
    let form = compatible(text);
    if form != text {
        return Err(OddName::Form(form));
    }
    one_script(text)
}

/// The form in which names are compared: without case, without what is not seen.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        return words.join(" ").to_ascii_lowercase();
    }
    let seen: String = compatible(text)
        .chars()
        .filter(|character| character.is_whitespace() || !is_forbidden(*character))
        .collect();
    // Upper case first: it brings together what lower case keeps apart, such as `ß` and `ss`.
    let folded = compatible(&seen.to_uppercase().to_lowercase());
    let words: Vec<&str> = folded.split_whitespace().collect();
    words.join(" ")
}

/// Whether one of two names that are written differently can be taken for the other, by Unicode's table of characters
/// that look alike (UTS 39), in the case they are written in or in lower case.
pub fn looks_like(left: &str, right: &str) -> bool {
    let right = looks(right);
    looks(left).iter().any(|look| right.contains(look))
}

/// What a name looks like: two that share one of these can be taken for each other.
pub fn looks(text: &str) -> [String; 2] {
    // Case matters to the eye: `I` and `l` look alike, `i` and `l` do not.
    let look = |text: &str| fold(&skeleton(text).collect::<String>());
    [look(text), look(&fold(text))]
}

fn compatible(text: &str) -> String {
    ComposingNormalizerBorrowed::new_nfkc()
        .normalize(text)
        .into_owned()
}

/// The scripts of writing systems that use several.
const TOGETHER: [&[Script]; 3] = [
    &[Script::Han, Script::Hiragana, Script::Katakana],
    &[Script::Han, Script::Hangul],
    &[Script::Han, Script::Bopomofo],
];

fn one_script(text: &str) -> Result<(), OddName> {
    let map = CodePointMapData::<Script>::new();
    let mut scripts: Vec<Script> = Vec::new();
    for character in text.chars().filter(|character| !is_plain(*character)) {
        let script = map.get(character);
        let is_mark = script == Script::Inherited && is_mark(character);
        // The long-vowel sign of Japanese belongs to two scripts at once.
        if is_mark || character == '\u{30fc}' {
            continue;
        }
        let is_letter = character.is_alphabetic() || is_mark_of_script(character);
        if [Script::Common, Script::Inherited, Script::Unknown].contains(&script) || !is_letter {
            return Err(OddName::Sign(character));
        }
        if !scripts.contains(&script) {
            scripts.push(script);
        }
    }
    if text.chars().any(|character| character.is_ascii_alphabetic()) && !scripts.contains(&Script::Latin) {
        scripts.push(Script::Latin);
    }
    let is_one = scripts.len() < 2
        || TOGETHER
            .iter()
            .any(|system| scripts.iter().all(|script| system.contains(script)));
    match is_one {
        true => Ok(()),
        false => {
            let names = PropertyNamesLong::<Script>::new();
            let names = scripts
                .iter()
                .map(|script| names.get(*script).unwrap_or("another"));
            let names: Vec<String> = names.map(|name| name.replace('_', " ")).collect();
            Err(OddName::Scripts(names.join(" and ")))
        }
    }
}

/// ASCII, letters included: those are counted apart.
fn is_plain(character: char) -> bool {
    character.is_ascii()
}

fn is_mark(character: char) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new().get(character);
    category == GeneralCategory::NonspacingMark
}

/// Vowel signs of scripts that write them apart.
fn is_mark_of_script(character: char) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new().get(character);
    matches!(
        category,
        GeneralCategory::NonspacingMark | GeneralCategory::SpacingMark
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x71_names_are_of_one_form_and_one_script() {
        for good in [
            "ana",
            "Ana",
            "ana@example.com",
            "Ana García",
            "O'Brien",
            "crm/main:2",
            "Анна",
            "张伟",
            "山田 太郎",
            "サーバー",
            "김철수",
            "Ελένη",
            "عمر",
            "अनिता",
            "Đặng",
            "สมชาย",
        ] {
            assert_eq!(check(good), Ok(()), "`{good}`");
        }
        for bad in [
            " ana",
            "ana ",
            "ana  b",
            "ana\u{a0}b",
            "ana\u{3000}b",
            "a\u{200b}na",
            "ana\u{2060}",
            "ana\u{ad}",
            "a\u{34f}na",
            "ana\u{fe0f}",
            "a\u{3164}na",
            "\u{202e}ana",
            "аna",
            "аnа",
            "ａｎａ",
            "ana\u{301}z\u{430}",
            "ﬁnn",
            "an\u{61}\u{301}",
            "张Wei",
            "O’Brien",
            "ana١",
            "ana☂",
            "an\u{e0061}a",
            "ａ",
            "𝐚na",
        ] {
            assert!(check(bad).is_err(), "`{}`", bad.escape_unicode());
        }
    }

    #[test]
    fn x71_scripts_are_called_by_their_names() {
        for (name, scripts) in [
            ("\u{430}na", "Cyrillic and Latin"),
            ("张Wei", "Han and Latin"),
            ("\u{3b1}\u{430}", "Greek and Cyrillic"),
            ("\u{19b0}\u{430}", "New Tai Lue and Cyrillic"),
        ] {
            assert_eq!(check(name), Err(OddName::Scripts(scripts.to_owned())), "{name}");
        }
    }

    #[test]
    fn x71_look_alikes_are_known() {
        for (left, right) in [
            ("cop", "\u{441}\u{43e}\u{440}"),
            ("ana", "an\u{251}"),
            ("bill", "bi1l"),
            ("bill", "BiIl"),
            ("oleg", "0leg"),
            ("tim", "tirn"),
            ("bot", "\u{412}\u{41e}\u{422}"),
            ("Ana", "\u{391}na"),
            ("anna", "ANNA"),
        ] {
            assert!(
                looks_like(left, right) && looks_like(right, left),
                "{left} {right}"
            );
        }
        for (left, right) in [
            ("ana", "anna"),
            ("bill", "bull"),
            ("ian", "lan"),
            ("crm1", "crm2"),
            ("Анна", "Анна2"),
            ("张伟", "张三"),
            ("jose", "josé"),
        ] {
            assert!(!looks_like(left, right), "{left} {right}");
        }
    }

    #[test]
    fn x71_twins_have_one_normal_form() {
        for twin in [
            "Ana",
            "ANA",
            " ana",
            "ana ",
            "a\u{200b}na",
            "ａｎａ",
            "ana\u{2060}",
        ] {
            assert_eq!(fold(twin), "ana", "`{}`", twin.escape_unicode());
        }
        assert_eq!(fold("Straße"), fold("STRASSE"));
        assert_eq!(fold("Jose\u{301}"), fold("JOSÉ"));
        assert_eq!(fold("ana  maria"), fold("Ana Maria"));
        assert_ne!(fold("ana"), fold("anna"));
    }
}
