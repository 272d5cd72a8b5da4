//! Waits for an approval, and runs the calls that its decision releases.

use std::time::Duration;

use countersign::call::RefusalReason;
use countersign::gate::Until;
use countersign::id::ApprovalId;
use countersign::state::{CallState, State};
use tokio::time::Instant;

use crate::backend::Backend;
use crate::duration;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::view::{ApprovalView, CallView};

/// Options of a wait.
pub struct Waiting {
    pub id: ApprovalId,
    pub timeout: Duration,
    /// True if this process runs the released calls.
    pub runs_here: bool,
    /// True to wait until the calls have run, in this process or in another.
    pub finished: bool,
}

/// Waits, runs released calls if `runs_here` is set, and returns the approval as it is afterwards. Ctrl-C ends the
/// wait. While a call is running, a second Ctrl-C is needed.
pub async fn wait(backend: &Backend, waiting: Waiting, output: &mut Output) -> Result<ApprovalView, Failure> {
    let give_up_at = Instant::now() + waiting.timeout;
    let mut approval = until(backend, &waiting, Until::Decided, give_up_at).await?;
    if waiting.runs_here && approval.status == State::Approved {
        approval = run(backend, approval, output).await?;
    }
    if waiting.finished && !approval.is_finished() {
        approval = until(backend, &waiting, Until::Finished, give_up_at).await?;
    }
    Ok(approval)
}

/// Returns the exit code for a decided approval. A failed call of an approved approval counts as an error only if
/// `counts_calls` is true; a failed call of a passed approval always does.
pub fn exit(approval: &ApprovalView, counts_calls: bool) -> Exit {
    let not_run = [
        RefusalReason::Stale,
        RefusalReason::EarlierFailed,
        RefusalReason::Changed,
        RefusalReason::Unreadable,
        RefusalReason::NothingToUndo,
    ];
    let is_bad = |call: &CallView| match call.state {
        CallState::Failed | CallState::Unknown => true,
        CallState::Refused => call
            .because
            .as_deref()
            .is_some_and(|because| not_run.iter().any(|each| each.as_str() == because)),
        _ => false,
    };
    match approval.status {
        State::Passed if approval.calls.iter().any(is_bad) => Exit::CallFailed,
        State::Approved if counts_calls && approval.calls.iter().any(is_bad) => Exit::CallFailed,
        State::Approved | State::Passed => Exit::Done,
        _ => Exit::NotApproved,
    }
}

async fn until(
    backend: &Backend,
    waiting: &Waiting,
    until: Until,
    give_up_at: Instant,
) -> Result<ApprovalView, Failure> {
    let left = give_up_at.saturating_duration_since(Instant::now());
    let waited = tokio::select! {
        waited = backend.wait(waiting.id, until, left) => waited?,
        _ = tokio::signal::ctrl_c() => return Err(interrupted()),
    };
    if let Some(approval) = waited {
        return Ok(approval);
    }
    let (what, hint) = match until {
        Until::Decided => (
            "still pending",
            "the approval is still pending: wait again, or decide it",
        ),
        Until::Finished => (
            "not finished",
            "wait again, or see what it waits for with `countersign show`",
        ),
    };
    let id = waiting.id.short();
    let message = format!(
        "approval `{id}` is {what} after {}",
        duration::show(waiting.timeout)
    );
    Err(Failure::with(Exit::TimedOut, "timed_out", message).hint(hint))
}

async fn run(
    backend: &Backend,
    approval: ApprovalView,
    output: &mut Output,
) -> Result<ApprovalView, Failure> {
    let running = backend.run_released(approval);
    tokio::pin!(running);
    let mut is_warned = false;
    loop {
        tokio::select! {
            ran = &mut running => return ran,
            _ = tokio::signal::ctrl_c() => {
                if is_warned {
                    return Err(interrupted());
                }
                is_warned = true;
                let message = "a call is running; waiting for it to finish (press Ctrl-C again to stop waiting and record it as unknown)";
                output.notice("running", message);
            }
        }
    }
}

fn interrupted() -> Failure {
    Failure::with(Exit::Interrupted, "interrupted", "interrupted")
}
