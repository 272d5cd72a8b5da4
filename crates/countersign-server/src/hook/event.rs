//! Reading an event: before a tool call, or after it.
//!
//! Enters: bytes from a coding agent. Leaves: the event, with the arguments as the exact bytes they came as.
//! INVARIANT: what stands before a call is read strictly: one JSON object, UTF-8, no key twice anywhere. An event this
//! file does not know is an error, and an error blocks.

use countersign::call::Arguments;
use countersign::executor::Outcome;
use countersign::hash::Hash;
use countersign::id::{Run, Session, ToolName};
use countersign::json::{self, Limits};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Dialect;
use crate::failure::Failure;

/// The largest event; a tool's answer may be long.
pub const LARGEST_EVENT: usize = 32 * 1024 * 1024;
/// How much of a tool's answer is kept: more would not fit into a request to a server.
const LARGEST_ANSWER: usize = 128 * 1024;
/// An event before a call may hold more than arguments, and is still no larger than this.
const BEFORE: Limits = Limits {
    bytes: LARGEST_EVENT,
    depth: 128,
    paths: 64 * 1024 * 1024,
};

/// What a coding agent says.
pub enum Event {
    /// It is about to call a tool.
    Before(Before),
    /// It has called one.
    After(After),
}

/// A tool call that is about to happen.
pub struct Before {
    /// Which call this is.
    pub place: Place,
    /// The tool.
    pub tool: ToolName,
    /// The exact bytes.
    pub arguments: Arguments,
    /// The agent's session, with the part of it that asks.
    pub session: Session,
    /// The session as a whole.
    pub run: Run,
    /// Says that this is the same event again.
    pub key: String,
    /// Whether the coding agent would ask somebody by itself.
    pub asks: bool,
}

/// A tool call that has happened.
pub struct After {
    /// Which call it was.
    pub place: Place,
    /// How it ended.
    pub outcome: Outcome,
}

/// Which call an event is about: what the event before it and the one after it have in common.
#[derive(Clone)]
pub struct Place {
    /// The session.
    pub session: String,
    /// The call's id, where the coding agent gives one.
    pub id: Option<String>,
    /// The tool.
    pub tool: String,
    /// The arguments as values, for coding agents that give no id.
    pub values: String,
}

#[derive(Deserialize)]
struct Input<'a> {
    hook_event_name: String,
    session_id: String,
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
    /// Reads an event.
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
        let place = self.place(dialect)?;
        let tool = ToolName::new(place.tool.as_str()).map_err(|problem| bad(&problem.to_string()))?;
        let input = self.tool_input.ok_or_else(|| bad("it has no `tool_input`"))?;
        // INVARIANT: the span of `tool_input` as it stands in the event, never a value written again.
        let arguments = Arguments::parse(input.get().as_bytes())
            .map_err(|problem| bad(&first_line(&problem.to_string())))?;
        let session = match &self.agent_id {
            Some(part) => format!("{}/{part}", self.session_id),
            None => self.session_id.clone(),
        };
        let named = |problem: countersign::id::BadName| bad(&problem.to_string());
        let key = match (&place.id, dialect) {
            (Some(id), _) => Hash::of(format!("{}\n{id}", self.session_id).as_bytes()),
            // It tells the moment of the event, so the same bytes are the same event.
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
            place,
        })
    }

    fn after(self, dialect: Dialect) -> Result<After, Failure> {
        let place = self.place(dialect)?;
        let answer = self.tool_response.map_or("null", RawValue::get);
        let outcome = match (self.error, self.is_interrupt) {
            (Some(_), Some(true)) => Outcome::Unknown("it was interrupted".to_owned()),
            (Some(error), _) => Outcome::failed(kept(&error)),
            (None, _) if dialect == Dialect::Gemini && has_error(answer) => Outcome::failed(kept(answer)),
            (None, _) => Outcome::succeeded(kept(answer)),
        };
        Ok(After { place, outcome })
    }

    fn place(&self, dialect: Dialect) -> Result<Place, Failure> {
        let tool = self
            .tool_name
            .clone()
            .ok_or_else(|| bad("it has no `tool_name`"))?;
        let values = match (dialect, self.tool_input) {
            (Dialect::Gemini, Some(input)) => values(input.get()),
            _ => String::new(),
        };
        Ok(Place {
            session: self.session_id.clone(),
            id: self.tool_use_id.clone(),
            tool,
            values,
        })
    }
}

/// The values of arguments, however they are written: only to find a call again, never to run it.
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

fn has_error(answer: &str) -> bool {
    #[derive(Deserialize)]
    struct Answered<'a> {
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    serde_json::from_str::<Answered<'_>>(answer).is_ok_and(|answered| answered.error.is_some())
}

/// What is kept of a tool's answer: all of it, or how long it was.
fn kept(answer: &str) -> String {
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

fn bad(problem: &str) -> Failure {
    Failure::error("bad_event", format!("the event cannot be understood: {problem}"))
        .hint("see `countersign hook --help` for what it expects")
}
