//! Backend of a command: the local store, or a remote server.
//!
//! Input: requests in the library's types. Output: approvals as JSON views, so that a command prints the same with
//! either backend.
//! Not here: rules and wording. A local backend calls the gate, a remote one calls a server's API.

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

/// Backend of a command.
pub enum Backend {
    /// The store itself.
    Local(Box<LocalBackend>),
    /// A server, over its API.
    Remote(RemoteBackend),
}

/// Calls of one turn, to be proposed.
pub struct Proposal {
    /// Calls, in the order in which they run.
    pub calls: Vec<ProposedCall>,
    /// Agent name; must be `None` with a server, where the token determines it.
    pub agent: Option<Agent>,
    /// Channel of the conversation.
    pub channel: Option<Channel>,
    pub run: Option<Run>,
    pub session: Option<Session>,
    /// The agent's own words.
    pub claim: Option<String>,
    /// Idempotency key.
    pub key: Option<Key>,
    /// Conversation before the calls, to trace where values came from; not stored.
    pub conversation: Option<Conversation>,
}

/// One call of a proposal.
pub struct ProposedCall {
    pub tool: ToolName,
    /// Arguments, byte for byte.
    pub arguments: Arguments,
    /// Hash of the tool's definition.
    pub definition: Option<Hash>,
    /// Credential that the call needs.
    pub secret: Option<Secret>,
    /// The folder that the host will run the call in.
    pub working_folder: Option<Arc<WorkingFolder>>,
}

/// Result of a proposal.
pub struct Proposed {
    /// One line per call.
    pub lines: Vec<Line>,
    /// Approval shared by all held calls.
    pub approval: Option<ApprovalView>,
}

/// Decision to be made. Approving takes a card that was shown completely, as with the gate itself.
pub struct Deciding {
    id: ApprovalId,
    verdict: Verdict,
    card: Option<WholeCard>,
    /// Digest of the card that was shown.
    pub digest: Option<Hash>,
    /// Comment of the person.
    pub comment: Option<String>,
    /// Idempotency key.
    pub key: Option<Key>,
}

impl Deciding {
    /// Decides on a card that was shown completely.
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

    /// Denies an approval, for which no card has to be shown.
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

/// Started call, for a host that runs it itself.
pub struct Started {
    /// Arguments to run with, byte for byte.
    pub arguments: Vec<u8>,
    /// Permit token needed to finish the call.
    pub permit: String,
    /// Time limit. The call must not be started after it, since the gate then treats it as lost.
    pub limit: TimeLimit,
}

/// Forwards a method call to either backend.
macro_rules! either {
    ($backend:expr, $inner:ident => $answer:expr) => {
        match $backend {
            Backend::Local($inner) => $answer,
            Backend::Remote($inner) => $answer,
        }
    };
}

impl Backend {
    /// Opens the store, or prepares requests to the server. `missing` says whether a missing store is created.
    pub async fn open(global: &Global, missing: Missing) -> Result<Backend, Failure> {
        Backend::open_with(global, missing, Watch::Nobody, None).await
    }

    /// Like [`Backend::open`], for commands that wait for changes or run calls themselves.
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

    /// Returns the local backend, or a usage error for `what`, which works only at the store.
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

    /// Lists approvals, one page.
    pub async fn list(&self, filter: &Filter) -> Result<PageView, Failure> {
        either!(self, backend => backend.list(filter).await)
    }

    /// Lists the ids of approvals, one page.
    pub async fn ids(&self, filter: &Filter) -> Result<Vec<ApprovalId>, Failure> {
        either!(self, backend => backend.ids(filter).await)
    }

    /// Returns an approval with its concerns. `None` if it does not exist or is not visible.
    pub async fn approval(&self, id: ApprovalId) -> Result<Option<ApprovalView>, Failure> {
        either!(self, backend => backend.approval(id).await)
    }

    /// Returns an approval with its events and concerns.
    pub async fn history(&self, id: ApprovalId) -> Result<Option<ApprovalView>, Failure> {
        either!(self, backend => backend.history(id).await)
    }

    /// Returns the exact arguments of a call. A server refuses them if they contain a secret.
    pub async fn argument_bytes(&self, call: CallId) -> Result<Option<Vec<u8>>, Failure> {
        either!(self, backend => backend.argument_bytes(call).await)
    }

    /// Proposes calls. Passed ones are run at once if this process runs them.
    pub async fn propose(&self, proposal: Proposal) -> Result<Proposed, Failure> {
        either!(self, backend => backend.propose(proposal).await)
    }

    /// Records a decision.
    pub async fn decide(&self, deciding: Deciding) -> Result<ApprovalView, Failure> {
        either!(self, backend => backend.decide(deciding).await)
    }

    /// Withdraws a pending approval.
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

    /// Proposes the undo of a call.
    pub async fn undo(
        &self,
        call: CallId,
        channel: Option<Channel>,
        key: Option<Key>,
    ) -> Result<ApprovalView, Failure> {
        either!(self, backend => backend.undo(call, channel, key).await)
    }

    /// Waits for a decision, or until the released calls have run. `None` on timeout.
    pub async fn wait(
        &self,
        id: ApprovalId,
        until: Until,
        limit: Duration,
    ) -> Result<Option<ApprovalView>, Failure> {
        either!(self, backend => backend.wait(id, until, limit).await)
    }

    /// Follows events from now on.
    pub async fn follow(&self, wanted: EventFilter) -> Result<EventStream<'_>, Failure> {
        Ok(match self {
            Backend::Local(backend) => EventStream::Local(LocalEventStream::start(backend, wanted).await?),
            Backend::Remote(backend) => {
                EventStream::Remote(Box::new(RemoteEventStream::start(backend, wanted).await?))
            }
        })
    }

    /// Records the start of a released call, which succeeds once, and returns its permit.
    pub async fn start(&self, call: CallId) -> Result<Started, Failure> {
        either!(self, backend => backend.start(call).await)
    }

    /// Records the outcome of a call started here.
    pub async fn finish(&self, call: CallId, permit: &str, outcome: Outcome) -> Result<(), Failure> {
        either!(self, backend => backend.finish(call, permit, outcome).await)
    }

    /// Runs the released calls with the configured command.
    pub async fn run_released(&self, approval: ApprovalView) -> Result<ApprovalView, Failure> {
        either!(self, backend => backend.run_released(approval).await)
    }
}

/// Error for an approval that does not exist or is not visible.
fn not_there(id: ApprovalId) -> Failure {
    Failure::error("not_found", format!("there is no approval `{}`", id.short()))
        .hint("find it with `countersign list --all`")
}
