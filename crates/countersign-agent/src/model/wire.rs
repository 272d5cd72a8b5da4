//! Calling a model's service: one request, retried only until the first byte of an answer, and a stream of events.
//!
//! Enters: where, with which key, and a body. Leaves: parts, as a dialect reads them from the events.
//! Deliberately absent: what requests and events say; see the dialects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Bytes;
use hyper::http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::sse::{BadStream, Event, Reader};
use super::{ModelError, Part, Parts};
use crate::client::{Allowed, Client, NoAnswer, Opened, Target};

/// The most bytes of one stream, with everything around the words.
const LARGEST_STREAM: usize = 64 * 1024 * 1024;
/// The most bytes of an error that are read, and the most characters of it that are told.
const LARGEST_ERROR: usize = 64 * 1024;
const LONGEST_MESSAGE: usize = 300;
/// However long a service wants us to wait, we do not wait longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A key for a model's service. It does not print itself.
#[derive(Clone)]
pub struct ApiKey(Arc<str>);

impl ApiKey {
    /// Takes a key.
    pub fn new(key: &str) -> ApiKey {
        ApiKey(Arc::from(key.trim()))
    }

    fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiKey(hidden)")
    }
}

/// How long to wait for what, and how often to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// For the first byte of an answer.
    pub first_byte: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
    /// How often a request is sent at most.
    pub tries: u32,
    /// Before the second try; twice as long before each one after it.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            tries: 4,
            pause: Duration::from_millis(500),
        }
    }
}

/// Where a model is.
#[derive(Clone, Debug)]
pub struct Endpoint {
    target: Target,
    client: Client,
    pub(super) key: Option<ApiKey>,
    patience: Patience,
}

impl Endpoint {
    /// A service at an address. Whoever names it may name one on a private network.
    pub fn new(url: &str, key: Option<ApiKey>, patience: Patience) -> Result<Endpoint, String> {
        let target = Target::parse(url)?;
        if key.is_some() && target.is_open_to_others() {
            return Err(format!(
                "`{url}` would send the key where others can read it: use https"
            ));
        }
        let client = Client::new(Allowed::named(target.place()), LARGEST_ERROR);
        Ok(Endpoint {
            client: client.connecting_within(patience.connect),
            target,
            key,
            patience,
        })
    }

    /// The address's path, without a slash at its end.
    pub(super) fn path(&self) -> &str {
        self.target.path().trim_end_matches('/')
    }

    /// The same service, another path.
    pub(super) fn at(&self, path: &str) -> Endpoint {
        Endpoint {
            target: self.target.at(path),
            ..self.clone()
        }
    }

    /// `HOST:PORT`.
    pub(super) fn place(&self) -> String {
        self.target.place()
    }

    /// Sends a body and gives what the dialect reads from the answer.
    pub(super) fn parts(&self, headers: HeaderMap, body: String, dialect: impl Dialect) -> Parts {
        let start = State::Start {
            endpoint: self.clone(),
            headers,
            body: Bytes::from(body),
            dialect: Box::new(dialect),
        };
        let parts = stream::unfold(start, |state| async move {
            match state.next().await {
                Ok((part, state)) => part.map(|part| (Ok(part), state)),
                Err(error) => Some((Err(error), State::Over)),
            }
        });
        parts.boxed()
    }

    async fn open(&self, headers: &HeaderMap, body: &Bytes) -> Result<Opened, ModelError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let answered = self
                .client
                .open(Method::POST, &self.target, headers.clone(), body.clone());
            let (error, pause) = match tokio::time::timeout(self.patience.first_byte, answered).await {
                Ok(Ok(opened)) if opened.status == 200 => return Ok(opened),
                Ok(Ok(opened)) => {
                    let pause = retry_after(&opened.headers);
                    let is_passing = matches!(opened.status, 408 | 429 | 500..=599);
                    let error = told(opened).await;
                    if !is_passing {
                        return Err(error);
                    }
                    (error, pause)
                }
                Ok(Err(NoAnswer::NotSent(reason) | NoAnswer::Unknown(reason))) => {
                    (ModelError::Unreachable(reason), None)
                }
                // Whoever let us wait this long once is not asked again.
                Err(_) => return Err(ModelError::TimedOut(self.patience.first_byte)),
            };
            if tries >= self.patience.tries {
                return Err(error);
            }
            let usual = self.patience.pause.saturating_mul(1 << tries.min(10)) / 2;
            tokio::time::sleep(pause.unwrap_or(usual).min(LONGEST_PAUSE)).await;
        }
    }

    /// What every request carries: that JSON goes and events come, and the key in the header its service wants it in.
    pub(super) fn headers(&self, name: HeaderName, scheme: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let key = self.key.as_ref();
        let key = key.map(|key| HeaderValue::from_str(&format!("{scheme}{}", key.reveal())));
        if let Some(Ok(mut key)) = key {
            key.set_sensitive(true);
            headers.insert(name, key);
        }
        headers
    }
}

/// Reads the events of one kind of service.
pub(super) trait Dialect: Send + 'static {
    /// What an event adds.
    fn event(&mut self, event: Event) -> Result<Vec<Part>, ModelError>;

    /// What the end of the stream adds, where that is an end.
    fn end(&mut self) -> Result<Vec<Part>, ModelError>;
}

enum State {
    Start {
        endpoint: Endpoint,
        headers: HeaderMap,
        body: Bytes,
        dialect: Box<dyn Dialect>,
    },
    Reading(Reading),
    Over,
}

struct Reading {
    opened: Opened,
    idle: Duration,
    reader: Reader,
    dialect: Box<dyn Dialect>,
    ready: VecDeque<Part>,
    bytes: usize,
}

impl State {
    async fn next(self) -> Result<(Option<Part>, State), ModelError> {
        let mut reading = match self {
            State::Over => return Ok((None, State::Over)),
            State::Reading(reading) => reading,
            State::Start {
                endpoint,
                headers,
                body,
                dialect,
            } => {
                let opened = endpoint.open(&headers, &body).await?;
                is_stream(&opened.headers)?;
                Reading {
                    opened,
                    idle: endpoint.patience.idle,
                    reader: Reader::default(),
                    dialect,
                    ready: VecDeque::new(),
                    bytes: 0,
                }
            }
        };
        loop {
            if let Some(part) = reading.ready.pop_front() {
                // Behind its end an answer has nothing more to say.
                return Ok(match part {
                    Part::Stop(_) => (Some(part), State::Over),
                    part => (Some(part), State::Reading(reading)),
                });
            }
            if reading.read().await? {
                return Err(ModelError::CutOff("the stream ended early".to_owned()));
            }
        }
    }
}

impl Reading {
    /// Reads some more. True when there is no more, and nothing came of it.
    async fn read(&mut self) -> Result<bool, ModelError> {
        let frame = tokio::time::timeout(self.idle, self.opened.body.frame())
            .await
            .map_err(|_| ModelError::TimedOut(self.idle))?;
        let Some(frame) = frame else {
            self.ready.extend(self.dialect.end()?);
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
        let events = self.reader.push(&piece).map_err(|bad| match bad {
            BadStream::TooLarge => ModelError::TooLarge,
            BadStream::NotText => ModelError::Garbage("it is not UTF-8".to_owned()),
        })?;
        for event in events {
            self.ready.extend(self.dialect.event(event)?);
        }
        Ok(false)
    }
}

fn is_stream(headers: &HeaderMap) -> Result<(), ModelError> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let kind = kind.to_str().unwrap_or("?");
    match kind.trim_start().starts_with("text/event-stream") {
        true => Ok(()),
        false => Err(ModelError::Garbage(format!(
            "it is `{}`, not a stream of events",
            clip(kind)
        ))),
    }
}

/// How long the service asks us to wait, where it says so in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// What a service says about its refusal.
async fn told(opened: Opened) -> ModelError {
    let status = opened.status;
    let body = Limited::new(opened.body, LARGEST_ERROR).collect();
    let body = tokio::time::timeout(Duration::from_secs(5), body).await;
    let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes());
    let text = String::from_utf8_lossy(body.as_deref().unwrap_or_default()).into_owned();
    ModelError::Status {
        status,
        message: error_in(&text).unwrap_or_else(|| clip(text.trim())),
    }
}

/// The message of `{"error": {"message"}}`, which both dialects use.
pub(super) fn error_in(text: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let error = value.get("error")?;
    let message = error.get("message").unwrap_or(error).as_str()?;
    Some(match error.get("type").and_then(serde_json::Value::as_str) {
        Some(kind) => clip(&format!("{message} ({kind})")),
        None => clip(message),
    })
}

pub(super) fn clip(text: &str) -> String {
    text.chars().take(LONGEST_MESSAGE).collect()
}

/// A tool's name as services take it: letters, digits, `_` and `-` only.
pub(super) fn wire_name(tool: &str) -> String {
    let letter = |c: char| match c.is_ascii_alphanumeric() || c == '_' || c == '-' {
        true => c,
        false => '_',
    };
    tool.chars().map(letter).take(64).collect()
}

/// The tools of a request by the names the service knows them by. Where two would have one name, both are told apart
/// by their number.
pub(super) fn wire_names(tools: &[Arc<crate::tool::Tool>]) -> Vec<(String, String)> {
    let mut names: Vec<(String, String)> = Vec::with_capacity(tools.len());
    for (number, tool) in tools.iter().enumerate() {
        let mut name = wire_name(tool.name.as_str());
        if names.iter().any(|(known, _)| *known == name) {
            name = format!("{}_{number}", name.chars().take(58).collect::<String>());
        }
        names.push((name, tool.name.as_str().to_owned()));
    }
    names
}

/// The tool behind a name; one that nobody offered keeps the name it came with.
pub(super) fn tool_behind(names: &[(String, String)], name: &str) -> String {
    let found = names.iter().find(|(known, _)| known == name);
    found.map_or_else(|| name.to_owned(), |(_, tool)| tool.clone())
}

pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Arguments that a service will take back in a conversation: what cannot be read is not sent again.
pub(super) fn sendable(arguments: &str) -> &str {
    match countersign::call::Arguments::parse(arguments.as_bytes()) {
        Ok(_) => arguments,
        Err(_) => "{}",
    }
}
