//! History of an approval, event by event.

use countersign::event::EventKind;
use serde_json::value::RawValue;

use super::card::listed;
use super::foreign::{foreign, named};
use super::style::{self, paint};
use crate::view::EventView;

/// Renders the history with one line per event.
pub fn table(events: &[EventView]) -> String {
    let mut text = format!("\n{}\n", paint(style::STRONG, "History"));
    for event in events {
        let (word, detail) = event
            .event
            .as_deref()
            .map(|what| describe_event(what, &event.by))
            .unwrap_or_default();
        let detail = detail.trim_start_matches(", ");
        text.push_str(&format!(
            "{:>3}  {}  {word:<16} {detail}  {}\n",
            event.number,
            event.at.0,
            foreign(&event.by),
        ));
    }
    text
}

/// Returns the event's name, and the details that are worth showing. The details are empty for an unknown event of a
/// newer server.
pub fn describe_event(event: &RawValue, by: &str) -> (String, String) {
    #[derive(serde::Deserialize)]
    struct Named {
        what: String,
    }
    match serde_json::from_str::<EventKind>(event.get()) {
        Ok(what) => (what.as_str().to_owned(), detail(&what, by)),
        Err(_) => {
            let read = serde_json::from_str::<Named>(event.get());
            let word = read.map(|event| event.what).unwrap_or_default();
            (named(&word), String::new())
        }
    }
}

fn detail(what: &EventKind, by: &str) -> String {
    match what {
        EventKind::Proposed { calls: 1, .. } => ", 1 call".to_owned(),
        EventKind::Proposed { calls, .. } => format!(", {calls} calls"),
        EventKind::Approved {
            calls: Some(granted), ..
        }
        | EventKind::Endorsed {
            calls: Some(granted), ..
        } => format!(", only {}", listed(granted)),
        EventKind::Superseded { successor } => format!(", by {}", successor.short()),
        EventKind::Passed { .. } => ", by the policy; nobody was asked".to_owned(),
        EventKind::Withdrawn { reason: Some(reason) } => format!(", {}", foreign(reason)),
        EventKind::DecisionRefused { reason, .. } => format!(", {}", foreign(reason)),
        EventKind::Started { call, .. } => format!(", call {call}"),
        EventKind::Succeeded { call, .. } | EventKind::Failed { call, .. } => format!(", call {call}"),
        EventKind::Lost { call, reason, .. } => format!(", call {call}, {}", foreign(reason)),
        EventKind::Refused {
            call,
            because,
            successor,
        } => {
            let again = successor.map(|id| format!(", asked again as {}", id.short()));
            format!(", call {call}, {}{}", because.as_str(), again.unwrap_or_default())
        }
        EventKind::Reconciled { call, succeeded, .. } if by == "gate" => {
            format!(", call {call} answered late: it {}", ended(*succeeded))
        }
        EventKind::Reconciled { call, succeeded, .. } => format!(", call {call}, it {}", ended(*succeeded)),
        EventKind::LateResult { call, succeeded, .. } => {
            format!(
                ", call {call} answered late that it {}; what a person said stands",
                ended(*succeeded)
            )
        }
        EventKind::Undone { call, undo } => {
            format!(", call {call} by {}.{}", undo.approval.short(), undo.position)
        }
        _ => String::new(),
    }
}

fn ended(succeeded: bool) -> &'static str {
    if succeeded { "succeeded" } else { "failed" }
}
