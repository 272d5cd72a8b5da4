//! Erase: removes the content of a finished approval and keeps its history.
//!
//! Removed are arguments, working folders, results, summaries, the agent's claim and people's comments. The row, the
//! deciders and times of decisions, all digests and the whole history stay and still verify. An event records the
//! erasure.
//!
//! INVARIANT: nothing left can confirm a guess at the content (X83). The salt of all digests and result hashes is
//! removed, and so are the unsalted hashes: of snapshots, of the requests behind idempotency keys, and the entries of
//! denials.

use std::sync::Arc;

use super::denial::keys_left_by;
use super::{Change, Rows};
use crate::approval::Approval;
use crate::call::Arguments;
use crate::event::EventKind;
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, Key, Tenant};
use crate::policy::Terms;
use crate::registry::Kind;
use crate::store::StoreError;
use crate::time::Time;

/// Text that replaces the summary of an erased call.
pub const ERASED: &str = "erased";

/// Erases the content of one approval.
#[derive(Clone, Debug)]
pub struct Erase {
    /// Tenant of the approval.
    pub tenant: Tenant,
    /// The approval to erase.
    pub approval: ApprovalId,
    /// Erases only if the approval has not changed since this time.
    pub before: Time,
    /// Actor recorded as the author of the erasure.
    pub by: Actor,
    /// Hash of the policy in force, recorded in the event.
    pub policy: Hash,
}

/// Result of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erasure {
    /// The content was erased.
    Done,
    /// The content had been erased before.
    Already,
    /// The approval is not finished, or not old enough.
    NotYet,
    /// There is no such approval.
    NotFound,
}

impl Erase {
    pub(super) fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Erasure, StoreError> {
        let Some(approval) = rows.approval(&self.tenant, self.approval)? else {
            return Ok(Erasure::NotFound);
        };
        if approval.erased_at.is_some() {
            return Ok(Erasure::Already);
        }
        if !approval.is_erasable(self.before) {
            return Ok(Erasure::NotYet);
        }
        for key in keys_left_by(&approval) {
            rows.remove_entry(Kind::Denial, &key)?;
        }
        let mut change = Change::new(approval, now, self.policy);
        erase(&mut change.approval, change.at);
        change.record(self.by.clone(), EventKind::Erased)?;
        change.save(rows)?;
        Ok(Erasure::Done)
    }
}

fn erase(approval: &mut Approval, at: Time) {
    approval.erased_at = Some(at);
    approval.claim = None;
    approval.salt = [0; 16];
    forget(&mut approval.key);
    if let Some(decided) = &mut approval.decision {
        (decided.comment, decided.claimed_by) = (None, None);
        forget(&mut decided.key);
    }
    for endorsed in &mut approval.endorsements {
        (endorsed.comment, endorsed.claimed_by) = (None, None);
        forget(&mut endorsed.key);
    }
    for call in &mut approval.calls {
        call.arguments = Arguments::stored(&b""[..]);
        call.original = None;
        call.result = None;
        call.provenance = None;
        call.working_folder = None;
        if let Some(before) = &mut call.before {
            Arc::make_mut(before).erase();
        }
        call.terms = Arc::new(Terms {
            summary: ERASED.to_owned(),
            notes: Vec::new(),
            ..Terms::clone(&call.terms)
        });
    }
}

/// Keeps an idempotency key in use, but clears the hash of its request. No request hashes to zeros, so a retry is not
/// answered with the old result.
fn forget(key: &mut Option<(Key, Hash)>) {
    if let Some((_, body)) = key {
        *body = Hash([0; 32]);
    }
}
