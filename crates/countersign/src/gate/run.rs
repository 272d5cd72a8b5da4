//! Runs calls: records the start, runs the executor, records the outcome. Each call runs at most once.

use std::time::Duration;

use super::{Gate, StartToken, Until, Waited, mismatch};
use crate::approval::{Order, SharedApproval};
use crate::call::Call;
use crate::command::{
    Answer, Command, ExecuteRefusal, Finish, Finished, Propose, Reconcile, SnapshotCheck, Start, Started,
};
use crate::executor::{Outcome, Permit, PermitToken};
use crate::id::{CallId, Person, Tenant};
use crate::state::CallState;
use crate::store::StoreError;
use crate::time::Time;

/// Number of attempts to record an outcome while the caller waits. After that the gate keeps the outcome and retries in
/// the background.
const FINISH_TRIES: u32 = 4;
/// Fraction of a call's timeout after which the call's record is read again before the call is sent.
const READ_AGAIN_AFTER: f64 = 0.1;
/// Time after a call's timeout during which a late result is still recorded.
const LATE: Duration = Duration::from_secs(600);

/// A call that this gate ran, with its recorded outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// The call that ran.
    pub call: CallId,
    /// Outcome of the call.
    pub outcome: Outcome,
}

impl Gate {
    /// Records that a call starts now and returns the permit to run it. Only one caller gets a permit.
    pub async fn start(
        &self,
        tenant: &Tenant,
        call: CallId,
    ) -> Result<Result<Permit, ExecuteRefusal>, StoreError> {
        self.start_with(tenant, call, StartToken::new()?, false).await
    }

    /// Like [`start`](Self::start), but with a token that the caller can compute again. As long as the call is running
    /// under this token, repeating the start returns the same permit, so that a lost answer does not lose it. The token
    /// must be secret and belong to this call alone; see [`PermitToken::derive`].
    pub async fn start_again(
        &self,
        tenant: &Tenant,
        call: CallId,
        token: PermitToken,
    ) -> Result<Result<Permit, ExecuteRefusal>, StoreError> {
        self.start_with(tenant, call, StartToken::of(token), true).await
    }

    async fn start_with(
        &self,
        tenant: &Tenant,
        call: CallId,
        token: StartToken,
        is_repeatable: bool,
    ) -> Result<Result<Permit, ExecuteRefusal>, StoreError> {
        let start = self.start_command(tenant, call, &token, (None, None));
        let start = Start {
            is_repeatable,
            ..start
        };
        let mut started = self.write_start(start).await?;
        // Most calls have no snapshot and are started by the first attempt.
        if matches!(started, Err(ExecuteRefusal::NotLookedAt(_)))
            && let Some(approval) = self.store.approval(tenant, call.approval).await?
        {
            let look = self.reread_snapshot(tenant, &approval, call.position).await;
            let start = self.start_command(tenant, call, &token, look);
            let start = Start {
                is_repeatable,
                ..start
            };
            started = self.write_start(start).await?;
        }
        match started {
            Ok(started) => self
                .permit(tenant, &started.approval, call.position, token)
                .map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    fn start_command(
        &self,
        tenant: &Tenant,
        call: CallId,
        token: &StartToken,
        (snapshot, replacement): (Option<SnapshotCheck>, Option<Box<Propose>>),
    ) -> Start {
        Start {
            tenant: tenant.clone(),
            call,
            permit: token.hash(),
            policy: self.policy.hash(),
            snapshot,
            replacement,
            is_repeatable: false,
        }
    }

    async fn write_start(&self, start: Start) -> Result<Result<Started, ExecuteRefusal>, StoreError> {
        match self.store.write(Command::Start(start)).await? {
            Answer::Start(started) => Ok(started),
            _ => Err(mismatch()),
        }
    }

    /// Records the outcome of a call that its host ran.
    pub async fn finish(
        &self,
        tenant: &Tenant,
        call: CallId,
        token: &PermitToken,
        outcome: Outcome,
    ) -> Result<Result<SharedApproval, ExecuteRefusal>, StoreError> {
        let finish = self.finish_command(tenant, call, token, outcome);
        let finished = self.write_outcome(&finish).await?;
        Ok(finished.map(|finished| finished.approval))
    }

    /// Like [`finish`](Self::finish), but if the store cannot write the outcome, the gate keeps it and retries in the
    /// background. For hosts that will not report the outcome again.
    pub async fn finish_with_retry(
        &self,
        tenant: &Tenant,
        call: CallId,
        token: &PermitToken,
        outcome: Outcome,
    ) -> Result<Result<SharedApproval, ExecuteRefusal>, StoreError> {
        let finish = self.finish_command(tenant, call, token, outcome);
        let finished = self.record_outcome(finish).await?;
        Ok(finished.map(|finished| finished.approval))
    }

    /// Runs a permitted call with the gate's executor and records its outcome. Continues even if the caller stops
    /// waiting. The outcome of a read is not recorded.
    pub async fn run_passed(&self, permit: Permit) -> Outcome {
        let (Some(call), Some(token)) = (permit.call, permit.token.clone()) else {
            return self.execute(permit).await.0;
        };
        let gate = self.clone();
        let running = tokio::spawn(async move {
            let tenant = permit.tenant.clone();
            let (outcome, late) = gate.execute(permit).await;
            let outcome = outcome.bounded();
            // The caller gets the outcome even if it cannot be recorded yet.
            let finish = gate.finish_command(&tenant, call, &token, outcome.clone());
            let _ = gate.record_outcome(finish).await;
            if let Some(late) = late {
                gate.record_late(tenant, call, token, late);
            }
            outcome
        });
        let lost = |_| Outcome::Unknown("the executor panicked".to_owned());
        running.await.unwrap_or_else(lost)
    }

    /// Records the outcome of a call whose outcome was unknown, as found out by a person. `note` is the person's
    /// explanation.
    pub async fn reconcile(
        &self,
        tenant: &Tenant,
        call: CallId,
        by: Person,
        succeeded: bool,
        note: Option<String>,
    ) -> Result<Result<SharedApproval, ExecuteRefusal>, StoreError> {
        let note = note.map(|note| note.into_bytes().into());
        let policy = self.policy.hash();
        let reconcile = Reconcile {
            tenant: tenant.clone(),
            call,
            by,
            succeeded,
            note,
            policy,
        };
        match self.store.write(Command::Reconcile(reconcile)).await? {
            Answer::Reconcile(answer) => Ok(answer),
            _ => Err(mismatch()),
        }
    }

    /// Starts and runs the released calls of an approval that this gate's executor can run. Returns the approval as it
    /// is afterwards, and the calls that ran.
    pub async fn run_released(
        &self,
        tenant: &Tenant,
        mut approval: SharedApproval,
    ) -> Result<(SharedApproval, Vec<Ran>), StoreError> {
        require_timers()?;
        let mut ran = Vec::new();
        // Each round ends at least one call, so the loop terminates.
        while let Some(position) = self.next_here(&approval) {
            let token = StartToken::new()?;
            let call = CallId {
                approval: approval.id,
                position,
            };
            let look = self.reread_snapshot(tenant, &approval, position).await;
            let start = self.start_command(tenant, call, &token, look);
            match self.write_start(start).await? {
                Ok(started) => {
                    let running = self.run_started(tenant.clone(), started.approval, position, token);
                    let (after, more) = running.await?;
                    ran.extend(more);
                    approval = after;
                }
                // This call will not run, but later calls may.
                Err(ExecuteRefusal::NotAsShown { .. } | ExecuteRefusal::NothingToUndo { .. }) => {
                    let after = self.store.approval(tenant, approval.id).await?;
                    approval = after.ok_or_else(mismatch)?;
                }
                // Another process has started the call, or it is too late for it. In any order, others may remain.
                Err(_) if approval.order == Order::Any => {
                    let after = self.store.approval(tenant, approval.id).await?;
                    approval = after.ok_or_else(mismatch)?;
                    let is_same = |call: &Call| call.state == CallState::Released;
                    if approval.call(position).is_none_or(is_same) {
                        return Ok((approval, ran));
                    }
                }
                Err(_) => return Ok((approval, ran)),
            }
        }
        Ok((approval, ran))
    }

    /// Runs a call whose start has been recorded, and then all released calls after it.
    pub(super) async fn run_from(
        &self,
        tenant: Tenant,
        approval: SharedApproval,
        position: u8,
        token: StartToken,
    ) -> Result<(SharedApproval, Vec<Ran>), StoreError> {
        let started = self.run_started(tenant.clone(), approval, position, token);
        let (approval, mut ran) = started.await?;
        let (approval, more) = self.run_released(&tenant, approval).await?;
        ran.extend(more);
        Ok((approval, ran))
    }

    /// Returns true if this gate runs the next call and could not start it together with the decision: the data behind
    /// its snapshot has to be read again first, or the calls may start in any order.
    pub(super) fn starts_separately(&self, approval: &SharedApproval) -> bool {
        let next = self
            .next_here(approval)
            .and_then(|position| approval.call(position));
        next.is_some_and(|call| call.before.is_some() || approval.order == Order::Any)
    }

    /// Waits for a call that another task or process has started before this gate could, so that the caller of a decision
    /// learns its outcome. Waits no longer than the call may take.
    pub(super) async fn wait_for_other_runner(
        &self,
        tenant: &Tenant,
        approval: SharedApproval,
    ) -> Result<SharedApproval, StoreError> {
        let next = self
            .next_here(&approval)
            .and_then(|position| approval.call(position));
        let limit = match approval.order {
            Order::Given => next.map(|call| call.terms.timeout),
            Order::Any => self.longest_timeout(&approval),
        };
        let Some(limit) = limit else {
            return Ok(approval);
        };
        match self.wait(tenant, approval.id, Until::Finished, limit).await? {
            Waited::Done(current) | Waited::TimedOut(current) => Ok(current),
            Waited::NotFound => Ok(approval),
        }
    }

    /// Returns the longest timeout of the calls that are not over; `None` if there are none, or if some of them are not
    /// this gate's.
    fn longest_timeout(&self, approval: &SharedApproval) -> Option<Duration> {
        let open = || approval.calls.iter().filter(|call| !call.state.is_over());
        let are_ours = open().all(|call| self.runs(&call.tool));
        open().map(|call| call.terms.timeout).max().filter(|_| are_ours)
    }

    /// Returns the position of the next call to start here; `None` if this gate's executor does not run it.
    fn next_here(&self, approval: &SharedApproval) -> Option<u8> {
        let is_ours = |position: &u8| self.runs_call(approval, *position);
        match approval.order {
            Order::Given => approval.next_released().filter(is_ours),
            Order::Any => {
                let released = |(_, call): &(u8, &Call)| call.state == CallState::Released;
                let mut released = approval.numbered().filter(released).map(|(position, _)| position);
                released.find(is_ours)
            }
        }
    }

    /// Runs a call whose start has been recorded, and the calls after it. Each further start is recorded together with
    /// the previous outcome. Stops at a call that cannot be started that way.
    async fn run_started(
        &self,
        tenant: Tenant,
        mut approval: SharedApproval,
        mut position: u8,
        mut token: StartToken,
    ) -> Result<(SharedApproval, Vec<Ran>), StoreError> {
        let mut ran = Vec::new();
        loop {
            let call = CallId {
                approval: approval.id,
                position,
            };
            let (outcome, late) = match self.permit(&tenant, &approval, position, token.clone()) {
                Ok(permit) => self.execute(permit).await,
                // The call's secret cannot be decrypted, so nothing was sent.
                Err(error) => (Outcome::NotSent(error.to_string()), None),
            };
            let outcome = outcome.bounded();
            let next = self.next_after(&approval, position);
            // If no token can be created, the next call is left to followers of the feed: recording this outcome
            // matters more.
            let next_token = next.and_then(|_| StartToken::new().ok());
            let finish = Finish {
                start_next: next_token.as_ref().map(StartToken::hash),
                ..self.finish_command(&tenant, call, &token.token, outcome.clone())
            };
            let recorded = self.record_outcome(finish).await;
            if let Some(late) = late {
                self.clone()
                    .record_late(tenant.clone(), call, token.token.clone(), late);
            }
            // The store cannot write now, so the outcome is kept in memory. The decision stands, and followers of the
            // feed continue once the outcome is recorded.
            let Ok(recorded) = recorded else {
                return Ok((approval, ran));
            };
            ran.push(Ran { call, outcome });
            // A sweep gave the call up, and its outcome was settled meanwhile: nothing is left to do here.
            let Ok(finished) = recorded else {
                return Ok((approval, ran));
            };
            approval = finished.approval;
            match (finished.started, next_token) {
                (Some(started), Some(next_token)) => (position, token) = (started, next_token),
                _ => return Ok((approval, ran)),
            }
        }
    }

    fn runs_call(&self, approval: &SharedApproval, position: u8) -> bool {
        approval.call(position).is_some_and(|call| self.runs(&call.tool))
    }

    /// Returns the position of the next released call after `position`; `None` if there is none, if this gate's executor
    /// does not run it, or if the calls may start in any order, because each is then started by itself.
    fn next_after(&self, approval: &SharedApproval, position: u8) -> Option<u8> {
        if approval.order == Order::Any {
            return None;
        }
        let released = |call: &Call| call.state == CallState::Released;
        let mut later = approval
            .numbered()
            .filter(|(number, call)| *number > position && released(call));
        later
            .next()
            .map(|(number, _)| number)
            .filter(|number| self.runs_call(approval, *number))
    }

    fn permit(
        &self,
        tenant: &Tenant,
        approval: &SharedApproval,
        position: u8,
        token: StartToken,
    ) -> Result<Permit, StoreError> {
        let id = CallId {
            approval: approval.id,
            position,
        };
        let call = approval.call(position).ok_or_else(mismatch)?;
        let secret = match (&call.sealed, &self.sealer) {
            (None, _) => None,
            (Some(sealed), Some(sealer)) => {
                let opened = sealer.open(sealed, tenant, id);
                Some(opened.map_err(|error| StoreError::Impossible(error.to_string()))?)
            }
            (Some(_), None) => return Err(StoreError::Impossible("there is no sealing key".to_owned())),
        };
        Ok(Permit {
            tenant: tenant.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            secret,
            timeout: call.terms.timeout,
            call: Some(id),
            start_and_deadline: start_and_deadline(approval, position),
            since: token.since,
            token: Some(token.token),
        })
    }

    /// Runs a call within its time limit. After a panic or a timeout the outcome is unknown. If the call timed out,
    /// also returns its task, because the call may still answer.
    pub(super) async fn execute(
        &self,
        permit: Permit,
    ) -> (Outcome, Option<tokio::task::JoinHandle<Outcome>>) {
        if let Err(why) = require_timers() {
            return (Outcome::NotSent(format!("not sent: {why}")), None);
        }
        let left = match self.check_in_time(&permit).await {
            Ok(left) => left,
            Err(why) => return (Outcome::NotSent(format!("not sent: {why}")), None),
        };
        let mut task = tokio::spawn(self.executor.run(permit));
        match tokio::time::timeout(left, &mut task).await {
            Ok(Ok(outcome)) => (outcome, None),
            Ok(Err(_)) => (Outcome::Unknown("the executor panicked".to_owned()), None),
            Err(_) => (Outcome::Unknown("no answer in time".to_owned()), Some(task)),
        }
    }

    /// Returns the time left for a call that is about to be sent, or the reason why it must not be sent any more.
    ///
    /// A process may be suspended between the recorded start and this moment, alone or together with the whole machine.
    /// Other processes give the call up at its deadline, and people may have settled its outcome. So a call past its
    /// deadline is not sent, and if more than a small part of its time has passed, its record is read again first.
    async fn check_in_time(&self, permit: &Permit) -> Result<Duration, String> {
        const LATE: &str = "its time was over before it could be sent";
        let (Some(id), Some(token)) = (permit.call, &permit.token) else {
            return Ok(permit.timeout);
        };
        let left = permit.time_left().ok_or(LATE)?;
        if left >= permit.timeout.mul_f64(1.0 - READ_AGAIN_AFTER) {
            return Ok(left);
        }
        let approval = self.store.approval(&permit.tenant, id.approval).await;
        let approval = approval.map_err(|error| format!("its record cannot be read again: {error}"))?;
        let call = approval.as_ref().and_then(|approval| approval.call(id.position));
        let is_ours = call.is_some_and(|call| {
            let run = call.execution.as_ref();
            call.state == CallState::Running && run.is_some_and(|run| run.permit == token.hash())
        });
        match is_ours {
            true => permit.time_left().ok_or_else(|| LATE.to_owned()),
            false => Err("it was given up meanwhile".to_owned()),
        }
    }

    fn record_late(
        self,
        tenant: Tenant,
        call: CallId,
        token: PermitToken,
        task: tokio::task::JoinHandle<Outcome>,
    ) {
        tokio::spawn(async move {
            let abort = task.abort_handle();
            match tokio::time::timeout(LATE, task).await {
                // The unknown outcome has already been recorded.
                Ok(Ok(Outcome::Unknown(_)) | Err(_)) => {}
                Ok(Ok(outcome)) => {
                    let finish = Finish {
                        late: true,
                        ..self.finish_command(&tenant, call, &token, outcome)
                    };
                    let _ = self.record_outcome(finish).await;
                }
                Err(_) => abort.abort(),
            }
        });
    }

    pub(super) fn finish_command(
        &self,
        tenant: &Tenant,
        call: CallId,
        token: &PermitToken,
        outcome: Outcome,
    ) -> Finish {
        Finish {
            tenant: tenant.clone(),
            call,
            permit: token.hash(),
            outcome: outcome.bounded(),
            policy: self.policy.hash(),
            start_next: None,
            late: false,
        }
    }

    /// Records the outcome of a call. If that fails, the gate keeps the outcome and retries later. An error only means
    /// that the outcome has not been recorded yet.
    pub(super) async fn record_outcome(
        &self,
        finish: Finish,
    ) -> Result<Result<Finished, ExecuteRefusal>, StoreError> {
        let written = self.write_outcome(&finish).await;
        if written.is_err() {
            self.keep_outcome(finish);
        }
        written
    }

    async fn write_outcome(&self, finish: &Finish) -> Result<Result<Finished, ExecuteRefusal>, StoreError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.store.write(Command::Finish(finish.clone())).await {
                Ok(Answer::Finish(answer)) => return Ok(answer),
                Ok(_) => return Err(mismatch()),
                Err(StoreError::Stopped(reason)) => return Err(StoreError::Stopped(reason)),
                Err(error) if tries >= FINISH_TRIES => return Err(error),
                // Safe to retry: recording the same outcome twice has no further effect.
                Err(_) => tokio::time::sleep(Duration::from_millis(50 << tries)).await,
            }
        }
    }
}

/// Fails outside of a tokio runtime, and in one that was built without timers. A call could be run in such a runtime,
/// but it could not be given up in time, nor its outcome be recorded. Checked before a start is recorded.
pub(super) fn require_timers() -> Result<(), StoreError> {
    // Tokio has no other way to find out whether timers are enabled.
    match std::panic::catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))) {
        Ok(()) => Ok(()),
        Err(_) => Err(StoreError::Unavailable(
            "the gate needs a tokio runtime with timers: build it with `enable_time` or `enable_all`"
                .to_owned(),
        )),
    }
}

/// Returns the recorded start of a call and its deadline; `None` if the call has not been started.
pub(super) fn start_and_deadline(approval: &SharedApproval, position: u8) -> Option<(Time, Time)> {
    let run = approval.call(position)?.execution.as_ref()?;
    Some((run.started_at, run.deadline))
}
