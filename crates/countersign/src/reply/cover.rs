//! Decides whether the phrases of a language and the name of the act cover a whole reply.
//!
//! A reply is covered if its words can be divided into listed phrases and names of the act, and the combination
//! approves under the requirements of the card. `card.rs` chooses the languages and labels.

use super::act::{ActWords, Named};
use super::card::{has_particle, is_condition};
use super::phrases::{Phrase, Phrases, all_phrases, begins, is_english, is_letter, phrases_of};
use super::word::is_unspaced;

/// Requirements of a card on the reply that approves it.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    /// True if a filler is not enough.
    pub(super) yes: bool,
    /// True if some words of the act approve only together with a yes.
    pub(super) yes_beside_act: bool,
    /// True if there are several calls, so that "delete it" may mean one of them.
    pub(super) more_than_act: bool,
    /// True if one of the reply's words is the plain yes of some language.
    pub(super) has_plain_yes: bool,
    /// True if the policy gives labels, so that "continue" may mean the denying label.
    pub(super) has_own_labels: bool,
    /// True if only a reply that names the act approves.
    pub(super) act_named: bool,
    /// True if the labels are so alike that only the plain yes or the act's own words approve.
    pub(super) plain_yes: bool,
}

const YES: u32 = 1 << 0;
const MILD: u32 = 1 << 1;
const THANKS: u32 = 1 << 2;
const ACT: u32 = 1 << 3;
/// A courtesy in a language other than English. (English requests to confirm something are listed under `[not]`.)
const COURTESY: u32 = 1 << 4;
const APPROVAL: u32 = 1 << 5;
const GO_ON: u32 = 1 << 6;
const ONWARD: u32 = 1 << 8;
/// A yes that is more than the plain word: "sure", "do it".
const LOOSE: u32 = 1 << 9;
/// Words of the act that refer to a single call: "delete it".
const SINGLE: u32 = 1 << 10;
/// A judgement such as "correct", which may refer to what the act objects to.
const JUDGEMENT: u32 = 1 << 11;
/// The act's verb without its object.
const BARE: u32 = 1 << 12;
/// The act's verb alone. The next words may be its object: "send thanks".
const OPEN: u32 = 1 << 13;
const PRAISE: u32 = 1 << 14;
/// A plain yes before the act is named.
const LED: u32 = 1 << 15;
/// The act's verb with a pronoun.
const PRONOUN: u32 = 1 << 16;
/// A mild yes, such as "fine", that may be a judgement of what the act is about.
const FAIR: u32 = 1 << 17;
/// The plainest yes of a language.
const PARTICLE: u32 = 1 << 18;
/// Words of the act that approve only after a yes.
const PARTIAL: u32 = 1 << 19;
/// Phrases that may be the object of an open verb.
const CONTENT: u32 = YES | MILD | THANKS | APPROVAL | GO_ON | ONWARD | JUDGEMENT | PRAISE | FAIR;

/// Returns true if the whole reply can be divided into listed phrases and at most one name of the act, and at least one
/// of these parts approves.
pub(super) fn is_covered(reply: &[&str], listed: &[&Phrases], act: &ActWords, needs: Needs) -> bool {
    // For each word boundary, the sets of bits that some reading reaches there.
    let mut reached: Vec<Vec<u32>> = vec![Vec::new(); reply.len() + 1];
    if let Some(first) = reached.first_mut() {
        first.push(0);
    }
    for start in 0..reply.len() {
        let states = reached.get(start).cloned().unwrap_or_default();
        if states.is_empty() {
            continue;
        }
        let rest = reply.get(start..).unwrap_or_default();
        let mut join = |length: usize, adds: u32| {
            let Some(end) = reached.get_mut(start + length) else {
                return;
            };
            for held in states.iter().filter(|held| may_follow(**held, adds)) {
                let led = if adds & ACT != 0 && held & PARTICLE != 0 {
                    LED
                } else {
                    0
                };
                let next = held | adds | led;
                if !end.contains(&next) {
                    end.push(next);
                }
            }
        };
        for phrases in listed {
            let courtesy = if is_english(phrases) { 0 } else { COURTESY };
            let lists = [
                (&phrases.yes, YES),
                (&phrases.judgement, YES | JUDGEMENT),
                (&phrases.onward, YES | ONWARD),
                (&phrases.mild, MILD),
                (&phrases.thanks, THANKS),
                (&phrases.soft, courtesy),
                (&phrases.approval, APPROVAL),
                (&phrases.go_on, GO_ON),
                (&phrases.praise, PRAISE),
                // In English, "fine" before a verb can also make the verb a noun.
                (
                    &phrases.fair,
                    MILD | FAIR | if courtesy == 0 { PRAISE } else { 0 },
                ),
            ];
            for (list, adds) in lists {
                for phrase in list.iter().filter(|phrase| begins(rest, phrase)) {
                    let is_plain = adds == YES && is_particle(phrase, phrases);
                    let is_loose = adds == YES && !is_plain;
                    let is_single = adds == APPROVAL && phrase.len() > 1 && ends_in_object(phrase, phrases);
                    let more = if is_loose { LOOSE } else { 0 }
                        | if is_single { SINGLE } else { 0 }
                        | if is_plain { PARTICLE } else { 0 };
                    join(phrase.len(), adds | more);
                }
            }
            for greeting in phrases.greeting.iter().filter(|_| start == 0) {
                if begins(rest, greeting) {
                    join(greeting.len(), 0);
                }
            }
            for lead in phrases.lead.iter().filter(|lead| begins(rest, lead)) {
                let behind = rest.get(lead.len()..).unwrap_or_default();
                for named in act.named(behind, listed) {
                    join(lead.len() + named.length, bits(named));
                }
            }
        }
        for named in act.named(rest, listed) {
            join(named.length, bits(named));
        }
    }
    // The first yes in a language's list is its plainest.
    let first_yes = listed.iter().filter_map(|phrases| phrases.yes.first());
    let says =
        |phrase: &Phrase| (0..reply.len()).any(|at| begins(reply.get(at..).unwrap_or_default(), phrase));
    let is_told = [["go", "ahead"], ["do", "it"]]
        .iter()
        .any(|told| reply.windows(2).any(|two| two == told));
    let has_plain_yes = needs.has_plain_yes || is_told || first_yes.into_iter().any(says);
    let has_particle = has_particle(reply, listed);
    let approves = |held: u32| {
        let has = |bits: u32| held & bits != 0;
        let is_clear = act.is_familiar && !act.refuses;
        // Words that may mean the opposite of an act that refuses or waits, another time, the other label, or only one
        // of several calls.
        let is_opposite = (act.refuses && has(APPROVAL | GO_ON))
            || (act.waits && has(ONWARD))
            // A judgement may refer to the object of the act: an invoice that is disputed may still be right.
            || (act.refuses && has(JUDGEMENT | FAIR))
            || (act.objects && has(MILD) && !has_particle)
            || (!is_clear && has(JUDGEMENT | APPROVAL | FAIR) && !has_particle)
            || (!act.is_familiar && has(GO_ON))
            || (!act.is_familiar && !act.refuses && has(ONWARD) && !has_particle)
            || (needs.has_own_labels && has(GO_ON))
            || (needs.plain_yes && has(LOOSE | JUDGEMENT | ONWARD | APPROVAL | GO_ON | MILD))
            || (needs.more_than_act && has(SINGLE))
            || (act.refuses && has(ACT) && !has(LED))
            || (act.is_verb_unclear && has(BARE) && !has(LED))
            || (act.is_object_unclear && has(BARE) && has(PARTIAL));
        let is_named = has(ACT) && (!has(PARTIAL) || has(LED) || !needs.yes_beside_act);
        if is_opposite || (needs.act_named && !is_named) {
            return false;
        }
        let is_mild = has(MILD) && !has(THANKS) && !needs.yes && !act.refuses;
        // "Please confirm" is a request for information.
        let is_request = held & (COURTESY | THANKS) != 0 && held & (ACT | MILD) == 0 && !has_plain_yes;
        let names_act = is_named && !needs.more_than_act;
        names_act || (has(YES | APPROVAL | GO_ON) && !is_request) || is_mild
    };
    reached.last().into_iter().flatten().any(|held| approves(*held))
}

/// Returns true if words of these kinds may follow the words read so far. The act is named at most once. Words after a
/// verb without an object may be its object ("send thanks", "tell him yes"), and praise before such a verb makes it a
/// noun ("great post").
fn may_follow(held: u32, adds: u32) -> bool {
    let is_again = held & adds & ACT != 0;
    let is_content = held & OPEN != 0 && adds & CONTENT != 0;
    let is_told = held & PRONOUN != 0 && adds & (CONTENT & !THANKS) != 0;
    let is_noun = held & (PRAISE | THANKS) != 0 && adds & OPEN != 0;
    !(is_again || is_content || is_told || is_noun)
}

/// Returns the bit flags for words that name the act.
fn bits(named: Named) -> u32 {
    let single = if named.is_verb_alone { 0 } else { SINGLE };
    let object = match (named.has_object, named.is_open) {
        (true, _) => 0,
        (false, true) => BARE | OPEN,
        (false, false) => BARE | PRONOUN,
    };
    let partial = if named.is_of_label { 0 } else { PARTIAL };
    ACT | single | object | partial
}

/// Returns true for the plainest yes of a language, alone or followed by a courtesy: "yes", "yes please".
pub(super) fn is_particle(phrase: &[String], phrases: &Phrases) -> bool {
    let plain = phrases.yes.first().into_iter();
    let rest = plain
        .filter_map(|plain| phrase.strip_prefix(plain.as_slice()))
        .next();
    let is_courtesy = |rest: &[String]| {
        phrases
            .soft
            .iter()
            .chain(&phrases.thanks)
            .any(|soft| soft == rest)
    };
    let is_plain_english =
        || is_english(phrases) && matches!(phrase, [word] if PLAIN.contains(&word.as_str()));
    rest.is_some_and(|rest| rest.is_empty() || is_courtesy(rest)) || is_plain_english()
}

pub(super) const PLAIN: [&str; 3] = ["yeah", "yep", "yup"];

fn ends_in_object(phrase: &[String], phrases: &Phrases) -> bool {
    let is_last = |object: &Phrase| phrase.ends_with(object);
    phrases.object.iter().any(is_last)
}

/// Returns true for a yes in a language other than the card's, if the person's language is not given: a single word of
/// the list `any`, several words that are phrases of one language, or such a yes followed by the act as the card names
/// it. Other single words are often names or English words.
pub(super) fn is_yes_of_another(reply: &[&str], act: &ActWords, needs: Needs) -> bool {
    let is_said = |any: &&Phrases| {
        let lists = [&any.yes, &any.approval, &any.go_on, &any.onward];
        let mut phrases = lists.into_iter().flatten();
        phrases.any(|phrase| phrase.iter().map(String::as_str).eq(reply.iter().copied()))
    };
    if matches!(reply, [word] if is_letter(word)) {
        return false;
    }
    if let Some(any) = phrases_of("any").filter(is_said) {
        return is_covered(reply, &[any], act, needs);
    }
    let others = all_phrases()
        .iter()
        .filter(|(tag, phrases)| !["any", "abroad"].contains(&tag.as_str()) && !phrases.has_particles_only);
    let nothing = act.unnamed();
    let is_doubled = reply
        .first()
        .is_some_and(|first| reply.iter().all(|word| word == first));
    // In scripts without spaces, two characters count as one word.
    let is_several = reply.len() > 1 && !(reply.len() == 2 && reply.iter().all(|word| is_unspaced(word)));
    is_several
        && !is_doubled
        && !is_condition(reply)
        && others.map(|(_, phrases)| phrases).any(|phrases| {
            let begins_with_yes = || {
                phrases
                    .yes
                    .iter()
                    .chain(&phrases.onward)
                    .chain(&phrases.mild)
                    .any(|yes| begins(reply, yes))
            };
            is_covered(reply, &[phrases], &nothing, needs)
                || (begins_with_yes() && is_covered(reply, &[phrases], act, needs))
        })
}
