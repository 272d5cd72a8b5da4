//! One HTTP session with a stdio server or with several servers.
//!
//! The response to a client's message is found by its request id, and returned alone or at the end of a stream. Clients
//! that share a session are kept apart by sending their requests under different ids.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::endpoint::{Endpoint, Passed, await_ruling, events, is_answer, message, refused, soon, through};
use super::events::event_of;
use super::headers::{check, check_arguments};
use super::shared::{Alias, status};
use crate::mcp::backoff::Backoff;
use crate::mcp::builtin_tools;
use crate::mcp::call::name_of;
use crate::mcp::child::{Child, Launch};
use crate::mcp::ended_at_once;
use crate::mcp::frame::{Frame, Id, Kind, pick, pick_meta};
use crate::mcp::lines::QUEUE;
use crate::mcp::lock;
use crate::mcp::multiplexer::{self, Ends, Multiplexer, Routed, Spec, Started, subscription_of};
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::{Relay, Who};
use crate::mcp::server::Server;

/// An HTTP session and its servers.
pub(super) struct Conversation {
    with: SessionServers,
    /// In-flight requests, by request id.
    waiting: Mutex<HashMap<Id, Waits>>,
    /// In-flight requests, by progress token.
    progress: Mutex<HashMap<String, Waits>>,
    /// Next number for request ids, if clients share the session.
    number: AtomicU64,
    /// Stream for messages that belong to no request.
    listening: Mutex<Option<mpsc::Sender<OneLine>>>,
    /// When the session began.
    began: Instant,
    /// When the last message was sent or received.
    used: Mutex<Instant>,
    /// Whether the servers have ended or are ending.
    is_over: AtomicBool,
    life: SharedLifecycle,
}

/// State shared by all sessions: servers that are ending, and the backoff of restarts.
#[derive(Clone, Default)]
pub(super) struct SharedLifecycle {
    /// Tasks that end servers.
    pub(super) ending: TaskTracker,
    /// Delays restarts of servers that ended by themselves.
    pub(super) backoff: Arc<Backoff>,
}

/// Returns the key by which a caller's shared session and its backoff are found.
pub(super) fn caller(who: &Who) -> String {
    format!("{} {}", who.agent, who.requester)
}

/// The servers of a session, and the handle that ends them, which is `None` once they are ending.
enum SessionServers {
    One(Arc<Relay>, Mutex<Option<Child>>),
    Several(Arc<Multiplexer>, Mutex<Option<Ends>>),
}

impl SessionServers {
    fn who(&self) -> &Who {
        match self {
            SessionServers::One(relay, _) => &relay.who,
            SessionServers::Several(switch, _) => &switch.who,
        }
    }

    fn end(&self, ending: &TaskTracker) {
        match self {
            SessionServers::One(_, child) => {
                if let Some(child) = lock(child).take() {
                    ending.spawn(child.end());
                }
            }
            SessionServers::Several(_, ends) => {
                if let Some(ends) = lock(ends).take() {
                    ending.spawn(ends.end());
                }
            }
        }
    }

    /// Returns true if a call of this session is held or running. The session must not end while there is one, because
    /// the call can only run in this server process.
    fn has_open_calls(&self) -> bool {
        match self {
            SessionServers::One(relay, _) => relay.gateway.upstreams.has_open_calls(&relay.server),
            SessionServers::Several(switch, _) => {
                let upstreams = &switch.gateway.upstreams;
                switch
                    .servers()
                    .iter()
                    .any(|server| upstreams.has_open_calls(server))
            }
        }
    }
}

/// Channel for a response. If the request was sent under another id, also the alias that restores the client's ids.
#[derive(Clone)]
struct Waits {
    to: mpsc::Sender<OneLine>,
    alias: Option<Arc<Alias>>,
}

impl Waits {
    async fn send(&self, message: OneLine) {
        let message = match &self.alias {
            Some(alias) => alias.restore(message),
            None => message,
        };
        let _ = self.to.send(message).await;
    }
}

impl Conversation {
    /// Returns true if the session belongs to this caller.
    pub(super) fn is_of(&self, who: &Who) -> bool {
        let whose = self.with.who();
        whose.requester == who.requester && whose.agent == who.agent
    }

    /// Starts ending the session's servers in the background, and marks the session as over.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.with.end(&self.life.ending);
    }

    /// Makes the session's servers refuse new requests, and ends its calls that wait for a person, or that were
    /// approved and have not started.
    pub(super) async fn end_calls(&self) {
        match &self.with {
            SessionServers::One(relay, _) => {
                relay.server.close();
                relay.gateway.end_session(&relay.server).await;
            }
            SessionServers::Several(switch, _) => {
                for server in switch.servers() {
                    server.close();
                    switch.gateway.end_session(&server).await;
                }
            }
        }
    }

    /// Returns true once the servers have ended or are ending.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Marks the session as used now.
    pub(super) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    /// Returns true if the session was unused for `limit`, no client listens or waits for a response, and no call is
    /// open.
    pub(super) fn is_idle(&self, limit: Duration) -> bool {
        let is_heard = |to: &mpsc::Sender<OneLine>| !to.is_closed();
        lock(&self.used).elapsed() >= limit
            && !lock(&self.listening).as_ref().is_some_and(is_heard)
            && !lock(&self.waiting).values().any(|waits| is_heard(&waits.to))
            && !self.with.has_open_calls()
    }

    /// Handles the end of the servers. If they ended by themselves, the backoff delays the caller's next start.
    fn ended(&self) {
        self.over();
        if !self.is_over() {
            self.life
                .backoff
                .ended(&caller(self.with.who()), self.began.elapsed());
        }
        self.end();
    }

    pub(super) fn start(
        endpoint: &Arc<Endpoint>,
        launch: &Launch,
        who: Who,
        life: SharedLifecycle,
    ) -> Result<Arc<Conversation>, String> {
        let (child, way, mut lines) = Child::start(launch).map_err(|failure| failure.message)?;
        let server = Arc::new(Server::new(endpoint.name.clone(), way));
        endpoint.resume(&server);
        let relay = Arc::new(Relay::new(endpoint.gateway.clone(), server, who));
        let with = SessionServers::One(relay.clone(), Mutex::new(Some(child)));
        let conversation = Conversation::new(with, life);
        let heard = conversation.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next().await {
                if let Some(line) = relay.hear_server(line) {
                    heard.deliver(line).await;
                }
            }
            if relay.server.is_new() && !heard.is_over() {
                ended_at_once(&relay.server.name);
            }
            relay.server.gone();
            if !heard.is_over() {
                relay.gateway.server_ended(&relay.server);
            }
            heard.ended();
        });
        Ok(conversation)
    }

    pub(super) fn start_several(
        endpoint: &Arc<Endpoint>,
        specs: &[Spec],
        who: &Who,
        life: SharedLifecycle,
    ) -> Result<Arc<Conversation>, String> {
        let connections = multiplexer::connect(specs).map_err(|failure| failure.message)?;
        let started = Started::new(&endpoint.gateway, who, connections);
        for server in started.servers() {
            endpoint.resume(&server);
        }
        let switch = started.switch.clone();
        let (to_client, mut messages) = mpsc::channel(QUEUE);
        let (hearing, ends) = started.hear(to_client);
        tokio::spawn(hearing);
        let conversation = Conversation::new(SessionServers::Several(switch, Mutex::new(Some(ends))), life);
        let heard = conversation.clone();
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                heard.deliver(message).await;
            }
            heard.ended();
        });
        Ok(conversation)
    }

    fn new(with: SessionServers, life: SharedLifecycle) -> Arc<Conversation> {
        Arc::new(Conversation {
            with,
            waiting: Mutex::default(),
            progress: Mutex::default(),
            number: AtomicU64::new(1),
            listening: Mutex::default(),
            began: Instant::now(),
            used: Mutex::new(Instant::now()),
            is_over: AtomicBool::new(false),
            life,
        })
    }

    /// Drops the channels to waiting clients, which closes their streams.
    fn over(&self) {
        lock(&self.waiting).clear();
        lock(&self.progress).clear();
        *lock(&self.listening) = None;
    }

    /// Checks the headers against the body, since a stdio server sees no headers. With several servers, only the
    /// headers that every request has are checked, not those that a tool's definition adds.
    pub(super) async fn check(&self, frame: &Frame, headers: &HeaderMap) -> Result<(), String> {
        check(frame, headers)?;
        let SessionServers::One(relay, _) = &self.with else {
            return Ok(());
        };
        let params = frame.part(&frame.params).unwrap_or_default();
        let tool = match &frame.kind {
            Kind::Request { method, .. } if method == "tools/call" => name_of(params),
            _ => None,
        };
        let listed = match tool.filter(|tool| !builtin_tools::is_own(tool)) {
            Some(tool) => {
                // Listing the tools needs the protocol version, which this request may be the first to name.
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

    /// Sends a message to the server and returns the response. If `is_shared`, the request is sent under a new id,
    /// because clients that share a server may use the same ids.
    pub(super) async fn exchange(&self, frame: &Frame, is_shared: bool) -> Response {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let (alias, body) = match Alias::of(frame, number).filter(|_| is_shared) {
            Some((alias, body)) => (Some(Arc::new(alias)), body),
            None => (None, frame.line.clone()),
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
        let params = frame.part(&frame.params).unwrap_or_default();
        let token = pick_meta(params, "progressToken").map(|token| match &alias {
            Some(alias) => alias.id.as_json().to_owned(),
            None => token.get().to_owned(),
        });
        if let Some(id) = &id {
            if !self.claim(id, &waits) {
                return refused(StatusCode::CONFLICT, "a request with this id is under way");
            }
            if let Some(token) = token {
                lock(&self.progress).insert(token, waits.clone());
            }
        }
        let answered = match &self.with {
            SessionServers::One(relay, _) => match through(relay, Frame::read_line(body), alias).await {
                Passed::Answered(answer) => Some(answer),
                Passed::On(body) => match relay.server.send(body).await {
                    Ok(()) => None,
                    Err(_) => Some(refused(StatusCode::BAD_GATEWAY, "the server is gone")),
                },
            },
            SessionServers::Several(switch, _) => {
                let (back, said) = mpsc::channel(QUEUE);
                let next = switch.hear_client(Frame::read_line(body), &back).await;
                drop(back);
                match await_ruling(next, said, alias).await {
                    Passed::Answered(answer) => Some(answer),
                    Passed::On(routed) => {
                        self.route(routed, &waits).await;
                        if is_listening(frame) {
                            let (switch, id, to) = (switch.clone(), id.clone(), waits.to.clone());
                            // A client that closes the stream ends its subscription.
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
                // Either the server never got the request, or it will not be answered.
                if let Some(id) = &id {
                    lock(&self.waiting).remove(id);
                }
                answer
            }
            (None, None) => StatusCode::ACCEPTED.into_response(),
            (None, Some(_)) => reply(messages, is_shared).await,
        }
    }

    /// Sends a routed request. Immediate errors, such as that the server is gone, go to the client.
    async fn route(&self, routed: Routed, waits: &Waits) {
        let (said, mut messages) = mpsc::channel(QUEUE);
        routed.send(&said).await;
        drop(said);
        while let Some(message) = messages.recv().await {
            waits.send(message).await;
        }
    }

    /// Registers where the response to a request goes. Returns false if another request with this id is in flight.
    fn claim(&self, id: &Id, waits: &Waits) -> bool {
        let mut waiting = lock(&self.waiting);
        let is_taken = waiting.get(id).is_some_and(|other| !other.to.is_closed());
        if !is_taken {
            waiting.insert(id.clone(), waits.clone());
        }
        !is_taken
    }

    async fn deliver(&self, line: OneLine) {
        self.touch();
        let frame = Frame::again(line.clone());
        let to = match frame.as_ref().map(|frame| &frame.kind) {
            Ok(Kind::Response { id }) => lock(&self.waiting).remove(id),
            Ok(Kind::Notification { method }) if method == "notifications/progress" => {
                let params = frame.as_ref().ok().and_then(|frame| frame.part(&frame.params));
                let token =
                    params.and_then(|params| pick(params, ["progressToken"]).ok().and_then(|[token]| token));
                token.and_then(|token| lock(&self.progress).get(token.get()).cloned())
            }
            Ok(Kind::Notification { .. }) => {
                let subscription = frame.as_ref().ok().and_then(subscription_of);
                subscription.and_then(|id| lock(&self.waiting).get(&id).cloned())
            }
            _ => None,
        };
        // Messages that belong to no request go to the listening stream, or else to any in-flight request.
        let listening = || {
            let to = lock(&self.listening).clone().filter(|to| !to.is_closed())?;
            Some(Waits { to, alias: None })
        };
        let anybody = || lock(&self.waiting).values().next().cloned();
        match (to.or_else(listening).or_else(anybody), &self.with) {
            (Some(to), _) => to.send(line).await,
            (None, SessionServers::One(relay, _)) => relay.while_running(line).await,
            (None, SessionServers::Several(..)) => {}
        }
        lock(&self.progress).retain(|_, waits| !waits.to.is_closed());
    }

    pub(super) fn listen(&self) -> Response {
        let (sender, messages) = mpsc::channel(QUEUE);
        *lock(&self.listening) = Some(sender);
        streamed(None, messages, false)
    }
}

/// Returns a single message if the first message is the answer and comes soon; otherwise a stream that ends with the
/// answer.
async fn reply(mut messages: mpsc::Receiver<OneLine>, is_modern: bool) -> Response {
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

fn streamed(first: Option<OneLine>, messages: mpsc::Receiver<OneLine>, ends_with_answer: bool) -> Response {
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
