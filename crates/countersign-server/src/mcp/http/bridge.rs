//! Giving each conversation a server of its own, where that is a command, or several of them.
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

use super::endpoint::{Endpoint, Passed, events, message, mismatch, open, passed, refused, soon, through};
use super::events::event_of;
use super::headers::{are_modern, check, check_arguments};
use super::shared::{Alias, status};
use super::way::SESSION;
use crate::mcp::call::{Says, name_of};
use crate::mcp::child::{Child, Launch};
use crate::mcp::frame::{Frame, Id, Kind, pick};
use crate::mcp::lines::QUEUE;
use crate::mcp::own;
use crate::mcp::relay::{Relay, Who};
use crate::mcp::server::Server;
use crate::mcp::several::{self, Ends, Routed, Spec, Started, Switch, subscription_of};
use crate::mcp::wire;

/// Servers that are reached anew for each conversation.
pub struct Bridge {
    servers: Servers,
    conversations: Mutex<HashMap<String, Arc<Conversation>>>,
}

/// What is reached for each conversation.
pub enum Servers {
    /// A command.
    One(Launch),
    /// Several, of either kind.
    Several(Vec<Spec>),
}

/// One conversation, and the servers it is with.
struct Conversation {
    with: With,
    /// Who waits for which answer.
    waiting: Mutex<HashMap<Id, Waits>>,
    /// Who hears how far which request is.
    progress: Mutex<HashMap<String, Waits>>,
    /// Counts the requests of clients that share it.
    number: AtomicU64,
    /// Who listens to what the server says of itself.
    listening: Mutex<Option<mpsc::Sender<Bytes>>>,
}

/// What stands behind a conversation, and how it ends.
enum With {
    One(Arc<Relay>, Mutex<Option<Child>>),
    Several(Arc<Switch>, Mutex<Option<Ends>>),
}

impl With {
    fn who(&self) -> &Who {
        match self {
            With::One(relay, _) => &relay.who,
            With::Several(switch, _) => &switch.who,
        }
    }

    fn end(&self) {
        match self {
            With::One(_, child) => {
                if let Some(child) = open(child).take() {
                    tokio::spawn(child.end());
                }
            }
            With::Several(_, ends) => {
                if let Some(ends) = open(ends).take() {
                    tokio::spawn(ends.end());
                }
            }
        }
    }
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
    /// To these servers.
    pub fn new(servers: Servers) -> Bridge {
        Bridge {
            servers,
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
                    if let Some(ended) = ended {
                        ended.with.end();
                    }
                    StatusCode::NO_CONTENT.into_response()
                }
                None => refused(StatusCode::NOT_FOUND, "there is no such session"),
            },
            _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        }
    }

    async fn posted(&self, endpoint: &Arc<Endpoint>, who: Who, headers: &HeaderMap, body: Bytes) -> Response {
        let Ok(frame) = Frame::read(body) else {
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
        let whose = found.with.who();
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
        let started = match &self.servers {
            Servers::One(launch) => Conversation::start(endpoint, launch, who),
            Servers::Several(specs) => Conversation::start_several(endpoint, specs, &who),
        };
        let conversation = started.map_err(|problem| Box::new(refused(StatusCode::BAD_GATEWAY, &problem)))?;
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
    fn start(endpoint: &Arc<Endpoint>, launch: &Launch, who: Who) -> Result<Arc<Conversation>, String> {
        let (child, way, mut lines) = Child::start(launch).map_err(|failure| failure.message)?;
        let server = Arc::new(Server::new(endpoint.name.clone(), way));
        endpoint.resume(&server);
        let relay = Arc::new(Relay::new(endpoint.gateway.clone(), server, who));
        let with = With::One(relay.clone(), Mutex::new(Some(child)));
        let conversation = Conversation::new(with);
        let heard = conversation.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next().await {
                if let Some(line) = relay.hear_server(line) {
                    heard.deliver(line).await;
                }
            }
            relay.server.gone();
            heard.over();
        });
        Ok(conversation)
    }

    fn start_several(
        endpoint: &Arc<Endpoint>,
        specs: &[Spec],
        who: &Who,
    ) -> Result<Arc<Conversation>, String> {
        let connections = several::connect(specs).map_err(|failure| failure.message)?;
        let started = Started::new(&endpoint.gateway, who, connections);
        for server in started.servers() {
            endpoint.resume(server);
        }
        let switch = started.switch.clone();
        let (to_client, mut messages) = mpsc::channel(QUEUE);
        let (hearing, ends) = started.hear(to_client);
        tokio::spawn(hearing);
        let conversation = Conversation::new(With::Several(switch, Mutex::new(Some(ends))));
        let heard = conversation.clone();
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                heard.deliver(message).await;
            }
            heard.over();
        });
        Ok(conversation)
    }

    fn new(with: With) -> Arc<Conversation> {
        Arc::new(Conversation {
            with,
            waiting: Mutex::default(),
            progress: Mutex::default(),
            number: AtomicU64::new(1),
            listening: Mutex::default(),
        })
    }

    /// Nothing more will be said.
    fn over(&self) {
        open(&self.waiting).clear();
        open(&self.progress).clear();
        *open(&self.listening) = None;
    }

    /// Whether the headers say what the body says; a server without headers leaves that to us. Of several servers' tools
    /// nobody asks for more headers: ours are the names.
    async fn check(&self, frame: &Frame, headers: &HeaderMap) -> Result<(), String> {
        check(frame, headers)?;
        let With::One(relay, _) = &self.with else {
            return Ok(());
        };
        let params = frame.part(&frame.params).unwrap_or_default();
        let tool = match &frame.kind {
            Kind::Request { method, .. } if method == "tools/call" => name_of(params),
            _ => None,
        };
        let listed = match tool.filter(|tool| !own::is_own(tool)) {
            Some(tool) => {
                // Whoever calls first also says which protocol the server is to be asked in.
                relay.heard(frame);
                relay.server.listed(&tool).await
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
        let (alias, body) = match Alias::of(frame, number).filter(|_| is_shared) {
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
            if !self.claim(id, &waits) {
                return refused(StatusCode::CONFLICT, "a request with this id is under way");
            }
            if let Some(token) = token {
                open(&self.progress).insert(token, waits.clone());
            }
        }
        let answered = match &self.with {
            With::One(relay, _) => match through(relay, body, alias).await {
                Passed::Answered(answer) => Some(answer),
                Passed::On(body) => match relay.server.send(body).await {
                    Ok(()) => None,
                    Err(_) => Some(refused(StatusCode::BAD_GATEWAY, "the server is gone")),
                },
            },
            With::Several(switch, _) => {
                let (back, said) = mpsc::channel(QUEUE);
                let next = switch.hear_client(body, &back).await;
                drop(back);
                match passed(next, said, alias).await {
                    Passed::Answered(answer) => Some(answer),
                    Passed::On(routed) => {
                        self.route(routed, &waits).await;
                        if is_listening(frame) {
                            let (switch, id, to) = (switch.clone(), id.clone(), waits.to.clone());
                            // Who closes the stream listens no more.
                            tokio::spawn(async move {
                                to.closed().await;
                                if let Some(id) = id {
                                    switch.listener_left(&id).await;
                                }
                            });
                        }
                        None
                    }
                }
            }
        };
        drop(waits);
        match (answered, id) {
            (Some(answer), id) => {
                // It was never the server's to answer, or nobody will.
                if let Some(id) = &id {
                    open(&self.waiting).remove(id);
                }
                answer
            }
            (None, None) => StatusCode::ACCEPTED.into_response(),
            (None, Some(_)) => reply(messages, is_shared).await,
        }
    }

    /// Sends what was routed on. What comes of it at once, such as that its server is gone, is the client's.
    async fn route(&self, routed: Routed, waits: &Waits) {
        let (said, mut messages) = mpsc::channel(QUEUE);
        routed.send(&said).await;
        drop(said);
        while let Some(message) = messages.recv().await {
            waits.send(message).await;
        }
    }

    /// The answer under this id goes there; false when somebody waits for one under it, whose answer it would be.
    fn claim(&self, id: &Id, waits: &Waits) -> bool {
        let mut waiting = open(&self.waiting);
        let is_taken = waiting.get(id).is_some_and(|other| !other.to.is_closed());
        if !is_taken {
            waiting.insert(id.clone(), waits.clone());
        }
        !is_taken
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
                let subscription = frame.as_ref().ok().and_then(subscription_of);
                subscription.and_then(|id| open(&self.waiting).get(&id).cloned())
            }
            _ => None,
        };
        // What belongs to no request goes to who listens, or to whoever waits for anything.
        let listening = || {
            let to = open(&self.listening).clone().filter(|to| !to.is_closed())?;
            Some(Waits { to, alias: None })
        };
        let anybody = || open(&self.waiting).values().next().cloned();
        match (to.or_else(listening).or_else(anybody), &self.with) {
            (Some(to), _) => to.send(line).await,
            (None, With::One(relay, _)) => relay.while_running(line).await,
            (None, With::Several(..)) => {}
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

fn is_listening(frame: &Frame) -> bool {
    matches!(&frame.kind, Kind::Request { method, .. } if method == "subscriptions/listen")
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
