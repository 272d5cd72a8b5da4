//! Errors of gated calls. They distinguish a denial from a failure.

use countersign::gate::SubmitError;
use countersign::id::{ApprovalId, Person};
use countersign::store::StoreError;

use super::REQUEST_APPROVAL;

/// Reason why a gated call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The call was not approved and did not run.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The policy forbids the call. Nobody was asked, and the call did not run.
    #[error("`{tool}` is forbidden: {reason}")]
    Forbidden {
        /// Name of the tool.
        tool: String,
        /// Reason given by the policy.
        reason: String,
    },
    /// The call ran and failed.
    #[error("`{tool}` failed: {reason}")]
    Failed {
        /// Name of the tool.
        tool: String,
        /// Error reported by the tool.
        reason: String,
    },
    /// The call was not sent to the tool, so nothing ran.
    #[error("`{tool}` was not sent, so nothing ran: {reason}")]
    NotSent {
        /// Name of the tool.
        tool: String,
        /// Reason why the call was not sent.
        reason: String,
    },
    /// The call was started and its outcome is unknown. Do not repeat the call before the outcome is reconciled.
    #[error("the outcome of `{tool}` is unknown: {reason}")]
    Unknown {
        /// Name of the tool.
        tool: String,
        /// Details about the run, as far as known.
        reason: String,
    },
    /// The gate did not accept the submission, so the call did not run.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The arguments of `requestApproval` are invalid, for the given reason. Nobody was asked.
    #[error("the arguments of `{REQUEST_APPROVAL}` are not valid: {0}")]
    BadRequest(String),
}

/// A call that was not approved and did not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{tool}` {reason}{}{}", by_whom(.by), with_comment(.comment))]
pub struct Rejected {
    /// Name of the tool.
    pub tool: String,
    /// How the approval ended.
    pub reason: RejectionReason,
    /// Comment of the person who decided, if they wrote one.
    pub comment: Option<String>,
    /// Person who decided, if anybody did.
    pub by: Option<Person>,
    /// Id of the approval.
    pub approval: ApprovalId,
}

/// How a call ended without running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionReason {
    /// A person denied the call.
    Denied,
    /// The approval expired before a decision.
    Expired,
    /// The caller's wait ended before a decision, and the approval was withdrawn.
    TimedOut,
    /// A newer proposal superseded the approval.
    Superseded,
    /// The approval was withdrawn.
    Withdrawn,
    /// The call was approved but did not run: not started in time, or an earlier call of the approval failed.
    NotRun,
}

impl std::fmt::Display for RejectionReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RejectionReason::Denied => "was denied",
            RejectionReason::Expired => "expired before anybody decided",
            RejectionReason::TimedOut => "was not decided in time",
            RejectionReason::Superseded => "was replaced by a newer proposal",
            RejectionReason::Withdrawn => "was taken back",
            RejectionReason::NotRun => "was approved and not run",
        })
    }
}

fn by_whom(by: &Option<Person>) -> String {
    by.as_ref().map(|by| format!(" by `{by}`")).unwrap_or_default()
}

fn with_comment(comment: &Option<String>) -> String {
    comment
        .as_ref()
        .map(|comment| format!(": {comment}"))
        .unwrap_or_default()
}
