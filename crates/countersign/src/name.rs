//! Rules for the names of accounts, agents, tokens and tenants: which names are allowed, and when two names are the
//! same.
//!
//! This module says why a name is rejected, gives its normal form, and determines whether two names can be confused.
//!
//! Names with the same normal form are the same name, so that `ana`, `Ana` and `ana ` cannot be different people. Names
//! that merely look alike (`bill` and `bi1l`, Latin `cop` and Cyrillic `сор`) are different, but the second one cannot
//! be created.

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};
use unicode_script::{Script, UnicodeScript as _};
use unicode_security::skeleton;

use crate::display::is_forbidden;

/// Reason why a text is rejected as a new name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RejectedName {
    /// Leading, trailing, repeated or unusual spaces.
    #[error("a name has no spaces around it, and single plain spaces inside")]
    Spaces,
    /// The text contains this invisible character.
    #[error("a name has no invisible characters: `{}` is one", .0.escape_unicode())]
    Invisible(char),
    /// The text is not in normal form (NFKC). The value is the normal form.
    #[error("write the name as `{0}`")]
    Form(String),
    /// The text contains this symbol, which is easily confused with another.
    #[error("a name has letters, digits 0-9 and plain punctuation: `{0}` is none of them")]
    Sign(char),
    /// The text mixes these scripts, which no language uses together.
    #[error("a name is written in one script, not in several: this one has {0}")]
    Scripts(String),
}

/// Checks that a text may be used as a new name.
pub fn check(text: &str) -> Result<(), RejectedName> {
    if text.trim() != text || text.contains("  ") {
        return Err(RejectedName::Spaces);
    }
    if let Some(hidden) = text.chars().find(|character| is_forbidden(*character)) {
        return match hidden.is_whitespace() {
            true => Err(RejectedName::Spaces),
            false => Err(RejectedName::Invisible(hidden)),
        };
    }
    if text.is_ascii() {
        return Ok(());
    }
    let form = compatible(text);
    if form != text {
        return Err(RejectedName::Form(form));
    }
    one_script(text)
}

/// Returns the normal form by which names are compared. It ignores case, invisible characters and extra spaces.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        return words.join(" ").to_ascii_lowercase();
    }
    let seen: String = compatible(text)
        .chars()
        .filter(|character| character.is_whitespace() || !is_forbidden(*character))
        .collect();
    // Convert to upper case first: it unifies letters that lower case keeps apart, such as `ß` and `ss`.
    let folded = compatible(&seen.to_uppercase().to_lowercase());
    let words: Vec<&str> = folded.split_whitespace().collect();
    words.join(" ")
}

/// Returns true if the names, as written or in lower case, can be mistaken for each other according to Unicode's table
/// of confusable characters (UTS 39).
pub fn looks_like(left: &str, right: &str) -> bool {
    let right = looks(right);
    looks(left).iter().any(|look| right.contains(look))
}

/// Returns the skeletons of a name, as written and in lower case. Two names with a common skeleton can be mistaken for
/// each other.
pub fn looks(text: &str) -> [String; 2] {
    // Case matters: `I` and `l` look alike, `i` and `l` do not.
    let look = |text: &str| fold(&skeleton(text).collect::<String>());
    [look(text), look(&fold(text))]
}

fn compatible(text: &str) -> String {
    text.nfkc().collect()
}

/// Writing systems that combine several scripts.
const TOGETHER: [&[Script]; 3] = [
    &[Script::Han, Script::Hiragana, Script::Katakana],
    &[Script::Han, Script::Hangul],
    &[Script::Han, Script::Bopomofo],
];

fn one_script(text: &str) -> Result<(), RejectedName> {
    let mut scripts: Vec<Script> = Vec::new();
    for character in text.chars().filter(|character| !is_plain(*character)) {
        let script = character.script();
        let is_mark = script == Script::Inherited && is_mark(character);
        // The Japanese long-vowel sign belongs to two scripts.
        if is_mark || character == '\u{30fc}' {
            continue;
        }
        let is_letter = character.is_alphabetic() || is_mark_of_script(character);
        if [Script::Common, Script::Inherited, Script::Unknown].contains(&script) || !is_letter {
            return Err(RejectedName::Sign(character));
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
            let names = scripts.iter().map(|script| script.full_name().replace('_', " "));
            let names: Vec<String> = names.collect();
            Err(RejectedName::Scripts(names.join(" and ")))
        }
    }
}

/// Returns true for ASCII characters. ASCII letters are counted as Latin separately.
fn is_plain(character: char) -> bool {
    character.is_ascii()
}

fn is_mark(character: char) -> bool {
    character.general_category() == GeneralCategory::NonspacingMark
}

/// Returns true for combining marks, such as the vowel signs of Indic scripts.
fn is_mark_of_script(character: char) -> bool {
    matches!(
        character.general_category(),
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
            assert_eq!(
                check(name),
                Err(RejectedName::Scripts(scripts.to_owned())),
                "{name}"
            );
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
