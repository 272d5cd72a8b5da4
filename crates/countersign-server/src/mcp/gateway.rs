//! State shared by all clients of a gateway: the gate, the servers and the open calls.
//!
//! Each tool call passes, is forbidden or is held; a repeated call joins the one that is open. Approved calls are run
//! from here, whether or not a client still waits.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use countersign::approval::{Approval, SharedApproval};
use countersign::call::{Arguments, RefusalReason};
use countersign::executor::Permit;
use countersign::gate::{
    Gate, Ruled, Submission, SubmitError, SubmittedCall, Until, Waited, is_flagged, is_same_but_for_the_flag,
};
use countersign::hash::Hash;
use countersign::id::{Agent, ApprovalId, Person, Run, Session, Tenant};
use countersign::policy::{CallRequest, Definition, Ruling};
use countersign::provenance::VouchedConversation;
use countersign::registry::{Entry, Kind};
use countersign::state::State;
use countersign::store::{Filter, StoreError};
use countersign::time::Time;
use countersign::working_folder::WorkingFolder;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer_history::Seen;
use super::lease::Lease;
use super::server::Server;
use super::settings::Settings;
use super::upstreams::{Origin, Upstreams};
use crate::links::{self, StartFolders};
use crate::mcp::lock;

/// Number of the newest approvals that are searched for one about the same call.
pub const LOOKS_BACK: usize = 200;
/// How long the store keeps the record that a client learned how a call ended.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long a repeated call gets the result of the first one; must be shorter than `REMEMBERED`.
const FETCHED_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);
/// How long to wait for running calls when the gateway stops.
const RUNS_END_WITHIN: Duration = Duration::from_secs(20);
/// How long a stopping gateway retries to record outcomes that the store has not accepted.
const LAST_TRY: Duration = Duration::from_secs(3);
/// Delay before a read of the store is retried after an error.
const ASKS_AGAIN: Duration = Duration::from_secs(1);

/// The gateway of a process, shared by all its clients.
pub struct Gateway {
    /// The gate that rules on calls and starts them.
    pub gate: Gate,
    /// Tenant of all calls.
    pub tenant: Tenant,
    /// Run name of all servers together, which depends on how they are started. A restarted gateway finds its open
    /// calls by this name.
    pub run: Run,
    /// Run name of each server, by the server's name. It does not depend on the other servers.
    pub(super) runs: HashMap<String, Run>,
    /// Names of stateless servers. Calls to them that a dead gateway left open are run by this gateway.
    pub(super) resumed: Vec<String>,
    /// Live servers of this process.
    pub(super) servers: Mutex<Vec<Weak<Server>>>,
    /// Lease of this gateway, which distinguishes its own calls from those of other gateways.
    pub lease: Lease,
    /// Settings from the operator.
    pub settings: Settings,
    /// The gate's executor, which sends approved calls to the servers.
    pub upstreams: Arc<Upstreams>,
    /// Background tasks that follow approvals and run calls.
    pub tasks: TaskTracker,
    /// Cancelled when no new calls may start.
    pub stopping: CancellationToken,
    /// Cancelled when the store permanently accepts no more writes. Waiting clients are answered then.
    pub(super) store_lost: CancellationToken,
    followed: Mutex<HashSet<ApprovalId>>,
    proposing: Mutex<HashMap<CallKey, Weak<ProposalLock>>>,
}

/// Key of a lock: the agent, the tool's qualified name and the argument bytes.
type CallKey = (Agent, String, Arc<[u8]>);
/// Lock held while a call is proposed, so that an equal call waits.
type ProposalLock = tokio::sync::Mutex<()>;

/// A call request, as it is submitted to the gate.
#[derive(Clone)]
pub struct ToolCallRequest {
    pub agent: Agent,
    /// Holder of the credential with which the agent proposes.
    pub requester: Person,
    /// Person for whom the agent acts, if any.
    pub on_behalf_of: Option<Person>,
    /// Session in which the call is proposed, if any.
    pub session: Option<Session>,
    /// The tool's qualified name.
    pub tool: String,
    /// Exact argument bytes.
    pub arguments: Arc<[u8]>,
    /// The hash of the tool's definition; `None` if the definition is unknown or ambiguous.
    pub definition: Option<Hash>,
    /// The folder that the call runs in, and the targets of symbolic links in its arguments; `None` if the server is on
    /// another machine or links cannot change the ruling.
    pub working_folder: Option<Arc<WorkingFolder>>,
    /// Earlier answers of servers to this client, from which the provenance of the arguments is found.
    pub seen: Arc<Seen>,
}

/// A call request with its working folder, and whether the policy holds it. The gate rules again on submission.
pub struct LocatedCall {
    pub request: ToolCallRequest,
    /// Whether the policy holds the call; `None` if the policy is too slow for this call to be evaluated beforehand.
    is_held: Option<bool>,
}

impl LocatedCall {
    /// Returns true if the policy holds the call. Evaluates the policy now if that was not done beforehand.
    pub fn is_held(&self, gateway: &Gateway) -> bool {
        self.is_held.unwrap_or_else(|| gateway.holds(&self.request))
    }
}

/// The gate's ruling on a call.
pub enum Disposition {
    /// The call may go to the server.
    Pass(Permit),
    /// The call may not run, for this reason.
    Forbidden(String),
    /// A person is asked, or has decided already.
    Held(SharedApproval),
}

impl Gateway {
    /// Creates a gateway; `upstreams` must be the executor of `gate`.
    pub fn new(
        gate: Gate,
        upstreams: Arc<Upstreams>,
        tenant: Tenant,
        run: Run,
        settings: Settings,
        lease: Lease,
    ) -> Gateway {
        Gateway {
            gate,
            tenant,
            run,
            runs: HashMap::new(),
            resumed: Vec::new(),
            servers: Mutex::default(),
            lease,
            settings,
            upstreams,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            store_lost: CancellationToken::new(),
            followed: Mutex::default(),
            proposing: Mutex::default(),
        }
    }

    /// Sets the run name of each server, by the server's name, and the names of stateless servers.
    pub fn with_runs(self, runs: HashMap<String, Run>, resumed: Vec<String>) -> Gateway {
        Gateway {
            runs,
            resumed,
            ..self
        }
    }

    /// Returns the run name of the server in a tool's qualified name; that of all servers together if the server is
    /// unknown.
    pub(super) fn run_of(&self, tool: &str) -> &Run {
        let server = tool.split_once('/').map(|(server, _)| server);
        server
            .and_then(|server| self.runs.get(server))
            .unwrap_or(&self.run)
    }

    /// Returns all run names that calls may belong to, each once.
    pub(super) fn all_runs(&self) -> Vec<&Run> {
        let mut all = vec![&self.run];
        all.extend(self.runs.values().filter(|run| **run != self.run));
        all
    }

    /// Returns true if an approval was proposed by this gateway, or by another gateway process that was started in the
    /// same way and therefore has the same run names.
    pub fn is_of_ours(&self, approval: &Approval) -> bool {
        let tool = approval.calls.first().map_or("", |call| call.tool.as_str());
        approval.run.as_ref() == Some(self.run_of(tool))
    }

    /// Submits a call to the gate. A call that may be held joins an open or unreported approval of the same call.
    pub async fn join_or_submit(&self, located: LocatedCall) -> Result<Disposition, SubmitError> {
        let request = located.request;
        if located.is_held == Some(false) {
            return self.submit(request, None).await;
        }
        // Serialize equal calls, so that the second finds what the first proposed.
        let turn = self.turn(&request);
        let _mine = turn.lock().await;
        match self.find_same(&request).await? {
            Some(same) => Ok(Disposition::Held(same)),
            None => {
                // The gateway itself forwarded these answers, so it vouches for the conversation.
                let conversation = request
                    .seen
                    .conversation()
                    .map(VouchedConversation::recorded_by_host);
                self.submit(request, conversation).await
            }
        }
    }

    /// Follows the symbolic links in the arguments of a call that runs in `folders`, and asks the policy once whether
    /// the call would be held. Links are not followed if the call passes and the ruling cannot depend on them. Returns
    /// an error, which says why the call cannot be proposed, if its links do not fit on a card.
    pub async fn located(
        &self,
        request: ToolCallRequest,
        folders: Option<&StartFolders>,
    ) -> Result<LocatedCall, String> {
        let policy = self.gate.policy();
        let is_slow = policy.is_slow(&request.tool, request.arguments.len());
        // If the policy compares no paths of this tool, links cannot change the ruling.
        let is_held = match is_slow || policy.compares_places(&request.tool) {
            true => None,
            false => Some(self.holds(&request)),
        };
        let request = match (folders, is_held) {
            (Some(folders), None | Some(true)) => self.followed(request, folders).await?,
            _ => request,
        };
        let is_held = match is_slow {
            true => None,
            false => Some(is_held.unwrap_or_else(|| self.holds(&request))),
        };
        Ok(LocatedCall { request, is_held })
    }

    /// Adds the working folder, and the targets of symbolic links in the arguments, to a request. Fails if the links
    /// cannot be followed or do not fit on a card.
    async fn followed(
        &self,
        request: ToolCallRequest,
        folders: &StartFolders,
    ) -> Result<ToolCallRequest, String> {
        // The gate refuses arguments that cannot be read, with the reason.
        let Ok(arguments) = Arguments::parse(request.arguments.clone()) else {
            return Ok(request);
        };
        let folders = folders.clone();
        let followed = tokio::task::spawn_blocking(move || links::follow(&folders, &arguments)).await;
        let followed = followed.map_err(|error| format!("its links cannot be followed: {error}"))?;
        let working_folder = followed.map_err(|problem| problem.to_string())?;
        Ok(ToolCallRequest {
            working_folder: Some(Arc::new(working_folder)),
            ..request
        })
    }

    /// Evaluates the policy and returns true if it holds the call.
    fn holds(&self, request: &ToolCallRequest) -> bool {
        let asked = CallRequest {
            tool: &request.tool,
            arguments: &request.arguments,
            definition: Definition::read(request.definition),
            salt: &[],
            before: None,
            working_folder: request.working_folder.as_deref(),
        };
        matches!(self.gate.policy().rule(asked), Ruling::Hold(_))
    }

    async fn submit(
        &self,
        request: ToolCallRequest,
        conversation: Option<VouchedConversation>,
    ) -> Result<Disposition, SubmitError> {
        let run = self.run_of(&request.tool).clone();
        let call = SubmittedCall {
            tool: request.tool,
            arguments: request.arguments,
            definition: Definition::read(request.definition),
            secret: None,
            working_folder: request.working_folder,
        };
        let submission = Submission {
            tenant: self.tenant.clone(),
            agent: request.agent,
            requester: request.requester,
            on_behalf_of: request.on_behalf_of,
            channel: None,
            run: Some(run),
            session: request.session,
            claim: None,
            key: None,
            conversation,
            options: Default::default(),
            calls: vec![call],
        };
        let mut submitted = self.gate.submit(submission).await?;
        match (submitted.calls.pop(), submitted.approval) {
            (Some(Ruled::Pass(permit)), _) => Ok(Disposition::Pass(permit)),
            // Cannot happen without an idempotency key; do not run it in any case.
            (Some(Ruled::PassedBefore(_)), _) => {
                Ok(Disposition::Forbidden("the same call has run before".to_owned()))
            }
            (Some(Ruled::Forbidden { reason } | Ruled::Malformed { reason }), _) => {
                Ok(Disposition::Forbidden(reason))
            }
            (Some(Ruled::Held(_)), Some(approval)) => Ok(Disposition::Held(approval)),
            _ => Err(StoreError::Impossible("the gate ruled on nothing".to_owned()).into()),
        }
    }

    /// Finds an approval of the same call that is open, or whose end was not yet reported to the client. `None` if
    /// there is none that the request may join.
    async fn find_same(&self, request: &ToolCallRequest) -> Result<Option<SharedApproval>, StoreError> {
        let filter = Filter {
            asked: true,
            run: Some(self.run_of(&request.tool).clone()),
            agent: Some(request.agent.clone()),
            limit: Some(LOOKS_BACK),
            ..Filter::default()
        };
        let now = self.gate.store().now().await?;
        let listed = self.gate.store().list(&self.tenant, &filter).await?;
        // Newest first; only the newest one that may be joined counts.
        let mut newest = None;
        for approval in listed.into_iter().filter(|approval| is_same(request, approval)) {
            if !self.may_join(request, &approval).await? {
                continue;
            }
            // A call with the flag may be the same as several others. If one of them was approved, it gets that result
            // first, because "it did not run" about a later one would be read as an answer about both.
            let was_approved = approval.state == State::Approved;
            if is_flagged(&request.arguments) && was_approved && self.is_unreported(&approval, now).await? {
                return Ok(Some(approval));
            }
            newest.get_or_insert(approval);
            if !is_flagged(&request.arguments) {
                break;
            }
        }
        match newest {
            Some(newest) if self.is_unreported(&newest, now).await? => Ok(Some(newest)),
            _ => Ok(None),
        }
    }

    /// Returns true if an approval is fresh, open or decided, and the client was not told how it ended.
    async fn is_unreported(&self, approval: &Approval, now: Time) -> Result<bool, StoreError> {
        let is_fresh = now.since(approval.created_at) < FETCHED_WITHIN;
        let is_open = approval.state != State::Pending || now < approval.expires_at;
        if !is_fresh || !is_open || !was_decided_or_waits(approval) {
            return Ok(false);
        }
        let key = answered_key(approval.id);
        let answered = self.gate.store().entry(Kind::Setting, &key).await?;
        Ok(answered.is_none())
    }

    fn turn(&self, request: &ToolCallRequest) -> Arc<ProposalLock> {
        let key = (
            request.agent.clone(),
            request.tool.clone(),
            request.arguments.clone(),
        );
        let mut proposing = lock(&self.proposing);
        if let Some(turn) = proposing.get(&key).and_then(Weak::upgrade) {
            return turn;
        }
        proposing.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        proposing.insert(key, Arc::downgrade(&turn));
        turn
    }

    /// Records that the client is about to learn how a call ended, so that repeating the call makes a new one.
    pub async fn mark_answered(&self, approval: ApprovalId) -> Result<(), StoreError> {
        let now = self.gate.store().now().await?;
        let entry = Entry {
            kind: Kind::Setting,
            key: answered_key(approval),
            tenant: self.tenant.clone(),
            body: [].into(),
            version: 0,
            expires_at: Some(now.plus(REMEMBERED)),
        };
        // The entry may exist: two requests can wait for one call.
        self.gate.store().put_entry(entry).await.map(drop)
    }

    /// Waits in the background for the decision and runs the call if it is approved. If the approval is followed
    /// already, only its origin is updated.
    pub fn follow(self: &Arc<Self>, approval: &Approval, origin: Origin) {
        let id = approval.id;
        self.upstreams.remember(id, origin);
        if !lock(&self.followed).insert(id) {
            return;
        }
        let gateway = self.clone();
        self.tasks.spawn(async move {
            let ending = gateway.stopping.clone();
            let released = async {
                let approval = gateway.released(id).await?;
                // The start must not be recorded before the call can be sent.
                let greeted = gateway.upstreams.wait_for_handshake(id);
                let _ = tokio::time::timeout(approval.start_within, greeted).await;
                gateway.may_run(&approval).await.then_some(approval)
            };
            let released = tokio::select! {
                () = ending.cancelled() => None,
                released = released => released,
            };
            if let Some(approval) = released {
                gateway.run_released(approval).await;
            }
            lock(&gateway.followed).remove(&id);
            gateway.upstreams.forget(id);
        });
    }

    /// Waits for the decision. Returns the approval if it was approved; `None` if it ended otherwise or the store is
    /// lost.
    async fn released(&self, id: ApprovalId) -> Option<SharedApproval> {
        const LONG: Duration = Duration::from_secs(3600);
        loop {
            match self.gate.wait(&self.tenant, id, Until::Decided, LONG).await {
                Ok(Waited::Done(approval)) => {
                    return (approval.state == State::Approved).then_some(approval);
                }
                Ok(Waited::TimedOut(_)) => {}
                Ok(Waited::NotFound) | Err(StoreError::Stopped(_)) => return None,
                Err(error) => {
                    tracing::warn!(%id, "cannot see whether it was decided: {error}");
                    tokio::time::sleep(ASKS_AGAIN).await;
                }
            }
        }
    }

    async fn run_released(&self, approval: SharedApproval) {
        let id = approval.id;
        if let Err(error) = self.gate.run_released(&self.tenant, approval).await {
            tracing::warn!(%id, "the released call could not be run: {error}");
        }
    }

    /// Starts no new calls, waits up to `RUNS_END_WITHIN` for running ones, and gives up the lease.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(RUNS_END_WITHIN, self.tasks.wait()).await;
        self.leave().await;
    }

    /// Waits until the store permanently refuses writes, then wakes all waiting clients to be answered. Returns the
    /// store's error.
    pub async fn store_fails(&self) -> StoreError {
        let error = crate::store::store_fails(self.gate.store()).await;
        self.store_lost.cancel();
        error
    }

    /// Makes a last attempt to record outcomes, and prints the calls for which it fails. Must be called after the last
    /// call has ended.
    pub async fn name_unrecorded(&self) {
        if self.gate.unrecorded() == 0 {
            return;
        }
        let rest = self.gate.flush_unrecorded(LAST_TRY).await;
        let calls: Vec<String> = rest.iter().map(|finish| finish.call.to_string()).collect();
        if !calls.is_empty() {
            crate::output::print_to_stderr(&format!(
                "countersign: how these calls ended is known and could not be recorded: {}; settle them with `countersign \
                 reconcile`",
                calls.join(" ")
            ));
        }
    }

    /// Returns the number of approvals whose decision or run this gateway still waits for.
    pub fn open_calls(&self) -> usize {
        lock(&self.followed).len()
    }
}

fn answered_key(approval: ApprovalId) -> String {
    format!("mcp/told/{approval}")
}

/// Returns true if an approval is about the call in `request`, from the same caller.
pub fn is_same(request: &ToolCallRequest, approval: &Approval) -> bool {
    let [call] = approval.calls.as_slice() else {
        return false;
    };
    // Compare with what the agent asked for, also if a person edited it.
    let proposed = call.original.as_ref().unwrap_or(&call.arguments);
    // A call with `confirmed: true` is the one that a person was asked about; the flag alone decides nothing.
    let is_asked_for = *proposed.as_bytes() == *request.arguments
        || is_flagged(&request.arguments)
            && is_same_but_for_the_flag(proposed.as_bytes(), &request.arguments);
    call.tool.as_str() == request.tool
        && is_asked_for
        && call.definition == Definition::read(request.definition)
        && call.working_folder == request.working_folder
        && approval.requester == request.requester
        && approval.on_behalf_of == request.on_behalf_of
        && approval.erased_at.is_none()
}

/// Returns true if the approval is pending or was decided, unless its call was not started in time or was voided by a
/// restored backup. If false, the same call may be proposed again.
fn was_decided_or_waits(approval: &Approval) -> bool {
    let is_stale = approval
        .calls
        .iter()
        .any(|call| matches!(call.because, Some(RefusalReason::Stale | RefusalReason::Voided)));
    matches!(approval.state, State::Pending | State::Approved | State::Denied) && !is_stale
}
