//! Judging: the evaluator looks at an answer before a person does.
//!
//! Enters: an answer that left no card. Leaves: why it is to be given again, or nothing. It fails open: an answer that
//! cannot be judged is given as it is, for a mediocre answer is better than none.

use std::sync::Arc;

use super::turn::{Turn, Words};
use crate::message::Message;
use crate::model::Request;
use crate::progress::Progress;
use crate::tool::Tool;

/// What the evaluator calls.
const VERDICT: &str = "verdict";
const SCHEMA: &str = r#"{"type":"object","required":["pass"],"properties":{"pass":{"type":"boolean"},"reason":{"type":"string"}}}"#;

impl Turn<'_> {
    /// Why the answer is to be given again; nothing when it may stand.
    pub(super) async fn judge(&mut self, text: &str) -> Option<String> {
        let evaluator = self.agent.plan.evaluator.clone()?;
        // A turn that left a card did not do yet what it was asked for, and must not be made to try again.
        if self.held.is_some() {
            return None;
        }
        let tool = Tool::new(
            VERDICT,
            "Says whether the answer may stand.".to_owned(),
            SCHEMA.to_owned(),
        );
        let mut messages = self.last_question();
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
            most_tokens: self.agent.plan.limits.tokens,
        };
        let judged = self.think(&*evaluator.role.model, request, Words::Kept).await;
        match judged {
            Ok(answer) => {
                let verdict = answer.calls.iter().find(|call| call.tool == VERDICT)?;
                failing(&verdict.arguments)
            }
            Err(error) => {
                let notice = format!("the answer was not judged: {error}");
                self.tell(Progress::Notice(notice)).await;
                None
            }
        }
    }

    fn last_question(&self) -> Vec<Message> {
        let messages = self.session.messages().iter().rev();
        let mut questions = messages.filter(|message| matches!(message, Message::Person { .. }));
        questions.next().cloned().into_iter().collect()
    }
}

/// The reason of a verdict that fails. What cannot be read does not fail anything.
fn failing(arguments: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(arguments).ok()?;
    match value.get("pass")?.as_bool()? {
        true => None,
        false => {
            let reason = value.get("reason").and_then(serde_json::Value::as_str);
            Some(reason.unwrap_or("it does not answer the question").to_owned())
        }
    }
}
