//! The HTTP endpoint that clients call: authentication, sessions and responses.
//!
//! A request is answered with one message, or with a stream of them. Requests with a foreign `Host` or `Origin` are
//! refused first (X26, X27). The caller's identity comes from the token alone, and that token is not forwarded.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bytes::Bytes;
use countersign::decision::{Decider, Surface};
use countersign::store::Store;
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::bridge::{Bridge, Servers};
use super::events::event_of;
use super::headers;
use super::proxy::Proxy;
use super::sessions::Sessions;
use super::shared::{self, Alias};
use super::target::{HttpTarget, SESSION, is_stream};
use crate::access::{Account, Caller, Scope, Token};
use crate::mcp::child::Launch;
use crate::mcp::frame::{Frame, Kind};
use crate::mcp::gateway::Gateway;
use crate::mcp::lines::{QUEUE, Read};
use crate::mcp::lock;
use crate::mcp::multiplexer::Spec;
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::{Next, Relay, Who};
use crate::mcp::server::Server;
use crate::mcp::wire;
use crate::service::{Followed, Revocations, Watch};
use crate::web::AllowedHosts;

/// Maximum size in bytes of a message from a client.
const LARGEST: usize = 16 * 1024 * 1024;
/// Time after which a response is sent as a stream, so that the client sees that the gateway is alive.
const SOON: Duration = Duration::from_millis(200);
/// Maximum interval between checks for idle sessions.
const LOOKS: Duration = Duration::from_secs(15);

/// The HTTP endpoint in front of one server or several.
pub struct Endpoint {
    pub(super) gateway: Arc<Gateway>,
    /// Name of the server, or of the group of servers.
    pub(super) name: String,
    hosts: AllowedHosts,
    callers: Callers,
    behind: EndpointBackend,
    /// Watches the credentials of callers with a long-running request.
    revocations: Revocations,
    sessions: Mutex<Sessions>,
}

/// Callers that the endpoint accepts.
pub enum Callers {
    /// Anyone who can reach the endpoint, with this identity.
    Anybody(Box<Who>),
    /// Agents, by their tokens.
    Tokens,
}

enum EndpointBackend {
    Address(Proxy),
    Command(Bridge),
}

impl Endpoint {
    /// Creates an endpoint in front of a server over streamable HTTP.
    pub fn at_address(
        gateway: Arc<Gateway>,
        name: String,
        hosts: AllowedHosts,
        callers: Callers,
        way: HttpTarget,
    ) -> Endpoint {
        Endpoint {
            gateway,
            name,
            hosts,
            callers,
            behind: EndpointBackend::Address(Proxy::new(way)),
            revocations: Revocations::default(),
            sessions: Mutex::default(),
        }
    }

    /// Creates an endpoint in front of a command, which is started for each session.
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

    /// Creates an endpoint in front of several servers, connected to separately for each session.
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
            behind: EndpointBackend::Command(bridge),
            revocations: Revocations::default(),
            sessions: Mutex::default(),
        }
    }

    /// Returns a router with the one route of the endpoint.
    pub fn routes(self: Arc<Self>, path: &str) -> Router {
        Router::new()
            .route(path, any(called))
            .layer(DefaultBodyLimit::max(LARGEST))
            .with_state(self)
    }

    /// Ends idle sessions and their servers, at intervals. Never returns.
    pub async fn end_idle_sessions(&self) {
        let EndpointBackend::Command(bridge) = &self.behind else {
            return std::future::pending().await;
        };
        let limit = self.gateway.settings.session_idle;
        loop {
            tokio::time::sleep((limit / 4).min(LOOKS)).await;
            bridge.end_idle(limit);
        }
    }

    /// Ends all sessions whose servers were started for them, and waits until those servers have ended.
    pub async fn end(&self) {
        if let EndpointBackend::Command(bridge) = &self.behind {
            bridge.end().await;
        }
    }

    fn store(&self) -> &dyn Store {
        self.gateway.gate.store()
    }

    /// Authenticates a request. Returns the identity and, if there is one, the credential. Fails with an error
    /// response.
    async fn who(&self, headers: &HeaderMap) -> Result<(Who, Option<Caller>), Box<Response>> {
        match &self.callers {
            Callers::Anybody(who) => Ok((Who::clone(who), None)),
            Callers::Tokens => {
                let shown = text(headers, "authorization").and_then(|shown| shown.strip_prefix("Bearer "));
                let caller = match shown {
                    Some(token) => Token::open(self.store(), token.trim()).await,
                    None => Ok(None),
                };
                match caller {
                    Ok(Some(caller)) => Ok((self.agent(&caller).await?, Some(caller))),
                    Ok(None) => Err(Box::new(unauthorized())),
                    Err(error) => Err(Box::new(refused(
                        StatusCode::SERVICE_UNAVAILABLE,
                        &error.to_string(),
                    ))),
                }
            }
        }
    }

    async fn agent(&self, caller: &Caller) -> Result<Who, Box<Response>> {
        let (Some(agent), true) = (&caller.agent, caller.may(Scope::Propose)) else {
            return Err(Box::new(refused(
                StatusCode::FORBIDDEN,
                "this takes an agent's token with the scope `propose`",
            )));
        };
        if caller.tenant != self.gateway.tenant {
            return Err(Box::new(unauthorized()));
        }
        // The person at the client is the person that the token acts for, if it names one.
        let decider = match &caller.person {
            None => None,
            Some(person) => {
                let account = Account::find_with_basis(self.store(), &caller.tenant, person).await;
                account.ok().flatten().map(|(account, basis)| Decider {
                    person: person.clone(),
                    groups: account.groups,
                    surface: Surface::Text,
                    authority_bases: caller.authority_bases.iter().cloned().chain([basis]).collect(),
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

    /// Returns the session that a request names; `None` if it is unknown or belongs to another caller.
    pub(super) fn session(&self, headers: &HeaderMap, who: &Who) -> Option<Arc<Relay>> {
        let name = headers.get(SESSION)?.to_str().ok()?;
        let mut sessions = lock(&self.sessions);
        let found = sessions.get(name).cloned()?;
        let is_its = found.who.requester == who.requester && found.who.agent == who.agent;
        is_its.then(|| {
            sessions.touch(name);
            found
        })
    }

    /// Removes the session that a request names. Does nothing if it names none.
    pub(super) fn forget(&self, headers: &HeaderMap) {
        if let Some(name) = headers.get(SESSION).and_then(|name| name.to_str().ok()) {
            lock(&self.sessions).remove(name);
        }
    }

    /// Registers a server in the background. If the server is stateless, calls that a dead gateway left open for it are
    /// taken over.
    pub(super) fn resume(&self, server: &Arc<Server>) {
        let (gateway, server) = (self.gateway.clone(), server.clone());
        tokio::spawn(async move {
            if let Err(error) = gateway.resume(&server).await {
                tracing::warn!("what was left open cannot be taken up: {error}");
            }
        });
    }

    /// Adds a session. If there are too many, the least recently used one is removed.
    pub(super) fn keep(&self, name: String, relay: Arc<Relay>) {
        lock(&self.sessions).add(name, relay);
    }
}

async fn called(
    State(endpoint): State<Arc<Endpoint>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Err(answer) = check_host_and_origin(&endpoint.hosts, &headers) {
        return *answer;
    }
    if let Some(name) = repeated(&headers) {
        let problem = format!("the header `{name}` is there more than once");
        return refused(StatusCode::BAD_REQUEST, &problem);
    }
    let (who, caller) = match endpoint.who(&headers).await {
        Ok(known) => known,
        Err(answer) => return *answer,
    };
    let read = Frame::read(body);
    let answer = async {
        match &endpoint.behind {
            EndpointBackend::Address(proxy) => proxy.answer(&endpoint, who, method, headers, read).await,
            EndpointBackend::Command(bridge) => bridge.answer(&endpoint, who, method, headers, read).await,
        }
    };
    match caller {
        Some(caller) => while_allowed(&endpoint, &caller, answer).await,
        None => answer.await,
    }
}

/// Awaits a response while watching the caller's credential. If the credential is revoked before the response or during
/// its stream, the request ends (X68).
async fn while_allowed(
    endpoint: &Arc<Endpoint>,
    caller: &Caller,
    answer: impl Future<Output = Response>,
) -> Response {
    let mut answer = std::pin::pin!(answer);
    // Fast path: most responses come before a revocation could be noticed.
    let soon = tokio::time::timeout(2 * SOON, &mut answer).await;
    let watch = || Watch::of(endpoint, caller);
    let (answer, watch) = match soon {
        Ok(answer) if !is_stream(answer.headers()) => return answer,
        Ok(answer) => (answer, watch()),
        Err(_) => {
            let watch = watch();
            let answer = tokio::select! {
                answer = &mut answer => answer,
                () = watch.ended() => return unauthorized(),
            };
            (answer, watch)
        }
    };
    if !is_stream(answer.headers()) {
        return answer;
    }
    let ended = watch.ended();
    answer.map(|body| {
        let body = body.into_data_stream().take_until(ended);
        // Keep the watch alive until the stream is dropped.
        Body::from_stream(body.inspect(move |_| _ = &watch))
    })
}

impl Followed for Arc<Endpoint> {
    fn store(&self) -> &dyn Store {
        self.gateway.gate.store()
    }

    fn revocations(&self) -> &Revocations {
        &self.revocations
    }

    fn stopping(&self) -> &CancellationToken {
        &self.gateway.stopping
    }
}

/// Returns the name of a header that is repeated although it may have only one value; `None` if there is none. Of two
/// values, the gateway could act on one and the server on the other.
fn repeated(headers: &HeaderMap) -> Option<&HeaderName> {
    let counts = |name: &HeaderName| {
        name.as_str().starts_with("mcp-")
            || [header::AUTHORIZATION, header::HOST, header::ORIGIN].contains(name)
    };
    let is_repeated = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
    headers.keys().filter(|name| counts(name)).find(is_repeated)
}

fn check_host_and_origin(hosts: &AllowedHosts, headers: &HeaderMap) -> Result<(), Box<Response>> {
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
            "cross-site requests are refused",
        ))),
    }
}

/// Result of the ruling on a client's message: forward it to the server, or answer with this response.
pub(super) enum Passed<T = OneLine> {
    On(T),
    Answered(Response),
}

/// Passes a client's message to the relay and awaits the ruling. A held call is answered with a stream if something is
/// sent to the client before the answer.
pub(super) async fn through(relay: &Arc<Relay>, read: Read, alias: Option<Arc<Alias>>) -> Passed {
    let (back, messages) = mpsc::channel(QUEUE);
    let next = relay.hear_client(read, &back).await;
    drop(back);
    await_ruling(next, messages, alias).await
}

/// Awaits the ruling on a message; `messages` yields everything that is sent to the client about the message.
pub(super) async fn await_ruling<T: Send + 'static>(
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
    // Nothing is sent to the client for a call that passes, so a first message shows that this one does not pass.
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
        // In protocol versions with sessions, 404 means that the session is gone.
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

/// Returns a stream that starts with `first` and ends with the answer.
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

/// Returns a response that is a stream of server-sent events.
pub(super) fn events(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (StatusCode::OK, headers, body).into_response()
}

/// Returns a response that is one message.
pub(super) fn message(status: StatusCode, message: OneLine) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, message.bytes()).into_response()
}

/// Returns the error response for headers that contradict the body.
pub(super) fn mismatch(frame: &Frame, problem: &str) -> Response {
    let id = frame.part(&frame.id).map(String::from_utf8_lossy);
    message(
        StatusCode::BAD_REQUEST,
        wire::error(id.as_deref(), headers::MISMATCH, problem),
    )
}

/// Returns an error response as a JSON-RPC message.
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

/// Returns the time after which a response is sent as a stream.
pub(super) const fn soon() -> Duration {
    SOON
}
