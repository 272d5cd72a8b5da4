//! Displays a policy: problems, the table of tools, and the ruling on a trial call.

use std::path::Path;

use countersign::decision::Assurance;
use countersign::effect::Effect;
use countersign::policy::{Authority, Problem, Ruling, ToolListing, Undoable};
use countersign::summary::Row;
use serde::Serialize;

use super::card;
use super::foreign::{foreign, named, quoted, quoting, shown, shown_lines};
use super::style::{self, paint};
use super::table::{Cell, render};
use crate::duration;
use crate::policy::located;

/// Maximum width of a condition in the table, in columns.
const CONDITION_WIDTH: usize = 48;

/// Lists errors, then warnings, as `file:line:column: message` with hints.
pub fn problems(file: &Path, problems: &[Problem], notices: &[Problem]) -> String {
    let mut text = String::new();
    let labelled = problems
        .iter()
        .map(|problem| (paint(style::ERROR, "error:"), problem))
        .chain(
            notices
                .iter()
                .map(|notice| (paint(style::WARNING, "warning:"), notice)),
        );
    for (label, problem) in labelled {
        let place = located(file, problem);
        let prefix = format!("{}:{}:{}: ", file.display(), problem.line, problem.column);
        let message = place.strip_prefix(&prefix).unwrap_or(&place);
        text.push_str(&format!("{}{label} {}\n", quoted(&prefix), quoting(message)));
        if let Some(hint) = &problem.hint {
            text.push_str(&format!("  {} {}\n", paint(style::HINT, "hint:"), quoting(hint)));
        }
    }
    text
}

/// Renders a table with one line per tool. The last column is cut to fit into `width` columns, if a width is given.
pub fn table(listed: &[ToolListing<'_>], width: Option<usize>) -> String {
    if listed.is_empty() {
        return "No tools are listed: every call is held.\n".to_owned();
    }
    let rows = listed.iter().map(row).collect();
    let mut text = render(
        ["TOOL", "EFFECT", "RISK", "UNDO", "APPROVERS", "HELD"],
        rows,
        width,
    );
    let noun = if listed.len() == 1 { "tool" } else { "tools" };
    text.push_str(&format!(
        "\n{} {noun}, no problems. A tool that is not listed is held.\n",
        listed.len()
    ));
    text
}

fn row(listed: &ToolListing<'_>) -> [Cell; 6] {
    let is_asked = listed.hold.is_some() || listed.has_places || listed.effect != Effect::Read;
    let approvers: Vec<_> = listed.approvers.iter().map(|name| named(name)).collect();
    let approvers = match (is_asked, approvers.is_empty()) {
        (false, _) => Cell::styled("-", style::FAINT),
        (true, true) => Cell::styled("nobody", style::BAD),
        (true, false) => {
            let asks = authority(&listed.authority);
            Cell::new(
                asks.iter()
                    .fold(approvers.join(", "), |all, asks| format!("{all}; {asks}")),
            )
        }
    };
    [
        Cell::styled(named(listed.tool), style::STRONG),
        Cell::new(listed.effect.as_str()),
        Cell::styled(listed.risk.as_str(), style::risk(listed.risk)),
        Cell::new(listed.undo.unwrap_or("-")),
        approvers,
        Cell::new(held_when(listed)),
    ]
}

/// Returns the requirements for approving beyond the list of approvers: quorum, four eyes, surface.
fn authority(authority: &Authority) -> Vec<String> {
    let mut asks = Vec::new();
    if authority.quorum > 1 {
        asks.push(format!("{} people", authority.quorum));
    }
    if authority.four_eyes {
        asks.push("four eyes".to_owned());
    }
    if authority.assurance > Assurance::Text {
        asks.push(format!("{} or better", authority.assurance.as_str()));
    }
    asks
}

fn held_when(listed: &ToolListing<'_>) -> String {
    let condition = |source: &str| super::table::fit(&named(source), CONDITION_WIDTH);
    let held = match (listed.hold, listed.effect) {
        (Some(source), _) if listed.has_places => format!("at sensitive places, or if {}", condition(source)),
        (Some(source), _) => format!("if {}", condition(source)),
        (None, Effect::Read) if listed.has_places => "at sensitive places".to_owned(),
        (None, Effect::Read) => "never".to_owned(),
        (None, _) => "always".to_owned(),
    };
    match listed.deny {
        Some(source) => format!("{held}; forbidden if {}", condition(source)),
        None => held,
    }
}

/// One tool, as JSON output.
#[derive(Serialize)]
pub struct ListedView {
    tool: String,
    title: Option<String>,
    effect: &'static str,
    risk: &'static str,
    hold: Option<String>,
    deny: Option<String>,
    approvers: Vec<String>,
    undo: Option<String>,
}

/// Converts all tools for JSON output.
pub fn view(listed: &[ToolListing<'_>]) -> Vec<ListedView> {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let view = |listed: &ToolListing<'_>| ListedView {
        tool: listed.tool.to_owned(),
        title: owned(listed.title),
        effect: listed.effect.as_str(),
        risk: listed.risk.as_str(),
        hold: owned(listed.hold),
        deny: owned(listed.deny),
        approvers: listed.approvers.to_vec(),
        undo: owned(listed.undo),
    };
    listed.iter().map(view).collect()
}

/// Describes what the policy would do with a call. `deny` is the condition under which it forbids calls of this tool,
/// which only operators see.
pub fn tried(tool: &str, ruling: &Ruling, rows: &[Row], deny: Option<&str>) -> String {
    let terms = match ruling {
        Ruling::Pass(pass) => {
            let word = paint(style::GOOD, "pass");
            return format!("{word}: would run at once ({}): {}\n", pass.effect, foreign(tool));
        }
        Ruling::Forbid { reason } => {
            let word = paint(style::BAD, "forbidden");
            let deny = deny.map(|deny| format!("  deny: {}\n", foreign(deny)));
            let reason = shown(&reason.replace("\nhint: ", "; "));
            return format!("{word}: {reason}\n{}", deny.unwrap_or_default());
        }
        Ruling::Hold(terms) => terms,
    };
    let word = paint(style::OPEN, "held");
    let undo = match terms.undo {
        Undoable::Yes => "can be undone",
        Undoable::No => "cannot be undone",
    };
    let risk = paint(style::risk(terms.risk()), &format!("{} risk", terms.risk()));
    let mut text = format!("{word}: {}\n", paint(style::STRONG, &shown_lines(&terms.summary)));
    text.push_str(&format!(
        "  {} · {risk} · {undo} · {}\n",
        terms.effect,
        foreign(tool)
    ));
    text.push_str(&card::rows(rows, "  ", None, |row| shown(&row.value)));
    for note in &terms.notes {
        text.push_str(&format!("  {} {}\n", paint(style::NOTICE, "note:"), shown(note)));
    }
    let approvers: Vec<_> = terms.approvers.iter().map(|name| named(name)).collect();
    let who = match approvers.is_empty() {
        true => "nobody".to_owned(),
        false => approvers.join(" or "),
    };
    text.push_str(&format!("  waits {} for {who}\n", duration::show(terms.ttl)));
    text
}
