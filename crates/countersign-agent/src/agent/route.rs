//! The orchestrator picks the specialist for a message.
//!
//! Input: the conversation. Output: a specialist, or `None` if the orchestrator answered the message itself. The
//! `route` tool runs nothing: only the specialist's name is read from the call.

use std::sync::Arc;

use super::history::fit;
use super::turn::{TextDelivery, Turn};
use super::{Specialist, TurnError};
use crate::message::Message;
use crate::model::Request;
use crate::progress::Progress;
use crate::session::Step;
use crate::tool::Tool;

/// Name of the tool that the orchestrator calls to pick a specialist.
const ROUTE: &str = "route";
/// Maximum number of times the orchestrator is asked, in case it names an unknown specialist.
const MOST_ATTEMPTS: u32 = 2;

impl Turn<'_> {
    /// Picks the specialist for the last message. Returns `None` if the orchestrator answered by itself.
    pub(super) async fn route(&mut self) -> Result<Option<Specialist>, TurnError> {
        let config = &self.agent.config;
        let (Some(orchestrator), true) = (&config.orchestrator, config.specialists.len() > 1) else {
            return self.specialist().map(Some);
        };
        let orchestrator = orchestrator.clone();
        let names: Vec<&str> = config
            .specialists
            .iter()
            .map(|specialist| specialist.name.as_str())
            .collect();
        let tool = Arc::new(route_tool(&names).map_err(|_| TurnError::NoSpecialist)?);
        let descriptions = config
            .specialists
            .iter()
            .map(|specialist| format!("- {}: {}", specialist.name, specialist.about));
        let descriptions: Vec<String> = descriptions.collect();
        let mut system = format!(
            "{}\n\nSpecialists:\n{}",
            orchestrator.prompt.trim_end(),
            descriptions.join("\n")
        );
        for _ in 0..MOST_ATTEMPTS {
            let build = |turn: &Turn<'_>, (most_bytes, most_tokens): (usize, u32)| Request {
                role: "orchestrator".to_owned(),
                system: system.clone(),
                messages: fit(&text_messages(turn.session.messages()), most_bytes).messages,
                tools: vec![tool.clone()],
                may_call: true,
                most_tokens,
            };
            let answer = self
                .ask_shortened(&*orchestrator.model, TextDelivery::Buffered, build)
                .await?;
            let Some(call) = answer.calls.iter().find(|call| call.tool == ROUTE) else {
                if answer.text.is_empty() {
                    break;
                }
                self.save_text(answer.text, TextDelivery::Buffered).await?;
                return Ok(None);
            };
            let picked = specialist_in(&call.arguments);
            let specialists = self.agent.config.specialists.iter();
            let mut found = specialists.filter(|specialist| Some(&specialist.name) == picked.as_ref());
            if let Some(specialist) = found.next().cloned() {
                return self.assign(specialist).await.map(Some);
            }
            system.push_str("\n\nPick one of the specialists by its exact name.");
        }
        // The orchestrator picked no known specialist; fall back to the first one.
        let first = self
            .agent
            .config
            .specialists
            .first()
            .cloned()
            .ok_or(TurnError::NoSpecialist)?;
        self.assign(first).await.map(Some)
    }

    async fn assign(&mut self, specialist: Specialist) -> Result<Specialist, TurnError> {
        self.append(Step {
            specialist: Some(specialist.name.clone()),
            ..Step::default()
        })
        .await?;
        let name = specialist.name.clone();
        self.report(Progress::Routed { specialist: name }).await;
        Ok(specialist)
    }
}

fn route_tool(names: &[&str]) -> Result<Tool, String> {
    let schema = serde_json::json!({
        "type": "object",
        "required": ["specialist"],
        "properties": { "specialist": { "type": "string", "enum": names } },
    });
    let description = "Gives the message to the specialist it is for.".to_owned();
    Tool::new(ROUTE, description, schema.to_string())
}

fn specialist_in(arguments: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(arguments).ok()?;
    value.get("specialist")?.as_str().map(str::to_owned)
}

/// Returns the latest messages without tool calls and results, which is enough to pick a specialist.
fn text_messages(messages: &[Message]) -> Vec<Message> {
    /// Number of messages given to the orchestrator.
    const MOST_MESSAGES: usize = 20;
    let texts = messages.iter().filter_map(|message| match message {
        Message::Agent { text, .. } if !text.is_empty() => Some(Message::Agent {
            text: text.clone(),
            calls: Vec::new(),
        }),
        Message::Person { .. } | Message::Reply { .. } => Some(message.clone()),
        _ => None,
    });
    let texts: Vec<Message> = texts.collect();
    let start = texts.len().saturating_sub(MOST_MESSAGES);
    let mut latest: Vec<Message> = texts.into_iter().skip(start).collect();
    // Model APIs require the first message to come from the person.
    while matches!(latest.first(), Some(Message::Agent { .. })) {
        latest.remove(0);
    }
    latest
}
