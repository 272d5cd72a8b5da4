//! Events: what happened to an approval and its calls, in order, each one linked to the one before.
//!
//! Enters: facts. Leaves: the history from which every state follows.
//! Deliberately absent: arguments, results, comments and secrets. Events hold digests; what may have to be
//! erased one day is kept apart.

mod life;
#[cfg(test)]
mod tests;

pub use life::{BrokenHistory, Life, verify};

use serde::{Deserialize, Serialize};

use crate::call::Because;
use crate::hash::{Fields, Hash};
use crate::id::{Actor, ApprovalId, CallId, Tenant};
use crate::state::{CallChange, Change};
use crate::time::Time;
use crate::undoes::Undoes;

/// One line of the history of an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place in that history, from 1, without gaps.
    pub number: u32,
    /// When, by the store's clock.
    pub at: Time,
    /// The hash of the policy in force.
    pub policy: Hash,
    /// Who.
    pub by: Actor,
    /// What.
    pub what: What,
    /// Hash over this event and the link before it: a changed, missing or moved event breaks the chain.
    pub link: Hash,
    // What was stored and linked, to the letter: a newer version may write `what` differently.
    text: String,
}

impl Event {
    /// A new event behind the one with the link `before`.
    pub(crate) fn new(before: Hash, number: u32, at: Time, policy: Hash, by: Actor, what: What) -> Event {
        // An event is strings and numbers: it always has a text.
        let text = serde_json::to_string(&what).unwrap_or_default();
        let link = link(before, number, at, policy, &by, &text);
        Event {
            number,
            at,
            policy,
            by,
            what,
            link,
            text,
        }
    }

    /// Reads a stored event.
    pub fn stored(
        number: u32,
        at: Time,
        policy: Hash,
        by: Actor,
        text: String,
        link: Hash,
    ) -> Result<Event, serde_json::Error> {
        let what = serde_json::from_str(&text)?;
        Ok(Event {
            number,
            at,
            policy,
            by,
            what,
            link,
            text,
        })
    }

    /// `what` as JSON: the text that is stored and linked.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "what",
    rename_all = "snake_case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
#[expect(
    missing_docs,
    reason = "the fields say what they are; see docs/state-machine.md"
)]
pub enum What {
    Proposed {
        calls: u8,
        expires_at: Time,
        digest: Hash,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<ApprovalId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undoes: Option<Undoes>,
    },
    Approved {
        digest: Hash,
        surface: String,
        /// Positions that may run; the others are refused. Absent: all of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calls: Option<Vec<u8>>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edited: Vec<Edited>,
    },
    /// An approval by one of several who have to approve; the last of them writes `approved`.
    Endorsed {
        digest: Hash,
        surface: String,
        /// Positions this person approved. Absent: all of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calls: Option<Vec<u8>>,
    },
    Denied {
        digest: Hash,
        surface: String,
    },
    Expired,
    Superseded {
        successor: ApprovalId,
    },
    Withdrawn {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The policy let the call pass: no person was asked. Follows `proposed` in the same transaction.
    Passed {
        digest: Hash,
    },
    DecisionRefused {
        reason: String,
        approve: bool,
        surface: String,
    },
    Started {
        call: u8,
        deadline: Time,
    },
    Succeeded {
        call: u8,
        bytes: u64,
        hash: Hash,
    },
    Failed {
        call: u8,
        bytes: u64,
        hash: Hash,
    },
    Lost {
        call: u8,
        reason: String,
    },
    Refused {
        call: u8,
        because: Because,
        /// The approval that asks again, about what is there now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        successor: Option<ApprovalId>,
    },
    Reconciled {
        call: u8,
        succeeded: bool,
    },
    /// An undo of the call has started; no other can, until this one is known to have failed.
    UndoStarted {
        call: u8,
        undo: CallId,
    },
    UndoFailed {
        call: u8,
        undo: CallId,
    },
    Undone {
        call: u8,
        undo: CallId,
    },
    /// Arguments, results, summaries, claims and comments are gone; everything else stays.
    Erased,
}

/// A call whose arguments the approving person changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edited {
    /// Its position.
    pub call: u8,
    /// Its digest as proposed, which the approval's digest is over.
    pub was: Hash,
    /// The digest of its new revision.
    pub digest: Hash,
}

/// Which changes one event makes to the two lives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) approval: Option<Change>,
    pub(crate) calls: Vec<(u8, CallChange)>,
}

impl What {
    /// The changes this makes to an approval of `calls` calls.
    pub(crate) fn changes(&self, calls: u8) -> Changes {
        let whole = |change, call_change| Changes {
            approval: Some(change),
            calls: (1..=calls).map(|position| (position, call_change)).collect(),
        };
        let one = |call: &u8, change| Changes {
            approval: None,
            calls: vec![(*call, change)],
        };
        match self {
            // The beginning: nothing changes, everything is there.
            What::Proposed { .. } => Changes {
                approval: None,
                calls: Vec::new(),
            },
            What::Approved { calls: None, .. } => whole(Change::Approved, CallChange::Released),
            What::Approved {
                calls: Some(granted), ..
            } => {
                let change = |position| match granted.contains(&position) {
                    true => CallChange::Released,
                    false => CallChange::Refused,
                };
                Changes {
                    approval: Some(Change::Approved),
                    calls: (1..=calls).map(|position| (position, change(position))).collect(),
                }
            }
            What::Endorsed { .. } => Changes {
                approval: Some(Change::Endorsed),
                calls: Vec::new(),
            },
            What::Denied { .. } => whole(Change::Denied, CallChange::Refused),
            What::Expired => whole(Change::Expired, CallChange::Refused),
            What::Superseded { .. } => whole(Change::Superseded, CallChange::Refused),
            What::Withdrawn { .. } => whole(Change::Withdrawn, CallChange::Refused),
            What::Passed { .. } => whole(Change::Passed, CallChange::Released),
            What::DecisionRefused { .. } => Changes {
                approval: Some(Change::DecisionRefused),
                calls: Vec::new(),
            },
            What::Started { call, .. } => one(call, CallChange::Started),
            What::Succeeded { call, .. } => one(call, CallChange::Succeeded),
            What::Failed { call, .. } => one(call, CallChange::Failed),
            What::Lost { call, .. } => one(call, CallChange::Lost),
            What::Refused { call, .. } => one(call, CallChange::Refused),
            What::Reconciled {
                call,
                succeeded: true,
            } => one(call, CallChange::ReconciledSucceeded),
            What::Reconciled {
                call,
                succeeded: false,
            } => one(call, CallChange::ReconciledFailed),
            What::UndoStarted { call, .. } => one(call, CallChange::UndoStarted),
            What::UndoFailed { call, .. } => one(call, CallChange::UndoFailed),
            What::Undone { call, .. } => one(call, CallChange::Undone),
            What::Erased => Changes {
                approval: Some(Change::Erased),
                calls: Vec::new(),
            },
        }
    }

    /// The word for it, as in the JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            What::Proposed { .. } => "proposed",
            What::Approved { .. } => "approved",
            What::Endorsed { .. } => "endorsed",
            What::Denied { .. } => "denied",
            What::Expired => "expired",
            What::Superseded { .. } => "superseded",
            What::Withdrawn { .. } => "withdrawn",
            What::Passed { .. } => "passed",
            What::DecisionRefused { .. } => "decision_refused",
            What::Started { .. } => "started",
            What::Succeeded { .. } => "succeeded",
            What::Failed { .. } => "failed",
            What::Lost { .. } => "lost",
            What::Refused { .. } => "refused",
            What::Reconciled { .. } => "reconciled",
            What::UndoStarted { .. } => "undo_started",
            What::UndoFailed { .. } => "undo_failed",
            What::Undone { .. } => "undone",
            What::Erased => "erased",
        }
    }
}

/// Where the chain of an approval begins.
pub fn first_link(tenant: &Tenant, id: ApprovalId) -> Hash {
    Fields::new("countersign/chain/1")
        .field(tenant.as_str().as_bytes())
        .field(id.as_bytes())
        .finish()
}

/// The link of an event, from the one before and the event as stored.
fn link(before: Hash, number: u32, at: Time, policy: Hash, by: &Actor, text: &str) -> Hash {
    Fields::new("countersign/event/1")
        .field(&before.0)
        .number(number.into())
        .number(at.as_micros() as u64)
        .field(&policy.0)
        .field(by.to_string().as_bytes())
        .field(text.as_bytes())
        .finish()
}
