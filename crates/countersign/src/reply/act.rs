//! The words of a card that name its act, and where a reply may use them.
//!
//! Given a reply from some word on, this module counts the words that name the act of the card. Words that mean yes are
//! handled in `card.rs`.
//!
//! A word names the act only in the right position: in the summary "Undo the delete of …", "delete" is not the act but
//! what is undone. The verb is the first word of the label or the summary, or the last word in languages that put the
//! verb last. After the verb, a reply may say "it" or the whole object. If more follows the object ("twice", "to delete
//! a contact", "from savings"), the verb is not enough, and only the label or all of the words name the act.
//!
//! INVARIANT: without a yes, only the label or its verb approves ([`Named::is_of_label`]). No list of
//! nouns can tell whether the first word of a summary is the act: in "Delete protection" and "Order hold" it is not.

use unicode_normalization::UnicodeNormalization as _;

use super::card::{NOT, agrees};
use super::kind::{Kinds, PieceKind};
use super::language::{Language, Tables};
use super::offer::{Offer, OfferWords};
use super::phrases::{Phrase, Phrases, all_phrases, begins, holds, is_english, phrases_of};
use super::word::{Words, is_unspaced, split};
use crate::policy::Act;

/// Words of a card that name its act, and properties of the act that limit what counts as a yes.
#[derive(Default)]
pub(super) struct ActWords {
    /// Label of the approving button.
    label: Phrase,
    names: Vec<Name>,
    /// True if the act refuses, stops, undoes or defers something, so that a reply with its verb may also refuse the
    /// card.
    pub(super) refuses: bool,
    /// True if the approving label alone refuses, stops, undoes or defers something.
    pub(super) has_refusing_label: bool,
    /// True if the act objects to something or examines it, so that "ok" may refer to that thing.
    pub(super) objects: bool,
    /// True if the act waits or keeps something as it is, so that "go ahead" may mean not to wait.
    pub(super) waits: bool,
    /// True if the card does not name its act, or names it with a known verb. An unknown verb may object to something
    /// ("Dispute charge") or put it off ("Shelve project"), so that "approved" and "go ahead" may mean the opposite.
    pub(super) is_familiar: bool,
    /// True if the act's verb alone may mean something else: it may refer to the card ("please change"), or it is in no
    /// list, and many verbs are idioms for a no ("table it", "park it").
    pub(super) is_verb_unclear: bool,
    /// True if the act is negated and the reply repeats a word of it without the negation, such as "do it" to "Do not
    /// notify".
    pub(super) is_turned: bool,
    /// True if one of the act's words negates or doubts the others.
    pub(super) is_negated: bool,
    /// True if the act contains a "not", so that "do it" may mean the opposite.
    pub(super) has_not: bool,
    /// True if the approving label refuses or stops something that the act does not: "Reject" to "Pay invoice".
    pub(super) has_contrary_label: bool,
    /// True if the approving label is neither a verb nor a yes ("Off", "Without"), so that only the exact label
    /// approves.
    pub(super) has_unclear_label: bool,
    /// True if the operator's approving label is the act's verb and nothing else, so that "delete it" repeats it.
    pub(super) has_verb_label: bool,
    /// True if the noun after the act's verb may be the noun of another act ("Transfer limit"), so that the verb
    /// without its object may mean the opposite.
    pub(super) is_object_unclear: bool,
    /// True if the act has words besides its verb and object, so that repeating these two is not enough.
    is_more: bool,
}

/// One of the texts by which the card names its act: the label, the summary or the title.
#[derive(Clone, Debug, Default)]
struct Name {
    /// All words of the text except values, in order.
    whole: Phrase,
    /// The verb; empty if it could not be found.
    verb: Phrase,
    /// Words directly after the verb (or before it, in languages with the verb last), without articles.
    object: Phrase,
    /// True if the verb is in a list. Any other first word may be a noun: "Order hold".
    is_known: bool,
    is_verb_last: bool,
    is_more: bool,
    /// See [`ActWords::is_object_unclear`].
    is_object_unclear: bool,
}

/// A part of a reply that names the act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// Number of words in this part of the reply.
    pub(super) length: usize,
    /// True if the words are only the verb, exactly as on the card. The verb alone may refer to several calls.
    pub(super) is_verb_alone: bool,
    /// True if the words also name the object, instead of leaving it out or saying "it".
    pub(super) has_object: bool,
    /// True if neither an object nor a pronoun follows the verb, so that the next words may be its object.
    pub(super) is_open: bool,
    /// True if the words repeat the approving label, or begin with the verb that is the whole label. Other words of the
    /// act approve only after a yes.
    pub(super) is_of_label: bool,
}

/// How a reply refers to the act's object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Object {
    Missing,
    Pronoun,
    Named,
}

impl ActWords {
    pub(super) fn of(
        tables: &Tables,
        offer: &Offer<'_>,
        language: Option<&Language>,
        tag: &str,
        reply: &[&str],
    ) -> ActWords {
        let label = offer.yes.as_deref().map(split).unwrap_or_default();
        let (own, act) = match &offer.words {
            OfferWords::Act { label, act } => (label.as_deref(), act.as_ref()),
            OfferWords::Text(_) => (None, None),
        };
        let own_words = own.map(split).unwrap_or_default();
        let act_words = act.map(|act| split(act.text())).unwrap_or_default();
        let in_either = |of: fn(&Phrases) -> &Vec<Phrase>| {
            let is_in = |words: &[String]| {
                let mut verbs = all_phrases().values().flat_map(of);
                verbs.any(|verb| holds(words, verb))
            };
            is_in(&own_words) || is_in(&act_words)
        };
        let refuses = in_either(|phrases| &phrases.refuse);
        let has_refusing_label = {
            let mut verbs = all_phrases().values().flat_map(|phrases| &phrases.refuse);
            verbs.any(|verb| holds(&label, verb))
        };
        let offered: Vec<&String> = own_words.iter().chain(&act_words).collect();
        let is_never = |word: &&String| NEVER.contains(&word.as_str());
        let waits = in_either(|phrases| &phrases.wait) || offered.iter().any(is_never);
        let languages = [language, tables.english()];
        // "Yes, charge" does not name the act "never charge again".
        let is_part = |word: &String| {
            let own = phrases_of(tag);
            own.is_some_and(|own| own.part.iter().any(|part| part.iter().eq([word])))
        };
        let turns = |word: &String| {
            if is_part(word) {
                return false;
            }
            let id = tables.lexicon.find(word);
            let kinds = |language: &&Language| id.map_or(Kinds::NONE, |id| language.automaton.alone(id));
            languages
                .iter()
                .flatten()
                .any(|language| turns(kinds(language)) || NEVER.contains(&word.as_str()))
        };
        let title = act.filter(|act| act.has_title()).map(|act| act.title());
        let mut texts = [own, act.and_then(|act| act.summary()), title]
            .into_iter()
            .flatten()
            .peekable();
        let is_verb_last = phrases_of(tag).is_some_and(|phrases| phrases.is_verb_last);
        let has_known_verbs = match texts.peek() {
            Some(_) => texts.all(|text| has_known_verb(&split(text), is_verb_last)),
            None => act.map_or(offer.numbered < 2, |act| {
                has_known_verb(&split(act.title()), is_verb_last)
            }),
        };
        let objects = in_either(|phrases| &phrases.objection) || in_either(|phrases| &phrases.counter);
        // The value after the colon in "Post …: …" may be "unpublish".
        let is_in_value = act.and_then(|act| act.summary()).is_some_and(ends_in_named_value);
        let is_familiar = has_known_verbs && !objects && !is_in_value;
        let reader = NameReader::new(tables, language, tag);
        let of_label = own.and_then(|own| reader.read(own, own, true));
        let has_verb = of_label.as_ref().is_some_and(|name| !name.verb.is_empty());
        let has_verb_label = of_label.as_ref().is_some_and(|name| {
            has_verb && own_words.ends_with(&name.verb) && name.object.is_empty() && !name.is_more
        });
        let is_of_act = own_words.iter().any(|word| act_words.contains(word));
        let has_contrary_label = own.is_some() && has_refusing_label && !is_of_act;
        let has_unclear_label = !has_verb
            && !is_of_act
            && !has_refusing_label
            && own.is_some_and(|own| is_function_word(own) && !agrees(tables, own));
        let is_negated = offered.iter().any(|word| turns(word));
        let has_not = negates(&own_words, tag) || negates(&act_words, tag);
        let is_told = |word: &&String| !turns(word) || reply.contains(&word.as_str());
        if !offered.iter().all(is_told) {
            // The "yes" of the label "Yes, cancel" is no word of the act.
            let is_yes = |word: &str| tables.anywhere(word) == (true, false);
            let is_repeated = |word: &str| reply.contains(&word) && !is_yes(word);
            return ActWords {
                refuses,
                has_refusing_label,
                objects,
                waits,
                is_familiar,
                is_negated,
                has_not,
                has_contrary_label,
                has_unclear_label,
                is_turned: offered.iter().any(|word| is_repeated(word)),
                ..ActWords::default()
            };
        }
        // With the title "Review" and the label "Approve", the label approves what was reviewed.
        let is_approval = own.is_some_and(|own| objects && agrees(tables, own)) && !is_of_act;
        // "Send" does not name "Send ikke mail" (Danish for "do not send mail"), nor does "deploy" name "Deploy
        // stoppen".
        let said: Phrase = reply.iter().map(|word| (*word).to_owned()).collect();
        let is_cut =
            has_not && !negates(&said, tag) || refuses && !repeats_refusal(&said, &own_words, &act_words);
        let is_named = !has_unclear_label && !has_contrary_label && !is_approval && !is_cut && !is_in_value;
        let act = act.filter(|_| is_named);
        let of_label = of_label.filter(|_| !is_cut);
        let summary = act.and_then(|act| reader.read(act.summary()?, act.every()?, false));
        // If the verb of the summary may be a value, a title such as "Order" does not name the act either.
        let is_titled = |act: &&Act| act.summary().is_none() || summary.is_some();
        let title = act.filter(is_titled).and_then(|act| {
            let name = reader.read(act.title(), act.title(), false)?;
            // A tool's name says what it does only if it begins with a verb.
            let is_act = || name.verb.first().is_some_and(|verb| reader.is_act(verb));
            (act.has_title() || is_act()).then_some(name)
        });
        let mut names: Vec<Name> = of_label
            .into_iter()
            .filter(|name| !name.verb.is_empty())
            .collect();
        // A summary with another verb than the label names another act, and so does a title with another verb than the
        // summary.
        for name in summary.into_iter().chain(title) {
            let is_same = |first: &Name| first.verb == name.verb || reader.is_same(&first.verb, &name.verb);
            if names.first().is_none_or(is_same) {
                names.push(name);
            }
        }
        ActWords {
            refuses,
            has_refusing_label,
            objects,
            waits,
            is_familiar,
            is_verb_unclear: names.iter().any(|name| !reader.is_clear(&name.verb)),
            is_object_unclear: names.iter().any(|name| name.is_object_unclear),
            has_verb_label,
            is_turned: false,
            is_negated,
            has_not,
            has_contrary_label,
            has_unclear_label,
            is_more: names.iter().any(|name| name.is_more),
            names,
            label,
        }
    }

    /// Returns a copy without the words that name the act, but with its known properties.
    pub(super) fn unnamed(&self) -> ActWords {
        ActWords {
            refuses: self.refuses,
            has_refusing_label: self.has_refusing_label,
            objects: self.objects,
            waits: self.waits,
            is_familiar: self.is_familiar,
            has_not: self.has_not,
            has_contrary_label: self.has_contrary_label,
            has_unclear_label: self.has_unclear_label,
            ..ActWords::default()
        }
    }

    /// Returns true if a reply has the act's verb without its particle: "run it" to "Run down battery".
    pub(super) fn lacks_particle(&self, reply: &[&str]) -> bool {
        let has = |word: &String| reply.contains(&word.as_str());
        let is_cut = |verb: &Phrase| match verb.as_slice() {
            [verb, particles @ ..] => !is_unspaced(verb) && has(verb) && !particles.iter().all(has),
            [] => false,
        };
        self.verbs().any(is_cut)
    }

    /// Returns the number of words at the start of `rest` that are the act's verb or a synonym; `None` if there are
    /// none.
    pub(super) fn verb(&self, rest: &[&str], listed: &[&Phrases]) -> Option<usize> {
        let names = self.names.iter().filter(|name| !self.is_more && name.is_known);
        names.filter_map(|name| name.verb_at(rest, listed)).max()
    }

    /// Returns the ways in which the words at the start of `rest` may name the act.
    pub(super) fn named(&self, rest: &[&str], listed: &[&Phrases]) -> Vec<Named> {
        let mut found = Vec::new();
        let mut add = |length: usize, is_verb_alone: bool, object: Object, is_of_label: bool| {
            found.push(Named {
                length,
                is_verb_alone,
                has_object: object == Object::Named,
                is_open: object == Object::Missing,
                is_of_label,
            });
        };
        let of_words = |count: usize| match count > 1 {
            true => Object::Named,
            false => Object::Missing,
        };
        if begins(rest, &self.label) {
            add(self.label.len(), true, of_words(self.label.len()), true);
        }
        for name in &self.names {
            // A title that says less than the summary does not name the whole act.
            if name.is_more == self.is_more
                && rest.first().copied() == name.whole.first().map(String::as_str)
                && let Some(length) = repeats(rest, &name.whole, listed)
            {
                add(length, false, of_words(name.whole.len()), self.has_verb_label);
            }
            if self.is_more {
                continue;
            }
            let is_label = self.has_verb_label;
            let object_at = |at: usize| {
                let rest = rest.get(at..).unwrap_or_default();
                let full = repeats(rest, &name.object, listed);
                let pronoun = longest(rest, listed, |phrases| &phrases.object).filter(|_| name.is_known);
                let full = full.map(|length| (at + length, Object::Named));
                full.into_iter()
                    .chain(pronoun.map(|length| (at + length, Object::Pronoun)))
            };
            if let Some(length) = name.verb_at(rest, listed) {
                if name.is_known || name.object.is_empty() {
                    add(length, begins(rest, &name.verb), Object::Missing, is_label);
                }
                object_at(length).for_each(|(end, object)| add(end, false, object, is_label));
            }
            if let Some(length) = name.divided_verb_at(rest, listed) {
                add(length, false, Object::Pronoun, is_label);
            }
            if name.is_verb_last {
                for (end, object) in object_at(0) {
                    let behind = rest.get(end..).unwrap_or_default();
                    if let Some(length) = name.verb_at(behind, listed) {
                        add(end + length, false, object, is_label);
                    }
                }
            }
        }
        found
    }

    /// Returns the act's verbs.
    pub(super) fn verbs(&self) -> impl Iterator<Item = &Phrase> {
        self.names
            .iter()
            .map(|name| &name.verb)
            .filter(|verb| !verb.is_empty())
    }

    /// Returns true if a word occurs in the act's object.
    pub(super) fn is_object(&self, word: &str) -> bool {
        let mut words = self.names.iter().flat_map(|name| &name.object);
        words.any(|own| own == word)
    }
}

impl Name {
    /// Returns the number of words at the start of `rest` that are this name's verb or a synonym; `None` if there are
    /// none.
    fn verb_at(&self, rest: &[&str], listed: &[&Phrases]) -> Option<usize> {
        let own = begins(rest, &self.verb).then_some(self.verb.len());
        let lists = listed.iter().flat_map(|phrases| &phrases.same);
        let same = lists
            .filter(|list| list.contains(&self.verb))
            .flatten()
            .filter(|verb| begins(rest, verb))
            .map(Vec::len);
        let told = match (self.verb.as_slice(), rest.first()) {
            ([verb], Some(word)) => is_told_to(verb, word).then_some(1),
            _ => None,
        };
        own.into_iter().chain(same).chain(told).max()
    }

    /// Returns the number of words at the start of `rest` that are this name's verb with a pronoun inside it, as in
    /// "shut it down"; `None` if there are none.
    fn divided_verb_at(&self, rest: &[&str], listed: &[&Phrases]) -> Option<usize> {
        let ([verb, particle], [first, behind @ ..]) = (self.verb.as_slice(), rest) else {
            return None;
        };
        let pronoun = longest(behind, listed, |phrases| &phrases.object)?;
        let is_divided = self.is_known && verb == first && behind.get(pronoun) == Some(&particle.as_str());
        is_divided.then_some(pronoun + 2)
    }
}

/// Returns the number of words in the longest phrase that `rest` begins with, among the phrases that `of` selects from
/// these lists; `None` if there is none.
pub(super) fn longest(rest: &[&str], listed: &[&Phrases], of: fn(&Phrases) -> &Vec<Phrase>) -> Option<usize> {
    let phrases = listed.iter().flat_map(|phrases| of(phrases));
    phrases.filter(|phrase| begins(rest, phrase)).map(Vec::len).max()
}

/// Returns the number of words at the start of `rest` that repeat `words` in their order; `None` if they do not. Before
/// each word, an article may be added or left out, also one that can be a pronoun: "delete this contact".
fn repeats(rest: &[&str], words: &[String], listed: &[&Phrases]) -> Option<usize> {
    let is_article = |word: &str| is_article(word, listed);
    let is_pronoun = |word: &str| {
        let mut objects = listed.iter().flat_map(|phrases| &phrases.object);
        objects.any(|object| object.iter().eq([word]))
    };
    let wanted: Vec<&String> = words.iter().filter(|word| !is_article(word)).collect();
    let mut length = 0;
    for next in &wanted {
        if rest
            .get(length)
            .is_some_and(|said| said != next && (is_article(said) || is_pronoun(said)))
        {
            length += 1;
        }
        if rest.get(length) != Some(&next.as_str()) {
            return None;
        }
        length += 1;
    }
    (!wanted.is_empty()).then_some(length)
}

fn is_article(word: &str, listed: &[&Phrases]) -> bool {
    let english = phrases_of("en");
    let mut articles = listed
        .iter()
        .copied()
        .chain(english)
        .flat_map(|phrases| &phrases.article);
    articles.any(|article| article.iter().eq([word]))
}

/// Finds the verb and the object in a label, summary or title.
struct NameReader<'a> {
    tables: &'a Tables,
    languages: [Option<&'a Language>; 2],
    own: Option<&'static Phrases>,
    /// Phrases of the card's language, and of English, because policies are often written in English.
    listed: Vec<&'static Phrases>,
}

/// A word of an act that is not part of a value, and whether a value, a comma or a hyphen precedes it.
struct Fixed {
    word: String,
    is_after_value: bool,
    is_after_comma: bool,
    is_after_hyphen: bool,
}

impl<'a> NameReader<'a> {
    fn new(tables: &'a Tables, language: Option<&'a Language>, tag: &str) -> NameReader<'a> {
        let own = phrases_of(tag);
        NameReader {
            tables,
            languages: [language, tables.english()],
            own,
            listed: own.into_iter().chain(phrases_of("en")).collect(),
        }
    }

    /// Returns true if one list of synonyms contains both verbs.
    fn is_same(&self, one: &Phrase, other: &Phrase) -> bool {
        let mut lists = self.listed.iter().flat_map(|phrases| &phrases.same);
        lists.any(|list| list.contains(one) && list.contains(other))
    }

    /// Returns true if a reply with this verb can only mean the card's act: the verb is a listed one, and it does not
    /// also say what to do with the card itself, as "change" does.
    fn is_clear(&self, verb: &Phrase) -> bool {
        let is_listed = |phrases: &Phrases| {
            let mut listed = phrases.same.iter().flatten().chain(&phrases.familiar);
            listed.any(|known| known == verb)
        };
        let own = self.languages.first().copied().flatten();
        let is_own_act = |word: &String| {
            let id = self.tables.lexicon.find(word);
            own.is_some_and(|own| own.tag != "en" && own.is_act(id))
        };
        let is_known =
            all_phrases().values().any(is_listed) || matches!(verb.as_slice(), [word] if is_own_act(word));
        is_known && !self.listed.iter().any(|phrases| phrases.of_card.contains(verb))
    }

    fn is_in(&self, word: &str, of: fn(&Phrases) -> &Vec<Phrase>) -> bool {
        let mut phrases = self.listed.iter().flat_map(|phrases| of(phrases));
        phrases.any(|phrase| phrase.iter().eq([word]))
    }

    /// Returns true for a word that is listed as a verb.
    fn is_verb(&self, word: &str) -> bool {
        self.is_act(word)
            || self.is_in(word, |phrases| &phrases.refuse)
            || self.is_in(word, |phrases| &phrases.wait)
    }

    /// Returns true for a verb that does something, as opposed to one that refuses or waits.
    fn is_act(&self, word: &str) -> bool {
        let is_word = |phrase: &Phrase| phrase.iter().eq([word]);
        let mut same = self
            .listed
            .iter()
            .flat_map(|phrases| phrases.same.iter().flatten());
        let id = self.tables.lexicon.find(word);
        same.any(is_word)
            || self
                .languages
                .iter()
                .flatten()
                .any(|language| language.is_act(id))
    }

    /// Returns true for a function word, which cannot be a verb: an article, a pronoun, a conjunction.
    fn is_little(&self, word: &str) -> bool {
        let id = self.tables.lexicon.find(word);
        let mut languages = self.languages.iter().flatten();
        languages.any(|language| language.is_glue(id) || language.is_stop(id))
            || self.is_in(word, |phrases| &phrases.article)
            || self.is_in(word, |phrases| &phrases.part)
    }

    fn agrees(&self, word: &str) -> bool {
        let id = self.tables.lexicon.find(word);
        let mut languages = self.languages.iter().flatten();
        languages.any(|language| language.agrees(id))
    }

    /// Reads a label, summary or title; `None` if it has no words. `every` is the same text, including the words that
    /// are shown only under a condition. The verb of the result is empty if none could be found.
    fn read(&self, text: &str, every: &str, is_label: bool) -> Option<Name> {
        let all = fixed(text);
        let mut whole: Phrase = all.iter().map(|fixed| fixed.word.clone()).collect();
        let is_courtesy = |fixed: &&Fixed| {
            self.agrees(&fixed.word)
                || self.is_in(&fixed.word, |phrases| &phrases.soft)
                || self.is_in(&fixed.word, |phrases| &phrases.thanks)
        };
        let skipped = match is_label {
            true => all.iter().take_while(is_courtesy).count(),
            false => 0,
        };
        let words = all.get(skipped..).unwrap_or_default();
        let first = words.first()?;
        let mut name = match is_unspaced(&first.word) {
            true => self.unspaced(words, text),
            false => self
                .verb_last(words, text)
                .or_else(|| {
                    self.verb_first(words, text)
                        .filter(|_| self.may_begin_with_verb(&first.word))
                })
                .unwrap_or_default(),
        };
        // The verb may be a value: "{{ action }} order …" may cancel the order.
        let is_verb_last = self.own.is_some_and(|own| own.is_verb_last);
        let may_be_value = first.is_after_value || (is_verb_last && ends_in_value(text));
        let is_between_values = first.is_after_value && ends_in_value(text);
        if !is_label && (is_between_values || (name.verb.is_empty() && may_be_value)) {
            return None;
        }
        // A reply that ends in a preposition was broken off, unless the preposition belongs to the verb: "check out".
        while !is_label
            && ends_in_value(text)
            && whole.len() > name.verb.len()
            && whole.last().is_some_and(|last| {
                self.is_in(last, |phrases| &phrases.part) && !self.is_in(last, |phrases| &phrases.counter)
            })
        {
            whole.pop();
        }
        if every != text {
            let every_words = fixed(every);
            let is_longer = match name.is_verb_last {
                true => every_words.len() != words.len(),
                false => self
                    .verb_first(&every_words, every)
                    .is_none_or(|other| other.is_more || other.verb != name.verb),
            };
            // A reply cannot be expected to repeat words that the card may leave out.
            if is_longer {
                name.is_more = true;
                whole.clear();
            }
        }
        // The "e" in "e-mail" is not a word for "and".
        let is_begun = |at: usize| all.get(at + 1).is_some_and(|next| next.is_after_hyphen);
        let unjoined = (0..).zip(&whole).filter(|(at, _)| !is_begun(*at));
        let unjoined: Phrase = unjoined.map(|(_, word)| word.clone()).collect();
        let is_except =
            |phrase: &&Phrase| !is_article(&phrase.concat(), &self.listed) && contains(&unjoined, phrase);
        let mut excepts = self.listed.iter().flat_map(|phrases| &phrases.except);
        name.is_more |= excepts.any(|phrase| is_except(&phrase));
        name.is_more |= joins(match skipped {
            0 => text,
            _ => text.split_once(',').map_or(text, |(_, behind)| behind),
        });
        name.whole = whole;
        Some(name)
    }

    /// Returns true if a text that does not end in a known verb may begin with one. In a language that puts the verb
    /// last, the first word of "Löschen verhindern" is a noun; commands such as "Lösche", and English words, can still
    /// be verbs.
    fn may_begin_with_verb(&self, word: &str) -> bool {
        let Some(own) = self.own.filter(|own| own.is_verb_last) else {
            return true;
        };
        let is_in = |phrases: &Phrases| phrases.same.iter().flatten().any(|verb| verb.iter().eq([word]));
        let id = self.tables.lexicon.find(word);
        let is_english = || self.tables.english().is_some_and(|english| english.is_act(id));
        let is_command = own.has_commands_first && is_in(own) && !word.ends_with("en");
        is_command || phrases_of("en").is_some_and(is_in) || is_english()
    }

    /// Reads a text such as "Delete contact …": a verb, an object, and then only prepositions before values. `None` if
    /// the first word cannot be a verb.
    fn verb_first(&self, words: &[Fixed], text: &str) -> Option<Name> {
        let first = words
            .first()
            .filter(|first| !first.is_after_value && !self.is_little(&first.word))?;
        let is_particle =
            |fixed: &&Fixed| !fixed.is_after_value && self.is_in(&fixed.word, |phrases| &phrases.particle);
        let mut verb = vec![first.word.clone()];
        verb.extend(
            words
                .get(1)
                .filter(is_particle)
                .map(|particle| particle.word.clone()),
        );
        let mut behind = words.get(verb.len()..).unwrap_or_default();
        // In "Call … off", the particle follows the value.
        if let Some((last, before)) = behind.split_last()
            && last.is_after_value
            && self.is_in(&last.word, |phrases| &phrases.particle)
            && !ends_in_value(text)
        {
            verb.push(last.word.clone());
            behind = before;
        }
        // A word before an article is a verb.
        let is_before_article = words
            .get(1)
            .is_some_and(|next| !next.is_after_value && self.is_in(&next.word, |phrases| &phrases.article));
        let is_listed = self.listed.iter().any(|phrases| {
            let lists = [&phrases.familiar, &phrases.refuse, &phrases.wait];
            lists.iter().any(|list| list.contains(&verb))
        });
        let is_known =
            self.is_verb(&first.word) || self.is_same(&verb, &verb) || is_listed || is_before_article;
        let mut name = self.objects(behind, text);
        // "Order return" returns an order.
        let ends_in_act = behind
            .iter()
            .take(name.object.len())
            .next_back()
            .is_some_and(|last| {
                const ENDINGS: [&str; 5] = ["tion", "sion", "al", "ance", "ing"];
                (self.is_verb(&last.word) && last.word != "order")
                    || ENDINGS.iter().any(|ending| last.word.ends_with(ending))
            });
        name.is_more |= ends_in_act && !is_before_article && self.is_in(&first.word, |phrases| &phrases.both);
        // "Reply-all" is a different verb from "reply".
        name.is_more |= words.get(1).is_some_and(|next| next.is_after_hyphen);
        name.is_object_unclear = !is_before_article && self.is_object_unclear(&first.word, &name.object);
        name.is_known = is_known;
        name.verb = verb;
        Some(name)
    }

    /// Returns true if a noun directly after the verb may be the noun of another act: "Transfer limit" transfers
    /// nothing. In English, plurals and listed nouns are certainly things. In Romance languages, a noun after an
    /// infinitive is a thing; other forms of the verb may be nouns themselves ("Paga reducida").
    fn is_object_unclear(&self, verb: &str, object: &[String]) -> bool {
        const INFINITIVES: [&str; 8] = ["ar", "er", "ir", "are", "ere", "ire", "re", "oir"];
        let Some(last) = object.last() else {
            return false;
        };
        let is_romance = ["es", "pt", "it", "fr", "ca", "gl"]
            .iter()
            .filter_map(|tag| phrases_of(tag))
            .any(|romance| self.own.is_some_and(|own| std::ptr::eq(own, romance)));
        if is_romance {
            return !INFINITIVES.iter().any(|ending| verb.ends_with(ending));
        }
        let is_plural = last.ends_with('s') && !last.ends_with("ss");
        let is_thing =
            is_plural || self.is_in(last, |phrases| &phrases.thing) || last.chars().any(char::is_numeric);
        self.own.is_some_and(is_english) && !is_thing
    }

    /// Reads a text such as "Kontakt … löschen", in a language that puts the verb last. `None` if it ends in no known
    /// verb.
    fn verb_last(&self, words: &[Fixed], text: &str) -> Option<Name> {
        let own = self.own.filter(|own| own.is_verb_last)?;
        let verbs = own.same.iter().flatten().chain(&own.refuse).chain(&own.wait);
        let ends = |verb: &&Phrase| {
            let before = words.len().checked_sub(verb.len());
            let end = before.and_then(|before| words.get(before..)).unwrap_or_default();
            !end.is_empty() && end.iter().map(|fixed| &fixed.word).eq(verb.iter())
        };
        let listed = verbs.filter(ends).max_by_key(|verb| verb.len()).cloned();
        let last = words.last().filter(|last| {
            let id = self.tables.lexicon.find(&last.word);
            let language = self.languages.first().copied().flatten();
            language.is_some_and(|language| language.is_act(id))
        });
        let verb = listed.or_else(|| last.map(|last| vec![last.word.clone()]))?;
        let before = words.get(..words.len() - verb.len()).unwrap_or_default();
        let mut name = self.objects(before, &format!("{text}{}", crate::policy::VALUE));
        name.is_more |= before
            .iter()
            .any(|fixed| fixed.is_after_comma && !fixed.is_after_value);
        let is_second = |fixed: &Fixed| {
            let is_word = |phrase: &Phrase| phrase.iter().eq([&fixed.word]);
            own.same.iter().flatten().chain(&own.refuse).any(is_word)
        };
        name.is_more |= before.iter().any(is_second);
        name.is_known = true;
        name.is_verb_last = true;
        name.verb = verb;
        Some(name)
    }

    /// Reads a text in a script without spaces, where only a listed verb at the beginning or end can be recognised.
    fn unspaced(&self, words: &[Fixed], text: &str) -> Name {
        let Some(own) = self.own else {
            return Name::default();
        };
        let texts: Phrase = words.iter().map(|fixed| fixed.word.clone()).collect();
        // A single character is often part of another word.
        let verbs = || own.same.iter().flatten().filter(|verb| verb.len() > 1);
        let found = match own.is_verb_last {
            true => verbs()
                .filter(|verb| texts.ends_with(verb))
                .max_by_key(|verb| verb.len()),
            false => verbs()
                .filter(|verb| texts.starts_with(verb))
                .max_by_key(|verb| verb.len()),
        };
        // Where the verb would stand, there must be no value that may be the verb itself.
        let is_fixed = match own.is_verb_last {
            true => !ends_in_value(text),
            false => words.first().is_some_and(|word| !word.is_after_value),
        };
        let Some(verb) = found.filter(|_| is_fixed) else {
            return Name::default();
        };
        let others = match own.is_verb_last {
            true => texts.get(..texts.len() - verb.len()),
            false => texts.get(verb.len()..),
        };
        let others = others.unwrap_or_default();
        let counters = own.counter.iter().chain(&own.narrow);
        let mut seconds = verbs().chain(&own.refuse).chain(&own.wait).chain(counters);
        Name {
            verb: verb.clone(),
            is_more: others.len() > MOST_OBJECT || seconds.any(|second| contains(others, second)),
            is_known: true,
            ..Name::default()
        }
    }

    /// Returns true if the word at `at` only names the kind of the value after it: "for order …", "to the account …".
    /// After a "to" without an article, the word may be a verb. For English only: in other languages, infinitives also
    /// follow other prepositions.
    fn is_noun_of_value(&self, rest: &[Fixed], at: usize) -> bool {
        let before = |by: usize| at.checked_sub(by).and_then(|at| rest.get(at));
        let is_article = |fixed: &Fixed| self.is_in(&fixed.word, |phrases| &phrases.article);
        let (Some(noun), Some(first)) = (rest.get(at), before(1)) else {
            return false;
        };
        let has_article = is_article(first) && !first.is_after_value;
        let preposition = if has_article { before(2) } else { Some(first) };
        let is_plain = |word: &str| ["of", "for", "in", "into", "on", "at"].contains(&word);
        let is_introduced = preposition.is_some_and(|preposition| {
            is_plain(&preposition.word) || (has_article && preposition.word == "to")
        });
        let is_verb =
            (self.is_verb(&noun.word) && !has_article && noun.word != "order") || noun.word.ends_with("ing");
        let is_next_value = rest.get(at + 1).is_none_or(|next| next.is_after_value);
        is_introduced
            && is_next_value
            && !noun.is_after_value
            && !is_verb
            && !self.is_in(&noun.word, |phrases| &phrases.narrow)
            && !self.is_in(&noun.word, |phrases| &phrases.part)
    }

    /// Parses the words next to the verb: the object, up to the first value or preposition, and the rest. The rest adds
    /// nothing to the act if it only introduces values: "to …", "with email …".
    fn objects(&self, words: &[Fixed], text: &str) -> Name {
        let is_part = |fixed: &Fixed| self.is_in(&fixed.word, |phrases| &phrases.part);
        let is_article = |fixed: &Fixed| self.is_in(&fixed.word, |phrases| &phrases.article);
        let ends_object = |at: usize, fixed: &Fixed| {
            fixed.is_after_value || is_part(fixed) || (fixed.is_after_comma && at > 0)
        };
        let length = (0..)
            .zip(words)
            .find(|(at, fixed)| ends_object(*at, fixed))
            .map_or(words.len(), |(at, _)| at);
        let (object, rest) = words.split_at_checked(length).unwrap_or((words, &[]));
        let is_before_value = |at: usize| match rest.get(at + 1) {
            Some(next) => next.is_after_value,
            None => at + 1 == rest.len() && ends_in_value(text),
        };
        let is_bare = |at: usize| {
            let (Some(fixed), before) = (rest.get(at), at.checked_sub(1).and_then(|at| rest.get(at))) else {
                return false;
            };
            let is_named = before.is_some_and(|before| self.is_in(&before.word, |phrases| &phrases.with));
            let is_unit = fixed.is_after_value && UNITS.contains(&fixed.word.as_str());
            if is_unit || self.is_noun_of_value(rest, at) {
                return true;
            }
            let next_is_bare = || {
                rest.get(at + 1)
                    .is_some_and(|next| is_article(next) && !next.is_after_value)
            };
            match is_part(fixed) {
                true => {
                    is_before_value(at)
                        || next_is_bare()
                        || self.is_noun_of_value(rest, at + 1)
                        || (self.is_in(&fixed.word, |phrases| &phrases.with) && at + 1 < rest.len())
                }
                false => is_before_value(at) && (is_article(fixed) || is_named),
            }
        };
        // After an article, "the hold" is a thing; after another noun, "order hold" is an act.
        let is_act_noun = |at: usize, fixed: &Fixed| {
            let before = at.checked_sub(1).and_then(|at| object.get(at));
            let is_act = self.is_in(&fixed.word, |phrases| &phrases.noun)
                || self.is_in(&fixed.word, |phrases| &phrases.counter)
                || self.is_in(&fixed.word, |phrases| &phrases.refuse)
                || self.is_in(&fixed.word, |phrases| &phrases.wait);
            is_act && !before.is_some_and(is_article)
        };
        let is_narrow = |fixed: &Fixed| self.is_in(&fixed.word, |phrases| &phrases.narrow);
        let is_more = !(0..rest.len()).all(is_bare)
            || object.iter().any(is_narrow)
            || (0..).zip(object).any(|(at, fixed)| is_act_noun(at, fixed));
        let content = object.iter().filter(|fixed| !is_article(fixed));
        Name {
            object: content.map(|fixed| fixed.word.clone()).collect(),
            is_more,
            ..Name::default()
        }
    }
}

/// Currency units that may follow a value.
const UNITS: [&str; 20] = [
    "eur", "usd", "gbp", "chf", "jpy", "cny", "inr", "pln", "sek", "nok", "dkk", "czk", "euro", "euros",
    "dollar", "dollars", "pounds", "€", "$", "£",
];

/// Maximum number of characters of an object in a script without spaces. A longer text may contain more than an object.
const MOST_OBJECT: usize = 8;

/// Returns true if `words` contain `phrase`.
fn contains(words: &[String], phrase: &[String]) -> bool {
    !phrase.is_empty() && words.windows(phrase.len()).any(|part| part == phrase)
}

/// Returns true if a punctuation mark between the words may join another act or condition: "Back up & wipe", "Send
/// (draft)". Marks next to a value only delimit it.
fn joins(text: &str) -> bool {
    const MARKS: &str = ",;:&+/\\|<>=~*()[]{}–—→⇒›»«·•‧、；：，。（）＆＋／｜＝";
    let joins = |fixed: &str| {
        let fixed =
            fixed.trim_matches(|c: char| c.is_whitespace() || c.is_ascii_punctuation() || MARKS.contains(c));
        fixed.contains(|c: char| MARKS.contains(c)) || fixed.contains(". ") || fixed.contains(" - ")
    };
    text.split(crate::policy::VALUE).any(joins)
}

/// Returns true for a summary such as "Post …: …", in which only the last value may say what is done.
fn ends_in_named_value(summary: &str) -> bool {
    let mut parts = summary.split(crate::policy::VALUE).map(str::trim);
    let is_word = |first: &str| split(first).len() == 1;
    parts.next().is_some_and(is_word)
        && parts
            .next()
            .is_some_and(|behind| behind.starts_with([':', '=']) && split(behind).is_empty())
        && parts.next().is_some()
}

/// Returns the words of an act that are not part of a value.
fn fixed(text: &str) -> Vec<Fixed> {
    let words = Words::of(text, usize::MAX).unwrap_or_default();
    let read = |index: usize| Fixed {
        word: words.get(index).to_owned(),
        is_after_value: words.gap(index).is_value,
        is_after_comma: words.gap(index).is_joint,
        is_after_hyphen: words.gap(index).is_hyphen,
    };
    (0..words.len()).map(read).collect()
}

/// Returns true if the words begin with a listed verb of any language or, with `is_verb_last`, end with one.
fn has_known_verb(words: &[String], is_verb_last: bool) -> bool {
    let mut known = all_phrases()
        .values()
        .flat_map(|phrases| phrases.same.iter().flatten().chain(&phrases.familiar));
    known.any(|verb| !verb.is_empty() && (words.starts_with(verb) || (is_verb_last && words.ends_with(verb))))
}

/// Returns true if a label without a verb cannot name an act: words with letters ("Off", "Without"), a single character
/// of a script without spaces, or a word for "nothing". False for emoji, and for longer words of such scripts, because
/// their verbs may be missing from the lists.
fn is_function_word(label: &str) -> bool {
    let words = split(label);
    let is_spaced = |word: &String| !is_unspaced(word) && word.chars().any(char::is_alphabetic);
    let is_nothing = || ["なし", "無し", "没有", "沒有"].contains(&words.concat().as_str());
    words.iter().any(is_spaced) || matches!(words.as_slice(), [word] if is_unspaced(word)) || is_nothing()
}

/// Returns true if nothing but punctuation follows the last value of a text.
fn ends_in_value(text: &str) -> bool {
    let is_mark = |c: char| !c.is_alphanumeric() && c != crate::policy::VALUE;
    text.trim_end_matches(is_mark).ends_with(crate::policy::VALUE)
}

/// Returns true if a reply contains a refusing word of the label or the act.
fn repeats_refusal(said: &[String], label: &[String], act: &[String]) -> bool {
    let mut refusals = all_phrases().values().flat_map(|phrases| &phrases.refuse);
    let is_said = |refusal: &Phrase| refusal.iter().all(|word| said.contains(word));
    refusals.any(|refusal| (holds(label, refusal) || holds(act, refusal)) && is_said(refusal))
}

/// Returns true if one of these words negates the others, in any language. In Portuguese, "no" means "in the".
fn negates(words: &[String], tag: &str) -> bool {
    let is_not = |not: &&str| *not != "do" && !(*not == "no" && matches!(tag, "pt" | "gl"));
    let mut negations = NOT.iter().filter(|not| is_not(not));
    // In these languages the negation is part of the verb: "Neposílat zprávu".
    let has_prefix = matches!(tag, "cs" | "sk") && words.first().is_some_and(|verb| verb.starts_with("ne"));
    has_prefix || negations.any(|not| contains(words, &split(not)))
}

/// Words that reverse the meaning of an act and that no table lists alone.
const NEVER: [&str; 4] = ["never", "not", "dont", "without"];

fn turns(kinds: Kinds) -> bool {
    kinds.has(PieceKind::No) || kinds.has(PieceKind::NoLead) || kinds.has(PieceKind::Doubt)
}

/// Returns true if `word` is a Spanish imperative of `verb` with its object attached: `bórralo` from `borrar`.
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
}
