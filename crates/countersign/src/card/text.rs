//! A card as plain text: every call with its values, warnings, notes, concerns and snapshot.
//!
//! INVARIANT: a value never begins a line. Every line begins with text of this program or of the policy: a sentence of
//! the policy, a mark, a pointer, a word such as `note:`, or the gutter of a further line of a summary or a value.

use std::borrow::Cow;

use crate::approval::Approval;
use crate::call::Call;
use crate::concern::Concern;
use crate::display::{escape, one_line, up_to_lines, with_line_breaks};
use crate::policy::Policy;
use crate::provenance::{Mark, Marks};
use crate::secrecy::{Concealed, Secrecy};
use crate::sentence::Sentences;
use crate::snapshot::Snapshot;
use crate::summary::Row;

/// Note on a card that was made under another policy.
const OTHER_POLICY: &str = "held under another policy than the current one, which may hide other values";

/// Prefix of every line of a summary or a value except the first. It distinguishes text within a value from lines of
/// the card.
const GUTTER: &str = "│ ";
/// Maximum number of lines of a value. A value with more lines is shown on one line.
const MOST_LINES: usize = 200;

/// The lines of a card, call by call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardText {
    /// Heading of a card with several calls.
    title: Option<String>,
    /// Lines of each call, the first is its summary. A summary and a value may have line breaks themselves.
    calls: Vec<Vec<String>>,
    /// Lines about the whole card.
    notes: Vec<String>,
}

/// Amount of a card that does not fit into a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// Number of calls that are not shown in full.
    pub calls: usize,
    /// Number of calls on the card.
    pub of: usize,
    /// Bytes of text that are not shown.
    pub bytes: usize,
}

impl CardText {
    /// Creates the text of an approval's card. `concerns` has one list per call; see
    /// [`Gate::concerns`](crate::gate::Gate::concerns).
    pub fn new(
        approval: &Approval,
        policy: &Policy,
        concerns: &[Vec<Concern>],
        sentences: &Sentences,
    ) -> CardText {
        let is_batch = approval.calls.len() > 1;
        let count = approval.calls.len().to_string();
        let title = || crate::sentence::fill(&sentences.several, &[("count", &count)]);
        let is_other = policy.may_hide_more(approval.policy);
        let calls = approval.numbered().map(|(position, call)| {
            let concerns = concerns.get(usize::from(position).saturating_sub(1));
            let concerns = concerns.map(Vec::as_slice).unwrap_or_default();
            call_lines(approval, call, policy, concerns, sentences)
        });
        let mut calls: Vec<Vec<String>> = calls.collect();
        let each = shared(&mut calls);
        let each = each
            .into_iter()
            .map(|line| format!("{} {line}", sentences.each_prefix));
        let numbered = |(position, lines)| match is_batch {
            true => numbered(position, lines),
            false => lines,
        };
        CardText {
            title: is_batch.then(title),
            calls: (1u8..).zip(calls).map(numbered).collect(),
            notes: each
                .chain(is_other.then(|| note(OTHER_POLICY)))
                .chain(
                    approval
                        .concealed(policy)
                        .map(|concealed| not_approvable(&concealed)),
                )
                .collect(),
        }
    }

    /// Returns all lines of the card, joined with line feeds.
    pub fn whole(&self) -> String {
        let lines: Vec<&str> = self.lines().map(|(_, line)| line).collect();
        lines.join("\n")
    }

    /// Returns as many leading lines as fit into `units` UTF-16 code units, and how much is missing.
    pub fn fitting(&self, units: usize) -> (String, Missing) {
        let mut text = String::new();
        let mut used = 0;
        let mut missing = Missing {
            calls: 0,
            of: self.calls.len(),
            bytes: 0,
        };
        let mut last = None;
        for (call, line) in self.lines() {
            used += length(line) + 1;
            if used <= units && missing.bytes == 0 {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(line);
                continue;
            }
            missing.bytes += line.len();
            if call.is_some() && call != last {
                missing.calls += 1;
                last = call;
            }
        }
        (text, missing)
    }

    /// Iterates over all lines, each with the index of the call that it belongs to; `None` for lines about the whole
    /// card.
    fn lines(&self) -> impl Iterator<Item = (Option<usize>, &str)> {
        let title = self.title.iter().map(|line| (None, line.as_str()));
        let calls = self.calls.iter().enumerate();
        let calls = calls.flat_map(|(at, lines)| lines.iter().map(move |line| (Some(at), line.as_str())));
        let notes = self.notes.iter().map(|line| (None, line.as_str()));
        title.chain(calls).chain(notes)
    }
}

/// Returns the length of a text in UTF-16 code units, as chat services count it.
pub(crate) fn length(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

fn numbered(position: u8, lines: Vec<String>) -> Vec<String> {
    let number = |(at, line): (usize, String)| {
        let line = line.replace('\n', "\n   ");
        match at {
            0 => format!("{position}. {line}"),
            _ => format!("   {line}"),
        }
    };
    lines.into_iter().enumerate().map(number).collect()
}

fn call_lines(
    approval: &Approval,
    call: &Call,
    policy: &Policy,
    concerns: &[Concern],
    sentences: &Sentences,
) -> Vec<String> {
    let secrecy = Secrecy::of(call, policy, &approval.salt);
    let rows = secrecy.whole_table(call.arguments.as_bytes());
    let mut lines = vec![with_gutter(&with_line_breaks(&call.terms.summary))];
    let provenance = call.provenance.as_deref();
    lines.extend(provenance.map(|provenance| provenance.verdict_in(&sentences.origins)));
    lines.extend(value_lines(approval, call, policy, &rows, sentences));
    lines.extend(rows.iter().flat_map(|row| {
        let told = |warning| format!("warning: {} {warning}", one_line(&row.name));
        row.warnings.iter().map(told)
    }));
    lines.extend(approval.notes_on(call).iter().map(|text| note(text)));
    let concerns = concerns.iter().map(ToString::to_string);
    lines.extend(concerns.map(|concern| format!("look twice: {}", one_line(&concern))));
    if let Some(before) = call.before.as_deref() {
        lines.extend(now_lines(approval, call, policy, before));
    }
    lines
}

/// Puts the gutter before every line except the first.
fn with_gutter(text: &str) -> String {
    text.replace('\n', &format!("\n{GUTTER}"))
}

fn note(text: &str) -> String {
    format!("note: {}", one_line(&escape(text)))
}

fn not_approvable(concealed: &Concealed) -> String {
    note(&format!("this card cannot be approved: {concealed}"))
}

/// Returns the lines for values that the summary does not contain or that did not come from the person. The latter come
/// first, each with its provenance mark.
fn value_lines(
    approval: &Approval,
    call: &Call,
    policy: &Policy,
    rows: &[Row],
    sentences: &Sentences,
) -> Vec<String> {
    let shown_values = policy.shown_values(approval, call);
    let marks = call.provenance.as_deref().map(Marks::new);
    let mark = |row: &Row| marks.as_ref().map(|marks| marks.of(row));
    let prominence = |row: &Row| mark(row).map_or(0, Mark::prominence);
    let mut listed: Vec<&Row> = rows
        .iter()
        .filter(|row| prominence(row) > 0 || !shown_values.includes(&row.pointer))
        .collect();
    listed.sort_by_key(|row| std::cmp::Reverse(prominence(row)));
    let tag = |row: &Row| mark(row).and_then(|mark| sentences.origins.tag(mark));
    let mut lines = Vec::new();
    let mut rest = listed.as_slice();
    while let Some((first, after)) = rest.split_first() {
        let same = after.iter().take_while(|row| tag(row) == tag(first));
        let same: Vec<&Row> = same.copied().collect();
        let items = items(first, &same);
        let fields = fields(first, &same);
        let tag = tag(first).map(|tag| format!("[{tag}] ")).unwrap_or_default();
        let (line, count) = match (items.len(), fields.len()) {
            (0 | 1, 0 | 1) => (format!("{}: {}", one_line(&first.name), value(first)), 1),
            (0 | 1, count) => (
                format!("{}: {{{}}}", one_line(parent(first)), fields.join(", ")),
                count,
            ),
            (count, _) => (
                format!("{}-{}: [{}]", one_line(&first.name), count - 1, items.join(", ")),
                count,
            ),
        };
        lines.push(format!("{tag}{line}"));
        rest = rest.get(count..).unwrap_or_default();
    }
    lines
}

fn value(row: &Row) -> String {
    match row.hidden {
        true => format!("({})", row.value),
        false => with_gutter(&up_to_lines(&row.value, MOST_LINES)),
    }
}

/// Returns true if a value can share a line with others without being mistaken for two values.
fn is_plain(row: &Row) -> bool {
    !row.hidden && !row.value.contains(',') && matches!(up_to_lines(&row.value, MOST_LINES), Cow::Borrowed(_))
}

/// Returns the values of a list that fit on one line, beginning with `first`.
fn items<'r>(first: &'r Row, after: &[&'r Row]) -> Vec<&'r str> {
    let Some(list) = first.name.strip_suffix("/0") else {
        return Vec::new();
    };
    let rows = std::iter::once(first).chain(after.iter().copied());
    let same = rows
        .enumerate()
        .take_while(|(at, row)| is_plain(row) && row.name == format!("{list}/{at}"));
    same.map(|(_, row)| row.value.as_str()).collect()
}

/// Returns the fields of a nested object that fit on one line, beginning with `first`, each with its name.
fn fields(first: &Row, after: &[&Row]) -> Vec<String> {
    let within = parent(first);
    let name = |row: &Row| {
        let name = row.name.strip_prefix(within)?.strip_prefix('/')?;
        let is_name = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        (is_plain(row) && name.chars().all(is_name)).then(|| format!("{name}: {}", row.value))
    };
    if within.is_empty() {
        return Vec::new();
    }
    let rows = std::iter::once(first).chain(after.iter().copied());
    rows.map_while(name).collect()
}

/// Returns the pointer of the enclosing list or object.
fn parent(row: &Row) -> &str {
    row.name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Returns the lines that show the snapshot as read when the card was made. Values that are secret in the arguments are
/// hidden here, too.
fn now_lines(approval: &Approval, call: &Call, policy: &Policy, before: &Snapshot) -> Vec<String> {
    let label = format!("there now, as {} read it:", escape(before.tool.as_str()));
    let text = Secrecy::of(call, policy, &approval.salt).json(&before.result);
    vec![format!(
        "{label} {}",
        with_gutter(&up_to_lines(&escape(text.trim()), MOST_LINES))
    )]
}

/// Removes the lines, other than the first, that all calls have in common, and returns them, so that they are shown
/// once.
fn shared(calls: &mut [Vec<String>]) -> Vec<String> {
    let (Some(first), true) = (calls.first(), calls.len() > 1) else {
        return Vec::new();
    };
    let below = |lines: &[String], line: &String| lines.get(1..).is_some_and(|lines| lines.contains(line));
    let is_shared = |line: &&String| calls.iter().all(|lines| below(lines, line));
    let shared: Vec<String> = first.iter().skip(1).filter(is_shared).cloned().collect();
    for lines in calls {
        let mut at = 0;
        lines.retain(|line| {
            at += 1;
            at == 1 || !shared.contains(line)
        });
    }
    shared
}
