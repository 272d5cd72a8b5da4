//! HTTP client for a server at a URL: each message is a POST request, answered with one message or a stream of them.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use bytes::{Bytes, BytesMut};
use countersign_http_client::events::{EventReader, make_room};
use countersign_http_client::{AllowedTargets, Client, RequestError, StreamedResponse, Target};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;

use super::events::message_of;
use crate::failure::Failure;
use crate::mcp::child::Limit;
use crate::mcp::frame::{Frame, Id, Kind, LONGEST, pick};
use crate::mcp::lines::Read;
use crate::mcp::one_line::OneLine;
use crate::mcp::server::{Gone, Headers, LATE, Lost, Upstream};
use crate::output;

/// Header that names a session.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Header that names the protocol version.
pub const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Maximum memory in bytes that is reserved because of a `Content-Length`.
const MOST_AT_ONCE: usize = 32 * 1024 * 1024;

/// An HTTP target: the URL and the token of a server, and a limit on what the server may send.
#[derive(Clone)]
pub struct HttpTarget {
    client: Client,
    target: Target,
    token: Option<HeaderValue>,
    limit: Limit,
}

/// A message from a server over HTTP, or a lost request.
#[derive(Debug)]
pub enum Heard {
    /// A message, or bytes that are not a valid one.
    Message(Read),
    /// A request that will not be answered, and why.
    Lost(Id, Lost),
}

impl HttpTarget {
    /// Creates a target from a URL and the server's bearer token. Fails if the URL is invalid, or if the token would be
    /// sent unencrypted to another machine.
    pub fn new(url: &str, token: Option<&str>) -> Result<HttpTarget, Failure> {
        let target = Target::parse(url).map_err(Failure::usage)?;
        if target.is_remote_plaintext() && token.is_some() {
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
        Ok(HttpTarget {
            client: Client::new(AllowedTargets::one(target.host_and_port()), LONGEST),
            target,
            token,
            limit: Limit::default(),
        })
    }

    /// Sets the maximum number of bytes that the server may send in total.
    pub fn with_limit(self, limit: Limit) -> HttpTarget {
        HttpTarget { limit, ..self }
    }

    /// Sends one HTTP request and returns the response before its body is read. An empty message makes an empty body.
    /// Nothing is sent if the message's time limit is over.
    pub async fn open(
        &self,
        method: Method,
        mut headers: HeaderMap,
        body: &OneLine,
    ) -> Result<StreamedResponse, RequestError> {
        if let Some(token) = &self.token {
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        let line = body.clone();
        let check = move || match line.is_in_time() {
            true => Ok(()),
            false => Err(LATE.to_owned()),
        };
        self.client
            .open_after_check(method, &self.target, headers, body.bytes(), check)
            .await
    }
}

/// A session with a server over streamable HTTP.
pub struct HttpUpstream {
    way: HttpTarget,
    heard: mpsc::Sender<Heard>,
    headers: Arc<Mutex<HeaderMap>>,
}

impl HttpUpstream {
    /// Creates an upstream that delivers the server's messages to `heard`. `headers` are the headers of the session,
    /// which are updated from the server's responses.
    pub fn new(way: HttpTarget, heard: mpsc::Sender<Heard>, headers: Arc<Mutex<HeaderMap>>) -> HttpUpstream {
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
                limit: &way.limit,
                id: id.as_ref(),
                is_answered: false,
            };
            let lost = match exchange.run(&way, headers, line.clone()).await {
                Ok(()) => Lost::Unknown("the server ended its answer before it was one".to_owned()),
                Err(lost) => lost,
            };
            let is_answered = exchange.is_answered;
            // If the message was held back because it was late, `OneLine` has already reported that to the sender.
            if let Some(id) = id.filter(|_| !is_answered && !line.was_held_back()) {
                let _ = heard.send(Heard::Lost(id, lost)).await;
            }
            if is_greeted {
                listen(&way, &heard, &kept).await;
            }
        });
        async { Ok(()) }.boxed()
    }
}

/// Opens the GET stream for messages that belong to no request, if the server offers one.
async fn listen(way: &HttpTarget, heard: &mpsc::Sender<Heard>, kept: &Mutex<HeaderMap>) {
    let mut headers = kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let Ok(mut opened) = way.open(Method::GET, headers, &OneLine::default()).await else {
        return;
    };
    let mut exchange = Exchange {
        heard,
        headers: kept,
        limit: &way.limit,
        id: None,
        is_answered: false,
    };
    if opened.status == 200 && is_stream(&opened.headers) {
        let _ = exchange.stream(&mut opened).await;
    }
}

/// One POST request and its response.
struct Exchange<'e> {
    heard: &'e mpsc::Sender<Heard>,
    headers: &'e Mutex<HeaderMap>,
    limit: &'e Limit,
    id: Option<&'e Id>,
    is_answered: bool,
}

impl Exchange<'_> {
    async fn run(&mut self, way: &HttpTarget, headers: HeaderMap, line: OneLine) -> Result<(), Lost> {
        let mut opened = way.open(Method::POST, headers, &line).await?;
        if let Some(session) = opened.headers.get(SESSION) {
            self.keep(SESSION, session.clone());
        }
        if is_stream(&opened.headers) {
            return Ok(self.stream(&mut opened).await?);
        }
        let whole = whole(&mut opened, self.limit).await.map_err(Lost::Unknown)?;
        // An error need not be a message.
        match opened.status {
            400.. => self.hear(Frame::read(whole)).await,
            _ => self.message(whole).await?,
        }
        match opened.status {
            _ if self.is_answered => Ok(()),
            401 | 403 | 404 | 405 | 406 | 415 => {
                Err(Lost::Refused(format!("the server answers {}", opened.status)))
            }
            400.. => Err(Lost::Unknown(format!("the server answers {}", opened.status))),
            _ => Ok(()),
        }
    }

    async fn stream(&mut self, opened: &mut StreamedResponse) -> Result<(), RequestError> {
        let mut events = EventReader::new(LONGEST);
        while let Some(piece) = opened.body.frame().await {
            let piece = piece.map_err(|error| RequestError::Unknown(error.to_string()))?;
            let piece = piece.into_data().unwrap_or_default();
            let exceeded = |error: std::io::Error| RequestError::Unknown(error.to_string());
            self.limit.count(piece.len()).map_err(exceeded)?;
            events.push(&piece);
            let too_large = |_| RequestError::Unknown("the answer is too large".to_owned());
            while let Some(event) = events.next_event().map_err(too_large)? {
                if let Some(message) = message_of(&event) {
                    self.message(message).await?;
                }
            }
        }
        Ok(())
    }

    /// Delivers one message. Bytes that are not a valid message are dropped and end the request that they answer.
    async fn message(&mut self, message: Bytes) -> Result<(), RequestError> {
        let read = Frame::read(message);
        let problem = match &read {
            Err(bad) if !bad.is_blank() => Some(bad.problem().clone()),
            _ => None,
        };
        self.hear(read).await;
        let Some(problem) = problem else {
            return Ok(());
        };
        output::print_to_stderr(&format!(
            "countersign: a message of a server was not passed on: {problem}"
        ));
        match self.id.is_some() && !self.is_answered {
            true => Err(RequestError::Unknown(format!(
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

    /// Remembers the protocol version from the result of `initialize`, for later headers.
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

/// Reads the whole body of a response. Fails if it exceeds a limit or the connection breaks.
pub async fn whole(opened: &mut StreamedResponse, limit: &Limit) -> Result<Bytes, String> {
    let length = opened.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let mut whole = BytesMut::with_capacity(length.unwrap_or_default().min(MOST_AT_ONCE));
    while let Some(piece) = opened.body.frame().await {
        let piece = piece.map_err(|error| error.to_string())?;
        let piece = piece.into_data().unwrap_or_default();
        limit.count(piece.len()).map_err(|error| error.to_string())?;
        make_room(&mut whole, piece.len(), LONGEST);
        whole.extend_from_slice(&piece);
        if whole.len() > LONGEST {
            return Err("the answer is too large".to_owned());
        }
    }
    Ok(whole.freeze())
}

/// Returns true if a response is an event stream.
pub fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/event-stream"))
}

/// Adds the headers that protocol versions from 2026-07-28 on require, which repeat the version, method and name.
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
