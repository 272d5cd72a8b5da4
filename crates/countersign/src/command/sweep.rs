//! The sweep: records expiries and timeouts that have already passed.

use super::finish::mark_unknown;
use super::start::refuse_stale;
use super::{Change, Rows};
use crate::event::EventKind;
use crate::hash::Hash;
use crate::id::Actor;
use crate::state::{CallState, State};
use crate::store::StoreError;
use crate::time::Time;

/// Ends up to `limit` due approvals and removes up to `limit` expired entries.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Maximum number of approvals, and of entries, in this transaction.
    pub limit: usize,
    /// Hash of the policy in force, recorded in the events.
    pub policy: Hash,
}

/// Numbers of approvals, calls and entries that one sweep ended or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Approvals that expired.
    pub expired: usize,
    /// Approvals with calls that were released and not started in time.
    pub stale: usize,
    /// Calls that were started and whose outcome did not arrive in time.
    pub unknown: usize,
    /// Registry entries removed.
    pub entries: usize,
    /// Approvals skipped because their rows are inconsistent.
    pub broken: usize,
    /// True if more approvals or entries may be due, so that another sweep should follow.
    pub more: bool,
}

impl Sweep {
    pub(super) fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Swept, StoreError> {
        // INVARIANT: a clock that may be wrong ends nothing permanently, because correcting the clock later would not
        // revive what was ended.
        let now = rows.certain(now);
        let due = rows.due(now, self.limit)?;
        let broken = rows.skipped();
        let mut swept = Swept {
            // Approvals that were left out stay due. Without any others, another sweep would find the same ones again.
            more: due.len() + broken >= self.limit && !due.is_empty(),
            broken,
            ..Swept::default()
        };
        for approval in due {
            let mut change = Change::new(approval, now, self.policy);
            if change.approval.state == State::Pending && change.at >= change.approval.expires_at {
                change.record(Actor::Gate, EventKind::Expired)?;
                swept.expired += 1;
            }
            for position in overdue(&change) {
                mark_unknown(&mut change, position, "no answer in time", None)?;
                swept.unknown += 1;
            }
            if refuse_stale(&mut change)? {
                swept.stale += 1;
            }
            change.save(rows)?;
        }
        for (kind, key) in rows.due_entries(now, self.limit)? {
            rows.remove_entry(kind, &key)?;
            swept.entries += 1;
        }
        swept.more |= swept.entries >= self.limit;
        Ok(swept)
    }
}

fn overdue(change: &Change) -> Vec<u8> {
    let running = change
        .approval
        .numbered()
        .filter(|(_, call)| call.state == CallState::Running);
    let late = running.filter(|(_, call)| {
        call.execution
            .as_ref()
            .is_none_or(|run| change.at >= run.deadline)
    });
    late.map(|(position, _)| position).collect()
}
