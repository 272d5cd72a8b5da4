//! What a script can know about a conversation.

use std::collections::BTreeMap;

use minijinja::Value;

use super::value_of;
use crate::message::{CallResult, Message};
use crate::model::Request;

/// What rules are matched against and templates are filled with.
pub(super) struct Facts {
    pub(super) role: String,
    /// What the person last asked for.
    pub(super) person: String,
    /// What was answered last, when results are the last thing that happened.
    pub(super) after: Option<Vec<CallResult>>,
    /// The last answer of each tool since the person spoke.
    latest: BTreeMap<String, Value>,
}

impl Facts {
    pub(super) fn of(request: &Request) -> Facts {
        let mut person = String::new();
        let mut latest = BTreeMap::new();
        for message in &request.messages {
            match message {
                Message::Person { text, .. } => {
                    person.clone_from(text);
                    latest.clear();
                }
                Message::Results { results } => {
                    let told = results.iter();
                    latest.extend(told.map(|result| (result.tool.clone(), answer(result))));
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
        }
    }

    /// What templates see, for a rule that captured this.
    pub(super) fn context(&self, captures: BTreeMap<String, String>) -> Value {
        let told = self.after.as_deref().unwrap_or_default();
        let results: Vec<Value> = told.iter().map(answer).collect();
        let statuses: Vec<Value> = told
            .iter()
            .map(|result| Value::from(result.status.as_str()))
            .collect();
        let own = [
            ("person".to_owned(), Value::from(self.person.as_str())),
            ("result".to_owned(), results.last().cloned().unwrap_or_default()),
            ("status".to_owned(), statuses.last().cloned().unwrap_or_default()),
            ("results".to_owned(), Value::from(results)),
            ("statuses".to_owned(), Value::from(statuses)),
            ("latest".to_owned(), Value::from_pairs(self.latest.clone())),
        ];
        let captures = captures.into_iter().map(|(name, text)| (name, Value::from(text)));
        Value::from_pairs(own.into_iter().chain(captures))
    }
}

/// What the tool itself answered: a call that was held carries its result inside of what the gate said.
fn answer(result: &CallResult) -> Value {
    let told = value_of(&result.content);
    match told.get_attr("result") {
        Ok(inner) if !inner.is_undefined() && told.get_attr("ran").is_ok_and(|ran| !ran.is_undefined()) => {
            inner.as_str().map_or(inner.clone(), value_of)
        }
        _ => told,
    }
}
