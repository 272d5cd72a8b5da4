//! HTTP transport to a model's API: one streamed request, retried until a response has started.
//!
//! Input: an endpoint, headers and a body. Output: answer parts, which an [`EventDecoder`] decodes from the events. The
//! formats of requests and events are in `anthropic` and `openai`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use countersign_http_client::events::EventReader;
use countersign_http_client::{AllowedTargets, Client, Proxy, RequestError, StreamedResponse, Target};
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Bytes;
use hyper::http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::{AnswerPart, AnswerStream, ModelError};

/// Maximum bytes of one stream, including the framing around the text.
const LARGEST_STREAM: usize = 64 * 1024 * 1024;
/// Maximum bytes of an event.
const LARGEST_EVENT: usize = 2 * 1024 * 1024;
/// Maximum bytes of an error response that are read, and maximum characters of it that are shown.
const LARGEST_ERROR: usize = 64 * 1024;
const LONGEST_MESSAGE: usize = 300;
/// Maximum pause before a retry, whatever `Retry-After` says.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// API key of a model provider. `Debug` does not print it.
#[derive(Clone)]
pub struct ApiKey(Arc<str>);

impl ApiKey {
    /// Creates a key, without surrounding whitespace.
    pub fn new(key: &str) -> ApiKey {
        ApiKey(Arc::from(key.trim()))
    }

    fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiKey(hidden)")
    }
}

/// Timeouts and retries of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Timeout for connecting.
    pub connect: Duration,
    /// Timeout for the response headers.
    pub first_byte: Duration,
    /// Timeout between two chunks of the response.
    pub idle: Duration,
    /// Maximum number of attempts.
    pub attempts: u32,
    /// Pause before the second attempt; doubled before each further one.
    pub pause: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            attempts: 4,
            pause: Duration::from_millis(500),
        }
    }
}

/// Address and credentials of a model's API.
#[derive(Clone, Debug)]
pub struct Endpoint {
    target: Target,
    client: Client,
    pub(super) key: Option<ApiKey>,
    retry_policy: RetryPolicy,
}

impl Endpoint {
    /// Creates an endpoint, which may be on a private network. Fails if the key would be sent over plain HTTP to
    /// another machine.
    pub fn new(url: &str, key: Option<ApiKey>, retry_policy: RetryPolicy) -> Result<Endpoint, String> {
        let target = Target::parse(url)?;
        if key.is_some() && target.is_remote_plaintext() {
            return Err(format!("`{url}` would send the key unencrypted: use https"));
        }
        let client = Client::new(AllowedTargets::one(target.host_and_port()), LARGEST_ERROR);
        Ok(Endpoint {
            client: client.with_connect_timeout(retry_policy.connect),
            target,
            key,
            retry_policy,
        })
    }

    /// Sends requests through a proxy, if one is given. Plain HTTP requests and requests to this machine never use the
    /// proxy.
    pub fn with_proxy(self, proxy: Option<Proxy>) -> Endpoint {
        Endpoint {
            client: self.client.with_proxy(proxy),
            ..self
        }
    }

    /// Returns the path without a trailing slash.
    pub(super) fn path(&self) -> &str {
        self.target.path().trim_end_matches('/')
    }

    /// Returns the same endpoint with another path.
    pub(super) fn with_path(&self, path: &str) -> Endpoint {
        Endpoint {
            target: self.target.with_path(path),
            ..self.clone()
        }
    }

    /// Returns `HOST:PORT`.
    pub(super) fn host_and_port(&self) -> String {
        self.target.host_and_port()
    }

    /// Sends a request with this body and returns the parts that `decoder` finds in the response.
    ///
    /// `whole_body` is the same request for an answer that is not streamed. It is sent if the service responds that it
    /// does not stream this model.
    pub(super) fn parts(
        &self,
        headers: HeaderMap,
        body: String,
        whole_body: String,
        decoder: impl EventDecoder,
    ) -> AnswerStream {
        let start = StreamState::Start {
            endpoint: self.clone(),
            headers,
            body: Bytes::from(body),
            whole_body: Bytes::from(whole_body),
            decoder: Box::new(decoder),
        };
        let parts = stream::unfold(start, |state| async move {
            match state.next().await {
                Ok((part, state)) => part.map(|part| (Ok(part), state)),
                Err(error) => Some((Err(error), StreamState::Ended)),
            }
        });
        parts.boxed()
    }

    async fn open(&self, headers: &HeaderMap, body: &Bytes) -> Result<StreamedResponse, ModelError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let answered = self
                .client
                .open(Method::POST, &self.target, headers.clone(), body.clone());
            let (error, pause) = match tokio::time::timeout(self.retry_policy.first_byte, answered).await {
                Ok(Ok(response)) if response.status == 200 => return Ok(response),
                Ok(Ok(response)) => {
                    let pause = retry_after(&response.headers);
                    let is_transient = matches!(response.status, 408 | 429 | 500..=599);
                    let error = read_error_response(response).await;
                    if !is_transient || matches!(error, ModelError::TooLong(_)) {
                        return Err(error);
                    }
                    (error, pause)
                }
                Ok(Err(RequestError::NotSent(reason) | RequestError::Unknown(reason))) => {
                    (ModelError::Unreachable(reason), None)
                }
                // A timeout is not retried: the person has already waited this long.
                Err(_) => return Err(ModelError::TimedOut(self.retry_policy.first_byte)),
            };
            if attempts >= self.retry_policy.attempts {
                return Err(error);
            }
            let backoff = self.retry_policy.pause.saturating_mul(1 << attempts.min(10)) / 2;
            tokio::time::sleep(pause.unwrap_or(backoff).min(LONGEST_PAUSE)).await;
        }
    }

    /// Returns the headers of every request: content types, and the key in the header that the API expects.
    pub(super) fn headers(&self, name: HeaderName, scheme: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let key = self.key.as_ref();
        let key = key.map(|key| HeaderValue::from_str(&format!("{scheme}{}", key.expose())));
        if let Some(Ok(mut key)) = key {
            key.set_sensitive(true);
            headers.insert(name, key);
        }
        headers
    }
}

/// Decoder for the events of one API.
pub(super) trait EventDecoder: Send + 'static {
    /// Returns the answer parts that are complete after an event with this data.
    fn event(&mut self, data: &str) -> Result<Vec<AnswerPart>, ModelError>;

    /// Returns the parts of an answer that was not streamed, with [`AnswerPart::Stop`] as the last one.
    fn whole(&mut self, text: &str) -> Result<Vec<AnswerPart>, ModelError>;

    /// Handles the end of the stream. Fails if the answer is not complete.
    fn end(&mut self) -> Result<Vec<AnswerPart>, ModelError>;
}

enum StreamState {
    Start {
        endpoint: Endpoint,
        headers: HeaderMap,
        body: Bytes,
        whole_body: Bytes,
        decoder: Box<dyn EventDecoder>,
    },
    Reading(ResponseReader),
    /// The whole answer has arrived at once.
    Whole(VecDeque<AnswerPart>),
    Ended,
}

struct ResponseReader {
    response: StreamedResponse,
    idle: Duration,
    reader: EventReader,
    decoder: Box<dyn EventDecoder>,
    ready: VecDeque<AnswerPart>,
    bytes: usize,
}

impl StreamState {
    async fn next(self) -> Result<(Option<AnswerPart>, StreamState), ModelError> {
        let mut reader = match self {
            StreamState::Ended => return Ok((None, StreamState::Ended)),
            StreamState::Reading(reader) => reader,
            StreamState::Whole(mut parts) => {
                let part = parts.pop_front();
                return Ok((part, StreamState::Whole(parts)));
            }
            StreamState::Start {
                endpoint,
                headers,
                body,
                whole_body,
                mut decoder,
            } => {
                let response = match endpoint.open(&headers, &body).await {
                    Err(ModelError::Status { message, .. }) if refuses_streaming(&message) => {
                        endpoint.open(&headers, &whole_body).await?
                    }
                    opened => opened?,
                };
                if is_json(&response.headers) {
                    let text = read_whole(response, endpoint.retry_policy.first_byte).await?;
                    let mut parts = VecDeque::from(decoder.whole(&text)?);
                    let part = parts.pop_front();
                    return Ok((part, StreamState::Whole(parts)));
                }
                check_content_type(&response.headers)?;
                ResponseReader {
                    response,
                    idle: endpoint.retry_policy.idle,
                    reader: EventReader::new(LARGEST_EVENT),
                    decoder,
                    ready: VecDeque::new(),
                    bytes: 0,
                }
            }
        };
        loop {
            if let Some(part) = reader.ready.pop_front() {
                // Everything after the end of the answer is ignored.
                return Ok(match part {
                    AnswerPart::Stop(_) => (Some(part), StreamState::Ended),
                    part => (Some(part), StreamState::Reading(reader)),
                });
            }
            if reader.read().await? {
                return Err(ModelError::CutOff("the stream ended early".to_owned()));
            }
        }
    }
}

impl ResponseReader {
    /// Reads the next chunk. Returns true if the stream has ended and no part is left.
    async fn read(&mut self) -> Result<bool, ModelError> {
        let frame = tokio::time::timeout(self.idle, self.response.body.frame())
            .await
            .map_err(|_| ModelError::TimedOut(self.idle))?;
        let Some(frame) = frame else {
            self.ready.extend(self.decoder.end()?);
            return Ok(self.ready.is_empty());
        };
        let frame = frame.map_err(|error| ModelError::CutOff(error.to_string()))?;
        let Ok(piece) = frame.into_data() else {
            return Ok(false);
        };
        self.bytes = self.bytes.saturating_add(piece.len());
        if self.bytes > LARGEST_STREAM {
            return Err(ModelError::TooLarge);
        }
        self.reader.push(&piece);
        while let Some(event) = self.reader.next_event().map_err(|_| ModelError::TooLarge)? {
            let Some(data) = &event.data else {
                continue;
            };
            let data = std::str::from_utf8(data)
                .map_err(|_| ModelError::InvalidAnswer("it is not UTF-8".to_owned()))?;
            self.ready.extend(self.decoder.event(data)?);
        }
        Ok(false)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.trim_start().starts_with("application/json")
}

/// Reads an answer that is not streamed.
async fn read_whole(response: StreamedResponse, within: Duration) -> Result<String, ModelError> {
    let body = Limited::new(response, 2 * super::LARGEST_ANSWER).collect();
    let body = tokio::time::timeout(within, body)
        .await
        .map_err(|_| ModelError::TimedOut(within))?;
    let body = body.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
        true => ModelError::TooLarge,
        false => ModelError::CutOff(error.to_string()),
    })?;
    String::from_utf8(body.to_bytes().into())
        .map_err(|_| ModelError::InvalidAnswer("it is not UTF-8".to_owned()))
}

fn check_content_type(headers: &HeaderMap) -> Result<(), ModelError> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let kind = kind.to_str().unwrap_or("?");
    match kind.trim_start().starts_with("text/event-stream") {
        true => Ok(()),
        false => Err(ModelError::InvalidAnswer(format!(
            "it is `{}`, not a stream of events",
            truncate(kind)
        ))),
    }
}

/// Returns the `Retry-After` header if it is a number of seconds; `None` if it is a date or missing.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// Reads the body of an error response, up to [`LARGEST_ERROR`] bytes, and converts it to an error.
async fn read_error_response(response: StreamedResponse) -> ModelError {
    let status = response.status;
    let body = Limited::new(response.body, LARGEST_ERROR).collect();
    let body = tokio::time::timeout(Duration::from_secs(5), body).await;
    let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes());
    let text = String::from_utf8_lossy(body.as_deref().unwrap_or_default()).into_owned();
    let message = error_message(&text).unwrap_or_else(|| truncate(text.trim()));
    match status >= 400 && is_too_long(&text) {
        true => ModelError::TooLong(message),
        false => ModelError::Status { status, message },
    }
}

/// Returns true if an error says that the request does not fit into the model's context. Only OpenAI has a code for it;
/// the other services are known by their wording.
pub(super) fn is_too_long(error: &str) -> bool {
    const SIGNS: [&str; 9] = [
        // OpenAI.
        "context_length_exceeded",
        // OpenAI, vLLM, DeepSeek.
        "maximum context length",
        // llama.cpp, by type and by message; with status 400 or 500, or within a stream.
        "exceed_context_size_error",
        "exceeds the available context size",
        // Anthropic: the conversation alone, with the answer, and a body that is too large.
        "prompt is too long",
        "exceed context limit",
        "request_too_large",
        // vLLM, when nothing is left for the answer.
        "max_tokens must be at least 1, got -",
        // llama-cpp-python.
        "exceed context window",
    ];
    let error = error.to_lowercase();
    SIGNS.iter().any(|sign| error.contains(sign))
}

/// Returns true if an error says that the service does not stream this model.
fn refuses_streaming(message: &str) -> bool {
    const SIGNS: [&str; 5] = [
        "not support",
        "unsupported",
        "must be verified",
        "not allowed",
        "not available",
    ];
    let message = message.to_lowercase();
    message.contains("stream") && SIGNS.iter().any(|sign| message.contains(sign))
}

/// Returns the message in `{"error": {"message"}}`, the error format of both APIs, or in `{"message"}`, that of older
/// versions of vLLM; `None` if the text has another format.
pub(super) fn error_message(text: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let error = value
        .get("error")
        .or_else(|| value.get("message").and(Some(&value)))?;
    let message = error.get("message").unwrap_or(error).as_str()?;
    Some(match error.get("type").and_then(serde_json::Value::as_str) {
        Some(kind) => truncate(&format!("{message} ({kind})")),
        None => truncate(message),
    })
}

pub(super) fn truncate(text: &str) -> String {
    text.chars().take(LONGEST_MESSAGE).collect()
}

/// Converts a tool's name to one that the APIs accept: letters, digits, `_` and `-`, at most 64 characters. Any other
/// character becomes `_`.
pub(super) fn wire_name(tool: &str) -> String {
    let letter = |c: char| match c.is_ascii_alphanumeric() || c == '_' || c == '-' {
        true => c,
        false => '_',
    };
    tool.chars().map(letter).take(64).collect()
}

/// Returns pairs of the name sent to the API and the tool's own name. If two tools would get the same name, the later
/// one gets a number appended.
pub(super) fn wire_names(tools: &[Arc<crate::tool::Tool>]) -> Vec<(String, String)> {
    let mut names: Vec<(String, String)> = Vec::with_capacity(tools.len());
    for (number, tool) in tools.iter().enumerate() {
        let mut name = wire_name(tool.name.as_str());
        if names.iter().any(|(taken, _)| *taken == name) {
            name = format!("{}_{number}", name.chars().take(58).collect::<String>());
        }
        names.push((name, tool.name.as_str().to_owned()));
    }
    names
}

/// Returns the tool's own name for a name that the API sent. A name that was not offered is returned unchanged.
pub(super) fn tool_for_wire_name(names: &[(String, String)], name: &str) -> String {
    let found = names.iter().find(|(taken, _)| taken == name);
    found.map_or_else(|| name.to_owned(), |(_, tool)| tool.clone())
}

pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns arguments that can be sent back to the API. Invalid JSON is replaced with `{}`.
pub(super) fn valid_arguments(arguments: &str) -> &str {
    match countersign::call::Arguments::parse(arguments.as_bytes()) {
        Ok(_) => arguments,
        Err(_) => "{}",
    }
}
