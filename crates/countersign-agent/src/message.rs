//! What was said in a session: the one form every model's dialect is made from.
//!
//! Enters: a person's words, a model's words and calls, and what the model was told about them. Arguments stand here
//! as the text the model wrote, never rebuilt from a parsed value.

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

impl Message {
    /// The messages that tell a model what became of held calls: as if it had just called, and just been answered.
    pub fn of_exchanges(exchanges: Vec<Exchange>) -> [Message; 2] {
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        for exchange in exchanges {
            let from = match exchange.result.status {
                "succeeded" | "failed" | "undone" => Source::Tool,
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

/// The same conversation as the gate wants it, to tell where a call's values came from.
pub fn conversation(messages: &[Message]) -> provenance::Conversation {
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
            Message::Agent { text, .. } => said.push(provenance::Message::Agent { text: text.clone() }),
            Message::Results { results } => said.extend(results.iter().filter_map(stated)),
            Message::Channel { .. } => {}
        }
    }
    provenance::Conversation { messages: said }
}

/// What a tool stated. What the gate said about a call repeats the model's own words, and is no source.
fn stated(result: &CallResult) -> Option<provenance::Message> {
    let (name, text) = (result.tool.clone(), result.content.clone());
    match result.from {
        Source::Tool => Some(provenance::Message::Tool { name, text }),
        Source::Outside => Some(provenance::Message::Outside { name, text }),
        Source::Gate => None,
    }
}
