//! One conversation over HTTP with a server, or several, that speak in lines.
//!
//! Enters: a client's message. Leaves: the answer to it by its id, alone or at the end of a stream. Clients that share a
//! conversation are kept apart by the ids under which their requests go out.

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

use super::endpoint::{Endpoint, Passed, events, is_answer, message, open, passed, refused, soon, through};
use super::events::event_of;
use super::headers::{check, check_arguments};
use super::shared::{Alias, status};
use crate::mcp::backoff::Backoff;
use crate::mcp::call::name_of;
use crate::mcp::child::{Child, Launch};
use crate::mcp::ended_at_once;
use crate::mcp::frame::{Frame, Id, Kind, pick, pick_meta};
use crate::mcp::lines::QUEUE;
use crate::mcp::one_line::OneLine;
use crate::mcp::own;
use crate::mcp::relay::{Relay, Who};
use crate::mcp::server::Server;
use crate::mcp::several::{self, Ends, Routed, Spec, Started, Switch, subscription_of};

/// One conversation, and the servers it is with.
pub(super) struct Conversation {
    with: With,
    /// Who waits for which answer.
    waiting: Mutex<HashMap<Id, Waits>>,
    /// Who hears how far which request is.
    progress: Mutex<HashMap<String, Waits>>,
    /// Counts the requests of clients that share it.
    number: AtomicU64,
    /// Who listens to what the server says of itself.
    listening: Mutex<Option<mpsc::Sender<OneLine>>>,
    /// When it began.
    began: Instant,
    /// When something was last said in it.
    used: Mutex<Instant>,
    /// Its servers have ended, or are about to.
    is_over: AtomicBool,
    life: Life,
}

/// What conversations share about the ends of their servers.
#[derive(Clone, Default)]
pub(super) struct Life {
    /// Servers that are ending.
    pub(super) ending: TaskTracker,
    /// How soon a server that ended by itself may be started again.
    pub(super) backoff: Arc<Backoff>,
}

/// Names a caller, for whom servers are started.
pub(super) fn caller(who: &Who) -> String {
    format!("{} {}", who.agent, who.requester)
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

    fn end(&self, ending: &TaskTracker) {
        match self {
            With::One(_, child) => {
                if let Some(child) = open(child).take() {
                    ending.spawn(child.end());
                }
            }
            With::Several(_, ends) => {
                if let Some(ends) = open(ends).take() {
                    ending.spawn(ends.end());
                }
            }
        }
    }

    /// Returns true if a call is held for a person, or runs: it needs the very process that it was proposed to.
    fn has_open_calls(&self) -> bool {
        match self {
            With::One(relay, _) => relay.gateway.upstreams.has_open_calls(&relay.server),
            With::Several(switch, _) => {
                let upstreams = &switch.gateway.upstreams;
                switch.servers().any(|server| upstreams.has_open_calls(server))
            }
        }
    }
}

/// Who waits, and what they call what they wait for.
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
    /// Whether this is who it is with.
    pub(super) fn is_of(&self, who: &Who) -> bool {
        let whose = self.with.who();
        whose.requester == who.requester && whose.agent == who.agent
    }

    /// Ends its servers.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.with.end(&self.life.ending);
    }

    /// Returns true once its servers have ended, or are about to.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Notes that it is used.
    pub(super) fn touch(&self) {
        *open(&self.used) = Instant::now();
    }

    /// Returns true if nothing was said for so long, nobody listens or waits for an answer, and no call is open.
    pub(super) fn is_idle(&self, limit: Duration) -> bool {
        let is_heard = |to: &mpsc::Sender<OneLine>| !to.is_closed();
        open(&self.used).elapsed() >= limit
            && !open(&self.listening).as_ref().is_some_and(is_heard)
            && !open(&self.waiting).values().any(|waits| is_heard(&waits.to))
            && !self.with.has_open_calls()
    }

    /// Its servers have ended: nothing more will be said. When that was not our doing, they are not started again at once.
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
        life: Life,
    ) -> Result<Arc<Conversation>, String> {
        let (child, way, mut lines) = Child::start(launch).map_err(|failure| failure.message)?;
        let server = Arc::new(Server::new(endpoint.name.clone(), way));
        endpoint.resume(&server);
        let relay = Arc::new(Relay::new(endpoint.gateway.clone(), server, who));
        let with = With::One(relay.clone(), Mutex::new(Some(child)));
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
            heard.ended();
        });
        Ok(conversation)
    }

    pub(super) fn start_several(
        endpoint: &Arc<Endpoint>,
        specs: &[Spec],
        who: &Who,
        life: Life,
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
        let conversation = Conversation::new(With::Several(switch, Mutex::new(Some(ends))), life);
        let heard = conversation.clone();
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                heard.deliver(message).await;
            }
            heard.ended();
        });
        Ok(conversation)
    }

    fn new(with: With, life: Life) -> Arc<Conversation> {
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

    /// Nothing more will be said.
    fn over(&self) {
        open(&self.waiting).clear();
        open(&self.progress).clear();
        *open(&self.listening) = None;
    }

    /// Whether the headers say what the body says; a server without headers leaves that to us. With several servers only
    /// those are compared that every request has, not those that a tool's definition adds.
    pub(super) async fn check(&self, frame: &Frame, headers: &HeaderMap) -> Result<(), String> {
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
                open(&self.progress).insert(token, waits.clone());
            }
        }
        let answered = match &self.with {
            With::One(relay, _) => match through(relay, Frame::read_line(body), alias).await {
                Passed::Answered(answer) => Some(answer),
                Passed::On(body) => match relay.server.send(body).await {
                    Ok(()) => None,
                    Err(_) => Some(refused(StatusCode::BAD_GATEWAY, "the server is gone")),
                },
            },
            With::Several(switch, _) => {
                let (back, said) = mpsc::channel(QUEUE);
                let next = switch.hear_client(Frame::read_line(body), &back).await;
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

    async fn deliver(&self, line: OneLine) {
        self.touch();
        let frame = Frame::again(line.clone());
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

    pub(super) fn listen(&self) -> Response {
        let (sender, messages) = mpsc::channel(QUEUE);
        *open(&self.listening) = Some(sender);
        streamed(None, messages, false)
    }
}

/// One message if that is all and comes soon, else a stream that ends with the answer.
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
