//! Events: the history of an approval and its calls, in order, linked by hashes.
//!
//! All states of an approval and its calls derive from this history. Events hold digests, but no arguments, results,
//! comments or secrets: anything that may have to be erased one day is stored elsewhere.

mod replay;
#[cfg(test)]
mod tests;

pub use replay::{BrokenHistory, Replay, verify, verify_rows};

use serde::{Deserialize, Serialize};

use crate::call::RefusalReason;
use crate::hash::{Fields, Hash};
use crate::id::{Actor, ApprovalId, CallId, Tenant};
use crate::state::{CallChange, Change};
use crate::time::Time;
use crate::undoes::Undoes;

/// One entry of an approval's history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Number within the history, from 1, without gaps.
    pub number: u32,
    /// Time of the event by the store's clock.
    pub at: Time,
    /// Hash of the policy in force when the event was written.
    pub policy: Hash,
    /// The person, agent or gate that caused the event.
    pub by: Actor,
    /// Kind and details of the event.
    pub what: EventKind,
    /// Hash of this event and the previous link: a changed, missing or moved event breaks the chain.
    pub link: Hash,
    /// Hash of the approval's rows as this event left them. Only the last event of a transaction has one. Absent in
    /// events written before version 0.2.0.
    pub content: Option<ContentHash>,
    // `what` exactly as stored and hashed: a newer version may serialize it differently.
    text: String,
}

impl Event {
    /// Creates the event that comes after the one with the link `before`.
    pub(crate) fn new(
        before: Hash,
        number: u32,
        at: Time,
        policy: Hash,
        by: Actor,
        what: EventKind,
    ) -> Event {
        // Cannot fail: an event consists of strings and numbers.
        let text = serde_json::to_string(&what).unwrap_or_default();
        let link = link(before, number, at, policy, &by, &text, None);
        Event {
            number,
            at,
            policy,
            by,
            what,
            link,
            content: None,
            text,
        }
    }

    /// Adds the hash of the resulting rows to the event, and computes its link again. `before` is the link of the
    /// previous event.
    pub(crate) fn bind(&mut self, before: Hash, content: ContentHash) {
        self.content = Some(content);
        self.link = link(
            before,
            self.number,
            self.at,
            self.policy,
            &self.by,
            &self.text,
            self.content,
        );
    }

    /// Restores a stored event. Does not check its link.
    pub fn stored(
        number: u32,
        at: Time,
        policy: Hash,
        by: Actor,
        text: String,
        link: Hash,
        content: Option<ContentHash>,
    ) -> Result<Event, serde_json::Error> {
        let what = serde_json::from_str(&text)?;
        Ok(Event {
            number,
            at,
            policy,
            by,
            what,
            link,
            content,
            text,
        })
    }

    /// Returns `what` as JSON, exactly as stored and hashed.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The first half of the SHA-256 hash of an approval's rows; see `Bodies::content` in `store/record.rs`.
///
/// The rows contain the approval's random salt, so the hash cannot confirm a guess once the salt is erased. Half of the
/// hash is enough against second preimages, and saves a third of the bytes per event.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash(pub [u8; 16]);

impl std::fmt::Display for ContentHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Kind of an event, with its details. Exhaustive, because the model checker, the pages and the command line have to
/// consider every kind.
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
pub enum EventKind {
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
        /// Positions of the calls that may run; the others are refused. If absent, all calls may run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calls: Option<Vec<u8>>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edited: Vec<Edited>,
    },
    /// Approval by one of several required people. The last required approval is recorded as `approved` instead.
    Endorsed {
        digest: Hash,
        surface: String,
        /// Positions of the calls that this person approved. If absent, all of them.
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
    /// The policy passed the call without asking anybody. Follows `proposed` in the same transaction.
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
        /// Length of the result. Only in events of earlier versions: the length outlives an erasure and could confirm a
        /// guess.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        hash: Hash,
    },
    Failed {
        call: u8,
        /// Length of the result. Only in events of earlier versions: the length outlives an erasure and could confirm a
        /// guess.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        hash: Hash,
    },
    /// The outcome did not arrive, and the call may have run. `hash` is that of the executor's message; absent in
    /// events written before version 0.2.0.
    Lost {
        call: u8,
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hash: Option<Hash>,
    },
    Refused {
        call: u8,
        because: RefusalReason,
        /// The new approval that asks about the call again with the current content, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        successor: Option<ApprovalId>,
    },
    /// The outcome of an unknown call became known: a person found it, or the executor answered late. `hash` is that of
    /// the person's note or the executor's result; absent in events written before version 0.2.0.
    Reconciled {
        call: u8,
        succeeded: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hash: Option<Hash>,
    },
    /// The executor's result arrived after a person had reconciled the call; the person's outcome stays in force.
    LateResult {
        call: u8,
        succeeded: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hash: Option<Hash>,
    },
    /// An undo of the call has started. No other undo of it may start unless this one fails.
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
    /// Arguments, results, summaries, claims and comments were erased; everything else stays.
    Erased,
}

/// A call whose arguments the approving person changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Edited {
    /// Position of the call in its approval, from 1.
    pub call: u8,
    /// Digest of the call as proposed, which the approval's digest covers.
    pub was: Hash,
    /// Digest of the new revision.
    pub digest: Hash,
}

/// State changes that an event makes to the approval and its calls.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) approval: Option<Change>,
    pub(crate) calls: Vec<(u8, CallChange)>,
}

impl EventKind {
    /// Returns the state changes that this event makes to an approval of `calls` calls.
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
            // The initial states; nothing changes.
            EventKind::Proposed { .. } => Changes {
                approval: None,
                calls: Vec::new(),
            },
            EventKind::Approved { calls: None, .. } => whole(Change::Approved, CallChange::Released),
            EventKind::Approved {
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
            EventKind::Endorsed { .. } => Changes {
                approval: Some(Change::Endorsed),
                calls: Vec::new(),
            },
            EventKind::Denied { .. } => whole(Change::Denied, CallChange::Refused),
            EventKind::Expired => whole(Change::Expired, CallChange::Refused),
            EventKind::Superseded { .. } => whole(Change::Superseded, CallChange::Refused),
            EventKind::Withdrawn { .. } => whole(Change::Withdrawn, CallChange::Refused),
            EventKind::Passed { .. } => whole(Change::Passed, CallChange::Released),
            EventKind::DecisionRefused { .. } => Changes {
                approval: Some(Change::DecisionRefused),
                calls: Vec::new(),
            },
            EventKind::Started { call, .. } => one(call, CallChange::Started),
            EventKind::Succeeded { call, .. } => one(call, CallChange::Succeeded),
            EventKind::Failed { call, .. } => one(call, CallChange::Failed),
            EventKind::Lost { call, .. } => one(call, CallChange::Lost),
            EventKind::Refused { call, .. } => one(call, CallChange::Refused),
            EventKind::Reconciled {
                call,
                succeeded: true,
                ..
            } => one(call, CallChange::ReconciledSucceeded),
            EventKind::Reconciled {
                call,
                succeeded: false,
                ..
            } => one(call, CallChange::ReconciledFailed),
            EventKind::LateResult { call, .. } => one(call, CallChange::LateResult),
            EventKind::UndoStarted { call, .. } => one(call, CallChange::UndoStarted),
            EventKind::UndoFailed { call, .. } => one(call, CallChange::UndoFailed),
            EventKind::Undone { call, .. } => one(call, CallChange::Undone),
            EventKind::Erased => Changes {
                approval: Some(Change::Erased),
                calls: Vec::new(),
            },
        }
    }

    /// Returns true if calls of the approval may run after this event: it was approved, or an earlier call is over.
    /// Normally the process that ran the earlier call continues, but that process may have ended, or a sweep may have
    /// given the call up.
    pub fn lets_calls_run(&self) -> bool {
        matches!(
            self,
            EventKind::Approved { .. }
                | EventKind::Succeeded { .. }
                | EventKind::Failed { .. }
                | EventKind::Lost { .. }
                | EventKind::Refused { .. }
        )
    }

    /// Returns the position of the call that this event is about; `None` if it is about the whole approval.
    pub fn call(&self) -> Option<u8> {
        match self {
            EventKind::Started { call, .. }
            | EventKind::Succeeded { call, .. }
            | EventKind::Failed { call, .. }
            | EventKind::Lost { call, .. }
            | EventKind::Refused { call, .. }
            | EventKind::Reconciled { call, .. }
            | EventKind::LateResult { call, .. }
            | EventKind::UndoStarted { call, .. }
            | EventKind::UndoFailed { call, .. }
            | EventKind::Undone { call, .. } => Some(*call),
            EventKind::Proposed { .. }
            | EventKind::Approved { .. }
            | EventKind::Endorsed { .. }
            | EventKind::Denied { .. }
            | EventKind::Expired
            | EventKind::Superseded { .. }
            | EventKind::Withdrawn { .. }
            | EventKind::Passed { .. }
            | EventKind::DecisionRefused { .. }
            | EventKind::Erased => None,
        }
    }

    /// Returns the name of the kind, as used in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            EventKind::Proposed { .. } => "proposed",
            EventKind::Approved { .. } => "approved",
            EventKind::Endorsed { .. } => "endorsed",
            EventKind::Denied { .. } => "denied",
            EventKind::Expired => "expired",
            EventKind::Superseded { .. } => "superseded",
            EventKind::Withdrawn { .. } => "withdrawn",
            EventKind::Passed { .. } => "passed",
            EventKind::DecisionRefused { .. } => "decision_refused",
            EventKind::Started { .. } => "started",
            EventKind::Succeeded { .. } => "succeeded",
            EventKind::Failed { .. } => "failed",
            EventKind::Lost { .. } => "lost",
            EventKind::Refused { .. } => "refused",
            EventKind::Reconciled { .. } => "reconciled",
            EventKind::LateResult { .. } => "late_result",
            EventKind::UndoStarted { .. } => "undo_started",
            EventKind::UndoFailed { .. } => "undo_failed",
            EventKind::Undone { .. } => "undone",
            EventKind::Erased => "erased",
        }
    }
}

/// Returns the link that precedes the first event of an approval.
pub fn first_link(tenant: &Tenant, id: ApprovalId) -> Hash {
    Fields::new("countersign/chain/1")
        .field(tenant.as_str().as_bytes())
        .field(id.as_bytes())
        .finish()
}

/// Computes the link of an event from the previous link and the stored event. Events without a content hash keep the
/// format of version 1.
fn link(
    before: Hash,
    number: u32,
    at: Time,
    policy: Hash,
    by: &Actor,
    text: &str,
    content: Option<ContentHash>,
) -> Hash {
    let tag = match content {
        None => "countersign/event/1",
        Some(_) => "countersign/event/2",
    };
    let fields = Fields::new(tag)
        .field(&before.0)
        .number(number.into())
        .number(at.as_micros() as u64)
        .field(&policy.0)
        .field(by.to_string().as_bytes())
        .field(text.as_bytes());
    match content {
        None => fields.finish(),
        Some(content) => fields.field(&content.0).finish(),
    }
}
