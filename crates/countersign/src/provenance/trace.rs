//! Traces the values of a call: finds who stated each of them.
//!
//! Input: the conversation, and the exact bytes of a call's arguments. Output: a mark for each value, with the words it
//! was found in. Neither language models nor fuzzy matching are used. A value counts as stated only if it was stated as
//! a whole; the speaker is determined by a message's role in the conversation, never by its text.
//!
//! Explanations are tried in this fixed order:
//!
//! 1. the person states the value as it is (or the same number, day or account in another notation),
//! 2. a tool states it that way,
//! 3. the person says it in other words ("May 3rd", "two", "New York"),
//! 4. a tool says it in other words,
//! 5. it is the default in the tool's schema,
//! 6. it is composed of stated values: the mark is `derived` and names the least trusted of them,
//! 7. nobody stated it.
//!
//! If the person's messages are missing from the conversation, only steps 2 and 5 are tried and every other value is
//! unknown, since the person may have stated it.
//!
//! INVARIANT: a value stated only by a tool is found in step 2, before the person's words are searched for a rewording
//! of it.
//! INVARIANT: a tool states only what the agent did not write earlier. A result that repeats the agent's own words, in
//! whatever encoding, does not count as a source.

mod address;
mod agent_words;
mod citation;
mod code;
mod compose;
mod count;
mod date;
mod form;
mod number;
mod schedule;
mod shape;
mod text;

use jiff::civil::Date;

use super::{Conversation, Coverage, Mark, MatchKind, Message, Part, Provenance, Quote, ToolQuote, Traced};
use crate::json::{self, Leaf};
use agent_words::{AgentEchoCheck, AgentMessage};
use form::{Counted, TextRange, Value};
use text::Text;

/// Maximum number of values traced per call; the rest are marked unknown.
const MOST_LEAVES: usize = 1_000;
/// Maximum length of quoted words, in characters.
const QUOTED_CHARS: usize = 120;

/// Facts about a tool's definition that tracing needs.
pub trait Declared {
    /// Returns true if the value equals the default in the tool's schema.
    fn is_default(&self, leaf: &Leaf<'_>) -> bool;

    /// Returns true if the definition declares the member at a pointer. Any other name was chosen by the caller and is
    /// traced like a value.
    fn is_name(&self, pointer: &str) -> bool {
        is_parameter(pointer)
    }

    /// Returns true if strangers may have written the tool's results, such as web pages, even if the conversation gives
    /// them the role `tool`.
    fn is_outside(&self, _tool: &str) -> bool {
        false
    }
}

/// Returns true if a pointer is that of a top-level argument. Without a schema, only those names are assumed to be the
/// tool's own.
pub fn is_parameter(pointer: &str) -> bool {
    pointer.matches('/').count() <= 1
}

/// Adapter for callers that know only the defaults.
struct Defaults<'d>(&'d dyn Fn(&Leaf<'_>) -> bool);

impl Declared for Defaults<'_> {
    fn is_default(&self, leaf: &Leaf<'_>) -> bool {
        (self.0)(leaf)
    }
}

/// Traces each value of `arguments`. `is_default` returns true for a value that equals its schema's default.
pub fn trace(
    conversation: &Conversation,
    arguments: &[u8],
    is_default: &dyn Fn(&Leaf<'_>) -> bool,
) -> Provenance {
    trace_declared(conversation, arguments, &Defaults(is_default))
}

/// Traces each value of `arguments`, and each member name that the tool's definition does not declare.
pub fn trace_declared(conversation: &Conversation, arguments: &[u8], declared: &dyn Declared) -> Provenance {
    let (sources, agent_messages, heard) = sources(conversation, declared);
    let leaves = json::leaves(arguments);
    // An empty top-level object is a leaf too, but not a value.
    let leaves: Vec<&Leaf<'_>> = leaves.iter().filter(|leaf| !leaf.pointer.is_empty()).collect();
    let values: Vec<Value> = leaves
        .iter()
        .take(MOST_LEAVES)
        .map(|leaf| Value::new(leaf))
        .collect();
    let tracing = Tracing {
        sources,
        agent_messages,
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

/// Returns the member names that count as values because the tool's definition does not declare them.
fn chosen_keys(arguments: &[u8], declared: &dyn Declared) -> Vec<json::Key> {
    let mut keys = json::keys(arguments);
    keys.retain(|key| !declared.is_name(&key.pointer));
    keys
}

/// Marks every value as unknown, for a call without a conversation.
pub fn unknown(arguments: &[u8]) -> Provenance {
    let leaves = json::leaves(arguments);
    let named = leaves.into_iter().filter(|leaf| !leaf.pointer.is_empty());
    let traced = named.map(|leaf| Traced {
        pointer: leaf.pointer,
        mark: Mark::Unknown,
    });
    Provenance::new(traced.collect(), Coverage::Whole)
}

struct Tracing<'c, 'v> {
    sources: Vec<Source<'c>>,
    /// The agent's messages and the arguments of its calls.
    agent_messages: Vec<AgentMessage<'c>>,
    heard: Coverage,
    values: &'v [Value],
}

/// A message that can state a value.
struct Source<'c> {
    message: usize,
    by: By<'c>,
    /// Day on which the message was sent, in UTC. `None` if it is unknown.
    said: Option<Date>,
    text: Text<'c>,
    /// The text with JSON and YAML escapes resolved. `None` if it has no escapes.
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

    fn is_outside(&self) -> bool {
        matches!(self.by, By::Tool { is_outside: true, .. })
    }

    fn texts(&self) -> impl Iterator<Item = &Text<'c>> {
        std::iter::once(&self.text).chain(&self.plain)
    }

    /// Creates the part of a derived value that this message states with `words`.
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

    fn find(&self, look: impl Fn(&Text<'_>) -> Option<(TextRange, MatchKind)>) -> Option<Mark> {
        if let Some((place, how)) = look(&self.text) {
            let range = match place {
                TextRange::Raw(range) => range,
                TextRange::Folded(range) => self.text.raw_range(&range),
            };
            let words = self.text.raw().get(range.clone()).unwrap_or_default();
            let span = u32::try_from(range.start).ok().zip(u32::try_from(range.end).ok());
            return Some(self.marked(words, span, how));
        }
        let plain = self.plain.as_ref()?;
        let (place, how) = look(plain)?;
        let words = match place {
            TextRange::Raw(range) => plain.raw().get(range),
            TextRange::Folded(range) => plain.folded().get(range),
        };
        Some(self.marked(words.unwrap_or_default(), None, how))
    }

    fn marked(&self, words: &str, span: Option<(u32, u32)>, how: MatchKind) -> Mark {
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
        // Of several statements, the person's latest is what they mean, and a tool's earliest is where the value came
        // from.
        let people = || self.sources.iter().filter(|source| source.is_person()).rev();
        let tools = || self.sources.iter().filter(|source| !source.is_person());
        // A count does not state an id. Text of strangers is read with its counts, so that leaving them out never makes
        // a value of theirs look like another tool's.
        let counts = |source: &Source<'_>| match source.is_outside() {
            true => Counted::Included,
            false => Counted::LeftOut,
        };
        let stated = |source: &Source<'_>| source.find(|text| value.stated_by(text, counts(source)));
        let implied =
            |source: &Source<'_>| source.find(|text| value.implied_by(text, source.said, counts(source)));
        if let Some(mark) = people().find_map(stated) {
            return mark;
        }
        let from_tool = tools().find_map(|source| Some((source, stated(source)?)));
        let mut is_repeated = false;
        if let Some((source, mark)) = from_tool {
            // A tool that repeats what the agent wrote earlier is not a source.
            is_repeated = self.wrote(value, source.message, false);
            if !is_repeated {
                return self.cite(value, source, mark);
            }
        }
        // INVARIANT: without the person's messages, no value is marked as derived or invented: the person may have
        // stated it.
        if self.heard == Coverage::Tools {
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
        match compose::derive(value, self.values, &self.sources, &self.agent_messages) {
            Some(derived) => Mark::Derived(derived),
            None => Mark::Invented {
                agent_said_it: is_repeated || self.wrote(value, usize::MAX, false),
            },
        }
    }

    /// Returns true if the agent itself wrote the value before the given message.
    fn wrote(&self, value: &Value, message: usize, implied: bool) -> bool {
        let wrote = AgentEchoCheck {
            agent_messages: &self.agent_messages,
            is_given: |value: &Value, message: usize| {
                let mut earlier = self.sources.iter().filter(|source| source.message < message);
                earlier.any(|source| source.texts().any(|text| value.stated_in(text).is_some()))
            },
        };
        wrote.has(value, message, implied)
    }
}

type Sources<'c> = (Vec<Source<'c>>, Vec<AgentMessage<'c>>, Coverage);

fn sources<'c>(conversation: &'c Conversation, declared: &dyn Declared) -> Sources<'c> {
    let (messages, is_shortened) = conversation.recent();
    let heard = match (conversation.is_unheard(), is_shortened) {
        (true, _) => Coverage::Tools,
        (false, true) => Coverage::Recent,
        (false, false) => Coverage::Whole,
    };
    let mut sources = Vec::new();
    let mut agent_messages = Vec::new();
    for (number, message) in messages {
        let (by, at) = match message {
            Message::Agent { text } => {
                agent_messages.push(AgentMessage::new(number, text));
                continue;
            }
            // The conversation claims that the person was not heard, so the origin of this message is doubtful.
            Message::Person { .. } if heard == Coverage::Tools => continue,
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
    (sources, agent_messages, heard)
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
