//! Anthropic's Messages API.
//!
//! Enters: a request. Leaves: what its stream of events says. Arguments are put together from `partial_json` as text.

mod event;

use std::collections::BTreeMap;

use hyper::http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use super::sse::Event;
use super::wire::{self, Dialect, Endpoint, quote, sendable, tool_behind, wire_name, wire_names};
use super::{LARGEST_ANSWER, Model, ModelError, Part, Parts, Request, Stop, Usage};
use crate::message::{Message, ModelCall};
use event::{
    Block, BlockDelta, BlockStart, BlockStop, Delta, Failure, MessageDelta, MessageStart, Sent, Used,
};

/// The version of the API that is spoken here.
const VERSION: &str = "2023-06-01";

/// A model behind Anthropic's Messages API.
#[derive(Clone, Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    model: String,
}

impl Anthropic {
    /// A model at a service: `https://api.anthropic.com`, or the whole path to `…/messages`.
    pub fn new(endpoint: Endpoint, model: &str) -> Anthropic {
        let endpoint = match endpoint.path() {
            path if path.ends_with("/messages") => endpoint.at(path),
            path if path.ends_with("/v1") => endpoint.at(&format!("{path}/messages")),
            path => endpoint.at(&format!("{path}/v1/messages")),
        };
        Anthropic {
            endpoint,
            model: model.to_owned(),
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = self.endpoint.headers(HeaderName::from_static("x-api-key"), "");
        let version = HeaderName::from_static("anthropic-version");
        headers.insert(version, HeaderValue::from_static(VERSION));
        headers
    }
}

impl Model for Anthropic {
    fn answer(&self, request: Request) -> Parts {
        let names = wire_names(&request.tools);
        let body = body(&self.model, &request, &names);
        let decoder = Decoder {
            names,
            ..Decoder::default()
        };
        self.endpoint.parts(self.headers(), body, decoder)
    }

    fn name(&self) -> String {
        format!("{} at {}", self.model, self.endpoint.place())
    }
}

fn body(model: &str, request: &Request, names: &[(String, String)]) -> String {
    let mut body = format!(
        r#"{{"model":{},"max_tokens":{},"stream":true,"system":{},"messages":[{}]"#,
        quote(model),
        request.most_tokens,
        quote(&request.system),
        messages(&request.messages)
    );
    if !request.tools.is_empty() {
        let tools = request.tools.iter().zip(names).map(|(tool, (name, _))| {
            format!(
                r#"{{"name":{},"description":{},"input_schema":{}}}"#,
                quote(name),
                quote(&tool.description),
                tool.schema
            )
        });
        let tools: Vec<String> = tools.collect();
        body.push_str(&format!(r#","tools":[{}]"#, tools.join(",")));
        if !request.may_call {
            body.push_str(r#","tool_choice":{"type":"none"}"#);
        }
    }
    body.push('}');
    body
}

/// Messages of one side that follow each other are one message to this API.
fn messages(messages: &[Message]) -> String {
    let mut written: Vec<(&str, Vec<String>)> = Vec::new();
    for message in messages {
        let (role, blocks) = blocks(message);
        match written.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, earlier)) if *last == role => earlier.extend(blocks),
            _ => written.push((role, blocks)),
        }
    }
    let written = written
        .into_iter()
        .map(|(role, blocks)| format!(r#"{{"role":"{role}","content":[{}]}}"#, blocks.join(",")));
    written.collect::<Vec<_>>().join(",")
}

fn blocks(message: &Message) -> (&'static str, Vec<String>) {
    let said = |text: &str| {
        let is_empty = text.trim().is_empty();
        (!is_empty).then(|| format!(r#"{{"type":"text","text":{}}}"#, quote(text)))
    };
    match message {
        Message::Person { text, .. } | Message::Reply { text } => ("user", said(text).into_iter().collect()),
        Message::Agent { text, calls } => {
            let calls = calls.iter().map(|call| {
                // INVARIANT: the arguments stand here as the model wrote them.
                format!(
                    r#"{{"type":"tool_use","id":{},"name":{},"input":{}}}"#,
                    quote(&call.id),
                    quote(&wire_name(&call.tool)),
                    sendable(&call.arguments)
                )
            });
            (
                "assistant",
                said(text.trim_end()).into_iter().chain(calls).collect(),
            )
        }
        Message::Results { results } => {
            let results = results.iter().map(|result| {
                format!(
                    r#"{{"type":"tool_result","tool_use_id":{},"is_error":{},"content":{}}}"#,
                    quote(&result.id),
                    result.is_error,
                    quote(&result.content)
                )
            });
            ("user", results.collect())
        }
        Message::Channel { .. } => ("user", Vec::new()),
    }
}

/// One answer on its way.
#[derive(Default)]
struct Decoder {
    names: Vec<(String, String)>,
    open: BTreeMap<u64, Option<Open>>,
    usage: Usage,
    stop: Option<Stop>,
    bytes: usize,
}

/// A call whose arguments are still to come.
struct Open {
    id: String,
    name: String,
    /// What the start of the block already said.
    given: String,
    arguments: String,
}

impl Dialect for Decoder {
    fn event(&mut self, event: Event) -> Result<Vec<Part>, ModelError> {
        let data = event.data.as_str();
        let sent: Sent = read(data)?;
        match sent.r#type.as_str() {
            "message_start" => {
                let started: MessageStart = read(data)?;
                self.used(started.message.usage);
                Ok(Vec::new())
            }
            "content_block_start" => {
                let started: BlockStart = read(data)?;
                self.start(started.index, started.content_block)
            }
            "content_block_delta" => {
                let more: BlockDelta = read(data)?;
                self.delta(more.index, more.delta)
            }
            "content_block_stop" => {
                let stopped: BlockStop = read(data)?;
                Ok(self.stop(stopped.index).into_iter().collect())
            }
            "message_delta" => {
                let changed: MessageDelta = read(data)?;
                self.used(changed.usage);
                self.stop = changed
                    .delta
                    .stop_reason
                    .as_deref()
                    .map(stop)
                    .or(self.stop.take());
                Ok(Vec::new())
            }
            "message_stop" => self.finish(),
            "error" => {
                let Failure { error } = read(data)?;
                let message = format!("{} ({})", error.message, error.r#type);
                Err(ModelError::Failed(wire::clip(&message)))
            }
            // Pings, and what the API may say some day.
            _ => Ok(Vec::new()),
        }
    }

    fn end(&mut self) -> Result<Vec<Part>, ModelError> {
        Err(ModelError::CutOff("the stream ended early".to_owned()))
    }
}

impl Decoder {
    fn used(&mut self, used: Option<Used>) {
        let used = used.unwrap_or_default();
        let input = [
            used.input_tokens,
            used.cache_creation_input_tokens,
            used.cache_read_input_tokens,
        ];
        if used.input_tokens.is_some() {
            self.usage.input = input.into_iter().flatten().sum();
        }
        self.usage.output = used.output_tokens.unwrap_or(self.usage.output);
    }

    fn start(&mut self, index: u64, block: Block) -> Result<Vec<Part>, ModelError> {
        if self.open.contains_key(&index) {
            return Err(ModelError::Garbage(format!("block {index} begins twice")));
        }
        let open = match (block.r#type.as_str(), block.id, block.name) {
            ("tool_use", Some(id), Some(name)) => Some(Open {
                id,
                name,
                given: block
                    .input
                    .map(|input| input.get().to_owned())
                    .unwrap_or_default(),
                arguments: String::new(),
            }),
            ("tool_use", ..) => {
                return Err(ModelError::Garbage("a call has no id or no name".to_owned()));
            }
            _ => None,
        };
        self.open.insert(index, open);
        let text = block
            .text
            .filter(|text| !text.is_empty() && block.r#type == "text");
        Ok(text.map(Part::Text).into_iter().collect())
    }

    fn delta(&mut self, index: u64, delta: Delta) -> Result<Vec<Part>, ModelError> {
        let Some(open) = self.open.get_mut(&index) else {
            return Err(ModelError::Garbage(format!(
                "block {index} goes on before it begins"
            )));
        };
        match (delta.r#type.as_str(), open) {
            ("text_delta", None) => {
                let text = delta.text.filter(|text| !text.is_empty());
                Ok(text.map(Part::Text).into_iter().collect())
            }
            ("input_json_delta", Some(open)) => {
                let more = delta.partial_json.unwrap_or_default();
                self.bytes = self.bytes.saturating_add(more.len());
                if self.bytes > LARGEST_ANSWER {
                    return Err(ModelError::TooLarge);
                }
                open.arguments.push_str(&more);
                Ok(Vec::new())
            }
            ("text_delta" | "input_json_delta", _) => {
                Err(ModelError::Garbage(format!("block {index} changes what it is")))
            }
            // Thoughts and signatures, which nobody asked for.
            _ => Ok(Vec::new()),
        }
    }

    fn stop(&mut self, index: u64) -> Option<Part> {
        let open = self.open.remove(&index).flatten()?;
        let arguments = match open.arguments.is_empty() {
            true => open.given,
            false => open.arguments,
        };
        Some(Part::Call(ModelCall {
            id: open.id,
            tool: tool_behind(&self.names, &open.name),
            arguments,
        }))
    }

    fn finish(&mut self) -> Result<Vec<Part>, ModelError> {
        if self.open.values().any(Option::is_some) {
            return Err(ModelError::CutOff("a call was not finished".to_owned()));
        }
        let stop = self.stop.take();
        let stop = stop.ok_or_else(|| ModelError::CutOff("it does not say why it ended".to_owned()))?;
        Ok(vec![Part::Usage(self.usage), Part::Stop(stop)])
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, ModelError> {
    let read = serde_json::from_str(data);
    read.map_err(|error| ModelError::Garbage(wire::clip(&format!("an event of it: {error}"))))
}

fn stop(reason: &str) -> Stop {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "refusal" => Stop::Declined,
        _ => Stop::Done,
    }
}
