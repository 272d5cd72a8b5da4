//! Between one client and a server: every message that the door could read passes as it came, but for tool calls.
//!
//! Enters: messages from both sides. Leaves: the same bytes for the other side; our own tools added to the lists; and
//! for each held call one answer. Deliberately absent: how bytes travel.

mod forwarded;
mod lists;
mod ruling;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign::approval::{Approval, SharedApproval};
use countersign::decision::Decider;
use countersign::executor::{Outcome, PermitToken};
use countersign::id::{Agent, ApprovalId, CallId, Person, Session};
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::Form;
use super::bad::Bad;
use super::call::{Says, ToolCall, name_of};
use super::continuation::Continuations;
use super::frame::{Frame, Id, Kind, pick};
use super::gateway::{Gateway, Wish};
use super::lines::Read;
use super::one_line::OneLine;
use super::seen::{Asked, Seen};
use super::server::{OWN, Server, is_own};
use super::wire;
use crate::output;
use forwarded::Forwarded;

/// The method of the calls that are ruled on.
const TOOLS_CALL: &str = "tools/call";
/// Methods that want no answer begin so.
const NOTIFICATION: &str = "notifications/";

/// Where answers to the client go.
pub type Back = mpsc::Sender<OneLine>;

/// What is to be done with a message of the client's.
pub enum Next<T = OneLine> {
    /// It goes to the server.
    Send(T),
    /// Nothing: it was answered, or will be.
    Done,
    /// That is found out by this; then it goes to the server, or nothing is to be done.
    Later(BoxFuture<'static, Option<T>>),
}

impl From<Option<OneLine>> for Next {
    fn from(line: Option<OneLine>) -> Next {
        line.map_or(Next::Done, Next::Send)
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
    /// What it asked the server and has no answer to.
    forwarded: Mutex<Forwarded>,
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
    /// Calls that passed and are more than reads, until they are answered.
    passed: Mutex<HashMap<Id, (CallId, PermitToken)>>,
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
    /// The parameters of its greeting, as JSON, if it greeted.
    pub greeting: Option<String>,
}

impl Relay {
    /// A client that has said nothing yet.
    pub fn new(gateway: Arc<Gateway>, server: Arc<Server>, who: Who) -> Relay {
        Relay {
            gateway,
            server,
            who,
            client: Mutex::default(),
            forwarded: Mutex::default(),
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

    /// The same client also talks to others, whose answers it may use here.
    pub fn with_seen(self, seen: Seen) -> Relay {
        Relay {
            seen: Arc::new(seen),
            ..self
        }
    }

    /// A message from the client. Gives what is to be sent to the server; answers of ours go back.
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
                    open(&self.lists).insert(id.clone(), Adds::Tools);
                    Some(frame.line)
                }
                "server/discover" => {
                    open(&self.lists).insert(id.clone(), Adds::Tasks);
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
                    self.server.greeted();
                    Some(frame.line)
                }
                _ => Some(frame.line),
            },
            Kind::Response { .. } => Some(frame.line),
        };
        if let (Some(_), Kind::Request { id, .. }) = (&send, &kind) {
            self.forwards(id);
        }
        send.into()
    }

    /// A request goes to the server under this id: it may answer it, once.
    pub(super) fn forwards(&self, id: &Id) {
        open(&self.forwarded).add(id);
    }

    /// Forgets all requests that the server has not answered, and gives their ids.
    pub fn take_unanswered(&self) -> Vec<Id> {
        open(&self.forwarded).take_all()
    }

    /// Drops the request id from those that the server may still answer.
    pub fn forget(&self, id: Option<&Id>) {
        if let Some(id) = id {
            open(&self.forwarded).take(id);
        }
    }

    /// A message from the server. Gives what is to be sent to the client.
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
            // An error about a message it could not read names no request.
            Kind::Response { id } if id.as_json() == "null" => {}
            Kind::Response { id } => {
                // Clients take `"1"` for an answer to 1, and then read a list that we did not.
                if !open(&self.forwarded).take(id) {
                    let name = &self.server.name;
                    output::beside(&format!(
                        "countersign: `{name}` answered what it was not asked; not passed on"
                    ));
                    return None;
                }
                self.seen.answered(id, &frame);
                self.passed_answered(id, &frame);
                let adds = open(&self.lists).remove(id);
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

    /// Something of the server's that could not be read. Nothing of it is passed on: what it answers is not answered, and
    /// whoever waits for that hears so at once.
    fn hear_bad(&self, bad: &Bad) -> Option<OneLine> {
        let (name, problem) = (&self.server.name, bad.problem());
        output::beside(&format!(
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
        let id = seems.answers().filter(|id| !is_own(id))?;
        open(&self.forwarded).take(id);
        self.seen.forget(id);
        self.passed_ended(id, Outcome::Unknown(why.clone()));
        open(&self.lists).remove(id);
        Some(wire::error(Some(id.as_json()), wire::INTERNAL, &why))
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

    /// A new id for a question of ours; nothing without random bytes.
    pub(super) fn own_id(&self) -> Option<Id> {
        Id::unguessable(OWN)
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
            greeting: Some(String::from_utf8_lossy(params).into_owned()),
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
            greeting: None,
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

/// The answer to bytes of the client's that are no message, which is also on our standard error.
pub fn refused(bad: &Bad) -> OneLine {
    let problem = format!("the gateway does not take this message: {}", bad.problem());
    output::beside(&format!("countersign: {problem}"));
    let seems = bad.seems();
    let id = seems.only_id().filter(|id| !is_own(id));
    wire::error(id.map(Id::as_json), wire::PARSE_ERROR, &problem)
}

/// The answer to a message of the client's that is not taken, whatever server it is for.
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
        // A server that takes it for a request would do what it says.
        Kind::Notification { method } if !method.starts_with(NOTIFICATION) => {
            let problem = format!("`{method}` is a request, and requests have an `id`");
            (None, problem)
        }
        _ => return None,
    };
    output::beside(&format!(
        "countersign: a message of the client was not passed on: {problem}"
    ));
    Some(wire::error(id.map(Id::as_json), wire::INVALID_REQUEST, &problem))
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
