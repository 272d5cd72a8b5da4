//! Answers to a coding agent, in its own format.
//!
//! An answer is one JSON object, an exit code, and a message for standard error if something failed. A failure is
//! reported twice, as a denial and as exit code 2: each blocks the call on its own, in every dialect.

use countersign::id::CallId;
use countersign::stopwatch::TimeLimit;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Dialect;
use super::event::CallIdentity;
use crate::failure::Failure;
use crate::output::once;

/// Result of handling one event.
#[derive(Debug)]
pub enum Answer {
    /// The policy lets the call pass. The hook expresses no opinion, so the coding agent's own rules and prompts still
    /// apply. Contains the recorded start, unless the call is a read.
    Pass(Option<StartedCall>),
    /// The call was approved and started, and may run with exactly these bytes.
    Allow {
        /// The approved bytes.
        arguments: Box<RawValue>,
        /// Text that says who approved the call.
        reason: String,
        /// Recorded start of the call.
        unsent: StartedCall,
    },
    /// The call must not run.
    Deny {
        /// Explanation for the model.
        reason: String,
        /// Instructions for the person, if there is something to do.
        tell: Option<String>,
    },
    /// The coding agent stops, and asks again when its session is resumed.
    Defer,
    /// The hook failed with this message, so the call must not run.
    Broken(String),
    /// The outcome of the call was recorded.
    Noted,
    /// Text for the person about the outcome of the call, such as that it could not be recorded. The call itself is not
    /// affected.
    Notice(String),
}

/// A call that is recorded as started, while the coding agent has not been told yet that it may run.
pub struct StartedCall {
    /// Identifies the call in the hook state.
    pub identity: CallIdentity,
    pub call: CallId,
    /// Permit that is needed to record the outcome.
    pub permit: String,
    /// Time limit after which other processes consider the call lost.
    pub limit: TimeLimit,
}

impl std::fmt::Debug for StartedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StartedCall({})", self.call)
    }
}

/// An answer in the coding agent's format, ready to be printed.
pub struct Written {
    /// Text for standard output.
    pub json: String,
    /// Text for standard error; `None` if there is nothing to report.
    pub complaint: Option<String>,
    pub code: u8,
}

impl Answer {
    /// Exit code that blocks a call in every dialect.
    pub const BLOCKS: u8 = 2;

    /// Answer for a hook that failed.
    pub fn broken(problem: &str) -> Answer {
        Answer::Broken(format!(
            "countersign could not rule on this call, so it was not run: {}",
            once(problem)
        ))
    }

    /// Answer for an outcome that could not be recorded.
    pub fn not_recorded(failure: &Failure) -> Answer {
        let message = once(&failure.message);
        Answer::Notice(format!(
            "countersign could not record how the call ended: {message}"
        ))
    }

    /// Denial of a call whose time limit passed before it could be allowed.
    pub fn late() -> Answer {
        Answer::Deny {
            reason: "the time of this call was over before it could be allowed. Nothing was run. Make the call again."
                .to_owned(),
            tell: None,
        }
    }

    /// Returns the started call that this answer would allow, if the call's time limit has passed (X84); otherwise
    /// `None`.
    pub fn overdue(&self) -> Option<&StartedCall> {
        let (Answer::Pass(Some(unsent)) | Answer::Allow { unsent, .. }) = self else {
            return None;
        };
        unsent.limit.left().is_none().then_some(unsent)
    }

    /// Formats the answer for a coding agent.
    pub fn written(&self, dialect: Dialect) -> Written {
        let written = match self {
            Answer::Pass(_) | Answer::Noted | Answer::Notice(_) => Some("{}".to_owned()),
            Answer::Allow {
                arguments, reason, ..
            } => allow(dialect, arguments, reason),
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
            // Only a notice: exit code 2 would hide the tool's result from the model.
            Answer::Notice(reason) => (Some(reason.clone()), 1),
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
