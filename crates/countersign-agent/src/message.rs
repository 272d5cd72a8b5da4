//! What was said in a session: the one form every model's dialect is made from.
//!
//! Enters: a person's words, a model's words and calls, and what the model was told about them. Arguments stand here
//! as the text the model wrote, never rebuilt from a parsed value.

use std::collections::HashSet;

use countersign::provenance;
use countersign::time::Time;
use countersign::transcript::Exchange;
use serde::{Deserialize, Serialize};

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// A person asked for something, or told something.
    Person {
        /// What they said.
        text: String,
        /// When, so that "tomorrow" means something.
        at: Time,
    },
    /// A person answered a card. What came of it stands in the results behind it.
    Reply {
        /// What they said.
        text: String,
    },
    /// The agent spoke, called tools, or both.
    Agent {
        /// What it said.
        text: String,
        /// What it wants to be run.
        calls: Vec<ModelCall>,
    },
    /// What the model is told about the calls of the message before: one result for each.
    Results {
        /// In the order of the calls.
        results: Vec<CallResult>,
    },
    /// The channel spoke: what a card asked, what became of it. For people; models learn it from results.
    Channel {
        /// What it said.
        text: String,
    },
}

/// A tool call as a model wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The id its result is bound to.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// The exact text of the arguments.
    pub arguments: String,
}

/// What a model is told about one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The id of the call.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// How the call ended, in a word.
    pub status: String,
    /// Whether it is to be taken as an error.
    pub is_error: bool,
    /// What the model reads.
    pub content: String,
    /// Who said it.
    pub from: Source,
}

/// Who stands behind a result's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The tool.
    Tool,
    /// A tool that passes on what strangers wrote.
    Outside,
    /// The gate, or this loop: nothing in it counts as stated by anybody.
    Gate,
}

impl Source {
    /// Who stands behind what a tool answered.
    pub fn of(tool: &str, outside: &HashSet<String>) -> Source {
        match outside.contains(tool) {
            true => Source::Outside,
            false => Source::Tool,
        }
    }
}

impl Message {
    /// The messages that tell a model what became of held calls: as if it had just called, and just been answered.
    /// `outside` are the tools that pass on what strangers wrote.
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
                // The model wrote them itself.
                arguments: exchange.exact,
            });
        }
        let text = String::new();
        [Message::Agent { text, calls }, Message::Results { results }]
    }
}

/// The same conversation as the gate wants it, to tell where a call's values came from. `outside` are the tools that pass
/// on what strangers wrote, as of now: a session may be older than that list.
pub fn conversation(messages: &[Message], outside: &HashSet<String>) -> provenance::Conversation {
    let mut said = Vec::with_capacity(messages.len());
    for message in messages {
        match message {
            Message::Person { text, at } => said.push(provenance::Message::Person {
                text: text.clone(),
                at: Some(*at),
            }),
            Message::Reply { text } => said.push(provenance::Message::Person {
                text: text.clone(),
                at: None,
            }),
            Message::Agent { text, calls } => {
                said.push(provenance::Message::Agent { text: text.clone() });
                // INVARIANT: what the agent asks a tool stays the agent's when the tool repeats it.
                said.extend(calls.iter().map(|call| provenance::Message::Agent {
                    text: call.arguments.clone(),
                }));
            }
            Message::Results { results } => {
                said.extend(results.iter().filter_map(|result| stated(result, outside)));
            }
            Message::Channel { .. } => {}
        }
    }
    provenance::Conversation { messages: said }
}

/// What a tool stated. What the gate said about a call repeats the model's own words, and is no source.
fn stated(result: &CallResult, outside: &HashSet<String>) -> Option<provenance::Message> {
    let (name, text) = (result.tool.clone(), answered(result)?);
    match (result.from, Source::of(&result.tool, outside)) {
        (Source::Gate, _) => None,
        (Source::Outside, _) | (_, Source::Outside) => Some(provenance::Message::Outside { name, text }),
        _ => Some(provenance::Message::Tool { name, text }),
    }
}

/// What the tool itself answered: of a held call only its result, not the arguments and the comment that the gate adds
/// for the model.
fn answered(result: &CallResult) -> Option<String> {
    #[derive(Deserialize)]
    struct Told {
        result: Option<String>,
    }
    match result.status.as_str() {
        "succeeded" | "failed" | "undone" => {
            // A result that cannot be read is taken for nobody's.
            let told: Told = serde_json::from_str(&result.content).ok()?;
            told.result
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
        let said = conversation(&[message], &outside).messages;
        assert_eq!(said.into_iter().next(), expected);
    }

    #[test]
    fn x96_a_result_is_the_tools_and_outside_follows_the_tool() {
        let tool = |text: &str| {
            Some(provenance::Message::Tool {
                name: "fetch".to_owned(),
                text: text.to_owned(),
            })
        };
        let strangers = |text: &str| {
            Some(provenance::Message::Outside {
                name: "fetch".to_owned(),
                text: text.to_owned(),
            })
        };
        let held = r#"{"status":"succeeded","ran":true,"message":"It ran.","comment":"to eve","editedArguments":{"to":"eve"},"result":"page"}"#;
        check(result("ok", "page", Source::Tool), &[], tool("page"));
        check(result("ok", "page", Source::Outside), &[], strangers("page"));
        // The list may be newer than the session.
        check(result("ok", "page", Source::Tool), &["fetch"], strangers("page"));
        check(result("succeeded", held, Source::Tool), &[], tool("page"));
        check(
            result("succeeded", held, Source::Tool),
            &["fetch"],
            strangers("page"),
        );
        check(result("undone", held, Source::Outside), &[], strangers("page"));
        check(result("denied", held, Source::Gate), &["fetch"], None);
        check(
            result("failed", "{\"status\":\"failed\"}", Source::Tool),
            &[],
            None,
        );
    }
}
