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
        let derived_outside = self.leaves.iter().filter(|leaf| match &leaf.mark {
            Mark::Derived(derived) => derived.is_outside(),
            _ => false,
        });
        let derived_outside = u32::try_from(derived_outside.count()).unwrap_or(u32::MAX);
        let tools_outside = counts.outside.saturating_sub(derived_outside);
        let kinds = [
            (counts.invented, &words.invented),
            (counts.outside, &words.outside),
            (counts.tool.saturating_sub(tools_outside), &words.from_tools),
            (counts.derived.saturating_sub(derived_outside), &words.derived),
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
                Mark::Tool(_) | Mark::Derived(_) => &words.tag_outside,
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
pub struct Marks<'p> {
    values: HashMap<Cow<'p, str>, &'p Mark>,
    /// The marks of members' names, by the member.
    keys: HashMap<Cow<'p, str>, &'p Mark>,
    teller: Teller,
}

impl<'p> Marks<'p> {
    /// Those of a provenance.
    pub fn new(provenance: &'p Provenance) -> Marks<'p> {
        let (mut values, mut keys) = (HashMap::new(), HashMap::new());
        for leaf in &provenance.leaves {
            let (pointer, is_key) = leaf.place();
            let marks = if is_key { &mut keys } else { &mut values };
            marks.insert(escape(pointer), &leaf.mark);
        }
        Marks {
            values,
            keys,
            teller: provenance.told_by(),
        }
    }

    /// Who vouches for the conversation they follow from.
    pub fn teller(&self) -> Teller {
        self.teller
    }

    /// The mark of a row: the loudest of its value's and of the names on the way to it. A hidden row may hold several
    /// values: the loudest of them counts.
    pub fn of(&self, row: &Row) -> &'p Mark {
        let value = self.value_of(row);
        let names = self.names_of(row).map(|(_, mark)| mark);
        // Of two that are as loud, the value's own says more.
        names.fold(value, |loudest, mark| {
            match mark.loudness() > loudest.loudness() {
                true => mark,
                false => loudest,
            }
        })
    }

    /// The name on the way to a row's value that is louder than the value, as it is shown; nothing if there is none.
    pub fn name_of(&self, row: &Row) -> Option<&str> {
        let value = self.value_of(row).loudness();
        let louder = self.names_of(row).filter(|(_, mark)| mark.loudness() > value);
        let (pointer, _) = louder.max_by_key(|(_, mark)| mark.loudness())?;
        pointer.rsplit('/').next()
    }

    fn value_of(&self, row: &Row) -> &'p Mark {
        if let Some(mark) = self.values.get(row.pointer.as_str()) {
            return mark;
        }
        let below = format!("{}/", row.pointer);
        let inside = self
            .values
            .iter()
            .filter(|(pointer, _)| pointer.starts_with(&below));
        let loudest = inside.map(|(_, mark)| *mark).max_by_key(|mark| mark.loudness());
        loudest.filter(|_| row.hidden).unwrap_or(&Mark::Unknown)
    }

    /// The names on the way to a row's value; of a hidden row also those inside it.
    fn names_of(&self, row: &Row) -> impl Iterator<Item = (&str, &'p Mark)> {
        let below = format!("{}/", row.pointer);
        let is_on_the_way = move |pointer: &str| {
            let inside = row.hidden && pointer.starts_with(&below);
            inside
                || below
                    .strip_prefix(pointer)
                    .is_some_and(|rest| rest.starts_with('/'))
        };
        let names = self
            .keys
            .iter()
            .filter(move |(pointer, _)| is_on_the_way(pointer));
        names.map(|(pointer, mark)| (&**pointer, *mark))
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
            mark if mark.is_outside() => 4,
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
            mark if mark.is_outside() => "FROM OUTSIDE",
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
                Some(tool) if part.is_outside => {
                    format!(
                        "“{words}” (text that strangers may have written, by {})",
                        clip(tool, 60)
                    )
                }
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
