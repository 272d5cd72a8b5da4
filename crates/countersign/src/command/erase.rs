//! Erase: takes the content out of an approval that is over, and leaves what happened.
//!
//! Gone are arguments, results, the summary made of them, the agent's claim and people's comments. The row, who decided
//! and when, all digests and the whole history stay, and still verify; an event says that this was done.
//!
//! INVARIANT: nothing that is left confirms a guess (X83). The salt goes, which all digests and the hashes of results in
//! events are made with; hashes made without it go themselves: of a snapshot, of what an idempotency key stood for, and
//! the entries that a denial left.

use std::sync::Arc;

use super::denial::keys_left_by;
use super::{Change, Rows};
use crate::approval::Approval;
use crate::call::Arguments;
use crate::event::What;
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, Key, Tenant};
use crate::policy::Terms;
use crate::registry::Kind;
use crate::store::StoreError;
use crate::time::Time;

/// What stands where a summary was.
pub const ERASED: &str = "erased";

/// Erases the content of one approval.
#[derive(Clone, Debug)]
pub struct Erase {
    /// Whose approval.
    pub tenant: Tenant,
    /// Which approval.
    pub approval: ApprovalId,
    /// Only if nothing happened to it since then.
    pub before: Time,
    /// Who wants it.
    pub by: Actor,
    /// The policy in force.
    pub policy: Hash,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erasure {
    /// The content is gone.
    Done,
    /// It was gone already.
    Already,
    /// It is not over, or not old enough.
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
        if !approval.is_finished() || approval.changed_at >= self.before {
            return Ok(Erasure::NotYet);
        }
        for key in keys_left_by(&approval) {
            rows.remove_entry(Kind::Denial, &key)?;
        }
        let mut change = Change::new(approval, now, self.policy);
        erase(&mut change.approval, change.at);
        change.record(self.by.clone(), What::Erased)?;
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

/// An idempotency key stays taken; what it stood for is gone. Nothing hashes to zeros, so the key answers nobody again.
fn forget(key: &mut Option<(Key, Hash)>) {
    if let Some((_, body)) = key {
        *body = Hash([0; 32]);
    }
}
