//! Between one client and a server: every message passes as it came, but for tool calls.
//!
//! Enters: messages from both sides. Leaves: the same bytes for the other side; our own tools added to the lists; and
//! for each held call one answer. Deliberately absent: how bytes travel.

mod batch;
mod lists;
mod ruling;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use countersign::approval::{Approval, SharedApproval};
use countersign::decision::Decider;
use countersign::id::{Agent, ApprovalId, Person, Session};
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::Form;
use super::call::{Says, ToolCall, name_of};
use super::continuation::Continuations;
use super::frame::{Frame, Id, Kind, pick};
use super::gateway::{Gateway, Wish};
use super::seen::{Asked, Seen};
use super::server::{OWN, Server, is_own};
use super::wire;

/// Where answers to the client go.
pub type Back = mpsc::Sender<Bytes>;

/// What is to be done with a message of the client's.
pub enum Next<T = Bytes> {
    /// It goes to the server.
    Send(T),
    /// Nothing: it was answered, or will be.
    Done,
    /// That is found out by this; then it goes to the server, or nothing is to be done.
    Later(BoxFuture<'static, Option<T>>),
}

impl From<Option<Bytes>> for Next {
    fn from(bytes: Option<Bytes>) -> Next {
        bytes.map_or(Next::Done, Next::Send)
    }
}

/// One client.
pub struct Relay {
    /// What it shares with others.
    pub gateway: Arc<Gateway>,
    /// The server it talks to.
    pub server: Arc<Server>,
    /// Who it is, by its credential.
    pub who: Who,
    /// What it said about itself.
    pub client: Mutex<Client>,
    /// What it asked for that we add to.
    lists: Mutex<HashMap<Id, Adds>>,
    /// Whether the server knows no tasks, so that all are ours.
    adds_tasks: AtomicBool,
    /// Its calls that wait.
    waiting: Mutex<HashMap<Id, Waiting>>,
    /// What answers them.
    answers: TaskTracker,
    /// Approved calls that the server answered with a question of its own.
    continuations: Continuations,
    /// What the client was answered.
    pub seen: Arc<Seen>,
    /// Our own questions to the client.
    questions: Mutex<HashMap<Id, oneshot::Sender<Frame>>>,
}

/// What is added to an answer.
#[derive(Clone, Copy)]
enum Adds {
    Tools,
    Tasks,
}

/// A tool call under way to its answer.
pub struct UnderWay {
    /// What was called.
    pub call: ToolCall,
    /// How its answer has to look.
    pub form: Form,
    /// Where its answer goes.
    pub back: Back,
    /// Nobody wants an answer any more.
    pub cancelled: CancellationToken,
}

/// A call that waits.
struct Waiting {
    cancelled: CancellationToken,
    approval: Option<ApprovalId>,
    back: Back,
}

/// Who asks: from a credential, or from whoever started us.
#[derive(Clone, Debug)]
pub struct Who {
    /// The agent.
    pub agent: Agent,
    /// Whether that is certain; else it is what the client calls itself.
    pub is_named: bool,
    /// The credential.
    pub requester: Person,
    /// The person it acts for.
    pub on_behalf_of: Option<Person>,
    /// The person at the client, as one who decides there; nothing when that is nobody we know.
    pub decider: Option<Decider>,
    /// Its session.
    pub session: Option<Session>,
}

/// What a client says about itself.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Its name.
    pub name: Option<String>,
    /// What it can do, as JSON.
    pub capabilities: Option<String>,
}

impl Relay {
    /// A client that has said nothing yet.
    pub fn new(gateway: Arc<Gateway>, server: Arc<Server>, who: Who) -> Relay {
        Relay {
            gateway,
            server,
            who,
            client: Mutex::default(),
            lists: Mutex::default(),
            adds_tasks: AtomicBool::new(false),
            waiting: Mutex::default(),
            answers: TaskTracker::new(),
            continuations: Continuations::default(),
            seen: Arc::default(),
            questions: Mutex::default(),
        }
    }

    /// The same client also talks to others, whose answers it may use here.
    pub fn with_seen(self, seen: Seen) -> Relay {
        Relay {
            seen: Arc::new(seen),
            ..self
        }
    }

    /// A message from the client. Gives what is to be sent to the server; answers of ours go back.
    pub async fn hear_client(self: &Arc<Self>, bytes: Bytes, back: &Back) -> Next {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Next::Send(bytes);
        }
        let frame = match Frame::read(bytes) {
            Ok(frame) => frame,
            Err(problem) => {
                let problem = format!("the gateway does not take this message: {problem}");
                let _ = back.send(wire::error(None, wire::PARSE_ERROR, &problem)).await;
                return Next::Done;
            }
        };
        let send = match &frame.kind {
            Kind::Request { id, .. } | Kind::Response { id } if is_own(id) => {
                self.answered(frame);
                None
            }
            Kind::Request { id, method } => match method.as_str() {
                "tools/call" => return self.tool_call(&frame, back).await,
                method if method.eq_ignore_ascii_case("tools/call") => {
                    let problem = format!("`{method}` is no method; tools are called with `tools/call`");
                    let raw_id = Some(id.as_json());
                    let _ = back
                        .send(wire::error(raw_id, wire::INVALID_REQUEST, &problem))
                        .await;
                    None
                }
                "tools/list" => {
                    self.heard(&frame);
                    open(&self.lists).insert(id.clone(), Adds::Tools);
                    Some(frame.bytes)
                }
                "server/discover" => {
                    open(&self.lists).insert(id.clone(), Adds::Tasks);
                    Some(frame.bytes)
                }
                "initialize" => {
                    self.greet(&frame);
                    Some(frame.bytes)
                }
                "tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result" | "tasks/list" => {
                    let is_ours = self.about_task(&frame, method, back);
                    if !is_ours && method == "tasks/result" {
                        self.asks(id, method);
                    }
                    (!is_ours).then_some(frame.bytes)
                }
                "resources/read" => {
                    self.asks(id, method);
                    Some(frame.bytes)
                }
                _ => Some(frame.bytes),
            },
            Kind::Notification { method } => match method.as_str() {
                "notifications/cancelled" => (!self.cancel(&frame)).then_some(frame.bytes),
                "notifications/initialized" => {
                    self.server.greeted();
                    Some(frame.bytes)
                }
                _ => Some(frame.bytes),
            },
            Kind::Response { .. } => Some(frame.bytes),
            Kind::Batch => self.batch(frame, back).await,
        };
        send.into()
    }

    /// A message from the server. Gives what is to be sent to the client.
    pub fn hear_server(&self, bytes: Bytes) -> Option<Bytes> {
        // What we cannot read is for the client to judge: nothing is let through by it.
        let Ok(frame) = Frame::read(bytes.clone()) else {
            return Some(bytes);
        };
        let frame = self.server.take_own(frame)?;
        match &frame.kind {
            Kind::Notification { method } if method == "notifications/tools/list_changed" => {
                self.server.tools.changed();
            }
            Kind::Response { id } => {
                self.seen.answered(id, &frame);
                let adds = open(&self.lists).remove(id);
                match adds {
                    Some(Adds::Tools) => return Some(self.with_own_tools(frame)),
                    Some(Adds::Tasks) => return Some(self.with_tasks(&frame)),
                    None => {}
                }
            }
            _ => {}
        }
        Some(frame.bytes)
    }

    /// An approved call is over; if the server answered it with a question, the client may come back.
    pub(super) fn may_continue(&self, approval: &Approval) {
        let Some(call) = approval.calls.first() else {
            return;
        };
        let proposed = call.original.as_ref().unwrap_or(&call.arguments).as_bytes();
        if let (Some(result), Some((_, tool))) = (&call.result, call.tool.as_str().split_once('/')) {
            let arguments: Arc<[u8]> = proposed.into();
            self.continuations.remember(result, tool, &arguments);
            let name = call.tool.as_str().to_owned();
            self.seen.saw(Asked { name, arguments }, result);
        }
    }

    /// What is answered to this, other than to a tool call, is seen.
    fn asks(&self, id: &Id, method: &str) {
        let (name, arguments) = (self.server.qualified(method), [].into());
        self.seen.ask(id, Asked { name, arguments });
    }

    /// The client is gone: its calls wait on without it. Gives back once all that is known was said.
    pub async fn left(&self) {
        for (_, waiting) in open(&self.waiting).drain() {
            waiting.cancelled.cancel();
        }
        self.answers.close();
        self.answers.wait().await;
    }

    /// An answer to a question of ours. Nothing with such an id is for the server.
    fn answered(&self, frame: Frame) {
        let question = match &frame.kind {
            Kind::Response { id } => open(&self.questions).remove(id),
            _ => None,
        };
        if let Some(question) = question {
            let _ = question.send(frame);
        }
    }

    /// A new id for a question of ours.
    pub(super) fn own_id(&self) -> Id {
        let number = self.gateway.number.fetch_add(1, Ordering::Relaxed);
        Id::own(&format!("{OWN}ask:{number}"))
    }

    /// The answer to this question goes there.
    pub(super) fn expects(&self, id: Id, answer: oneshot::Sender<Frame>) {
        open(&self.questions).insert(id, answer);
    }

    /// Nobody needs the answer any more.
    pub(super) fn expects_no_more(&self, id: &Id) {
        open(&self.questions).remove(id);
    }

    /// What the client said it can do, when it said it once for all.
    pub(super) fn capabilities(&self) -> Option<String> {
        open(&self.client).capabilities.clone()
    }

    fn greet(&self, frame: &Frame) {
        let Some(params) = frame.part(&frame.params) else {
            return;
        };
        let Ok([info, capabilities]) = pick(params, ["clientInfo", "capabilities"]) else {
            return;
        };
        *open(&self.client) = Client {
            name: info.and_then(|info| name_of(info.get().as_bytes())),
            capabilities: capabilities.map(|capabilities| capabilities.get().to_owned()),
        };
    }

    /// A request that may say for itself who sends it.
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
        *open(&self.client) = Client {
            name: says.client.clone(),
            capabilities: says.capabilities.clone(),
        };
    }

    /// A call by this client.
    pub fn wish(&self, tool: String, arguments: Arc<[u8]>) -> Wish {
        Wish {
            agent: self.agent(),
            requester: self.who.requester.clone(),
            on_behalf_of: self.who.on_behalf_of.clone(),
            session: self.who.session.clone(),
            tool,
            arguments,
            definition: None,
            seen: self.seen.clone(),
        }
    }

    fn agent(&self) -> Agent {
        let said = open(&self.client).name.clone().filter(|_| !self.who.is_named);
        let said = said.and_then(|name| Agent::new(name).ok());
        said.unwrap_or_else(|| self.who.agent.clone())
    }

    /// An approval that this client may know of: somebody else's is none.
    pub(super) async fn own_approval(&self, id: ApprovalId) -> Option<SharedApproval> {
        let gateway = &self.gateway;
        let found = gateway.gate.store().approval(&gateway.tenant, id).await.ok()??;
        self.is_own(&found).then_some(found)
    }

    /// Whether an approval is this client's.
    pub(super) fn is_own(&self, approval: &Approval) -> bool {
        self.gateway.is_of_ours(approval)
            && approval.requester == self.who.requester
            && approval.on_behalf_of == self.who.on_behalf_of
    }

    /// How long a call of this client is held open.
    pub fn holds_for(&self) -> std::time::Duration {
        self.gateway.settings.hold(open(&self.client).name.as_deref())
    }
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
