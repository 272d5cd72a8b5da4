//! Giving each conversation a server of its own, where that is a command.
//!
//! Enters: HTTP requests. Leaves: answers by the id they answer; what the server says of itself goes to whoever listens.
//! Clients of the protocol's later kind have no conversations: those of one caller share a server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use countersign::hash::Hash;
use tokio::sync::mpsc;

use super::endpoint::{Endpoint, Passed, events, message, mismatch, open, refused, soon, through};
use super::events::event_of;
use super::headers::{are_modern, check, check_arguments};
use super::shared::{Alias, status, subscription};
use super::way::SESSION;
use crate::mcp::call::{Says, name_of};
use crate::mcp::child::Child;
use crate::mcp::frame::{Frame, Id, Kind, pick};
use crate::mcp::lines::QUEUE;
use crate::mcp::own;
use crate::mcp::relay::{Relay, Who};
use crate::mcp::server::Server;
use crate::mcp::wire;

/// A server that is started for each conversation.
pub struct Bridge {
    command: Vec<String>,
    conversations: Mutex<HashMap<String, Arc<Conversation>>>,
}

/// One conversation, and the server it is with.
struct Conversation {
    relay: Arc<Relay>,
    /// Who waits for which answer.
    waiting: Mutex<HashMap<Id, Waits>>,
    /// Who hears how far which request is.
    progress: Mutex<HashMap<String, Waits>>,
    /// Counts the requests of clients that share it.
    number: AtomicU64,
    /// Who listens to what the server says of itself.
    listening: Mutex<Option<mpsc::Sender<Bytes>>>,
    child: Mutex<Option<Child>>,
}

/// Who waits, and what they call what they wait for.
#[derive(Clone)]
struct Waits {
    to: mpsc::Sender<Bytes>,
    alias: Option<Arc<Alias>>,
}

impl Waits {
    async fn send(&self, message: Bytes) {
        let message = match &self.alias {
            Some(alias) => alias.restore(message),
            None => message,
        };
        let _ = self.to.send(message).await;
    }
}

impl Bridge {
    /// Starts this command.
    pub fn new(command: Vec<String>) -> Bridge {
        Bridge {
            command,
            conversations: Mutex::default(),
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
        let named = headers.get(SESSION).and_then(|name| name.to_str().ok());
        match method {
            Method::POST => self.posted(endpoint, who, &headers, body).await,
            Method::GET => match named.and_then(|name| self.find(name, &who)) {
                Some(conversation) => conversation.listen(),
                None => StatusCode::METHOD_NOT_ALLOWED.into_response(),
            },
            Method::DELETE => match named.and_then(|name| self.find(name, &who).map(|_| name)) {
                Some(name) => {
                    let ended = open(&self.conversations).remove(name);
                    if let Some(child) = ended.and_then(|ended| open(&ended.child).take()) {
                        tokio::spawn(child.end());
                    }
                    StatusCode::NO_CONTENT.into_response()
                }
                None => refused(StatusCode::NOT_FOUND, "there is no such session"),
            },
            _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        }
    }

    async fn posted(&self, endpoint: &Arc<Endpoint>, who: Who, headers: &HeaderMap, body: Bytes) -> Response {
        let Ok(frame) = Frame::read(body.clone()) else {
            return refused(StatusCode::BAD_REQUEST, "the body is no message");
        };
        let named = headers.get(SESSION).and_then(|name| name.to_str().ok());
        let says = Says::read(frame.part(&frame.params).unwrap_or_default());
        let is_modern = says.is_modern();
        let greets = matches!(&frame.kind, Kind::Request { method, .. } if method == "initialize");
        let is_greeting = greets && !is_modern;
        let is_silent = match is_modern {
            true => says.capabilities.is_none(),
            false => named.is_none() && !greets && are_modern(headers),
        };
        if is_silent {
            let problem = "`_meta` does not say which protocol the client speaks and what it can do";
            let id = frame.part(&frame.id).map(String::from_utf8_lossy);
            let answer = wire::error(id.as_deref(), wire::INVALID_PARAMS, problem);
            return message(StatusCode::BAD_REQUEST, answer);
        }
        let (conversation, name) = match named {
            Some(name) => match self.find(name, &who) {
                Some(conversation) => (conversation, None),
                None => return refused(StatusCode::NOT_FOUND, "there is no such session"),
            },
            None if is_greeting || is_modern => match self.begin(endpoint, who, is_greeting) {
                Ok(begun) => begun,
                Err(answer) => return *answer,
            },
            None => return refused(StatusCode::BAD_REQUEST, "name the session in `Mcp-Session-Id`"),
        };
        if is_modern && let Err(problem) = conversation.check(&frame, headers).await {
            return mismatch(&frame, &problem);
        }
        let mut answer = conversation.exchange(&frame, is_modern).await;
        if let Some(name) = name.and_then(|name| HeaderValue::from_str(&name).ok()) {
            answer.headers_mut().insert(SESSION, name);
        }
        answer
    }

    fn find(&self, name: &str, who: &Who) -> Option<Arc<Conversation>> {
        let found = open(&self.conversations).get(name).cloned()?;
        let whose = &found.relay.who;
        (whose.requester == who.requester && whose.agent == who.agent).then_some(found)
    }

    /// A new conversation with a name of its own, or the one that all requests without any share.
    fn begin(
        &self,
        endpoint: &Arc<Endpoint>,
        who: Who,
        is_greeting: bool,
    ) -> Result<(Arc<Conversation>, Option<String>), Box<Response>> {
        let name = match is_greeting {
            true => random(),
            false => Some(format!("shared {} {}", who.agent, who.requester)),
        };
        let Some(name) = name else {
            return Err(Box::new(refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "no random bytes to be had",
            )));
        };
        if let Some(shared) = self.find(&name, &who).filter(|_| !is_greeting) {
            return Ok((shared, None));
        }
        if open(&self.conversations).len() >= super::endpoint::MOST_SESSIONS {
            return Err(Box::new(refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "there are too many sessions",
            )));
        }
        let conversation = Conversation::start(endpoint, &self.command, who)
            .map_err(|problem| Box::new(refused(StatusCode::BAD_GATEWAY, &problem)))?;
        open(&self.conversations).insert(name.clone(), conversation.clone());
        Ok((conversation, is_greeting.then_some(name)))
    }
}

fn random() -> Option<String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).ok()?;
    Some(Hash(random).to_string())
}

impl Conversation {
    fn start(endpoint: &Arc<Endpoint>, command: &[String], who: Who) -> Result<Arc<Conversation>, String> {
        let (child, way, mut lines) = Child::start(command).map_err(|failure| failure.message)?;
        let server = Arc::new(Server::new(endpoint.name.clone(), way));
        endpoint.resume(&server);
        let relay = Arc::new(Relay::new(endpoint.gateway.clone(), server, who));
        let conversation = Arc::new(Conversation {
            relay,
            waiting: Mutex::default(),
            progress: Mutex::default(),
            number: AtomicU64::new(1),
            listening: Mutex::default(),
            child: Mutex::new(Some(child)),
        });
        let heard = conversation.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next().await {
                if let Some(line) = heard.relay.hear_server(line) {
                    heard.deliver(line).await;
                }
            }
            heard.relay.server.gone();
            open(&heard.waiting).clear();
            open(&heard.progress).clear();
            *open(&heard.listening) = None;
        });
        Ok(conversation)
    }

    /// Whether the headers say what the body says; a server without headers leaves that to us.
    async fn check(&self, frame: &Frame, headers: &HeaderMap) -> Result<(), String> {
        check(frame, headers)?;
        let params = frame.part(&frame.params).unwrap_or_default();
        let tool = match &frame.kind {
            Kind::Request { method, .. } if method == "tools/call" => name_of(params),
            _ => None,
        };
        let listed = match tool.filter(|tool| !own::is_own(tool)) {
            Some(tool) => {
                // Whoever calls first also says which protocol the server is to be asked in.
                self.relay.heard(frame);
                self.relay.server.listed(&tool).await
            }
            None => None,
        };
        match listed {
            Some(listed) => check_arguments(frame, headers, &listed.in_headers),
            None => Ok(()),
        }
    }

    /// Puts a message to the server and answers with what comes of it. Clients without conversations share a server,
    /// and may number their requests alike.
    async fn exchange(&self, frame: &Frame, is_shared: bool) -> Response {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let aliased = Alias::of(frame, number).filter(|_| is_shared);
        let (alias, body) = match aliased {
            Some((alias, body)) => (Some(Arc::new(alias)), body),
            None => (None, frame.bytes.clone()),
        };
        let id = match (&alias, &frame.kind) {
            (Some(alias), _) => Some(alias.id.clone()),
            (None, Kind::Request { id, .. }) => Some(id.clone()),
            _ => None,
        };
        let (to, messages) = mpsc::channel(QUEUE);
        let waits = Waits {
            to,
            alias: alias.clone(),
        };
        let token = progress_token(frame.part(&frame.params).unwrap_or_default());
        let token = match &alias {
            Some(alias) => token.map(|_| alias.id.as_json().to_owned()),
            None => token,
        };
        if let Some(id) = &id {
            if let Some(token) = token {
                open(&self.progress).insert(token, waits.clone());
            }
            open(&self.waiting).insert(id.clone(), waits);
        }
        match through(&self.relay, body, alias).await {
            Passed::Answered(answer) => {
                // It was never the server's to answer.
                if let Some(id) = &id {
                    open(&self.waiting).remove(id);
                }
                answer
            }
            Passed::On(body) => {
                if self.relay.server.send(body).await.is_err() {
                    return refused(StatusCode::BAD_GATEWAY, "the server is gone");
                }
                match id {
                    None => StatusCode::ACCEPTED.into_response(),
                    Some(_) => reply(messages, is_shared).await,
                }
            }
        }
    }

    async fn deliver(&self, line: Bytes) {
        let frame = Frame::read(line.clone());
        let to = match frame.as_ref().map(|frame| &frame.kind) {
            Ok(Kind::Response { id }) => open(&self.waiting).remove(id),
            Ok(Kind::Notification { method }) if method == "notifications/progress" => {
                let params = frame.as_ref().ok().and_then(|frame| frame.part(&frame.params));
                let token =
                    params.and_then(|params| pick(params, ["progressToken"]).ok().and_then(|[token]| token));
                token.and_then(|token| open(&self.progress).get(token.get()).cloned())
            }
            Ok(Kind::Notification { .. }) => {
                let params = frame.as_ref().ok().and_then(|frame| frame.part(&frame.params));
                let id = params.and_then(subscription);
                id.and_then(|id| open(&self.waiting).get(&id).cloned())
            }
            _ => None,
        };
        // What belongs to no request goes to who listens, or to whoever waits for anything.
        let listening = || {
            let to = open(&self.listening).clone().filter(|to| !to.is_closed())?;
            Some(Waits { to, alias: None })
        };
        let anybody = || open(&self.waiting).values().next().cloned();
        match to.or_else(listening).or_else(anybody) {
            Some(to) => to.send(line).await,
            None => self.relay.while_running(line).await,
        }
        open(&self.progress).retain(|_, waits| !waits.to.is_closed());
    }

    fn listen(&self) -> Response {
        let (sender, messages) = mpsc::channel(QUEUE);
        *open(&self.listening) = Some(sender);
        streamed(None, messages, false)
    }
}

/// One message if that is all and comes soon, else a stream that ends with the answer.
async fn reply(mut messages: mpsc::Receiver<Bytes>, is_modern: bool) -> Response {
    let first = match tokio::time::timeout(soon(), messages.recv()).await {
        Ok(Some(first)) => Some(first),
        Ok(None) => return refused(StatusCode::BAD_GATEWAY, "the server ended before it answered"),
        Err(_) => None,
    };
    match first {
        Some(first) if is_answer(&first) && is_modern => message(status(&first), first),
        Some(first) if is_answer(&first) => message(StatusCode::OK, first),
        first => streamed(first, messages, true),
    }
}

fn streamed(first: Option<Bytes>, messages: mpsc::Receiver<Bytes>, ends_with_answer: bool) -> Response {
    let state = (first, messages, false);
    let stream = futures_util::stream::unfold(state, move |(first, mut messages, is_over)| async move {
        if is_over {
            return None;
        }
        let message = match first {
            Some(first) => first,
            None => messages.recv().await?,
        };
        let is_over = ends_with_answer && is_answer(&message);
        let event = Bytes::from(event_of(&message));
        Some((
            Ok::<_, std::convert::Infallible>(event),
            (None, messages, is_over),
        ))
    });
    events(Body::from_stream(stream))
}

fn is_answer(message: &Bytes) -> bool {
    let frame = Frame::read(message.clone());
    frame.is_ok_and(|frame| matches!(frame.kind, Kind::Response { .. }))
}

fn progress_token(params: &[u8]) -> Option<String> {
    let [meta] = pick(params, ["_meta"]).ok()?;
    let [token] = pick(meta?.get().as_bytes(), ["progressToken"]).ok()?;
    Some(token?.get().to_owned())
}
