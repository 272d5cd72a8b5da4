//! The gate's executor: sends approved calls to their server, once, with the stored argument bytes.
//!
//! A permit exists only after the start is recorded. If the answer gets lost, the outcome is unknown and the call is
//! never sent again. A tool whose definition is no longer the one that was shown is not called (X30).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use countersign::approval::Approval;
use countersign::executor::{Executor, LARGEST_RESULT, Outcome, Permit};
use countersign::hash::Hash;
use countersign::id::{ApprovalId, ToolName};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::call;
use super::frame::{Frame, pick, quote};
use super::multiplexer::{collision, listed_twice};
use super::server::{Lost, Server};
use super::server_task::ServerTask;
use crate::links::ShownPlace;
use crate::mcp::lock;

/// Member of a stored outcome that holds a server's JSON-RPC error. A tool's result has no such member.
pub const ERROR: &str = "jsonrpcError";
/// Time before the gate's deadline at which a call that cannot be sent yet is given up.
const BEFORE_THE_GATE: Duration = Duration::from_millis(200);
/// Maximum total size in bytes of results that are too large for the store and kept in memory for waiting clients.
const MOST_LARGE: usize = 64 * 1024 * 1024;

/// Origin of a held call; remembered while the call may run.
#[derive(Clone)]
pub struct Origin {
    /// The server that the call is for.
    pub server: Arc<Server>,
    /// The hash of the tool's definition when the call was proposed; `None` if the definition was unknown or ambiguous.
    pub definition: Option<Hash>,
    /// The folder and the links that the card shows, if the call runs on this machine.
    pub place: Option<ShownPlace>,
    /// The client's parameters; `None` if another process proposed the call.
    pub params: Option<Bytes>,
    /// Weak reference that can be upgraded while the client's request is unanswered.
    pub request: std::sync::Weak<()>,
}

impl Origin {
    /// Returns the folder and the links that the card of an approval shows; `None` if its call has no working folder.
    pub fn place_of(approval: &Approval) -> Option<ShownPlace> {
        let call = approval.calls.first()?;
        Some(ShownPlace {
            folder: call.working_folder.clone()?,
            proposed: call.original.as_ref().unwrap_or(&call.arguments).clone(),
        })
    }
}

/// All upstream servers, as the gate's executor.
#[derive(Default)]
pub struct Upstreams(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Names of the servers whose calls are run here.
    names: Vec<String>,
    origins: HashMap<ApprovalId, Origin>,
    large: Vec<(ApprovalId, Arc<[u8]>)>,
    /// Tasks that servers created for running calls.
    tasks: HashMap<ApprovalId, ServerTask>,
    /// Calls whose task is to be cancelled as soon as there is one.
    unwanted: HashSet<ApprovalId>,
    /// Calls that fail without being sent, because their process has ended.
    abandoned: HashSet<ApprovalId>,
}

impl Upstreams {
    /// Creates an executor for calls to servers of these names.
    pub fn new(names: Vec<String>) -> Upstreams {
        let state = State {
            names,
            ..State::default()
        };
        Upstreams(Arc::new(Mutex::new(state)))
    }

    /// Remembers where a held call came from. The newest request replaces older ones. An origin without parameters, of
    /// a call that another process proposed, only replaces one whose server is gone.
    pub fn remember(&self, approval: ApprovalId, origin: Origin) {
        let mut state = lock(&self.0);
        let is_useless = |kept: &Origin| kept.server.is_gone();
        if origin.params.is_some() || state.origins.get(&approval).is_none_or(is_useless) {
            state.origins.insert(approval, origin);
        }
    }

    /// Forgets a call that has ended.
    pub fn forget(&self, approval: ApprovalId) {
        let mut state = lock(&self.0);
        state.origins.remove(&approval);
        state.unwanted.remove(&approval);
        state.abandoned.remove(&approval);
    }

    /// Makes a call fail without being sent.
    pub fn abandon(&self, approval: ApprovalId) {
        lock(&self.0).abandoned.insert(approval);
    }

    /// Waits until the handshake with the server of a held call is over, or the server is gone.
    pub async fn wait_for_handshake(&self, approval: ApprovalId) {
        let server = lock(&self.0)
            .origins
            .get(&approval)
            .map(|origin| origin.server.clone());
        if let Some(server) = server {
            server.ready().await;
        }
    }

    /// Returns true if a call for this server is held or runs.
    pub fn has_open_calls(&self, server: &Arc<Server>) -> bool {
        let state = lock(&self.0);
        state
            .origins
            .values()
            .any(|origin| Arc::ptr_eq(&origin.server, server))
    }

    /// Returns the task with which the server answered a running call; `None` if it did not answer with one.
    pub fn task(&self, approval: ApprovalId) -> Option<ServerTask> {
        lock(&self.0).tasks.get(&approval).cloned()
    }

    /// Records that the client no longer wants the result. If the server answers the call with a task, that task is
    /// cancelled.
    pub fn unwanted(&self, approval: ApprovalId) {
        lock(&self.0).unwanted.insert(approval);
    }

    /// Removes and returns a result that was too large for the store. `None` if there is none: it was taken before, or
    /// dropped because such results together exceeded their limit.
    pub fn take_large(&self, approval: ApprovalId) -> Option<Arc<[u8]>> {
        let mut state = lock(&self.0);
        let place = state.large.iter().position(|(kept, _)| *kept == approval)?;
        Some(state.large.remove(place).1)
    }

    fn keep_large(state: &Mutex<State>, approval: ApprovalId, result: Arc<[u8]>) {
        let mut state = lock(state);
        state.large.push((approval, result));
        while state.large.iter().map(|(_, result)| result.len()).sum::<usize>() > MOST_LARGE {
            state.large.remove(0);
        }
    }
}

impl Executor for Upstreams {
    fn runs(&self, tool: &ToolName) -> bool {
        let Some((server, _)) = tool.as_str().split_once('/') else {
            return false;
        };
        lock(&self.0).names.iter().any(|name| name == server)
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
        let state = self.0.clone();
        async move {
            let Some(approval) = permit.call().map(|call| call.approval) else {
                return Outcome::NotSent("only held calls are run here".to_owned());
            };
            let is_abandoned = lock(&state).abandoned.contains(&approval);
            if is_abandoned {
                let why = "not sent to the server: the process that the call was proposed to has ended; make the call again";
                return Outcome::NotSent(why.to_owned());
            }
            let origin = lock(&state).origins.get(&approval).cloned();
            let Some(origin) = origin else {
                return Outcome::NotSent("the call was not proposed here, so it was not sent".to_owned());
            };
            let is_one_of_several = lock(&state).names.len() > 1;
            let outcome = match run(&permit, &origin, is_one_of_several).await {
                Ran::Over(outcome) => outcome,
                Ran::Task(task) => {
                    lock(&state).tasks.insert(approval, task.clone());
                    let is_unwanted = lock(&state).unwanted.contains(&approval);
                    if is_unwanted {
                        task.cancel().await;
                    }
                    let outcome = task.end().await;
                    lock(&state).tasks.remove(&approval);
                    outcome
                }
            };
            if let Outcome::Succeeded(result) | Outcome::Failed(result) = &outcome
                && result.len() > LARGEST_RESULT
            {
                Upstreams::keep_large(&state, approval, result.clone());
            }
            outcome
        }
        .boxed()
    }
}

/// The outcome of a call, or the task with which the server answered it.
enum Ran {
    Over(Outcome),
    Task(ServerTask),
}

async fn run(permit: &Permit, origin: &Origin, is_one_of_several: bool) -> Ran {
    let server = &origin.server;
    let not_sent = |why: &str| Ran::Over(Outcome::NotSent(format!("not sent to the server: {why}")));
    let Some((_, tool)) = permit.tool().as_str().split_once('/') else {
        return not_sent("the tool has no server");
    };
    let limit = permit.time_limit();
    // Give up before the gate's deadline, at which the outcome would count as unknown although nothing was sent.
    let left = limit.left().unwrap_or_default().saturating_sub(BEFORE_THE_GATE);
    let prepared = tokio::time::timeout(left, async {
        let is_ready = server.ready().await;
        // Fetch the list as late as possible, to compare the tool with its definition at the time of the approval.
        match is_ready {
            true => Some(server.list_tools(&|cursor| server.listing(cursor)).await),
            false => None,
        }
    });
    match prepared.await {
        Err(_) => return not_sent("the server was not ready in time"),
        Ok(None) => return not_sent("the server is gone"),
        Ok(Some(Err(lost))) if origin.definition.is_some() => return not_sent(&lost.why()),
        Ok(Some(Err(_))) => {}
        // One of several servers offers no tools if its list is ambiguous. For a single server, only the called tool
        // matters (X42).
        Ok(Some(Ok(pages))) => {
            let found = match is_one_of_several {
                true => collision(&pages.items),
                false => listed_twice(&pages.items, tool),
            };
            if let Some(collision) = found {
                return not_sent(&collision.to_string());
            }
        }
    }
    let definition = server.tools.get(tool).and_then(|listed| listed.definition);
    if definition != origin.definition {
        return not_sent("the tool's definition is no longer the one that was shown");
    }
    if let Some(place) = origin.place.clone() {
        let folders = server.folders();
        let Some(folders) = folders.filter(|folders| folders.working == place.folder.path()) else {
            return not_sent("the server runs in another folder than the one that was shown");
        };
        let others = folders.others.clone();
        if let Some(why) = place.changed(permit.arguments().clone(), others).await {
            return not_sent(&why);
        }
    }
    let Some(params) = params(permit, origin, tool) else {
        return not_sent("its parameters cannot be read");
    };
    match server.request_in_time("tools/call", &params, limit).await {
        Ok(frame) => match ServerTask::read(&frame, origin) {
            Some(task) => Ran::Task(task),
            None => Ran::Over(outcome(&frame)),
        },
        Err(Lost::NotSent(why)) => not_sent(&why),
        Err(Lost::Refused(why) | Lost::Unknown(why)) => Ran::Over(Outcome::Unknown(why)),
    }
}

fn params(permit: &Permit, origin: &Origin, tool: &str) -> Option<String> {
    let arguments = permit.arguments().as_bytes();
    let made = match &origin.params {
        Some(params) => {
            let is_awaited = origin.request.strong_count() > 0;
            call::params(params, tool, arguments, is_awaited)?.to_vec()
        }
        None => {
            let mut made = format!("{{\"name\":{},\"arguments\":", quote(tool)).into_bytes();
            made.extend_from_slice(arguments);
            let listed = origin.server.tools.get(tool);
            if let Some(meta) = origin.server.meta() {
                made.extend_from_slice(format!(",\"_meta\":{{{meta}}}").as_bytes());
            } else if listed.is_some_and(|listed| listed.needs_task) {
                made.extend_from_slice(b",\"task\":{}");
            }
            made.push(b'}');
            made
        }
    };
    String::from_utf8(made).ok()
}

/// Converts a server's response, a result or an error, to an outcome.
pub fn outcome(frame: &Frame) -> Outcome {
    if let Some(error) = frame.part(&frame.error) {
        let error = String::from_utf8_lossy(error);
        return Outcome::failed(format!("{{\"{ERROR}\":{error}}}"));
    }
    let Some(result) = frame.part(&frame.result) else {
        return Outcome::Unknown("the server's answer cannot be read".to_owned());
    };
    outcome_of(result)
}

/// Converts a tool's result to an outcome: failed if its `isError` is true.
pub fn outcome_of(result: &[u8]) -> Outcome {
    let is_error = pick(result, ["isError"]).ok().and_then(|[is_error]| is_error);
    match is_error.is_some_and(|is_error| is_error.get() == "true") {
        true => Outcome::failed(result),
        false => Outcome::succeeded(result),
    }
}
