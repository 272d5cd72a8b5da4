//! Derived values: not stated by anyone, but composed, added up or shifted from stated values.
//!
//! Input: a value that was found nowhere, and all sources. Output: its parts, or `None`. Addresses, codes and single
//! words are never derived: they are either stated whole or invented, even if their parts are known: `maria@acme.com`
//! does not follow from Maria and Acme.

use jiff::civil::DateTime;

use super::super::mark::{Derivation, Derived, Part};
use super::Source;
use super::address;
use super::agent_words::AgentMessage;
use super::date;
use super::form::{Value, inflections};
use super::number::{self, Decimal};
use super::schedule;
use super::shape::Shape;
use super::text::{is_hidden, is_inside_word, words};
use crate::json::Kind;

/// Maximum number of words; longer texts are not analysed.
const MOST_WORDS: usize = 1_000;
/// Maximum distance in bytes between a start time and an end time that belong together.
const NEAR: usize = 300;

/// Returns the stated parts that `value` is derived from; `None` if it is not derived. `others` are the call's other
/// values, `agent_messages` the agent's earlier messages.
pub(super) fn derive(
    value: &Value,
    others: &[Value],
    sources: &[Source<'_>],
    agent_messages: &[AgentMessage<'_>],
) -> Option<Derived> {
    if value.text.chars().any(is_hidden) {
        return None;
    }
    match value.kind {
        Kind::Number => sum(value, sources, agent_messages),
        // INVARIANT: what is composed of words keeps that explanation, which names the least trusted source.
        Kind::String => moved(value, others, sources, agent_messages)
            .or_else(|| sum(value, sources, agent_messages))
            .or_else(|| composed(value, sources, agent_messages))
            .or_else(|| schedule::computed(value, sources, agent_messages))
            .or_else(|| listed(value, sources, agent_messages)),
        _ => None,
    }
}

/// A word or address of a value, to be found in a source.
struct Piece<'v> {
    word: &'v str,
    /// Kind of the piece: a mail address, link or path must be stated whole.
    shape: Shape,
    /// Whether the word carries meaning, unlike "the", and so must be stated.
    is_content: bool,
    /// Index of the first message in which the agent wrote the word. Tool results after that message are no source for
    /// the word, because they may only repeat the agent.
    written: usize,
    /// Whether other forms of the word count, because nobody stated the word itself: "moved" for "move", 1 for "one".
    is_loose: bool,
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
                || self.is_loose && base_forms(self.word).any(|form| all.contains(&form))
                || number::value(self.word).is_some_and(|number| {
                    let mut number_matches = text.number_matches().iter();
                    let count = number.parse::<u32>().ok();
                    number_matches.any(|number_match| number_match.readings.contains(&number))
                        || self.is_loose
                            && count.is_some()
                            && all.iter().any(|word| number::word_value(word) == count)
                })
        })
    }
}

/// Derives a text in which every meaningful word was stated; `None` if one was not. A single unstated word may be
/// decisive: "delete" instead of "show", or an added "not".
fn composed(value: &Value, sources: &[Source<'_>], agent_messages: &[AgentMessage<'_>]) -> Option<Derived> {
    let mut pieces = pieces(value, agent_messages)?;
    for piece in &mut pieces {
        piece.is_loose = !sources.iter().any(|source| piece.is_in(source));
    }
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
    // Choose the least trusted explanation: if one tool's result has every word, the value counts as that tool's.
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
        how: Derivation::Composed,
        parts,
        unstated: Vec::new(),
    })
}

/// Derives a list of which each item was stated as a whole: `ana@acme.com, bo@acme.com`. `None` if the value is not
/// such a list.
fn listed(value: &Value, sources: &[Source<'_>], agent_messages: &[AgentMessage<'_>]) -> Option<Derived> {
    /// Maximum number of members.
    const MOST_MEMBERS: usize = 100;
    let separated: Vec<&str> = value.text.split([',', ';', '\n']).collect();
    let is_written_apart = |member: &&str| member.starts_with(char::is_whitespace);
    let members: Vec<&str> = separated.iter().map(|member| member.trim()).collect();
    // Groups of digits that stand close together may be one number, and parts of an address one address.
    let is_apart = value.text.contains('\n') || separated.iter().skip(1).all(is_written_apart);
    let is_address = |member: &&str| Shape::of(member) == Shape::Mail;
    if !(2..=MOST_MEMBERS).contains(&members.len()) || !(is_apart || members.iter().all(is_address)) {
        return None;
    }
    let part = |member: &&str| {
        let member = Value::of_text((*member).to_owned(), "");
        if member.text.chars().count() < 2 {
            return None;
        }
        let written = agent_messages.iter().find(|message| message.states(&member));
        let written = written.map_or(usize::MAX, |message| message.message);
        let states = |source: &&Source<'_>| {
            let counts = source.is_person() || source.message < written;
            counts && source.texts().any(|text| member.stated_in(text).is_some())
        };
        let people = sources.iter().filter(|source| source.is_person()).rev();
        let tools = sources.iter().filter(|source| !source.is_person());
        let of = people.chain(tools).find(states)?;
        Some(of.part(&member.text))
    };
    let parts = members.iter().map(part).collect::<Option<Vec<Part>>>()?;
    Some(Derived {
        how: Derivation::Composed,
        parts,
        unstated: Vec::new(),
    })
}

/// Returns the verbs that a word may be a form of: "move" for "moved" and "moving". The opposite direction is not
/// covered: "delete the users" does not follow from "show the deleted users".
fn base_forms(word: &str) -> impl Iterator<Item = String> + use<> {
    let stem = word.strip_suffix("ing").or_else(|| word.strip_suffix("ed"));
    let stem = stem.filter(|stem| stem.len() > 2 && stem.chars().all(char::is_alphabetic));
    let forms = stem.into_iter().flat_map(|stem| {
        let mut ends = stem.chars().rev();
        let is_doubled = ends.next() == ends.next();
        let undoubled = stem.get(..stem.len() - 1).filter(|_| is_doubled);
        let with_y = stem.strip_suffix('i').map(|stem| format!("{stem}y"));
        let forms = [Some(stem.to_owned()), Some(format!("{stem}e")), with_y];
        forms.into_iter().flatten().chain(undoubled.map(str::to_owned))
    });
    forms.collect::<Vec<_>>().into_iter()
}

/// Attributes each word to the person if they said it, otherwise to the first tool that did.
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

fn pieces<'v>(value: &'v Value, agent_messages: &[AgentMessage<'_>]) -> Option<Vec<Piece<'v>>> {
    let written = |word: &str| {
        let first = agent_messages.iter().find(|message| message.has_word(word));
        first.map_or(usize::MAX, |message| message.message)
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
            is_loose: false,
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
        let rest = value.folded.get(at + word.len()..).unwrap_or_default();
        let is_reply = number == 0 && matches!(word, "re" | "fw" | "fwd") && rest.starts_with(": ");
        pieces.push(Piece {
            word,
            shape: Shape::of(word),
            is_content: !is_filler(word) && !is_reply,
            written: written(word),
            is_loose: false,
        });
    }
    Some(pieces)
}

/// Returns true if the person wrote every operator in the value: `status != active` does not express "status is
/// active".
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

/// Returns true if the person negated, within one sentence, a statement that the value makes without a negation.
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

/// Returns true if digit groups that are adjacent in the value were also adjacent where they were stated: four known
/// groups do not make a known account number.
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

/// Returns true for function words and courtesies. Words that negate, choose or count are never fillers.
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

/// Returns true for a negation, in the languages that replies are read in.
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

/// Derives a number that is the sum of one message's numbers, or a stated number changed by a stated amount. `None` if
/// it is neither.
fn sum(value: &Value, sources: &[Source<'_>], agent_messages: &[AgentMessage<'_>]) -> Option<Derived> {
    let wanted = value.number.as_ref().filter(|number| number.len() > 1)?;
    let added = sources
        .iter()
        .filter(|source| source.is_person())
        .rev()
        .find_map(|source| {
            let numbers: Vec<&Decimal> = source
                .text
                .number_matches()
                .iter()
                .filter_map(|number_match| number_match.readings.first())
                .collect();
            if !(2..=6).contains(&numbers.len()) {
                return None;
            }
            let total = numbers
                .iter()
                .try_fold("0".to_owned(), |sum, next| number::add(&sum, next));
            let is_all = total.as_ref() == Some(wanted);
            is_all.then(|| {
                source.part(
                    &numbers
                        .iter()
                        .map(|number| number.as_str())
                        .collect::<Vec<_>>()
                        .join(" + "),
                )
            })
        });
    let parts = match added {
        Some(part) => vec![part],
        None => changed(wanted, sources, agent_messages)?,
    };
    Some(Derived {
        how: Derivation::Sum,
        parts,
        unstated: Vec::new(),
    })
}

/// Derives a number such as `1200` from "the rent of 1100 is increased by 100". `None` if nothing like that was stated.
fn changed(
    wanted: &Decimal,
    sources: &[Source<'_>],
    agent_messages: &[AgentMessage<'_>],
) -> Option<Vec<Part>> {
    // A number that the agent wrote earlier does not count as the tool's.
    let counts = |source: &Source<'_>, number: &Decimal| {
        let mut earlier = agent_messages
            .iter()
            .filter(|message| message.message < source.message);
        source.is_person() || !earlier.any(|message| message.has_number(number))
    };
    for source in sources {
        let folded = source.text.folded();
        for number_match in source.text.number_matches() {
            let Some(change) = number_match.readings.first().filter(|change| {
                direction(folded, number_match.at.start).is_some() && counts(source, change)
            }) else {
                continue;
            };
            let is_more = direction(folded, number_match.at.start) == Some(true);
            // The base is the wanted number with the change reversed.
            let back = if is_more {
                format!("-{change}")
            } else {
                change.clone()
            };
            let Some(base) = number::add(wanted, &back) else {
                continue;
            };
            let states = |source: &&Source<'_>| {
                let mut number_matches = source.text.number_matches().iter();
                counts(source, &base)
                    && number_matches.any(|number_match| number_match.readings.contains(&base))
            };
            if let Some(of) = sources.iter().find(states) {
                let sign = if is_more { "+" } else { "-" };
                return Some(vec![of.part(&base), source.part(&format!("{sign} {change}"))]);
            }
        }
    }
    None
}

/// Returns true if the words before a number say that something grows by the number, false if it shrinks by the number,
/// and `None` if they say neither.
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

/// Derives a day shifted by what the person just asked for, or the end of something whose start and duration were
/// stated.
fn moved(
    value: &Value,
    others: &[Value],
    sources: &[Source<'_>],
    agent_messages: &[AgentMessage<'_>],
) -> Option<Derived> {
    let moment = value.moment?;
    let derived = |parts: Vec<Part>| Derived {
        how: Derivation::Shifted,
        parts,
        unstated: Vec::new(),
    };
    // "The next day" refers to the current topic, so only the person's last message is read.
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
        // The start must be stated too; otherwise nothing is known about the end.
        let states = |source: &&Source<'_>| {
            source
                .texts()
                .any(|text| other.stated_in(text).is_some() || other.implied_in(text, source.said).is_some())
        };
        let begins = match sources.iter().find(states) {
            Some(of) => Some(vec![of.part(&other.text)]),
            None => schedule::computed(other, sources, agent_messages).map(|begin| begin.parts),
        };
        let Some(begins) = begins else {
            continue;
        };
        let length = sources
            .iter()
            .find_map(|source| Some(source.part(&length_in(source, minutes)?)));
        if let Some(length) = length {
            return Some(derived([vec![length], begins].concat()));
        }
    }
    None
}

fn minutes_between(begin: DateTime, end: DateTime) -> Option<i64> {
    let seconds = begin.duration_until(end).as_secs();
    (seconds % 60 == 0).then_some(seconds / 60)
}

/// Returns the words in which a source states this duration, or a start and an end that are this far apart. `None` if
/// it states neither.
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
