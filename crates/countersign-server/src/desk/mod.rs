//! The desk a command works at: the store itself, or a server that holds it.
//!
//! Enters: what a person wants, in the library's own words. Leaves: approvals as JSON shows them, so that a command
//! says the same whichever desk it works at.
//! Deliberately absent: rules and wording. A local desk asks the gate, a remote one asks a gate elsewhere.

mod credential;
mod follow;
mod local;
mod remote;
mod server;
mod sse;
mod translate;

pub use follow::{Followed, Following, Wanted};
pub use local::{LocalDesk, tenant};
pub use remote::RemoteDesk;
pub use server::target as check_address;

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
use countersign::store::Filter;

use self::follow::{LocalFollowing, RemoteFollowing};
use crate::cli::Global;
use crate::exec::CommandExecutor;
use crate::failure::Failure;
use crate::output::ruling::Line;
use crate::store::{Missing, Watch};
use crate::view::{ApprovalView, PageView};

/// Where a command works.
pub enum Desk {
    /// At the store.
    Local(Box<LocalDesk>),
    /// At a server, over its API.
    Remote(RemoteDesk),
}

/// The calls of one turn, to be proposed.
pub struct Proposal {
    /// The calls, in order.
    pub calls: Vec<ProposedCall>,
    /// The agent; at a server it is the token's.
    pub agent: Option<Agent>,
    /// The conversation.
    pub channel: Option<Channel>,
    /// The agent's run.
    pub run: Option<Run>,
    /// The agent's session.
    pub session: Option<Session>,
    /// The agent's own words.
    pub claim: Option<String>,
    /// The same key again is the same proposal.
    pub key: Option<Key>,
    /// What was said before; it is traced, not kept.
    pub conversation: Option<Conversation>,
}

/// One call of a proposal.
pub struct ProposedCall {
    /// The tool.
    pub tool: ToolName,
    /// The exact bytes.
    pub arguments: Arguments,
    /// The hash of the tool's definition.
    pub definition: Option<Hash>,
    /// A credential the call needs.
    pub secret: Option<Secret>,
}

/// What became of a proposal.
pub struct Proposed {
    /// One line per call.
    pub lines: Vec<Line>,
    /// The approval that all held calls share.
    pub approval: Option<ApprovalView>,
}

/// A decision to be made. As with the gate itself, approving takes a card that was shown whole.
pub struct Deciding {
    id: ApprovalId,
    verdict: Verdict,
    card: Option<WholeCard>,
    /// The digest of what was seen.
    pub digest: Option<Hash>,
    /// The person's words.
    pub comment: Option<String>,
    /// The same key again is the same decision.
    pub key: Option<Key>,
}

impl Deciding {
    /// A decision on a card that was shown whole.
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

    /// A denial, which needs no card.
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

    /// Which approval.
    pub fn id(&self) -> ApprovalId {
        self.id
    }

    /// What is decided.
    #[cfg(test)]
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }
}

/// A call that was started, for a host that runs it itself.
pub struct Started {
    /// The exact bytes to run.
    pub arguments: Vec<u8>,
    /// What finishing it takes.
    pub permit: String,
}

/// The same question to either desk.
macro_rules! either {
    ($desk:expr, $inner:ident => $answer:expr) => {
        match $desk {
            Desk::Local($inner) => $answer,
            Desk::Remote($inner) => $answer,
        }
    };
}

impl Desk {
    /// Opens the store or names the server. Nothing is made unless the command makes something new.
    pub async fn open(global: &Global, missing: Missing) -> Result<Desk, Failure> {
        Desk::open_with(global, missing, Watch::Nobody, None).await
    }

    /// As [`Desk::open`], for commands that wait, and with a command that runs calls from here.
    pub async fn open_with(
        global: &Global,
        missing: Missing,
        watch: Watch,
        executor: Option<CommandExecutor>,
    ) -> Result<Desk, Failure> {
        match &global.server {
            Some(url) => Ok(Desk::Remote(RemoteDesk::open(global, url, executor)?)),
            None => {
                let local = LocalDesk::open_with(global, missing, watch, executor).await?;
                Ok(Desk::Local(Box::new(local)))
            }
        }
    }

    /// The local desk, for what can only be done at the store.
    pub fn at_store(self, what: &str) -> Result<LocalDesk, Failure> {
        match self {
            Desk::Local(local) => Ok(*local),
            Desk::Remote(_) => {
                let message = format!("`{what}` works at the store itself, not over a server");
                Err(Failure::usage(message)
                    .hint("leave out `--server` and COUNTERSIGN_SERVER, and name the store with `--store`"))
            }
        }
    }

    /// A page of approvals.
    pub async fn list(&self, filter: &Filter) -> Result<PageView, Failure> {
        either!(self, desk => desk.list(filter).await)
    }

    /// The ids on a page of approvals.
    pub async fn ids(&self, filter: &Filter) -> Result<Vec<ApprovalId>, Failure> {
        either!(self, desk => desk.ids(filter).await)
    }

    /// One approval, if it is there and may be seen.
    pub async fn approval(&self, id: ApprovalId) -> Result<Option<ApprovalView>, Failure> {
        either!(self, desk => desk.approval(id).await)
    }

    /// One approval with its history.
    pub async fn history(&self, id: ApprovalId) -> Result<Option<ApprovalView>, Failure> {
        either!(self, desk => desk.history(id).await)
    }

    /// The exact bytes of a call, where whoever asks may have them.
    pub async fn argument_bytes(&self, call: CallId) -> Result<Option<Vec<u8>>, Failure> {
        either!(self, desk => desk.argument_bytes(call).await)
    }

    /// Proposes calls. Those that pass are run at once, where they are run from here.
    pub async fn propose(&self, proposal: Proposal) -> Result<Proposed, Failure> {
        either!(self, desk => desk.propose(proposal).await)
    }

    /// Decides.
    pub async fn decide(&self, deciding: Deciding) -> Result<ApprovalView, Failure> {
        either!(self, desk => desk.decide(deciding).await)
    }

    /// Takes a pending approval back.
    pub async fn withdraw(&self, id: ApprovalId, reason: Option<String>) -> Result<ApprovalView, Failure> {
        either!(self, desk => desk.withdraw(id, reason).await)
    }

    /// Says how a call ended whose outcome is unknown.
    pub async fn reconcile(
        &self,
        call: CallId,
        succeeded: bool,
        note: Option<String>,
    ) -> Result<ApprovalView, Failure> {
        either!(self, desk => desk.reconcile(call, succeeded, note).await)
    }

    /// Proposes to undo a call.
    pub async fn undo(
        &self,
        call: CallId,
        channel: Option<Channel>,
        key: Option<Key>,
    ) -> Result<ApprovalView, Failure> {
        either!(self, desk => desk.undo(call, channel, key).await)
    }

    /// Waits for a decision, or for the end of what it releases; nothing when the time ran out before.
    pub async fn wait(
        &self,
        id: ApprovalId,
        until: Until,
        limit: Duration,
    ) -> Result<Option<ApprovalView>, Failure> {
        either!(self, desk => desk.wait(id, until, limit).await)
    }

    /// Follows what happens from now on.
    pub async fn follow(&self, wanted: Wanted) -> Result<Following<'_>, Failure> {
        Ok(match self {
            Desk::Local(desk) => Following::Local(LocalFollowing::start(desk, wanted).await?),
            Desk::Remote(desk) => Following::Remote(Box::new(RemoteFollowing::start(desk, wanted).await?)),
        })
    }

    /// Records that a released call starts now: once, for whoever asks here.
    pub async fn start(&self, call: CallId) -> Result<Started, Failure> {
        either!(self, desk => desk.start(call).await)
    }

    /// Records how a call ended that was started here.
    pub async fn finish(&self, call: CallId, permit: &str, outcome: Outcome) -> Result<(), Failure> {
        either!(self, desk => desk.finish(call, permit, outcome).await)
    }

    /// Runs what is released, with the command that was given for it.
    pub async fn run_released(&self, approval: ApprovalView) -> Result<ApprovalView, Failure> {
        either!(self, desk => desk.run_released(approval).await)
    }
}

/// No approval of this id, or none that may be seen.
fn not_there(id: ApprovalId) -> Failure {
    Failure::error("not_found", format!("there is no approval `{}`", id.short()))
        .hint("look for it with `countersign list --all`")
}
