//! How a call ended, as one word for programs.

use countersign::call::RefusalReason;
use countersign::state::CallState;
use serde::{Deserialize, Serialize};

/// How a call ended, or why it will not run. A call that is held, released or running has no end yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// A person denied the call.
    Denied,
    /// The approval expired without a decision.
    Expired,
    /// A newer approval in the same channel replaced the call's approval.
    Superseded,
    /// The approval was withdrawn.
    Withdrawn,
    /// The policy forbids the call, or its arguments are not acceptable.
    Forbidden,
    /// The call was approved, but not started in time.
    Stale,
    /// An earlier call of the same approval did not succeed.
    EarlierFailed,
    /// What the call would change is no longer as it was shown.
    Changed,
    /// What the call would change could not be read again before the start.
    Unreadable,
    /// The call to be undone was undone already.
    NothingToUndo,
    /// The call was ended because the store was restored from a backup.
    Voided,
    /// The call ran and succeeded.
    Succeeded,
    /// The call failed.
    Failed,
    /// The call was started but not sent to its tool, so nothing ran.
    NotSent,
    /// The call may have run; nobody knows how it ended.
    Unknown,
    /// The call succeeded, and was undone later.
    Undone,
}

impl CallEnd {
    /// All ends.
    pub const ALL: [CallEnd; 16] = [
        CallEnd::Denied,
        CallEnd::Expired,
        CallEnd::Superseded,
        CallEnd::Withdrawn,
        CallEnd::Forbidden,
        CallEnd::Stale,
        CallEnd::EarlierFailed,
        CallEnd::Changed,
        CallEnd::Unreadable,
        CallEnd::NothingToUndo,
        CallEnd::Voided,
        CallEnd::Succeeded,
        CallEnd::Failed,
        CallEnd::NotSent,
        CallEnd::Unknown,
        CallEnd::Undone,
    ];

    /// Returns the end of a call in this state, which was refused or not sent for this reason; `None` if it has none yet.
    pub fn of(state: CallState, because: Option<&RefusalReason>) -> Option<CallEnd> {
        match state {
            CallState::Held | CallState::Released | CallState::Running => None,
            CallState::Succeeded => Some(CallEnd::Succeeded),
            CallState::Failed if because == Some(&RefusalReason::NotSent) => Some(CallEnd::NotSent),
            CallState::Failed => Some(CallEnd::Failed),
            CallState::Unknown => Some(CallEnd::Unknown),
            CallState::Undone => Some(CallEnd::Undone),
            CallState::Refused => Some(match because {
                Some(RefusalReason::Denied) => CallEnd::Denied,
                Some(RefusalReason::Expired) => CallEnd::Expired,
                Some(RefusalReason::Superseded) => CallEnd::Superseded,
                Some(RefusalReason::Withdrawn) => CallEnd::Withdrawn,
                Some(RefusalReason::Stale) => CallEnd::Stale,
                Some(RefusalReason::EarlierFailed) => CallEnd::EarlierFailed,
                Some(RefusalReason::Changed) => CallEnd::Changed,
                Some(RefusalReason::Unreadable) => CallEnd::Unreadable,
                Some(RefusalReason::NothingToUndo) => CallEnd::NothingToUndo,
                Some(RefusalReason::NotSent) => CallEnd::NotSent,
                Some(_) | None => CallEnd::Voided,
            }),
        }
    }

    /// Returns the word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            CallEnd::Denied => "denied",
            CallEnd::Expired => "expired",
            CallEnd::Superseded => "superseded",
            CallEnd::Withdrawn => "withdrawn",
            CallEnd::Forbidden => "forbidden",
            CallEnd::Stale => "stale",
            CallEnd::EarlierFailed => "earlier_failed",
            CallEnd::Changed => "changed",
            CallEnd::Unreadable => "unreadable",
            CallEnd::NothingToUndo => "nothing_to_undo",
            CallEnd::Voided => "voided",
            CallEnd::Succeeded => "succeeded",
            CallEnd::Failed => "failed",
            CallEnd::NotSent => "not_sent",
            CallEnd::Unknown => "unknown",
            CallEnd::Undone => "undone",
        }
    }
}
