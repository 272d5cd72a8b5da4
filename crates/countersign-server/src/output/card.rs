//! Card of an approval on the terminal: everything a person needs to decide, and the outcome.

use std::collections::HashMap;

use countersign::display::EMPTY;
use countersign::state::{CallState, State};
use countersign::summary::Row;
use serde_json::value::RawValue;
use unicode_width::UnicodeWidthStr as _;

use super::facts::{facts, takes};
use super::foreign::{Foreign, foreign, named, shown, shown_lines};
use super::layout::GUTTER_WIDTH;
use super::origin::{self, Marks};
use super::style::{self, paint};
use super::{before, once};
use crate::duration;
use crate::view::origin::untraced;
use crate::view::{ApprovalView, CallView, Outcome, RowWithFullText};

/// Maximum length of a result on a short card, in characters.
const RESULT_CHARS: usize = 600;
/// Maximum width of the pointer column, in columns. A longer pointer shifts only its own value.
const WIDEST_POINTER: usize = 32;
/// Maximum number of lines of a text. A text with more lines is shown on one line with escaped line breaks, unless the
/// card is complete.
const MOST_LINES: usize = 40;

/// Number of lines above which a card in a chat repeats its summaries at the end, because those at its beginning may
/// have scrolled off the screen.
const GLANCE: usize = 20;

/// How much of long values a card shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The beginning and the end of a long value, and how much is missing between them.
    Short,
    /// Complete values.
    Whole,
}

/// Renders a card with its facts and notes.
pub fn card(approval: &ApprovalView, length: Length) -> String {
    let mut text = calls(approval, length);
    text.push('\n');
    text.push_str(&facts(approval, length));
    text.push_str(&notes(approval));
    text
}

/// Returns true if a card of this length leaves nothing out.
pub fn is_whole(approval: &ApprovalView, length: Length) -> bool {
    let is_short =
        |call: &CallView| call.before.is_none() && call.value_rows().iter().all(|shown| !shown.row.clipped);
    length == Length::Whole || approval.calls.iter().all(is_short)
}

/// Renders a card inside a chat, without what the chat already shows, such as who asks whom and when. After a long
/// card, the summaries are repeated at the end.
pub fn card_in_talk(approval: &ApprovalView) -> String {
    let mut text = calls(approval, Length::Whole);
    if let Some(takes) = takes(approval) {
        text.push_str(&format!("  {} {takes}\n", paint(style::NOTICE, "it takes:")));
    }
    text.push_str(&notes(approval));
    if text.lines().count() > GLANCE {
        text.push('\n');
        for (position, call) in approval.numbered() {
            let number = (approval.calls.len() > 1).then(|| format!("{position:>3}"));
            let summary = paint(style::STRONG, &shown_lines(&call.summary));
            text.push_str(&format!("{}  {summary}\n", number.unwrap_or_default()));
        }
    }
    text
}

fn calls(approval: &ApprovalView, length: Length) -> String {
    let mut text = headline(approval);
    let is_batch = approval.calls.len() > 1;
    for (position, call) in approval.numbered() {
        text.push('\n');
        let number = is_batch.then_some(position);
        text.push_str(&call_block(approval, number, call, length));
        for concern in &call.concerns {
            let indent = if is_batch { "     " } else { "  " };
            let label = paint(style::WARNING, "look twice:");
            text.push_str(&format!("{indent}{label} {}\n", shown(concern)));
        }
    }
    text
}

/// Renders the first line of a card: `Approval 9a8b7c6d  pending, 4m 58s left`.
pub fn headline(approval: &ApprovalView) -> String {
    let (state, now) = (approval.status, approval.now.0);
    let outcome = Outcome::of_view(approval);
    let word = paint(style::outcome(state, &outcome), &outcome.decided);
    let id = paint(style::STRONG, &format!("Approval {}", approval.id.short()));
    let detail = match (state, &approval.decided_by, approval.decided_at) {
        (State::Pending, ..) => format!(", {} left", duration::show(approval.expires_at.0.since(now))),
        (_, Some(by), Some(at)) => format!(" by {} {}", named(by), duration::show_relative(at.0, now)),
        (State::Passed, ..) => {
            let at = approval.ended_at.map(|at| duration::show_relative(at.0, now));
            format!(" by the policy, nobody was asked, {}", at.unwrap_or_default())
        }
        (State::Expired, ..) => format!(" {}", duration::show_relative(approval.expires_at.0, now)),
        _ => approval
            .ended_at
            .map(|at| format!(" {}", duration::show_relative(at.0, now)))
            .unwrap_or_default(),
    };
    let rest: String = outcome.rest.iter().map(|part| format!(", {part}")).collect();
    format!("{id}  {word}{detail}{rest}\n")
}

/// Renders the outcome of an approval: the headline and one line per call, with results.
pub fn outcome(approval: &ApprovalView) -> String {
    let mut text = headline(approval);
    for (position, call) in approval.numbered() {
        let summary = shown(&call.summary);
        text.push_str(&format!("{position:>3}  {}  {summary}\n", call_state(call)));
        text.push_str(&result(call, "     ", Length::Short));
    }
    let comment = approval.comment.as_deref();
    text.extend(comment.map(|comment| {
        format!(
            "     comment: {}\n",
            Foreign::clip_lines(comment, usize::MAX).mark()
        )
    }));
    if approval.next_released().is_some() {
        let command = format!("countersign wait {} --exec CMD", approval.id.short());
        text.push_str(&match approval.is_hosted() {
            true => "  released: the gateway or coding agent that proposed it runs it\n".to_owned(),
            false => format!(
                "  released: the program that has the tool can run it now, or use  {}\n",
                paint(style::HINT, &command)
            ),
        });
    }
    if approval.calls.iter().any(|call| call.state == CallState::Running) {
        let command = format!("countersign wait {} --finished", approval.id.short());
        text.push_str(&format!(
            "  it is running; see how it ends with  {}\n",
            paint(style::HINT, &command)
        ));
    }
    text
}

fn call_block(approval: &ApprovalView, number: Option<u8>, call: &CallView, length: Length) -> String {
    let label = number.map_or_else(|| "  ".to_owned(), |number| format!("{number:>3}  "));
    let indent = " ".repeat(label.len());
    let mut text = format!("{label}{}\n", paint(style::STRONG, &shown_lines(&call.summary)));
    let undo = match call.undoable {
        true => "can be undone",
        false => "cannot be undone",
    };
    let mut facts = vec![
        call.effect.to_string(),
        paint(style::risk(call.risk), &format!("{} risk", call.risk)),
        undo.to_owned(),
    ];
    if approval.status != State::Pending && call.state != CallState::Held {
        facts.push(call_state(call));
    }
    // The tool's name is untrusted, so it comes last, where it cannot pass for one of the facts.
    facts.push(foreign(&call.tool));
    text.push_str(&format!("{indent}{}\n", facts.join(" · ")));
    text.push_str(&arguments(approval, call, &indent, length));
    for note in &call.notes {
        text.push_str(&format!(
            "{indent}{} {}\n",
            paint(style::NOTICE, "note:"),
            shown(note)
        ));
    }
    text.push_str(&before::changes(
        &call.edits,
        call.before.as_ref(),
        &indent,
        length,
    ));
    if call.edited {
        let note = match approval.status {
            State::Pending => "changed by you: these would run; the summary still describes the old ones",
            _ => "the arguments were changed by the person who approved them",
        };
        text.push_str(&format!("{indent}{} {note}\n", paint(style::NOTICE, "note:")));
    }
    text.push_str(&result(call, &indent, length));
    text
}

fn call_state(call: &CallView) -> String {
    let word = paint(style::call(call.state), call.state.as_str());
    match &call.because {
        Some(because) => format!("{word}: {}", once(because)),
        None => word,
    }
}

/// Renders one row per value. A cut value is marked as such, with the command that shows all of it.
fn arguments(approval: &ApprovalView, call: &CallView, indent: &str, length: Length) -> String {
    if let Some(at) = approval.erased_at {
        let erased = format!(
            "the content was erased {}",
            duration::show_relative(at.0, approval.now.0)
        );
        return format!("{indent}  {}\n", paint(style::FAINT, &erased));
    }
    let values = call.value_rows();
    if values.is_empty() && call.arguments.is_none() {
        return format!(
            "{indent}  {}\n",
            paint(style::WARNING, "the arguments are not given")
        );
    }
    let is_whole = length == Length::Whole;
    let (table, whole): (Vec<Row>, HashMap<String, Option<String>>) = values
        .into_iter()
        .map(|RowWithFullText { row, whole }| (row.clone(), (row.pointer, whole)))
        .unzip();
    let mut table = table;
    let mut text = String::new();
    let marks = call.provenance.as_ref().map(Marks::new);
    match (&call.provenance, &marks) {
        (Some(provenance), Some(marks)) => {
            text.push_str(&format!("{indent}{}\n", origin::verdict(provenance)));
            marks.loudest_first(&mut table);
        }
        // The values of an edited call come from the person who approved it.
        _ if !call.edited && !table.is_empty() => {
            let note = untraced(approval.undoes.is_some());
            text.push_str(&format!("{indent}{}\n", paint(style::FAINT, note)));
        }
        _ => {}
    }
    text.push_str(&rows(&table, indent, marks.as_ref(), |row| {
        let whole = whole.get(row.pointer.as_str()).and_then(Option::as_deref);
        match whole.filter(|_| !row.clipped || is_whole) {
            Some(text) if is_lines(text, is_whole) => Foreign::value_lines(text).mark(),
            Some(text) => Foreign::value(row.kind, text).mark(),
            None => shown(&row.value),
        }
    }));
    if !is_whole && table.iter().any(|row| row.clipped) {
        let label = paint(style::WARNING, "not all is shown:");
        let command = format!("countersign show {} --full", approval.id.short());
        text.push_str(&format!("{indent}  {label} see everything with `{command}`\n"));
    }
    text
}

/// Renders a table of values: provenance mark (if `marks` are given), pointer and value. `value` renders the value of a
/// row.
pub fn rows(rows: &[Row], indent: &str, marks: Option<&Marks<'_>>, value: impl Fn(&Row) -> String) -> String {
    if rows.is_empty() {
        return format!("{indent}  {}\n", paint(style::FAINT, "no arguments"));
    }
    let widest = rows
        .iter()
        .map(|row| row.name.width())
        .max()
        .unwrap_or(0)
        .min(WIDEST_POINTER);
    let mut text = String::new();
    for row in rows {
        let padding = " ".repeat(widest.saturating_sub(row.name.width()));
        let pointer = paint(style::FAINT, &shown(&row.name));
        let told = match row.hidden {
            true => paint(style::FAINT, &format!("({})", once(&row.value))),
            false if row.bytes == 0 => paint(style::FAINT, EMPTY),
            false => value(row),
        };
        let mark = marks.map(|marks| marks.of(row));
        let tag = mark.map(origin::mark).unwrap_or_default();
        text.push_str(&format!("{indent}  {tag}{pointer}{padding}  {told}\n"));
        if let Some(detail) = mark.flatten().and_then(|mark| mark.detail.as_deref()) {
            // On its own line, with a prefix that no value can start with.
            let space = " ".repeat(origin::MARK_WIDTH + widest + GUTTER_WIDTH);
            text.push_str(&format!(
                "{indent}  {space}  {}\n",
                paint(style::FAINT, &format!("└ {}", shown(detail)))
            ));
        }
        for warning in &row.warnings {
            let label = paint(style::WARNING, "warning:");
            let warning = shown(&format!("{} {warning}", row.name));
            text.push_str(&format!("{indent}  {label} {warning}\n"));
        }
    }
    text
}

/// Returns true if a text is shown on several lines: if it has more than one, and at most [`MOST_LINES`] unless `full`
/// is true.
fn is_lines(text: &str, full: bool) -> bool {
    let count = text.lines().count();
    count > 1 && (full || count <= MOST_LINES)
}

fn result(call: &CallView, indent: &str, length: Length) -> String {
    let Some(result) = call
        .result
        .as_deref()
        .map(result_text)
        .filter(|text| !text.is_empty())
    else {
        return String::new();
    };
    let label = match call.state {
        CallState::Failed => "failed with",
        _ => "result",
    };
    let limit = match length {
        Length::Short => RESULT_CHARS,
        Length::Whole => usize::MAX,
    };
    let result = Foreign::clip_lines(result.trim_end(), limit).mark();
    format!(
        "{indent}{} {result}\n",
        paint(style::STRONG, &format!("{label}:"))
    )
}

/// Converts a result to text: a JSON string without its quotes, any other JSON unchanged.
pub fn result_text(result: &RawValue) -> String {
    serde_json::from_str(result.get()).unwrap_or_else(|_| result.get().to_owned())
}

/// Joins the positions of calls with commas.
pub fn listed(calls: &[u8]) -> String {
    let calls: Vec<String> = calls.iter().map(ToString::to_string).collect();
    calls.join(", ")
}

fn notes(approval: &ApprovalView) -> String {
    if !approval.other_policy || approval.status != State::Pending {
        return String::new();
    }
    let label = paint(style::NOTICE, "note:");
    format!("  {label} it was held under another policy than the current one, which may hide other values\n")
}

/// Suggests the next commands. The command that approves, with the digest, is suggested only after a complete card.
pub fn what_now(approval: &ApprovalView, length: Length) -> String {
    if approval.status != State::Pending {
        return String::new();
    }
    let id = approval.id.short();
    let look = match is_whole(approval, length) {
        true => format!("countersign approve {id} --digest {}", approval.digest.short()),
        false => format!("countersign show {id} --full"),
    };
    let commands = format!("{look}   or   countersign deny {id}");
    format!("\n  {}\n", paint(style::HINT, &commands))
}
