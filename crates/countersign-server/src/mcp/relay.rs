//! Forwards messages between one client and one server, unchanged except for tool calls and some lists.
//!
//! The built-in tools are added to lists, and each held call gets one answer. Transports are elsewhere: messages come
//! in parsed and leave as [`OneLine`].

mod forwarded;
mod lists;
mod ruling;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use countersign::approval::{Approval, SharedApproval};
use countersign::decision::Decider;
use countersign::executor::{Outcome, PermitToken};
use countersign::id::{Agent, ApprovalId, CallId, Person, Session};
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::{Form, SPOKE_FOR_US, speaks_for_us};
use super::answer_history::{AwaitedAnswer, Seen};
use super::bad::Bad;
use super::call::{Says, ToolCall, name_of};
use super::continuation::Continuations;
use super::frame::{Frame, Id, Kind, pick};
use super::gateway::{Gateway, ToolCallRequest};
use super::lines::Read;
use super::one_line::OneLine;
use super::server::{OWN, Server, is_own};
use super::wire;
use crate::mcp::lock;
use crate::output;
use forwarded::Forwarded;

/// Method of tool calls, the only requests that are ruled on.
const TOOLS_CALL: &str = "tools/call";
/// Prefix of methods that are notifications.
const NOTIFICATION: &str = "notifications/";

/// Channel for messages to the client.
pub type Back = mpsc::Sender<OneLine>;

/// Next step for a message from the client.
pub enum Next<T = OneLine> {
    /// Send this to the server.
    Send(T),
    /// Send nothing: the gateway has handled the message, or will answer it.
    Done,
    /// Resolves later to the message to send to the server, if any.
    Later(BoxFuture<'static, Option<T>>),
}

impl From<Option<OneLine>> for Next {
    fn from(line: Option<OneLine>) -> Next {
        line.map_or(Next::Done, Next::Send)
    }
}

/// The connection of one client to one server.
pub struct Relay {
    /// State shared with other clients.
    pub gateway: Arc<Gateway>,
    /// The upstream server.
    pub server: Arc<Server>,
    /// Identity of the client, by its credential.
    pub who: Who,
    /// Name, capabilities and handshake of the client, as it stated them.
    pub client: Mutex<Client>,
    /// The client's requests that the server has not answered.
    forwarded: Mutex<Forwarded>,
    /// The server's requests that the client has not answered.
    asked: Mutex<Forwarded>,
    /// The client's requests whose answers the gateway extends, and what it adds to each.
    lists: Mutex<HashMap<Id, Adds>>,
    /// True if the server supports no tasks, so that all tasks are the gateway's.
    adds_tasks: AtomicBool,
    /// In-flight calls of this client.
    waiting: Mutex<HashMap<Id, Waiting>>,
    /// Background tasks that answer calls.
    answers: TaskTracker,
    /// Approved calls that the server answered with a question of its own.
    continuations: Continuations,
    /// Passed calls with an effect other than `read`, until the server answers them.
    passed: Mutex<HashMap<Id, (CallId, PermitToken)>>,
    /// Earlier answers of servers to the client, from which the provenance of later arguments is found.
    pub seen: Arc<Seen>,
    /// Requests of the gateway to the client that have no answer yet.
    questions: Mutex<HashMap<Id, oneshot::Sender<Frame>>>,
}

/// Addition of the gateway to a server's answer: the built-in tools or the tasks extension.
#[derive(Clone, Copy)]
enum Adds {
    Tools,
    Tasks,
}

/// An in-flight tool call.
pub struct InFlightCall {
    /// The call as the client sent it.
    pub call: ToolCall,
    /// Format of the answer.
    pub form: Form,
    /// Channel for the answer.
    pub back: Back,
    /// Cancelled when the client no longer wants an answer.
    pub cancelled: CancellationToken,
    /// Whether the client is to be told at once to ask a person: the tool declares an argument `confirmed`, and the
    /// call does not set it.
    pub asks_first: bool,
}

/// State of an in-flight call that a cancellation or a disconnection needs.
struct Waiting {
    cancelled: CancellationToken,
    approval: Option<ApprovalId>,
    back: Back,
}

/// Identity of the caller: from a credential, or from the person who started the process.
#[derive(Clone, Debug)]
pub struct Who {
    /// Name of the agent.
    pub agent: Agent,
    /// Whether `agent` is the name to use. If false, the name that the client gives itself is preferred.
    pub is_named: bool,
    /// The caller's credential, or the person who started the process.
    pub requester: Person,
    /// Person for whom the caller acts, if any.
    pub on_behalf_of: Option<Person>,
    /// The person at the client, as a decider; `None` if that person is not known.
    pub decider: Option<Decider>,
    /// Session under which this caller's calls are proposed, if any.
    pub session: Option<Session>,
}

/// Name, capabilities and handshake of a client, as it stated them.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Name of the client, if it stated one.
    pub name: Option<String>,
    /// Capabilities of the client, as JSON, if it stated any.
    pub capabilities: Option<String>,
    /// Parameters of the client's `initialize` request, as JSON, if it sent one.
    pub greeting: Option<String>,
}

impl Relay {
    /// Creates the relay of a client that has sent nothing yet.
    pub fn new(gateway: Arc<Gateway>, server: Arc<Server>, who: Who) -> Relay {
        Relay {
            gateway,
            server,
            who,
            client: Mutex::default(),
            forwarded: Mutex::default(),
            asked: Mutex::default(),
            lists: Mutex::default(),
            adds_tasks: AtomicBool::new(false),
            waiting: Mutex::default(),
            answers: TaskTracker::new(),
            continuations: Continuations::default(),
            passed: Mutex::default(),
            seen: Arc::default(),
            questions: Mutex::default(),
        }
    }

    /// Uses `seen` as the answer history. It is shared with the client's other servers, because an answer of one server
    /// may be used in a call to another.
    pub fn with_seen(self, seen: Seen) -> Relay {
        Relay {
            seen: Arc::new(seen),
            ..self
        }
    }

    /// Handles a message from the client. Returns what to send to the server. Answers of the gateway go to `back`.
    pub async fn hear_client(self: &Arc<Self>, read: Read, back: &Back) -> Next {
        let frame = match read {
            Ok(frame) => frame,
            Err(bad) => {
                let _ = back.send(refused(&bad)).await;
                return Next::Done;
            }
        };
        if let Some(refusal) = refusal(&frame) {
            let _ = back.send(refusal).await;
            return Next::Done;
        }
        let kind = frame.kind.clone();
        let send = match &kind {
            Kind::Response { id } if is_own(id) => {
                self.answered(frame);
                None
            }
            Kind::Request { id, method } => match method.as_str() {
                "tools/call" => return self.tool_call(&frame, back).await,
                "tools/list" => {
                    self.heard(&frame);
                    lock(&self.lists).insert(id.clone(), Adds::Tools);
                    Some(frame.line)
                }
                "server/discover" => {
                    // If a tool list was requested under the same id, keep its entry: that answer has to be extended,
                    // too.
                    lock(&self.lists).entry(id.clone()).or_insert(Adds::Tasks);
                    Some(frame.line)
                }
                "initialize" => {
                    self.greet(&frame);
                    Some(frame.line)
                }
                "tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result" | "tasks/list" => {
                    let is_ours = self.about_task(&frame, method, back);
                    if !is_ours && method == "tasks/result" {
                        self.asks(id, method);
                    }
                    (!is_ours).then_some(frame.line)
                }
                "resources/read" => {
                    self.asks(id, method);
                    Some(frame.line)
                }
                _ => Some(frame.line),
            },
            Kind::Notification { method } => match method.as_str() {
                "notifications/cancelled" => (!self.cancel(&frame)).then_some(frame.line),
                "notifications/initialized" => {
                    self.server.mark_greeted();
                    Some(frame.line)
                }
                _ => Some(frame.line),
            },
            // Some servers exit on a response to a request they never sent.
            Kind::Response { id } if id.as_json() != "null" && !lock(&self.asked).take(id) => {
                output::print_to_stderr(
                    "countersign: the client answered what it was not asked; not passed on",
                );
                None
            }
            Kind::Response { .. } => Some(frame.line),
        };
        if let (Some(_), Kind::Request { id, .. }) = (&send, &kind) {
            self.forwards(id);
        }
        send.into()
    }

    /// Registers a request id that goes to the server, which may answer it once.
    pub(super) fn forwards(&self, id: &Id) {
        lock(&self.forwarded).add(id);
    }

    /// Removes all requests that the server has not answered, and returns their ids.
    pub fn take_unanswered(&self) -> Vec<Id> {
        lock(&self.forwarded).take_all()
    }

    /// Removes a request id, if there is one, from those that the server may still answer.
    pub fn forget(&self, id: Option<&Id>) {
        if let Some(id) = id {
            lock(&self.forwarded).take(id);
        }
    }

    /// Handles a message from the server. Returns the message for the client, or `None` if the client gets none.
    pub fn hear_server(&self, read: Read) -> Option<OneLine> {
        let frame = match read {
            Ok(frame) => frame,
            Err(bad) => return self.hear_bad(&bad),
        };
        let frame = self.server.take_own(frame)?;
        match &frame.kind {
            Kind::Notification { method } if method == "notifications/tools/list_changed" => {
                self.server.tools.changed();
            }
            Kind::Request { id, .. } => lock(&self.asked).add(id),
            // An error about an unreadable message names no request.
            Kind::Response { id } if id.as_json() == "null" => {}
            Kind::Response { id } => {
                // The id has to be exact: some clients take `"1"` for 1, and would then read a tool list that the
                // gateway did not check.
                let Some(others) = lock(&self.forwarded).take_one(id) else {
                    let name = &self.server.name;
                    output::print_to_stderr(&format!(
                        "countersign: `{name}` answered what it was not asked; not passed on"
                    ));
                    return None;
                };
                self.seen.answered(id, &frame);
                self.passed_answered(id, &frame);
                let adds = match others {
                    0 => lock(&self.lists).remove(id),
                    // Two requests share this id, so only the content shows whether the answer is a tool list.
                    _ => lock(&self.lists).get(id).copied().filter(|_| has_tools(&frame)),
                };
                if frame.part(&frame.result).is_some_and(speaks_for_us) {
                    output::print_to_stderr(&format!(
                        "countersign: a result of `{}` spoke in our name; that was not passed on",
                        self.server.name
                    ));
                    if matches!(adds, Some(Adds::Tools)) {
                        self.server.tools.not_listed();
                    }
                    return Some(wire::error(Some(id.as_json()), wire::INTERNAL, SPOKE_FOR_US));
                }
                match adds {
                    Some(Adds::Tools) => return Some(self.with_own_tools(frame)),
                    Some(Adds::Tasks) => return Some(self.with_tasks(&frame)),
                    None => {}
                }
            }
            _ => {}
        }
        Some(frame.line)
    }

    /// Handles an unreadable message from the server. Nothing of it is forwarded. A request that it seems to answer
    /// fails at once: returns the error for the client, or `None` if no request of the client is concerned.
    fn hear_bad(&self, bad: &Bad) -> Option<OneLine> {
        let (name, problem) = (&self.server.name, bad.problem());
        output::print_to_stderr(&format!(
            "countersign: a message of `{name}` was not passed on: {problem}"
        ));
        let why = format!("the server's answer could not be read: {problem}");
        if self.server.lost_in(bad, &why) {
            return None;
        }
        let seems = bad.seems();
        if let Some(id) = seems.asks().filter(|id| !is_own(id)) {
            let problem = format!("the gateway does not pass this on: {problem}");
            let refusal = wire::error(Some(id.as_json()), wire::INVALID_REQUEST, &problem);
            let server = self.server.clone();
            tokio::spawn(async move { server.send(refusal).await });
        }
        let mut answers = seems.answers().iter();
        let id = answers.find(|id| lock(&self.forwarded).take(id))?;
        self.seen.forget(id);
        self.passed_ended(id, Outcome::Unknown(why.clone()));
        self.forget_list(id);
        Some(wire::error(Some(id.as_json()), wire::INTERNAL, &why))
    }

    /// Forgets a request whose answer could not be read. If it was a list of tools, the tools of the previous list are
    /// forgotten too.
    pub(super) fn forget_list(&self, id: &Id) {
        if let Some(Adds::Tools) = lock(&self.lists).remove(id) {
            self.server.tools.not_listed();
        }
    }

    /// Records the result of an approved call in the answer history. If the result is a question of the server, the
    /// client may continue the call.
    pub(super) fn may_continue(&self, approval: &Approval) {
        let Some(call) = approval.calls.first() else {
            return;
        };
        let proposed = call.original.as_ref().unwrap_or(&call.arguments).as_bytes();
        if let (Some(result), Some((_, tool))) = (&call.result, call.tool.as_str().split_once('/')) {
            let arguments: Arc<[u8]> = proposed.into();
            self.continuations.remember(result, tool, &arguments);
            let name = call.tool.as_str().to_owned();
            self.seen.saw(AwaitedAnswer { name, arguments }, result);
        }
    }

    /// Registers a request other than a tool call, so that its answer is added to the answer history.
    fn asks(&self, id: &Id, method: &str) {
        let (name, arguments) = (self.server.qualified(method), [].into());
        self.seen.ask(id, AwaitedAnswer { name, arguments });
    }

    /// Handles the client's disconnection: its calls stay open without it. Returns once all answers have been sent.
    pub async fn client_left(&self) {
        for (_, waiting) in lock(&self.waiting).drain() {
            waiting.cancelled.cancel();
        }
        self.answers.close();
        self.answers.wait().await;
    }

    /// Delivers the client's answer to a request of the gateway. Responses with the gateway's ids never go to the
    /// server.
    fn answered(&self, frame: Frame) {
        let question = match &frame.kind {
            Kind::Response { id } => lock(&self.questions).remove(id),
            _ => None,
        };
        if let Some(question) = question {
            let _ = question.send(frame);
        }
    }

    /// Creates an id for a request of the gateway; `None` if no random bytes are available.
    pub(super) fn own_id(&self) -> Option<Id> {
        Id::unguessable(OWN)
    }

    /// Registers where the answer to a request that the gateway sent goes.
    pub(super) fn expects(&self, id: Id, answer: oneshot::Sender<Frame>) {
        lock(&self.questions).insert(id, answer);
    }

    /// Stops waiting for the answer to a request that the gateway sent.
    pub(super) fn expects_no_more(&self, id: &Id) {
        lock(&self.questions).remove(id);
    }

    /// Returns the capabilities that the client declared last, as JSON; `None` if it declared none.
    pub(super) fn capabilities(&self) -> Option<String> {
        lock(&self.client).capabilities.clone()
    }

    fn greet(&self, frame: &Frame) {
        let Some(params) = frame.part(&frame.params) else {
            return;
        };
        let Ok([info, capabilities]) = pick(params, ["clientInfo", "capabilities"]) else {
            return;
        };
        *lock(&self.client) = Client {
            name: info.and_then(|info| name_of(info.get().as_bytes())),
            capabilities: capabilities.map(|capabilities| capabilities.get().to_owned()),
            greeting: Some(String::from_utf8_lossy(params).into_owned()),
        };
    }

    /// Updates the client's name and capabilities from a request that states them in its `_meta`.
    pub(super) fn heard(&self, frame: &Frame) {
        if let Some(params) = frame.part(&frame.params) {
            self.learn(&Says::read(params));
        }
    }

    fn learn(&self, says: &Says) {
        let Some(meta) = &says.meta else {
            return;
        };
        self.server.speaks(meta.clone());
        *lock(&self.client) = Client {
            name: says.client.clone(),
            capabilities: says.capabilities.clone(),
            greeting: None,
        };
    }

    /// Creates a call request in the name of this client, without a tool definition and a working folder.
    pub fn request(&self, tool: String, arguments: Arc<[u8]>) -> ToolCallRequest {
        ToolCallRequest {
            agent: self.agent(),
            requester: self.who.requester.clone(),
            on_behalf_of: self.who.on_behalf_of.clone(),
            session: self.who.session.clone(),
            tool,
            arguments,
            definition: None,
            working_folder: None,
            seen: self.seen.clone(),
        }
    }

    fn agent(&self) -> Agent {
        let said = lock(&self.client).name.clone().filter(|_| !self.who.is_named);
        let said = said.and_then(|name| Agent::new(name).ok());
        said.unwrap_or_else(|| self.who.agent.clone())
    }

    /// Returns an approval; `None` if it does not exist, belongs to another client or cannot be read.
    pub(super) async fn own_approval(&self, id: ApprovalId) -> Option<SharedApproval> {
        let gateway = &self.gateway;
        let found = gateway.gate.store().approval(&gateway.tenant, id).await.ok()??;
        self.is_own(&found).then_some(found)
    }

    /// Returns true if an approval was proposed for this client's caller by this gateway, or by another gateway process
    /// that was started in the same way.
    pub(super) fn is_own(&self, approval: &Approval) -> bool {
        self.gateway.is_of_ours(approval)
            && approval.requester == self.who.requester
            && approval.on_behalf_of == self.who.on_behalf_of
    }

    /// Returns how long a call of this client is held open for a decision.
    pub fn holds_for(&self) -> std::time::Duration {
        self.gateway.settings.hold(lock(&self.client).name.as_deref())
    }
}

/// Returns true if some parser could read the result as a list of tools.
fn has_tools(frame: &Frame) -> bool {
    let result = frame.part(&frame.result).unwrap_or(b"{}");
    pick(result, ["tools"]).map_or(true, |[tools]| tools.is_some())
}

/// Returns the error for unreadable bytes from the client, and logs it to standard error.
pub fn refused(bad: &Bad) -> OneLine {
    let problem = format!("the gateway does not take this message: {}", bad.problem());
    output::print_to_stderr(&format!("countersign: {problem}"));
    let seems = bad.seems();
    let id = seems.only_id().filter(|id| !is_own(id));
    wire::error(id.map(Id::as_json), wire::PARSE_ERROR, &problem)
}

/// Returns the error for a message that no server may get from a client, or `None` if the message is acceptable.
pub fn refusal(frame: &Frame) -> Option<OneLine> {
    let (id, problem) = match &frame.kind {
        Kind::Request { id, .. } if is_own(id) => {
            let problem = format!("ids that begin with `{OWN}` are the gateway's own");
            (Some(id), problem)
        }
        Kind::Request { id, method } if method != TOOLS_CALL && method.eq_ignore_ascii_case(TOOLS_CALL) => {
            let problem = format!("`{method}` is no method; tools are called with `{TOOLS_CALL}`");
            (Some(id), problem)
        }
        // A server that takes such a notification for a request would act on it.
        Kind::Notification { method } if !method.starts_with(NOTIFICATION) => {
            let problem = format!("`{method}` is a request, and requests have an `id`");
            (None, problem)
        }
        _ => return None,
    };
    output::print_to_stderr(&format!(
        "countersign: a message of the client was not passed on: {problem}"
    ));
    Some(wire::error(id.map(Id::as_json), wire::INVALID_REQUEST, &problem))
}
