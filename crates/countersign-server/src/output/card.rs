//! The card: everything a person needs to decide, and what became of it.

use std::collections::HashMap;

use countersign::approval::Approval;
use countersign::call::Call;
use countersign::concern::Concern;
use countersign::decision::Surface;
use countersign::display::{clip, escape};
use countersign::event::{Event, What};
use countersign::json;
use countersign::policy::{Policy, Undoable};
use countersign::provenance::Mark;
use countersign::state::State;
use countersign::summary::Row;
use countersign::time::Time;
use unicode_width::UnicodeWidthStr as _;

use super::once;
use super::origin::{self, Marks};
use super::style::{self, paint};
use crate::{duration, view};

/// Longest result on a card, unless it is shown whole.
const RESULT_CHARS: usize = 600;
/// Pointers longer than this push their values out of line, not those of the others.
const WIDEST_POINTER: usize = 32;
/// Texts of more lines than this are shown on one, unless they are shown whole.
const MOST_LINES: usize = 40;
/// Longest claim on a card, unless it is shown whole.
const CLAIM_CHARS: usize = 1_000;

/// How a card is drawn.
#[derive(Clone, Copy)]
pub struct Drawing<'a> {
    /// Says what is secret.
    pub policy: &'a Policy,
    /// The store's clock.
    pub now: Time,
    /// Long values are shown whole.
    pub full: bool,
    /// What deserves a second look, call by call.
    pub concerns: &'a [Vec<Concern>],
}

/// The whole card.
pub fn card(approval: &Approval, drawing: Drawing<'_>) -> String {
    let mut text = headline(approval, drawing.now);
    let is_batch = approval.calls.len() > 1;
    for (position, call) in approval.numbered() {
        text.push('\n');
        let number = is_batch.then_some(position);
        text.push_str(&call_block(approval, number, call, drawing));
        let concerns = drawing.concerns.get(usize::from(position.saturating_sub(1)));
        for concern in concerns.into_iter().flatten() {
            let indent = if is_batch { "     " } else { "  " };
            let label = paint(style::WARNING, "look twice:");
            text.push_str(&format!("{indent}{label} {}\n", once(&concern.to_string())));
        }
    }
    text.push('\n');
    text.push_str(&facts(approval, drawing));
    text.push_str(&what_now(approval, drawing));
    text
}

/// `Approval 9a8b7c6d  pending, 4m 58s left`
pub fn headline(approval: &Approval, now: Time) -> String {
    let state = view::state(approval, now);
    let word = paint(style::state(state), state.as_str());
    let id = paint(style::STRONG, &format!("Approval {}", approval.id.short()));
    let detail = match (state, &approval.decision) {
        (State::Pending, _) => format!(", {} left", duration::show(approval.expires_at.since(now))),
        (_, Some(decided)) => format!(
            " by {} {}",
            escape(decided.by.as_str()),
            duration::show_relative(decided.at, now)
        ),
        (State::Expired, None) => format!(" {}", duration::show_relative(approval.expires_at, now)),
        (_, None) => approval
            .ended_at
            .map(|at| format!(" {}", duration::show_relative(at, now)))
            .unwrap_or_default(),
    };
    format!("{id}  {word}{detail}\n")
}

/// What became of an approval: the headline and one line per call, with results.
pub fn outcome(approval: &Approval, now: Time) -> String {
    let mut text = headline(approval, now);
    for (position, call) in approval.numbered() {
        let summary = once(&call.terms.summary);
        text.push_str(&format!("{position:>3}  {}  {summary}\n", call_state(call)));
        text.push_str(&result(call, "     ", false));
    }
    let comment = approval
        .decision
        .as_ref()
        .and_then(|decided| decided.comment.as_deref());
    text.extend(comment.map(|comment| format!("     comment: {}\n", escape(comment))));
    if approval.next_released().is_some() {
        let command = format!("countersign wait {} --exec CMD", approval.id.short());
        text.push_str(&format!(
            "  released; run it with  {}\n",
            paint(style::HINT, &command)
        ));
    }
    text
}

fn call_block(approval: &Approval, number: Option<u8>, call: &Call, drawing: Drawing<'_>) -> String {
    let terms = &call.terms;
    let label = number.map_or_else(|| "  ".to_owned(), |number| format!("{number:>3}  "));
    let indent = " ".repeat(label.len());
    let mut text = format!("{label}{}\n", paint(style::STRONG, &once(&terms.summary)));
    let undo = match terms.undo {
        Undoable::Yes => "can be undone",
        Undoable::No => "cannot be undone",
    };
    let mut facts = vec![
        call.tool.to_string(),
        terms.effect.to_string(),
        paint(style::risk(terms.risk), &format!("{} risk", terms.risk)),
        undo.to_owned(),
    ];
    if approval.state != State::Pending {
        facts.push(call_state(call));
    }
    text.push_str(&format!("{indent}{}\n", facts.join(" · ")));
    text.push_str(&arguments(approval, call, &indent, drawing));
    for note in &terms.notes {
        text.push_str(&format!(
            "{indent}{} {}\n",
            paint(style::NOTICE, "note:"),
            once(note)
        ));
    }
    if call.original.is_some() {
        let note = "the arguments were changed by the person who approved them";
        text.push_str(&format!("{indent}{} {note}\n", paint(style::NOTICE, "note:")));
    }
    text.push_str(&result(call, &indent, drawing.full));
    text
}

fn call_state(call: &Call) -> String {
    let word = paint(style::call(call.state), call.state.as_str());
    match &call.because {
        Some(because) => format!("{word}: {}", because.as_str()),
        None => word,
    }
}

/// One row per value. Nothing is cut without saying so, and how to see it whole.
fn arguments(approval: &Approval, call: &Call, indent: &str, drawing: Drawing<'_>) -> String {
    if let Some(at) = approval.erased_at {
        let erased = format!(
            "the content was erased {}",
            duration::show_relative(at, drawing.now)
        );
        return format!("{indent}  {}\n", paint(style::FAINT, &erased));
    }
    let bytes = call.arguments.as_bytes();
    let table = drawing.policy.table(call.tool.as_str(), bytes, &approval.salt);
    let leaves = json::leaves(bytes);
    let leaves: HashMap<_, _> = leaves.iter().map(|leaf| (escape(&leaf.pointer), leaf)).collect();
    let mut table = table;
    let mut text = String::new();
    let marks = call.provenance.as_deref().map(Marks::new);
    match (call.provenance.as_deref(), &marks) {
        (Some(provenance), Some(marks)) => {
            text.push_str(&format!("{indent}{}\n", origin::verdict(provenance)));
            marks.loudest_first(&mut table);
        }
        // An edited call's values are those of the person who approved it.
        _ if call.original.is_none() && !table.is_empty() => {
            let note = "where the values came from is unknown: no conversation was given";
            text.push_str(&format!("{indent}{}\n", paint(style::FAINT, note)));
        }
        _ => {}
    }
    text.push_str(&rows(&table, indent, marks.as_ref(), |row| {
        let leaf = leaves.get(row.pointer.as_str());
        let text = leaf
            .filter(|_| !row.clipped || drawing.full)
            .map(|leaf| leaf.text());
        match text {
            Some(text) if is_lines(&text, drawing.full) => lines(&text, indent),
            Some(text) => escape(&text).into_owned(),
            None => row.value.clone(),
        }
    }));
    if !drawing.full && table.iter().any(|row| row.clipped) {
        let label = paint(style::WARNING, "not all is shown:");
        let command = format!("countersign show {} --full", approval.id.short());
        text.push_str(&format!("{indent}  {label} see everything with `{command}`\n"));
    }
    text
}

/// The values under each other: where each stands, what it is, and where it came from.
pub fn rows(rows: &[Row], indent: &str, marks: Option<&Marks<'_>>, value: impl Fn(&Row) -> String) -> String {
    if rows.is_empty() {
        return format!("{indent}  {}\n", paint(style::FAINT, "no arguments"));
    }
    let widest = rows
        .iter()
        .map(|row| row.pointer.width())
        .max()
        .unwrap_or(0)
        .min(WIDEST_POINTER);
    let mut text = String::new();
    for row in rows {
        let padding = " ".repeat(widest.saturating_sub(row.pointer.width()));
        let pointer = paint(style::FAINT, &row.pointer);
        let shown = match row.hidden {
            true => paint(style::FAINT, &format!("({})", row.value)),
            false if row.bytes == 0 => paint(style::FAINT, "(empty)"),
            false => value(row),
        };
        let mark = marks.map(|marks| marks.of(row));
        let tag = mark.map(origin::mark).unwrap_or_default();
        text.push_str(&format!("{indent}  {tag}{pointer}{padding}  {shown}\n"));
        if let Some(detail) = mark.flatten().and_then(Mark::detail) {
            // On a line of its own, which no value can begin.
            let space = " ".repeat(origin::MARK_WIDTH + widest);
            text.push_str(&format!(
                "{indent}  {space}  {}\n",
                paint(style::FAINT, &format!("└ {}", once(&detail)))
            ));
        }
        for warning in &row.warnings {
            let label = paint(style::WARNING, "warning:");
            text.push_str(&format!("{indent}  {label} {} {warning}\n", row.pointer));
        }
    }
    text
}

/// Whether a text is better read line by line.
fn is_lines(text: &str, full: bool) -> bool {
    let count = text.lines().count();
    count > 1 && (full || count <= MOST_LINES)
}

/// Each line on its own, behind a bar, so that none can pass for one of ours.
fn lines(text: &str, indent: &str) -> String {
    let bar = paint(style::FAINT, "│");
    let line = |line: &str| format!("\n{indent}    {bar} {}", escape(line));
    text.split('\n').map(line).collect()
}

fn result(call: &Call, indent: &str, full: bool) -> String {
    let Some(bytes) = call.result.as_deref() else {
        return String::new();
    };
    if bytes.is_empty() {
        return String::new();
    }
    let label = match call.state {
        countersign::state::CallState::Failed => "failed with",
        _ => "result",
    };
    let limit = if full { usize::MAX } else { RESULT_CHARS };
    let shown = clip(String::from_utf8_lossy(bytes).trim_end(), limit).to_string();
    format!("{indent}{} {shown}\n", paint(style::STRONG, &format!("{label}:")))
}

/// Who asks, when, and what was decided.
fn facts(approval: &Approval, drawing: Drawing<'_>) -> String {
    let mut lines: Vec<(&str, String)> = vec![("agent", escape(approval.agent.as_str()).into_owned())];
    let mut name = |label, value: Option<&str>| {
        lines.extend(value.map(|value| (label, escape(value).into_owned())));
    };
    name("run", approval.run.as_ref().map(|run| run.as_str()));
    name(
        "session",
        approval.session.as_ref().map(|session| session.as_str()),
    );
    name(
        "channel",
        approval.channel.as_ref().map(|channel| channel.as_str()),
    );
    name("asked by", Some(approval.requester.as_str()));
    name(
        "for",
        approval.on_behalf_of.as_ref().map(|person| person.as_str()),
    );
    if let Some(claim) = &approval.claim {
        let limit = if drawing.full { usize::MAX } else { CLAIM_CHARS };
        lines.push((
            "it says",
            format!(
                "“{}”  {}",
                clip(claim, limit),
                paint(style::FAINT, "(the agent's own words, not checked)")
            ),
        ));
    }
    lines.push(("approvers", approvers(approval)));
    lines.extend(takes(approval).map(|takes| ("takes", takes)));
    lines.push(("proposed", when(approval.created_at, drawing.now)));
    for endorsed in &approval.endorsements {
        let by = escape(endorsed.by.as_str());
        let on = escape(&endorsed.surface);
        let mut line = format!("by {by} on {on}, {}", when(endorsed.at, drawing.now));
        if let Some(calls) = &endorsed.calls {
            line.push_str(&format!(", only {}", listed(calls)));
        }
        lines.push(("approved", line));
        let comment = endorsed.comment.as_deref();
        lines.extend(comment.map(|comment| ("comment", escape(comment).into_owned())));
    }
    if approval.decision.is_none() {
        lines.push(("expires", when(approval.expires_at, drawing.now)));
    }
    if let Some(decided) = &approval.decision {
        let verb = if decided.approved { "approved" } else { "denied" };
        let by = escape(decided.by.as_str());
        lines.push((
            verb,
            format!(
                "by {by} on {}, {}",
                escape(&decided.surface),
                when(decided.at, drawing.now)
            ),
        ));
        lines.extend(
            decided
                .comment
                .as_deref()
                .map(|comment| ("comment", escape(comment).into_owned())),
        );
    }
    lines.extend(
        approval
            .superseded_by
            .map(|id| ("now", format!("superseded by {}", id.short()))),
    );
    lines.extend(approval.replaces.map(|id| ("replaces", id.short())));
    lines.extend(
        approval
            .undoes
            .map(|call| ("undoes", format!("{}.{}", call.approval.short(), call.position))),
    );
    lines.push(("id", approval.id.to_string()));
    lines.push(("digest", approval.digest.short()));
    let line = |(label, value): (&str, String)| {
        let padded = format!("{label:<10}");
        format!("  {} {value}\n", paint(style::FAINT, &padded))
    };
    lines.into_iter().map(line).collect()
}

fn approvers(approval: &Approval) -> String {
    let mut lists: Vec<String> = Vec::new();
    for call in &approval.calls {
        let names: Vec<_> = call
            .terms
            .approvers
            .iter()
            .map(|name| escape(name).into_owned())
            .collect();
        let list = match names.is_empty() {
            true => "nobody".to_owned(),
            false => names.join(" or "),
        };
        if !lists.contains(&list) {
            lists.push(list);
        }
    }
    lists.join("; ")
}

/// What approving takes beyond being an approver, where it is more than usual.
fn takes(approval: &Approval) -> Option<String> {
    let terms = || approval.calls.iter().map(|call| call.terms.authority);
    let mut takes = Vec::new();
    if approval.quorum() > 1 {
        takes.push(match approval.missing() {
            0 => format!("{} people", approval.quorum()),
            missing => format!("{} people, {missing} of them still missing", approval.quorum()),
        });
    }
    if terms().any(|authority| authority.four_eyes) {
        takes.push("somebody else than who asked".to_owned());
    }
    let surface = terms().map(|authority| authority.surface).max();
    let surface = surface.filter(|surface| *surface > Surface::Text);
    takes.extend(surface.map(|surface| format!("{} or better", surface.phrase())));
    (!takes.is_empty()).then(|| takes.join("; "))
}

fn listed(calls: &[u8]) -> String {
    let calls: Vec<String> = calls.iter().map(ToString::to_string).collect();
    calls.join(", ")
}

fn when(moment: Time, now: Time) -> String {
    format!("{} ({})", duration::show_relative(moment, now), moment)
}

/// What the person can do next.
fn what_now(approval: &Approval, drawing: Drawing<'_>) -> String {
    let mut text = String::new();
    if approval.policy != drawing.policy.hash() && view::state(approval, drawing.now) == State::Pending {
        let label = paint(style::NOTICE, "note:");
        text.push_str(&format!(
            "  {label} it was held under another policy than the one in force here, which may hide other values\n"
        ));
    }
    if view::state(approval, drawing.now) == State::Pending {
        let id = approval.id.short();
        let commands = format!("countersign approve {id}   or   countersign deny {id}");
        text.push_str(&format!("\n  {}\n", paint(style::HINT, &commands)));
    }
    text
}

/// The history, one line per event.
pub fn history(events: &[Event]) -> String {
    let mut text = format!("\n{}\n", paint(style::STRONG, "History"));
    for event in events {
        let by = event.by.to_string();
        text.push_str(&format!(
            "{:>3}  {}  {:<16}  {}{}\n",
            event.number,
            event.at,
            event.what.as_str(),
            escape(&by),
            detail(&event.what)
        ));
    }
    text
}

fn detail(what: &What) -> String {
    match what {
        What::Proposed { calls: 1, .. } => ", 1 call".to_owned(),
        What::Proposed { calls, .. } => format!(", {calls} calls"),
        What::Approved {
            calls: Some(granted), ..
        }
        | What::Endorsed {
            calls: Some(granted), ..
        } => format!(", only {}", listed(granted)),
        What::Superseded { successor } => format!(", by {}", successor.short()),
        What::Withdrawn { reason: Some(reason) } => format!(", {}", escape(reason)),
        What::DecisionRefused { reason, .. } => format!(", {}", escape(reason)),
        What::Started { call, .. } => format!(", call {call}"),
        What::Succeeded { call, bytes, .. } | What::Failed { call, bytes, .. } => {
            format!(", call {call}, {bytes} bytes")
        }
        What::Lost { call, reason } => format!(", call {call}, {}", escape(reason)),
        What::Refused { call, because } => format!(", call {call}, {}", because.as_str()),
        What::Reconciled { call, succeeded } => {
            let ended = if *succeeded { "succeeded" } else { "failed" };
            format!(", call {call}, it {ended}")
        }
        What::Undone { call, undo } => {
            format!(", call {call} by {}.{}", undo.approval.short(), undo.position)
        }
        _ => String::new(),
    }
}
