//! Colours. Apart from the gutter of `layout`, all ANSI escape sequences are produced here.

use clap::builder::styling::{AnsiColor, Style};
use countersign::effect::Risk;
use countersign::state::{CallState, State};

use crate::view::Outcome;

/// Style of headings.
pub const STRONG: Style = Style::new().bold();
/// Style of less important text.
pub const FAINT: Style = Style::new().dimmed();
/// Style of the label `error:`.
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Style of the label `hint:`, and of suggested commands.
pub const HINT: Style = AnsiColor::Cyan.on_default();
/// Style of the label `note:`.
pub const NOTICE: Style = AnsiColor::Yellow.on_default();
/// Style of warnings about things that are easy to miss.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Style of anything allowed or successful.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Style of anything forbidden or failed.
pub const BAD: Style = AnsiColor::Red.on_default();
/// Style of anything that waits for a person.
pub const OPEN: Style = AnsiColor::Yellow.on_default();

/// Style of calls that the policy passed without asking anybody.
pub const PASSED: Style = AnsiColor::Cyan.on_default();

/// Wraps text in a style.
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns the colour of a risk.
pub fn risk(risk: Risk) -> Style {
    match risk {
        Risk::Low => GOOD,
        Risk::Medium => OPEN,
        Risk::High => BAD,
        Risk::Critical => BAD.bold().invert(),
    }
}

/// Returns the colour of an approval's state.
pub fn state(state: State) -> Style {
    match state {
        State::Pending => OPEN.bold(),
        State::Approved => GOOD.bold(),
        State::Denied => BAD.bold(),
        State::Passed => PASSED,
        State::Expired | State::Superseded | State::Withdrawn => FAINT,
    }
}

/// Returns the colour of an approval's outcome. A batch of which only some calls were approved or succeeded has the
/// colour of `OPEN`.
pub fn outcome(of: State, outcome: &Outcome) -> Style {
    match outcome.is_mixed {
        true => OPEN.bold(),
        false => state(of),
    }
}

/// Returns the colour of a call's state.
pub fn call(state: CallState) -> Style {
    match state {
        CallState::Held | CallState::Released | CallState::Running => OPEN,
        CallState::Succeeded => GOOD,
        CallState::Failed => BAD,
        CallState::Unknown => BAD.bold(),
        CallState::Refused | CallState::Undone => FAINT,
    }
}

/// Returns the colour of an event, by its name.
pub fn event(word: &str) -> Style {
    match word {
        "proposed" => OPEN.bold(),
        "passed" => PASSED,
        "approved" | "succeeded" | "reconciled" => GOOD,
        "denied" | "failed" | "lost" | "decision_refused" | "undo_failed" => BAD,
        "started" | "undo_started" => OPEN,
        _ => FAINT,
    }
}
