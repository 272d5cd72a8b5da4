//! The verdict: one line on how many of a call's values the person gave, and the label of each mark.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use super::mark::{Coverage, Derivation, Derived, Mark, MatchKind, Provenance, Voucher};
use crate::display::{clip, escape, one_line};
use crate::sentence::{Origins, fill};
use crate::summary::Row;

/// Maximum length of a quote on a card, in characters.
const QUOTE_CHARS: usize = 60;

impl Provenance {
    /// The verdict in English, escaped for display.
    pub fn verdict(&self) -> String {
        self.verdict_in(&Origins::english())
    }

    /// The verdict in a person's language, escaped for display. If the agent supplied the conversation, the verdict
    /// says so.
    pub fn verdict_in(&self, words: &Origins) -> String {
        let verdict = self.findings(words);
        let is_known = self.counts().unknown < self.counts().total();
        match self.vouched_by() {
            Voucher::Agent if is_known => fill(&words.as_told, &[("verdict", &verdict)]),
            Voucher::Agent | Voucher::Gate => verdict,
        }
    }

    fn findings(&self, words: &Origins) -> String {
        let counts = self.counts();
        let total = counts.total();
        if total == 0 {
            return words.none.clone();
        }
        if self.heard == Coverage::Tools {
            return say_found(words, counts.tool, total);
        }
        if counts.unknown == total {
            return words.unknown_whence.clone();
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
        if self.heard == Coverage::Recent {
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
    // "0 of 1 value was found".
    let number = if total == 1 { 1 } else { found };
    fill(of(&words.found, number), &parts)
}

/// Picks the singular or the plural.
fn of(words: &[String; 2], count: u32) -> &str {
    let [one, several] = words;
    match count {
        1 => one,
        _ => several,
    }
}

/// Maximum number of values listed in a prompt; the card lists all of them.
const PROMPT_VALUES: usize = 5;
/// Minimum prominence at which a prompt names a value; for others the verdict's count suffices.
const NAMED: u8 = 4;

impl Provenance {
    /// Returns true if every value was given by the person, or is a default or empty.
    pub fn is_all_given(&self) -> bool {
        self.leaves.iter().all(|leaf| leaf.mark.prominence() == 0)
    }

    /// Returns the verdict as plain text for a chat, followed by the values that nobody stated or that strangers may
    /// have written, most prominent first. `rows` must be the call's table, in which secrets are hidden. Each line
    /// begins with the mark, so that no value can appear before it.
    pub fn prompt(&self, rows: &[Row], words: &Origins) -> String {
        let marks = Marks::new(self);
        let mark = |row: &Row| marks.of(row);
        let mut rows: Vec<&Row> = rows
            .iter()
            .filter(|row| mark(row).prominence() >= NAMED)
            .collect();
        rows.sort_by_key(|row| Reverse(mark(row).prominence()));
        let mut text = self.verdict_in(words);
        for row in rows.iter().take(PROMPT_VALUES) {
            let tag = match mark(row) {
                Mark::Tool(_) | Mark::Derived(_) => &words.tag_outside,
                _ => &words.tag_invented,
            };
            text.push_str(&format!(
                "\n[{tag}] {}: {}",
                one_line(&row.name),
                one_line(&row.value)
            ));
        }
        if rows.len() > PROMPT_VALUES {
            let more = (rows.len() - PROMPT_VALUES).to_string();
            text.push('\n');
            text.push_str(&fill(&words.more, &[("count", &more)]));
        }
        text
    }
}

/// Marks of a call's values, looked up by rows of its table.
#[derive(Debug)]
pub struct Marks<'p> {
    values: HashMap<Cow<'p, str>, &'p Mark>,
    /// Marks of member names, by the pointer of the member.
    keys: HashMap<Cow<'p, str>, &'p Mark>,
    voucher: Voucher,
}

impl<'p> Marks<'p> {
    /// Indexes the marks of a provenance.
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
            voucher: provenance.vouched_by(),
        }
    }

    /// Party that vouches for the conversation behind these marks.
    pub fn voucher(&self) -> Voucher {
        self.voucher
    }

    /// Returns the mark of a row: the most prominent among its value and the member names on the path to it. For a
    /// hidden row, which may hold several values, the most prominent of those.
    pub fn of(&self, row: &Row) -> &'p Mark {
        let value = self.value_of(row);
        let names = self.names_of(row).map(|(_, mark)| mark);
        // On a tie, the value's own mark is more informative.
        names.fold(value, |most_prominent, mark| {
            match mark.prominence() > most_prominent.prominence() {
                true => mark,
                false => most_prominent,
            }
        })
    }

    /// Returns the most prominent member name on the path to a row, escaped for display; `None` if no name is more
    /// prominent than the row's value.
    pub fn name_of(&self, row: &Row) -> Option<&str> {
        let value = self.value_of(row).prominence();
        let more_prominent = self.names_of(row).filter(|(_, mark)| mark.prominence() > value);
        let (pointer, _) = more_prominent.max_by_key(|(_, mark)| mark.prominence())?;
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
        let most_prominent = inside.map(|(_, mark)| *mark).max_by_key(|mark| mark.prominence());
        most_prominent.filter(|_| row.hidden).unwrap_or(&Mark::Unknown)
    }

    /// Marked member names on the path to a row's value; for a hidden row also those inside it.
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

    /// Sorts rows by prominence, unstated values first and the person's own last; the sort is stable.
    pub fn loudest_first(&self, rows: &mut [Row]) {
        rows.sort_by_cached_key(|row| Reverse(self.of(row).prominence()));
    }
}

impl Mark {
    /// Prominence on a card, from 5 for a value that nobody stated to 0 for one that the person gave.
    pub fn prominence(&self) -> u8 {
        match self {
            Mark::Invented { .. } => 5,
            mark if mark.is_outside() => 4,
            Mark::Unknown => 3,
            Mark::Derived(_) => 2,
            Mark::Tool(_) => 1,
            Mark::Person(_) | Mark::Default => 0,
        }
    }

    /// Short label of the mark, depending on who vouches for the conversation.
    pub fn tag(&self, voucher: Voucher) -> &'static str {
        match self {
            Mark::Person(_) if voucher == Voucher::Agent => "you, per agent",
            Mark::Invented { .. } => "NOT FROM YOU",
            mark if mark.is_outside() => "FROM OUTSIDE",
            Mark::Unknown => "unknown",
            Mark::Derived(_) => "derived",
            Mark::Tool(_) => "from a tool",
            Mark::Person(_) => "from you",
            Mark::Default => "default",
        }
    }

    /// Details for the label: who stated the value, and in which words if they differ from it; `None` if there is
    /// nothing to add. The text is escaped for display, but quotes what others wrote, so it must be shown apart from
    /// values.
    pub fn detail(&self) -> Option<String> {
        let quoted = |words: &str| format!("“{}”", clip(words, QUOTE_CHARS));
        match self {
            Mark::Invented { agent_said_it: true } => Some("only the agent said it before".to_owned()),
            Mark::Invented { agent_said_it: false } => Some("nobody stated it".to_owned()),
            Mark::Person(quote) if quote.how == MatchKind::Exactly || quote.words.is_empty() => None,
            Mark::Person(quote) => Some(format!("you said {}", quoted(&quote.words))),
            Mark::Tool(tool) => {
                let text = if tool.is_outside {
                    "text that strangers may have written, by "
                } else {
                    ""
                };
                let place = tool.pointer.as_ref().filter(|pointer| !pointer.is_empty());
                let place = place.map(|pointer| format!(", at {}", clip(pointer, QUOTE_CHARS)));
                let others = match tool.quote.how {
                    MatchKind::OneOfSeveral => ", one of several places that state it",
                    _ => "",
                };
                Some(format!(
                    "{text}{}{}{others}",
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
        Derivation::Sum | Derivation::Shifted => " and ",
        Derivation::Composed => ", ",
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
