//! What the gate said to each call of a proposal.

use countersign::executor::Outcome;
use serde::Serialize;

use super::card;
use super::foreign::Foreign;
use super::style::{self, paint};
use super::table::{Cell, render};
use crate::failure::Exit;
use crate::view::ApprovalView;

/// Longest result of a call that passed and ran at once.
const RESULT_CHARS: usize = 600;

/// One call and its ruling.
pub struct Line {
    /// The tool.
    pub tool: String,
    /// What the gate said.
    pub ruling: Ruling,
}

/// What the gate said.
pub enum Ruling {
    /// It may run at once, by whoever asked. Its start is on record, unless it is a read.
    Pass(Option<HostPermit>),
    /// It passed before, under the same idempotency key, and must not run again.
    PassedBefore {
        /// The call's id.
        id: String,
    },
    /// It passed, and ran from here.
    Ran(Outcome),
    /// It waits for a person.
    Held {
        /// The call's id.
        id: String,
        /// What it would do; safe to show.
        summary: String,
    },
    /// It will not run.
    Forbidden {
        /// Why.
        reason: String,
    },
}

/// A passed call that its host runs: what it takes to tell how that ended.
pub struct HostPermit {
    /// The call's id.
    pub id: String,
    /// The permit, as text.
    pub permit: String,
}

/// The exit code of a proposal, before anybody decides.
pub fn exit(lines: &[Line]) -> Exit {
    let is_forbidden = |line: &Line| matches!(line.ruling, Ruling::Forbidden { .. });
    let is_failed =
        |line: &Line| matches!(line.ruling, Ruling::Ran(Outcome::Failed(_) | Outcome::Unknown(_)));
    if lines.iter().any(is_forbidden) {
        Exit::Forbidden
    } else if lines.iter().any(is_failed) {
        Exit::CallFailed
    } else {
        Exit::Done
    }
}

/// For people: a table, and the approval that waits.
pub fn table(lines: &[Line], approval: Option<&ApprovalView>, width: Option<usize>) -> String {
    let rows = lines.iter().map(row).collect();
    let mut text = render(["RULING", "TOOL", "WHAT"], rows, width);
    if let Some(approval) = approval {
        let id = approval.id.short();
        text.push('\n');
        text.push_str(&card::headline(approval));
        let hint = format!("countersign show {id}   or   countersign wait {id} --exec CMD");
        text.push_str(&format!("  {}\n", paint(style::HINT, &hint)));
    }
    text
}

fn row(line: &Line) -> [Cell; 3] {
    let told = |bytes: &[u8]| {
        Cell::foreign(Foreign::clip(
            String::from_utf8_lossy(bytes).trim_end(),
            RESULT_CHARS,
        ))
    };
    let says = |text: &str| Cell::foreign(Foreign::once(text));
    let (word, color, what) = match &line.ruling {
        Ruling::Pass(None) => ("pass", style::GOOD, Cell::new("may run at once; nobody is asked")),
        Ruling::Pass(Some(_)) => (
            "pass",
            style::GOOD,
            Cell::new(
                "may run at once; nobody is asked. On record as started: with `--exec CMD` also how it ended",
            ),
        ),
        Ruling::PassedBefore { .. } => (
            "passed before",
            style::OPEN,
            Cell::new("the same call passed before under this key; do not run it again"),
        ),
        Ruling::Ran(Outcome::Succeeded(result)) => ("succeeded", style::GOOD, told(result)),
        Ruling::Ran(Outcome::Failed(reason)) => ("failed", style::BAD, told(reason)),
        Ruling::Ran(Outcome::Unknown(reason)) => ("unknown", style::BAD, says(reason)),
        Ruling::Held { summary, .. } => ("held", style::OPEN, says(summary)),
        Ruling::Forbidden { reason } => ("forbidden", style::BAD, says(&reason.replace('\n', "; "))),
    };
    [
        Cell::styled(word, color),
        Cell::foreign(Foreign::once(&line.tool)),
        what,
    ]
}

/// For programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineView {
    tool: String,
    ruling: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
}

/// One line for programs.
pub fn view(line: &Line) -> LineView {
    let view = |ruling| LineView {
        tool: line.tool.clone(),
        ruling,
        id: None,
        reason: None,
        permit: None,
        outcome: None,
        result: None,
    };
    let ran = |outcome, result: &[u8]| LineView {
        outcome: Some(outcome),
        result: Some(String::from_utf8_lossy(result).into_owned()),
        ..view("pass")
    };
    match &line.ruling {
        Ruling::Pass(started) => LineView {
            id: started.as_ref().map(|started| started.id.clone()),
            permit: started.as_ref().map(|started| started.permit.clone()),
            ..view("pass")
        },
        Ruling::PassedBefore { id } => LineView {
            id: Some(id.clone()),
            ..view("passed_before")
        },
        Ruling::Ran(Outcome::Succeeded(result)) => ran("succeeded", result),
        Ruling::Ran(Outcome::Failed(reason)) => ran("failed", reason),
        Ruling::Ran(Outcome::Unknown(reason)) => ran("unknown", reason.as_bytes()),
        Ruling::Held { id, .. } => LineView {
            id: Some(id.clone()),
            ..view("held")
        },
        Ruling::Forbidden { reason } => LineView {
            reason: Some(reason.clone()),
            ..view("forbidden")
        },
    }
}
