//! What happened to an approval, event by event.

use countersign::event::What;
use serde_json::value::RawValue;

use super::card::listed;
use super::foreign::{foreign, named};
use super::style::{self, paint};
use crate::view::EventView;

/// The history, one line per event.
pub fn table(events: &[EventView]) -> String {
    let mut text = format!("\n{}\n", paint(style::STRONG, "History"));
    for event in events {
        let (word, detail) = event.event.as_deref().map(told).unwrap_or_default();
        text.push_str(&format!(
            "{:>3}  {}  {word:<16}{detail}  {}\n",
            event.number,
            event.at.0,
            foreign(&event.by),
        ));
    }
    text
}

/// The word for an event and what else is worth saying. A server may be newer than this: then only the word is known.
pub fn told(event: &RawValue) -> (String, String) {
    #[derive(serde::Deserialize)]
    struct Named {
        what: String,
    }
    match serde_json::from_str::<What>(event.get()) {
        Ok(what) => (what.as_str().to_owned(), detail(&what)),
        Err(_) => {
            let read = serde_json::from_str::<Named>(event.get());
            let word = read.map(|event| event.what).unwrap_or_default();
            (named(&word), String::new())
        }
    }
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
        What::Passed { .. } => ", by the policy; nobody was asked".to_owned(),
        What::Withdrawn { reason: Some(reason) } => format!(", {}", foreign(reason)),
        What::DecisionRefused { reason, .. } => format!(", {}", foreign(reason)),
        What::Started { call, .. } => format!(", call {call}"),
        What::Succeeded { call, bytes, .. } | What::Failed { call, bytes, .. } => {
            format!(", call {call}, {bytes} bytes")
        }
        What::Lost { call, reason } => format!(", call {call}, {}", foreign(reason)),
        What::Refused {
            call,
            because,
            successor,
        } => {
            let again = successor.map(|id| format!(", asked again as {}", id.short()));
            format!(", call {call}, {}{}", because.as_str(), again.unwrap_or_default())
        }
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
