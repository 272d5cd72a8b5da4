//! Colours. The only place that makes escape sequences.

use clap::builder::styling::{AnsiColor, Style};
use countersign::effect::Risk;
use countersign::state::{CallState, State};

/// A heading.
pub const STRONG: Style = Style::new().bold();
/// What is there for the sake of completeness.
pub const FAINT: Style = Style::new().dimmed();
/// `error:`
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
/// `hint:`
pub const HINT: Style = AnsiColor::Cyan.on_default();
/// `note:`
pub const NOTICE: Style = AnsiColor::Yellow.on_default();
/// Something the eye may miss.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// It may run, or it did.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// It must not run, or it failed.
pub const BAD: Style = AnsiColor::Red.on_default();
/// Somebody has to look.
pub const OPEN: Style = AnsiColor::Yellow.on_default();

/// Text in a style.
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// The colour of a risk.
pub fn risk(risk: Risk) -> Style {
    match risk {
        Risk::Low => GOOD,
        Risk::Medium => OPEN,
        Risk::High => BAD,
        Risk::Critical => BAD.bold().invert(),
    }
}

/// The colour of an approval's state.
pub fn state(state: State) -> Style {
    match state {
        State::Pending => OPEN.bold(),
        State::Approved => GOOD.bold(),
        State::Denied => BAD.bold(),
        State::Expired | State::Superseded | State::Withdrawn | State::Passed => FAINT,
    }
}

/// The colour of a call's state.
pub fn call(state: CallState) -> Style {
    match state {
        CallState::Held | CallState::Released | CallState::Running => OPEN,
        CallState::Succeeded => GOOD,
        CallState::Failed => BAD,
        CallState::Unknown => BAD.bold(),
        CallState::Refused | CallState::Undone => FAINT,
    }
}

/// The colour of an event, by its word.
pub fn event(word: &str) -> Style {
    match word {
        "proposed" => OPEN.bold(),
        "approved" | "succeeded" | "reconciled" => GOOD,
        "denied" | "failed" | "lost" | "decision_refused" | "undo_failed" => BAD,
        "started" | "undo_started" => OPEN,
        _ => FAINT,
    }
}
