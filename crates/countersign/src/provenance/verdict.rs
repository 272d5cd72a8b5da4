//! The one line that says how far a call's values are the person's, and what each mark is called on a card.

use super::mark::{Derived, How, Making, Mark, Provenance};
use crate::display::clip;

/// How much of a quote a card shows.
const QUOTE_CHARS: usize = 60;

impl Provenance {
    /// The verdict: safe to show.
    pub fn verdict(&self) -> String {
        let counts = self.counts();
        let total = counts.total();
        if total == 0 {
            return "no values".to_owned();
        }
        if counts.unknown == total {
            return "where the values came from is unknown".to_owned();
        }
        let not_given = total - counts.user - counts.default;
        let noun = if total == 1 { "value" } else { "values" };
        if not_given == 0 {
            return match (total, counts.default) {
                (1, 0) => "the one value was given by you".to_owned(),
                (_, 0) => format!("all {total} values were given by you"),
                (_, default) => format!(
                    "{} of {total} {noun} given by you, {default} empty or default",
                    counts.user
                ),
            };
        }
        let mut kinds = Vec::new();
        let mut add = |count: u32, what: &str| {
            if count > 0 {
                kinds.push(format!("{count} {what}"));
            }
        };
        add(counts.invented, "invented");
        add(counts.outside, "from outside text");
        add(counts.tool - counts.outside, "from tools");
        add(counts.derived, "derived");
        add(counts.unknown, "unknown");
        let verb = if not_given == 1 { "was" } else { "were" };
        let partial = if self.is_partial {
            "; the conversation was too long to be read whole"
        } else {
            ""
        };
        format!(
            "{not_given} of {total} {noun} {verb} not given by you: {}{partial}",
            kinds.join(", ")
        )
    }
}

impl Mark {
    /// How loud it has to be: what nobody stated first, what the person said last.
    pub fn loudness(&self) -> u8 {
        match self {
            Mark::Invented { .. } => 5,
            Mark::Tool(tool) if tool.is_outside => 4,
            Mark::Unknown => 3,
            Mark::Derived(_) => 2,
            Mark::Tool(_) => 1,
            Mark::Person(_) | Mark::Default => 0,
        }
    }

    /// The mark in a few words, safe to show.
    pub fn label(&self) -> String {
        match self {
            Mark::Unknown => "origin unknown".to_owned(),
            Mark::Person(_) => "from you".to_owned(),
            Mark::Tool(tool) if tool.is_outside => {
                format!("not from you: text from outside, by {}", clip(&tool.name, 60))
            }
            Mark::Tool(tool) => format!("from {}", clip(&tool.name, 60)),
            Mark::Default => "empty or default".to_owned(),
            Mark::Derived(derived) => match derived.tool() {
                Some(tool) => format!("derived, with {}", clip(tool, 60)),
                None => "derived from your words".to_owned(),
            },
            Mark::Invented { agent_said_it: true } => "NOT FROM YOU: the agent said it first".to_owned(),
            Mark::Invented { agent_said_it: false } => "NOT FROM YOU: nobody stated it".to_owned(),
        }
    }

    /// The words it came from, where they say more than the value itself; safe to show.
    pub fn explanation(&self) -> Option<String> {
        let quoted = |words: &str| format!("“{}”", clip(words, QUOTE_CHARS));
        match self {
            Mark::Person(quote) => {
                (quote.how != How::Exactly && !quote.words.is_empty()).then(|| quoted(&quote.words))
            }
            Mark::Tool(tool) => match &tool.pointer {
                Some(pointer) if !pointer.is_empty() => Some(format!("at {}", clip(pointer, QUOTE_CHARS))),
                _ => None,
            },
            Mark::Derived(derived) => Some(explain(derived)),
            Mark::Unknown | Mark::Default | Mark::Invented { .. } => None,
        }
    }
}

fn explain(derived: &Derived) -> String {
    let parts = derived
        .parts
        .iter()
        .filter(|part| !part.words.is_empty())
        .map(|part| {
            let words = clip(&part.words, QUOTE_CHARS);
            match &part.tool {
                Some(tool) => format!("“{words}” ({})", clip(tool, 60)),
                None => format!("“{words}” (you)"),
            }
        });
    let parts: Vec<String> = parts.take(4).collect();
    let joint = match derived.how {
        Making::Sum | Making::Shifted => " and ",
        Making::Composed => ", ",
    };
    let mut text = parts.join(joint);
    if !derived.unstated.is_empty() {
        let words: Vec<String> = derived
            .unstated
            .iter()
            .take(8)
            .map(|word| clip(word, 30).to_string())
            .collect();
        text.push_str(&format!("; nobody said: {}", words.join(", ")));
    }
    text
}
