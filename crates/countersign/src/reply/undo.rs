//! "Undo that": the one request that is understood without a card.
//!
//! The whole message has to ask to undo what was done last. A false positive does no harm: an undo is shown and decided
//! like any other call.

use super::word::split;

/// Words that are ignored around the request.
const COURTESY: [&str; 12] = [
    "please", "pls", "now", "oh", "wait", "sorry", "por", "favor", "bitte", "svp", "ahora", "espera",
];

/// Messages that ask for an undo.
const WISHES: [&str; 38] = [
    "undo",
    "undo it",
    "undo that",
    "undo this",
    "undo the last one",
    "undo the last action",
    "undo the last thing",
    "undo what you just did",
    "can you undo that",
    "take it back",
    "take that back",
    "revert it",
    "revert that",
    "roll it back",
    "roll that back",
    "deshacer",
    "deshacer eso",
    "deshacerlo",
    "deshaz eso",
    "deshaz esto",
    "deshazlo",
    "deshaz lo último",
    "deshaz lo ultimo",
    "puedes deshacerlo",
    "revierte eso",
    "rückgängig",
    "rückgängig machen",
    "mach das rückgängig",
    "mach es rückgängig",
    "annule ça",
    "annule cela",
    "défais ça",
    "reviens en arrière",
    "desfaz isso",
    "desfazer",
    "desfaça isso",
    "annulla quello",
    "ongedaan maken",
];

/// Longest message that is considered, in characters.
const LONGEST: usize = 80;

/// Returns true if the whole message asks to undo what was done last.
pub fn asks_for_undo(text: &str) -> bool {
    if text.chars().count() > LONGEST {
        return false;
    }
    let is_same = |wish: &str, said: &[String]| split(wish) == *said;
    let words = split(text);
    let said: Vec<String> = words
        .into_iter()
        .filter(|word| !COURTESY.contains(&word.as_str()))
        .collect();
    WISHES.into_iter().any(|wish| is_same(wish, &said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        assert_eq!(asks_for_undo(text), expected, "`{text}`");
    }

    #[test]
    fn a17_only_a_whole_message_asks_for_an_undo() {
        for text in [
            "undo",
            "Undo that!",
            "please undo that",
            "Undo it, please.",
            "Deshaz eso, por favor",
        ] {
            check(text, true);
        }
        check("Mach das rückgängig", true);
        check("can you undo that?", true);
        for text in [
            "",
            "please",
            "do not undo that",
            "don't undo that",
            "undo the deal with Acme and create a new one",
            "no",
            "what does undo do",
            "underdo",
        ] {
            check(text, false);
        }
    }
}
