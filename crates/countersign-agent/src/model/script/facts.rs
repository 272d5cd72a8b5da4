//! Facts about a conversation that the rules of a script can use.

use std::collections::BTreeMap;

use minijinja::Value;

use super::parse_value;
use crate::message::{CallResult, Message, ModelCall};
use crate::model::Request;

/// Input for matching rules and rendering templates.
pub(super) struct Facts {
    pub(super) role: String,
    /// The person's last message.
    pub(super) person: String,
    /// Results of the last calls, if they are the last message of the conversation.
    pub(super) after: Option<Vec<CallResult>>,
    /// Last answer of each tool since the person's last message.
    latest: BTreeMap<String, Value>,
    /// Calls of the pending card: tool, arguments, and the message that the model got about them.
    pending: Vec<Value>,
}

impl Facts {
    pub(super) fn of(request: &Request) -> Facts {
        let mut person = String::new();
        let mut latest = BTreeMap::new();
        let mut pending = Vec::new();
        let mut calls: &[ModelCall] = &[];
        for message in &request.messages {
            match message {
                Message::Agent { calls: made, .. } => calls = made,
                Message::Person { text, .. } => {
                    person.clone_from(text);
                    latest.clear();
                }
                Message::Results { results } => {
                    // Only calls that need no decision leave the card as it is.
                    if !results
                        .iter()
                        .all(|result| matches!(result.status.as_str(), "ok" | "error"))
                    {
                        pending = held_calls(calls, results);
                    }
                    let results = results.iter();
                    latest.extend(results.map(|result| (result.tool.clone(), tool_answer(result))));
                }
                _ => {}
            }
        }
        let after = match request.messages.last() {
            Some(Message::Results { results }) => Some(results.clone()),
            _ => None,
        };
        Facts {
            role: request.role.clone(),
            person,
            after,
            latest,
            pending,
        }
    }

    /// Returns the variables of a rule's templates, including the captures of its pattern.
    pub(super) fn context(&self, captures: BTreeMap<String, String>) -> Value {
        let last_results = self.after.as_deref().unwrap_or_default();
        let results: Vec<Value> = last_results.iter().map(tool_answer).collect();
        let statuses: Vec<Value> = last_results
            .iter()
            .map(|result| Value::from(result.status.as_str()))
            .collect();
        let variables = [
            ("person".to_owned(), Value::from(self.person.as_str())),
            ("result".to_owned(), results.last().cloned().unwrap_or_default()),
            ("status".to_owned(), statuses.last().cloned().unwrap_or_default()),
            ("results".to_owned(), Value::from(results)),
            ("statuses".to_owned(), Value::from(statuses)),
            ("latest".to_owned(), Value::from_pairs(self.latest.clone())),
            ("pending".to_owned(), Value::from(self.pending.clone())),
        ];
        let captures = captures.into_iter().map(|(name, text)| (name, Value::from(text)));
        Value::from_pairs(variables.into_iter().chain(captures))
    }
}

/// Returns the calls that wait for a decision, each with its tool, its arguments and the message that the model got.
fn held_calls(calls: &[ModelCall], results: &[CallResult]) -> Vec<Value> {
    let pairs = calls.iter().zip(results);
    let held = pairs.filter(|(_, result)| result.status == "pending_confirmation");
    held.map(|(call, result)| {
        let message = parse_value(&result.content)
            .get_attr("message")
            .unwrap_or_default();
        Value::from_pairs([
            ("tool", Value::from(call.tool.as_str())),
            ("arguments", parse_value(&call.arguments)),
            ("message", message),
        ])
    })
    .collect()
}

/// Returns the tool's own answer. For a held call, that is the `result` field of the text that the gate gave to the
/// model.
fn tool_answer(result: &CallResult) -> Value {
    let content = parse_value(&result.content);
    match content.get_attr("result") {
        Ok(inner)
            if !inner.is_undefined() && content.get_attr("ran").is_ok_and(|ran| !ran.is_undefined()) =>
        {
            inner.as_str().map_or(inner.clone(), parse_value)
        }
        _ => content,
    }
}
