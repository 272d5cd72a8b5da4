//! Values that nobody stated but that are made of what was stated: put together, added up, moved by a day.
//!
//! Enters: a value that was found nowhere, and all that was said. Leaves: what it is made of, or nothing.
//! Deliberately absent: addresses, codes and single words. Those are stated whole or they are invented, however well
//! their parts are known: `maria@acme.com` does not follow from Maria and Acme.

use jiff::civil::DateTime;

use super::Source;
use super::address;
use super::date;
use super::form::{Value, inflections};
use super::mark::{Derived, Making, Part};
use super::number::{self, Decimal};
use super::own::Own;
use super::shape::Shape;
use super::text::{is_hidden, is_inside_word, words};
use crate::json::Kind;

/// Longer texts are not taken apart.
const MOST_WORDS: usize = 1_000;
/// A beginning and an end that belong together stand no further apart, in bytes.
const NEAR: usize = 300;

/// What `value` is made of. `others` are the call's other values, `own` what the agent wrote before.
pub(super) fn derive(
    value: &Value,
    others: &[Value],
    sources: &[Source<'_>],
    own: &[Own<'_>],
) -> Option<Derived> {
    if value.text.chars().any(is_hidden) {
        return None;
    }
    match value.kind {
        Kind::Number => sum(value, sources, own),
        Kind::String => moved(value, others, sources)
            .or_else(|| sum(value, sources, own))
            .or_else(|| composed(value, sources, own)),
        _ => None,
    }
}

/// One word or address of a value, and what is asked of it.
struct Piece<'v> {
    word: &'v str,
    /// An address is stated whole.
    shape: Shape,
    /// Carries meaning, unlike "the": has to be stated.
    is_content: bool,
    /// The first message in which the agent wrote it. No tool states it from then on.
    written: usize,
}

impl Piece<'_> {
    fn is_in(&self, source: &Source<'_>) -> bool {
        if !source.is_person() && self.written < source.message {
            return false;
        }
        source.texts().any(|text| {
            if matches!(self.shape, Shape::Mail | Shape::Place) {
                return text.find_folded(self.word, self.shape).is_some();
            }
            let all = text.words();
            all.contains(self.word)
                || inflections(self.word).any(|form| all.contains(&form))
                || number::value(self.word).is_some_and(|number| {
                    let mut figures = text.figures().iter();
                    figures.any(|figure| figure.readings.contains(&number))
                })
        })
    }
}

/// A text whose every word of meaning was stated. A word that nobody stated may be the one that matters: "delete" in
/// what was to be shown, "not" in what was to be done.
fn composed(value: &Value, sources: &[Source<'_>], own: &[Own<'_>]) -> Option<Derived> {
    let pieces = pieces(value, own)?;
    let has_words = pieces.iter().any(|piece| is_plain_word(piece.word));
    if pieces.len() < 2 || !has_words {
        return None;
    }
    let known: Vec<&Piece<'_>> = pieces.iter().filter(|piece| piece.is_content).collect();
    let is_stated = |piece: &&Piece<'_>| sources.iter().any(|source| piece.is_in(source));
    if known.is_empty() || !known.iter().all(is_stated) {
        return None;
    }
    if !signs_are_stated(value, sources)
        || !digit_groups_are_stated(value, sources)
        || drops_negation(&pieces, &known, sources)
    {
        return None;
    }
    // The least trusted explanation: one tool that holds every word, before the person, before a mixture.
    let holds_all = |source: &&Source<'_>| known.iter().all(|piece| piece.is_in(source));
    let tool = sources
        .iter()
        .filter(|source| !source.is_person())
        .find(holds_all);
    let parts = match tool {
        Some(tool) => vec![tool.part(&shown(&known))],
        None => mixture(&known, sources),
    };
    Some(Derived {
        how: Making::Composed,
        parts,
        unstated: Vec::new(),
    })
}

/// Gives each word to the person if they said it, else to the first tool that did.
fn mixture(known: &[&Piece<'_>], sources: &[Source<'_>]) -> Vec<Part> {
    let mut left: Vec<&Piece<'_>> = known.to_vec();
    let mut parts: Vec<Part> = Vec::new();
    let people = sources.iter().filter(|source| source.is_person()).rev();
    let tools = sources.iter().filter(|source| !source.is_person());
    for source in people.chain(tools) {
        let (here, rest): (Vec<&Piece<'_>>, Vec<&Piece<'_>>) =
            left.into_iter().partition(|piece| piece.is_in(source));
        left = rest;
        if !here.is_empty() {
            parts.push(source.part(&shown(&here)));
        }
    }
    parts
}

fn shown(pieces: &[&Piece<'_>]) -> String {
    let words: Vec<&str> = pieces.iter().map(|piece| piece.word).collect();
    words.join(" ")
}

fn pieces<'v>(value: &'v Value, own: &[Own<'_>]) -> Option<Vec<Piece<'v>>> {
    let written = |word: &str| {
        let first = own.iter().find(|own| own.has_word(word));
        first.map_or(usize::MAX, |own| own.message)
    };
    let addresses = address::all(&value.folded);
    let mut pieces: Vec<Piece<'v>> = Vec::new();
    for place in &addresses {
        let word = value.folded.get(place.clone())?;
        pieces.push(Piece {
            word,
            shape: Shape::of(word),
            is_content: true,
            written: written(word),
        });
    }
    let is_in_address = |at: usize| addresses.iter().any(|place| place.contains(&at));
    for (number, (at, word)) in words(&value.folded).enumerate() {
        if number >= MOST_WORDS {
            return None;
        }
        if is_in_address(at) {
            continue;
        }
        pieces.push(Piece {
            word,
            shape: Shape::of(word),
            is_content: !is_filler(word),
            written: written(word),
        });
    }
    Some(pieces)
}

/// Signs that programs act on have to be the person's: `status != active` is no wording of "status is active".
fn signs_are_stated(value: &Value, sources: &[Source<'_>]) -> bool {
    let is_sign = |c: char| matches!(c, '<' | '>' | '=' | '|' | '^' | '~' | '`' | '\\' | '{' | '}');
    let people = || sources.iter().filter(|source| source.is_person());
    let is_said = |sign: &str| people().any(|source| source.text.folded().contains(sign));
    let mut buffer = [0; 4];
    let mut signs = value.folded.chars().filter(|c| is_sign(*c));
    let mut after = value
        .folded
        .match_indices('!')
        .map(|(at, _)| value.folded.get(at + 1..));
    let negates =
        after.any(|rest| rest.is_some_and(|rest| rest.starts_with(|c: char| is_inside_word(c) || c == '(')));
    signs.all(|sign| is_said(sign.encode_utf8(&mut buffer))) && (!negates || is_said("!"))
}

/// Whether the person denied in the same sentence what the value says without a no.
fn drops_negation(pieces: &[Piece<'_>], known: &[&Piece<'_>], sources: &[Source<'_>]) -> bool {
    if pieces.iter().any(|piece| is_negation(piece.word)) {
        return false;
    }
    let people = sources.iter().filter(|source| source.is_person());
    let mut sentences = people.flat_map(|source| source.text.folded().split(['.', '!', '?', ';', ',']));
    sentences.any(|sentence| {
        let is_denied = words(sentence).any(|(_, word)| is_negation(word));
        is_denied
            && known
                .iter()
                .all(|piece| words(sentence).any(|(_, word)| word == piece.word))
    })
}

/// Digits that stand next to each other in the value have to stand next to each other where they were stated: four
/// known groups do not make a known account.
fn digit_groups_are_stated(value: &Value, sources: &[Source<'_>]) -> bool {
    let all: Vec<(usize, &str)> = words(&value.folded).collect();
    let has_digit = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    let mut pairs = all.windows(2).filter_map(|pair| {
        let [(from, first), (at, second)] = pair else {
            return None;
        };
        (has_digit(first) && has_digit(second)).then(|| value.folded.get(*from..at + second.len()))?
    });
    pairs.all(|pair| {
        let is_there = |source: &Source<'_>| {
            source
                .texts()
                .any(|text| text.find_folded(pair, Shape::Words).is_some())
        };
        sources.iter().any(is_there) || !pair.contains(' ') || pair.contains([',', ';', ':', '\n'])
    })
}

fn is_plain_word(word: &str) -> bool {
    word.chars().count() > 1 && word.chars().all(char::is_alphabetic) && !is_filler(word)
}

/// Words that say nothing by themselves: those that only join, and courtesies. Whatever denies, chooses or counts is
/// none of them.
fn is_filler(word: &str) -> bool {
    const FILLERS: &[&str] = &[
        "a",
        "about",
        "also",
        "am",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "been",
        "by",
        "can",
        "could",
        "dear",
        "did",
        "do",
        "does",
        "enjoy",
        "for",
        "from",
        "greetings",
        "had",
        "has",
        "have",
        "hello",
        "hey",
        "hi",
        "his",
        "her",
        "how",
        "i",
        "i'd",
        "i'll",
        "i'm",
        "in",
        "into",
        "is",
        "it",
        "its",
        "just",
        "let",
        "me",
        "my",
        "of",
        "on",
        "our",
        "please",
        "regards",
        "she",
        "he",
        "should",
        "so",
        "stay",
        "thank",
        "thanks",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "us",
        "was",
        "we",
        "welcome",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "will",
        "with",
        "would",
        "you",
        "your",
    ];
    FILLERS.contains(&word)
}

/// Words that deny, in the languages that replies are read in.
fn is_negation(word: &str) -> bool {
    const NEGATIONS: &[&str] = &[
        "aucun",
        "cannot",
        "except",
        "excepto",
        "excluding",
        "geen",
        "ikke",
        "inte",
        "jamais",
        "kein",
        "keine",
        "keinen",
        "mai",
        "menos",
        "never",
        "nicht",
        "nie",
        "niemals",
        "niet",
        "nigdy",
        "no",
        "non",
        "none",
        "not",
        "nunca",
        "não",
        "ohne",
        "only",
        "pas",
        "sans",
        "sauf",
        "sem",
        "senza",
        "sin",
        "unless",
        "without",
        "zonder",
        "außer",
        "не",
        "нет",
        "без",
        "никогда",
        "ない",
        "不",
        "没",
        "لا",
    ];
    NEGATIONS.contains(&word) || word.ends_with("n't")
}

/// A number that is what one message's numbers add up to, or a stated number after a stated change.
fn sum(value: &Value, sources: &[Source<'_>], own: &[Own<'_>]) -> Option<Derived> {
    let wanted = value.number.as_ref().filter(|number| number.len() > 1)?;
    let added = sources
        .iter()
        .filter(|source| source.is_person())
        .rev()
        .find_map(|source| {
            let figures: Vec<&Decimal> = source
                .text
                .figures()
                .iter()
                .filter_map(|figure| figure.readings.first())
                .collect();
            if !(2..=6).contains(&figures.len()) {
                return None;
            }
            let total = figures
                .iter()
                .try_fold("0".to_owned(), |sum, next| number::add(&sum, next));
            let is_all = total.as_ref() == Some(wanted);
            is_all.then(|| {
                source.part(
                    &figures
                        .iter()
                        .map(|figure| figure.as_str())
                        .collect::<Vec<_>>()
                        .join(" + "),
                )
            })
        });
    let parts = match added {
        Some(part) => vec![part],
        None => changed(wanted, sources, own)?,
    };
    Some(Derived {
        how: Making::Sum,
        parts,
        unstated: Vec::new(),
    })
}

/// `1200` for "the rent of 1100 is increased by 100".
fn changed(wanted: &Decimal, sources: &[Source<'_>], own: &[Own<'_>]) -> Option<Vec<Part>> {
    // What the agent wrote first is not a tool's.
    let counts = |source: &Source<'_>, number: &Decimal| {
        let mut earlier = own.iter().filter(|own| own.message < source.message);
        source.is_person() || !earlier.any(|own| own.has_number(number))
    };
    for source in sources {
        let folded = source.text.folded();
        for figure in source.text.figures() {
            let Some(change) = figure
                .readings
                .first()
                .filter(|change| direction(folded, figure.at.start).is_some() && counts(source, change))
            else {
                continue;
            };
            let is_more = direction(folded, figure.at.start) == Some(true);
            // The base is what is left when the change is taken back.
            let back = if is_more {
                format!("-{change}")
            } else {
                change.clone()
            };
            let Some(base) = number::add(wanted, &back) else {
                continue;
            };
            let states = |source: &&Source<'_>| {
                let mut figures = source.text.figures().iter();
                counts(source, &base) && figures.any(|figure| figure.readings.contains(&base))
            };
            if let Some(of) = sources.iter().find(states) {
                let sign = if is_more { "+" } else { "-" };
                return Some(vec![of.part(&base), source.part(&format!("{sign} {change}"))]);
            }
        }
    }
    None
}

/// Whether the words before a number say that something grows or shrinks by it.
fn direction(folded: &str, at: usize) -> Option<bool> {
    let head = folded.get(..at)?.trim_end_matches(['$', '€', '£', ' ']);
    let mut before = head
        .rsplit(' ')
        .take(4)
        .map(|word| word.trim_matches(|c: char| !c.is_alphabetic()));
    if before.next() != Some("by") {
        return None;
    }
    before.find_map(|word| match word {
        "increase" | "increased" | "increases" | "increasing" | "raise" | "raised" | "rise" | "rises"
        | "up" => Some(true),
        "decrease" | "decreased" | "decreases" | "reduce" | "reduced" | "lower" | "lowered" | "down" => {
            Some(false)
        }
        _ => None,
    })
}

/// A day moved by what the person just asked for, or the end of something whose beginning and length were stated.
fn moved(value: &Value, others: &[Value], sources: &[Source<'_>]) -> Option<Derived> {
    let moment = value.moment?;
    let derived = |parts: Vec<Part>| Derived {
        how: Making::Shifted,
        parts,
        unstated: Vec::new(),
    };
    // "The next day" is next to what is spoken of now: it is read from the last message alone.
    let last = sources.iter().rfind(|source| source.is_person());
    if let Some(last) = last.filter(|_| moment.time.is_none()) {
        let folded = last.text.folded();
        for (at, days) in date::shifts(folded) {
            let base = date::plus_days(moment.date, -days);
            let states = |source: &&Source<'_>| {
                base.is_some_and(|base| source.text.dates().iter().any(|stated| stated.day.is(base)))
            };
            if let Some(of) = sources.iter().find(states) {
                let words = folded.get(at).unwrap_or_default();
                let base = base.map(|base| base.to_string()).unwrap_or_default();
                return Some(derived(vec![last.part(words), of.part(&base)]));
            }
        }
    }
    let end = moment.date.to_datetime(moment.time?);
    let begins = others.iter().filter_map(|other| {
        let moment = other.moment?;
        Some((moment.date.to_datetime(moment.time?), other))
    });
    for (begin, other) in begins {
        let Some(minutes) = minutes_between(begin, end).filter(|minutes| *minutes > 0) else {
            continue;
        };
        // The beginning has to be stated too, or nothing is known about the end.
        let states = |source: &&Source<'_>| {
            source
                .texts()
                .any(|text| other.stated_in(text).is_some() || other.implied_in(text, source.said).is_some())
        };
        let Some(of) = sources.iter().find(states) else {
            continue;
        };
        let length = sources
            .iter()
            .find_map(|source| Some(source.part(&length_in(source, minutes)?)));
        if let Some(length) = length {
            return Some(derived(vec![length, of.part(&other.text)]));
        }
    }
    None
}

fn minutes_between(begin: DateTime, end: DateTime) -> Option<i64> {
    let seconds = begin.duration_until(end).as_secs();
    (seconds % 60 == 0).then_some(seconds / 60)
}

/// Where a source says that something lasts so long: in words, or as a beginning and an end next to each other.
fn length_in(source: &Source<'_>, minutes: i64) -> Option<String> {
    let folded = source.text.folded();
    let said = date::lengths(folded)
        .into_iter()
        .find(|(_, length)| *length == minutes);
    if let Some((at, _)) = said {
        return folded.get(at).map(str::to_owned);
    }
    let moments = date::moments(folded);
    let pair = moments.windows(2).find(|pair| match pair {
        [(first, one), (second, two)] => {
            let length = minutes_between(*one, *two).map(i64::abs);
            second.start.saturating_sub(first.end) < NEAR && length == Some(minutes)
        }
        _ => false,
    });
    let from = pair?.first()?.0.start;
    let to = pair?.last()?.0.end;
    folded.get(from..to).map(str::to_owned)
}
