//! The phrases with which people answer cards, read from `tables/cards.txt`.
//!
//! Each language has lists of phrases. `card.rs` determines what a reply made of them means, and `act.rs` finds the
//! words that name the act.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::word::split;

pub(super) type Phrase = Vec<String>;

/// Phrases of one language. The sections are described in `tables/cards.txt`.
#[derive(Default)]
pub(super) struct Phrases {
    pub(super) yes: Vec<Phrase>,
    /// Like `yes`, but not for an act that refuses or is unknown: "correct" may refer to what the act objects to.
    pub(super) judgement: Vec<Phrase>,
    /// Like `yes`, but not for an act that refuses.
    pub(super) approval: Vec<Phrase>,
    /// Like `yes`, but only for an act that does not refuse, on a card without labels of its own.
    pub(super) go_on: Vec<Phrase>,
    pub(super) praise: Vec<Phrase>,
    /// Like `yes`, but not for an act that refuses, stops or waits.
    pub(super) onward: Vec<Phrase>,
    /// Verbs of acts that make something wait or keep it as it is.
    pub(super) wait: Vec<Phrase>,
    /// Verbs of acts that refuse, stop, undo or defer.
    pub(super) refuse: Vec<Phrase>,
    /// Words of a denying label that lets things continue.
    pub(super) opposite: Vec<Phrase>,
    /// Words that narrow what an act does or join another act to it.
    pub(super) except: Vec<Phrase>,
    /// Prepositions that begin another part of an act, such as "to".
    pub(super) part: Vec<Phrase>,
    /// Prepositions that introduce a value with its name, such as "with".
    pub(super) with: Vec<Phrase>,
    /// Words that belong to the verb before them, such as "up".
    pub(super) particle: Vec<Phrase>,
    /// Words that say when, how often or how much.
    pub(super) narrow: Vec<Phrase>,
    /// Nouns that name acts. After another noun they are the act, as in "order cancellation".
    pub(super) noun: Vec<Phrase>,
    /// Nouns for things that prevent, end or reduce what the verb before them does, as in "delete protection".
    pub(super) counter: Vec<Phrase>,
    /// Nouns for things that a verb before them acts on.
    pub(super) thing: Vec<Phrase>,
    /// Verbs that can also be nouns.
    pub(super) both: Vec<Phrase>,
    /// Words that negate a verb.
    pub(super) dont: Vec<Phrase>,
    /// Forms that a verb of `same` has only after a word of `dont`. There is one list per act; its first entry is a
    /// verb of that act's list in `same`.
    pub(super) unsaid: Vec<Vec<Phrase>>,
    /// Like `unsaid`, but for forms that refuse by themselves: negated ones, and verbs for the opposite, such as
    /// "keep".
    pub(super) against: Vec<Vec<Phrase>>,
    /// True if the table lists little more than the plain yes for this language.
    pub(super) has_particles_only: bool,
    pub(super) soft: Vec<Phrase>,
    pub(super) thanks: Vec<Phrase>,
    /// Like `yes`, but not enough if the offer needs an explicit yes.
    pub(super) mild: Vec<Phrase>,
    pub(super) object: Vec<Phrase>,
    pub(super) article: Vec<Phrase>,
    pub(super) lead: Vec<Phrase>,
    /// Verbs that name the same act, one list per act.
    pub(super) same: Vec<Vec<Phrase>>,
    /// Further verbs that neither object to something nor put it off.
    pub(super) familiar: Vec<Phrase>,
    /// Phrases that are a yes only where "approved" would be one: they may judge the object of the act.
    pub(super) fair: Vec<Phrase>,
    /// Words that object to something or examine it, so that "approved" may refer to that thing.
    pub(super) objection: Vec<Phrase>,
    /// Verbs that may refer to the card itself, such as "change".
    pub(super) of_card: Vec<Phrase>,
    /// True if sentences of this language may put the verb after its object.
    pub(super) is_verb_last: bool,
    /// True if a command begins with its verb although other sentences end with theirs.
    pub(super) has_commands_first: bool,
    pub(super) not: Vec<Phrase>,
    /// Like `not`, but counts anywhere in a reply.
    pub(super) never: Vec<Phrase>,
    /// Greetings. Allowed only at the beginning of a reply: elsewhere the same words may have another meaning.
    pub(super) greeting: Vec<Phrase>,
    /// Phrases that mean all of several calls.
    pub(super) all: Vec<Phrase>,
}

/// Returns true for a single letter of an alphabet. Many languages shorten yes to one letter, but the same letter is a
/// no or a word of its own in another. A character of Chinese or Korean is a word.
pub(super) fn is_letter(word: &str) -> bool {
    let mut letters = word.chars();
    let is_letter = letters
        .next()
        .is_some_and(|c| c.is_alphabetic() && c < '\u{2e80}');
    is_letter && letters.next().is_none()
}

/// Returns true if `words` contain `phrase`. Always false for a phrase of a single letter.
pub(super) fn holds(words: &[String], phrase: &[String]) -> bool {
    let is_letter = |phrase: &[String]| matches!(phrase, [word] if is_letter(word));
    !phrase.is_empty() && !is_letter(phrase) && words.windows(phrase.len()).any(|part| part == phrase)
}

pub(super) fn begins(rest: &[&str], phrase: &[String]) -> bool {
    !phrase.is_empty()
        && rest.len() >= phrase.len()
        && phrase.iter().zip(rest).all(|(word, said)| word == said)
}

/// Returns true for the phrases of English.
pub(super) fn is_english(phrases: &Phrases) -> bool {
    phrases_of("en").is_some_and(|english| std::ptr::eq(english, phrases))
}

/// Returns a tag without its region, in the form that `tables/cards.txt` uses: `pt` for `pt-BR`, `no` for `nb`.
pub(super) fn base(tag: &str) -> &str {
    match tag.split(['-', '_', '.', '@']).next().unwrap_or(tag) {
        "nb" | "nn" => "no",
        "iw" => "he",
        "in" => "id",
        "tl" => "fil",
        "sh" => "hr",
        base => base,
    }
}

/// Returns the phrases that answer a card in this language: its own, and the few English words that are used
/// everywhere.
pub(super) fn listed(tag: &str) -> Vec<&'static Phrases> {
    let beside = (base(tag) != "en").then(|| phrases_of("abroad")).flatten();
    [phrases_of(base(tag)), beside].into_iter().flatten().collect()
}

pub(super) fn phrases_of(tag: &str) -> Option<&'static Phrases> {
    all_phrases().get(&tag.to_ascii_lowercase())
}

pub(super) fn all_phrases() -> &'static HashMap<String, Phrases> {
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
            if let Some(phrases) = all.get_mut(&tag) {
                phrases.is_verb_last |= line == "[verb last]";
                phrases.has_commands_first |= line == "[commands first]";
                phrases.has_particles_only |= line == "[particles only]";
            }
        } else if let Some(phrases) = all.get_mut(&tag) {
            let read = line.split('|').map(split).filter(|phrase| !phrase.is_empty());
            let list = match section {
                "[yes]" => &mut phrases.yes,
                "[judgement]" => &mut phrases.judgement,
                "[mild]" => &mut phrases.mild,
                "[approval]" => &mut phrases.approval,
                "[go on]" => &mut phrases.go_on,
                "[praise]" => &mut phrases.praise,
                "[refuse]" => &mut phrases.refuse,
                "[opposite]" => &mut phrases.opposite,
                "[except]" => &mut phrases.except,
                "[soft]" => &mut phrases.soft,
                "[thanks]" => &mut phrases.thanks,
                "[not]" => &mut phrases.not,
                "[never]" => &mut phrases.never,
                "[greeting]" => &mut phrases.greeting,
                "[all]" => &mut phrases.all,
                "[article]" => &mut phrases.article,
                "[lead]" => &mut phrases.lead,
                "[onward]" => &mut phrases.onward,
                "[familiar]" => &mut phrases.familiar,
                "[fair]" => &mut phrases.fair,
                "[objection]" => &mut phrases.objection,
                "[of card]" => &mut phrases.of_card,
                "[wait]" => &mut phrases.wait,
                "[part]" => &mut phrases.part,
                "[with]" => &mut phrases.with,
                "[particle]" => &mut phrases.particle,
                "[narrow]" => &mut phrases.narrow,
                "[noun]" => &mut phrases.noun,
                "[counter]" => &mut phrases.counter,
                "[thing]" => &mut phrases.thing,
                "[both]" => &mut phrases.both,
                "[dont]" => &mut phrases.dont,
                "[same]" | "[unsaid]" | "[against]" => {
                    let lists = match section {
                        "[same]" => &mut phrases.same,
                        "[unsaid]" => &mut phrases.unsaid,
                        _ => &mut phrases.against,
                    };
                    lists.push(read.collect());
                    continue;
                }
                _ => &mut phrases.object,
            };
            list.extend(read);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x54_no_phrase_is_in_two_sections_of_a_language() {
        for (tag, phrases) in all_phrases() {
            assert!(!phrases.yes.is_empty(), "{tag}");
            let weaker = [
                &phrases.judgement,
                &phrases.approval,
                &phrases.go_on,
                &phrases.praise,
                &phrases.onward,
            ];
            let weaker = weaker.into_iter().flatten().chain(&phrases.soft);
            for soft in weaker.chain(&phrases.mild).chain(&phrases.thanks) {
                assert!(!phrases.yes.contains(soft), "{tag}: {soft:?}");
            }
            for article in &phrases.article {
                assert!(!phrases.object.contains(article), "{tag}: {article:?}");
            }
        }
    }
}
