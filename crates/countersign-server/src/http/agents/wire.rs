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
    /// The session to go on with; a new one when not given.
    pub session: Option<String>,
    /// What the person says.
    pub text: Option<String>,
    /// Instead of words: the payload of a button, `approve` or `deny` of a `held` event.
    pub button: Option<String>,
    /// With `approve` of a card of several calls: only those at these positions, from 1, are approved.
    pub calls: Option<Vec<u8>>,
    /// The `card` that the person had before their eyes.
    pub after: Option<String>,
    /// The message's own id: sent twice it is heard once.
    pub message_id: Option<String>,
}

/// What was said, and what waits.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// The session's id.
    pub session: String,
    /// The agent.
    pub agent: String,
    /// Who answers: the models' names, or `a script`.
    pub model: String,
    /// Oldest first.
    pub messages: Vec<MessageView>,
    /// The card that waits for an answer.
    pub pending: Option<PromptView>,
    /// What to say as `after` when answering it.
    pub card: Option<String>,
}

/// One message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageView {
    /// `person`, `reply` (a person's to a card), `agent`, `results` or `channel`.
    pub role: &'static str,
    /// What was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What the agent called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CalledView>,
    /// What became of those calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultView>,
}

/// A call of an agent. Its arguments stand on the card, where what is secret is hidden.
#[derive(Debug, Serialize, ToSchema)]
pub struct CalledView {
    /// Binds its result to it.
    pub id: String,
    /// The tool.
    pub tool: String,
}

/// What an agent is told about a call.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultView {
    /// The call's id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// How it ended, in a word.
    pub status: String,
    /// Whether a person has to confirm it first.
    pub requires_confirmation: bool,
    /// Whether the agent is told that it is an error.
    pub is_error: bool,
    /// What the agent reads.
    pub content: String,
}

/// Data of a `held` event: a card to show now.
#[derive(Debug, Serialize)]
pub struct HeldView {
    pub trace: Trace,
    /// Value of `after` in the answer to this card.
    pub card: Option<String>,
    pub prompt: PromptView,
    pub approval: ApprovalView,
}

/// Name and level under which a client's trace lists the event.
#[derive(Debug, Serialize)]
pub struct Trace {
    pub level: &'static str,
    pub name: &'static str,
}

impl Trace {
    /// Trace of a call that is held for a person.
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
