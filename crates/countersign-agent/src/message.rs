//! Messages of a session, from which the request of each model API is built.
//!
//! Input: a person's messages, a model's texts and calls, and the results that the model was given. Output: the same
//! messages, for storage and for the next request. Arguments are kept as the text that the model wrote, never rebuilt
//! from a parsed value.

use std::collections::HashSet;

use countersign::provenance;
use countersign::time::Time;
use countersign::transcript::Exchange;
use serde::{Deserialize, Serialize};

/// One message of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// A person's request or statement.
    Person {
        /// Text of the message.
        text: String,
        /// Time of the message, needed to interpret words such as "tomorrow".
        at: Time,
    },
    /// A person's reply to a card. Its outcome is in the results that follow.
    Reply {
        /// Text of the reply.
        text: String,
    },
    /// Text of the agent, tool calls, or both.
    Agent {
        /// Text of the agent; may be empty.
        text: String,
        /// Calls that the agent makes.
        calls: Vec<ModelCall>,
    },
    /// Results for the calls of the preceding message, one for each call.
    Results {
        /// Results in the order of the calls.
        results: Vec<CallResult>,
    },
    /// A message of the channel itself, such as the outcome of a card. Shown to people only; models learn the outcome
    /// from results.
    Channel {
        /// Text of the message.
        text: String,
    },
}

/// A tool call as a model wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCall {
    /// Id that links the result to this call.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// Exact text of the arguments.
    pub arguments: String,
}

/// Result of one call, as given to a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// Id of the call.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// Status of the call in one word, such as `ok`, `denied` or `pending_confirmation`.
    pub status: String,
    /// True if the model should treat the result as an error.
    pub is_error: bool,
    /// Text that the model reads.
    pub content: String,
    /// Author of the text, which decides whether its values count as stated by a tool.
    pub from: Source,
}

/// Author of a result's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The tool itself.
    Tool,
    /// A tool that returns text written by strangers.
    Outside,
    /// The gate or the agent loop. Nothing in the text counts as stated by a person or a tool.
    Gate,
}

impl Source {
    /// Returns the source of the tool's own answers: [`Source::Outside`] if `outside` contains the tool.
    pub fn of(tool: &str, outside: &HashSet<String>) -> Source {
        match outside.contains(tool) {
            true => Source::Outside,
            false => Source::Tool,
        }
    }
}

impl Message {
    /// Creates the messages that report the outcome of held calls to a model, in the form of a new call and its result.
    /// `outside` are the tools that return text written by strangers.
    pub fn of_exchanges(exchanges: Vec<Exchange>, outside: &HashSet<String>) -> [Message; 2] {
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        for exchange in exchanges {
            let from = match exchange.result.status {
                "succeeded" | "failed" | "undone" => Source::of(&exchange.tool, outside),
                _ => Source::Gate,
            };
            results.push(CallResult {
                id: exchange.id.clone(),
                tool: exchange.tool.clone(),
                status: exchange.result.status.to_owned(),
                is_error: exchange.result.is_error,
                content: exchange.result.content,
                from,
            });
            calls.push(ModelCall {
                id: exchange.id,
                tool: exchange.tool,
                // These arguments are the text that the model wrote.
                arguments: exchange.exact,
            });
        }
        let text = String::new();
        [Message::Agent { text, calls }, Message::Results { results }]
    }
}

/// Converts messages to the form in which the gate traces where a call's values came from. `outside` are the tools that
/// return text written by strangers according to the current configuration, which may be newer than the session.
pub fn conversation(messages: &[Message], outside: &HashSet<String>) -> provenance::Conversation {
    let mut traced = Vec::with_capacity(messages.len());
    for message in messages {
        match message {
            Message::Person { text, at } => traced.push(provenance::Message::Person {
                text: text.clone(),
                at: Some(*at),
            }),
            Message::Reply { text } => traced.push(provenance::Message::Person {
                text: text.clone(),
                at: None,
            }),
            Message::Agent { text, calls } => {
                traced.push(provenance::Message::Agent { text: text.clone() });
                // INVARIANT: arguments that the agent wrote count as the agent's own even when the tool repeats them.
                traced.extend(calls.iter().map(|call| provenance::Message::Agent {
                    text: call.arguments.clone(),
                }));
            }
            Message::Results { results } => {
                traced.extend(
                    results
                        .iter()
                        .filter_map(|result| provenance_message(result, outside)),
                );
            }
            Message::Channel { .. } => {}
        }
    }
    provenance::Conversation { messages: traced }
}

/// Converts a result to a statement of its tool. Returns `None` for text from the gate, which repeats the model's own
/// words.
fn provenance_message(result: &CallResult, outside: &HashSet<String>) -> Option<provenance::Message> {
    let (name, text) = (result.tool.clone(), tool_answer(result)?);
    match (result.from, Source::of(&result.tool, outside)) {
        (Source::Gate, _) => None,
        (Source::Outside, _) | (_, Source::Outside) => Some(provenance::Message::Outside { name, text }),
        _ => Some(provenance::Message::Tool { name, text }),
    }
}

/// Returns the tool's own answer. For a held call that is only the `result` field, without the arguments and comment
/// that the gate adds for the model; `None` if that field is missing or the content is not valid JSON.
fn tool_answer(result: &CallResult) -> Option<String> {
    #[derive(Deserialize)]
    struct HeldResult {
        result: Option<String>,
    }
    match result.status.as_str() {
        "succeeded" | "failed" | "undone" => {
            // An unreadable result is not attributed to the tool.
            let held: HeldResult = serde_json::from_str(&result.content).ok()?;
            held.result
        }
        _ => Some(result.content.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(status: &str, content: &str, from: Source) -> Message {
        let (id, tool) = ("c".to_owned(), "fetch".to_owned());
        let (status, content) = (status.to_owned(), content.to_owned());
        let is_error = false;
        let result = CallResult {
            id,
            tool,
            status,
            is_error,
            content,
            from,
        };
        Message::Results {
            results: vec![result],
        }
    }

    #[track_caller]
    fn check(message: Message, outside: &[&str], expected: Option<provenance::Message>) {
        let outside = outside.iter().map(|tool| (*tool).to_owned()).collect();
        let messages = conversation(&[message], &outside).messages;
        assert_eq!(messages.into_iter().next(), expected);
    }

    #[test]
    fn x96_results_count_as_the_tools_or_as_outside() {
        let tool = |text: &str| {
            Some(provenance::Message::Tool {
                name: "fetch".to_owned(),
                text: text.to_owned(),
            })
        };
        let outside_message = |text: &str| {
            Some(provenance::Message::Outside {
                name: "fetch".to_owned(),
                text: text.to_owned(),
            })
        };
        let held = r#"{"status":"succeeded","ran":true,"message":"It ran.","comment":"to eve","editedArguments":{"to":"eve"},"result":"page"}"#;
        check(result("ok", "page", Source::Tool), &[], tool("page"));
        check(
            result("ok", "page", Source::Outside),
            &[],
            outside_message("page"),
        );
        // The list of outside tools may be newer than the session.
        check(
            result("ok", "page", Source::Tool),
            &["fetch"],
            outside_message("page"),
        );
        check(result("succeeded", held, Source::Tool), &[], tool("page"));
        check(
            result("succeeded", held, Source::Tool),
            &["fetch"],
            outside_message("page"),
        );
        check(
            result("undone", held, Source::Outside),
            &[],
            outside_message("page"),
        );
        check(result("denied", held, Source::Gate), &["fetch"], None);
        check(
            result("failed", "{\"status\":\"failed\"}", Source::Tool),
            &[],
            None,
        );
    }
}
