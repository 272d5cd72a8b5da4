//! Backend of a command: the local store, or a remote server.
//!
//! Input: requests in the library's types. Output: approvals as JSON views, so that a command prints the same with
//! either backend. A local backend calls the gate, a remote one calls a server's API; neither adds rules or wording of
//! its own.

mod credential;
mod follow;
mod local;
mod remote;
mod server;
mod translate;

pub use follow::{EventFilter, EventStream, StreamItem};
pub use local::{LocalBackend, tenant};
pub use remote::{RemoteBackend, check_one_place};
pub use server::target as check_address;

use std::sync::Arc;
use std::time::Duration;

use countersign::call::Arguments;
use countersign::card::WholeCard;
use countersign::decision::Verdict;
use countersign::executor::Outcome;
use countersign::gate::Until;
use countersign::hash::Hash;
use countersign::id::{Agent, ApprovalId, CallId, Channel, Key, Run, Session, ToolName};
use countersign::provenance::Conversation;
use countersign::seal::Secret;
use countersign::stopwatch::TimeLimit;
use countersign::store::Filter;
use countersign::working_folder::WorkingFolder;

use self::follow::{LocalEventStream, RemoteEventStream};
use crate::cli::Global;
use crate::exec::CommandExecutor;
use crate::failure::Failure;
use crate::output::ruling::Line;
use crate::store::{Missing, Watch};
use crate::view::{ApprovalView, PageView};

/// Backend of a command: the local store, or a server's API.
pub enum Backend {
    /// Works on the store directly, through a gate in this process.
    Local(Box<LocalBackend>),
    /// Works through a server's API.
    Remote(RemoteBackend),
}

/// Calls of one agent turn, to be proposed.
pub struct Proposal {
    /// Calls, in the order in which they run.
    pub calls: Vec<ProposedCall>,
    /// Agent name; must be `None` with a server, where the token determines it.
    pub agent: Option<Agent>,
    /// Channel of the conversation, if the calls belong to one.
    pub channel: Option<Channel>,
    pub run: Option<Run>,
    pub session: Option<Session>,
    /// The agent's own description of the calls, if any, shown as its unchecked claim.
    pub claim: Option<String>,
    /// Idempotency key: a repeated proposal with the same key creates nothing new.
    pub key: Option<Key>,
    /// Conversation before the calls, to trace where values came from; not stored.
    pub conversation: Option<Conversation>,
}

/// One call of a proposal.
pub struct ProposedCall {
    pub tool: ToolName,
    /// Arguments, byte for byte.
    pub arguments: Arguments,
    /// Hash of the tool's definition, if the proposer claims one.
    pub definition: Option<Hash>,
    /// Credential that the tool needs, if any. Stored encrypted, and erased when the call ends.
    pub secret: Option<Secret>,
    /// Folder in which the host will run the call, if the proposer names one.
    pub working_folder: Option<Arc<WorkingFolder>>,
}

/// Result of a proposal.
pub struct Proposed {
    /// Tool and ruling of each call, in order.
    pub lines: Vec<Line>,
    /// Approval shared by all held calls; `None` if no call is held.
    pub approval: Option<ApprovalView>,
}

/// A decision to be sent. One that approves can only be made from a [`WholeCard`], which proves that the card was shown
/// completely.
pub struct Deciding {
    id: ApprovalId,
    verdict: Verdict,
    card: Option<WholeCard>,
    /// Digest of the card that was shown; `None` for a denial without a card.
    pub digest: Option<Hash>,
    /// Comment of the person, if any, passed on to the agent.
    pub comment: Option<String>,
    /// Idempotency key: a repeated decision with the same key has no further effect.
    pub key: Option<Key>,
}

impl Deciding {
    /// Creates a decision on a card that was shown completely.
    pub fn on(card: WholeCard, verdict: Verdict) -> Deciding {
        Deciding {
            id: card.approval(),
            verdict,
            digest: Some(card.digest()),
            card: Some(card),
            comment: None,
            key: None,
        }
    }

    /// Creates a denial, for which no card has to be shown.
    pub fn deny(id: ApprovalId) -> Deciding {
        Deciding {
            id,
            verdict: Verdict::Deny,
            card: None,
            digest: None,
            comment: None,
            key: None,
        }
    }

    #[cfg(feature = "tui")]
    pub fn id(&self) -> ApprovalId {
        self.id
    }

    #[cfg(test)]
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }
}

/// A call whose start was recorded, for a host that runs the call itself.
pub struct Started {
    /// Arguments to run with, byte for byte.
    pub arguments: Vec<u8>,
    /// Secret that the host has to present when it reports the outcome.
    pub permit: String,
    /// Time limit. The host must not run the call after it, because the gate then records the outcome as unknown.
    pub limit: TimeLimit,
}

/// Evaluates the same expression for either backend, which is bound to `$inner`.
macro_rules! either {
    ($backend:expr, $inner:ident => $answer:expr) => {
        match $backend {
            Backend::Local($inner) => $answer,
            Backend::Remote($inner) => $answer,
        }
    };
}

impl Backend {
    /// Opens the store, or prepares requests to the server. `missing` says what to do if the store does not exist.
    pub async fn open(global: &Global, missing: Missing) -> Result<Backend, Failure> {
        Backend::open_with(global, missing, Watch::Nobody, None).await
    }

    /// Like [`Backend::open`], for commands that wait for changes (`watch`) or run calls themselves (`executor`).
    pub async fn open_with(
        global: &Global,
        missing: Missing,
        watch: Watch,
        executor: Option<CommandExecutor>,
    ) -> Result<Backend, Failure> {
        match &global.server {
            Some(url) => Ok(Backend::Remote(RemoteBackend::open(global, url, executor)?)),
            None => {
                let local = LocalBackend::open_with(global, missing, watch, executor).await?;
                Ok(Backend::Local(Box::new(local)))
            }
        }
    }

    /// Returns the local backend. Fails with a usage error for a server, because the command `what` works only on a
    /// store.
    pub fn at_store(self, what: &str) -> Result<LocalBackend, Failure> {
        match self {
            Backend::Local(local) => Ok(*local),
            Backend::Remote(_) => {
                let message = format!("`{what}` needs direct access to the store and cannot use a server");
                Err(Failure::usage(message)
                    .hint("leave out `--server` and COUNTERSIGN_SERVER, and name the store with `--store`"))
            }
        }
    }

    /// Returns one page of approvals that match the filter.
    pub async fn list(&self, filter: &Filter) -> Result<PageView, Failure> {
        either!(self, backend => backend.list(filter).await)
    }

    /// Returns the ids of one page of approvals that match the filter.
    pub async fn ids(&self, filter: &Filter) -> Result<Vec<ApprovalId>, Failure> {
        either!(self, backend => backend.ids(filter).await)
    }

    /// Returns an approval with its concerns. `None` if it does not exist or is not visible.
    pub async fn approval(&self, id: ApprovalId) -> Result<Option<ApprovalView>, Failure> {
        either!(self, backend => backend.approval(id).await)
    }

    /// Returns an approval with its events and concerns. `None` if it does not exist or is not visible.
    pub async fn history(&self, id: ApprovalId) -> Result<Option<ApprovalView>, Failure> {
        either!(self, backend => backend.history(id).await)
    }

    /// Returns the exact arguments of a call. `None` if there is no such call. A server refuses to send arguments that
    /// contain a secret.
    pub async fn argument_bytes(&self, call: CallId) -> Result<Option<Vec<u8>>, Failure> {
        either!(self, backend => backend.argument_bytes(call).await)
    }

    /// Proposes calls. A call that passes is run at once if this command runs calls.
    pub async fn propose(&self, proposal: Proposal) -> Result<Proposed, Failure> {
        either!(self, backend => backend.propose(proposal).await)
    }

    /// Records a decision and returns the approval after it. Fails if the gate refuses the decision.
    pub async fn decide(&self, deciding: Deciding) -> Result<ApprovalView, Failure> {
        either!(self, backend => backend.decide(deciding).await)
    }

    /// Withdraws a pending approval, so that nobody can decide it any more.
    pub async fn withdraw(&self, id: ApprovalId, reason: Option<String>) -> Result<ApprovalView, Failure> {
        either!(self, backend => backend.withdraw(id, reason).await)
    }

    /// Records how a call with an unknown outcome ended.
    pub async fn reconcile(
        &self,
        call: CallId,
        succeeded: bool,
        note: Option<String>,
    ) -> Result<ApprovalView, Failure> {
        either!(self, backend => backend.reconcile(call, succeeded, note).await)
    }

    /// Proposes to undo a call that succeeded, as a new approval.
    pub async fn undo(
        &self,
        call: CallId,
        channel: Option<Channel>,
        key: Option<Key>,
    ) -> Result<ApprovalView, Failure> {
        either!(self, backend => backend.undo(call, channel, key).await)
    }

    /// Waits until the approval is decided or, with [`Until::Finished`], until its calls have run. `None` on timeout.
    pub async fn wait(
        &self,
        id: ApprovalId,
        until: Until,
        limit: Duration,
    ) -> Result<Option<ApprovalView>, Failure> {
        either!(self, backend => backend.wait(id, until, limit).await)
    }

    /// Returns true if a service uses the store, which may run approved calls.
    pub async fn has_service(&self) -> bool {
        match self {
            Backend::Local(backend) => backend.has_service().await,
            Backend::Remote(_) => true,
        }
    }

    /// Starts a stream of the events that happen from now on and match the filter.
    pub async fn follow(&self, wanted: EventFilter) -> Result<EventStream<'_>, Failure> {
        Ok(match self {
            Backend::Local(backend) => EventStream::Local(LocalEventStream::start(backend, wanted).await?),
            Backend::Remote(backend) => {
                EventStream::Remote(Box::new(RemoteEventStream::start(backend, wanted).await?))
            }
        })
    }

    /// Records the start of a released call and returns its permit. Only the first attempt succeeds.
    pub async fn start(&self, call: CallId) -> Result<Started, Failure> {
        either!(self, backend => backend.start(call).await)
    }

    /// Records the outcome of a call, with the permit from [`Backend::start`].
    pub async fn finish(&self, call: CallId, permit: &str, outcome: Outcome) -> Result<(), Failure> {
        either!(self, backend => backend.finish(call, permit, outcome).await)
    }

    /// Runs the released calls of an approval with the command given by `--exec`, and returns the approval after that.
    pub async fn run_released(&self, approval: ApprovalView) -> Result<ApprovalView, Failure> {
        either!(self, backend => backend.run_released(approval).await)
    }
}

/// Returns the error for an approval that does not exist or is not visible.
fn not_there(id: ApprovalId) -> Failure {
    Failure::error("not_found", format!("there is no approval `{}`", id.short()))
        .hint("find it with `countersign list --all`")
}
