//! Void: ends everything that was open when a backup was made, once it is restored.
//!
//! Between the backup and now, what was open then may have been decided and run. So nothing of it may go on: what was
//! pending is withdrawn, what was released is refused, what ran is unknown, and no permit, token, session or link of
//! that time works any more. People stay, and sign in anew.

use super::finish::lose;
use super::start::refuse_released;
use super::{Change, Rows};
use crate::call::Because;
use crate::event::What;
use crate::hash::Hash;
use crate::id::Actor;
use crate::registry::Kind;
use crate::state::{CallState, State};
use crate::store::StoreError;
use crate::time::Time;

const REASON: &str = "the store was restored from a backup";

/// What somebody holds who could go on where the backup was made.
const CREDENTIALS: [Kind; 3] = [Kind::Token, Kind::Session, Kind::Link];

/// Voids up to `limit` approvals.
#[derive(Clone, Debug)]
pub struct Void {
    /// The most approvals to touch in this transaction.
    pub limit: usize,
    /// The policy in force.
    pub policy: Hash,
}

/// What was voided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Voided {
    /// Approvals that waited for a decision.
    pub pending: usize,
    /// Calls that were approved and not started.
    pub released: usize,
    /// Calls that had been started.
    pub running: usize,
    /// True when there may be more.
    pub more: bool,
}

impl Void {
    pub(super) fn apply<R: Rows>(&self, rows: &mut R, now: Time) -> Result<Voided, StoreError> {
        for kind in CREDENTIALS {
            rows.remove_kind(kind)?;
        }
        // Whatever is open is due at some time.
        let open = rows.due(Time::from_micros(i64::MAX), self.limit)?;
        let mut voided = Voided {
            more: open.len() >= self.limit,
            ..Voided::default()
        };
        for approval in open {
            let mut change = Change::new(approval, now, self.policy);
            if change.approval.state == State::Pending {
                let reason = Some(REASON.to_owned());
                change.record(Actor::Gate, What::Withdrawn { reason })?;
                voided.pending += 1;
            }
            voided.released += in_state(&change, CallState::Released).len();
            refuse_released(&mut change, Because::Voided)?;
            for position in in_state(&change, CallState::Running) {
                lose(&mut change, position, REASON, None)?;
                if let Some(call) = change.approval.call_mut(position)
                    && let Some(execution) = &mut call.execution
                {
                    // The hash of no token: whoever holds the permit cannot say how the call ended.
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
