//! The sweep: writes down what time has already made true.

use super::finish::lose;
use super::start::refuse_stale;
use super::{Change, Rows};
use crate::event::What;
use crate::hash::Hash;
use crate::id::Actor;
use crate::state::{CallState, State};
use crate::store::StoreError;
use crate::time::Time;

/// Ends what is due, up to `limit` approvals, and removes as many entries whose time is over.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The most approvals, and the most entries, to touch in this transaction.
    pub limit: usize,
    /// The policy in force.
    pub policy: Hash,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Approvals that expired.
    pub expired: usize,
    /// Approvals with calls that were released and not started in time.
    pub stale: usize,
    /// Calls that were started and never said how they ended.
    pub unknown: usize,
    /// Entries of the registry that were removed.
    pub entries: usize,
    /// True when there may be more.
    pub more: bool,
}

impl Sweep {
    pub(super) fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Swept, StoreError> {
        let due = rows.due(now, self.limit)?;
        let mut swept = Swept {
            more: due.len() >= self.limit,
            ..Swept::default()
        };
        for approval in due {
            let mut change = Change::new(approval, now, self.policy);
            if change.approval.state == State::Pending && change.at >= change.approval.expires_at {
                change.record(Actor::Gate, What::Expired)?;
                swept.expired += 1;
            }
            for position in overdue(&change) {
                lose(&mut change, position, "no answer in time", None)?;
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
