//! JSON bodies of the agent routes and their events.

use countersign_agent::message::{CallResult, Message, ModelCall};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::view::{ApprovalView, View};
use crate::wire::PromptView;

/// A message to an agent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TalkBody {
    /// Session to continue; a new one if absent.
    pub session: Option<String>,
    /// Text of the person's message, at most 16 KiB. Either `text` or `button` is required.
    pub text: Option<String>,
    /// Payload of a pressed button: `approve` or `deny` of a `held` event. Either `text` or `button` is required.
    pub button: Option<String>,
    /// Positions of the calls to approve, counted from 1, with the `approve` button of a card with several calls. All
    /// calls if absent.
    pub calls: Option<Vec<u8>>,
    /// The `card` of the `held` event that the person saw last. If absent, a yes decides nothing.
    pub after: Option<String>,
    /// Id of the message, chosen by the client. A message whose id was already received has no further effect. Random
    /// if absent.
    pub message_id: Option<String>,
}

/// Query parameters of a stream of events.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StreamQuery {
    /// `full` (the default), or `simple`: calls and results as `tool-call` and `tool-result`, with `toolName` and
    /// `result.requiresConfirmation`.
    #[param(inline)]
    pub view: Option<View>,
}

/// Messages of a session, and its pending card.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// Id of the session.
    pub session: String,
    /// Name of the agent.
    pub agent: String,
    /// Names of the models that answer, or `a script`.
    pub model: String,
    /// Messages, oldest first.
    pub messages: Vec<MessageView>,
    /// The card that waits for a decision. Null if there is none.
    pub pending: Option<PromptView>,
    /// Value to send as `after` in the answer to the pending card. Null if no card is pending.
    pub card: Option<String>,
}

/// Message of a session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageView {
    /// `person`, `reply` (a person's answer to a card), `agent`, `results` or `channel`.
    pub role: &'static str,
    /// Text of the message. Absent if there is none, as for `results`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Calls that the agent made. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CalledView>,
    /// Results of the agent's calls. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultView>,
}

/// Call of an agent. The arguments are not included; they are on the card, with secrets hidden.
#[derive(Debug, Serialize, ToSchema)]
pub struct CalledView {
    /// Id that connects the call with its result.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
}

/// Result of a call, as the agent sees it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultView {
    /// Id of the call.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// Status of the call, in one word.
    pub status: String,
    /// True if a person has to confirm the call first.
    pub requires_confirmation: bool,
    /// True if the result is reported to the agent as an error.
    pub is_error: bool,
    /// Content that the agent sees.
    pub content: String,
}

/// Data of a `held` event: a card to show now.
#[derive(Debug, Serialize)]
pub struct HeldView {
    pub trace: Trace,
    /// Value to send as `after` with the answer to this card.
    pub card: Option<String>,
    pub prompt: PromptView,
    pub approval: ApprovalView,
}

/// Log level and name under which a client's trace shows the event.
#[derive(Debug, Serialize)]
pub struct Trace {
    pub level: &'static str,
    pub name: &'static str,
}

impl Trace {
    /// Trace entry of a call that waits for a person.
    pub const CONFIRMATION_REQUIRED: Trace = Trace {
        level: "warn",
        name: "confirmation-required",
    };
}

/// Data of a `tool-call` event of the simple view.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallView<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    tool_call_id: &'a str,
    tool_name: &'a str,
}

impl<'a> ToolCallView<'a> {
    /// Creates the event data for a call.
    pub fn new(id: &'a str, tool: &'a str) -> ToolCallView<'a> {
        ToolCallView {
            kind: "tool-call",
            tool_call_id: id,
            tool_name: tool,
        }
    }
}

/// Data of a `tool-result` event of the simple view.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultView {
    #[serde(rename = "type")]
    kind: &'static str,
    tool_call_id: String,
    tool_name: String,
    /// Result as the agent sees it: JSON, or text as a string. If a person has to confirm the call first, an object with
    /// `requiresConfirmation`.
    result: Box<RawValue>,
    is_error: bool,
    /// Entry for the client's trace. `None` unless a person has to confirm the call first.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<TraceEntry>,
}

/// Entry for the trace of a client.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TraceEntry {
    #[serde(rename = "type")]
    kind: &'static str,
    level: &'static str,
    tool_name: String,
    summary: String,
}

impl From<ResultView> for ToolResultView {
    fn from(view: ResultView) -> ToolResultView {
        let trace = view.requires_confirmation.then(|| TraceEntry {
            kind: Trace::CONFIRMATION_REQUIRED.name,
            level: Trace::CONFIRMATION_REQUIRED.level,
            tool_name: view.tool.clone(),
            summary: format!("{}: Confirmation required", view.tool),
        });
        // The content of a held call is a JSON object made by this service, so a member can be inserted at its start.
        let content = match (view.requires_confirmation, view.content.strip_prefix('{')) {
            (true, Some(rest)) => format!(r#"{{"requiresConfirmation":true,{rest}"#),
            _ => view.content,
        };
        let text = |content: &str| serde_json::value::to_raw_value(content).unwrap_or_default();
        ToolResultView {
            kind: "tool-result",
            tool_call_id: view.id,
            tool_name: view.tool,
            result: RawValue::from_string(content.clone()).unwrap_or_else(|_| text(&content)),
            is_error: view.is_error,
            trace,
        }
    }
}

/// Data of a `decided` event: a card of this session has ended.
#[derive(Debug, Serialize)]
pub struct DecidedView {
    pub approval: ApprovalView,
}

impl From<&Message> for MessageView {
    fn from(message: &Message) -> MessageView {
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        let (role, text) = match message {
            Message::Person { text, .. } => ("person", Some(text.clone())),
            Message::Reply { text } => ("reply", Some(text.clone())),
            Message::Channel { text } => ("channel", Some(text.clone())),
            Message::Agent { text, calls: called } => {
                calls = called.iter().map(CalledView::from).collect();
                ("agent", Some(text.clone()).filter(|text| !text.is_empty()))
            }
            Message::Results { results: told } => {
                results = told.iter().map(ResultView::from).collect();
                ("results", None)
            }
        };
        MessageView {
            role,
            text,
            calls,
            results,
        }
    }
}

impl From<&ModelCall> for CalledView {
    fn from(call: &ModelCall) -> CalledView {
        CalledView {
            id: call.id.clone(),
            tool: call.tool.clone(),
        }
    }
}

impl From<&CallResult> for ResultView {
    fn from(result: &CallResult) -> ResultView {
        ResultView {
            id: result.id.clone(),
            tool: result.tool.clone(),
            requires_confirmation: result.status == "pending_confirmation",
            status: result.status.clone(),
            is_error: result.is_error,
            content: result.content.clone(),
        }
    }
}
