//! Refusals that name the act: "don't delete it", "nicht löschen", "no borres".
//!
//! This module handles only replies that the language tables do not understand; the tables know the plain noes.
//!
//! Every word has to be a negation, a form of the act's verb, its object, or a courtesy. So "don't only delete it" and
//! "no, delete it" refuse nothing.

use super::act::{ActWords, longest};
use super::language::Tables;
use super::offer::Offer;
use super::phrases::{Phrase, Phrases, base, begins, listed, phrases_of};
use super::word::Words;

/// Returns true if a reply negates the act's verb.
pub(super) fn refuses(tables: &Tables, offer: &Offer<'_>, words: &Words, said: Option<&str>) -> bool {
    let tag = said.or(offer.language()).unwrap_or("en");
    let reply: Vec<&str> = words.iter().collect();
    let act = ActWords::of(tables, offer, tables.language(tag), base(tag), &[]);
    if !offer.is_card() || act.is_negated {
        return false;
    }
    let own = listed(tag);
    // A policy is often written in English, and so may be the reply.
    let lists: Vec<&Phrases> = own.iter().copied().chain(phrases_of("en")).collect();
    let verbs: Vec<&Phrase> = act.verbs().collect();
    let is_no = |at: usize| {
        let word = reply.get(at).and_then(|word| Words::of(word, 1));
        word.is_some_and(|word| tables.locale(tag, &word) == Some(false))
    };
    let is_particle = |word: &str| {
        verbs
            .iter()
            .any(|verb| verb.iter().skip(1).any(|own| own == word))
    };
    let (mut at, mut negations, mut noes) = (0, 0, 0);
    let mut form = None;
    while at < reply.len() {
        let rest = reply.get(at..).unwrap_or_default();
        let found = verb_form(rest, &verbs, &lists);
        if let Some((length, kind)) = found {
            // A second verb may express another wish.
            if form.is_some() {
                return false;
            }
            form = Some(kind);
            at += length;
            continue;
        }
        if let Some(length) = longest(rest, &lists, |phrases| &phrases.dont) {
            // A comma separates the negation from the verb: "no, delete it".
            let is_cut = words.gap(at + length).is_joint;
            noes += usize::from(is_no(at));
            negations += usize::from(!is_cut);
            at += length;
            continue;
        }
        let courtesies: [fn(&Phrases) -> &Vec<Phrase>; 4] = [
            |phrases| &phrases.soft,
            |phrases| &phrases.thanks,
            |phrases| &phrases.object,
            |phrases| &phrases.article,
        ];
        let courtesy = courtesies
            .into_iter()
            .filter_map(|of| longest(rest, &lists, of))
            .max();
        match courtesy {
            Some(length) => at += length,
            None if act.is_object(rest.first().unwrap_or(&"")) => at += 1,
            None if is_no(at) => at += 1,
            None if is_particle(rest.first().unwrap_or(&"")) => at += 1,
            None => return false,
        }
    }
    match form {
        Some(Form::Against) => true,
        Some(Form::Unsaid) => negations > 0,
        // In languages with one word for "no" and "not", "no, delete" is not a refusal.
        Some(Form::Said) => negations > noes,
        None => false,
    }
}

/// Kind of a verb form, which determines when a reply with that form refuses the act.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Can also command the act ("delete"), so a "no" before it is not enough: "no, delete" refuses nothing.
    Said,
    /// Occurs only after a negation ("borres" in "no borres"), so any negation before it refuses.
    Unsaid,
    /// Refuses by itself: it contains the negation (Czech "nemazat") or means the opposite ("keep" for "delete").
    Against,
}

/// Returns the number of words at the start of `rest` that are the longest form of one of the verbs, and the kind of
/// that form; `None` if `rest` begins with none.
fn verb_form(rest: &[&str], verbs: &[&Phrase], lists: &[&Phrases]) -> Option<(usize, Form)> {
    let mut found: Option<(usize, Form)> = None;
    let mut add = |phrase: &Phrase, form: Form| {
        let is_longer = found.is_none_or(|(length, _)| phrase.len() >= length);
        if is_longer && begins(rest, phrase) {
            found = Some((phrase.len(), form));
        }
    };
    for verb in verbs {
        add(verb, Form::Said);
        // A verb of two words may have the negation in between: "ta inte bort".
        if verb.len() > 1 {
            verb.iter()
                .take(1)
                .for_each(|word| add(&vec![word.clone()], Form::Said));
        }
        for phrases in lists {
            let same: Vec<&Phrase> = phrases
                .same
                .iter()
                .filter(|list| list.contains(verb))
                .flatten()
                .collect();
            same.iter().for_each(|form| add(form, Form::Said));
            let is_linked = |list: &&Vec<Phrase>| {
                let first = list.first();
                first.is_some_and(|first| first == *verb || same.contains(&first))
            };
            for (all, form) in [(&phrases.unsaid, Form::Unsaid), (&phrases.against, Form::Against)] {
                // The first word only links the list to its act; it is not a form.
                let forms = all.iter().filter(is_linked).flat_map(|list| list.iter().skip(1));
                forms.for_each(|phrase| add(phrase, form));
            }
        }
    }
    found
}
