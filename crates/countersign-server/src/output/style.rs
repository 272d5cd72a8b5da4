//! Colours. Apart from the gutter of `layout`, all ANSI escape sequences are produced here.

use clap::builder::styling::{AnsiColor, Style};
use countersign::effect::Risk;
use countersign::state::{CallState, State};

use crate::view::Outcome;

/// Headings.
pub const STRONG: Style = Style::new().bold();
/// Less important text.
pub const FAINT: Style = Style::new().dimmed();
/// Label `error:`.
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Label `hint:`.
pub const HINT: Style = AnsiColor::Cyan.on_default();
/// Label `note:`.
pub const NOTICE: Style = AnsiColor::Yellow.on_default();
/// Warnings about things that are easy to miss.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Allowed or successful.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Forbidden or failed.
pub const BAD: Style = AnsiColor::Red.on_default();
/// Waiting for a person.
pub const OPEN: Style = AnsiColor::Yellow.on_default();

/// Passed by the policy without asking anybody.
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
