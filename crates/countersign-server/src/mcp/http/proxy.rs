//! Passing requests on to a server at an address: the same headers, the same body, the same events back.
//!
//! Deliberately absent: sessions of our own. They are the server's; we only remember which client is behind one.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;

use super::endpoint::{Endpoint, Passed, mismatch, open, refused, through};
use super::events::{Events, data, with_data};
use super::headers;
use super::way::{Heard, HttpUpstream, SESSION, VERSION, Way, is_stream};
use crate::client::{NoAnswer, Opened};
use crate::mcp::call::Says;
use crate::mcp::frame::{Frame, Kind};
use crate::mcp::lines::{LONGEST, QUEUE};
use crate::mcp::relay::{Relay, Who};
use crate::mcp::seen;
use crate::mcp::server::Server;

/// Headers that are about one connection only, or about us.
const NOT_PASSED: [HeaderName; 9] = [
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
        body: Bytes,
    ) -> Response {
        let frame = Frame::read(body.clone()).ok().filter(|_| method == Method::POST);
        let is_greeting = frame.as_ref().is_some_and(is_greeting);
        let look = frame.as_ref().map_or(Look::Not, look);
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
        let body = match method {
            Method::POST => match through(&relay, body, None).await {
                Passed::On(body) => body,
                Passed::Answered(answer) => return answer,
            },
            _ => body,
        };
        let opened = match self.way.open(method, passed(&headers), body).await {
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
        back(relay, opened, look).await
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
                    Heard::Message(bytes) => {
                        if let Some(message) = heard.hear_server(bytes) {
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

/// Whether we look into an answer.
#[derive(Clone, Copy)]
enum Look {
    /// It passes as it comes.
    Not,
    /// If it is small enough to be kept.
    Small,
    /// We add to it, or it is the answer of a tool.
    Always,
}

impl Look {
    fn is_due(self, headers: &HeaderMap) -> bool {
        let length = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok());
        let length: Option<usize> = length.and_then(|length| length.parse().ok());
        match self {
            Look::Not => false,
            Look::Small => length.is_some_and(|length| length <= seen::LARGEST),
            Look::Always => true,
        }
    }
}

fn look(frame: &Frame) -> Look {
    let Kind::Request { method, .. } = &frame.kind else {
        return Look::Not;
    };
    match method.as_str() {
        "tools/list" | "tools/call" | "server/discover" => Look::Always,
        "resources/read" | "tasks/result" => Look::Small,
        _ => Look::Not,
    }
}

fn passed(headers: &HeaderMap) -> HeaderMap {
    let mut passed = headers.clone();
    for name in NOT_PASSED {
        passed.remove(name);
    }
    passed
}

/// The server's answer, with our own tools in its lists.
async fn back(relay: Arc<Relay>, mut opened: Opened, look: Look) -> Response {
    let status = StatusCode::from_u16(opened.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut headers = opened.headers.clone();
    for name in [
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
    ] {
        headers.remove(name);
    }
    if is_stream(&opened.headers) {
        let mut answer = Body::from_stream(filtered(relay, opened)).into_response();
        *answer.headers_mut() = headers;
        *answer.status_mut() = status;
        return answer;
    }
    if !look.is_due(&opened.headers) {
        let mut answer = Body::new(opened).into_response();
        *answer.headers_mut() = headers;
        *answer.status_mut() = status;
        return answer;
    }
    let mut whole = Vec::new();
    while let Some(Ok(piece)) = opened.body.frame().await {
        whole.extend_from_slice(&piece.into_data().unwrap_or_default());
        if whole.len() > LONGEST {
            return refused(StatusCode::BAD_GATEWAY, "the server's answer is too large");
        }
    }
    let whole = Bytes::from(whole);
    let passed = match whole.is_empty() {
        true => whole,
        false => relay.hear_server(whole).unwrap_or_default(),
    };
    let mut answer = Body::from(passed).into_response();
    *answer.headers_mut() = headers;
    *answer.status_mut() = status;
    answer
}

/// The server's events, each as it came unless we have something to add.
fn filtered(
    relay: Arc<Relay>,
    opened: Opened,
) -> impl futures_util::Stream<Item = Result<Bytes, std::convert::Infallible>> {
    futures_util::stream::unfold(
        (relay, opened, Events::default()),
        |(relay, mut opened, mut events)| async move {
            loop {
                if let Some(event) = events.take() {
                    if let Some(event) = filter(&relay, event) {
                        return Some((Ok(event), (relay, opened, events)));
                    }
                    continue;
                }
                let piece = match opened.body.frame().await {
                    Some(Ok(piece)) => piece.into_data().ok(),
                    _ => None,
                };
                if !piece.is_some_and(|piece| events.push(&piece)) {
                    let rest = events.rest();
                    return (!rest.is_empty()).then(|| (Ok(rest), (relay, opened, events)));
                }
            }
        },
    )
}

fn filter(relay: &Relay, event: Bytes) -> Option<Bytes> {
    let Some(message) = data(&event) else {
        return Some(event);
    };
    let passed = relay.hear_server(message.clone())?;
    match passed == message {
        true => Some(event),
        false => Some(with_data(&event, &passed)),
    }
}
