//! Why a tool's answer is missing, so that a loop can tell a no from a failure.

use countersign::gate::SubmitError;
use countersign::id::{ApprovalId, Person};
use countersign::store::StoreError;

use super::REQUEST_APPROVAL;

/// Why a tool's answer is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nobody approved it. It did not run.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The policy forbids it. Nobody was asked, and it did not run.
    #[error("`{tool}` is forbidden: {reason}")]
    Forbidden {
        /// The tool.
        tool: String,
        /// Why.
        reason: String,
    },
    /// It ran, and said that it failed.
    #[error("`{tool}` failed: {reason}")]
    Failed {
        /// The tool.
        tool: String,
        /// What it said.
        reason: String,
    },
    /// It was started, and nobody knows how it ended. Do not call it again before somebody found out.
    #[error("nobody knows how `{tool}` ended: {reason}")]
    Unknown {
        /// The tool.
        tool: String,
        /// What is known.
        reason: String,
    },
    /// The gate did not take it. It did not run.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The request for approval cannot be read. Nobody was asked.
    #[error("`{REQUEST_APPROVAL}` cannot be read: {0}")]
    BadRequest(String),
}

/// A call that nobody approved: it did not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{tool}` {how}{}{}", by_whom(.by), with_comment(.comment))]
pub struct Rejected {
    /// The tool.
    pub tool: String,
    /// How it came to that.
    pub how: How,
    /// What the person added.
    pub comment: Option<String>,
    /// Who decided, if somebody did.
    pub by: Option<Person>,
    /// Where it can be looked up.
    pub approval: ApprovalId,
}

/// How a call came not to be approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A person said no.
    Denied,
    /// Nobody decided before it expired.
    Expired,
    /// Whoever called did not wait longer, and it was taken back.
    TimedOut,
    /// A newer proposal took its place.
    Superseded,
    /// It was taken back.
    Withdrawn,
    /// It was approved, and not run: too late, or behind a call that failed.
    NotRun,
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            How::Denied => "was denied",
            How::Expired => "expired before anybody decided",
            How::TimedOut => "was not decided in time",
            How::Superseded => "was replaced by a newer proposal",
            How::Withdrawn => "was taken back",
            How::NotRun => "was approved and not run",
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
