//! When words say a value: exactly, and in the ways people say things.
//!
//! Enters: a value and a text. Leaves: the place and the way, or nothing.
//! Deliberately absent: who speaks. The same rules hold for people and tools; which of them counts is decided above.

use std::ops::Range;

use jiff::civil::{Date, Time};

use super::date::{self, Moment};
use super::mark::How;
use super::number::{self, Decimal, word_value};
use super::shape::Shape;
use super::text::{Text, fold_value, is_inside_word, words};
use crate::json::{Kind, Leaf};

/// A value to be looked for, with every reading of it.
pub(super) struct Value {
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) folded: String,
    pub(super) shape: Shape,
    pub(super) number: Option<Decimal>,
    pub(super) moment: Option<Moment>,
    time: Option<Time>,
    /// The words of its name: `travel_insurance` is travel and insurance.
    name: Vec<String>,
}

/// A place in a text; of the raw text if that is where it was looked for.
#[derive(Debug)]
pub(super) enum Place {
    Raw(Range<usize>),
    Folded(Range<usize>),
}

impl Value {
    pub(super) fn new(leaf: &Leaf<'_>) -> Value {
        Value::of(leaf.kind, leaf.text().into_owned(), &leaf.pointer)
    }

    /// A text: a member's name, or what the agent wrote.
    pub(super) fn of_text(text: String, pointer: &str) -> Value {
        Value::of(Kind::String, text, pointer)
    }

    fn of(kind: Kind, text: String, pointer: &str) -> Value {
        let folded = fold_value(&text);
        let is_short = text.len() <= 64;
        let is_string = kind == Kind::String;
        Value {
            kind,
            shape: Shape::of(&text),
            number: (is_short && (is_string || kind == Kind::Number))
                .then(|| number::value(&text))
                .flatten(),
            moment: (is_short && is_string).then(|| date::moment(&text)).flatten(),
            time: (is_short && is_string).then(|| date::clock_time(&text)).flatten(),
            name: name_words(pointer),
            text,
            folded,
        }
    }

    /// Whether it says nothing: null, or empty.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.kind, Kind::Null | Kind::EmptyArray | Kind::EmptyObject)
            || self.kind == Kind::String && self.folded.is_empty()
    }

    /// Where the text states this value as a whole, so that nothing else could be meant.
    pub(super) fn stated_in(&self, text: &Text<'_>) -> Option<(Place, How)> {
        if self.kind == Kind::Bool {
            return None;
        }
        if self.kind == Kind::String {
            if let Some(at) = text.find_verbatim(&self.text, self.shape) {
                return Some((Place::Raw(at), How::Exactly));
            }
            if let Some(at) = text.find_folded(&self.folded, self.shape)
                && self.has_same_path(text, &at)
            {
                return Some((Place::Folded(at), How::Exactly));
            }
        }
        if let Some(number) = &self.number {
            let figure = text
                .figures()
                .iter()
                .find(|figure| !is_part(text.folded(), &figure.at) && figure.readings.contains(number));
            if let Some(figure) = figure {
                return Some((Place::Folded(figure.at.clone()), How::Number));
            }
        }
        let day = self
            .moment
            .and_then(|moment| self.day_in(text, moment, |day| day.is(moment.date)));
        day.or_else(|| self.grouped_in(text))
    }

    /// Where the text says this value in other words. `said` is when it was said.
    pub(super) fn implied_in(&self, text: &Text<'_>, said: Option<Date>) -> Option<(Place, How)> {
        match self.kind {
            Kind::Bool => return self.yes_or_no_in(text),
            Kind::String | Kind::Number => {}
            _ => return None,
        }
        let number = self.number.as_ref().and_then(|number| number_in(text, number));
        let may_be = |moment: Moment| self.day_in(text, moment, |day| day.may_be(moment.date, said));
        number
            .or_else(|| self.moment.and_then(may_be))
            .or_else(|| self.time.and_then(|time| time_in(text, time)))
            .or_else(|| match self.kind {
                Kind::String => self.wording_in(text),
                _ => None,
            })
    }

    fn day_in(
        &self,
        text: &Text<'_>,
        moment: Moment,
        is_it: impl Fn(date::Day) -> bool,
    ) -> Option<(Place, How)> {
        let day = text.dates().iter().find(|stated| is_it(stated.day))?;
        match moment.time {
            Some(time) if !is_whole_day(time) => {
                time_in(text, time)?;
            }
            _ => {}
        }
        Some((Place::Folded(day.at.clone()), How::Date))
    }

    /// Phone numbers, cards and accounts: the same characters with other gaps.
    fn grouped_in(&self, text: &Text<'_>) -> Option<(Place, How)> {
        let compact = compact(&self.folded)?;
        let folded = text.folded();
        let starts = folded.char_indices().filter(|(at, character)| {
            let before = folded.get(..*at).and_then(|before| before.chars().next_back());
            compact.starts_with(*character) && !before.is_some_and(|c| is_inside_word(c) || c == '+')
        });
        let mut places = starts.filter_map(|(from, _)| Some(from..same_characters(folded, from, &compact)?));
        let at = places.next()?;
        Some((Place::Folded(at), How::Grouping))
    }

    fn wording_in(&self, text: &Text<'_>) -> Option<(Place, How)> {
        let folded = |at: Range<usize>, how: How| Some((Place::Folded(at), how));
        let bare = self.folded.trim_start_matches(['#', '$', '@']);
        if bare.len() > 2
            && bare.len() < self.folded.len()
            && let Some(at) = text.find_folded(bare, Shape::of(bare))
        {
            return folded(at, How::Exactly);
        }
        match self.shape {
            Shape::Mail => return None,
            Shape::Place => {
                let bare = bare_place(&self.folded);
                let at = text.find_folded(bare, Shape::Place).filter(|_| bare.len() > 3)?;
                // A link that was said to be safe is not said to be without that.
                let head = text.folded().get(..at.start)?;
                let head = head.strip_suffix("www.").unwrap_or(head);
                if self.folded.starts_with("http://") && head.ends_with("https://") {
                    return None;
                }
                return self
                    .has_same_path(text, &at)
                    .then_some((Place::Folded(at), How::Address));
            }
            Shape::Code | Shape::Words => {}
        }
        if let Some(at) = self.joined_otherwise(text) {
            return folded(at, How::Wording);
        }
        if let Some(at) = inflections(&self.folded).find_map(|form| text.find_folded(&form, Shape::Words)) {
            return folded(at, How::Wording);
        }
        if let Some(at) = super::code::names(&self.text).find_map(|name| text.find_folded(name, Shape::Words))
        {
            return folded(at, How::Code);
        }
        folded(text.find_part(&self.folded, self.shape)?, How::Part)
    }

    /// Whether a link's path is written there in the same case: on most servers `/a` and `/A` are two places.
    fn has_same_path(&self, text: &Text<'_>, at: &Range<usize>) -> bool {
        let is_link = self.folded.contains("://") || self.folded.starts_with("www.");
        if self.shape != Shape::Place || !is_link {
            return true;
        }
        let raw = text.raw().get(text.raw_range(at)).unwrap_or_default();
        path_of(raw) == path_of(&self.text)
    }

    /// `basic_economy` for "basic economy". A capitalised name is not a code: `ethan_garcia` is more than "Ethan
    /// Garcia" says.
    fn joined_otherwise(&self, text: &Text<'_>) -> Option<Range<usize>> {
        let parts: Vec<&str> = self.folded.split(['_', '-', ' ']).collect();
        let are_words = parts
            .iter()
            .all(|part| part.len() > 1 && part.chars().all(char::is_alphabetic));
        if parts.len() < 2 || !are_words {
            return None;
        }
        let joins = [" ", "-", "_"].map(|sign| parts.join(sign));
        let mut places = joins
            .iter()
            .filter_map(|form| text.find_folded(form, Shape::Words));
        places.find(|at| {
            let raw = text.raw().get(text.raw_range(at)).unwrap_or_default();
            let mut starts = raw.split([' ', '-', '_']).map(|word| word.chars().next());
            self.text.contains(' ') || !starts.all(|first| first.is_some_and(char::is_uppercase))
        })
    }

    /// `true` for "with travel insurance", `false` for "no insurance": the sentence that speaks of it, last one first.
    fn yes_or_no_in(&self, text: &Text<'_>) -> Option<(Place, How)> {
        let folded = text.folded();
        let written = [
            format!("{}\": {}", self.name.join("_"), self.text),
            format!("{}: {}", self.name.join("_"), self.text),
        ];
        if let Some(at) = written
            .iter()
            .find_map(|form| text.find_folded(form, Shape::Words))
        {
            return Some((Place::Folded(at), How::Exactly));
        }
        let mut from = 0;
        let mut found = None;
        for sentence in folded.split_inclusive(['.', '!', '?', ';']) {
            let place = from..from + sentence.len();
            from = place.end;
            let speaks_of_it = words(sentence).any(|(_, word)| {
                self.name.iter().any(|name| {
                    name.len() > 3 && (name == word || inflections(name).any(|form| form == word))
                })
            });
            let is_negated = words(sentence).any(|(_, word)| is_negation(word));
            if speaks_of_it {
                found = ((self.text == "true") != is_negated).then_some(place);
            }
        }
        found.map(|place| (Place::Folded(place), How::Implied))
    }
}

/// A figure that belongs to a date, a range or a time says nothing by itself.
fn is_part(text: &str, at: &Range<usize>) -> bool {
    let (before, after) = super::text::neighbours(text, at.start, at.end);
    let is_joint = |c: char| matches!(c, '-' | '/' | ':' | '_');
    let beyond = |c: Option<char>| c.is_some_and(is_inside_word);
    let head = at
        .start
        .checked_sub(1)
        .is_some_and(|outer| beyond(super::text::neighbours(text, outer, outer).0));
    let tail = beyond(super::text::neighbours(text, at.end + 1, at.end + 1).1);
    before.is_some_and(is_joint) && head || after.is_some_and(is_joint) && tail
}

fn number_in(text: &Text<'_>, number: &Decimal) -> Option<(Place, How)> {
    let figures = text.figures();
    if let Some(figure) = figures.iter().find(|figure| figure.readings.contains(number)) {
        return Some((Place::Folded(figure.at.clone()), How::Part));
    }
    let is_share = |reading: &Decimal| number::share(reading).as_ref() == Some(number);
    let mut percents = figures.iter().filter(|figure| figure.is_percent);
    if let Some(figure) = percents.find(|figure| figure.readings.iter().any(is_share)) {
        return Some((Place::Folded(figure.at.clone()), How::NumberWord));
    }
    let number: u32 = number.parse().ok()?;
    let (from, word) = words(text.folded()).find(|(_, word)| word_value(word) == Some(number))?;
    Some((Place::Folded(from..from + word.len()), How::NumberWord))
}

/// Midnight and the minute before it are how programs write a day without a time.
fn is_whole_day(time: Time) -> bool {
    time == Time::midnight() || (time.hour(), time.minute()) == (23, 59)
}

fn time_in(text: &Text<'_>, time: Time) -> Option<(Place, How)> {
    let (at, _) = date::times(text.folded())
        .into_iter()
        .find(|(_, said)| *said == time)?;
    Some((Place::Folded(at), How::Date))
}

/// The letters and digits of something long that people write in groups.
fn compact(folded: &str) -> Option<String> {
    let is_gap = |c: char| matches!(c, ' ' | '-' | '.' | '(' | ')');
    let digits = folded.chars().filter(char::is_ascii_digit).count();
    let compact: String = folded.chars().filter(|c| !is_gap(*c)).collect();
    let is_code = compact.chars().all(|c| c.is_ascii_alphanumeric() || c == '+');
    let compact = compact
        .strip_prefix("00")
        .map_or(compact.clone(), |rest| format!("+{rest}"));
    (is_code && digits >= 7 && digits * 2 >= compact.len() && compact.len() <= 40).then_some(compact)
}

/// Where the characters of `compact` end when they begin at `from`, with single gaps between them.
fn same_characters(text: &str, from: usize, compact: &str) -> Option<usize> {
    let mut wanted = compact.chars().peekable();
    let mut gaps = 0;
    let rest = text.get(from..)?;
    for (offset, character) in rest.char_indices() {
        match wanted.peek() {
            None => return (!is_inside_word(character)).then_some(from + offset),
            Some(next) if *next == character => {
                wanted.next();
                gaps = 0;
            }
            // `(0171) 234` has two.
            Some(_) if matches!(character, ' ' | '-' | '.' | '(' | ')') && gaps < 2 => gaps += 1,
            Some(_) => return None,
        }
    }
    wanted.peek().is_none().then_some(text.len())
}

fn bare_place(folded: &str) -> &str {
    let bare = folded
        .split_once("://")
        .map_or(folded, |(scheme, bare)| match scheme {
            "http" | "https" => bare,
            _ => folded,
        });
    let bare = bare.strip_prefix("www.").unwrap_or(bare);
    bare.strip_suffix('/').unwrap_or(bare)
}

/// What stands behind a link's host.
fn path_of(link: &str) -> &str {
    let bare = link.split_once("://").map_or(link, |(_, bare)| bare);
    let path = bare.find(['/', '?', '#']).and_then(|at| bare.get(at..));
    let path = path.unwrap_or_default();
    path.strip_suffix('/').unwrap_or(path)
}

/// A plain word's plural for its singular, and the other way round.
pub(super) fn inflections(word: &str) -> impl Iterator<Item = String> + use<> {
    let is_plain = word.len() > 3 && word.chars().all(char::is_alphabetic);
    let mut forms = Vec::new();
    if is_plain {
        forms.push(format!("{word}s"));
        if let Some(stem) = word.strip_suffix("ies") {
            forms.push(format!("{stem}y"));
        }
        if let Some(stem) = word.strip_suffix('s').filter(|stem| !stem.ends_with('s')) {
            forms.push(stem.to_owned());
        }
        if let Some(stem) = word.strip_suffix('y') {
            forms.push(format!("{stem}ies"));
        }
    }
    forms.into_iter()
}

fn is_negation(word: &str) -> bool {
    matches!(
        word,
        "no" | "not"
            | "don't"
            | "dont"
            | "without"
            | "never"
            | "decline"
            | "skip"
            | "neither"
            | "cancel"
            | "remove"
    ) || word.ends_with("n't")
}

/// `/flights/0/nonstopOnly` is named nonstop, only.
fn name_words(pointer: &str) -> Vec<String> {
    let mut segments = pointer.rsplit('/');
    let name = segments
        .find(|segment| segment.parse::<usize>().is_err())
        .unwrap_or_default();
    let mut words = vec![String::new()];
    for character in name.chars() {
        if !character.is_alphanumeric() || character.is_uppercase() {
            words.push(String::new());
        }
        if character.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
