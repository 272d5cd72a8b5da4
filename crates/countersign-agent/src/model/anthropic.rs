//! Client for Anthropic's Messages API.
//!
//! Input: a request. Output: the parts of the streamed answer. Arguments are concatenated from `partial_json` as text.

mod event;

use std::collections::BTreeMap;

use hyper::http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use super::transport::{
    self, Endpoint, EventDecoder, quote, tool_for_wire_name, valid_arguments, wire_name, wire_names,
};
use super::{AnswerPart, AnswerStream, LARGEST_ANSWER, Model, ModelError, Request, StopReason, Usage};
use crate::message::{Message, ModelCall};
use event::{
    Block, BlockDelta, BlockStart, BlockStop, Delta, ErrorEvent, EventType, MessageDelta, MessageStart,
    TokenUsage, WholeMessage,
};

/// Value of the `anthropic-version` header.
const VERSION: &str = "2023-06-01";

/// Member of a request that asks for a streamed answer.
const STREAMED: &str = r#""stream":true,"#;

/// A model behind Anthropic's Messages API.
#[derive(Clone, Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    model: String,
}

impl Anthropic {
    /// Creates a model at a base URL such as `https://api.anthropic.com`, or at the full path to `…/messages`.
    pub fn new(endpoint: Endpoint, model: &str) -> Anthropic {
        let endpoint = match endpoint.path() {
            path if path.ends_with("/messages") => endpoint.with_path(path),
            path if path.ends_with("/v1") => endpoint.with_path(&format!("{path}/messages")),
            path => endpoint.with_path(&format!("{path}/v1/messages")),
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
    fn answer(&self, request: Request) -> AnswerStream {
        let names = wire_names(&request.tools);
        let body = body(&self.model, &request, &names);
        let decoder = Decoder {
            names,
            ..Decoder::default()
        };
        let whole_body = body.replacen(STREAMED, r#""stream":false,"#, 1);
        self.endpoint.parts(self.headers(), body, whole_body, decoder)
    }

    fn name(&self) -> String {
        format!("{} at {}", self.model, self.endpoint.host_and_port())
    }
}

fn body(model: &str, request: &Request, names: &[(String, String)]) -> String {
    let mut body = format!(
        r#"{{"model":{},"max_tokens":{},{STREAMED}"system":{},"messages":[{}]"#,
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

/// Encodes messages. Consecutive messages of the same role are merged, as this API expects.
fn messages(messages: &[Message]) -> String {
    let mut encoded: Vec<(&str, Vec<String>)> = Vec::new();
    for message in messages {
        let (role, blocks) = blocks(message);
        match encoded.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, earlier)) if *last == role => earlier.extend(blocks),
            _ => encoded.push((role, blocks)),
        }
    }
    let encoded = encoded
        .into_iter()
        .map(|(role, blocks)| format!(r#"{{"role":"{role}","content":[{}]}}"#, blocks.join(",")));
    encoded.collect::<Vec<_>>().join(",")
}

fn blocks(message: &Message) -> (&'static str, Vec<String>) {
    let text_block = |text: &str| {
        let is_empty = text.trim().is_empty();
        (!is_empty).then(|| format!(r#"{{"type":"text","text":{}}}"#, quote(text)))
    };
    match message {
        Message::Person { text, .. } | Message::Reply { text } => {
            ("user", text_block(text).into_iter().collect())
        }
        Message::Agent { text, calls } => {
            let calls = calls.iter().map(|call| {
                // INVARIANT: the arguments are sent as the model wrote them.
                format!(
                    r#"{{"type":"tool_use","id":{},"name":{},"input":{}}}"#,
                    quote(&call.id),
                    quote(&wire_name(&call.tool)),
                    valid_arguments(&call.arguments)
                )
            });
            (
                "assistant",
                text_block(text.trim_end()).into_iter().chain(calls).collect(),
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

/// State of one streamed answer.
#[derive(Default)]
struct Decoder {
    names: Vec<(String, String)>,
    open_blocks: BTreeMap<u64, Option<PartialCall>>,
    usage: Usage,
    stop: Option<StopReason>,
    bytes: usize,
}

/// A call whose arguments are still arriving.
struct PartialCall {
    id: String,
    name: String,
    /// Arguments from the block's start event, used if no delta follows.
    initial_arguments: String,
    arguments: String,
}

impl EventDecoder for Decoder {
    fn event(&mut self, data: &str) -> Result<Vec<AnswerPart>, ModelError> {
        let event_type: EventType = parse(data)?;
        match event_type.r#type.as_str() {
            "message_start" => {
                let started: MessageStart = parse(data)?;
                self.record_usage(started.message.usage);
                Ok(Vec::new())
            }
            "content_block_start" => {
                let started: BlockStart = parse(data)?;
                self.start_block(started.index, started.content_block)
            }
            "content_block_delta" => {
                let more: BlockDelta = parse(data)?;
                self.apply_delta(more.index, more.delta)
            }
            "content_block_stop" => {
                let stopped: BlockStop = parse(data)?;
                Ok(self.stop_block(stopped.index).into_iter().collect())
            }
            "message_delta" => {
                let changed: MessageDelta = parse(data)?;
                self.record_usage(changed.usage);
                self.stop = changed
                    .delta
                    .stop_reason
                    .as_deref()
                    .map(stop_reason)
                    .or(self.stop.take());
                Ok(Vec::new())
            }
            "message_stop" => self.finish(),
            "error" => {
                let ErrorEvent { error } = parse(data)?;
                let message = format!("{} ({})", error.message, error.r#type);
                let is_too_long = transport::is_too_long(&message);
                let message = transport::truncate(&message);
                Err(match is_too_long {
                    true => ModelError::TooLong(message),
                    false => ModelError::Failed(message),
                })
            }
            // Pings, and event types that may be added to the API later.
            _ => Ok(Vec::new()),
        }
    }

    fn whole(&mut self, text: &str) -> Result<Vec<AnswerPart>, ModelError> {
        let message: WholeMessage = parse(text)?;
        self.record_usage(message.usage);
        let mut parts = Vec::new();
        for (index, block) in (0..).zip(message.content) {
            parts.extend(self.start_block(index, block)?);
            parts.extend(self.stop_block(index));
        }
        self.stop = message.stop_reason.as_deref().map(stop_reason);
        parts.extend(self.finish()?);
        Ok(parts)
    }

    fn end(&mut self) -> Result<Vec<AnswerPart>, ModelError> {
        Err(ModelError::CutOff("the stream ended early".to_owned()))
    }
}

impl Decoder {
    fn record_usage(&mut self, used: Option<TokenUsage>) {
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

    fn start_block(&mut self, index: u64, block: Block) -> Result<Vec<AnswerPart>, ModelError> {
        if self.open_blocks.contains_key(&index) {
            return Err(ModelError::InvalidAnswer(format!("block {index} begins twice")));
        }
        let open = match (block.r#type.as_str(), block.id, block.name) {
            ("tool_use", Some(id), Some(name)) => Some(PartialCall {
                id,
                name,
                initial_arguments: block
                    .input
                    .map(|input| input.get().to_owned())
                    .unwrap_or_default(),
                arguments: String::new(),
            }),
            ("tool_use", ..) => {
                return Err(ModelError::InvalidAnswer(
                    "a call has no id or no name".to_owned(),
                ));
            }
            _ => None,
        };
        self.open_blocks.insert(index, open);
        let text = block
            .text
            .filter(|text| !text.is_empty() && block.r#type == "text");
        Ok(text.map(AnswerPart::Text).into_iter().collect())
    }

    fn apply_delta(&mut self, index: u64, delta: Delta) -> Result<Vec<AnswerPart>, ModelError> {
        let Some(open) = self.open_blocks.get_mut(&index) else {
            return Err(ModelError::InvalidAnswer(format!(
                "block {index} goes on before it begins"
            )));
        };
        match (delta.r#type.as_str(), open) {
            ("text_delta", None) => {
                let text = delta.text.filter(|text| !text.is_empty());
                Ok(text.map(AnswerPart::Text).into_iter().collect())
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
            ("text_delta" | "input_json_delta", _) => Err(ModelError::InvalidAnswer(format!(
                "block {index} changes what it is"
            ))),
            // Thinking blocks and signatures, which are not requested.
            _ => Ok(Vec::new()),
        }
    }

    fn stop_block(&mut self, index: u64) -> Option<AnswerPart> {
        let open = self.open_blocks.remove(&index).flatten()?;
        let arguments = match open.arguments.is_empty() {
            true => open.initial_arguments,
            false => open.arguments,
        };
        Some(AnswerPart::Call(ModelCall {
            id: open.id,
            tool: tool_for_wire_name(&self.names, &open.name),
            arguments,
        }))
    }

    fn finish(&mut self) -> Result<Vec<AnswerPart>, ModelError> {
        if self.open_blocks.values().any(Option::is_some) {
            return Err(ModelError::CutOff("a call was not finished".to_owned()));
        }
        let stop = self.stop.take();
        let stop = stop.ok_or_else(|| ModelError::CutOff("it does not say why it ended".to_owned()))?;
        Ok(vec![AnswerPart::Usage(self.usage), AnswerPart::Stop(stop)])
    }
}

fn parse<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, ModelError> {
    let read = serde_json::from_str(data);
    read.map_err(|error| ModelError::InvalidAnswer(transport::truncate(&format!("an event of it: {error}"))))
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "refusal" => StopReason::Declined,
        _ => StopReason::Done,
    }
}
