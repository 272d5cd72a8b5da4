//! Where every value of a call came from: the person's words, a tool's result, or nowhere.
//!
//! Enters: what was said, and the exact bytes of a call's arguments. Leaves: a mark for each value, with the words it
//! was found in. Deliberately absent: models, likeness and trust in wording. A value is somebody's when they stated
//! it as a whole; who spoke is told by the message's place in the conversation.
//!
//! The order in which explanations are tried is the promise made here:
//!
//! 1. the person states it as it is (or the same number, day or account, written otherwise),
//! 2. a tool states it so,
//! 3. the person says it in other words ("May 3rd", "two", "New York"),
//! 4. a tool does,
//! 5. the tool's schema has it as the default,
//! 6. it is made of stated values, and called `derived`, with the least trusted of them named,
//! 7. nobody stated it.
//!
//! Where nobody heard the person, only step 2 and the default are tried, and all else is unknown: it may well be theirs.
//!
//! INVARIANT: what only a tool states is found in step 2 before any wording of the person's is tried.
//! INVARIANT: a tool states only what the agent did not write before. A result that repeats the agent's own words, in
//! whatever form, makes them nobody else's.

mod address;
mod code;
mod compose;
mod conversation;
mod date;
mod form;
mod mark;
mod number;
mod own;
mod shape;
mod text;
mod told;
mod verdict;

use jiff::civil::Date;

use crate::json::{self, Leaf};
use form::{Place, Value};
use own::{Own, Wrote};
use text::Text;

pub use conversation::{Conversation, MOST_BYTES, MOST_MESSAGES, Message};
pub use mark::{
    Counts, Derived, Heard, How, Making, Mark, Part, Provenance, Quote, ToolQuote, Traced, place,
};
pub use told::{Teller, Told};
pub use verdict::Marks;

/// More values than this are not looked for: they are unknown.
const MOST_LEAVES: usize = 1_000;
/// Longest quoted words, in characters.
const QUOTED_CHARS: usize = 120;

/// What a tool's definition says about its arguments.
pub trait Declared {
    /// Whether a value is what the tool takes when nothing is said.
    fn is_default(&self, leaf: &Leaf<'_>) -> bool;

    /// Whether the member at a pointer is called so by the definition. Any other name was chosen by whoever made the call.
    fn is_name(&self, pointer: &str) -> bool {
        is_parameter(pointer)
    }

    /// Whether a tool's results are what strangers wrote, whatever the conversation calls them.
    fn is_outside(&self, _tool: &str) -> bool {
        false
    }
}

/// Whether a pointer is that of a parameter: without a definition, only the outermost names are taken for its names.
pub fn is_parameter(pointer: &str) -> bool {
    pointer.matches('/').count() <= 1
}

/// A tool of which only the defaults are known.
struct Defaults<'d>(&'d dyn Fn(&Leaf<'_>) -> bool);

impl Declared for Defaults<'_> {
    fn is_default(&self, leaf: &Leaf<'_>) -> bool {
        (self.0)(leaf)
    }
}

/// Finds out where each value of `arguments` came from. `is_default` says what the tool's schema would take anyway.
pub fn trace(
    conversation: &Conversation,
    arguments: &[u8],
    is_default: &dyn Fn(&Leaf<'_>) -> bool,
) -> Provenance {
    trace_declared(conversation, arguments, &Defaults(is_default))
}

/// Finds out where each value of `arguments` came from, and each name that the tool's definition does not have.
pub fn trace_declared(conversation: &Conversation, arguments: &[u8], declared: &dyn Declared) -> Provenance {
    let (sources, own, heard) = sources(conversation, declared);
    let leaves = json::leaves(arguments);
    // An empty outer object has no values.
    let leaves: Vec<&Leaf<'_>> = leaves.iter().filter(|leaf| !leaf.pointer.is_empty()).collect();
    let values: Vec<Value> = leaves
        .iter()
        .take(MOST_LEAVES)
        .map(|leaf| Value::new(leaf))
        .collect();
    let tracing = Tracing {
        sources,
        own,
        heard,
        values: &values,
    };
    let marked = leaves.iter().enumerate().map(|(at, leaf)| {
        let mark = match values.get(at) {
            Some(value) => tracing.mark(value, || declared.is_default(leaf)),
            None => Mark::Unknown,
        };
        let pointer = leaf.pointer.clone();
        Traced { pointer, mark }
    });
    let keys = chosen_keys(arguments, declared);
    let keys = keys.into_iter().enumerate().map(|(at, key)| {
        let mark = match at < MOST_LEAVES {
            true => tracing.mark(&Value::of_text(key.text, ""), || false),
            false => Mark::Unknown,
        };
        Traced::key(&key.pointer, mark)
    });
    Provenance::new(marked.chain(keys).collect(), heard)
}

/// The names that are values: those the tool's definition does not have.
fn chosen_keys(arguments: &[u8], declared: &dyn Declared) -> Vec<json::Key> {
    let mut keys = json::keys(arguments);
    keys.retain(|key| !declared.is_name(&key.pointer));
    keys
}

/// The marks when there is no conversation: unknown, never fine.
pub fn unknown(arguments: &[u8]) -> Provenance {
    let leaves = json::leaves(arguments);
    let named = leaves.into_iter().filter(|leaf| !leaf.pointer.is_empty());
    let traced = named.map(|leaf| Traced {
        pointer: leaf.pointer,
        mark: Mark::Unknown,
    });
    Provenance::new(traced.collect(), Heard::Whole)
}

struct Tracing<'c, 'v> {
    sources: Vec<Source<'c>>,
    /// What the agent said, and the arguments of its calls.
    own: Vec<Own<'c>>,
    heard: Heard,
    values: &'v [Value],
}

/// One message that can state a value.
struct Source<'c> {
    message: usize,
    by: By<'c>,
    /// The day it was said.
    said: Option<Date>,
    text: Text<'c>,
    /// The text without the escapes of structured results.
    plain: Option<Text<'c>>,
}

enum By<'c> {
    Person,
    Tool { name: &'c str, is_outside: bool },
}

impl<'c> Source<'c> {
    fn is_person(&self) -> bool {
        matches!(self.by, By::Person)
    }

    fn texts(&self) -> impl Iterator<Item = &Text<'c>> {
        std::iter::once(&self.text).chain(&self.plain)
    }

    /// A piece of a derived value that came from here.
    fn part(&self, words: &str) -> Part {
        let (tool, is_outside) = match self.by {
            By::Person => (None, false),
            By::Tool { name, is_outside } => (Some(name.to_owned()), is_outside),
        };
        Part {
            tool,
            is_outside,
            words: shorten(words),
        }
    }

    fn find(&self, look: impl Fn(&Text<'_>) -> Option<(Place, How)>) -> Option<Mark> {
        if let Some((place, how)) = look(&self.text) {
            let range = match place {
                Place::Raw(range) => range,
                Place::Folded(range) => self.text.raw_range(&range),
            };
            let words = self.text.raw().get(range.clone()).unwrap_or_default();
            let span = u32::try_from(range.start).ok().zip(u32::try_from(range.end).ok());
            return Some(self.marked(words, span, how));
        }
        let plain = self.plain.as_ref()?;
        let (place, how) = look(plain)?;
        let words = match place {
            Place::Raw(range) => plain.raw().get(range),
            Place::Folded(range) => plain.folded().get(range),
        };
        Some(self.marked(words.unwrap_or_default(), None, how))
    }

    fn marked(&self, words: &str, span: Option<(u32, u32)>, how: How) -> Mark {
        let quote = Quote {
            message: u32::try_from(self.message).unwrap_or(u32::MAX),
            span,
            words: shorten(words),
            how,
        };
        match self.by {
            By::Person => Mark::Person(quote),
            By::Tool { name, is_outside } => Mark::Tool(ToolQuote {
                name: name.to_owned(),
                is_outside,
                pointer: span.and_then(|(from, _)| json::pointer_at(self.text.raw(), from as usize)),
                quote,
            }),
        }
    }
}

impl Tracing<'_, '_> {
    fn mark(&self, value: &Value, is_default: impl Fn() -> bool) -> Mark {
        if value.is_empty() {
            return Mark::Default;
        }
        // What the person said last is what they mean; what a tool said first is where it came from.
        let people = || self.sources.iter().filter(|source| source.is_person()).rev();
        let tools = || self.sources.iter().filter(|source| !source.is_person());
        let stated = |source: &Source<'_>| source.find(|text| value.stated_in(text));
        let implied = |source: &Source<'_>| source.find(|text| value.implied_in(text, source.said));
        if let Some(mark) = people().find_map(stated) {
            return mark;
        }
        let from_tool = tools().find_map(|source| Some((source.message, stated(source)?)));
        let mut is_repeated = false;
        if let Some((message, mark)) = from_tool {
            // A tool that repeats what the agent made up is no source.
            is_repeated = self.wrote(value, message, false);
            if !is_repeated {
                return mark;
            }
        }
        // INVARIANT: nothing below may be said of a person whom nobody heard. The agent may have it from them.
        if self.heard == Heard::Tools {
            return match is_default() && !is_repeated {
                true => Mark::Default,
                false => Mark::Unknown,
            };
        }
        let implied_by_tool = || {
            let source = tools().find(|source| implied(source).is_some())?;
            (!self.wrote(value, source.message, true))
                .then(|| implied(source))
                .flatten()
        };
        if let Some(mark) = people().find_map(implied).or_else(implied_by_tool) {
            return mark;
        }
        if is_default() {
            return Mark::Default;
        }
        match compose::derive(value, self.values, &self.sources, &self.own) {
            Some(derived) => Mark::Derived(derived),
            None => Mark::Invented {
                agent_said_it: is_repeated || self.wrote(value, usize::MAX, false),
            },
        }
    }

    /// Whether the agent itself wrote a value before a message.
    fn wrote(&self, value: &Value, message: usize, implied: bool) -> bool {
        let wrote = Wrote {
            own: &self.own,
            is_given: |value: &Value, message: usize| {
                let mut earlier = self.sources.iter().filter(|source| source.message < message);
                earlier.any(|source| source.texts().any(|text| value.stated_in(text).is_some()))
            },
        };
        wrote.has(value, message, implied)
    }
}

type Sources<'c> = (Vec<Source<'c>>, Vec<Own<'c>>, Heard);

fn sources<'c>(conversation: &'c Conversation, declared: &dyn Declared) -> Sources<'c> {
    let (messages, is_shortened) = conversation.recent();
    let heard = match (conversation.is_unheard(), is_shortened) {
        (true, _) => Heard::Tools,
        (false, true) => Heard::Recent,
        (false, false) => Heard::Whole,
    };
    let mut sources = Vec::new();
    let mut own = Vec::new();
    for (number, message) in messages {
        let (by, at) = match message {
            Message::Agent { text } => {
                own.push(Own::new(number, text));
                continue;
            }
            // Said to be unheard, and yet something: then nobody can say whose words these are.
            Message::Person { .. } if heard == Heard::Tools => continue,
            Message::Unheard => continue,
            Message::Person { at, .. } => (By::Person, *at),
            Message::Tool { name, .. } => {
                let is_outside = declared.is_outside(name);
                (By::Tool { name, is_outside }, None)
            }
            Message::Outside { name, .. } => {
                let is_outside = true;
                (By::Tool { name, is_outside }, None)
            }
        };
        let said = at.and_then(|at| jiff::Timestamp::from_microsecond(at.as_micros()).ok());
        let plain = match by {
            By::Person => None,
            By::Tool { .. } => text::without_escapes(message.text()).map(Text::new),
        };
        sources.push(Source {
            message: number,
            by,
            said: said.map(|said| said.to_zoned(jiff::tz::TimeZone::UTC).date()),
            text: Text::new(message.text()),
            plain,
        });
    }
    (sources, own, heard)
}

fn shorten(words: &str) -> String {
    let words = words.trim();
    match words.chars().count() > QUOTED_CHARS {
        true => words.chars().take(QUOTED_CHARS).chain(['…']).collect(),
        false => words.to_owned(),
    }
}

#[cfg(test)]
mod tests;
