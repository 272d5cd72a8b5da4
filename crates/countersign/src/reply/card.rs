//! What approves a card: a short list of phrases and the act itself, word for word.
//!
//! Enters: a reply that the larger tables take for a yes, and the card's offer. Leaves: whether the card may be approved by it.
//! The larger tables know what people say to questions of all kinds, so they take much for a yes that is none to a card: "does it
//! delete my contact" repeats the offer, and "Rob" is a word of Polish. A card is approved only if every word also belongs to a
//! phrase of `tables/cards.txt` in the card's language, the person's or English, or to the name of the act. All else is asked
//! again.
//! Deliberately absent: prompts of other programs, which have no act; and refusals, which are taken from anybody.

use std::collections::HashMap;
use std::sync::OnceLock;

use unicode_normalization::UnicodeNormalization as _;

use super::kind::{Kind, Kinds};
use super::language::{Language, Tables};
use super::offer::{Offer, OfferWords};
use super::word::{Words, split};

type Phrase = Vec<String>;

/// The phrases of one language.
#[derive(Default)]
struct Phrases {
    yes: Vec<Phrase>,
    soft: Vec<Phrase>,
    object: Vec<Phrase>,
    not: Vec<Phrase>,
}

/// Whether a reply that reads as a yes is plain enough for a card. `said` is the language that the person is said to speak.
pub(super) fn approves(tables: &Tables, offer: &Offer<'_>, words: &Words, said: Option<&str>) -> bool {
    let tag = said.or(offer.language()).unwrap_or("en");
    if [tag, "en"]
        .iter()
        .any(|tag| tables.locale(tag, words) == Some(true))
    {
        return true;
    }
    let reply: Vec<&str> = words.iter().collect();
    let is_reply = |phrase: &Phrase| phrase.iter().map(String::as_str).eq(reply.iter().copied());
    if all_phrases()
        .values()
        .any(|phrases| phrases.not.iter().any(is_reply))
    {
        return false;
    }
    if said.is_none() && is_yes_of_another(&reply) {
        return true;
    }
    let language = tables.language(tag);
    let listed: Vec<&Phrases> = [phrases_of(base(tag)), phrases_of("en")]
        .into_iter()
        .flatten()
        .collect();
    if phrases_of(base(tag)).is_none()
        && let Some(language) = language
        && is_made_of_yes_words(tables, language, &reply)
    {
        return true;
    }
    let act = ActWords::of(tables, offer, language);
    !is_condition(&reply) && is_covered(&reply, &listed, &act)
}

/// Whether it may say "if": without its accent, the Spanish and Italian yes is that word.
fn is_condition(reply: &[&str]) -> bool {
    const BESIDE: [&str; 8] = ["si", "sí", "por", "favor", "gracias", "per", "favore", "grazie"];
    reply.contains(&"si") && !reply.iter().all(|word| BESIDE.contains(word))
}

/// Whether phrases and the act, said once, cover the whole reply, and at least one of them approves.
fn is_covered(reply: &[&str], listed: &[&Phrases], act: &ActWords) -> bool {
    // For each place: reached at all, with an approving phrase, with the act, with both.
    let mut reached = vec![[false; 4]; reply.len() + 1];
    if let Some(first) = reached.first_mut() {
        first[0] = true;
    }
    for start in 0..reply.len() {
        let Some(states) = reached.get(start).copied() else {
            continue;
        };
        let rest = reply.get(start..).unwrap_or_default();
        let mut join = |length: usize, approves: bool, is_act: bool| {
            let Some(end) = reached.get_mut(start + length) else {
                return;
            };
            for (number, is_reached) in states.iter().enumerate() {
                let (has_yes, has_act) = (number & 1 != 0, number & 2 != 0);
                if !is_reached || (is_act && has_act) {
                    continue;
                }
                let next = usize::from(has_yes || approves) | (usize::from(has_act || is_act) << 1);
                if let Some(slot) = end.get_mut(next) {
                    *slot = true;
                }
            }
        };
        for phrases in listed {
            for phrase in phrases.yes.iter().filter(|phrase| begins(rest, phrase)) {
                join(phrase.len(), true, false);
            }
            for phrase in phrases.soft.iter().filter(|phrase| begins(rest, phrase)) {
                join(phrase.len(), false, false);
            }
        }
        for length in act.lengths(rest, listed) {
            join(length, false, true);
        }
    }
    reached
        .last()
        .is_some_and(|states| states.iter().skip(1).any(|reached| *reached))
}

/// The words that name the act.
#[derive(Default)]
struct ActWords {
    /// The label of the approving button.
    label: Phrase,
    /// The first word of the label, or of the act, that does more than agree.
    heads: Vec<String>,
    offered: Vec<String>,
}

impl ActWords {
    fn of(tables: &Tables, offer: &Offer<'_>, language: Option<&Language>) -> ActWords {
        let label = offer.yes.as_deref().map(split).unwrap_or_default();
        let (own, act) = match &offer.words {
            OfferWords::Act { label, act } => {
                let act = act.as_ref().map(|act| split(act.text()));
                (label.as_deref().map(split), act.unwrap_or_default())
            }
            OfferWords::Text(_) => (None, Vec::new()),
        };
        let languages = [language, tables.english()];
        let names_act = |word: &&String| {
            let id = tables.lexicon.find(word);
            languages.iter().flatten().any(|language| language.is_act(id))
        };
        let agrees = |word: &String| {
            let id = tables.lexicon.find(word);
            languages
                .iter()
                .flatten()
                .any(|language| language.agrees(id) || language.is_glue(id) || language.is_stop(id))
        };
        let of_label = own.iter().flatten().find(|word| !agrees(word));
        let of_act = act.iter().find(names_act);
        ActWords {
            heads: of_label.into_iter().chain(of_act).cloned().collect(),
            offered: own.into_iter().flatten().chain(act).collect(),
            label,
        }
    }

    /// How many words from here on name the act: its label, or its verb and then only its own words and "it" and the like.
    fn lengths(&self, rest: &[&str], listed: &[&Phrases]) -> Vec<usize> {
        let mut lengths = Vec::new();
        let mut at = match rest.first() {
            Some(first)
                if self
                    .heads
                    .iter()
                    .any(|head| head == first || is_told_to(head, first)) =>
            {
                1
            }
            _ if !self.label.is_empty() && begins(rest, &self.label) => self.label.len(),
            _ => return lengths,
        };
        loop {
            // A reply that ends in an article was broken off.
            let last = at.checked_sub(1).and_then(|last| rest.get(last));
            if !last.is_some_and(|last| ["the", "a", "an"].contains(last)) {
                lengths.push(at);
            }
            let behind = rest.get(at..).unwrap_or_default();
            let Some(next) = behind.first() else { break };
            let objects = listed.iter().flat_map(|phrases| &phrases.object);
            let object = objects
                .filter(|phrase| begins(behind, phrase))
                .map(Vec::len)
                .max();
            let is_own = self.offered.iter().any(|word| word == next);
            match (object, is_own) {
                (Some(length), _) => at += length,
                (None, true) => at += 1,
                (None, false) => break,
            }
        }
        lengths
    }
}

/// Whether each word by itself is one that agrees, asks or thanks in this language.
fn is_made_of_yes_words(tables: &Tables, language: &Language, reply: &[&str]) -> bool {
    let kinds = |word: &&str| {
        let id = tables.lexicon.find(word);
        id.map_or(Kinds::NONE, |id| language.automaton.alone(id))
    };
    let is_plain = |kinds: Kinds| {
        [Kind::Yes, Kind::Fine, Kind::Ok, Kind::Please, Kind::Thanks]
            .into_iter()
            .any(|kind| kinds.has(kind))
    };
    let agrees = |kinds: Kinds| kinds.has(Kind::Yes) || kinds.has(Kind::Ok);
    let turns = |kinds: Kinds| kinds.has(Kind::No) || kinds.has(Kind::NoLead) || kinds.has(Kind::Doubt);
    let all: Vec<Kinds> = reply.iter().map(kinds).collect();
    all.iter().all(|kinds| is_plain(*kinds) && !turns(*kinds)) && all.iter().any(|kinds| agrees(*kinds))
}

/// Returns true for a yes in another language than the card's, where no reply language is given: a single word of the list `any`, or
/// several words that are phrases of one language. Other single words are as often names, or words of English.
fn is_yes_of_another(reply: &[&str]) -> bool {
    let is_said = |phrase: &Phrase| phrase.iter().map(String::as_str).eq(reply.iter().copied());
    if phrases_of("any").is_some_and(|any| any.yes.iter().any(is_said)) {
        return true;
    }
    let others = all_phrases().iter().filter(|(tag, _)| tag.as_str() != "any");
    let is_doubled = reply
        .first()
        .is_some_and(|first| reply.iter().all(|word| word == first));
    reply.len() > 1
        && !is_doubled
        && !is_condition(reply)
        && others
            .map(|(_, phrases)| phrases)
            .any(|phrases| is_covered(reply, &[phrases], &ActWords::default()))
}

fn begins(rest: &[&str], phrase: &[String]) -> bool {
    !phrase.is_empty()
        && rest.len() >= phrase.len()
        && phrase.iter().zip(rest).all(|(word, said)| word == said)
}

/// Whether a word is the Spanish imperative of a verb, with its object: `bórralo` of `borrar`.
fn is_told_to(verb: &str, word: &str) -> bool {
    let plain: String = word
        .nfd()
        .filter(|c| !('\u{300}'..='\u{36f}').contains(c))
        .collect();
    let stem = ["ar", "er", "ir"]
        .iter()
        .find_map(|ending| verb.strip_suffix(ending))
        .filter(|stem| stem.len() >= 3);
    let rest = stem.and_then(|stem| plain.strip_prefix(stem));
    let objects = ["lo", "la", "los", "las"];
    let object = rest.map(|rest| rest.trim_start_matches(['a', 'e']));
    let vowels = rest.map_or(0, str::len) - object.map_or(0, str::len);
    vowels == 1 && object.is_some_and(|object| objects.contains(&object))
}

/// The language of a tag without its region: `pt` of `pt-BR`.
fn base(tag: &str) -> &str {
    tag.split(['-', '_']).next().unwrap_or(tag)
}

fn phrases_of(tag: &str) -> Option<&'static Phrases> {
    all_phrases().get(&tag.to_ascii_lowercase())
}

fn all_phrases() -> &'static HashMap<String, Phrases> {
    static ALL: OnceLock<HashMap<String, Phrases>> = OnceLock::new();
    ALL.get_or_init(|| read(include_str!("tables/cards.txt")))
}

fn read(text: &str) -> HashMap<String, Phrases> {
    let mut all: HashMap<String, Phrases> = HashMap::new();
    let (mut tag, mut section) = (String::new(), "");
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(name) = line.strip_prefix("@ ") {
            tag = name.to_owned();
            all.entry(tag.clone()).or_default();
        } else if line.starts_with('[') {
            section = line;
        } else if let Some(phrases) = all.get_mut(&tag) {
            let list = match section {
                "[yes]" => &mut phrases.yes,
                "[soft]" => &mut phrases.soft,
                "[not]" => &mut phrases.not,
                _ => &mut phrases.object,
            };
            list.extend(line.split('|').map(split).filter(|phrase| !phrase.is_empty()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x54_a_verb_with_its_object_names_the_act() {
        for (verb, word, expected) in [
            ("borrar", "bórralo", true),
            ("borrar", "borrala", true),
            ("borrar", "bórrelos", true),
            ("borrar", "borra", false),
            ("borrar", "borrado", false),
            ("borrar", "borralolo", false),
            ("delete", "deletelo", false),
            ("ir", "ilo", false),
        ] {
            assert_eq!(is_told_to(verb, word), expected, "{verb} {word}");
        }
    }

    #[test]
    fn x54_no_phrase_is_in_two_sections_of_a_language() {
        for (tag, phrases) in all_phrases() {
            assert!(!phrases.yes.is_empty(), "{tag}");
            for soft in &phrases.soft {
                assert!(!phrases.yes.contains(soft), "{tag}: {soft:?}");
            }
        }
    }
}
