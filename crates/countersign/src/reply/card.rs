//! Decides whether a reply that reads as a yes is plain enough to approve a card.
//!
//! The reply has been read as a yes with the language tables (`tables/english.txt` and the like). Prompts of other
//! programs have no act, and refusals need not be this plain, so neither is checked here.
//!
//! The language tables know answers to all kinds of questions, so they accept replies that must not approve a card:
//! "does it delete my contact" repeats the offer, and "Rob" is a Polish word. A card is approved only if every word
//! also belongs to a phrase of `tables/cards.txt` or to the name of the act. A card in a known language accepts phrases
//! of that language and a few English words, because a word that is a yes in a third language often means something
//! else. After any other reply the person is asked again.

use super::act::{ActWords, longest};
use super::cover::{Needs, PLAIN, is_covered, is_yes_of_another};
use super::language::{Tables, tables};
use super::offer::Offer;
use super::phrases::{
    Phrase, Phrases, all_phrases, base, begins, holds, is_english, is_letter, listed, phrases_of,
};
use super::word::{Words, is_unspaced, split};

/// How much a reply must contain to be plain enough for a card.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Enough {
    /// The exact approving label; no other reply is enough.
    IsLabel,
    /// A yes or the approving label.
    Yes,
    /// Also some words of the act without a yes, such as "delete it". These approve nothing; the person is asked again.
    SomeOfAct,
}

/// Returns true if a reply that reads as a yes is plain enough for a card. `said` is the tag of the person's language,
/// if given.
pub(super) fn approves(
    tables: &Tables,
    offer: &Offer<'_>,
    words: &Words,
    said: Option<&str>,
    enough: Enough,
) -> bool {
    let tag = said.or(offer.language()).unwrap_or("en");
    let reply: Vec<&str> = words.iter().collect();
    let reply = match (base(tag), reply.as_slice()) {
        ("en", ["y"]) => vec!["yes"],
        ("es", ["s"]) => vec!["sí"],
        _ => reply,
    };
    if matches!(reply.as_slice(), [word] if is_letter(word) && (base(tag), *word) != ("en", "k")) {
        return false;
    }
    if reply.iter().any(|word| may_be_negated(base(tag), word)) {
        return false;
    }
    let language = tables.language(tag);
    let act = ActWords::of(tables, offer, language, base(tag), &reply);
    let listed = listed(tag);
    if enough == Enough::IsLabel && !act.has_refusing_label {
        return true;
    }
    if act.is_turned || act.lacks_particle(&reply) || repeats_a_word(&reply, &listed) {
        return false;
    }
    let is_own_yes = |word: &&str| {
        let word = Words::of(word, 1);
        word.is_some_and(|word| tables.locale(tag, &word) == Some(true))
    };
    let has_plain_yes = reply
        .iter()
        .any(|word| is_plain_yes(tables, word) || is_own_yes(word));
    let is_reply = |phrase: &Phrase| phrase.iter().map(String::as_str).eq(reply.iter().copied());
    if all_phrases()
        .values()
        .any(|phrases| phrases.not.iter().any(is_reply))
        || never(&reply, &listed)
        || is_repeated(&reply)
    {
        return false;
    }
    let needs = Needs {
        yes: offer.needs_yes,
        yes_beside_act: enough != Enough::SomeOfAct,
        more_than_act: offer.numbered > 1,
        has_plain_yes,
        has_own_labels: offer.has_own_labels,
        // If the denying label itself agrees, such as "Approve" or "Continue", a yes may mean either button.
        act_named: has_agreeing_denial(tables, offer) || is_denial_inside(offer) || act.has_unclear_label,
        plain_yes: is_negated(offer)
            || act.has_not
            || act.has_contrary_label
            || is_begun_alike(offer)
            || !is_refusal(tables, offer),
    };
    if !needs.act_named && phrases_of(base(tag)).is_none() && tables.locale(tag, words) == Some(true) {
        return true;
    }
    // English is also the default for a card whose language is unknown, so a person may answer in another language.
    let is_open = said.is_none() && base(tag) == "en";
    if is_open && is_yes_of_another(&reply, &act, needs) {
        return true;
    }
    !is_condition(&reply) && is_covered(&reply, &listed, &act, needs)
}

/// Returns true for a word that may be a negated command: in Turkish and Azerbaijani, "silme" means both "deletion" and
/// "do not delete".
fn may_be_negated(language: &str, word: &str) -> bool {
    let is_turkic = matches!(language, "tr" | "az");
    is_turkic && ["ma", "me", "mə"].iter().any(|end| word.ends_with(end))
}

/// Returns true if a word other than a courtesy or an object occurs twice, as in "undo the undo".
fn repeats_a_word(reply: &[&str], listed: &[&Phrases]) -> bool {
    let content: Vec<String> = tokens(reply.iter().copied())
        .into_iter()
        .filter(|word| word.chars().any(char::is_alphabetic))
        .filter(|word| {
            !is_one_of(word, listed, |phrases| {
                [&phrases.object, &phrases.article, &phrases.soft]
            })
        })
        .collect();
    let is_again = |(at, word): (usize, &String)| content.iter().skip(at + 1).any(|later| later == word);
    content.iter().enumerate().any(is_again)
}

/// Returns true if a word is one of the phrases in these lists.
fn is_one_of<const N: usize>(word: &str, listed: &[&Phrases], of: fn(&Phrases) -> [&Vec<Phrase>; N]) -> bool {
    let mut phrases = listed.iter().flat_map(|phrases| of(phrases)).flatten();
    phrases.any(|phrase| phrase.iter().eq([word]))
}

/// Returns the words of a text. In scripts without spaces, where each character counts as a word, each pair of
/// neighbouring characters forms one word.
fn tokens<'w>(words: impl Iterator<Item = &'w str>) -> Vec<String> {
    let mut tokens = Vec::new();
    // The character before, and whether it is part of a token already.
    let mut before: Option<(&str, bool)> = None;
    for word in words {
        let is_next = is_unspaced(word);
        if let Some((last, is_used)) = before.take() {
            match is_next {
                true => tokens.push(format!("{last}{word}")),
                false if !is_used => tokens.push(last.to_owned()),
                false => {}
            }
            before = is_next.then_some((word, true));
        } else if is_next {
            before = Some((word, false));
        }
        if !is_next {
            tokens.push(word.to_owned());
        }
    }
    if let Some((last, false)) = before {
        tokens.push(last.to_owned());
    }
    tokens
}

/// Returns true if the reply contains a `[never]` phrase of the `listed` languages, or is as a whole one of any
/// language.
fn never(reply: &[&str], listed: &[&Phrases]) -> bool {
    let is_at =
        |phrase: &Phrase| (0..reply.len()).any(|at| begins(reply.get(at..).unwrap_or_default(), phrase));
    listed.iter().any(|phrases| phrases.never.iter().any(is_at))
        || all_phrases().values().any(|phrases| {
            let is_whole = |phrase: &Phrase| phrase.iter().map(String::as_str).eq(reply.iter().copied());
            phrases.never.iter().any(is_whole)
        })
}

/// Returns true if a reply consists of the same words again and again, as in "ja, ja" or "да да", which people often do
/// not mean.
fn is_repeated(reply: &[&str]) -> bool {
    // Chinese "好是好" concedes something before a "but", and "好是" breaks off before it.
    let concedes = |three: &[&str]| matches!(three, [first, "是", last] if first == last);
    if reply.windows(3).any(concedes) || matches!(reply, [.., before, "是"] if *before != "是") {
        return true;
    }
    let is_word = |word: &&str| word.chars().any(char::is_alphabetic);
    let repeats = |length: usize| {
        let (first, rest) = reply.split_at(length);
        reply.len().is_multiple_of(length) && rest.chunks(length).all(|chunk| chunk == first)
    };
    reply.iter().any(is_word) && (1..=reply.len() / 2).any(repeats)
}

/// Returns true if a reply may mean the denying label: it has a word that only this label has, or a word of both labels
/// (or one that means the same as a word of the denying label) and none that only the approving label has.
pub(super) fn may_mean_no(offer: &Offer<'_>, words: &Words, said: Option<&str>) -> bool {
    let tag = said.or(offer.language()).unwrap_or("en");
    let listed = listed(tag);
    let (yes, no) = offer.labels();
    let (yes_words, no_words) = (split(yes), split(no));
    let (yes, no) = (of_label(&yes_words), of_label(&no_words));
    let is_in = |label: &[String], word: &str| label.iter().any(|of_label| of_label == word);
    let said: Vec<String> = tokens(words.iter())
        .into_iter()
        .filter(|word| !is_one_of(word, &listed, |phrases| [&phrases.object, &phrases.article]))
        .collect();
    // With the denying label "Don't send", the reply "send" is plain; with "Send later", it is not.
    let is_negation = is_negation(&yes_words, &no_words);
    // With the denying label "Do not send", the reply "do it" does not count as repeating the "do".
    let is_auxiliary = |word: &str| is_negation && word == "do";
    if said
        .iter()
        .any(|word| is_in(&no, word) && !is_in(&yes, word) && !is_auxiliary(word))
    {
        return true;
    }
    if is_negation {
        return false;
    }
    let means_no = |word: &String| {
        let mut groups = all_phrases().values().flat_map(|phrases| &phrases.same);
        let is_word = |verb: &Phrase| verb.iter().eq([word]);
        let is_of_no = |verb: &Phrase| matches!(verb.as_slice(), [same] if is_in(&no, same));
        is_in(&no, word) || groups.any(|group| group.iter().any(is_word) && group.iter().any(is_of_no))
    };
    let is_telling = |word: &String| is_in(&yes, word) && !is_in(&no, word);
    said.iter().any(means_no) && !said.iter().any(is_telling)
}

/// Returns true if the denying label only negates the approving one.
fn is_negation(yes: &[String], no: &[String]) -> bool {
    let beside = no.iter().filter(|word| !yes.contains(word));
    let beside: Vec<&str> = beside.map(String::as_str).collect();
    let is_not = |word: &str| NOT.contains(&word);
    !beside.is_empty() && (beside.iter().all(|word| is_not(word)) || is_not(&beside.concat()))
}

fn of_label(words: &[String]) -> Vec<String> {
    tokens(words.iter().map(String::as_str))
}

/// Words that negate the rest of a denying label.
pub(super) const NOT: [&str; 74] = [
    "ekki",
    "nahi",
    "nahin",
    "mat",
    "yok",
    "etme",
    "yapma",
    "etmeyin",
    "금지",
    "하지",
    "않기",
    "말기",
    "no",
    "dont",
    "do",
    "not",
    "never",
    "none",
    "wont",
    "cant",
    "cannot",
    "mustnt",
    "shouldnt",
    "doesnt",
    "isnt",
    "arent",
    "keine",
    "keinen",
    "keinem",
    "keiner",
    "niemals",
    "nie wieder",
    "geen",
    "nooit",
    "ingen",
    "aldrig",
    "aldri",
    "nunca",
    "jamás",
    "jamais",
    "nigdy",
    "nikdy",
    "soha",
    "никогда",
    "nicht",
    "nein",
    "kein",
    "ne",
    "pas",
    "non",
    "não",
    "nao",
    "niet",
    "nee",
    "nie",
    "nej",
    "nei",
    "inte",
    "ikke",
    "ei",
    "не",
    "нет",
    "ні",
    "nem",
    "nu",
    "không",
    "jangan",
    "tidak",
    "لا",
    "不",
    "不要",
    "别",
    "しない",
    "ไม่",
];

/// Returns true if a reply grants all of several calls: "all", "yes, all of them", "approve all", "delete them". If the
/// offer needs a yes, "all" alone is not enough; neither is "delete them", if the label is not that verb.
pub(super) fn grants_all(tables: &Tables, offer: &Offer<'_>, words: &Words, said: Option<&str>) -> bool {
    if offer.numbered < 2 || !offer.is_card() || has_agreeing_denial(tables, offer) {
        return false;
    }
    let tag = said.or(offer.language()).unwrap_or("en");
    let reply: Vec<&str> = words.iter().collect();
    let act = ActWords::of(tables, offer, tables.language(tag), base(tag), &reply);
    let listed = listed(tag);
    let longest = |at: usize, of: fn(&Phrases) -> &Vec<Phrase>| {
        longest(reply.get(at..).unwrap_or_default(), &listed, of)
    };
    let courtesies = |mut at: usize| {
        while let Some(length) = longest(at, |phrases| &phrases.soft) {
            at += length;
        }
        at
    };
    let mut at = courtesies(0);
    let mut is_plain = !offer.needs_yes;
    let mut has_yes = false;
    let approval = longest(at, |phrases| &phrases.approval).filter(|_| !act.refuses);
    let onward = longest(at, |phrases| &phrases.onward).filter(|_| !act.waits);
    if let Some(length) = longest(at, |phrases| &phrases.yes).max(approval).max(onward) {
        (is_plain, has_yes) = (true, true);
        at = courtesies(at + length);
    }
    let verb = act.verb(reply.get(at..).unwrap_or_default(), &listed);
    let is_verb = verb.is_some();
    if let Some(length) = verb {
        is_plain = has_yes || act.has_verb_label;
        at += length;
    }
    // "Cancel all" may also mean to cancel the calls of the card.
    is_plain &= !act.refuses || has_particle(&reply, &listed);
    const THEM: [&str; 3] = ["them", "these", "those"];
    // "Both" means exactly two.
    let is_count = |at: usize| reply.get(at) != Some(&"both") || offer.numbered == 2;
    let all = longest(at, |phrases| &phrases.all).filter(|_| is_count(at));
    let them = reply.get(at).filter(|word| is_verb && THEM.contains(word));
    match all.or(them.map(|_| 1)) {
        Some(length) => is_plain && courtesies(at + length) == reply.len(),
        None => false,
    }
}

/// Returns true if the denying label itself agrees, such as "Continue". A label that begins with a no does not: "No,
/// keep it".
fn has_agreeing_denial(tables: &Tables, offer: &Offer<'_>) -> bool {
    offer.no.as_deref().is_some_and(|no| {
        let first = split(no).into_iter().next();
        let is_no = first.is_some_and(|first| NOT.contains(&first.as_str()));
        !is_no && agrees(tables, no)
    })
}

/// Returns true if all words of the denying label occur in the approving one, as with "Review" and "Skip review". A yes
/// may then mean either button.
fn is_denial_inside(offer: &Offer<'_>) -> bool {
    let (yes, no) = offer.labels();
    let (yes, no) = (of_label(&split(yes)), of_label(&split(no)));
    !no.is_empty() && no.iter().all(|word| yes.contains(word))
}

/// Returns true if the approving label is negated: "Don't send", "Not now".
fn is_negated(offer: &Offer<'_>) -> bool {
    let is_not = |word: &String| word != "do" && NOT.contains(&word.as_str());
    split(offer.labels().0).iter().any(is_not)
}

/// Returns true if the denying label is known to refuse, defer or keep something, or if there is none. Any other
/// denying label, such as "Contest" next to "Pay", may be an answer of its own, and "that's fine" may mean that one.
fn is_refusal(tables: &Tables, offer: &Offer<'_>) -> bool {
    let Some(no) = offer.no.as_deref() else {
        return true;
    };
    let words = split(no);
    let is_no = |word: &String| NOT.contains(&word.as_str()) || tables.anywhere(word) == (false, true);
    let is_listed = |phrases: &Phrases| {
        let mut refusals = phrases.refuse.iter().chain(&phrases.wait).chain(&phrases.dont);
        refusals.any(|refusal| holds(&words, refusal))
    };
    let is_negated = is_negation(&split(offer.labels().0), &words);
    is_negated || words.iter().any(is_no) || all_phrases().values().any(is_listed)
}

/// Returns true if both labels begin with the same word, as "Pay later" and "Pay now" do.
fn is_begun_alike(offer: &Offer<'_>) -> bool {
    let (yes, no) = offer.labels();
    let (yes_words, no_words) = (split(yes), split(no));
    let (yes, no) = (of_label(&yes_words), of_label(&no_words));
    !yes.is_empty() && yes.first() == no.first() && !is_negation(&yes_words, &no_words)
}

/// Returns true if a word alone means yes in at least one locale and no in none.
fn is_plain_yes(tables: &Tables, word: &str) -> bool {
    tables.anywhere(word) == (true, false) && !is_letter(word)
}

/// Returns true if a label says yes or lets things go on, in any language: "OK, keep it", "Continue", "はい、続ける".
pub(super) fn agrees(tables: &Tables, label: &str) -> bool {
    let words = split(label);
    let is_listed = |phrases: &Phrases| {
        let lists = [
            &phrases.yes,
            &phrases.judgement,
            &phrases.approval,
            &phrases.go_on,
            &phrases.onward,
            &phrases.mild,
            &phrases.fair,
            &phrases.praise,
            &phrases.opposite,
        ];
        lists.into_iter().flatten().any(|phrase| holds(&words, phrase))
    };
    words.iter().any(|word| is_plain_yes(tables, word)) || all_phrases().values().any(is_listed)
}

/// Returns true if the reply may contain an "if": without its accent, the Spanish or Italian word for "yes" is the one
/// for "if".
pub(super) fn is_condition(reply: &[&str]) -> bool {
    const BESIDE: [&str; 7] = ["si", "por", "favor", "gracias", "per", "favore", "grazie"];
    // A verb with its object attached is a command: "si, bórralo". If the verb comes before the "si", it is not enough:
    // "bórralo si …" is a condition.
    let is_command = |word: &&str| word.len() > 4 && (word.ends_with("lo") || word.ends_with("la"));
    let is_first = reply.first() == Some(&"si") && reply.iter().skip(1).all(|word| *word != "si");
    let is_plain = |word: &&str| BESIDE.contains(word) || (is_first && is_command(word));
    reply.contains(&"si") && !reply.iter().all(is_plain)
}

/// Returns true if a reply may approve although the language tables do not know all of its words: it names the act, or
/// its language is not English.
pub(super) fn may_be_unknown(offer: &Offer<'_>, words: &Words, said: Option<&str>) -> bool {
    let tag = said.or(offer.language()).unwrap_or("en");
    let reply: Vec<&str> = words.iter().collect();
    let act = ActWords::of(tables(), offer, tables().language(tag), base(tag), &reply);
    let listed = listed(tag);
    let names_act = |at: usize| !act.named(reply.get(at..).unwrap_or_default(), &listed).is_empty();
    base(tag) != "en" || (0..reply.len()).any(names_act)
}

/// Returns true if a reply begins, after courtesies, by naming an act that refuses or stops something.
pub(super) fn names_refusing_act(offer: &Offer<'_>, words: &Words, said: Option<&str>) -> bool {
    let tag = said.or(offer.language()).unwrap_or("en");
    let reply: Vec<&str> = words.iter().collect();
    let listed = listed(tag);
    let mut at = 0;
    while let Some(length) = longest(reply.get(at..).unwrap_or_default(), &listed, |phrases| {
        &phrases.soft
    }) {
        at += length;
    }
    refusing_act_at(offer, said, &reply)
        .first()
        .is_some_and(|first| *first == at)
}

/// Returns true if a reply names, in any position, an act that refuses or stops something.
pub(super) fn holds_refusing_act(offer: &Offer<'_>, words: &Words, said: Option<&str>) -> bool {
    let reply: Vec<&str> = words.iter().collect();
    !refusing_act_at(offer, said, &reply).is_empty()
}

/// Returns the positions at which a reply names an act that refuses or stops something.
fn refusing_act_at(offer: &Offer<'_>, said: Option<&str>, reply: &[&str]) -> Vec<usize> {
    let tag = said.or(offer.language()).unwrap_or("en");
    let act = ActWords::of(tables(), offer, tables().language(tag), base(tag), reply);
    let listed = listed(tag);
    let is_named = |at: &usize| {
        !act.named(reply.get(*at..).unwrap_or_default(), &listed)
            .is_empty()
    };
    match act.refuses {
        true => (0..reply.len()).filter(is_named).collect(),
        false => Vec::new(),
    }
}

/// Returns true if a reply contains the plainest yes of the card's language.
pub(super) fn has_plain_yes(offer: &Offer<'_>, words: &Words, said: Option<&str>) -> bool {
    let tag = said.or(offer.language()).unwrap_or("en");
    let reply: Vec<&str> = words.iter().collect();
    has_particle(&reply, &listed(tag))
}

/// Returns true if a reply contains the plainest yes of one of the languages.
pub(super) fn has_particle(reply: &[&str], listed: &[&Phrases]) -> bool {
    let says =
        |phrase: &Phrase| (0..reply.len()).any(|at| begins(reply.get(at..).unwrap_or_default(), phrase));
    let first = listed.iter().filter_map(|phrases| phrases.yes.first());
    let is_english = listed.iter().any(|phrases| is_english(phrases));
    first.into_iter().any(says) || (is_english && PLAIN.iter().any(|yes| reply.contains(yes)))
}

/// Returns true if a glue word only refers to what was offered ("it") or introduces it ("the"). True for every word of
/// a language without phrases.
pub(super) fn is_object(tag: &str, word: &str) -> bool {
    const MORE: [&str; 10] = [
        "my", "our", "these", "those", "them", "all", "one", "ones", "both", "some",
    ];
    let is_word = |phrase: &Phrase| phrase.len() == 1 && phrase.first().is_some_and(|first| first == word);
    match phrases_of(tag) {
        Some(phrases) if !phrases.has_particles_only => {
            let mut words = phrases.object.iter().chain(&phrases.article);
            words.any(is_word) || (tag == "en" && MORE.contains(&word))
        }
        _ => true,
    }
}

/// Returns true if `word` is an article or a possessive. A reply that ends with one is incomplete.
pub(super) fn is_article(tag: &str, word: &str) -> bool {
    let is_word = |phrase: &Phrase| phrase.len() == 1 && phrase.first().is_some_and(|first| first == word);
    let is_listed = phrases_of(tag).is_some_and(|phrases| phrases.article.iter().any(is_word));
    is_listed || (tag == "en" && ["my", "our", "your"].contains(&word))
}

/// Returns the language of an operator's own words about an act, judged by the verb: `de` for "Kontakt löschen".
/// Returns `None` if the verb is also English or belongs to several languages.
pub(super) fn language_of_act<'w>(words: impl Iterator<Item = &'w str>) -> Option<&'static str> {
    let names = |phrases: &Phrases, word: &String| {
        let mut verbs = phrases.same.iter().flatten();
        verbs.any(|verb| verb.iter().eq([word]))
    };
    let mut found: Option<&'static str> = None;
    for word in words.flat_map(split) {
        if phrases_of("en").is_some_and(|english| names(english, &word)) {
            return None;
        }
        let mut of_word = all_phrases().iter().filter(|(_, phrases)| names(phrases, &word));
        match (of_word.next(), of_word.next(), found) {
            (Some((tag, _)), None, None) => found = Some(tag),
            (Some((tag, _)), None, Some(other)) if tag != other => return None,
            _ => {}
        }
    }
    found
}
