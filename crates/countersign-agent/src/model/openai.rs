//! Client for the chat completions API of OpenAI, which Ollama, vLLM, llama.cpp and OpenRouter offer too.
//!
//! Input: a request. Output: the parts of the streamed answer. Arguments are concatenated as text.

use hyper::http::header;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::transport::{
    self, Endpoint, EventDecoder, quote, tool_for_wire_name, valid_arguments, wire_name, wire_names,
};
use super::{AnswerPart, AnswerStream, LARGEST_ANSWER, Model, ModelError, Request, StopReason, Usage};
use crate::message::{Message, ModelCall};

/// Maximum number of calls in one answer.
const MOST_CALLS: usize = 256;

/// Members of a request that ask for a streamed answer.
const STREAMED: &str = r#""stream":true,"stream_options":{"include_usage":true},"#;

/// A model behind a chat completions API.
#[derive(Clone, Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    model: String,
}

impl OpenAi {
    /// Creates a model at a base URL such as `https://api.openai.com/v1`, or at the full path to `…/chat/completions`.
    pub fn new(endpoint: Endpoint, model: &str) -> OpenAi {
        let endpoint = match endpoint.path() {
            path if path.ends_with("/chat/completions") => endpoint.with_path(path),
            "" => endpoint.with_path("/v1/chat/completions"),
            path => endpoint.with_path(&format!("{path}/chat/completions")),
        };
        OpenAi {
            endpoint,
            model: model.to_owned(),
        }
    }

    /// Returns the name of the token limit field. OpenAI's newer models accept only the new name, most other services
    /// only the old one.
    fn token_limit_field(&self) -> &'static str {
        match self.endpoint.host_and_port().starts_with("api.openai.com:") {
            true => "max_completion_tokens",
            false => "max_tokens",
        }
    }
}

impl Model for OpenAi {
    fn answer(&self, request: Request) -> AnswerStream {
        let names = wire_names(&request.tools);
        let body = body(&self.model, self.token_limit_field(), &request, &names);
        let decoder = Decoder {
            names,
            ..Decoder::default()
        };
        let headers = self.endpoint.headers(header::AUTHORIZATION, "Bearer ");
        let whole_body = body.replacen(STREAMED, r#""stream":false,"#, 1);
        self.endpoint.parts(headers, body, whole_body, decoder)
    }

    fn name(&self) -> String {
        format!("{} at {}", self.model, self.endpoint.host_and_port())
    }
}

fn body(model: &str, limit: &str, request: &Request, names: &[(String, String)]) -> String {
    let system = format!(r#"{{"role":"system","content":{}}}"#, quote(&request.system));
    let messages = request.messages.iter().flat_map(encode_message);
    let messages: Vec<String> = std::iter::once(system).chain(messages).collect();
    let mut body = format!(
        r#"{{"model":{},"{limit}":{},{STREAMED}"messages":[{}]"#,
        quote(model),
        request.most_tokens,
        messages.join(",")
    );
    if !request.tools.is_empty() {
        let tools = request.tools.iter().zip(names).map(|(tool, (name, _))| {
            format!(
                r#"{{"type":"function","function":{{"name":{},"description":{},"parameters":{}}}}}"#,
                quote(name),
                quote(&tool.description),
                tool.schema
            )
        });
        let tools: Vec<String> = tools.collect();
        body.push_str(&format!(r#","tools":[{}]"#, tools.join(",")));
        if !request.may_call {
            body.push_str(r#","tool_choice":"none""#);
        }
    }
    body.push('}');
    body
}

fn encode_message(message: &Message) -> Vec<String> {
    match message {
        Message::Person { text, .. } | Message::Reply { text } => {
            vec![format!(r#"{{"role":"user","content":{}}}"#, quote(text))]
        }
        Message::Agent { text, calls } => {
            let content = match text.is_empty() {
                true => "null".to_owned(),
                false => quote(text),
            };
            let calls = calls.iter().map(|call| {
                format!(
                    r#"{{"id":{},"type":"function","function":{{"name":{},"arguments":{}}}}}"#,
                    quote(&call.id),
                    quote(&wire_name(&call.tool)),
                    quote(valid_arguments(&call.arguments))
                )
            });
            let calls: Vec<String> = calls.collect();
            let calls = match calls.is_empty() {
                true => String::new(),
                false => format!(r#","tool_calls":[{}]"#, calls.join(",")),
            };
            vec![format!(r#"{{"role":"assistant","content":{content}{calls}}}"#)]
        }
        Message::Results { results } => {
            let results = results.iter().map(|result| {
                format!(
                    r#"{{"role":"tool","tool_call_id":{},"content":{}}}"#,
                    quote(&result.id),
                    quote(&result.content)
                )
            });
            results.collect()
        }
        Message::Channel { .. } => Vec::new(),
    }
}

/// State of one streamed answer.
#[derive(Default)]
struct Decoder {
    names: Vec<(String, String)>,
    calls: Vec<PartialCall>,
    usage: Usage,
    stop: Option<StopReason>,
    bytes: usize,
}

/// A call whose arguments are still arriving.
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<TokenUsage>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct TokenUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<Delta>,
    /// The same as `delta`, in an answer that is not streamed.
    message: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
}

impl EventDecoder for Decoder {
    fn event(&mut self, data: &str) -> Result<Vec<AnswerPart>, ModelError> {
        if data.trim() == "[DONE]" {
            return self.end();
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| {
            ModelError::InvalidAnswer(transport::truncate(&format!("a chunk of it: {error}")))
        })?;
        if chunk.error.is_some_and(|error| error.get() != "null") {
            let message = transport::error_message(data).unwrap_or_else(|| transport::truncate(data));
            return Err(match transport::is_too_long(data) {
                true => ModelError::TooLong(message),
                false => ModelError::Failed(message),
            });
        }
        if let Some(used) = chunk.usage {
            self.usage.input = used.prompt_tokens.unwrap_or(self.usage.input);
            self.usage.output = used.completion_tokens.unwrap_or(self.usage.output);
        }
        let mut parts = Vec::new();
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            let is_whole = choice.message.is_some();
            if let Some(delta) = choice.delta.or(choice.message) {
                let texts = [delta.content, delta.refusal].into_iter().flatten();
                parts.extend(texts.filter(|text| !text.is_empty()).map(AnswerPart::Text));
                for (place, mut call) in (0..).zip(delta.tool_calls.unwrap_or_default()) {
                    if is_whole {
                        call.index = Some(place);
                    }
                    self.apply_call_delta(call)?;
                }
            }
            if let Some(reason) = choice.finish_reason {
                self.stop = Some(stop_reason(&reason));
            }
        }
        Ok(parts)
    }

    fn whole(&mut self, text: &str) -> Result<Vec<AnswerPart>, ModelError> {
        let mut parts = self.event(text)?;
        let end = self.end().map_err(|_| {
            ModelError::InvalidAnswer("it is JSON, and neither a stream of events nor an answer".to_owned())
        })?;
        parts.extend(end);
        Ok(parts)
    }

    /// Ends the answer. Not every service sends `[DONE]`; a stream that ended after a `finish_reason` is complete.
    fn end(&mut self) -> Result<Vec<AnswerPart>, ModelError> {
        let stop = self.stop.take();
        let stop = stop.ok_or_else(|| ModelError::CutOff("it does not say why it ended".to_owned()))?;
        let calls = std::mem::take(&mut self.calls).into_iter();
        let mut parts = Vec::new();
        for call in calls {
            if call.name.is_empty() {
                return Err(ModelError::InvalidAnswer("a call has no name".to_owned()));
            }
            parts.push(AnswerPart::Call(ModelCall {
                id: call.id,
                tool: tool_for_wire_name(&self.names, &call.name),
                arguments: call.arguments,
            }));
        }
        parts.push(AnswerPart::Usage(self.usage));
        parts.push(AnswerPart::Stop(stop));
        Ok(parts)
    }
}

impl Decoder {
    fn apply_call_delta(&mut self, delta: CallDelta) -> Result<(), ModelError> {
        let id = delta.id.filter(|id| !id.is_empty());
        let function = delta.function;
        let name = function.as_ref().and_then(|function| function.name.clone());
        let more = function.and_then(|function| function.arguments);
        let more = more.map(|more| argument_text(&more)).unwrap_or_default();
        self.bytes = self.bytes.saturating_add(more.len());
        if self.bytes > LARGEST_ANSWER {
            return Err(ModelError::TooLarge);
        }
        let is_full = self.calls.len() >= MOST_CALLS;
        match self.partial_call(delta.index, id.as_deref()) {
            Some(partial) => {
                partial.arguments.push_str(&more);
                if partial.name.is_empty() {
                    partial.name = name.unwrap_or_default();
                }
                if let Some(id) = id.filter(|_| partial.id.is_empty()) {
                    partial.id = id;
                }
            }
            None if is_full => {
                return Err(ModelError::InvalidAnswer("it has too many calls".to_owned()));
            }
            None => self.calls.push(PartialCall {
                index: delta.index,
                id: id.unwrap_or_default(),
                name: name.unwrap_or_default(),
                arguments: more,
            }),
        }
        Ok(())
    }

    /// Returns the call that a delta belongs to, or `None` if the delta begins a new call. Some services send no
    /// index, or always 0, and tell calls apart by id.
    fn partial_call(&mut self, index: Option<u64>, id: Option<&str>) -> Option<&mut PartialCall> {
        let is_other =
            |partial: &PartialCall| id.is_some_and(|id| !partial.id.is_empty() && partial.id != id);
        let found = match index {
            Some(_) => self.calls.iter().rposition(|partial| partial.index == index),
            None if id.is_some() => self.calls.iter().rposition(|partial| !is_other(partial)),
            None => self.calls.len().checked_sub(1),
        };
        self.calls.get_mut(found?).filter(|partial| !is_other(partial))
    }
}

/// Returns the arguments as text. Most services send a JSON string, some the JSON value itself.
fn argument_text(arguments: &RawValue) -> String {
    match serde_json::from_str::<Option<String>>(arguments.get()) {
        Ok(text) => text.unwrap_or_default(),
        Err(_) => arguments.get().to_owned(),
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "length" => StopReason::Length,
        "content_filter" => StopReason::Declined,
        _ => StopReason::Done,
    }
}
