//! Void: ends everything that is open after a backup was restored.
//!
//! Approvals that were open in the backup may have been decided and run since, so none may continue: pending approvals
//! are withdrawn, released calls refused, running calls become unknown, and no permit, token, session, link or chat
//! sender from that time works any more. People's accounts stay, but they have to sign in and link their chats again.
//!
//! Also used after a clock that was ahead is set back. Approvals that were changed while the clock was wrong would
//! otherwise stay open until the clock reaches that time again. Credentials are kept in that case.

use super::finish::mark_unknown;
use super::start::refuse_released;
use super::{Change, Rows};
use crate::approval::Approval;
use crate::call::RefusalReason;
use crate::event::EventKind;
use crate::hash::Hash;
use crate::id::Actor;
use crate::registry::Kind;
use crate::state::{CallState, State};
use crate::store::StoreError;
use crate::time::Time;

const REASON: &str = "the store was restored from a backup";
const REASON_CLOCK: &str = "the store's clock was reset";

/// Credentials from the time of the backup, which are revoked.
const CREDENTIALS: [Kind; 4] = [Kind::Token, Kind::Session, Kind::Link, Kind::Sender];

/// Ends up to `limit` open approvals, whose decision, start or outcome is still missing. Also revokes credentials.
#[derive(Clone, Debug)]
pub struct Void {
    /// Maximum number of approvals in this transaction.
    pub limit: usize,
    /// Hash of the policy in force, recorded in the events.
    pub policy: Hash,
    /// If set, voids only approvals that were changed after this time, and revokes no credentials.
    pub changed_after: Option<Time>,
}

/// Counts of voided approvals and calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Voided {
    /// Pending approvals withdrawn.
    pub pending: usize,
    /// Released calls refused.
    pub released: usize,
    /// Running calls that became unknown.
    pub running: usize,
    /// True if the limit was reached, so that more approvals may be open and another `Void` has to follow.
    pub more: bool,
}

impl Void {
    pub(super) fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Voided, StoreError> {
        let reason = match self.changed_after {
            None => REASON,
            Some(_) => REASON_CLOCK,
        };
        if self.changed_after.is_none() {
            for kind in CREDENTIALS {
                rows.remove_kind(kind)?;
            }
        }
        // Every open approval is due at some time.
        let open = rows.due(Time::from_micros(i64::MAX), self.limit)?;
        let mut voided = Voided {
            more: open.len() + rows.skipped() >= self.limit && !open.is_empty(),
            ..Voided::default()
        };
        let is_meant =
            |approval: &Approval| self.changed_after.is_none_or(|after| approval.changed_at > after);
        for approval in open.into_iter().filter(is_meant) {
            let mut change = Change::new(approval, now, self.policy);
            if change.approval.state == State::Pending {
                let reason = Some(reason.to_owned());
                change.record(Actor::Gate, EventKind::Withdrawn { reason })?;
                voided.pending += 1;
            }
            voided.released += in_state(&change, CallState::Released).len();
            refuse_released(&mut change, RefusalReason::Voided)?;
            for position in in_state(&change, CallState::Running) {
                mark_unknown(&mut change, position, reason, None)?;
                if let Some(call) = change.approval.call_mut(position)
                    && let Some(execution) = &mut call.execution
                {
                    // No token has this hash, so the permit can no longer report an outcome.
                    execution.permit = Hash([0; 32]);
                }
                voided.running += 1;
            }
            change.save(rows)?;
        }
        Ok(voided)
    }
}

fn in_state(change: &Change, state: CallState) -> Vec<u8> {
    let calls = change.approval.numbered();
    let calls = calls.filter(|(_, call)| call.state == state);
    calls.map(|(position, _)| position).collect()
}
