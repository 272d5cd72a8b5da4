//! Submissions to the gate and their results.

use std::sync::Arc;
use std::time::Duration;

use crate::approval::{MOST_CALLS, Order, SharedApproval};
use crate::command::ProposeRefusal;
use crate::effect::Risk;
use crate::executor::Permit;
use crate::id::{Agent, BadName, CallId, Channel, Key, Person, Run, Session, Tenant};
use crate::policy::{Definition, Terms};
use crate::provenance::VouchedConversation;
use crate::seal::{SealError, Secret};
use crate::store::StoreError;
use crate::working_folder::WorkingFolder;

/// Maximum length of an agent's claim, in bytes.
pub const LONGEST_CLAIM: usize = 8 * 1024;

/// The calls of one agent turn. The identities come from the credential, never from the agent's own text.
///
/// Only the tenant, the agent, the requester and the calls are required.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Tenant that the agent belongs to.
    pub tenant: Tenant,
    /// The submitting agent.
    pub agent: Agent,
    /// Holder of the credential with which the agent submits.
    pub requester: Person,
    /// The person for whom the agent acts, if known.
    pub on_behalf_of: Option<Person>,
    /// The channel, if any. A channel has at most one pending approval.
    pub channel: Option<Channel>,
    /// The agent's run, if any, by which related approvals can be listed.
    pub run: Option<Run>,
    /// The agent's session, if any, recorded with the approval.
    pub session: Option<Session>,
    /// The agent's own explanation, if any, which is shown separately and marked as the agent's claim.
    pub claim: Option<String>,
    /// Idempotency key, if any: a submission with the same key is a retry, and proposes nothing new.
    pub key: Option<Key>,
    /// The conversation so far, used to trace where values came from. Without it, their origin is unknown. A
    /// conversation that the agent itself reports can only make rulings stricter; see [`VouchedConversation`].
    pub conversation: Option<VouchedConversation>,
    /// Order and time limits that the agent asks for.
    pub options: SubmissionOptions,
    /// The calls, in the order in which they run.
    pub calls: Vec<SubmittedCall>,
}

impl Submission {
    /// Creates a submission with only the required fields; names can be given as text. Set the other fields with struct
    /// update syntax.
    pub fn new(
        tenant: impl TryInto<Tenant, Error: Into<BadName>>,
        agent: impl TryInto<Agent, Error: Into<BadName>>,
        requester: impl TryInto<Person, Error: Into<BadName>>,
        calls: Vec<SubmittedCall>,
    ) -> Result<Submission, BadName> {
        Ok(Submission {
            tenant: tenant.try_into().map_err(Into::into)?,
            agent: agent.try_into().map_err(Into::into)?,
            requester: requester.try_into().map_err(Into::into)?,
            on_behalf_of: None,
            channel: None,
            run: None,
            session: None,
            claim: None,
            key: None,
            conversation: None,
            options: SubmissionOptions::default(),
            calls,
        })
    }
}

/// Order and time limits of the approval that a submission's held calls share. The agent may ask for less time than the
/// policy allows, never for more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubmissionOptions {
    /// Order in which the approved calls may be started.
    pub order: Order,
    /// Requested time to decide. A longer time than the policy's is refused; `None` keeps the policy's time.
    pub ttl: Option<Duration>,
    /// Requested time between the decision and the start of a call. A longer time than the policy's is refused; `None`
    /// keeps the policy's time.
    pub start_within: Option<Duration>,
}

/// One call of a submission.
#[derive(Clone, Debug)]
pub struct SubmittedCall {
    /// The tool's name.
    pub tool: String,
    /// The arguments, byte for byte as received.
    pub arguments: Arc<[u8]>,
    /// Definition of the tool and its source. Only a definition that the gate read itself satisfies a pin.
    pub definition: Definition,
    /// Credential that the tool needs, if any. It is encrypted while the call waits.
    pub secret: Option<Secret>,
    /// The folder that the host will run the call in, if the host knows it. The folder is shown to the person and part
    /// of what is approved.
    pub working_folder: Option<Arc<WorkingFolder>>,
}

impl SubmittedCall {
    /// Creates a call of a tool with these arguments.
    pub fn new(tool: impl Into<String>, arguments: impl AsRef<[u8]>) -> SubmittedCall {
        SubmittedCall {
            tool: tool.into(),
            arguments: Arc::from(arguments.as_ref()),
            definition: Definition::Unknown,
            secret: None,
            working_folder: None,
        }
    }
}

/// Options that an agent sets for an approval that it asks for explicitly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApprovalOptions {
    /// Requested risk. It can raise the policy's risk, never lower it; `None` keeps the policy's risk.
    pub risk: Option<Risk>,
    /// Requested time to decide. A longer time than the policy's is refused; `None` keeps the policy's time.
    pub ttl: Option<Duration>,
}

/// Rulings on a submission, and the approval of its held calls.
#[derive(Debug)]
#[non_exhaustive]
pub struct Submitted {
    /// One ruling per call, in order.
    pub calls: Vec<Ruled>,
    /// The approval of all held calls; `None` if no call is held.
    pub approval: Option<SharedApproval>,
}

/// Ruling on one call. Exhaustive, because the caller has to know of every call whether it may run.
#[derive(Debug)]
pub enum Ruled {
    /// The call may run at once. Unless it is a read, its start has been recorded, and the caller must report its
    /// outcome.
    Pass(Permit),
    /// The call passed before, in the same submission under the same idempotency key, and does not run again.
    /// [`Gate::outcome_of`](super::Gate::outcome_of) returns its outcome.
    PassedBefore(CallId),
    /// The call waits for a decision.
    Held(CallId),
    /// The policy forbids the call: it will not run, and nobody is asked.
    Forbidden {
        /// Explanation for the agent, so that it can correct the call.
        reason: String,
    },
    /// The call is not well formed: its tool has no valid name, or its arguments are not strict JSON. It will not run,
    /// and nobody is asked.
    Malformed {
        /// Explanation for the agent, so that it can correct the call.
        reason: String,
    },
}

/// Ruling that a call would get, from a preview that records nothing. The terms of a call are `None` for a read that
/// passes.
#[derive(Clone, Debug)]
pub enum Foreseen {
    /// The call would pass.
    Pass(Option<Arc<Terms>>),
    /// A person would be asked about the call.
    Held(Option<Arc<Terms>>),
    /// The call would be forbidden.
    Forbidden {
        /// Explanation for the agent.
        reason: String,
    },
}

/// Error that concerns a whole submission. None of its calls runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The submission has this many calls, which is none or too many.
    #[error("a submission has 1 to {MOST_CALLS} calls, this one has {0}")]
    CallCount(usize),
    /// The agent's claim has this many bytes, which is more than [`LONGEST_CLAIM`].
    #[error("the agent's own words have {0} bytes, more than {LONGEST_CLAIM}")]
    ClaimTooLong(usize),
    /// A call's secret cannot be stored.
    #[error("the call's secret cannot be kept: {0}")]
    Seal(#[from] SealError),
    /// The call at this position (from 1) cannot be held, for the given reason.
    #[error("call {0} cannot be asked for: {1}")]
    NotAskable(u8, String),
    /// The agent asks for more time to decide than the policy allows.
    #[error("a decision may take {} s by the policy, and {} s are asked for", limit.as_secs_f64(), asked.as_secs_f64())]
    TtlTooLong {
        /// Time that the agent asks for.
        asked: Duration,
        /// Time that the policy allows.
        limit: Duration,
    },
    /// The agent asks for more time between the decision and the start than the policy allows.
    #[error("a call may start {} s after the decision by the policy, and {} s are asked for", limit.as_secs_f64(), asked.as_secs_f64())]
    StartWithinTooLong {
        /// Time that the agent asks for.
        asked: Duration,
        /// Time that the policy allows.
        limit: Duration,
    },
    /// The proposal was refused.
    #[error(transparent)]
    Refused(#[from] ProposeRefusal),
    /// The agent proposes faster than allowed.
    #[error("the agent asks too often: it may ask again in {} s", retry_after.as_secs_f64().ceil())]
    TooFast {
        /// Time to wait before the next try.
        retry_after: Duration,
    },
    /// The call cannot be undone, for the given reason.
    #[error("call `{0}` cannot be undone: {1}")]
    NoUndo(CallId, String),
    /// A submission for an undo has this many calls of its own, which the undo would ignore.
    #[error("an undo makes its own calls, but the submission has {0}")]
    UndoWithCalls(usize),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
