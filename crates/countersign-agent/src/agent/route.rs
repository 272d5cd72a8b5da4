//! Routing: the orchestrator gives a message to the specialist it is for.
//!
//! Enters: what was said. Leaves: a specialist; or nothing, when the orchestrator answered by itself. What it calls to
//! pick one is no tool: it runs nothing, and nothing but a name is taken from it.

use std::sync::Arc;

use super::turn::{Turn, Words};
use super::{Specialist, TurnError};
use crate::message::Message;
use crate::model::Request;
use crate::progress::Progress;
use crate::session::Step;
use crate::tool::Tool;

/// What the orchestrator calls.
const ROUTE: &str = "route";
/// How often it may pick somebody who is not there.
const TRIES: u32 = 2;

impl Turn<'_> {
    /// Picks the specialist for the last message.
    pub(super) async fn route(&mut self) -> Result<Option<Specialist>, TurnError> {
        let plan = &self.agent.plan;
        let (Some(orchestrator), true) = (&plan.orchestrator, plan.specialists.len() > 1) else {
            return self.specialist().map(Some);
        };
        let orchestrator = orchestrator.clone();
        let names: Vec<&str> = plan.specialists.iter().map(|known| known.name.as_str()).collect();
        let tool = Arc::new(route_tool(&names).map_err(|_| TurnError::Nobody)?);
        let about = plan
            .specialists
            .iter()
            .map(|known| format!("- {}: {}", known.name, known.about));
        let about: Vec<String> = about.collect();
        let mut system = format!(
            "{}\n\nSpecialists:\n{}",
            orchestrator.prompt.trim_end(),
            about.join("\n")
        );
        for _ in 0..TRIES {
            let request = Request {
                role: "orchestrator".to_owned(),
                system: system.clone(),
                messages: words_only(self.session.messages()),
                tools: vec![tool.clone()],
                may_call: true,
                most_tokens: self.agent.plan.limits.tokens,
            };
            let answer = self.think(&*orchestrator.model, request, Words::Kept).await?;
            let Some(call) = answer.calls.iter().find(|call| call.tool == ROUTE) else {
                if answer.text.is_empty() {
                    break;
                }
                self.speak(answer.text, Words::Kept).await?;
                return Ok(None);
            };
            let wanted = specialist_in(&call.arguments);
            let known = self.agent.plan.specialists.iter();
            let mut found = known.filter(|known| Some(&known.name) == wanted.as_ref());
            if let Some(specialist) = found.next().cloned() {
                return self.give_to(specialist).await.map(Some);
            }
            system.push_str("\n\nPick one of the specialists by its exact name.");
        }
        // Nobody was picked: whoever comes first knows best what to make of it.
        let first = self
            .agent
            .plan
            .specialists
            .first()
            .cloned()
            .ok_or(TurnError::Nobody)?;
        self.give_to(first).await.map(Some)
    }

    async fn give_to(&mut self, specialist: Specialist) -> Result<Specialist, TurnError> {
        self.append(Step {
            specialist: Some(specialist.name.clone()),
            ..Step::default()
        })
        .await?;
        let name = specialist.name.clone();
        self.tell(Progress::Routed { specialist: name }).await;
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

/// What was said in words: the orchestrator needs no more to know who is meant.
fn words_only(messages: &[Message]) -> Vec<Message> {
    /// Who is meant is plain from the last few.
    const LATEST: usize = 20;
    let spoken = messages.iter().filter_map(|message| match message {
        Message::Agent { text, .. } if !text.is_empty() => Some(Message::Agent {
            text: text.clone(),
            calls: Vec::new(),
        }),
        Message::Person { .. } | Message::Reply { .. } => Some(message.clone()),
        _ => None,
    });
    let spoken: Vec<Message> = spoken.collect();
    let start = spoken.len().saturating_sub(LATEST);
    let mut latest: Vec<Message> = spoken.into_iter().skip(start).collect();
    // Models want a person to speak first.
    while matches!(latest.first(), Some(Message::Agent { .. })) {
        latest.remove(0);
    }
    latest
}
