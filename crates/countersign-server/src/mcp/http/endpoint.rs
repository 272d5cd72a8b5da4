//! What clients call: who they are, which conversation they mean, and the answer they get.
//!
//! Enters: HTTP requests. Leaves: one message, or a stream of them. A name that is not ours or a page of somebody
//! else's is turned away first (X26, X27); identity comes from the token alone, and ours goes no further.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bytes::Bytes;
use countersign::decision::{Decider, Surface};
use countersign::store::Store;
use tokio::sync::mpsc;

use super::bridge::{Bridge, Servers};
use super::events::event_of;
use super::headers;
use super::proxy::Proxy;
use super::shared::{self, Alias};
use super::way::{SESSION, Way};
use crate::access::{Account, Caller, Scope, Token};
use crate::http::AllowedHosts;
use crate::mcp::child::Launch;
use crate::mcp::frame::{Frame, Kind};
use crate::mcp::gateway::Gateway;
use crate::mcp::lines::{QUEUE, Read};
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::{Next, Relay, Who};
use crate::mcp::server::Server;
use crate::mcp::several::Spec;
use crate::mcp::wire;

/// The largest message a client may send.
const LARGEST: usize = 16 * 1024 * 1024;
/// An answer that takes longer is begun as a stream, so that nobody takes us for dead.
const SOON: Duration = Duration::from_millis(200);
/// How often sessions that nobody uses are looked for, at least.
const LOOKS: Duration = Duration::from_secs(15);
/// The most conversations at a time.
pub const MOST_SESSIONS: usize = 1000;

/// An endpoint.
pub struct Endpoint {
    pub(super) gateway: Arc<Gateway>,
    /// What the server is called.
    pub(super) name: String,
    hosts: AllowedHosts,
    callers: Callers,
    behind: Behind,
    pub(super) sessions: Mutex<HashMap<String, Arc<Relay>>>,
}

/// Who may call.
pub enum Callers {
    /// Whoever can reach it, as this one.
    Anybody(Box<Who>),
    /// Agents, by their tokens.
    Tokens,
}

enum Behind {
    Address(Proxy),
    Command(Bridge),
}

impl Endpoint {
    /// In front of a server at an address.
    pub fn at_address(
        gateway: Arc<Gateway>,
        name: String,
        hosts: AllowedHosts,
        callers: Callers,
        way: Way,
    ) -> Endpoint {
        Endpoint {
            gateway,
            name,
            hosts,
            callers,
            behind: Behind::Address(Proxy::new(way)),
            sessions: Mutex::default(),
        }
    }

    /// In front of a server that is started for each conversation.
    pub fn for_command(
        gateway: Arc<Gateway>,
        name: String,
        hosts: AllowedHosts,
        callers: Callers,
        launch: Launch,
    ) -> Endpoint {
        let bridge = Bridge::new(Servers::One(launch));
        Endpoint::bridged(gateway, name, hosts, callers, bridge)
    }

    /// In front of several servers, which are reached anew for each conversation.
    pub fn for_several(
        gateway: Arc<Gateway>,
        name: String,
        hosts: AllowedHosts,
        callers: Callers,
        specs: Vec<Spec>,
    ) -> Endpoint {
        let bridge = Bridge::new(Servers::Several(specs));
        Endpoint::bridged(gateway, name, hosts, callers, bridge)
    }

    fn bridged(
        gateway: Arc<Gateway>,
        name: String,
        hosts: AllowedHosts,
        callers: Callers,
        bridge: Bridge,
    ) -> Endpoint {
        Endpoint {
            gateway,
            name,
            hosts,
            callers,
            behind: Behind::Command(bridge),
            sessions: Mutex::default(),
        }
    }

    /// Its one route.
    pub fn routes(self: Arc<Self>, path: &str) -> Router {
        Router::new()
            .route(path, any(called))
            .layer(DefaultBodyLimit::max(LARGEST))
            .with_state(self)
    }

    /// Ends sessions that nobody uses, and the servers that were started for them, for as long as it is polled.
    pub async fn end_idle_sessions(&self) {
        let Behind::Command(bridge) = &self.behind else {
            return std::future::pending().await;
        };
        let limit = self.gateway.settings.session_idle;
        loop {
            tokio::time::sleep((limit / 4).min(LOOKS)).await;
            bridge.end_idle(limit);
        }
    }

    /// Ends all sessions, and the servers that were started for them.
    pub async fn end(&self) {
        if let Behind::Command(bridge) = &self.behind {
            bridge.end().await;
        }
    }

    fn store(&self) -> &dyn Store {
        self.gateway.gate.store()
    }

    /// Who calls, or the answer they get instead.
    async fn who(&self, headers: &HeaderMap) -> Result<Who, Box<Response>> {
        match &self.callers {
            Callers::Anybody(who) => Ok(Who::clone(who)),
            Callers::Tokens => {
                let shown = text(headers, "authorization").and_then(|shown| shown.strip_prefix("Bearer "));
                let caller = match shown {
                    Some(token) => Token::open(self.store(), token.trim()).await,
                    None => Ok(None),
                };
                match caller {
                    Ok(Some(caller)) => self.agent(caller).await,
                    Ok(None) => Err(Box::new(unauthorized())),
                    Err(error) => Err(Box::new(refused(
                        StatusCode::SERVICE_UNAVAILABLE,
                        &error.to_string(),
                    ))),
                }
            }
        }
    }

    async fn agent(&self, caller: Caller) -> Result<Who, Box<Response>> {
        let (Some(agent), true) = (&caller.agent, caller.may(Scope::Propose)) else {
            return Err(Box::new(refused(
                StatusCode::FORBIDDEN,
                "this takes an agent's token with the scope `propose`",
            )));
        };
        if caller.tenant != self.gateway.tenant {
            return Err(Box::new(unauthorized()));
        }
        // The person at the client is whom the token acts for, if it says so.
        let decider = match &caller.person {
            None => None,
            Some(person) => {
                let account = Account::look(self.store(), &caller.tenant, person).await;
                account.ok().flatten().map(|(account, ground)| Decider {
                    person: person.clone(),
                    groups: account.groups,
                    surface: Surface::Text,
                    grounds: caller.grounds.iter().cloned().chain([ground]).collect(),
                })
            }
        };
        Ok(Who {
            agent: agent.clone(),
            is_named: true,
            requester: caller.name.clone(),
            on_behalf_of: caller.person.clone(),
            decider,
            session: None,
        })
    }

    /// The conversation a request names, if it is this caller's.
    pub(super) fn session(&self, headers: &HeaderMap, who: &Who) -> Option<Arc<Relay>> {
        let name = headers.get(SESSION)?.to_str().ok()?;
        let found = open(&self.sessions).get(name).cloned()?;
        (found.who.requester == who.requester && found.who.agent == who.agent).then_some(found)
    }

    /// A server that can take up what an earlier process left open.
    pub(super) fn resume(&self, server: &Arc<Server>) {
        let (gateway, server) = (self.gateway.clone(), server.clone());
        tokio::spawn(async move {
            if let Err(error) = gateway.resume(&server).await {
                tracing::warn!("what was left open cannot be taken up: {error}");
            }
        });
    }

    /// A conversation begins.
    pub(super) fn keep(&self, name: String, relay: Arc<Relay>) {
        let mut sessions = open(&self.sessions);
        if sessions.len() >= MOST_SESSIONS
            && let Some(oldest) = sessions.keys().next().cloned()
        {
            sessions.remove(&oldest);
        }
        sessions.insert(name, relay);
    }
}

async fn called(
    State(endpoint): State<Arc<Endpoint>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Err(answer) = door(&endpoint.hosts, &headers) {
        return *answer;
    }
    let who = match endpoint.who(&headers).await {
        Ok(who) => who,
        Err(answer) => return *answer,
    };
    let read = Frame::read(body);
    match &endpoint.behind {
        Behind::Address(proxy) => proxy.answer(&endpoint, who, method, headers, read).await,
        Behind::Command(bridge) => bridge.answer(&endpoint, who, method, headers, read).await,
    }
}

fn door(hosts: &AllowedHosts, headers: &HeaderMap) -> Result<(), Box<Response>> {
    let host = text(headers, "host");
    let Some(host) = host.filter(|host| hosts.include(host)) else {
        return Err(Box::new(refused(
            StatusCode::FORBIDDEN,
            "the gateway does not answer to this name",
        )));
    };
    let is_ours = match headers.get(header::ORIGIN) {
        None => true,
        Some(origin) => origin.to_str().is_ok_and(|origin| {
            let name = origin.split_once("://").map(|(_, name)| name);
            name.is_some_and(|name| name.eq_ignore_ascii_case(host))
        }),
    };
    match is_ours {
        true => Ok(()),
        false => Err(Box::new(refused(
            StatusCode::FORBIDDEN,
            "requests from other sites are not taken",
        ))),
    }
}

/// What became of a client's message: it goes on to the server, or this is the answer.
pub(super) enum Passed<T = OneLine> {
    On(T),
    Answered(Response),
}

/// Puts a client's message through the relay. What is held is answered as a stream, as soon as it takes long.
pub(super) async fn through(relay: &Arc<Relay>, read: Read, alias: Option<Arc<Alias>>) -> Passed {
    let (back, messages) = mpsc::channel(QUEUE);
    let next = relay.hear_client(read, &back).await;
    drop(back);
    passed(next, messages, alias).await
}

/// What becomes of a message that was heard, when all that is said to the client meanwhile comes here.
pub(super) async fn passed<T: Send + 'static>(
    next: Next<T>,
    mut messages: mpsc::Receiver<OneLine>,
    alias: Option<Arc<Alias>>,
) -> Passed<T> {
    let restored = |message: OneLine| match &alias {
        Some(alias) => alias.restore(message),
        None => message,
    };
    let ruling = match next {
        Next::Send(bytes) => return Passed::On(bytes),
        Next::Done => Box::pin(std::future::ready(None)),
        Next::Later(ruling) => ruling,
    };
    let ruling = tokio::spawn(ruling);
    // While it is not clear whether it passes, nothing has been said; once it is, nothing more will be.
    let first = match messages.recv().await {
        Some(first) => Some(first),
        None => match ruling.await {
            Ok(Some(bytes)) => return Passed::On(bytes),
            _ => None,
        },
    };
    let Some(first) = first else {
        return Passed::Answered(StatusCode::ACCEPTED.into_response());
    };
    let first = restored(first);
    if is_answer(&first) {
        // To the protocol's earlier versions, 404 means that a session is gone.
        let status = match shared::status(&first) {
            StatusCode::NOT_FOUND if alias.is_none() => StatusCode::OK,
            status => status,
        };
        return Passed::Answered(message(status, first));
    }
    Passed::Answered(stream(first, messages, alias))
}

pub(super) fn is_answer(message: &OneLine) -> bool {
    let frame = Frame::again(message.clone());
    frame.is_ok_and(|frame| matches!(frame.kind, Kind::Response { .. }))
}

/// A stream that begins with one message and ends with the answer.
fn stream(first: OneLine, messages: mpsc::Receiver<OneLine>, alias: Option<Arc<Alias>>) -> Response {
    let state = (Some(first), messages, alias);
    let rest = futures_util::stream::unfold(state, |(first, mut messages, alias)| async move {
        let message = match first {
            Some(first) => first,
            None => messages.recv().await?,
        };
        let message = match &alias {
            Some(alias) => alias.restore(message),
            None => message,
        };
        let event = Bytes::from(event_of(&message));
        Some((Ok::<_, std::convert::Infallible>(event), (None, messages, alias)))
    });
    events(Body::from_stream(rest))
}

/// An answer that is a stream of events.
pub(super) fn events(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (StatusCode::OK, headers, body).into_response()
}

/// An answer that is one message.
pub(super) fn message(status: StatusCode, message: OneLine) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, message.bytes()).into_response()
}

/// Headers and body say different things.
pub(super) fn mismatch(frame: &Frame, problem: &str) -> Response {
    let id = frame.part(&frame.id).map(String::from_utf8_lossy);
    message(
        StatusCode::BAD_REQUEST,
        wire::error(id.as_deref(), headers::MISMATCH, problem),
    )
}

/// A refusal, as a message that clients understand.
pub(super) fn refused(status: StatusCode, reason: &str) -> Response {
    message(status, wire::error(None, wire::INVALID_REQUEST, reason))
}

fn unauthorized() -> Response {
    let mut answer = refused(
        StatusCode::UNAUTHORIZED,
        "send `Authorization: Bearer TOKEN`; make one with `countersign token create --agent NAME --scope propose,wait`",
    );
    answer
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

pub(super) fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a held call may take before its answer is begun as a stream.
pub(super) const fn soon() -> Duration {
    SOON
}
