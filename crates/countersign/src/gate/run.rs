//! Running: start, permit, executor, finish. Once.

use std::time::Duration;

use super::{Gate, StartToken, mismatch};
use crate::approval::SharedApproval;
use crate::command::{
    Answer, Command, ExecuteRefusal, Finish, Finished, Propose, Reconcile, Seen, Start, Started,
};
use crate::executor::{Outcome, Permit, PermitToken};
use crate::id::{CallId, Person, Tenant};
use crate::state::CallState;
use crate::store::StoreError;
use crate::time::Time;

/// How often recording an outcome is tried: losing it would make a known outcome unknown.
const FINISH_TRIES: u32 = 4;
/// The part of a call's time after which its record is read again before it is sent.
const READ_AGAIN_AFTER: f64 = 0.1;
/// How long after its time-out a late answer is still written down.
const LATE: Duration = Duration::from_secs(600);

/// A call that this gate ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Which call.
    pub call: CallId,
    /// How it ended.
    pub outcome: Outcome,
}

impl Gate {
    /// Records that a call starts now and gives the permit to run it: once, to one caller.
    pub async fn start(
        &self,
        tenant: &Tenant,
        call: CallId,
    ) -> Result<Result<Permit, ExecuteRefusal>, StoreError> {
        let token = StartToken::new()?;
        let mut started = self.record_start(tenant, call, &token, (None, None)).await?;
        // Most calls have nothing to look at, and are started in one go.
        if matches!(started, Err(ExecuteRefusal::NotLookedAt(_)))
            && let Some(approval) = self.store.approval(tenant, call.approval).await?
        {
            let look = self.look_again(tenant, &approval, call.position).await;
            started = self.record_start(tenant, call, &token, look).await?;
        }
        match started {
            Ok(started) => self
                .permit(tenant, &started.approval, call.position, token)
                .map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    async fn record_start(
        &self,
        tenant: &Tenant,
        call: CallId,
        token: &StartToken,
        (seen, instead): (Option<Seen>, Option<Box<Propose>>),
    ) -> Result<Result<Started, ExecuteRefusal>, StoreError> {
        let start = Start {
            tenant: tenant.clone(),
            call,
            permit: token.hash(),
            policy: self.policy.hash(),
            seen,
            instead,
        };
        match self.store.write(Command::Start(start)).await? {
            Answer::Start(started) => Ok(started),
            _ => Err(mismatch()),
        }
    }

    /// Records how a call ended that its host ran.
    pub async fn finish(
        &self,
        tenant: &Tenant,
        call: CallId,
        token: &PermitToken,
        outcome: Outcome,
    ) -> Result<Result<SharedApproval, ExecuteRefusal>, StoreError> {
        let finished = self
            .record_outcome(tenant, call, token, outcome.bounded(), None)
            .await?;
        Ok(finished.map(|finished| finished.approval))
    }

    /// Runs a permitted call with the gate's executor and records how it ended. Goes on when the caller goes away.
    /// A read that passed is on no record, and nothing is written for it.
    pub async fn run_passed(&self, permit: Permit) -> Outcome {
        let (Some(call), Some(token)) = (permit.call, permit.token.clone()) else {
            return self.execute(permit).await.0;
        };
        let gate = self.clone();
        let running = tokio::spawn(async move {
            let tenant = permit.tenant.clone();
            let (outcome, late) = gate.execute(permit).await;
            let outcome = outcome.bounded();
            // The caller knows how it ended even where that cannot be written; the history then says `unknown`.
            let _ = gate
                .record_outcome(&tenant, call, &token, outcome.clone(), None)
                .await;
            if let Some(late) = late {
                gate.record_late(tenant, call, token, late);
            }
            outcome
        });
        let lost = |_| Outcome::Unknown("the executor panicked".to_owned());
        running.await.unwrap_or_else(lost)
    }

    /// Records what somebody found out about a call whose outcome was unknown.
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

    /// Starts and runs whatever is released in an approval and that this gate's executor can run.
    pub async fn run_released(
        &self,
        tenant: &Tenant,
        mut approval: SharedApproval,
    ) -> Result<(SharedApproval, Vec<Ran>), StoreError> {
        let mut ran = Vec::new();
        // Each round ends at least one call, so there are not many.
        while let Some(position) = self.next_here(&approval) {
            let token = StartToken::new()?;
            let call = CallId {
                approval: approval.id,
                position,
            };
            let look = self.look_again(tenant, &approval, position).await;
            match self.record_start(tenant, call, &token, look).await? {
                Ok(started) => {
                    let running = self.run_started(tenant.clone(), started.approval, position, token);
                    let (after, more) = running.await?;
                    ran.extend(more);
                    approval = after;
                }
                // It will not run; what is behind it may.
                Err(ExecuteRefusal::NotAsShown { .. } | ExecuteRefusal::NothingToUndo { .. }) => {
                    let after = self.store.approval(tenant, approval.id).await?;
                    approval = after.ok_or_else(mismatch)?;
                }
                // Somebody else was first, or it is too late: not ours to run.
                Err(_) => return Ok((approval, ran)),
            }
        }
        Ok((approval, ran))
    }

    /// Runs a call whose start is on record, and whatever is released behind it.
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

    /// True when the next call is run here, once what it would change was looked at again.
    pub(super) fn has_to_look(&self, approval: &SharedApproval) -> bool {
        let next = self
            .next_here(approval)
            .and_then(|position| approval.call(position));
        next.is_some_and(|call| call.before.is_some())
    }

    fn next_here(&self, approval: &SharedApproval) -> Option<u8> {
        let next = approval.next_released();
        next.filter(|position| self.runs_call(approval, *position))
    }

    /// Runs a call whose start is on record, and then the ones behind it, each start recorded with the end before.
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
                // Its secret does not open: it was started on paper only.
                Err(error) => (Outcome::failed(error.to_string()), None),
            };
            let outcome = outcome.bounded();
            ran.push(Ran {
                call,
                outcome: outcome.clone(),
            });
            let next = self.next_after(&approval, position);
            let next_token = next.map(|_| StartToken::new()).transpose()?;
            let recorded = self
                .record_outcome(&tenant, call, &token.token, outcome, next_token.as_ref())
                .await?;
            if let Some(late) = late {
                self.clone()
                    .record_late(tenant.clone(), call, token.token.clone(), late);
            }
            let finished = match recorded {
                Ok(finished) => finished,
                // The sweep gave it up and something else settled it meanwhile: nothing more is ours.
                Err(_) => return Ok((approval, ran)),
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

    /// The released call behind `position`, if this gate's executor runs it.
    fn next_after(&self, approval: &SharedApproval, position: u8) -> Option<u8> {
        let released = |call: &crate::call::Call| call.state == CallState::Released;
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
            span: span(approval, position),
            since: token.since,
            token: Some(token.token),
        })
    }

    /// Runs with a time limit; a panic or a time-out means that nobody knows. The task of a call that timed out is
    /// given back: it may answer yet.
    pub(super) async fn execute(
        &self,
        permit: Permit,
    ) -> (Outcome, Option<tokio::task::JoinHandle<Outcome>>) {
        let left = match self.check_in_time(&permit).await {
            Ok(left) => left,
            Err(why) => return (Outcome::failed(format!("not sent: {why}")), None),
        };
        let mut task = tokio::spawn(self.executor.run(permit));
        match tokio::time::timeout(left, &mut task).await {
            Ok(Ok(outcome)) => (outcome, None),
            Ok(Err(_)) => (Outcome::Unknown("the executor panicked".to_owned()), None),
            Err(_) => (Outcome::Unknown("no answer in time".to_owned()), Some(task)),
        }
    }

    /// Time left for a call that is about to be sent, or why it must not be sent any more.
    ///
    /// A process may sleep between the start on record and this moment: stopped, swapped out, or with the whole machine.
    /// Others give the call up at its deadline, and people may have settled it. So what is past its deadline is not sent,
    /// and when a good part of its time has passed the record is read again first.
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
            if let Ok(Ok(outcome)) = tokio::time::timeout(LATE, task).await {
                // It stays unknown when this cannot be written; a person reconciles it then.
                let _ = self
                    .record_outcome(&tenant, call, &token, outcome.bounded(), None)
                    .await;
            }
        });
    }

    pub(super) async fn record_outcome(
        &self,
        tenant: &Tenant,
        call: CallId,
        token: &PermitToken,
        outcome: Outcome,
        next: Option<&StartToken>,
    ) -> Result<Result<Finished, ExecuteRefusal>, StoreError> {
        let finish = Finish {
            tenant: tenant.clone(),
            call,
            permit: token.hash(),
            outcome,
            policy: self.policy.hash(),
            start_next: next.map(StartToken::hash),
        };
        let mut tries = 0;
        loop {
            tries += 1;
            match self.store.write(Command::Finish(finish.clone())).await {
                Ok(Answer::Finish(answer)) => return Ok(answer),
                Ok(_) => return Err(mismatch()),
                Err(StoreError::Stopped(reason)) => return Err(StoreError::Stopped(reason)),
                Err(error) if tries >= FINISH_TRIES => return Err(error),
                // Recording the same end twice is one end, so trying again is safe.
                Err(_) => tokio::time::sleep(Duration::from_millis(50 << tries)).await,
            }
        }
    }
}

/// When the start of a call was recorded, and when the call is given up.
pub(super) fn span(approval: &SharedApproval, position: u8) -> Option<(Time, Time)> {
    let run = approval.call(position)?.execution.as_ref()?;
    Some((run.started_at, run.deadline))
}
