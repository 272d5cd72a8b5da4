//! JSON bodies of the agent routes and their events.

use countersign_agent::message::{CallResult, Message, ModelCall};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::view::ApprovalView;
use crate::wire::PromptView;

/// A message to an agent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TalkBody {
    /// Session to continue; a new one if absent.
    pub session: Option<String>,
    /// Text of the person's message.
    pub text: Option<String>,
    /// Payload of a pressed button, instead of text: `approve` or `deny` of a `held` event.
    pub button: Option<String>,
    /// Positions of the calls to approve, counted from 1, with the `approve` button of a card with several calls.
    pub calls: Option<Vec<u8>>,
    /// The `card` of the `held` event that the person saw last.
    pub after: Option<String>,
    /// Id of the message. A repeated id counts once.
    pub message_id: Option<String>,
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
    /// Pending card.
    pub pending: Option<PromptView>,
    /// Value to send as `after` in the answer to the pending card.
    pub card: Option<String>,
}

/// Message of a session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageView {
    /// `person`, `reply` (a person's answer to a card), `agent`, `results` or `channel`.
    pub role: &'static str,
    /// Text of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Calls that the agent made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CalledView>,
    /// Results of the agent's calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultView>,
}

/// Call of an agent. Its arguments are shown on the card, with secrets hidden.
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

/// Level and name under which a client's trace shows the event.
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
