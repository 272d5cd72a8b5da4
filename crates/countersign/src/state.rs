//! State machines of approvals and calls: which event is legal in which state.
//!
//! Given a state and an event, [`State::apply`] and [`CallState::apply`] return the next state or an error. Stores and
//! pages never repeat these tables. Time and authority are checked elsewhere.

use serde::{Deserialize, Serialize};

/// State of an approval. Once an approval has left `Pending`, its state never changes again.
///
/// This enum and the three below are exhaustive: [`State::apply`] and [`CallState::apply`] are total, and a program
/// that forgets a state should not compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waiting for a decision.
    Pending,
    /// A person approved at least one call of the approval.
    Approved,
    /// A person denied the approval, or the required approvers approved no call in common.
    Denied,
    /// Expired without a decision.
    Expired,
    /// A newer approval replaced this one in the channel.
    Superseded,
    /// Withdrawn without a decision: by the agent, or by a person who went on to something else.
    Withdrawn,
    /// The policy let the call pass without asking anyone. Stored so that the history contains everything that ran.
    Passed,
}

/// Event of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words are those of the states they lead to")]
pub enum Change {
    Approved,
    Denied,
    Expired,
    Superseded,
    Withdrawn,
    Passed,
    /// One of several required approvers approved; others are still missing.
    Endorsed,
    /// The content of a finished approval was erased; the history stays.
    Erased,
    /// A decision was refused; recorded as evidence, without effect on the state.
    DecisionRefused,
}

/// State of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallState {
    /// Waiting for the decision on its approval.
    Held,
    /// Will never run: denied, expired, superseded, stale, or following a failure in its batch.
    Refused,
    /// Approved, or passed by the policy; may be started once.
    Released,
    /// Started; the outcome is not known yet.
    Running,
    /// Ran and reported success.
    Succeeded,
    /// Reported as failed. The tool may or may not have run.
    Failed,
    /// Started, but the outcome was never reported. The gate never runs the call again.
    Unknown,
    /// Succeeded, and was then undone successfully.
    Undone,
}

/// Event of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words are those of the states they lead to")]
pub enum CallChange {
    Released,
    Refused,
    Started,
    Succeeded,
    Failed,
    /// The deadline passed, or the executor was lost.
    Lost,
    /// A person, or the executor reporting late, established that an unknown call succeeded.
    ReconciledSucceeded,
    /// A person, or the executor reporting late, established that an unknown call failed.
    ReconciledFailed,
    /// The executor reported late, after a person had reconciled the call; recorded as evidence, without effect on the
    /// state.
    LateResult,
    /// The undo was started; no effect on the state yet.
    UndoStarted,
    /// The undo failed; the call stays as it was.
    UndoFailed,
    Undone,
}

/// Error for an event that is not legal in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event} is not legal when {state}")]
#[non_exhaustive]
pub struct Illegal {
    /// Name of the state.
    pub state: &'static str,
    /// Name of the event.
    pub event: &'static str,
}

impl State {
    /// All states.
    pub const ALL: [State; 7] = [
        State::Pending,
        State::Approved,
        State::Denied,
        State::Expired,
        State::Superseded,
        State::Withdrawn,
        State::Passed,
    ];

    /// Returns the state after `change`, or an error if it is not legal.
    pub fn apply(self, change: Change) -> Result<State, Illegal> {
        match (self, change) {
            (State::Pending, Change::Approved) => Ok(State::Approved),
            (State::Pending, Change::Denied) => Ok(State::Denied),
            // The event is recorded late, by the sweep or by the next access; until then, an approval past its expiry
            // is already treated as expired.
            (State::Pending, Change::Expired) => Ok(State::Expired),
            (State::Pending, Change::Superseded) => Ok(State::Superseded),
            (State::Pending, Change::Withdrawn) => Ok(State::Withdrawn),
            // Written in the transaction that creates the approval, so that it is never visible as pending.
            (State::Pending, Change::Passed) => Ok(State::Passed),
            (State::Pending, Change::Endorsed) => Ok(State::Pending),
            (State::Pending, Change::Erased) => Err(Illegal {
                state: State::Pending.as_str(),
                event: Change::Erased.as_str(),
            }),
            (state, Change::DecisionRefused | Change::Erased) => Ok(state),
            (state, change) => Err(Illegal {
                state: state.as_str(),
                event: change.as_str(),
            }),
        }
    }

    /// Returns the word used in JSON, stores and on cards.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Approved => "approved",
            State::Denied => "denied",
            State::Expired => "expired",
            State::Superseded => "superseded",
            State::Withdrawn => "withdrawn",
            State::Passed => "passed",
        }
    }

    /// Returns the number used by stores; it is never reused.
    pub fn code(self) -> i16 {
        match self {
            State::Pending => 0,
            State::Approved => 1,
            State::Denied => 2,
            State::Expired => 3,
            State::Superseded => 4,
            State::Withdrawn => 5,
            State::Passed => 6,
        }
    }

    /// Returns the state with this number; `None` if there is none.
    pub fn from_code(code: i16) -> Option<State> {
        State::ALL.into_iter().find(|state| state.code() == code)
    }
}

impl Change {
    /// All events.
    pub const ALL: [Change; 9] = [
        Change::Approved,
        Change::Denied,
        Change::Expired,
        Change::Superseded,
        Change::Withdrawn,
        Change::Passed,
        Change::Endorsed,
        Change::Erased,
        Change::DecisionRefused,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Change::Approved => "approved",
            Change::Denied => "denied",
            Change::Expired => "expired",
            Change::Superseded => "superseded",
            Change::Withdrawn => "withdrawn",
            Change::Passed => "passed",
            Change::Endorsed => "endorsed",
            Change::Erased => "erased",
            Change::DecisionRefused => "decision refused",
        }
    }
}

impl CallState {
    /// All states.
    pub const ALL: [CallState; 8] = [
        CallState::Held,
        CallState::Refused,
        CallState::Released,
        CallState::Running,
        CallState::Succeeded,
        CallState::Failed,
        CallState::Unknown,
        CallState::Undone,
    ];

    /// Returns the state after `change`, or an error if it is not legal.
    pub fn apply(self, change: CallChange) -> Result<CallState, Illegal> {
        match (self, change) {
            (CallState::Held, CallChange::Released) => Ok(CallState::Released),
            (CallState::Held | CallState::Released, CallChange::Refused) => Ok(CallState::Refused),
            // INVARIANT: the only transition to `Running`, and `Released` is entered only once: at most one start.
            (CallState::Released, CallChange::Started) => Ok(CallState::Running),
            (CallState::Running, CallChange::Succeeded) => Ok(CallState::Succeeded),
            (CallState::Running, CallChange::Failed) => Ok(CallState::Failed),
            (CallState::Running, CallChange::Lost) => Ok(CallState::Unknown),
            (CallState::Unknown, CallChange::ReconciledSucceeded) => Ok(CallState::Succeeded),
            (CallState::Unknown, CallChange::ReconciledFailed) => Ok(CallState::Failed),
            (
                state @ (CallState::Succeeded | CallState::Failed | CallState::Undone),
                CallChange::LateResult,
            ) => Ok(state),
            (CallState::Succeeded, CallChange::UndoStarted | CallChange::UndoFailed) => {
                Ok(CallState::Succeeded)
            }
            (CallState::Succeeded, CallChange::Undone) => Ok(CallState::Undone),
            (state, change) => Err(Illegal {
                state: state.as_str(),
                event: change.as_str(),
            }),
        }
    }

    /// Returns true if the call will not run any more; only reconciliation or an undo can still change its state.
    pub fn is_over(self) -> bool {
        !matches!(self, CallState::Held | CallState::Released | CallState::Running)
    }

    /// Returns the word used in JSON and on cards.
    pub fn as_str(self) -> &'static str {
        match self {
            CallState::Held => "held",
            CallState::Refused => "refused",
            CallState::Released => "released",
            CallState::Running => "running",
            CallState::Succeeded => "succeeded",
            CallState::Failed => "failed",
            CallState::Unknown => "unknown",
            CallState::Undone => "undone",
        }
    }

    /// Returns the number used by stores; it is never reused.
    pub fn code(self) -> i16 {
        match self {
            CallState::Held => 0,
            CallState::Refused => 1,
            CallState::Released => 2,
            CallState::Running => 3,
            CallState::Succeeded => 4,
            CallState::Failed => 5,
            CallState::Unknown => 6,
            CallState::Undone => 7,
        }
    }

    /// Returns the state with this number; `None` if there is none.
    pub fn from_code(code: i16) -> Option<CallState> {
        CallState::ALL.into_iter().find(|state| state.code() == code)
    }
}

impl CallChange {
    /// All events.
    pub const ALL: [CallChange; 12] = [
        CallChange::Released,
        CallChange::Refused,
        CallChange::Started,
        CallChange::Succeeded,
        CallChange::Failed,
        CallChange::Lost,
        CallChange::ReconciledSucceeded,
        CallChange::ReconciledFailed,
        CallChange::LateResult,
        CallChange::UndoStarted,
        CallChange::UndoFailed,
        CallChange::Undone,
    ];

    fn as_str(self) -> &'static str {
        match self {
            CallChange::Released => "released",
            CallChange::Refused => "refused",
            CallChange::Started => "started",
            CallChange::Succeeded => "succeeded",
            CallChange::Failed => "failed",
            CallChange::Lost => "lost",
            CallChange::ReconciledSucceeded => "reconciled as succeeded",
            CallChange::ReconciledFailed => "reconciled as failed",
            CallChange::LateResult => "late result",
            CallChange::UndoStarted => "undo started",
            CallChange::UndoFailed => "undo failed",
            CallChange::Undone => "undone",
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::fmt::Display for CallState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists every legal transition, so that a change of the rules changes the snapshot.
    fn grid<S: Copy, T: Copy, N: std::fmt::Display>(
        states: &[S],
        changes: &[T],
        name: impl Fn(S) -> String,
        change_name: impl Fn(T) -> &'static str,
        apply: impl Fn(S, T) -> Option<N>,
    ) -> String {
        let mut lines = Vec::new();
        for &state in states {
            for &change in changes {
                if let Some(next) = apply(state, change) {
                    lines.push(format!("{} + {} = {next}", name(state), change_name(change)));
                }
            }
        }
        let total = states.len() * changes.len();
        lines.push(format!("{} of {total} are legal", lines.len()));
        lines.join("\n")
    }

    #[test]
    fn i6_every_state_and_event_of_an_approval() {
        let picture = grid(
            &State::ALL,
            &Change::ALL,
            |state| state.to_string(),
            Change::as_str,
            |state, change| state.apply(change).ok(),
        );
        insta::assert_snapshot!(picture, @r"
        pending + approved = approved
        pending + denied = denied
        pending + expired = expired
        pending + superseded = superseded
        pending + withdrawn = withdrawn
        pending + passed = passed
        pending + endorsed = pending
        pending + decision refused = pending
        approved + erased = approved
        approved + decision refused = approved
        denied + erased = denied
        denied + decision refused = denied
        expired + erased = expired
        expired + decision refused = expired
        superseded + erased = superseded
        superseded + decision refused = superseded
        withdrawn + erased = withdrawn
        withdrawn + decision refused = withdrawn
        passed + erased = passed
        passed + decision refused = passed
        20 of 63 are legal
        ");
    }

    #[test]
    fn i2_every_state_and_event_of_a_call() {
        let picture = grid(
            &CallState::ALL,
            &CallChange::ALL,
            |state| state.to_string(),
            CallChange::as_str,
            |state, change| state.apply(change).ok(),
        );
        insta::assert_snapshot!(picture, @r"
        held + released = released
        held + refused = refused
        released + refused = refused
        released + started = running
        running + succeeded = succeeded
        running + failed = failed
        running + lost = unknown
        succeeded + late result = succeeded
        succeeded + undo started = succeeded
        succeeded + undo failed = succeeded
        succeeded + undone = undone
        failed + late result = failed
        unknown + reconciled as succeeded = succeeded
        unknown + reconciled as failed = failed
        undone + late result = undone
        15 of 96 are legal
        ");
    }

    #[test]
    fn codes_read_back() {
        for state in State::ALL {
            assert_eq!(State::from_code(state.code()), Some(state));
        }
        for state in CallState::ALL {
            assert_eq!(CallState::from_code(state.code()), Some(state));
        }
    }
}
