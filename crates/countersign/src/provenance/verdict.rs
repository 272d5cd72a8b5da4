//! The one line that says how far a call's values are the person's, and what each mark is called.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use super::mark::{Derived, Heard, How, Making, Mark, Provenance};
use super::told::Teller;
use crate::display::{clip, escape};
use crate::sentence::{Origins, fill};
use crate::summary::Row;

/// How much of a quote a card shows.
const QUOTE_CHARS: usize = 60;

impl Provenance {
    /// The verdict in English: safe to show.
    pub fn verdict(&self) -> String {
        self.verdict_in(&Origins::english())
    }

    /// The verdict in a person's language: safe to show. One that follows from the agent's own account says so first.
    pub fn verdict_in(&self, words: &Origins) -> String {
        let verdict = self.findings(words);
        let is_known = self.counts().unknown < self.counts().total();
        match self.told_by() {
            Teller::Agent if is_known => fill(&words.as_told, &[("verdict", &verdict)]),
            Teller::Agent | Teller::Gate => verdict,
        }
    }

    fn findings(&self, words: &Origins) -> String {
        let counts = self.counts();
        let total = counts.total();
        if total == 0 {
            return words.none.clone();
        }
        if counts.unknown == total {
            return words.unknown_whence.clone();
        }
        if self.heard == Heard::Tools {
            return match counts.tool {
                0 => words.unknown_whence.clone(),
                found => say_found(words, found, total),
            };
        }
        let not_given = total - counts.user - counts.default;
        let values = of(&words.values, total);
        let say = |sentence: &str, count: u32, kinds: &str| {
            let (count, total, default) = (count.to_string(), total.to_string(), counts.default.to_string());
            let numbers = [("count", &*count), ("total", &*total), ("default", &*default)];
            fill(
                sentence,
                &[&numbers[..], &[("values", values), ("kinds", kinds)]].concat(),
            )
        };
        if not_given == 0 {
            return match (total, counts.default) {
                (1, 0) => words.one_given.clone(),
                (_, 0) => say(&words.all_given, total, ""),
                _ => say(&words.rest_default, counts.user, ""),
            };
        }
        let kinds = [
            (counts.invented, &words.invented),
            (counts.outside, &words.outside),
            (counts.tool - counts.outside, &words.from_tools),
            (counts.derived, &words.derived),
            (counts.unknown, &words.unknown),
        ];
        let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
        let kinds: Vec<String> = kinds
            .map(|(count, word)| format!("{count} {}", of(word, count)))
            .collect();
        let sentence = match not_given {
            1 => &words.one_not_given,
            _ => &words.not_given,
        };
        let mut verdict = say(sentence, not_given, &kinds.join(", "));
        if self.heard == Heard::Recent {
            verdict.push_str(&words.partial);
        }
        verdict
    }
}

fn say_found(words: &Origins, found: u32, total: u32) -> String {
    let (count, all) = (found.to_string(), total.to_string());
    let parts = [
        ("count", &*count),
        ("total", &*all),
        ("values", of(&words.values, total)),
    ];
    fill(of(&words.found, found), &parts)
}

/// The word for one, or for several.
fn of(words: &[String; 2], count: u32) -> &str {
    let [one, several] = words;
    match count {
        1 => one,
        _ => several,
    }
}

/// Most values a prompt lists: it stays short, and the card has them all.
const PROMPT_VALUES: usize = 5;
/// From this on, a prompt names the value; of quieter ones the verdict's count is enough.
const NAMED: u8 = 4;

impl Provenance {
    /// Whether every value was given by the person, or says nothing.
    pub fn is_all_given(&self) -> bool {
        self.leaves.iter().all(|leaf| leaf.mark.loudness() == 0)
    }

    /// The verdict, and the values that nobody stated or that strangers may have, the loudest first, as plain text for a
    /// conversation. `rows` are the call's, so that secrets stay hidden. The mark begins the line: no value can come before it.
    pub fn prompt(&self, rows: &[Row], words: &Origins) -> String {
        let marks = Marks::new(self);
        let mark = |row: &Row| marks.of(row);
        let mut rows: Vec<&Row> = rows.iter().filter(|row| mark(row).loudness() >= NAMED).collect();
        rows.sort_by_key(|row| Reverse(mark(row).loudness()));
        let mut text = self.verdict_in(words);
        for row in rows.iter().take(PROMPT_VALUES) {
            let tag = match mark(row) {
                Mark::Tool(_) => &words.tag_outside,
                _ => &words.tag_invented,
            };
            text.push_str(&format!("\n[{tag}] {}: {}", row.pointer, row.value));
        }
        if rows.len() > PROMPT_VALUES {
            let more = (rows.len() - PROMPT_VALUES).to_string();
            text.push('\n');
            text.push_str(&fill(&words.more, &[("count", &more)]));
        }
        text
    }
}

/// The marks of a call's values, by the rows of its table.
#[derive(Debug)]
pub struct Marks<'p>(HashMap<Cow<'p, str>, &'p Mark>, Teller);

impl<'p> Marks<'p> {
    /// Those of a provenance.
    pub fn new(provenance: &'p Provenance) -> Marks<'p> {
        let leaves = provenance.leaves.iter();
        let marks = leaves.map(|leaf| (escape(&leaf.pointer), &leaf.mark));
        Marks(marks.collect(), provenance.told_by())
    }

    /// Who vouches for the conversation they follow from.
    pub fn teller(&self) -> Teller {
        self.1
    }

    /// The mark of a row. A hidden row may hold several values: the loudest of them counts.
    pub fn of(&self, row: &Row) -> &'p Mark {
        if let Some(mark) = self.0.get(row.pointer.as_str()) {
            return mark;
        }
        let below = format!("{}/", row.pointer);
        let inside = self.0.iter().filter(|(pointer, _)| pointer.starts_with(&below));
        let loudest = inside.map(|(_, mark)| *mark).max_by_key(|mark| mark.loudness());
        loudest.filter(|_| row.hidden).unwrap_or(&Mark::Unknown)
    }

    /// Puts what nobody stated first and what the person said last; otherwise the order stays.
    pub fn loudest_first(&self, rows: &mut [Row]) {
        rows.sort_by_cached_key(|row| Reverse(self.of(row).loudness()));
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

    /// The mark in a few words, of a conversation that this teller vouches for.
    pub fn tag(&self, teller: Teller) -> &'static str {
        match self {
            Mark::Person(_) if teller == Teller::Agent => "you, per agent",
            Mark::Invented { .. } => "NOT FROM YOU",
            Mark::Tool(tool) if tool.is_outside => "FROM OUTSIDE",
            Mark::Unknown => "unknown",
            Mark::Derived(_) => "derived",
            Mark::Tool(_) => "from a tool",
            Mark::Person(_) => "from you",
            Mark::Default => "default",
        }
    }

    /// What the tag leaves open: who stated it, and in which words where they say more than the value itself. Safe to
    /// show, and to be kept apart from values: it quotes what others wrote.
    pub fn detail(&self) -> Option<String> {
        let quoted = |words: &str| format!("“{}”", clip(words, QUOTE_CHARS));
        match self {
            Mark::Invented { agent_said_it: true } => Some("only the agent said it before".to_owned()),
            Mark::Invented { agent_said_it: false } => Some("nobody stated it".to_owned()),
            Mark::Person(quote) if quote.how == How::Exactly || quote.words.is_empty() => None,
            Mark::Person(quote) => Some(format!("you said {}", quoted(&quote.words))),
            Mark::Tool(tool) => {
                let text = if tool.is_outside {
                    "text that strangers may have written, by "
                } else {
                    ""
                };
                let place = tool.pointer.as_ref().filter(|pointer| !pointer.is_empty());
                let place = place.map(|pointer| format!(", at {}", clip(pointer, QUOTE_CHARS)));
                Some(format!(
                    "{text}{}{}",
                    clip(&tool.name, 60),
                    place.unwrap_or_default()
                ))
            }
            Mark::Derived(derived) => Some(explain(derived)),
            Mark::Unknown | Mark::Default => None,
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
