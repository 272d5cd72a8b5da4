//! Renders the gate's rulings on the calls of a proposal.

use countersign::executor::Outcome;
use countersign::stopwatch::TimeLimit;
use serde::Serialize;

use super::card;
use super::foreign::Foreign;
use super::style::{self, paint};
use super::table::{Cell, render};
use crate::failure::Exit;
use crate::view::ApprovalView;

/// Maximum length of the shown result of a passed call that ran at once, in characters.
const RESULT_CHARS: usize = 600;

/// Tool name of a call, and its ruling.
pub struct Line {
    pub tool: String,
    /// Ruling on the call.
    pub ruling: Ruling,
}

/// Ruling on a call.
pub enum Ruling {
    /// Passed: the caller may run the call at once. The permit is `None` for a read, whose start is not recorded.
    Pass(Option<HostPermit>),
    /// Passed earlier under the same idempotency key; must not run again.
    PassedBefore { id: String },
    /// Passed, and was run by this process.
    Ran(Outcome),
    /// Held for a person.
    Held {
        id: String,
        /// Summary, escaped.
        summary: String,
    },
    /// Forbidden by the policy.
    Forbidden { reason: String },
}

/// Permit for a passed call that the host runs itself, needed to report how the call ended.
pub struct HostPermit {
    pub id: String,
    /// Permit token.
    pub permit: String,
    /// Time limit for starting the call. After it, the gate treats the call as lost.
    pub limit: TimeLimit,
}

/// Returns the exit code of a proposal, by its rulings alone.
pub fn exit(lines: &[Line]) -> Exit {
    let is_forbidden = |line: &Line| matches!(line.ruling, Ruling::Forbidden { .. });
    let is_failed = |line: &Line| {
        matches!(
            line.ruling,
            Ruling::Ran(Outcome::Failed(_) | Outcome::NotSent(_) | Outcome::Unknown(_))
        )
    };
    if lines.iter().any(is_forbidden) {
        Exit::Forbidden
    } else if lines.iter().any(is_failed) {
        Exit::CallFailed
    } else {
        Exit::Done
    }
}

/// Renders a table of rulings, followed by the headline of the pending approval, if there is one.
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
    let result_text = |bytes: &[u8]| {
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
                "passes without approval. Recorded as started; with `--exec CMD`, the outcome is recorded, too",
            ),
        ),
        Ruling::PassedBefore { .. } => (
            "passed before",
            style::OPEN,
            Cell::new("the same call passed before under this key; do not run it again"),
        ),
        Ruling::Ran(Outcome::Succeeded(result)) => ("succeeded", style::GOOD, result_text(result)),
        Ruling::Ran(Outcome::Failed(reason)) => ("failed", style::BAD, result_text(reason)),
        Ruling::Ran(Outcome::NotSent(reason)) => ("not sent", style::BAD, says(reason)),
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

/// Ruling on one call, as JSON output.
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

/// Converts a ruling for JSON output.
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
        Ruling::Ran(Outcome::NotSent(reason)) => ran("not_sent", reason.as_bytes()),
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
