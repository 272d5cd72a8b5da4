//! What a coding agent is told, in its own words.
//!
//! Enters: what became of the event. Leaves: one JSON object, an exit code, and a complaint where something broke.
//! What broke is said twice, by a denial and by exit code 2: each blocks by itself, in every dialect.

use serde::Serialize;
use serde_json::value::RawValue;

use super::Dialect;
use crate::failure::Failure;
use crate::output::once;

/// What became of an event.
#[derive(Debug)]
pub enum Answer {
    /// The policy lets it pass: no opinion, so the coding agent's own rules and questions stay in force.
    Pass,
    /// Approved and started: it may run, with exactly these bytes.
    Allow {
        /// What a person approved.
        arguments: Box<RawValue>,
        /// Who.
        reason: String,
    },
    /// It does not run.
    Deny {
        /// Why, for the model.
        reason: String,
        /// What a person can do, for the person.
        tell: Option<String>,
    },
    /// The run stops here, and asks again when it is resumed.
    Defer,
    /// Something broke, so it does not run.
    Broken(String),
    /// How the call ended is on record.
    Noted,
    /// How the call ended could not be recorded; that changes nothing about the call.
    NotRecorded(String),
}

/// An answer as it is written.
pub struct Written {
    /// For standard output.
    pub json: String,
    /// For standard error.
    pub complaint: Option<String>,
    /// The exit code.
    pub code: u8,
}

impl Answer {
    /// The exit code that blocks a call in every dialect.
    pub const BLOCKS: u8 = 2;

    /// Something broke.
    pub fn broken(problem: &str) -> Answer {
        Answer::Broken(format!(
            "countersign could not rule on this call, so it was not run: {}",
            once(problem)
        ))
    }

    /// Recording how a call ended failed.
    pub fn not_recorded(failure: &Failure) -> Answer {
        let message = once(&failure.message);
        Answer::NotRecorded(format!(
            "countersign could not record how the call ended: {message}"
        ))
    }

    /// The answer in a dialect.
    pub fn written(&self, dialect: Dialect) -> Written {
        let written = match self {
            Answer::Pass | Answer::Noted | Answer::NotRecorded(_) => Some("{}".to_owned()),
            Answer::Allow { arguments, reason } => allow(dialect, arguments, reason),
            Answer::Deny { reason, tell } => deny(dialect, reason, tell.as_deref()),
            Answer::Defer => decision(
                Decision {
                    permission_decision: "defer",
                    ..Decision::default()
                },
                None,
            ),
            Answer::Broken(reason) => deny(dialect, reason, None),
        };
        let Some(json) = written else {
            return Written {
                json: "{}".to_owned(),
                complaint: Some("countersign could not write its answer, so the call was not run".to_owned()),
                code: Answer::BLOCKS,
            };
        };
        let (complaint, code) = match self {
            Answer::Broken(reason) => (Some(reason.clone()), Answer::BLOCKS),
            // It only tells: exit code 2 would take the result away from the model.
            Answer::NotRecorded(reason) => (Some(reason.clone()), 1),
            _ => (None, 0),
        };
        Written {
            json,
            complaint,
            code,
        }
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Answer {
        let hint = failure
            .hint
            .map(|hint| format!(" (hint: {hint})"))
            .unwrap_or_default();
        Answer::broken(&format!("{}{hint}", failure.message))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a, S: Serialize> {
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hook_specific_output: Option<S>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_message: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Decision<'a> {
    hook_event_name: &'a str,
    permission_decision: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_decision_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_input: Option<&'a RawValue>,
}

impl Default for Decision<'_> {
    fn default() -> Self {
        Decision {
            hook_event_name: Dialect::ClaudeCode.before(),
            permission_decision: "deny",
            permission_decision_reason: None,
            updated_input: None,
        }
    }
}

#[derive(Serialize)]
struct GeminiInput<'a> {
    #[serde(rename = "hookEventName")]
    hook_event_name: &'a str,
    tool_input: &'a RawValue,
}

fn decision(decision: Decision<'_>, tell: Option<&str>) -> Option<String> {
    json(&Output {
        decision: None,
        reason: None,
        hook_specific_output: Some(decision),
        system_message: tell,
    })
}

fn allow(dialect: Dialect, arguments: &RawValue, reason: &str) -> Option<String> {
    match dialect {
        Dialect::ClaudeCode | Dialect::Codex => {
            let allowed = Decision {
                permission_decision: "allow",
                permission_decision_reason: Some(reason),
                updated_input: Some(arguments),
                ..Decision::default()
            };
            decision(allowed, None)
        }
        Dialect::Gemini => json(&Output {
            decision: Some("allow"),
            reason: Some(reason),
            hook_specific_output: Some(GeminiInput {
                hook_event_name: dialect.before(),
                tool_input: arguments,
            }),
            system_message: None,
        }),
    }
}

fn deny(dialect: Dialect, reason: &str, tell: Option<&str>) -> Option<String> {
    match dialect {
        Dialect::ClaudeCode | Dialect::Codex => {
            let denied = Decision {
                permission_decision_reason: Some(reason),
                ..Decision::default()
            };
            decision(denied, tell)
        }
        Dialect::Gemini => json(&Output::<()> {
            decision: Some("deny"),
            reason: Some(reason),
            hook_specific_output: None,
            system_message: tell,
        }),
    }
}

fn json(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}
