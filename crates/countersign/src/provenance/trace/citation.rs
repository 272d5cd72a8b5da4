//! Choice of the place that is cited for a value, where several tool results state it.
//!
//! Input: the first result that states a value, and all results. Output: the mark that names the latest place with the
//! argument's own name (`contact_id` is read from `/contacts/0/id` rather than from `/deals`); without such a place, the
//! first one, called one of several if there are others.
//! INVARIANT: the choice changes only which place is named. If strangers may have written the first statement, only
//! their texts are cited, and otherwise never.

use std::ops::Range;

use super::form::{Value, name_words};
use super::number;
use super::text::fold_text;
use super::{By, MatchKind, Source, Tracing};
use crate::json::{self, Kind};
use crate::provenance::{Mark, ToolQuote};

/// Maximum size of a result whose places are listed, in bytes. In larger ones, the first place is cited.
const MOST_LISTED: usize = 256 * 1024;

/// A value in a JSON result.
pub(super) struct ResultLeaf {
    pointer: String,
    /// Byte range in the result, without quotes.
    range: Range<usize>,
    folded: String,
    number: Option<number::Decimal>,
    name: Vec<String>,
}

/// Lists the values of a result; empty if the result is not JSON or too large.
pub(super) fn result_leaves(text: &str) -> Vec<ResultLeaf> {
    if text.len() > MOST_LISTED || !text.trim_start().starts_with(['{', '[']) {
        return Vec::new();
    }
    let leaves = json::leaves_of_any(text.as_bytes());
    let stated = leaves
        .into_iter()
        .filter(|leaf| matches!(leaf.kind, Kind::String | Kind::Number));
    let listed = stated.map(|leaf| {
        let text = leaf.text();
        let quotes = usize::from(leaf.kind == Kind::String);
        ResultLeaf {
            range: leaf.range.start + quotes..leaf.range.end.saturating_sub(quotes),
            folded: fold_text(&text),
            number: (text.len() <= 64).then(|| number::value(&text)).flatten(),
            name: name_words(&leaf.pointer),
            pointer: leaf.pointer,
        }
    });
    listed.collect()
}

impl ResultLeaf {
    fn is(&self, value: &Value) -> bool {
        match &value.number {
            Some(number) => self.number.as_ref() == Some(number),
            None => self.folded == value.folded,
        }
    }

    /// Returns true if the leaf has the argument's name: the same one, or a last word of it where the rest names the
    /// thing that the leaf belongs to, or the tool that returned it.
    fn is_named_like(&self, argument: &[String], tool: &str) -> bool {
        if self.name.is_empty() || argument.is_empty() {
            return false;
        }
        let Some(split) = argument.len().checked_sub(self.name.len()) else {
            return false;
        };
        let (thing, last) = argument.split_at_checked(split).unwrap_or_default();
        let are_same = last
            .iter()
            .zip(&self.name)
            .all(|(one, other)| is_same_word(one, other));
        let parent = parent(&self.pointer);
        let around: Vec<String> = [name_words(parent), name_words(tool)].concat();
        are_same
            && thing
                .iter()
                .all(|word| around.iter().any(|other| is_same_word(word, other)))
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

impl Tracing<'_, '_> {
    /// Returns the mark to show for a value that `first` states with `mark`.
    pub(super) fn cite(&self, value: &Value, first: &Source<'_>, mark: Mark) -> Mark {
        let Mark::Tool(quote) = mark else {
            return mark;
        };
        let is_alike = |source: &&Source<'_>| match source.by {
            By::Person => false,
            By::Tool { is_outside, .. } => is_outside == quote.is_outside,
        };
        let same_name = self.sources.iter().rev().filter(is_alike).find_map(|source| {
            let By::Tool { name, .. } = source.by else {
                return None;
            };
            let mut leaves = source.leaves().iter();
            let leaf = leaves.find(|leaf| leaf.is(value) && leaf.is_named_like(&value.name, name))?;
            Some(source.cited(leaf, quote.quote.how))
        });
        if let Some(cited) = same_name {
            return cited;
        }
        // Results after the agent used the value may only repeat it.
        let used = self.agent_messages.iter().find(|message| message.states(value));
        let used = used.map_or(usize::MAX, |message| message.message);
        let read = self.sources.iter().filter(is_alike);
        let read = read.filter(|source| source.message == first.message || source.message < used);
        let places: usize = read
            .map(|source| source.leaves().iter().filter(|leaf| leaf.is(value)).count())
            .sum();
        Mark::Tool(match places {
            0 | 1 => quote,
            _ => one_of_several(quote),
        })
    }
}

fn one_of_several(mut quote: ToolQuote) -> ToolQuote {
    quote.quote.how = MatchKind::OneOfSeveral;
    quote
}

impl Source<'_> {
    fn leaves(&self) -> &[ResultLeaf] {
        self.leaves.get_or_init(|| result_leaves(self.text.raw()))
    }

    fn cited(&self, leaf: &ResultLeaf, how: MatchKind) -> Mark {
        let words = self.text.raw().get(leaf.range.clone()).unwrap_or_default();
        let span = u32::try_from(leaf.range.start)
            .ok()
            .zip(u32::try_from(leaf.range.end).ok());
        self.marked_at(words, span, how, Some(leaf.pointer.clone()))
    }
}
