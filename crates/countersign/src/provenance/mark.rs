//! Marks: the possible origins of a value, and what is stored about each.

use serde::{Deserialize, Serialize};

/// Origins of all values of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Provenance {
    /// Values in the order of the arguments, followed by member names that the agent chose.
    pub leaves: Vec<Traced>,
    /// Extent to which the conversation was examined.
    pub heard: Coverage,
    /// Party that vouches for the conversation. Stored separately; see `store/record.rs`.
    #[serde(skip)]
    vouched_by: Voucher,
}

/// Party that vouches for a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Voucher {
    /// The agent that proposes the call, or the program it runs in.
    #[default]
    Agent,
    /// The gate, which received the person's messages or the tools' results first-hand.
    Gate,
}

impl Voucher {
    /// Word used in JSON: `agent` or `gate`.
    pub fn as_str(self) -> &'static str {
        match self {
            Voucher::Agent => "agent",
            Voucher::Gate => "gate",
        }
    }
}

/// Extent to which a conversation was examined. Serialized by position; the first two variants have the encodings of
/// `false` and `true`, which older records hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Coverage {
    /// The whole conversation.
    #[default]
    Whole,
    /// Only the newest messages, because the conversation exceeds the limits.
    Recent,
    /// Only tool results: the person's messages are missing.
    Tools,
}

/// A value of a call, or a member's name, with its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Traced {
    /// JSON pointer of the value. For a member name, `key:` followed by the pointer of the member; no pointer of a
    /// value begins like that.
    pub pointer: String,
    /// Origin of the value.
    pub mark: Mark,
}

/// Prefix of the pointer of a member name.
const KEY: &str = "key:";

impl Traced {
    /// Creates the entry for a member name instead of a value. `pointer` is that of the member.
    #[cfg(feature = "provenance")]
    pub(super) fn key(pointer: &str, mark: Mark) -> Traced {
        let pointer = format!("{KEY}{pointer}");
        Traced { pointer, mark }
    }

    /// Returns the JSON pointer without its prefix, and true if it points to a member's name instead of a value.
    pub fn place(&self) -> (&str, bool) {
        place(&self.pointer)
    }
}

/// Splits a [`Traced::pointer`] into the JSON pointer without its prefix, and true if it points to a member's name.
pub fn place(pointer: &str) -> (&str, bool) {
    match pointer.strip_prefix(KEY) {
        Some(member) => (member, true),
        None => (pointer, false),
    }
}

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// Not traced, because there was no conversation, the person's messages are missing, or there were too many values.
    /// Must never be treated as harmless.
    Unknown,
    /// Stated by the person.
    Person(Quote),
    /// Stated only by a tool's result.
    Tool(ToolQuote),
    /// The default in the tool's schema, or a value without content: null or empty.
    Default,
    /// Composed of stated values, but not itself stated by anyone.
    Derived(Derived),
    /// Stated neither by the person nor by a tool.
    Invented {
        /// True if the agent itself wrote the value earlier in the conversation.
        agent_said_it: bool,
    },
}

/// Words in which a value was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Quote {
    /// Index of the message in the given conversation, from 0.
    pub message: u32,
    /// Byte range within the message, if it can be determined.
    pub span: Option<(u32, u32)>,
    /// The words, shortened and not escaped. Empty for a secret.
    pub words: String,
    /// Manner in which the words express the value.
    pub how: MatchKind,
}

/// A quote from a tool's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolQuote {
    /// Name of the tool.
    pub name: String,
    /// True if strangers may have written the text.
    pub is_outside: bool,
    /// JSON pointer of the value within the result; `None` if the result is not JSON or the place is unknown.
    pub pointer: Option<String>,
    /// Words of the result in which the value was found.
    pub quote: Quote,
}

/// How a value follows from stated ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Derived {
    /// Kind of derivation.
    pub how: Derivation,
    /// Parts that the value is composed of. The value is only as trustworthy as its least trusted part: see
    /// [`Derived::tool`].
    pub parts: Vec<Part>,
    /// Words in the value that nobody stated.
    pub unstated: Vec<String>,
}

/// Part of a derived value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Part {
    /// Tool that stated the part; `None` if the person did.
    pub tool: Option<String>,
    /// True if strangers may have written the part.
    pub is_outside: bool,
    /// The part's words, shortened and not escaped. Empty for a secret.
    pub words: String,
}

impl Derived {
    /// Returns the first tool among the parts; `None` if all parts are the person's. A value composed with a tool's
    /// words does not count as the person's.
    pub fn tool(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| part.tool.as_deref())
    }

    /// Returns true if strangers may have written any part.
    pub fn is_outside(&self) -> bool {
        self.parts.iter().any(|part| part.is_outside)
    }
}

/// Manner in which words express a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MatchKind {
    /// Verbatim, ignoring case and spacing.
    Exactly,
    /// The same number in another notation.
    Number,
    /// The same number, in words or as a percentage.
    NumberWord,
    /// The same date or time in another notation, possibly less complete.
    Date,
    /// The same digits and letters with other separators, as in phone numbers.
    Grouping,
    /// The same address, apart from its scheme, `www.` or a trailing slash.
    Address,
    /// The same words, joined or inflected differently.
    Wording,
    /// The value is a well-known code for the words, as `NY` for "New York".
    Code,
    /// Part of a longer name or number.
    Part,
    /// A boolean, inferred from a sentence about its subject.
    Implied,
    /// Verbatim or the same number, at several places of tool results, and nothing tells which of them was meant. The
    /// quote is of the first one.
    OneOfSeveral,
}

/// Kind of derivation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Derivation {
    /// Text composed of stated words.
    Composed,
    /// Sum or difference of stated numbers.
    Sum,
    /// A stated date or time, shifted.
    Shifted,
}

impl Mark {
    /// Returns the mark as one word for programs, such as `user` or `derived`; for a tool, `tool:` and its name.
    pub fn word(&self) -> String {
        match self {
            Mark::Person(_) => "user".to_owned(),
            Mark::Tool(tool) => format!("tool:{}", tool.name),
            Mark::Default => "default".to_owned(),
            Mark::Derived(_) => "derived".to_owned(),
            Mark::Invented { .. } => "none".to_owned(),
            Mark::Unknown => "unknown".to_owned(),
        }
    }

    /// Returns the mark as one word for programs that know neither `derived` nor `default`. A derived value counts as
    /// the person's only if all its parts are; a default or unknown value counts as stated by nobody.
    pub fn source(&self) -> String {
        match self {
            Mark::Derived(derived) => derived
                .tool()
                .map_or_else(|| "user".to_owned(), |tool| format!("tool:{tool}")),
            Mark::Default | Mark::Unknown => "none".to_owned(),
            other => other.word(),
        }
    }

    /// Returns true if strangers may have written the value or a part of it.
    pub fn is_outside(&self) -> bool {
        match self {
            Mark::Tool(tool) => tool.is_outside,
            Mark::Derived(derived) => derived.is_outside(),
            _ => false,
        }
    }

    /// Removes the quoted words, for secret values.
    pub(crate) fn hide(&mut self) {
        match self {
            Mark::Person(quote) => quote.words.clear(),
            Mark::Tool(tool) => tool.quote.words.clear(),
            Mark::Derived(derived) => {
                derived.parts.iter_mut().for_each(|part| part.words.clear());
                derived.unstated.clear();
            }
            Mark::Unknown | Mark::Default | Mark::Invented { .. } => {}
        }
    }
}

/// Number of values of each origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// Stated neither by the person nor by a tool.
    pub invented: u32,
    /// Stated only by tools.
    pub tool: u32,
    /// Among the `tool` and `derived` values, those that strangers may have written in whole or part.
    pub outside: u32,
    /// Stated by the person.
    pub user: u32,
    /// Composed of stated values.
    pub derived: u32,
    /// Schema defaults and empty values.
    pub default: u32,
    /// Not traced.
    pub unknown: u32,
}

impl Counts {
    /// Total number of values.
    pub fn total(&self) -> u32 {
        self.invented + self.tool + self.user + self.derived + self.default + self.unknown
    }
}

impl Provenance {
    /// Builds the provenance for a conversation supplied by the agent.
    pub fn new(leaves: Vec<Traced>, heard: Coverage) -> Provenance {
        Provenance {
            leaves,
            heard,
            vouched_by: Voucher::Agent,
        }
    }

    /// Party that vouches for the conversation.
    pub fn vouched_by(&self) -> Voucher {
        self.vouched_by
    }

    /// Sets the party that vouches for the conversation.
    pub(crate) fn by(mut self, voucher: Voucher) -> Provenance {
        self.vouched_by = voucher;
        self
    }

    /// Counts the values of each origin.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for leaf in &self.leaves {
            match &leaf.mark {
                Mark::Unknown => counts.unknown += 1,
                Mark::Person(_) => counts.user += 1,
                Mark::Tool(_) => counts.tool += 1,
                Mark::Default => counts.default += 1,
                Mark::Derived(_) => counts.derived += 1,
                Mark::Invented { .. } => counts.invented += 1,
            }
            counts.outside += u32::from(leaf.mark.is_outside());
        }
        counts
    }

    /// Returns the counts for use by a policy; `None` if the person's messages are missing, because the values that the
    /// person stated would then be miscounted.
    pub(crate) fn known_counts(&self) -> Option<Counts> {
        (self.heard != Coverage::Tools).then(|| self.counts())
    }

    /// Returns the mark of the value at a pointer; `None` if no value has this pointer.
    pub fn mark(&self, pointer: &str) -> Option<&Mark> {
        self.leaves
            .iter()
            .find(|leaf| leaf.pointer == pointer)
            .map(|leaf| &leaf.mark)
    }
}
