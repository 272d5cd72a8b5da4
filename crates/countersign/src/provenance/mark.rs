//! What a value's origin is called, and what is kept of it.

use serde::{Deserialize, Serialize};

use super::told::Teller;

/// Where every value of a call came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Each value in the order of the arguments.
    pub leaves: Vec<Traced>,
    /// How much of the conversation was looked at.
    pub heard: Heard,
    /// Who vouches for the conversation. Kept apart from the rest; see `store/record.rs`.
    #[serde(skip)]
    told_by: Teller,
}

/// How much of a conversation was looked at. Stored by position, and the first two as the `false` and `true` that stood
/// here before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Heard {
    /// All that was given.
    #[default]
    Whole,
    /// It was too long to be looked at from its beginning.
    Recent,
    /// Only what tools answered: nobody heard the person.
    Tools,
}

/// One value's origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// Where the value stands: a JSON pointer, as the agent wrote it. For a member's name `key:` and the pointer of the
    /// member; no pointer of a value begins so.
    pub pointer: String,
    /// Where it came from.
    pub mark: Mark,
}

/// What the place of a name begins with.
const KEY: &str = "key:";

impl Traced {
    /// The origin of a member's name.
    pub(super) fn key(pointer: &str, mark: Mark) -> Traced {
        let pointer = format!("{KEY}{pointer}");
        Traced { pointer, mark }
    }

    /// The pointer of the member, and whether this is about its name.
    pub fn place(&self) -> (&str, bool) {
        place(&self.pointer)
    }
}

/// The pointer in the place of a value or of a name, and whether it is a name's.
pub fn place(pointer: &str) -> (&str, bool) {
    match pointer.strip_prefix(KEY) {
        Some(member) => (member, true),
        None => (pointer, false),
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// Nobody looked, nobody heard the person, or it was one value too many to look for. Never to be read as "fine".
    Unknown,
    /// The person stated it.
    Person(Quote),
    /// Only a tool's result states it.
    Tool(ToolQuote),
    /// The tool's schema has it as what is taken when nothing is said, or it says nothing: null or empty.
    Default,
    /// Made of what was stated, and itself stated by nobody.
    Derived(Derived),
    /// Stated by nobody.
    Invented {
        /// Whether the agent said it before, so that a tool could repeat it.
        agent_said_it: bool,
    },
}

/// The words a value was found in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    /// The message, counted from 0 in the conversation as it was given.
    pub message: u32,
    /// Which bytes of the message, where that can be told.
    pub span: Option<(u32, u32)>,
    /// The words themselves, shortened; not escaped. Empty for a secret.
    pub words: String,
    /// How they say the value.
    pub how: How,
}

/// A quote from a tool's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolQuote {
    /// The tool.
    pub name: String,
    /// Whether strangers may have written the text.
    pub is_outside: bool,
    /// Where in a JSON result.
    pub pointer: Option<String>,
    /// The words.
    pub quote: Quote,
}

/// How a value was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Derived {
    /// What was done.
    pub how: Making,
    /// What it was made of. The least trusted of them counts: see [`Derived::tool`].
    pub parts: Vec<Part>,
    /// Words in it that nobody stated.
    pub unstated: Vec<String>,
}

/// A piece of a derived value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The tool that stated it; the person, if none.
    pub tool: Option<String>,
    /// Whether strangers may have written it.
    pub is_outside: bool,
    /// The piece, shortened; not escaped. Empty for a secret.
    pub words: String,
}

impl Derived {
    /// The first tool among its parts: a value made with a tool's words is not the person's.
    pub fn tool(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| part.tool.as_deref())
    }

    /// Whether strangers may have written a part of it.
    pub fn is_outside(&self) -> bool {
        self.parts.iter().any(|part| part.is_outside)
    }
}

/// How words say a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// Letter for letter, up to case and spacing.
    Exactly,
    /// The same number, written otherwise.
    Number,
    /// The same number, in words or as a share.
    NumberWord,
    /// The same day or time, written otherwise or less completely.
    Date,
    /// The same digits and letters, grouped otherwise.
    Grouping,
    /// The same address without its scheme, or a part of one.
    Address,
    /// The same words, joined or inflected otherwise.
    Wording,
    /// A well-known code for the words.
    Code,
    /// A part of a longer name.
    Part,
    /// Yes or no, from how the thing is spoken of.
    Implied,
}

/// What was done with stated values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Making {
    /// Put together from stated pieces.
    Composed,
    /// Added up or taken off.
    Sum,
    /// A stated day, moved.
    Shifted,
}

impl Mark {
    /// One word for programs; for a tool and for what was derived with a tool's words, `tool:` and its name.
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

    /// Who has to answer for the value, when there is no word for `derived` and `default`: the person only if all of
    /// it is theirs.
    pub fn source(&self) -> String {
        match self {
            Mark::Derived(derived) => derived
                .tool()
                .map_or_else(|| "user".to_owned(), |tool| format!("tool:{tool}")),
            Mark::Default | Mark::Unknown => "none".to_owned(),
            other => other.word(),
        }
    }

    /// Whether strangers may have written it, or a part of it.
    pub fn is_outside(&self) -> bool {
        match self {
            Mark::Tool(tool) => tool.is_outside,
            Mark::Derived(derived) => derived.is_outside(),
            _ => false,
        }
    }

    /// Removes the words, for a value that is not to be shown.
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

/// How many values came from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Stated by nobody.
    pub invented: u32,
    /// Stated only by tools.
    pub tool: u32,
    /// Of those and of the derived: stated by text that strangers may have written, or made with it.
    pub outside: u32,
    /// Stated by the person.
    pub user: u32,
    /// Made of what was stated.
    pub derived: u32,
    /// What is taken when nothing is said.
    pub default: u32,
    /// Not looked for.
    pub unknown: u32,
}

impl Counts {
    /// All values.
    pub fn total(&self) -> u32 {
        self.invented + self.tool + self.user + self.derived + self.default + self.unknown
    }
}

impl Provenance {
    /// Marks that follow from a conversation as the agent tells it.
    pub fn new(leaves: Vec<Traced>, heard: Heard) -> Provenance {
        Provenance {
            leaves,
            heard,
            told_by: Teller::Agent,
        }
    }

    /// Who vouches for the conversation.
    pub fn told_by(&self) -> Teller {
        self.told_by
    }

    /// The same marks, from a conversation that somebody else vouches for.
    pub(crate) fn by(mut self, teller: Teller) -> Provenance {
        self.told_by = teller;
        self
    }

    /// How many values came from where.
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

    /// The counts that a policy may rely on: none where nobody heard the person, because what they stated is then
    /// counted as something else.
    pub(crate) fn known_counts(&self) -> Option<Counts> {
        (self.heard != Heard::Tools).then(|| self.counts())
    }

    /// The mark of the value at a pointer.
    pub fn mark(&self, pointer: &str) -> Option<&Mark> {
        self.leaves
            .iter()
            .find(|leaf| leaf.pointer == pointer)
            .map(|leaf| &leaf.mark)
    }
}
