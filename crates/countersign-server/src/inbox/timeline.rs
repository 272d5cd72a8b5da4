//! History of an approval in words, one line per event.

use countersign::event::{Event, EventKind};
use countersign::id::{Actor, ApprovalId};
use countersign::time::Time;
use serde::Serialize;

use super::card::{ApprovalLink, Moment, shown, surface_words};

/// One event of the history, as values for the template.
#[derive(Debug, Serialize)]
pub struct Line {
    number: u32,
    at: Moment,
    /// The agent or person that caused the event. `None` for the gate.
    by: Option<String>,
    is_agent: bool,
    /// Name of the event, also used as CSS class.
    what: &'static str,
    words: String,
    /// Approval that the words refer to, such as the one that undoes a call.
    other: Option<ApprovalLink>,
    link: String,
}

/// Converts events to lines, with times relative to `now`.
pub fn lines(events: &[Event], now: Time) -> Vec<Line> {
    let line = |event: &Event| {
        let (words, other) = words(event);
        let (by, is_agent) = match &event.by {
            Actor::Gate => (None, false),
            Actor::Agent(agent) => (Some(shown(agent.as_str())), true),
            Actor::Person(person) => (Some(shown(person.as_str())), false),
        };
        Line {
            number: event.number,
            at: Moment::new(event.at, now),
            by,
            is_agent,
            what: event.what.as_str(),
            words,
            other: other.map(|id| ApprovalLink {
                id: id.to_string(),
                short: id.short(),
            }),
            link: event.link.short(),
        }
    };
    events.iter().map(line).collect()
}

fn words(event: &Event) -> (String, Option<ApprovalId>) {
    let alone = |text: String| (text, None);
    match &event.what {
        EventKind::Proposed {
            calls,
            replaces,
            undoes,
            ..
        } => match (undoes, replaces) {
            (Some(call), _) => ("asked to undo".to_owned(), Some(call.approval)),
            (None, Some(old)) => (format!("asked for {} in place of", count(*calls)), Some(*old)),
            (None, None) => alone(format!("asked for {}", count(*calls))),
        },
        EventKind::Approved {
            calls,
            edited,
            surface,
            ..
        } => {
            let mut text = format!("approved on {}", surface_words(surface));
            if let Some(granted) = calls {
                text.push_str(&format!(", only {}", numbers(granted)));
            }
            if !edited.is_empty() {
                let changed: Vec<u8> = edited.iter().map(|edited| edited.call).collect();
                text.push_str(&format!(", with changed arguments for {}", numbers(&changed)));
            }
            alone(text)
        }
        EventKind::Endorsed { calls, surface, .. } => {
            let only = calls
                .as_ref()
                .map(|granted| format!(", only {}", numbers(granted)));
            alone(format!(
                "endorsed it on {}{}; more people are needed",
                surface_words(surface),
                only.unwrap_or_default()
            ))
        }
        EventKind::Denied { surface, .. } => alone(format!("denied on {}", surface_words(surface))),
        EventKind::Expired => alone("expired: nobody decided in time".to_owned()),
        EventKind::Superseded { successor } => {
            ("a newer approval took its place:".to_owned(), Some(*successor))
        }
        EventKind::Withdrawn { reason: Some(reason) } => alone(format!("took it back: {}", shown(reason))),
        EventKind::Passed { .. } => alone("let it pass by the policy; nobody was asked".to_owned()),
        EventKind::Withdrawn { reason: None } => alone("took it back".to_owned()),
        EventKind::DecisionRefused {
            reason,
            approve,
            surface,
        } => {
            let verb = if *approve { "approve" } else { "deny" };
            let reason = shown(reason).replace('_', " ");
            alone(format!(
                "tried to {verb} on {}, refused: {reason}",
                surface_words(surface)
            ))
        }
        EventKind::Started { call, .. } => alone(format!("call {call} started")),
        EventKind::Succeeded { call, .. } => alone(format!("call {call} succeeded")),
        EventKind::Failed { call, .. } => alone(format!("call {call} failed")),
        EventKind::Lost { call, reason, .. } => {
            alone(format!("call {call}: outcome unknown ({})", shown(reason)))
        }
        EventKind::Refused {
            call,
            because,
            successor,
        } => {
            let again = if successor.is_some() { "; asked again:" } else { "" };
            (
                format!("call {call} will not run: {}{again}", because.as_str()),
                *successor,
            )
        }
        EventKind::Reconciled { call, succeeded, .. } if event.by == Actor::Gate => {
            alone(format!("call {call} answered late: it {}", ended(*succeeded)))
        }
        EventKind::Reconciled { call, succeeded, .. } => {
            alone(format!("found out that call {call} {}", ended(*succeeded)))
        }
        EventKind::LateResult { call, succeeded, .. } => alone(format!(
            "call {call} answered late that it {}; what a person said stands",
            ended(*succeeded)
        )),
        EventKind::UndoStarted { call, undo } => {
            (format!("undo of call {call} started:"), Some(undo.approval))
        }
        EventKind::UndoFailed { call, undo } => (format!("undo of call {call} failed:"), Some(undo.approval)),
        EventKind::Undone { call, undo } => (format!("call {call} was undone by"), Some(undo.approval)),
        EventKind::Erased => alone("erased arguments, results and comments".to_owned()),
    }
}

fn ended(succeeded: bool) -> &'static str {
    if succeeded { "succeeded" } else { "failed" }
}

fn count(calls: u8) -> String {
    match calls {
        1 => "1 call".to_owned(),
        calls => format!("{calls} calls"),
    }
}

fn numbers(calls: &[u8]) -> String {
    let word = if calls.len() == 1 { "call" } else { "calls" };
    let calls: Vec<String> = calls.iter().map(ToString::to_string).collect();
    format!("{word} {}", calls.join(", "))
}
