//! Passing requests on to a server at an address: the same headers, the same message, the same events back.
//!
//! Every message goes through the door, in both directions. Headers that say how a body is to be read (its type, character
//! set and compression) are ours: a server that decodes a body by the client's header could read another message in it.
//! Deliberately absent: sessions of our own. They are the server's; we only remember which client is behind one.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;

use super::endpoint::{Endpoint, Passed, message, mismatch, open, refused, through};
use super::events::{Event, Events};
use super::headers;
use super::way::{Heard, HttpUpstream, SESSION, VERSION, Way, is_stream};
use crate::client::{NoAnswer, Opened};
use crate::mcp::call::Says;
use crate::mcp::frame::{Frame, Id, Kind, LONGEST};
use crate::mcp::lines::{QUEUE, Read};
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::{self, Relay, Who};
use crate::mcp::server::Server;
use crate::mcp::wire;

/// Headers that are about one connection only, or about us.
const NOT_PASSED: [HeaderName; 11] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::UPGRADE,
    // Ours; the server gets its own.
    header::AUTHORIZATION,
    // Checked here; the server would not know the name.
    header::ORIGIN,
    // What is not compressed can be read.
    header::ACCEPT_ENCODING,
    header::CONTENT_ENCODING,
    // Ours: the body is UTF-8, whatever the client says.
    header::CONTENT_TYPE,
];

/// A server at an address.
pub struct Proxy {
    way: Way,
    /// For requests that belong to no conversation: one for each caller.
    shared: Mutex<Vec<Arc<Relay>>>,
}

impl Proxy {
    /// In front of this address.
    pub fn new(way: Way) -> Proxy {
        Proxy {
            way,
            shared: Mutex::default(),
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
        let relay = match endpoint.session(&headers, &who) {
            Some(relay) => relay,
            None if is_greeting => self.relay(endpoint, who),
            None => self.shared(endpoint, who),
        };
        if headers.contains_key(SESSION) {
            remember(&relay, &headers);
        }
        // What the server does not see it cannot check.
        if let Some(frame) = frame.as_ref().filter(|frame| may_be_ours(frame))
            && let Err(problem) = headers::check(frame, &headers)
        {
            return mismatch(frame, &problem);
        }
        let asked = frame.as_ref().and_then(asked);
        let body = match frame {
            Some(frame) => match through(&relay, Ok(frame), None).await {
                Passed::On(body) => body,
                Passed::Answered(answer) => return answer,
            },
            None => OneLine::default(),
        };
        let opened = match self.way.open(method, passed(&headers), &body).await {
            Ok(opened) => opened,
            Err(NoAnswer::NotSent(why) | NoAnswer::Unknown(why)) => {
                return refused(
                    StatusCode::BAD_GATEWAY,
                    &format!("the server cannot be reached: {why}"),
                );
            }
        };
        if is_greeting {
            match opened.headers.get(SESSION).and_then(|name| name.to_str().ok()) {
                Some(name) => endpoint.keep(name.to_owned(), relay.clone()),
                None => self.replace(relay.clone()),
            }
            remember(&relay, &opened.headers);
        }
        back(relay, opened, asked).await
    }

    /// The relay of a new conversation.
    fn relay(&self, endpoint: &Arc<Endpoint>, who: Who) -> Arc<Relay> {
        let (heard, mut messages) = mpsc::channel(QUEUE);
        let headers = Arc::default();
        let way = HttpUpstream::new(self.way.clone(), heard, headers);
        let server = Arc::new(Server::new(endpoint.name.clone(), Box::new(way)));
        let relay = Arc::new(Relay::new(endpoint.gateway.clone(), server.clone(), who));
        endpoint.resume(&server);
        let heard = relay.clone();
        // What comes in answer to requests of ours, and what the server says meanwhile.
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
        let found = open(&self.shared)
            .iter()
            .find(|relay| relay.who.requester == who.requester && relay.who.agent == who.agent)
            .cloned();
        found.unwrap_or_else(|| {
            let relay = self.relay(endpoint, who);
            // Nobody greets a server that knows no greetings.
            relay.server.greeted();
            self.replace(relay.clone());
            relay
        })
    }

    fn replace(&self, relay: Arc<Relay>) {
        let mut shared = open(&self.shared);
        shared
            .retain(|other| other.who.requester != relay.who.requester || other.who.agent != relay.who.agent);
        if shared.len() >= super::endpoint::MOST_SESSIONS {
            shared.remove(0);
        }
        shared.push(relay);
    }
}

/// Our own requests belong to the same conversation.
fn remember(relay: &Relay, headers: &HeaderMap) {
    let names = [SESSION, VERSION];
    let found = names
        .iter()
        .filter_map(|name| Some((name.clone(), headers.get(name)?.clone())));
    relay.server.set_headers(found.collect());
}

/// Whether it may be answered here, and is of the kind that says in headers what it is.
fn may_be_ours(frame: &Frame) -> bool {
    let is_modern = || Says::read(frame.part(&frame.params).unwrap_or_default()).is_modern();
    matches!(&frame.kind, Kind::Request { method, .. }
        if (method == "tools/call" || method.starts_with("tasks/")) && is_modern())
}

fn is_greeting(frame: &Frame) -> bool {
    matches!(&frame.kind, Kind::Request { method, .. } if method == "initialize")
}

/// The id under which a request is to be answered.
fn asked(frame: &Frame) -> Option<Id> {
    match &frame.kind {
        Kind::Request { id, .. } => Some(id.clone()),
        _ => None,
    }
}

fn passed(headers: &HeaderMap) -> HeaderMap {
    let mut passed = headers.clone();
    for name in NOT_PASSED {
        passed.remove(name);
    }
    passed.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    passed
}

/// The server's answer, with our own tools in its lists. A body that is no message is not passed on; its status is.
async fn back(relay: Arc<Relay>, mut opened: Opened, asked: Option<Id>) -> Response {
    let status = StatusCode::from_u16(opened.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut headers = opened.headers.clone();
    for name in [
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::CONTENT_ENCODING,
        header::CONTENT_TYPE,
    ] {
        headers.remove(name);
    }
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
        return answered("text/event-stream", Body::from_stream(filtered(relay, opened)));
    }
    let mut whole = BytesMut::new();
    while let Some(Ok(piece)) = opened.body.frame().await {
        whole.extend_from_slice(&piece.into_data().unwrap_or_default());
        if whole.len() > LONGEST {
            relay.forget(asked.as_ref());
            return refused(StatusCode::BAD_GATEWAY, "the server's answer is too large");
        }
    }
    let read = Frame::read(whole.freeze());
    let id = asked.as_ref().map(Id::as_json);
    let passed = match read {
        Err(bad) if bad.is_blank() => None,
        // Not every error is a message.
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
    match passed {
        Some(passed) => answered("application/json", Body::from(passed.bytes())),
        None => answered("application/json", Body::empty()),
    }
}

/// The server's events, with our own tools in its lists.
fn filtered(
    relay: Arc<Relay>,
    opened: Opened,
) -> impl futures_util::Stream<Item = Result<Bytes, std::convert::Infallible>> {
    futures_util::stream::unfold(
        (relay, opened, Events::default()),
        |(relay, mut opened, mut events)| async move {
            loop {
                if let Some(event) = events.take() {
                    if let Some(event) = filter(&relay, &event) {
                        return Some((Ok(event), (relay, opened, events)));
                    }
                    continue;
                }
                let piece = match opened.body.frame().await {
                    Some(Ok(piece)) => piece.into_data().ok(),
                    _ => None,
                };
                // What has not ended is no event.
                if !piece.is_some_and(|piece| events.push(&piece)) {
                    return None;
                }
            }
        },
    )
}

fn filter(relay: &Relay, event: &Event) -> Option<Bytes> {
    let Some(message) = event.message() else {
        return event.without_message();
    };
    let passed = relay.hear_server(Frame::read(message))?;
    Some(event.with(&passed))
}
