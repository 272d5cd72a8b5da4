//! Chat completions, as OpenAI's API has them and many others too: Ollama, vLLM, llama.cpp, OpenRouter.
//!
//! Enters: a request. Leaves: what its stream of chunks says. Arguments are put together as text.

use hyper::http::header;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::sse::Event;
use super::wire::{self, Dialect, Endpoint, quote, sendable, tool_behind, wire_name, wire_names};
use super::{LARGEST_ANSWER, Model, ModelError, Part, Parts, Request, Stop, Usage};
use crate::message::{Message, ModelCall};

/// The most calls of one answer.
const MOST_CALLS: usize = 256;

/// A model behind chat completions.
#[derive(Clone, Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    model: String,
}

impl OpenAi {
    /// A model at a service: `https://api.openai.com/v1`, or the whole path to `…/chat/completions`.
    pub fn new(endpoint: Endpoint, model: &str) -> OpenAi {
        let endpoint = match endpoint.path() {
            path if path.ends_with("/chat/completions") => endpoint.at(path),
            "" => endpoint.at("/v1/chat/completions"),
            path => endpoint.at(&format!("{path}/chat/completions")),
        };
        OpenAi {
            endpoint,
            model: model.to_owned(),
        }
    }

    /// OpenAI's own newer models know only the new name of the limit, most others only the old one.
    fn limit(&self) -> &'static str {
        match self.endpoint.place().starts_with("api.openai.com:") {
            true => "max_completion_tokens",
            false => "max_tokens",
        }
    }
}

impl Model for OpenAi {
    fn answer(&self, request: Request) -> Parts {
        let names = wire_names(&request.tools);
        let body = body(&self.model, self.limit(), &request, &names);
        let decoder = Decoder {
            names,
            ..Decoder::default()
        };
        let headers = self.endpoint.headers(header::AUTHORIZATION, "Bearer ");
        self.endpoint.parts(headers, body, decoder)
    }

    fn name(&self) -> String {
        format!("{} at {}", self.model, self.endpoint.place())
    }
}

fn body(model: &str, limit: &str, request: &Request, names: &[(String, String)]) -> String {
    let system = format!(r#"{{"role":"system","content":{}}}"#, quote(&request.system));
    let messages = request.messages.iter().flat_map(messages);
    let messages: Vec<String> = std::iter::once(system).chain(messages).collect();
    let mut body = format!(
        r#"{{"model":{},"{limit}":{},"stream":true,"stream_options":{{"include_usage":true}},"messages":[{}]"#,
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

fn messages(message: &Message) -> Vec<String> {
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
                    quote(sendable(&call.arguments))
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

/// One answer on its way.
#[derive(Default)]
struct Decoder {
    names: Vec<(String, String)>,
    calls: Vec<Open>,
    usage: Usage,
    stop: Option<Stop>,
    bytes: usize,
}

/// A call whose arguments are still to come.
struct Open {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Used>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Used {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<Delta>,
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

impl Dialect for Decoder {
    fn event(&mut self, event: Event) -> Result<Vec<Part>, ModelError> {
        if event.data.trim() == "[DONE]" {
            return self.end();
        }
        let chunk: Chunk = serde_json::from_str(&event.data)
            .map_err(|error| ModelError::Garbage(wire::clip(&format!("a chunk of it: {error}"))))?;
        if chunk.error.is_some_and(|error| error.get() != "null") {
            let message = wire::error_in(&event.data).unwrap_or_else(|| wire::clip(&event.data));
            return Err(ModelError::Failed(message));
        }
        if let Some(used) = chunk.usage {
            self.usage.input = used.prompt_tokens.unwrap_or(self.usage.input);
            self.usage.output = used.completion_tokens.unwrap_or(self.usage.output);
        }
        let mut parts = Vec::new();
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                let words = [delta.content, delta.refusal].into_iter().flatten();
                parts.extend(words.filter(|text| !text.is_empty()).map(Part::Text));
                for call in delta.tool_calls.unwrap_or_default() {
                    self.call(call)?;
                }
            }
            if let Some(reason) = choice.finish_reason {
                self.stop = Some(stop(&reason));
            }
        }
        Ok(parts)
    }

    /// Not every service says `[DONE]`; one that said why it ended is done when its stream is.
    fn end(&mut self) -> Result<Vec<Part>, ModelError> {
        let stop = self.stop.take();
        let stop = stop.ok_or_else(|| ModelError::CutOff("it does not say why it ended".to_owned()))?;
        let calls = std::mem::take(&mut self.calls).into_iter();
        let mut parts = Vec::new();
        for call in calls {
            if call.name.is_empty() {
                return Err(ModelError::Garbage("a call has no name".to_owned()));
            }
            parts.push(Part::Call(ModelCall {
                id: call.id,
                tool: tool_behind(&self.names, &call.name),
                arguments: call.arguments,
            }));
        }
        parts.push(Part::Usage(self.usage));
        parts.push(Part::Stop(stop));
        Ok(parts)
    }
}

impl Decoder {
    fn call(&mut self, delta: CallDelta) -> Result<(), ModelError> {
        let id = delta.id.filter(|id| !id.is_empty());
        let function = delta.function;
        let name = function.as_ref().and_then(|function| function.name.clone());
        let more = function.and_then(|function| function.arguments);
        let more = more.map(|more| written(&more)).unwrap_or_default();
        self.bytes = self.bytes.saturating_add(more.len());
        if self.bytes > LARGEST_ANSWER {
            return Err(ModelError::TooLarge);
        }
        let is_full = self.calls.len() >= MOST_CALLS;
        match self.open(delta.index, id.as_deref()) {
            Some(open) => {
                open.arguments.push_str(&more);
                if open.name.is_empty() {
                    open.name = name.unwrap_or_default();
                }
                if let Some(id) = id.filter(|_| open.id.is_empty()) {
                    open.id = id;
                }
            }
            None if is_full => {
                return Err(ModelError::Garbage("it has too many calls".to_owned()));
            }
            None => self.calls.push(Open {
                index: delta.index,
                id: id.unwrap_or_default(),
                name: name.unwrap_or_default(),
                arguments: more,
            }),
        }
        Ok(())
    }

    /// The call a piece belongs to. Some services number nothing, or everything 0, and tell calls apart by id.
    fn open(&mut self, index: Option<u64>, id: Option<&str>) -> Option<&mut Open> {
        let is_other = |open: &Open| id.is_some_and(|id| !open.id.is_empty() && open.id != id);
        let found = match index {
            Some(_) => self.calls.iter().rposition(|open| open.index == index),
            None if id.is_some() => self.calls.iter().rposition(|open| !is_other(open)),
            None => self.calls.len().checked_sub(1),
        };
        self.calls.get_mut(found?).filter(|open| !is_other(open))
    }
}

/// What a model wrote as arguments: a text, or from some services the JSON itself.
fn written(arguments: &RawValue) -> String {
    match serde_json::from_str::<Option<String>>(arguments.get()) {
        Ok(text) => text.unwrap_or_default(),
        Err(_) => arguments.get().to_owned(),
    }
}

fn stop(reason: &str) -> Stop {
    match reason {
        "length" => Stop::Length,
        "content_filter" => Stop::Declined,
        _ => Stop::Done,
    }
}
