//! Reverse proxy to a server at a URL: forwards headers and messages, and returns the server's events.
//!
//! Every message is parsed strictly, in both directions. Headers that describe how to decode a body (type, charset,
//! compression) are replaced with the gateway's: a server that decodes by the client's headers could read another
//! message in the same bytes. The server creates the sessions; the gateway only remembers which client each of them
//! belongs to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use countersign_http_client::events::{Event, EventReader};
use countersign_http_client::{RequestError, StreamedResponse};
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;

use super::endpoint::{Endpoint, Passed, message, mismatch, refused, through};
use super::events::{event_with, event_without_message, message_of};
use super::headers;
use super::sessions::MOST_SESSIONS;
use super::shared::Alias;
use super::target::{Heard, HttpTarget, HttpUpstream, SESSION, VERSION, is_stream, whole};
use crate::mcp::call::Says;
use crate::mcp::child::Limit;
use crate::mcp::frame::{Frame, Id, Kind, LONGEST};
use crate::mcp::lines::{QUEUE, Read};
use crate::mcp::lock;
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::{self, Relay, Who};
use crate::mcp::server::Server;
use crate::mcp::wire;

/// Request headers that are not forwarded: they concern one connection or the gateway.
const NOT_PASSED: [HeaderName; 11] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::UPGRADE,
    // The token is for the gateway; the server gets its own.
    header::AUTHORIZATION,
    // Checked by the gateway; the server would not know this origin.
    header::ORIGIN,
    // The gateway has to read the body, so it must not be compressed.
    header::ACCEPT_ENCODING,
    header::CONTENT_ENCODING,
    // Replaced with the gateway's: the body is UTF-8, whatever the client's header claims.
    header::CONTENT_TYPE,
];

/// Response headers that the client gets, in addition to those that begin with `mcp-`. Other headers concern the server
/// as a web site, such as where to sign in or its alternative addresses, and would lead the client past the gateway.
const RETURNED: [HeaderName; 3] = [header::CACHE_CONTROL, header::RETRY_AFTER, header::ALLOW];

/// A reverse proxy to one server.
pub struct Proxy {
    way: HttpTarget,
    /// One relay per caller, for requests without a session; the one that was used last is at the end.
    shared: Mutex<Vec<Arc<Relay>>>,
    /// Next number for the ids of requests without a session.
    number: AtomicU64,
}

impl Proxy {
    /// Creates a proxy to this target.
    pub fn new(way: HttpTarget) -> Proxy {
        Proxy {
            way,
            shared: Mutex::default(),
            number: AtomicU64::new(1),
        }
    }

    pub(super) async fn answer(
        &self,
        endpoint: &Arc<Endpoint>,
        who: Who,
        method: Method,
        headers: HeaderMap,
        read: Read,
    ) -> Response {
        let frame = match (&method, read) {
            (&Method::POST, Ok(frame)) => Some(frame),
            (&Method::POST, Err(bad)) => return message(StatusCode::BAD_REQUEST, relay::refused(&bad)),
            (&Method::GET | &Method::DELETE, _) => None,
            _ => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
        };
        let is_greeting = frame.as_ref().is_some_and(is_greeting);
        let session = endpoint.session(&headers, &who);
        // The server would take the request for one of the client that owns the session. After a restart, the gateway
        // knows no session and clients have to begin a new one, because a call held in an unknown session could run in
        // another one.
        if session.is_none() && headers.contains_key(SESSION) {
            return refused(StatusCode::NOT_FOUND, "there is no such session");
        }
        let ends = session.clone().filter(|_| method == Method::DELETE);
        // Done before the server ends the session: calls held in it must not run in a later one.
        if let Some(relay) = &ends {
            relay.gateway.end_session(&relay.server).await;
        }
        let is_shared = session.is_none() && !is_greeting;
        let relay = match session {
            Some(relay) => relay,
            None if is_greeting => self.relay(endpoint, who),
            None => self.shared(endpoint, who),
        };
        if headers.contains_key(SESSION) {
            remember(&relay, &headers);
        }
        // The server does not see requests that the gateway answers, so check their headers here.
        if let Some(frame) = frame.as_ref().filter(|frame| may_be_ours(frame))
            && let Err(problem) = headers::check(frame, &headers)
        {
            return mismatch(frame, &problem);
        }
        // Clients that share a relay may use the same request ids.
        let shared = frame.as_ref().filter(|frame| is_shared && is_modern(frame));
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let (alias, frame) = match shared.and_then(|frame| Alias::of(frame, number)) {
            Some((alias, line)) => (Some(Arc::new(alias)), Some(Frame::read_line(line))),
            None => (None, frame.map(Ok)),
        };
        let asked = frame.as_ref().and_then(|read| request_id(read.as_ref().ok()?));
        let body = match frame {
            Some(read) => match through(&relay, read, alias.clone()).await {
                Passed::On(body) => body,
                Passed::Answered(answer) => return answer,
            },
            None => OneLine::default(),
        };
        let opened = match self.way.open(method, headers_for_server(&headers), &body).await {
            Ok(opened) => opened,
            Err(RequestError::NotSent(why) | RequestError::Unknown(why)) => {
                return refused(
                    StatusCode::BAD_GATEWAY,
                    &format!("the server cannot be reached: {why}"),
                );
            }
        };
        if let Some(relay) = ends
            && (opened.status < 300 || opened.status == 404)
        {
            endpoint.forget(&headers);
            // A call that is being proposed right now must not be sent either: the server counts as gone.
            relay.server.close();
        }
        if is_greeting {
            match opened.headers.get(SESSION).and_then(|name| name.to_str().ok()) {
                Some(name) => endpoint.keep(name.to_owned(), relay.clone()),
                None => self.replace(relay.clone()),
            }
            remember(&relay, &opened.headers);
        }
        back(relay, opened, asked, alias).await
    }

    /// Creates the relay of a new session, and the task that reads the server's responses to the gateway's own
    /// requests.
    fn relay(&self, endpoint: &Arc<Endpoint>, who: Who) -> Arc<Relay> {
        let (heard, mut messages) = mpsc::channel(QUEUE);
        let headers = Arc::default();
        let way = HttpUpstream::new(self.way.clone(), heard, headers);
        let server = Arc::new(Server::new(endpoint.name.clone(), Box::new(way)));
        let relay = Arc::new(Relay::new(endpoint.gateway.clone(), server.clone(), who));
        endpoint.resume(&server);
        let heard = relay.clone();
        // Reads responses to the gateway's own requests, and other messages that the server sends with them.
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                match message {
                    Heard::Message(read) => {
                        if let Some(message) = heard.hear_server(read) {
                            heard.while_running(message).await;
                        }
                    }
                    Heard::Lost(id, why) => heard.server.lost(&id, why),
                }
            }
        });
        relay
    }

    fn shared(&self, endpoint: &Arc<Endpoint>, who: Who) -> Arc<Relay> {
        let found = {
            let mut shared = lock(&self.shared);
            let is_its =
                |relay: &Arc<Relay>| relay.who.requester == who.requester && relay.who.agent == who.agent;
            let place = shared.iter().position(is_its);
            // The list is in the order of use.
            place.map(|place| {
                let relay = shared.remove(place);
                shared.push(relay.clone());
                relay
            })
        };
        found.unwrap_or_else(|| {
            let relay = self.relay(endpoint, who);
            // There is no handshake in the protocol version without sessions.
            relay.server.mark_greeted();
            self.replace(relay.clone());
            relay
        })
    }

    fn replace(&self, relay: Arc<Relay>) {
        let mut shared = lock(&self.shared);
        shared
            .retain(|other| other.who.requester != relay.who.requester || other.who.agent != relay.who.agent);
        if shared.len() >= MOST_SESSIONS {
            shared.remove(0);
        }
        shared.push(relay);
    }
}

/// Copies the session and version headers of a message to the server's connection, so that the gateway's own requests
/// belong to the same session.
fn remember(relay: &Relay, headers: &HeaderMap) {
    let names = [SESSION, VERSION];
    let found = names
        .iter()
        .filter_map(|name| Some((name.clone(), headers.get(name)?.clone())));
    relay.server.set_headers(found.collect());
}

/// Returns true if the gateway may answer the request itself and the protocol version is one whose headers repeat the
/// body.
fn may_be_ours(frame: &Frame) -> bool {
    matches!(&frame.kind, Kind::Request { method, .. }
        if (method == "tools/call" || method.starts_with("tasks/")) && is_modern(frame))
}

/// Returns true if the request uses a protocol version without sessions, 2026-07-28 or later.
fn is_modern(frame: &Frame) -> bool {
    Says::read(frame.part(&frame.params).unwrap_or_default()).is_modern()
}

fn is_greeting(frame: &Frame) -> bool {
    matches!(&frame.kind, Kind::Request { method, .. } if method == "initialize")
}

/// Returns the id of a request; `None` if the message is not a request.
fn request_id(frame: &Frame) -> Option<Id> {
    match &frame.kind {
        Kind::Request { id, .. } => Some(id.clone()),
        _ => None,
    }
}

fn headers_for_server(headers: &HeaderMap) -> HeaderMap {
    let mut passed = headers.clone();
    for name in NOT_PASSED {
        passed.remove(name);
    }
    passed.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    passed
}

/// Returns the headers of a server's response that the client gets.
fn headers_for_client(headers: &HeaderMap) -> HeaderMap {
    let is_returned = |name: &HeaderName| name.as_str().starts_with("mcp-") || RETURNED.contains(name);
    let all = headers.iter().filter(|(name, _)| is_returned(name));
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the server's response, with the built-in tools in its lists. A body that is not a message is replaced with
/// an error; its status is kept.
async fn back(
    relay: Arc<Relay>,
    mut opened: StreamedResponse,
    asked: Option<Id>,
    alias: Option<Arc<Alias>>,
) -> Response {
    let status = StatusCode::from_u16(opened.status).unwrap_or(StatusCode::BAD_GATEWAY);
    // Clients would follow a redirect by themselves, past the gateway.
    if status.is_redirection() {
        relay.forget(asked.as_ref());
        let problem = format!("the server answers {status}, and the gateway sends no client elsewhere");
        return refused(StatusCode::BAD_GATEWAY, &problem);
    }
    let headers = headers_for_client(&opened.headers);
    let answered = |kind: &'static str, body: Body| {
        let mut answer = body.into_response();
        *answer.headers_mut() = headers;
        *answer.status_mut() = status;
        answer
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        answer
    };
    if is_stream(&opened.headers) {
        return answered(
            "text/event-stream",
            Body::from_stream(filtered(relay, opened, alias)),
        );
    }
    let whole = match whole(&mut opened, &Limit::default()).await {
        Ok(whole) => whole,
        Err(why) => {
            relay.forget(asked.as_ref());
            asked.iter().for_each(|id| relay.forget_list(id));
            let problem = format!("the server's answer could not be read: {why}");
            return refused(StatusCode::BAD_GATEWAY, &problem);
        }
    };
    let read = Frame::read(whole);
    let id = asked.as_ref().map(Id::as_json);
    let passed = match read {
        Err(bad) if bad.is_blank() => None,
        // The body of an HTTP error need not be a message.
        Err(_) if status.is_client_error() || status.is_server_error() => {
            let problem = format!("the server answers {status}");
            Some(wire::error(id, wire::INTERNAL, &problem))
        }
        Err(bad) => {
            let problem = format!("the server's answer could not be read: {}", bad.problem());
            relay.hear_server(Err(bad));
            Some(wire::error(id, wire::INTERNAL, &problem))
        }
        Ok(frame) => relay.hear_server(Ok(frame)),
    };
    relay.forget(asked.as_ref());
    match passed.map(|passed| restored(&alias, passed)) {
        Some(passed) => answered("application/json", Body::from(passed.bytes())),
        None => answered("application/json", Body::empty()),
    }
}

/// Returns the server's events, with the built-in tools in its lists.
fn filtered(
    relay: Arc<Relay>,
    opened: StreamedResponse,
    alias: Option<Arc<Alias>>,
) -> impl futures_util::Stream<Item = Result<Bytes, std::convert::Infallible>> {
    futures_util::stream::unfold(
        (relay, opened, EventReader::new(LONGEST), alias),
        |(relay, mut opened, mut events, alias)| async move {
            loop {
                // An event that is too large ends the stream.
                if let Some(event) = events.next_event().ok()? {
                    if let Some(event) = filter(&relay, &event, &alias) {
                        return Some((Ok(event), (relay, opened, events, alias)));
                    }
                    continue;
                }
                // An incomplete event at the end of the stream is dropped.
                let piece = opened.body.frame().await?.ok()?;
                events.push(&piece.into_data().ok()?);
            }
        },
    )
}

fn filter(relay: &Relay, event: &Event, alias: &Option<Arc<Alias>>) -> Option<Bytes> {
    let Some(message) = message_of(event) else {
        return event_without_message(event);
    };
    let passed = relay.hear_server(Frame::read(message))?;
    Some(event_with(event, &restored(alias, passed)))
}

/// Returns a message with the id that the client used. Messages are returned unchanged if the request was sent under
/// the client's own id.
fn restored(alias: &Option<Arc<Alias>>, message: OneLine) -> OneLine {
    match alias {
        Some(alias) => alias.restore(message),
        None => message,
    }
}
