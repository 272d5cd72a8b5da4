//! Reads replies that grant some calls of a numbered card: "all but the third", "only 1 and 3".
//!
//! Nothing is guessed: every word has to belong to the grammar, and every number to the card. A bare number that may be
//! a count ("only 2") grants nothing.

use super::word::Words;

/// Set of the calls that a reply grants, out of up to 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    granted: Positions,
    named: Positions,
    by_number: Positions,
    says_action: bool,
}

impl Part {
    /// Returns true if the call at this position, from 1, is granted.
    pub fn grants(self, position: usize) -> bool {
        self.granted.has(position)
    }

    /// Returns true if the reply names this position, by a number or an ordinal, whether to grant or to exclude it.
    pub fn names(self, position: usize) -> bool {
        self.named.has(position)
    }

    /// Returns true if the reply says that its numbers are positions: "only action 2", "all but the third action".
    pub fn says_action(self) -> bool {
        self.says_action
    }

    /// Returns true if the reply names this position by a number ("only 2 and 3") rather than by an ordinal ("only the
    /// second"). Such a number may also be a value on the card.
    pub fn names_by_number(self, position: usize) -> bool {
        self.by_number.has(position)
    }
}

/// Set of positions, from 1 to 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Positions(u128);

impl Positions {
    fn has(self, position: usize) -> bool {
        (1..=128).contains(&position) && self.0 & (1 << (position - 1)) != 0
    }

    fn of(positions: impl IntoIterator<Item = usize>) -> Positions {
        let bit = |position: usize| {
            position
                .checked_sub(1)
                .and_then(|at| 1u128.checked_shl(u32::try_from(at).ok()?))
        };
        let bits = positions.into_iter().filter_map(bit);
        Positions(bits.fold(0, |set, bit| set | bit))
    }

    fn inverted(self, count: usize) -> Positions {
        Positions(Positions::of(1..=count).0 & !self.0)
    }
}

const YES: [&str; 14] = [
    "yes", "yeah", "yep", "ok", "okay", "approve", "confirm", "sí", "si", "ja", "oui", "sim", "confirma",
    "aprueba",
];
const ONLY: [&str; 12] = [
    "only",
    "just",
    "solo",
    "sólo",
    "solamente",
    "únicamente",
    "nur",
    "seulement",
    "uniquement",
    "apenas",
    "somente",
    "soltanto",
];
const ALL: [&str; 12] = [
    "all",
    "everything",
    "every",
    "todos",
    "todas",
    "todo",
    "alle",
    "alles",
    "tous",
    "toutes",
    "tutti",
    "tutte",
];
/// Words that exclude what follows.
// Words are folded before they are compared: `außer` is `ausser`.
const BUT: [&str; 11] = [
    "except",
    "excluding",
    "without",
    "menos",
    "excepto",
    "salvo",
    "ausser",
    "sauf",
    "exceto",
    "tranne",
    "behalve",
];
/// Words that, only after "all" or before a "not", exclude what follows them.
const WEAK_BUT: [&str; 5] = ["but", "pero", "aber", "mais", "mas"];
const NOT: [&str; 5] = ["not", "no", "nicht", "pas", "não"];
const AND: [&str; 8] = ["and", "y", "e", "und", "et", "&", "plus", "also"];
/// Words that make the number after them a position rather than a count.
const NUMBER: [&str; 13] = [
    "number", "numbers", "#", "nr", "item", "items", "número", "numero", "nummer", "action", "actions",
    "acción", "acciones",
];
/// Words for what a card lists ("5 actions"). With one of them, a number can only be a position.
const ACTION: [&str; 4] = ["action", "actions", "acción", "acciones"];
/// Articles. "Only the 2" may mean both of two.
const ARTICLE: [&str; 11] = [
    "the", "la", "el", "las", "los", "le", "les", "die", "der", "das", "den",
];
/// Articles that make an ordinal something else than a position: "a second", "une seconde".
const INDEFINITE: [&str; 10] = ["a", "an", "un", "una", "une", "uno", "um", "uma", "ein", "eine"];
/// Words after a number that change nothing.
const THING: [&str; 7] = ["one", "ones", "item", "action", "actions", "acción", "acciones"];
const COURTESY: [&str; 7] = ["please", "pls", "por", "favor", "bitte", "thanks", "gracias"];

const ORDINALS: [&[&str]; 20] = [
    &[
        "first",
        "primero",
        "primera",
        "primer",
        "erste",
        "ersten",
        "erster",
        "erstes",
        "premier",
        "première",
        "1st",
    ],
    &[
        "second",
        "segundo",
        "segunda",
        "zweite",
        "zweiten",
        "zweiter",
        "deuxième",
        "2nd",
    ],
    &[
        "third",
        "tercero",
        "tercera",
        "tercer",
        "dritte",
        "dritten",
        "dritter",
        "troisième",
        "3rd",
    ],
    &[
        "fourth",
        "cuarto",
        "cuarta",
        "vierte",
        "vierten",
        "quatrième",
        "4th",
    ],
    &[
        "fifth",
        "quinto",
        "quinta",
        "fünfte",
        "fünften",
        "cinquième",
        "5th",
    ],
    &["sixth", "sexto", "sexta", "sechste", "sechsten", "sixième", "6th"],
    &[
        "seventh",
        "séptimo",
        "séptima",
        "siebte",
        "siebten",
        "septième",
        "7th",
    ],
    &["eighth", "octavo", "octava", "achte", "achten", "huitième", "8th"],
    &[
        "ninth",
        "noveno",
        "novena",
        "neunte",
        "neunten",
        "neuvième",
        "9th",
    ],
    &[
        "tenth", "décimo", "décima", "zehnte", "zehnten", "dixième", "10th",
    ],
    &["eleventh", "11th"],
    &["twelfth", "12th"],
    &["thirteenth", "13th"],
    &["fourteenth", "14th"],
    &["fifteenth", "15th"],
    &["sixteenth", "16th"],
    &["seventeenth", "17th"],
    &["eighteenth", "18th"],
    &["nineteenth", "19th"],
    &["twentieth", "20th"],
];
const LAST: [&str; 8] = [
    "last",
    "último",
    "última",
    "letzte",
    "letzten",
    "dernier",
    "dernière",
    "ultimo",
];

/// Number words from "one" on. Words that are articles as well, such as "un" and "ein", are left out.
const CARDINALS: [&[&str]; 12] = [
    &["one", "uno", "eins"],
    &["two", "dos", "zwei", "deux"],
    &["three", "tres", "drei", "trois"],
    &["four", "cuatro", "vier", "quatre"],
    &["five", "cinco", "funf", "cinq"],
    &["six", "seis", "sechs"],
    &["seven", "siete", "sieben", "sept"],
    &["eight", "ocho", "acht", "huit"],
    &["nine", "nueve", "neun", "neuf"],
    &["ten", "diez", "zehn", "dix"],
    &["eleven", "once", "elf", "onze"],
    &["twelve", "doce", "zwolf", "douze"],
];

/// Returns the positions that a text on a card of `count` calls could be taken to name: "room-3", "Q3", "third page",
/// "Three".
pub(crate) fn positions_in(text: &str, count: usize) -> Vec<usize> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.flat_map(|word| {
        let digits = word.split(|c: char| !c.is_ascii_digit());
        digits.chain([word]).filter(|part| !part.is_empty())
    });
    words
        .filter_map(|word| {
            if word.bytes().all(|byte| byte.is_ascii_digit()) {
                return word.parse().ok().filter(|_| !word.starts_with('0'));
            }
            let word = folded(word);
            let among = |table: &[&[&str]]| {
                let at = table
                    .iter()
                    .position(|forms| forms.iter().any(|form| folded(form) == word));
                at.map(|index| index + 1)
            };
            match LAST.iter().any(|form| folded(form) == word) {
                true => Some(count),
                false => among(&ORDINALS).or_else(|| among(&CARDINALS)),
            }
        })
        .collect()
}

/// Returns true if a text contains a word such as "action", so that "action 2" may mean that text.
pub(crate) fn mentions_action(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric()).map(folded);
    words.any(|word| ACTION.iter().any(|form| folded(form) == word))
}

/// Returns a word in lower case and without accents, to compare it with the tables.
fn folded(word: &str) -> String {
    let lower = word.chars().flat_map(char::to_lowercase);
    lower
        .map(|c| match c {
            'á' | 'à' | 'ã' => 'a',
            'é' | 'è' | 'ê' => 'e',
            'í' => 'i',
            'ó' | 'ö' | 'õ' => 'o',
            'ú' | 'ü' => 'u',
            other => other,
        })
        .collect()
}

/// The calls that a reply names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selected {
    /// Exactly these calls.
    Some(Part),
    /// A bare number, which may be a position or a count: "only 2", "all but 2".
    Unclear,
}

/// Effect of a reply's list of calls: grants the listed calls, or all others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Only,
    AllBut,
}

/// Returns the calls that a reply grants on a card with `count` numbered calls; `None` if the reply is anything but
/// such a list. Only counts from 2 to 20 are supported.
pub(super) fn part(words: &Words, count: usize) -> Option<Selected> {
    if !(2..=ORDINALS.len()).contains(&count) || words.is_question || words.hidden.is_some() {
        return None;
    }
    let mut parser = ListParser {
        words,
        count,
        at: 0,
        says_action: false,
    };
    let (takes, is_short) = parser.beginning()?;
    let (listed, is_named) = parser.list(is_short)?;
    parser.skip(&COURTESY);
    if parser.at < words.len() {
        return None;
    }
    if listed.len() == 1 && !is_named {
        return Some(Selected::Unclear);
    }
    let named = Positions::of(listed.iter().map(|listed| listed.position));
    let granted = match takes {
        Takes::Only => named,
        Takes::AllBut => named.inverted(count),
    };
    let numbers = listed.iter().filter(|listed| !listed.is_ordinal);
    let by_number = Positions::of(numbers.map(|listed| listed.position));
    // A reply that excludes every call is not read as a plain no.
    (granted != Positions(0)).then_some(Selected::Some(Part {
        granted,
        named,
        by_number,
        says_action: parser.says_action,
    }))
}

/// A position as the reply names it.
#[derive(Clone, Copy)]
struct Listed {
    position: usize,
    is_ordinal: bool,
}

struct ListParser<'a> {
    words: &'a Words,
    count: usize,
    at: usize,
    /// True once a word such as "action" was read beside a number.
    says_action: bool,
}

impl ListParser<'_> {
    fn word(&self) -> &str {
        self.words.get(self.at)
    }

    fn take(&mut self, list: &[&str]) -> bool {
        let is_listed = list.contains(&self.word());
        self.at += usize::from(is_listed);
        is_listed
    }

    fn skip(&mut self, list: &[&str]) {
        while self.at < self.words.len() && self.take(list) {}
    }

    /// Skips words of a list, and notes if one of them says that a number is a position.
    fn skip_noun(&mut self, list: &[&str]) {
        let from = self.at;
        self.skip(list);
        self.says_action |= (from..self.at).any(|at| ACTION.contains(&self.words.get(at)));
    }

    /// Reads the part before the numbers: "yes, only", "all but", "yes, except", "approve"; `None` if the reply begins
    /// differently. Also returns true if this part is just a yes, because "yes, first" may continue with something
    /// else.
    fn beginning(&mut self) -> Option<(Takes, bool)> {
        self.skip(&COURTESY);
        let says_yes = self.take(&YES);
        self.skip(&COURTESY);
        if self.take(&ONLY) {
            return Some((Takes::Only, false));
        }
        if self.take(&ALL) {
            if self.take(&["of"]) && !self.take(&["them", "these", "those"]) {
                return None;
            }
            self.skip(&THING);
            return (self.take(&BUT) || self.take(&WEAK_BUT)).then(|| {
                self.take(&NOT);
                (Takes::AllBut, false)
            });
        }
        if !says_yes {
            return None;
        }
        if self.take(&BUT) || (self.take(&WEAK_BUT) && self.take(&NOT)) {
            return Some((Takes::AllBut, false));
        }
        if WEAK_BUT.contains(&self.words.get(self.at.saturating_sub(1))) {
            return None;
        }
        // "A second" is a moment; Spanish "a la segunda" is a position.
        let next = self.words.get(self.at + 1);
        let is_to = self.take(&["to", "zu", "à"]) || (ARTICLE.contains(&next) && self.take(&["a"]));
        let is_short = !is_to;
        Some((Takes::Only, is_short))
    }

    /// Reads the numbers; `None` if they do not form a list. Each must be on the card, occur once, and be separated
    /// from the next by a comma or an "and". Also returns true if at least one of them is clearly a position; if the
    /// beginning was just a yes, an ordinal is one only with an article.
    fn list(&mut self, is_short: bool) -> Option<(Vec<Listed>, bool)> {
        let mut found: Vec<Listed> = Vec::new();
        let mut is_named = false;
        loop {
            let is_parted = self.words.gap(self.at).is_joint | self.take(&AND);
            if !found.is_empty() && !is_parted {
                break;
            }
            let naming = self.at;
            if INDEFINITE.contains(&self.word()) {
                return None;
            }
            self.skip(&ARTICLE);
            let numbering = self.at;
            self.skip_noun(&NUMBER);
            let Some(listed) = self.number() else {
                // After a comma or an "and" a number has to follow.
                if is_parted && !COURTESY.contains(&self.word()) {
                    return None;
                }
                self.at = naming;
                break;
            };
            is_named |= self.at > numbering || (listed.is_ordinal && (numbering > naming || !is_short));
            let is_repeated = found.iter().any(|found| found.position == listed.position);
            if is_repeated || !(1..=self.count).contains(&listed.position) {
                return None;
            }
            found.push(listed);
            self.at += 1;
            self.skip_noun(&THING);
        }
        (!found.is_empty()).then_some((found, is_named))
    }

    fn number(&self) -> Option<Listed> {
        let word = self.word();
        let ordinal = match LAST.contains(&word) {
            true => Some(self.count),
            false => ORDINALS
                .iter()
                .position(|forms| forms.contains(&word))
                .map(|index| index + 1),
        };
        let is_ordinal = ordinal.is_some();
        let is_short = (1..=2).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
        let position = ordinal.or_else(|| word.parse().ok().filter(|_| is_short))?;
        Some(Listed { position, is_ordinal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&[usize]>) {
        let words = Words::of(text, 64).unwrap();
        let expected = expected.map(|positions| Positions::of(positions.iter().copied()));
        let granted = match part(&words, 5) {
            Some(Selected::Some(part)) => Some(part.granted),
            Some(Selected::Unclear) | None => None,
        };
        assert_eq!(granted, expected, "reply `{text}`");
    }

    #[test]
    fn a16_a_reply_may_grant_a_part() {
        for text in [
            "all but the third",
            "All but the third.",
            "yes, all but the third one",
            "all except number 3",
            "everything except the 3rd, please",
            "yes, except the third",
            "yes, but not the third",
            "all of them but #3",
            "todos menos el tercero",
            "sí, todos menos la tercera, por favor",
            "alle außer der dritten",
            "only 1, 2, 4 and 5",
            "just the first, second, fourth and the last",
        ] {
            check(text, Some(&[1, 2, 4, 5]));
        }
        for text in [
            "only 1 and 3",
            "yes, only 1 and 3",
            "yes to 1 and 3",
            "approve 1 and 3",
            "just the first and the third",
            "solo la 1 y la 3",
            "nur 1 und 3",
            "all but 2, 4 and 5",
            "yes 1, 3",
        ] {
            check(text, Some(&[1, 3]));
        }
        check("only the last", Some(&[5]));
        check("only number 2", Some(&[2]));
    }

    #[test]
    fn a16_what_is_not_plain_grants_nothing() {
        for text in [
            "",
            "yes",
            "no",
            "all",
            "all but",
            "only",
            // Either a count or a position.
            "only 2",
            "only the 2",
            "solo la 2",
            "yes first",
            "yes, a second",
            "ok a second please",
            "only a second",
            "approve first",
            "all but 3",
            "yes 2",
            "only two",
            // A range is not a list.
            "only 1-3",
            "only 1 to 3",
            "only 1 3",
            "1 and 3",
            "not the third",
            "no, all but the third",
            "all but the third?",
            "all but the sixth",
            "only 0 and 1",
            "only 1 and 1",
            "only 1 and 6",
            "only 1 and 100",
            "all but the third and change the second",
            "only the first and maybe the third",
            "yes but the third",
            "yes, but not the third, and call it Eva",
            "all but the third to Acme",
            "do not create all but the third",
            "only 1.5 and 3",
            "only 1 and 3 or 4",
            "all but 1, 2, 3, 4 and 5",
            "yes, all but\u{200b} the third",
        ] {
            check(text, None);
        }
        let words = Words::of("only 1 and 2", 64).unwrap();
        for count in [0, 1, 21, 100] {
            assert_eq!(part(&words, count), None, "of {count}");
        }
    }
}
