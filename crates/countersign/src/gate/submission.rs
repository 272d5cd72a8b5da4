//! What an agent puts to the gate, and what the gate says to it.

use std::sync::Arc;
use std::time::Duration;

use crate::approval::{MOST_CALLS, SharedApproval};
use crate::command::ProposeRefusal;
use crate::effect::Risk;
use crate::executor::Permit;
use crate::id::{Agent, CallId, Channel, Key, Person, Run, Session, Tenant};
use crate::policy::Definition;
use crate::provenance::Told;
use crate::seal::{SealError, Secret};
use crate::store::StoreError;

/// The longest text an agent may add to its calls.
pub const LONGEST_CLAIM: usize = 8 * 1024;

/// The calls of one agent turn. Who asks comes from the credential, never from the agent's words.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Whose world.
    pub tenant: Tenant,
    /// The agent that asks.
    pub agent: Agent,
    /// The credential it asks with.
    pub requester: Person,
    /// The person it acts for, when known.
    pub on_behalf_of: Option<Person>,
    /// The conversation, if there is one: at most one approval is pending in it.
    pub channel: Option<Channel>,
    /// The agent's run.
    pub run: Option<Run>,
    /// The agent's session.
    pub session: Option<Session>,
    /// The agent's own words, shown apart as its claim.
    pub claim: Option<String>,
    /// Says that this is the same submission sent again.
    pub key: Option<Key>,
    /// What was said before, so that every value's origin can be told. Without it they are unknown. As the agent tells it
    /// it only tightens rulings; see [`Told`].
    pub conversation: Option<Told>,
    /// The calls, in the order in which they are to run.
    pub calls: Vec<SubmittedCall>,
}

impl Submission {
    /// Calls by an agent, with nothing else known. Say more with `Submission { channel, ..Submission::new(…) }`.
    pub fn new(tenant: Tenant, agent: Agent, requester: Person, calls: Vec<SubmittedCall>) -> Submission {
        Submission {
            tenant,
            agent,
            requester,
            on_behalf_of: None,
            channel: None,
            run: None,
            session: None,
            claim: None,
            key: None,
            conversation: None,
            calls,
        }
    }
}

/// One call of a submission.
#[derive(Clone, Debug)]
pub struct SubmittedCall {
    /// The tool's name.
    pub tool: String,
    /// Its arguments, byte for byte as they came.
    pub arguments: Arc<[u8]>,
    /// What is known of the tool's definition, and from whom: only what the gate read itself satisfies a pin.
    pub definition: Definition,
    /// A credential the call will need.
    pub secret: Option<Secret>,
}

impl SubmittedCall {
    /// A call of a tool with these bytes as arguments.
    pub fn new(tool: impl Into<String>, arguments: impl Into<Arc<[u8]>>) -> SubmittedCall {
        SubmittedCall {
            tool: tool.into(),
            arguments: arguments.into(),
            definition: Definition::Unknown,
            secret: None,
        }
    }
}

/// What an agent wants of an approval it asks for outright.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asking {
    /// May raise what the policy says, never lower it.
    pub risk: Option<Risk>,
    /// May shorten what the policy says, never lengthen it.
    pub ttl: Option<Duration>,
}

/// What the gate says to a submission.
#[derive(Debug)]
pub struct Submitted {
    /// One ruling per call, in order.
    pub calls: Vec<Ruled>,
    /// The approval that all held calls share.
    pub approval: Option<SharedApproval>,
}

/// What the gate says to one call.
#[derive(Debug)]
pub enum Ruled {
    /// It may run at once. Unless it is a read, its start is on record, and whoever runs it says how it ended.
    Pass(Permit),
    /// The same submission let it pass before, under the same idempotency key. It does not run again;
    /// [`Gate::outcome_of`](super::Gate::outcome_of) tells how it ended.
    PassedBefore(CallId),
    /// It waits for a person.
    Held(CallId),
    /// It will not run, and nobody is asked.
    Forbidden {
        /// Why, so that the agent can mend it.
        reason: String,
    },
}

/// Why a submission failed as a whole. Nothing of it runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// None or too many.
    #[error("a submission has 1 to {MOST_CALLS} calls, this one has {0}")]
    CallCount(usize),
    /// The agent's words are too long to be read.
    #[error("the agent's own words have {0} bytes, more than {LONGEST_CLAIM}")]
    ClaimTooLong(usize),
    /// It came with a secret that cannot be kept.
    #[error("the call's secret cannot be kept: {0}")]
    Seal(#[from] SealError),
    /// Nobody can be asked about this call.
    #[error("call {0} cannot be asked for: {1}")]
    NotAskable(u8, String),
    /// The gate refused to hold it.
    #[error(transparent)]
    Refused(#[from] ProposeRefusal),
    /// The agent makes new approvals faster than its policy allows.
    #[error("the agent asks too often: it may ask again in {} s", retry_after.as_secs_f64().ceil())]
    TooFast {
        /// How long to wait before the next try.
        retry_after: Duration,
    },
    /// The undo is not known.
    #[error("call `{0}` cannot be undone: {1}")]
    NoUndo(CallId, String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
