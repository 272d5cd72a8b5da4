//! Operations on approvals that several surfaces share: read, wait, decide and run, reconcile.

use std::time::Duration;

use countersign::approval::{Approval, SharedApproval};
use countersign::decision::Decision;
use countersign::gate::{Running, Until, Waited};
use countersign::id::{Agent, ApprovalId, CallId};

use super::{Service, ServiceError, Watch};
use crate::access::{Caller, Scope};

/// Maximum length of a comment on a decision, in characters.
pub const LONGEST_COMMENT: usize = 4096;
/// Maximum length of a note on how a call ended, in bytes.
const LONGEST_NOTE: usize = 4096;

/// Returns the approval. Fails if it does not exist or the caller may not see it.
pub async fn visible(
    service: &Service,
    caller: &Caller,
    id: ApprovalId,
) -> Result<SharedApproval, ServiceError> {
    let approval = service.store().approval(&caller.tenant, id).await?;
    let approval = approval.filter(|approval| is_visible(caller, approval));
    approval.ok_or(ServiceError::NotFound("approval"))
}

/// Returns true if the caller may see the approval. An agent's token sees only approvals of that agent. An approval of
/// a served agent of version 0.1.0 is visible to no agent's token, even if the names match.
pub fn is_visible(caller: &Caller, approval: &Approval) -> bool {
    let is_own = |agent: &Agent| *agent == approval.agent && !approval.is_of_older_talk();
    caller.agent.as_ref().is_none_or(is_own)
}

/// Checks that an agent may start this call itself: the agent proposed the call, and neither this service nor an MCP
/// gateway runs it.
pub async fn check_own_call(service: &Service, caller: &Caller, id: CallId) -> Result<(), ServiceError> {
    if caller.agent.is_none() || !caller.may(Scope::Agent) {
        return Err(ServiceError::WrongScope(&[Scope::Execute, Scope::Agent]));
    }
    let approval = visible(service, caller, id.approval).await?;
    let call = approval.call(id.position);
    let call = call.ok_or(ServiceError::NotFound("call"))?;
    let run = approval.run.as_ref().map(|run| run.as_str());
    let is_gateways = run.is_some_and(|run| run.starts_with("mcp:"));
    match service.gate.runs(&call.tool) || is_gateways {
        true => Err(ServiceError::RunsElsewhere(id)),
        false => Ok(()),
    }
}

/// Waits until the approval is decided or, depending on `until`, its calls have ended, but no longer than `limit`.
/// Returns the approval as it is then; `None` if the service stops first.
pub async fn wait(
    service: &Service,
    caller: &Caller,
    id: ApprovalId,
    until: Until,
    limit: Duration,
) -> Result<Option<SharedApproval>, ServiceError> {
    // Check visibility before waiting.
    let may_see = |approval: &Approval| is_visible(caller, approval);
    let waiting = service.gate.wait_if(&caller.tenant, id, until, limit, may_see);
    let watch = Watch::of(service, caller);
    let waited = tokio::select! {
        biased;
        () = watch.ended() => return Err(ServiceError::NotValid),
        waited = waiting => waited?,
        () = service.stopping.cancelled() => return Ok(None),
    };
    match waited {
        Waited::Done(approval) | Waited::TimedOut(approval) => Ok(Some(approval)),
        Waited::NotFound => Err(ServiceError::NotFound("approval")),
    }
}

/// Records a decision, and runs the calls that it releases in the background. With `until_finished`, waits until these
/// calls have run.
pub async fn decide_and_run(
    service: &Service,
    decision: Decision,
    until_finished: bool,
) -> Result<SharedApproval, ServiceError> {
    if service.stopping.is_cancelled() {
        return Err(ServiceError::Stopping);
    }
    service
        .limits
        .decision(&decision.tenant, &decision.decider.person)?;
    let id = decision.approval();
    let spawn = |running: Running| service.runs.spawn(run(service.clone(), id, running));
    let (answer, run) = service.gate.decide_and_start(decision, spawn).await?;
    service
        .metrics
        .decided(answer.approval.as_deref(), answer.refusal.as_ref());
    if let Some(refusal) = answer.refusal {
        return Err(refusal.into());
    }
    let mut approval = answer.approval.ok_or(ServiceError::NotFound("approval"))?;
    if until_finished && let Ok(Some(finished)) = run.await {
        approval = finished;
    }
    Ok(approval)
}

/// Runs the released calls to the end, even if the client disconnects. Returns the finished approval; `None` if nothing
/// ran or the outcome could not be recorded.
async fn run(service: Service, id: ApprovalId, running: Running) -> Option<SharedApproval> {
    match running.await {
        Ok(ran) => {
            let (approval, _) = ran?;
            service.metrics.finished(&approval);
            Some(approval)
        }
        Err(error) => {
            tracing::error!(%id, "a call ran, and its outcome could not be recorded: {error}");
            None
        }
    }
}

/// Records how a call with an unknown outcome ended.
pub async fn reconcile(
    service: &Service,
    caller: &Caller,
    id: CallId,
    succeeded: bool,
    note: Option<String>,
) -> Result<SharedApproval, ServiceError> {
    if note.as_ref().is_some_and(|note| note.len() > LONGEST_NOTE) {
        let message = format!("a note has at most {LONGEST_NOTE} bytes");
        return Err(ServiceError::TooLong(message));
    }
    let approval = visible(service, caller, id.approval).await?;
    let call = approval.call(id.position);
    let call = call.ok_or(ServiceError::NotFound("call"))?;
    let decider = caller
        .decider()
        .ok_or(ServiceError::WrongScope(&[Scope::Decide]))?;
    // Only people who could have approved the call may report how it ended.
    if !decider.is_among(&call.terms.approvers) {
        return Err(ServiceError::NotAnApprover(decider.person));
    }
    let reconciling = service
        .gate
        .reconcile(&caller.tenant, id, decider.person, succeeded, note);
    let reconciled = reconciling.await??;
    service.metrics.finished(&reconciled);
    Ok(reconciled)
}
