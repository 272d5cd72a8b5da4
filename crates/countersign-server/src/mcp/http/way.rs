//! The way to a server at an address: each message is a request of its own, and answers come as one message or as a
//! stream of them.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;

use super::events::Events;
use crate::client::{Allowed, Client, NoAnswer, Opened, Target};
use crate::failure::Failure;
use crate::mcp::frame::{Frame, Id, Kind, LONGEST, pick};
use crate::mcp::lines::Read;
use crate::mcp::one_line::OneLine;
use crate::mcp::server::{Gone, Headers, Lost, Upstream};
use crate::output;

/// Names a conversation with a server.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The version that is spoken.
pub const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// An address, and what to show there.
#[derive(Clone)]
pub struct Way {
    client: Client,
    target: Target,
    token: Option<HeaderValue>,
}

/// What a server at an address lets us hear.
#[derive(Debug)]
pub enum Heard {
    /// A message, or bytes that are none.
    Message(Read),
    /// This request will not be answered.
    Lost(Id, Lost),
}

impl Way {
    /// Takes an address apart; the token is shown to nobody else.
    pub fn new(url: &str, token: Option<&str>) -> Result<Way, Failure> {
        let target = Target::parse(url).map_err(Failure::usage)?;
        if target.is_open_to_others() && token.is_some() {
            return Err(Failure::error(
                "not_secure",
                format!("a token would travel to `{url}` in the clear"),
            )
            .hint("use https://, or a server on this machine"));
        }
        let token = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")));
        let token = token
            .transpose()
            .map_err(|_| Failure::error("bad_token", "the server's token is no text"))?;
        Ok(Way {
            client: Client::new(Allowed::named(target.place()), LONGEST),
            target,
            token,
        })
    }

    /// One request there; without a message, the body is empty.
    pub async fn open(
        &self,
        method: Method,
        mut headers: HeaderMap,
        body: &OneLine,
    ) -> Result<Opened, NoAnswer> {
        if let Some(token) = &self.token {
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        self.client
            .open(method, &self.target, headers, body.bytes())
            .await
    }
}

/// A conversation with a server at an address.
pub struct HttpUpstream {
    way: Way,
    heard: mpsc::Sender<Heard>,
    headers: Arc<Mutex<HeaderMap>>,
}

impl HttpUpstream {
    /// What comes goes to `heard`. The headers are those of the conversation.
    pub fn new(way: Way, heard: mpsc::Sender<Heard>, headers: Arc<Mutex<HeaderMap>>) -> HttpUpstream {
        HttpUpstream { way, heard, headers }
    }

    fn headers(&self, frame: Option<&Frame>) -> HeaderMap {
        let mut headers = self
            .headers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        if let Some(frame) = frame {
            describe(frame, &mut headers);
        }
        headers
    }
}

impl Upstream for HttpUpstream {
    fn set_headers(&self, headers: Vec<(HeaderName, HeaderValue)>) {
        let mut kept = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(headers.into_iter().map(|(name, value)| (Some(name), value)));
    }

    fn has_headers(&self) -> bool {
        true
    }

    fn send(&self, line: OneLine) -> BoxFuture<'_, Result<(), Gone>> {
        self.send_with(line, Vec::new())
    }

    fn send_with(&self, line: OneLine, also: Headers) -> BoxFuture<'_, Result<(), Gone>> {
        let frame = Frame::again(line.clone()).ok();
        let mut headers = self.headers(frame.as_ref());
        headers.extend(also.into_iter().map(|(name, value)| (Some(name), value)));
        let (way, heard, kept) = (self.way.clone(), self.heard.clone(), self.headers.clone());
        let is_greeted = matches!(frame.as_ref().map(|frame| &frame.kind),
            Some(Kind::Notification { method }) if method == "notifications/initialized");
        tokio::spawn(async move {
            let id = match frame.map(|frame| frame.kind) {
                Some(Kind::Request { id, .. }) => Some(id),
                _ => None,
            };
            let mut exchange = Exchange {
                heard: &heard,
                headers: &kept,
                id: id.as_ref(),
                is_answered: false,
            };
            let lost = match exchange.run(&way, headers, line).await {
                Ok(()) => Lost::Unknown("the server ended its answer before it was one".to_owned()),
                Err(NoAnswer::NotSent(why)) => Lost::NotSent(why),
                Err(NoAnswer::Unknown(why)) => Lost::Unknown(why),
            };
            let is_answered = exchange.is_answered;
            if let Some(id) = id.filter(|_| !is_answered) {
                let _ = heard.send(Heard::Lost(id, lost)).await;
            }
            if is_greeted {
                listen(&way, &heard, &kept).await;
            }
        });
        async { Ok(()) }.boxed()
    }
}

/// Hears what a server says of itself, if it says anything.
async fn listen(way: &Way, heard: &mpsc::Sender<Heard>, kept: &Mutex<HeaderMap>) {
    let mut headers = kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let Ok(mut opened) = way.open(Method::GET, headers, &OneLine::default()).await else {
        return;
    };
    let mut exchange = Exchange {
        heard,
        headers: kept,
        id: None,
        is_answered: false,
    };
    if opened.status == 200 && is_stream(&opened.headers) {
        let _ = exchange.stream(&mut opened).await;
    }
}

/// One message and what comes of it.
struct Exchange<'e> {
    heard: &'e mpsc::Sender<Heard>,
    headers: &'e Mutex<HeaderMap>,
    id: Option<&'e Id>,
    is_answered: bool,
}

impl Exchange<'_> {
    async fn run(&mut self, way: &Way, headers: HeaderMap, line: OneLine) -> Result<(), NoAnswer> {
        let mut opened = way.open(Method::POST, headers, &line).await?;
        if let Some(session) = opened.headers.get(SESSION) {
            self.keep(SESSION, session.clone());
        }
        if is_stream(&opened.headers) {
            return self.stream(&mut opened).await;
        }
        let mut whole = Vec::new();
        while let Some(piece) = opened.body.frame().await {
            let piece = piece.map_err(|error| NoAnswer::Unknown(error.to_string()))?;
            whole.extend_from_slice(&piece.into_data().unwrap_or_default());
            if whole.len() > LONGEST {
                return Err(NoAnswer::Unknown("the answer is too large".to_owned()));
            }
        }
        // An error need not be a message.
        match opened.status {
            400.. => self.hear(Frame::read(whole.into())).await,
            _ => self.message(whole.into()).await?,
        }
        match opened.status {
            _ if self.is_answered => Ok(()),
            // It was refused before it was looked at.
            401 | 403 | 404 | 405 | 406 | 415 => {
                Err(NoAnswer::NotSent(format!("the server answers {}", opened.status)))
            }
            400.. => Err(NoAnswer::Unknown(format!("the server answers {}", opened.status))),
            _ => Ok(()),
        }
    }

    async fn stream(&mut self, opened: &mut Opened) -> Result<(), NoAnswer> {
        let mut events = Events::default();
        while let Some(piece) = opened.body.frame().await {
            let piece = piece.map_err(|error| NoAnswer::Unknown(error.to_string()))?;
            if !events.push(&piece.into_data().unwrap_or_default()) {
                return Err(NoAnswer::Unknown("the answer is too large".to_owned()));
            }
            while let Some(event) = events.take() {
                if let Some(message) = event.message() {
                    self.message(message).await?;
                }
            }
        }
        Ok(())
    }

    /// Hears one message. Bytes that are none are passed to nobody, and end the request that they came in answer to.
    async fn message(&mut self, message: Bytes) -> Result<(), NoAnswer> {
        let read = Frame::read(message);
        let problem = match &read {
            Err(bad) if !bad.is_blank() => Some(bad.problem().clone()),
            _ => None,
        };
        self.hear(read).await;
        let Some(problem) = problem else {
            return Ok(());
        };
        output::beside(&format!(
            "countersign: a message of a server was not passed on: {problem}"
        ));
        match self.id.is_some() && !self.is_answered {
            true => Err(NoAnswer::Unknown(format!(
                "the server's answer could not be read: {problem}"
            ))),
            false => Ok(()),
        }
    }

    async fn hear(&mut self, read: Read) {
        let Ok(frame) = read else {
            return;
        };
        if let Kind::Response { id } = &frame.kind
            && Some(id) == self.id
        {
            self.is_answered = true;
            self.learn(&frame);
        }
        let _ = self.heard.send(Heard::Message(Ok(frame))).await;
    }

    /// The answer to a greeting says which version is spoken from now on.
    fn learn(&self, frame: &Frame) {
        let result = frame.part(&frame.result).unwrap_or_default();
        let Ok([Some(version), Some(_)]) = pick(result, ["protocolVersion", "serverInfo"]) else {
            return;
        };
        let version = serde_json::from_str::<String>(version.get()).ok();
        if let Some(version) = version.and_then(|version| HeaderValue::from_str(&version).ok()) {
            self.keep(VERSION, version);
        }
    }

    fn keep(&self, name: HeaderName, value: HeaderValue) {
        let mut headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        headers.insert(name, value);
    }
}

/// Whether an answer is a stream of messages.
pub fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/event-stream"))
}

/// What the protocol's later versions say in headers as well.
fn describe(frame: &Frame, headers: &mut HeaderMap) {
    let Kind::Request { method, .. } = &frame.kind else {
        return;
    };
    let params = frame.part(&frame.params).unwrap_or_default();
    let text = |raw: Option<&serde_json::value::RawValue>| serde_json::from_str::<String>(raw?.get()).ok();
    let meta = pick(params, ["_meta"]).ok().and_then(|[meta]| meta);
    let version = meta.and_then(|meta| {
        let name = "io.modelcontextprotocol/protocolVersion";
        pick(meta.get().as_bytes(), [name])
            .ok()
            .and_then(|[version]| text(version))
    });
    let Some(version) = version else {
        return;
    };
    let name = pick(params, ["name", "uri", "taskId"]).ok();
    let name = name.and_then(|[name, uri, task]| text(name.or(uri).or(task)));
    let members = [
        ("mcp-protocol-version", Some(version)),
        ("mcp-method", Some(method.clone())),
        ("mcp-name", name),
    ];
    for (header, value) in members {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
            headers.insert(HeaderName::from_static(header), value);
        }
    }
}
