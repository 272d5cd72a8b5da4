//! Outcome of an approval in a few words; for a batch, how many calls were approved and what went wrong.
//!
//! Input: the states of an approval and its calls. Output: words used by the list, the card and the pages.

use countersign::approval::Approval;
use countersign::call::RefusalReason;
use countersign::state::{CallState, State};
use countersign::time::Time;

use super::ApprovalView;
use super::make::{call_state, state};

/// Outcome of an approval and its calls, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The decision: `approved`, or `2 of 3 approved`.
    pub decided: String,
    /// Outcomes of the calls that did not succeed, in words such as `1 failed` or `1 not run`. Empty for a single call.
    pub rest: Vec<String>,
    /// True for an approved batch of which some calls were denied, failed, have an unknown outcome or did not run.
    pub is_mixed: bool,
    /// True if every approved call succeeded.
    pub all_succeeded: bool,
}

/// State of one call, and whether the approver denied it.
#[derive(Clone, Copy)]
struct Ended {
    state: CallState,
    is_denied: bool,
}

impl Outcome {
    /// Returns the outcome as of `now`. An expiry counts even if no sweep has recorded it yet.
    pub fn of(approval: &Approval, now: Time) -> Outcome {
        let calls = approval.calls.iter().map(|call| Ended {
            state: call_state(call, now),
            is_denied: call.because == Some(RefusalReason::Denied),
        });
        outcome(state(approval, now), &calls.collect::<Vec<_>>())
    }

    /// Returns the outcome of an approval given as JSON.
    pub fn of_view(approval: &ApprovalView) -> Outcome {
        let calls = approval.calls.iter().map(|call| Ended {
            state: call.state,
            is_denied: call.because.as_deref() == Some(RefusalReason::Denied.as_str()),
        });
        outcome(approval.status, &calls.collect::<Vec<_>>())
    }

    /// Returns the complete text, such as `2 of 3 approved, 1 failed`.
    pub fn label(&self) -> String {
        let parts: Vec<&str> = [self.decided.as_str()]
            .into_iter()
            .chain(self.rest.iter().map(String::as_str))
            .collect();
        parts.join(", ")
    }
}

fn outcome(state: State, calls: &[Ended]) -> Outcome {
    let all = calls.len();
    let denied = calls.iter().filter(|call| call.is_denied).count();
    let granted: Vec<CallState> = calls
        .iter()
        .filter(|call| !call.is_denied)
        .map(|call| call.state)
        .collect();
    let all_succeeded = !granted.is_empty() && granted.iter().all(|state| *state == CallState::Succeeded);
    if state != State::Approved || all < 2 {
        return Outcome {
            decided: state.as_str().to_owned(),
            rest: Vec::new(),
            is_mixed: false,
            all_succeeded,
        };
    }
    let count = |wanted: CallState| granted.iter().filter(|state| **state == wanted).count();
    // States that need attention come first. Calls that succeeded are not mentioned.
    let words = [
        (CallState::Failed, "failed"),
        (CallState::Unknown, "unknown"),
        (CallState::Refused, "not run"),
        (CallState::Undone, "undone"),
        (CallState::Running, "running"),
        (CallState::Released, "not started yet"),
    ];
    let rest = words.into_iter().map(|(state, word)| (count(state), word));
    let is_bad = [CallState::Failed, CallState::Unknown, CallState::Refused];
    Outcome {
        decided: match denied {
            0 => format!("{all} approved"),
            denied => format!("{} of {all} approved", all - denied),
        },
        rest: rest
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect(),
        is_mixed: denied > 0 || is_bad.into_iter().any(|state| count(state) > 0),
        all_succeeded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(state: State, calls: &[(CallState, bool)], label: &str, is_mixed: bool) {
        let calls = calls.iter().map(|(state, is_denied)| Ended {
            state: *state,
            is_denied: *is_denied,
        });
        let outcome = outcome(state, &calls.collect::<Vec<_>>());
        assert_eq!(outcome.label(), label);
        assert_eq!(outcome.is_mixed, is_mixed, "{label}");
    }

    #[test]
    fn a_batch_says_how_many_were_approved_and_what_went_wrong() {
        use CallState::{Failed, Refused, Released, Running, Succeeded, Undone, Unknown};
        let (granted, denied) = (false, true);
        let ok = (Succeeded, granted);
        let no = (Refused, denied);
        check(
            State::Approved,
            &[ok, (Failed, granted), no],
            "2 of 3 approved, 1 failed",
            true,
        );
        check(State::Approved, &[ok, no], "1 of 2 approved", true);
        check(State::Approved, &[ok, ok], "2 approved", false);
        check(
            State::Approved,
            &[ok, (Unknown, granted), (Refused, granted), (Refused, granted)],
            "4 approved, 1 unknown, 2 not run",
            true,
        );
        check(
            State::Approved,
            &[(Running, granted), (Released, granted), (Undone, granted)],
            "3 approved, 1 undone, 1 running, 1 not started yet",
            false,
        );
        // For a single call, the call's own state is shown next to it.
        check(State::Approved, &[(Failed, granted)], "approved", false);
        check(State::Denied, &[no, no], "denied", false);
        check(
            State::Expired,
            &[(Refused, granted), (Refused, granted)],
            "expired",
            false,
        );
    }
}
