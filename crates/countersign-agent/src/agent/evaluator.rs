//! The evaluator judges an answer before a person sees it.
//!
//! Input: an answer that left no card pending. Output: the reason why the answer was rejected, if it was. Fails open:
//! an answer that cannot be judged is accepted, because a mediocre answer is better than none.

use std::sync::Arc;

use super::turn::{TextDelivery, Turn};
use crate::message::Message;
use crate::model::Request;
use crate::progress::Progress;
use crate::tool::Tool;

/// Name of the tool that the evaluator calls to give its verdict.
const VERDICT: &str = "verdict";
const SCHEMA: &str = r#"{"type":"object","required":["pass"],"properties":{"pass":{"type":"boolean"},"reason":{"type":"string"}}}"#;

impl Turn<'_> {
    /// Returns the reason why the answer is rejected, or `None` if it is accepted.
    pub(super) async fn evaluate(&mut self, text: &str) -> Option<String> {
        let evaluator = self.agent.config.evaluator.clone()?;
        // With a card pending the request is not yet fulfilled; a retry would only propose the calls again.
        if self.pending_card.is_some() {
            return None;
        }
        let tool = Tool::new(
            VERDICT,
            "Says whether the answer may stand.".to_owned(),
            SCHEMA.to_owned(),
        );
        let mut messages = self.last_message();
        messages.push(Message::Agent {
            text: text.to_owned(),
            calls: Vec::new(),
        });
        messages.push(Message::Reply {
            text: "Judge the answer above. Call `verdict`.".to_owned(),
        });
        let request = Request {
            role: "evaluator".to_owned(),
            system: evaluator.role.prompt.clone(),
            messages,
            tools: tool.into_iter().map(Arc::new).collect(),
            may_call: true,
            most_tokens: self.agent.room().1,
        };
        let answer = self
            .ask_model(&*evaluator.role.model, request, TextDelivery::Buffered)
            .await;
        match answer {
            Ok(answer) => {
                let verdict = answer.calls.iter().find(|call| call.tool == VERDICT)?;
                failure_reason(&verdict.arguments)
            }
            Err(error) => {
                let notice = format!("the answer was not judged: {error}");
                self.report(Progress::Notice(notice)).await;
                None
            }
        }
    }

    fn last_message(&self) -> Vec<Message> {
        let messages = self.session.messages().iter().rev();
        let mut questions = messages.filter(|message| matches!(message, Message::Person { .. }));
        questions.next().cloned().into_iter().collect()
    }
}

/// Returns the reason if the verdict rejects the answer; `None` if it accepts the answer or cannot be parsed.
fn failure_reason(arguments: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(arguments).ok()?;
    match value.get("pass")?.as_bool()? {
        true => None,
        false => {
            let reason = value.get("reason").and_then(serde_json::Value::as_str);
            Some(reason.unwrap_or("it does not answer the question").to_owned())
        }
    }
}
