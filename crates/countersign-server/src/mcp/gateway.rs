//! What all clients of a gateway share: the gate, who asks through it, and the calls that are open.
//!
//! Enters: tool calls. Leaves: that one passes, is forbidden, or is held; the same call again is the one that is open.
//! What a person approves is run from here, whether or not anybody still waits for it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use countersign::approval::{Approval, SharedApproval};
use countersign::call::Because;
use countersign::executor::Permit;
use countersign::gate::{Gate, Ruled, Submission, SubmitError, SubmittedCall, Until, Waited};
use countersign::hash::Hash;
use countersign::id::{Agent, ApprovalId, Person, Run, Session, Tenant};
use countersign::policy::{Asked, Definition, Ruling};
use countersign::provenance::Told;
use countersign::registry::{Entry, Kind};
use countersign::state::State;
use countersign::store::{Filter, StoreError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::lease::Lease;
use super::seen::Seen;
use super::server::Server;
use super::settings::Settings;
use super::upstreams::{Origin, Upstreams};

/// How far back the same call is looked for.
pub const LOOKS_BACK: usize = 200;
/// For so long a call that was answered is remembered as answered.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// For so long the result of a call may be fetched by making the call again; shorter than it is remembered.
const FETCHED_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);
/// How long the end waits for calls that run.
const RUNS_END_WITHIN: Duration = Duration::from_secs(20);
/// How long a follower waits before it asks a store again that failed.
const ASKS_AGAIN: Duration = Duration::from_secs(1);

/// A gateway. One per process, or one per place in a service.
pub struct Gateway {
    /// The gate.
    pub gate: Gate,
    /// Whose world.
    pub tenant: Tenant,
    /// What it runs, and nobody else's: the same servers, started the same way.
    pub run: Run,
    /// The same for each of several servers, by its name: another one beside it changes nothing.
    pub(super) runs: HashMap<String, Run>,
    /// Servers that keep nothing between calls: what another process left open for them runs here.
    pub(super) resumed: Vec<String>,
    /// Servers of this process, as long as they live.
    pub(super) servers: Mutex<Vec<Weak<Server>>>,
    /// Whose calls are ours.
    pub lease: Lease,
    /// How the operator wants it.
    pub settings: Settings,
    /// The executor behind the gate.
    pub upstreams: Arc<Upstreams>,
    /// What follows approvals and runs calls.
    pub tasks: TaskTracker,
    /// Set when no new calls may be started.
    pub stopping: CancellationToken,
    followed: Mutex<HashSet<ApprovalId>>,
    proposing: Mutex<HashMap<Same, Weak<Turn>>>,
}

/// What makes two calls the same.
type Same = (Agent, String, Arc<[u8]>);
/// Whose turn it is to propose.
type Turn = tokio::sync::Mutex<()>;

/// A call as it is put to the gate.
#[derive(Clone)]
pub struct Wish {
    /// The agent.
    pub agent: Agent,
    /// Its credential.
    pub requester: Person,
    /// Whom it acts for.
    pub on_behalf_of: Option<Person>,
    /// Its session.
    pub session: Option<Session>,
    /// The tool's qualified name.
    pub tool: String,
    /// The exact bytes.
    pub arguments: Arc<[u8]>,
    /// The hash of the tool's definition.
    pub definition: Option<Hash>,
    /// What the client was answered before.
    pub seen: Arc<Seen>,
}

/// What becomes of it.
pub enum Put {
    /// It may go to the server.
    Pass(Permit),
    /// It may not.
    Forbidden(String),
    /// A person is asked, or was.
    Held(SharedApproval),
}

impl Gateway {
    /// A gateway over a gate whose executor is `upstreams`.
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
            followed: Mutex::default(),
            proposing: Mutex::default(),
        }
    }

    /// With these servers, each of which goes on with its own only, and those of them that keep nothing.
    pub fn with_runs(self, runs: HashMap<String, Run>, resumed: Vec<String>) -> Gateway {
        Gateway {
            runs,
            resumed,
            ..self
        }
    }

    /// Whose a call is, by the tool's qualified name.
    pub(super) fn run_of(&self, tool: &str) -> &Run {
        let server = tool.split_once('/').map(|(server, _)| server);
        server
            .and_then(|server| self.runs.get(server))
            .unwrap_or(&self.run)
    }

    /// Whether an approval came from here.
    pub fn is_of_ours(&self, approval: &Approval) -> bool {
        let tool = approval.calls.first().map_or("", |call| call.tool.as_str());
        approval.run.as_ref() == Some(self.run_of(tool))
    }

    /// Puts a call to the gate.
    pub async fn put(&self, wish: Wish) -> Result<Put, SubmitError> {
        let is_slow = self.gate.policy().is_slow(&wish.tool, wish.arguments.len());
        if !is_slow && !self.holds(&wish) {
            return self.submit(wish, None).await;
        }
        // One after the other, so that the second finds what the first proposed.
        let turn = self.turn(&wish);
        let _mine = turn.lock().await;
        match self.find_same(&wish).await? {
            Some(same) => Ok(Put::Held(same)),
            None => {
                // The gateway itself passed on what tools answered.
                let conversation = wish.seen.conversation().map(Told::heard_by_the_host);
                self.submit(wish, conversation).await
            }
        }
    }

    /// Whether a person would be asked.
    pub fn holds(&self, wish: &Wish) -> bool {
        let asked = Asked {
            tool: &wish.tool,
            arguments: &wish.arguments,
            definition: Definition::read(wish.definition),
            salt: &[],
            before: None,
        };
        matches!(self.gate.policy().rule(asked), Ruling::Hold(_))
    }

    async fn submit(&self, wish: Wish, conversation: Option<Told>) -> Result<Put, SubmitError> {
        let run = self.run_of(&wish.tool).clone();
        let call = SubmittedCall {
            tool: wish.tool,
            arguments: wish.arguments,
            definition: Definition::read(wish.definition),
            secret: None,
        };
        let submission = Submission {
            tenant: self.tenant.clone(),
            agent: wish.agent,
            requester: wish.requester,
            on_behalf_of: wish.on_behalf_of,
            channel: None,
            run: Some(run),
            session: wish.session,
            claim: None,
            key: None,
            conversation,
            calls: vec![call],
        };
        let mut submitted = self.gate.submit(submission).await?;
        match (submitted.calls.pop(), submitted.approval) {
            (Some(Ruled::Pass(permit)), _) => Ok(Put::Pass(permit)),
            // No key is sent, so this cannot be; whatever it is, it does not run.
            (Some(Ruled::PassedBefore(_)), _) => {
                Ok(Put::Forbidden("the same call has run before".to_owned()))
            }
            (Some(Ruled::Forbidden { reason }), _) => Ok(Put::Forbidden(reason)),
            (Some(Ruled::Held(_)), Some(approval)) => Ok(Put::Held(approval)),
            _ => Err(StoreError::Impossible("the gate ruled on nothing".to_owned()).into()),
        }
    }

    /// The same call, if it is open, or over and nobody was told how.
    async fn find_same(&self, wish: &Wish) -> Result<Option<SharedApproval>, StoreError> {
        let filter = Filter {
            asked: true,
            run: Some(self.run_of(&wish.tool).clone()),
            agent: Some(wish.agent.clone()),
            limit: Some(LOOKS_BACK),
            ..Filter::default()
        };
        let now = self.gate.store().now().await?;
        let listed = self.gate.store().list(&self.tenant, &filter).await?;
        // Newest first, and only that one counts.
        let mut same = None;
        for approval in listed.into_iter().filter(|approval| is_same(wish, approval)) {
            if self.may_join(wish, &approval).await? {
                same = Some(approval);
                break;
            }
        }
        let Some(same) = same else {
            return Ok(None);
        };
        let is_fresh = now.since(same.created_at) < FETCHED_WITHIN;
        let is_open = same.state != State::Pending || now < same.expires_at;
        if !is_fresh || !is_open || !was_decided_or_waits(&same) {
            return Ok(None);
        }
        let told = self.gate.store().entry(Kind::Setting, &told(same.id)).await?;
        Ok(told.is_none().then_some(same))
    }

    fn turn(&self, wish: &Wish) -> Arc<Turn> {
        let key = (wish.agent.clone(), wish.tool.clone(), wish.arguments.clone());
        let mut proposing = open(&self.proposing);
        if let Some(turn) = proposing.get(&key).and_then(Weak::upgrade) {
            return turn;
        }
        proposing.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        proposing.insert(key, Arc::downgrade(&turn));
        turn
    }

    /// Notes that the client is about to be told how a call ended: the same call again is then a new one.
    pub async fn tell(&self, approval: ApprovalId) -> Result<(), StoreError> {
        let now = self.gate.store().now().await?;
        let entry = Entry {
            kind: Kind::Setting,
            key: told(approval),
            tenant: self.tenant.clone(),
            body: [].into(),
            version: 0,
            expires_at: Some(now.plus(REMEMBERED)),
        };
        // It may be there: two requests can wait for one call.
        self.gate.store().put_entry(entry).await.map(drop)
    }

    /// Waits for a decision in the background and runs what it releases.
    pub fn follow(self: &Arc<Self>, approval: &Approval, origin: Origin) {
        let id = approval.id;
        self.upstreams.remember(id, origin);
        if !open(&self.followed).insert(id) {
            return;
        }
        let gateway = self.clone();
        self.tasks.spawn(async move {
            let ending = gateway.stopping.clone();
            let released = async {
                let approval = gateway.released(id).await?;
                gateway.may_run(&approval).await.then_some(approval)
            };
            let released = tokio::select! {
                () = ending.cancelled() => None,
                released = released => released,
            };
            if let Some(approval) = released {
                gateway.run_released(approval).await;
            }
            open(&gateway.followed).remove(&id);
            gateway.upstreams.forget(id);
        });
    }

    /// The approval once it was approved; nothing when it was not.
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

    /// Starts nothing new, and waits for what runs, for a while.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(RUNS_END_WITHIN, self.tasks.wait()).await;
        self.leave().await;
    }

    /// How many approvals are followed.
    pub fn open_calls(&self) -> usize {
        open(&self.followed).len()
    }
}

fn told(approval: ApprovalId) -> String {
    format!("mcp/told/{approval}")
}

/// Whether an approval is about this call.
pub fn is_same(wish: &Wish, approval: &Approval) -> bool {
    let [call] = approval.calls.as_slice() else {
        return false;
    };
    // What the agent asked for, also when a person changed it.
    let proposed = call.original.as_ref().unwrap_or(&call.arguments);
    call.tool.as_str() == wish.tool
        && *proposed.as_bytes() == *wish.arguments
        && call.definition == Definition::read(wish.definition)
        && approval.requester == wish.requester
        && approval.on_behalf_of == wish.on_behalf_of
        && approval.erased_at.is_none()
}

/// Whether there is an answer, or one to come. What nobody decided may be asked again.
fn was_decided_or_waits(approval: &Approval) -> bool {
    let is_stale = approval
        .calls
        .iter()
        .any(|call| matches!(call.because, Some(Because::Stale | Because::Voided)));
    matches!(approval.state, State::Pending | State::Approved | State::Denied) && !is_stale
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
