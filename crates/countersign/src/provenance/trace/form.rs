//! Matching of a value against a text: verbatim, and in the ways people express values.
//!
//! Input: a value and a text. Output: the place and manner of the match, or `None`. The same rules apply to people and
//! tools; the caller decides whose statement counts.

use std::ops::Range;

use jiff::civil::{Date, Time};

use super::super::mark::MatchKind;
use super::count;
use super::date::{self, Moment};
use super::number::{self, Decimal, word_value};
use super::shape::Shape;
use super::text::{Text, fold_value, is_inside_word, words};
use crate::json::{Kind, Leaf};

/// A value to search for, parsed in every way that its text can be interpreted.
pub(super) struct Value {
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) folded: String,
    pub(super) shape: Shape,
    pub(super) number: Option<Decimal>,
    pub(super) moment: Option<Moment>,
    pub(super) time: Option<Time>,
    /// Words of the argument's name: `travel_insurance` gives "travel" and "insurance".
    pub(super) name: Vec<String>,
}

/// Whether a number that counts things ("2 deals") may state an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Included,
    LeftOut,
}

/// Byte range in the raw or in the folded text.
#[derive(Debug)]
pub(super) enum TextRange {
    Raw(Range<usize>),
    Folded(Range<usize>),
}

impl Value {
    pub(super) fn new(leaf: &Leaf<'_>) -> Value {
        Value::of(leaf.kind, leaf.text().into_owned(), &leaf.pointer)
    }

    /// Builds a value from text that is not a leaf: a member name, or the agent's words.
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

    /// Returns true for null, and for an empty string, array or object.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.kind, Kind::Null | Kind::Array | Kind::Object)
            || self.kind == Kind::String && self.folded.is_empty()
    }

    /// Like [`Self::stated_in`], except that `counted` may exclude counts: `"deals": 1` does not state the `contact_id`
    /// 1.
    pub(super) fn stated_by(&self, text: &Text<'_>, counted: Counted) -> Option<(TextRange, MatchKind)> {
        match self.short_id().filter(|_| counted == Counted::LeftOut) {
            Some(number) => id_in(text, number),
            None => self.stated_in(text),
        }
    }

    /// Like [`Self::implied_in`], except that `counted` may exclude counts.
    pub(super) fn implied_by(
        &self,
        text: &Text<'_>,
        said: Option<Date>,
        counted: Counted,
    ) -> Option<(TextRange, MatchKind)> {
        let (place, how) = self.implied_in(text, said)?;
        let TextRange::Folded(at) = &place else {
            return Some((place, how));
        };
        let is_left_out =
            counted == Counted::LeftOut && self.short_id().is_some() && count::is_count(text.folded(), at);
        (!is_left_out).then_some((place, how))
    }

    /// Returns the number if it is short and the argument is an id; otherwise `None`. Such a number occurs by chance in
    /// many texts.
    fn short_id(&self) -> Option<&Decimal> {
        let is_id = self
            .name
            .last()
            .is_some_and(|word| matches!(word.as_str(), "id" | "ids"));
        let is_short = |number: &&Decimal| number.len() <= 3 && number.bytes().all(|b| b.is_ascii_digit());
        self.number.as_ref().filter(is_short).filter(|_| is_id)
    }

    /// Returns the place where the text states this value as a whole and unambiguously; `None` if it does not.
    pub(super) fn stated_in(&self, text: &Text<'_>) -> Option<(TextRange, MatchKind)> {
        if self.kind == Kind::Bool {
            return None;
        }
        if self.kind == Kind::String {
            if let Some(at) = text.find_verbatim(&self.text, self.shape) {
                return Some((TextRange::Raw(at), MatchKind::Exactly));
            }
            if let Some(at) = text.find_folded(&self.folded, self.shape)
                && self.has_same_path(text, &at)
            {
                return Some((TextRange::Folded(at), MatchKind::Exactly));
            }
        }
        if let Some(number) = &self.number {
            let number_match = text.number_matches().iter().find(|number_match| {
                !is_part(text.folded(), &number_match.at) && number_match.readings.contains(number)
            });
            if let Some(number_match) = number_match {
                return Some((TextRange::Folded(number_match.at.clone()), MatchKind::Number));
            }
        }
        let day = self
            .moment
            .and_then(|moment| self.day_in(text, moment, |day| day.is(moment.date)));
        day.or_else(|| self.grouped_in(text))
    }

    /// Returns the place where the text expresses this value in other words; `None` if it does not. `said` is the date
    /// of the message.
    pub(super) fn implied_in(&self, text: &Text<'_>, said: Option<Date>) -> Option<(TextRange, MatchKind)> {
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
    ) -> Option<(TextRange, MatchKind)> {
        let day = text.dates().iter().find(|stated| is_it(stated.day))?;
        match moment.time {
            Some(time) if !is_whole_day(time) => {
                time_in(text, time)?;
            }
            _ => {}
        }
        Some((TextRange::Folded(day.at.clone()), MatchKind::Date))
    }

    /// Finds a phone, card or account number: the same characters with other separators. `None` if the text does not
    /// contain it.
    fn grouped_in(&self, text: &Text<'_>) -> Option<(TextRange, MatchKind)> {
        let compact = compact(&self.folded)?;
        let folded = text.folded();
        let starts = folded.char_indices().filter(|(at, character)| {
            let before = folded.get(..*at).and_then(|before| before.chars().next_back());
            compact.starts_with(*character) && !before.is_some_and(|c| is_inside_word(c) || c == '+')
        });
        let mut places = starts.filter_map(|(from, _)| Some(from..same_characters(folded, from, &compact)?));
        let at = places.next()?;
        Some((TextRange::Folded(at), MatchKind::Grouping))
    }

    fn wording_in(&self, text: &Text<'_>) -> Option<(TextRange, MatchKind)> {
        let folded = |at: Range<usize>, how: MatchKind| Some((TextRange::Folded(at), how));
        let bare = self.folded.trim_start_matches(['#', '$', '@']);
        if bare.len() > 2
            && bare.len() < self.folded.len()
            && let Some(at) = text.find_folded(bare, Shape::of(bare))
        {
            return folded(at, MatchKind::Exactly);
        }
        match self.shape {
            Shape::Mail => return None,
            Shape::Place => {
                let bare = bare_place(&self.folded);
                let at = text.find_folded(bare, Shape::Place).filter(|_| bare.len() > 3)?;
                // Someone who wrote `https://` did not state the `http://` link.
                let head = text.folded().get(..at.start)?;
                let head = head.strip_suffix("www.").unwrap_or(head);
                if self.folded.starts_with("http://") && head.ends_with("https://") {
                    return None;
                }
                return self
                    .has_same_path(text, &at)
                    .then_some((TextRange::Folded(at), MatchKind::Address));
            }
            Shape::Code | Shape::Words => {}
        }
        if let Some(at) = self.joined_otherwise(text) {
            return folded(at, MatchKind::Wording);
        }
        if let Some(at) = inflections(&self.folded).find_map(|form| text.find_folded(&form, Shape::Words)) {
            return folded(at, MatchKind::Wording);
        }
        if let Some(at) = super::code::names(&self.text).find_map(|name| text.find_folded(name, Shape::Words))
        {
            return folded(at, MatchKind::Code);
        }
        folded(text.find_part(&self.folded, self.shape)?, MatchKind::Part)
    }

    /// Returns true if a link's path has the same case in the text: on most servers `/a` and `/A` differ.
    fn has_same_path(&self, text: &Text<'_>, at: &Range<usize>) -> bool {
        let is_link = self.folded.contains("://") || self.folded.starts_with("www.");
        if self.shape != Shape::Place || !is_link {
            return true;
        }
        let raw = text.raw().get(text.raw_range(at)).unwrap_or_default();
        path_of(raw) == path_of(&self.text)
    }

    /// Finds the same words joined differently: `basic_economy` in "basic economy". A capitalised name does not match:
    /// `ethan_garcia` may be a user id, which "Ethan Garcia" does not state.
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

    /// Finds the sentence that implies a boolean: `true` from "with travel insurance", `false` from "no insurance". The
    /// last sentence about the subject counts.
    fn yes_or_no_in(&self, text: &Text<'_>) -> Option<(TextRange, MatchKind)> {
        let folded = text.folded();
        let written = [
            format!("{}\": {}", self.name.join("_"), self.text),
            format!("{}: {}", self.name.join("_"), self.text),
        ];
        if let Some(at) = written
            .iter()
            .find_map(|form| text.find_folded(form, Shape::Words))
        {
            return Some((TextRange::Folded(at), MatchKind::Exactly));
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
        found.map(|place| (TextRange::Folded(place), MatchKind::Implied))
    }
}

/// Returns the place where the text states a short id; counts do not match. `None` if there is no such place.
fn id_in(text: &Text<'_>, id: &Decimal) -> Option<(TextRange, MatchKind)> {
    let mut numbers = text.number_matches().iter();
    let found = numbers.find(|number_match| {
        !is_part(text.folded(), &number_match.at)
            && number_match.readings.contains(id)
            && !count::is_count(text.folded(), &number_match.at)
    })?;
    let written = text.folded().get(found.at.clone());
    let how = match written == Some(id.as_str()) {
        true => MatchKind::Exactly,
        false => MatchKind::Number,
    };
    Some((TextRange::Folded(found.at.clone()), how))
}

/// Returns true if a number is part of a date, a range or a time, and so is not stated by itself.
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

fn number_in(text: &Text<'_>, number: &Decimal) -> Option<(TextRange, MatchKind)> {
    let number_matches = text.number_matches();
    if let Some(number_match) = number_matches
        .iter()
        .find(|number_match| number_match.readings.contains(number))
    {
        return Some((TextRange::Folded(number_match.at.clone()), MatchKind::Part));
    }
    let is_share = |reading: &Decimal| number::share(reading).as_ref() == Some(number);
    let mut percents = number_matches
        .iter()
        .filter(|number_match| number_match.is_percent);
    if let Some(number_match) = percents.find(|number_match| number_match.readings.iter().any(is_share)) {
        return Some((TextRange::Folded(number_match.at.clone()), MatchKind::NumberWord));
    }
    let number: u32 = number.parse().ok()?;
    let (from, word) = words(text.folded()).find(|(_, word)| word_value(word) == Some(number))?;
    Some((TextRange::Folded(from..from + word.len()), MatchKind::NumberWord))
}

/// Returns true for midnight and 23:59, which programs write for a day without a time.
pub(super) fn is_whole_day(time: Time) -> bool {
    time == Time::midnight() || (time.hour(), time.minute()) == (23, 59)
}

fn time_in(text: &Text<'_>, time: Time) -> Option<(TextRange, MatchKind)> {
    let (at, _) = date::times(text.folded())
        .into_iter()
        .find(|(_, said)| *said == time)?;
    Some((TextRange::Folded(at), MatchKind::Date))
}

/// Removes the separators from a long code that people write in groups; `None` if the text is not such a code.
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

/// Returns the end of a match of `compact` that begins at `from`, allowing up to two separators between characters.
/// `None` if there is no match.
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
            // `(0171) 234` has two separators in a row.
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

/// Returns the part of a link after its host.
fn path_of(link: &str) -> &str {
    let bare = link.split_once("://").map_or(link, |(_, bare)| bare);
    let path = bare.find(['/', '?', '#']).and_then(|at| bare.get(at..));
    let path = path.unwrap_or_default();
    path.strip_suffix('/').unwrap_or(path)
}

/// Returns the plural of a singular word, and the singular of a plural.
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

/// Splits the last name in a pointer into words: `/flights/0/nonstopOnly` gives "nonstop" and "only".
pub(super) fn name_words(pointer: &str) -> Vec<String> {
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
