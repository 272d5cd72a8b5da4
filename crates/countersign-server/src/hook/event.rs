//! Parses the events that a coding agent sends before and after a tool call.
//!
//! The arguments of a call are kept as the exact bytes that were received.
//! INVARIANT: an event before a call is parsed strictly: one JSON object, UTF-8, no duplicate keys at any level. An
//! unknown event is an error, and an error blocks the call.

use std::sync::Arc;

use countersign::call::Arguments;
use countersign::executor::Outcome;
use countersign::hash::Hash;
use countersign::id::{Run, Session, ToolName};
use countersign::json::{self, Limits};
use countersign::working_folder::{BadFolder, WorkingFolder};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Dialect;
use crate::failure::Failure;
use crate::links::{self, StartFolders};

/// Size limit of an event in bytes. It is this large because an event can contain a tool's result.
pub const LARGEST_EVENT: usize = 32 * 1024 * 1024;
/// Size limit of a recorded tool result in bytes; a larger one would not fit into a request to a server.
const LARGEST_ANSWER: usize = 128 * 1024;
/// JSON limits of an event before a call. Such an event can contain more than the arguments.
const BEFORE: Limits = Limits {
    bytes: LARGEST_EVENT,
    depth: 128,
    paths: 64 * 1024 * 1024,
};

pub enum Event {
    /// The agent is about to call a tool.
    Before(Before),
    /// A tool call has ended.
    After(After),
}

pub struct Before {
    pub identity: CallIdentity,
    pub tool: ToolName,
    /// Arguments as the exact bytes of the event.
    pub arguments: Arguments,
    /// Session id of the agent, followed by the subagent's id if one is given.
    pub session: Session,
    /// Session id of the agent, without a subagent.
    pub run: Run,
    /// Idempotency key: the same event, sent again, has the same key.
    pub key: String,
    /// True if the coding agent's permission mode would make it ask a person.
    pub asks: bool,
    /// The folder that the call will run in.
    pub working_folder: Arc<WorkingFolder>,
}

pub struct After {
    pub identity: CallIdentity,
    /// Hash of the arguments that the coding agent reports; `None` if it reports none.
    pub arguments: Option<String>,
    pub outcome: Outcome,
}

/// Identifies a call in both of its events, the one before it and the one after it.
#[derive(Clone)]
pub struct CallIdentity {
    pub session: String,
    /// Call id, if the coding agent sends one.
    pub id: Option<String>,
    pub tool: String,
    /// Normalised arguments; they identify the call if the coding agent sends no id. Empty unless the agent is Gemini
    /// CLI.
    pub values: String,
}

#[derive(Deserialize)]
struct Input<'a> {
    hook_event_name: String,
    session_id: String,
    cwd: Option<String>,
    tool_name: Option<String>,
    #[serde(borrow)]
    tool_input: Option<&'a RawValue>,
    tool_use_id: Option<String>,
    agent_id: Option<String>,
    permission_mode: Option<String>,
    #[serde(borrow)]
    tool_response: Option<&'a RawValue>,
    error: Option<String>,
    is_interrupt: Option<bool>,
}

impl Event {
    /// Parses an event. Fails if the event is too large, is not valid, or is unknown for this dialect.
    pub fn read(bytes: &[u8], dialect: Dialect) -> Result<Event, Failure> {
        if bytes.len() > LARGEST_EVENT {
            return Err(bad(&format!("it is larger than {LARGEST_EVENT} bytes")));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| bad("it is not UTF-8"))?;
        let input: Input<'_> = serde_json::from_str(text).map_err(|error| bad(&error.to_string()))?;
        let name = input.hook_event_name.as_str();
        if name == dialect.before() {
            json::check(bytes, BEFORE).map_err(|problem| bad(&first_line(&problem.to_string())))?;
            return input.before(dialect, bytes).map(Event::Before);
        }
        match dialect.after().contains(&name) {
            true => input.after(dialect).map(Event::After),
            false => Err(bad(&format!(
                "`{name}` is not an event of {}'s that it knows",
                dialect.title()
            ))),
        }
    }
}

impl Input<'_> {
    fn before(self, dialect: Dialect, bytes: &[u8]) -> Result<Before, Failure> {
        let identity = self.identity(dialect)?;
        let tool = ToolName::new(identity.tool.as_str()).map_err(|problem| bad(&problem.to_string()))?;
        let input = self.tool_input.ok_or_else(|| bad("it has no `tool_input`"))?;
        // INVARIANT: these are the bytes of `tool_input` from the event, never a re-serialised value.
        let arguments = Arguments::parse(input.get().as_bytes())
            .map_err(|problem| bad(&first_line(&problem.to_string())))?;
        // The same command does something else in another folder, so a call without a folder cannot be shown.
        let cwd = self.cwd.as_deref().ok_or_else(|| bad("it has no `cwd`"))?;
        let working_folder =
            links::follow(&StartFolders::working(cwd), &arguments).map_err(|problem| bad_folder(&problem))?;
        let session = match &self.agent_id {
            Some(part) => format!("{}/{part}", self.session_id),
            None => self.session_id.clone(),
        };
        let named = |problem: countersign::id::BadName| bad(&problem.to_string());
        let key = match (&identity.id, dialect) {
            (Some(id), _) => Hash::of(format!("{}\n{id}", self.session_id).as_bytes()),
            // Gemini CLI's events contain a timestamp, so identical bytes are the same event.
            (None, Dialect::Gemini) => Hash::of(bytes),
            (None, _) => return Err(bad("it has no `tool_use_id`")),
        };
        Ok(Before {
            tool,
            arguments,
            session: Session::new(session).map_err(named)?,
            run: Run::new(self.session_id).map_err(named)?,
            key: format!("hook-{}-{key}", dialect.as_str()),
            asks: matches!(self.permission_mode.as_deref(), Some("default" | "plan")),
            identity,
            working_folder: Arc::new(working_folder),
        })
    }

    fn after(self, dialect: Dialect) -> Result<After, Failure> {
        let identity = self.identity(dialect)?;
        let answer = self.tool_response.map_or("null", RawValue::get);
        let outcome = match (self.error, self.is_interrupt) {
            (Some(_), Some(true)) => Outcome::Unknown("it was interrupted".to_owned()),
            (Some(error), _) => Outcome::failed(result_to_record(&error)),
            (None, _) if dialect == Dialect::Gemini && has_error(answer) => {
                Outcome::failed(result_to_record(answer))
            }
            (None, _) => Outcome::succeeded(result_to_record(answer)),
        };
        Ok(After {
            identity,
            arguments: self.tool_input.map(|input| values_hash(input.get())),
            outcome,
        })
    }

    fn identity(&self, dialect: Dialect) -> Result<CallIdentity, Failure> {
        let tool = self
            .tool_name
            .clone()
            .ok_or_else(|| bad("it has no `tool_name`"))?;
        let values = match (dialect, self.tool_input) {
            (Dialect::Gemini, Some(input)) => values(input.get()),
            _ => String::new(),
        };
        Ok(CallIdentity {
            session: self.session_id.clone(),
            id: self.tool_use_id.clone(),
            tool,
            values,
        })
    }
}

/// Normalises arguments, so that different spellings of the same values compare equal. Only for finding a call again,
/// never for running it.
pub fn values(arguments: &str) -> String {
    fn plain(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Number(number) => {
                let as_double = number.as_f64().and_then(serde_json::Number::from_f64);
                if let Some(double) = as_double {
                    *number = double;
                }
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(plain),
            serde_json::Value::Object(members) => members.values_mut().for_each(plain),
            _ => {}
        }
    }
    let Ok(mut value) = serde_json::from_str::<serde_json::Value>(arguments) else {
        return arguments.to_owned();
    };
    plain(&mut value);
    value.to_string()
}

/// Hash of normalised arguments, by which the event after a call is compared with what was allowed. Coding agents parse
/// the arguments and write them again, so their bytes differ.
pub fn values_hash(arguments: &str) -> String {
    Hash::of(values(arguments).as_bytes()).to_string()
}

fn has_error(answer: &str) -> bool {
    #[derive(Deserialize)]
    struct Answered<'a> {
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    serde_json::from_str::<Answered<'_>>(answer).is_ok_and(|answered| answered.error.is_some())
}

/// Returns the tool result to record: the whole result, or its length and hash if it is too large.
fn result_to_record(answer: &str) -> String {
    match answer.len() <= LARGEST_ANSWER {
        true => answer.to_owned(),
        false => format!(
            "{{\"omitted\":\"the result was too large to keep\",\"bytes\":{},\"sha256\":\"{}\"}}",
            answer.len(),
            Hash::of(answer.as_bytes())
        ),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn bad_folder(problem: &BadFolder) -> Failure {
    match problem {
        BadFolder::TooManyLinks => Failure::error(
            "too_many_links",
            format!("its arguments name too many symbolic links for one card: {problem}"),
        )
        .hint("split the call into several ones"),
        _ => bad(&format!("`cwd`: {problem}")),
    }
}

fn bad(problem: &str) -> Failure {
    Failure::error("bad_event", format!("the event cannot be understood: {problem}"))
        .hint("see `countersign hook --help` for what it expects")
}
