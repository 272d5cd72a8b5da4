//! Chooses which place to cite for a value that several tool results state.
//!
//! Input: the first result that states a value, and all results. Output: a mark that names the latest place with the
//! argument's own name (for `contact_id`, `/contacts/0/id` rather than `/deals`). Without such a place, the mark names
//! the first one, with [`MatchKind::OneOfSeveral`] if there are others.
//! INVARIANT: the choice changes only which place is named. If strangers may have written the first statement, only
//! their texts are cited, and otherwise never.

use std::ops::Range;

use memchr::memmem;

use super::count::key_before;
use super::form::{Value, name_words};
use super::text::{is_inside_word, neighbours};
use super::{By, MatchKind, Source, Tracing};
use crate::json;
use crate::provenance::Mark;

/// Maximum number of places of one result that are compared. If a result has more, its first place is cited.
const MOST_PLACES: usize = 64;

impl Tracing<'_, '_> {
    /// Returns the mark to show for a value that `first` states with `mark`.
    pub(super) fn cite(&self, value: &Value, first: &Source<'_>, mark: Mark) -> Mark {
        let Mark::Tool(mut quote) = mark else {
            return mark;
        };
        let is_alike = |source: &&Source<'_>| !source.is_person() && source.is_outside() == quote.is_outside;
        let same_name = self.sources.iter().rev().filter(is_alike).find_map(|source| {
            let mut places = source.places(value).into_iter();
            let place = places.find(|place| source.is_named_like(place, &value.name))?;
            Some(source.cited(place, quote.quote.how))
        });
        if let Some(cited) = same_name {
            return cited;
        }
        // Results after the agent used the value may only repeat it.
        let used = self.agent_messages.iter().find(|message| message.states(value));
        let used = used.map_or(usize::MAX, |message| message.message);
        let read = self.sources.iter().filter(is_alike);
        let read = read.filter(|source| source.message == first.message || source.message < used);
        let places: usize = read.map(|source| source.places(value).len()).sum();
        if places > 1 {
            quote.quote.how = MatchKind::OneOfSeveral;
        }
        Mark::Tool(quote)
    }
}

impl Source<'_> {
    /// Returns the byte ranges of the values in a JSON result that have the same text as this value; empty if the
    /// result is not JSON.
    fn places(&self, value: &Value) -> Vec<Range<usize>> {
        let text = self.text.raw();
        if value.text.is_empty() || !text.trim_start().starts_with(['{', '[']) {
            return Vec::new();
        }
        let finder = memmem::Finder::new(value.text.as_bytes());
        let starts = finder.find_iter(text.as_bytes());
        let places = starts.map(|from| from..from + value.text.len());
        places
            .filter(|place| is_whole(text, place))
            .take(MOST_PLACES)
            .collect()
    }

    /// Returns true if the key at a place matches the argument's name: it is the same, or it is the last word of the
    /// name and the words before it name the containing object or the tool (`id` in `/contacts/0` for `contact_id`).
    fn is_named_like(&self, place: &Range<usize>, argument: &[String]) -> bool {
        let By::Tool { name: tool, .. } = self.by else {
            return false;
        };
        let text = self.text.raw();
        let pointer = || json::pointer_at(text, place.start).unwrap_or_default();
        // Finding the key in the text is much cheaper than finding the pointer; members of a list have no key.
        let own = match key_before(text, place.start) {
            Some(key) => name_words(key),
            None => name_words(&pointer()),
        };
        let Some(split) = argument.len().checked_sub(own.len()).filter(|_| !own.is_empty()) else {
            return false;
        };
        let (thing, last) = argument.split_at_checked(split).unwrap_or_default();
        if !last.iter().zip(&own).all(|(one, other)| is_same_word(one, other)) {
            return false;
        }
        let is_in = |words: &[String]| {
            let mut thing = thing.iter();
            thing.all(|word| words.iter().any(|other| is_same_word(word, other)))
        };
        is_in(&name_words(tool)) || is_in(&[name_words(tool), name_words(parent(&pointer()))].concat())
    }

    fn cited(&self, place: Range<usize>, how: MatchKind) -> Mark {
        let words = self.text.raw().get(place.clone()).unwrap_or_default();
        let span = u32::try_from(place.start).ok().zip(u32::try_from(place.end).ok());
        self.marked(words, span, how)
    }
}

/// Returns true if the text at a place is a whole string or number of a JSON text, and not a key.
fn is_whole(text: &str, place: &Range<usize>) -> bool {
    match neighbours(text, place.start, place.end) {
        (Some('"'), Some('"')) => {
            let rest = text.get(place.end + 1..).unwrap_or_default();
            !rest.trim_start().starts_with(':')
        }
        (before, after) => {
            let is_number = text
                .get(place.clone())
                .is_some_and(|value| value.parse::<f64>().is_ok());
            let goes_on = |c: char| is_inside_word(c) || matches!(c, '.' | '-' | '+' | '"');
            is_number && !before.is_some_and(goes_on) && !after.is_some_and(goes_on)
        }
    }
}

/// Returns the pointer of the object that contains the value at `pointer`.
fn parent(pointer: &str) -> &str {
    let mut segments = pointer.rmatch_indices('/').map(|(at, _)| at);
    let named = segments.find(|at| {
        let segment = pointer.get(at + 1..).unwrap_or_default();
        segment
            .split('/')
            .next()
            .is_some_and(|name| name.parse::<usize>().is_err())
    });
    named.and_then(|at| pointer.get(..at)).unwrap_or_default()
}

/// Returns true if two words are the same, or one is the plural of the other.
fn is_same_word(one: &str, other: &str) -> bool {
    let is_plural = |many: &str, single: &str| {
        many.strip_suffix('s') == Some(single)
            || many
                .strip_suffix("ies")
                .is_some_and(|stem| single.strip_suffix('y') == Some(stem))
    };
    one == other || is_plural(one, other) || is_plural(other, one)
}
