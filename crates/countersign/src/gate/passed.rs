//! Passed calls that are more than reads: recorded like every other call, although no person was asked.
//!
//! Each passed call of a submission gets a permit once its start is on record. For a retry under the same idempotency
//! key, the call that ran before is returned instead. Reads are not handled here: they may repeat, so they get a permit
//! without a record.

use std::time::Duration;

use futures_util::future::join_all;

use super::run::start_and_deadline;
use super::{Gate, Ruled, Seeds, StartToken, Submission, SubmitError, Until, Waited};
use crate::approval::SharedApproval;
use crate::command::{NewCall, Propose, ProposeRefusal, Proposed};
use crate::executor::{Outcome, Permit};
use crate::hash::{Fields, Hash};
use crate::id::{CallId, Key, Tenant};
use crate::seal::Secret;
use crate::state::{CallState, State};
use crate::store::StoreError;

/// Additional time to wait for an outcome after the call's own timeout.
const GRACE: Duration = Duration::from_secs(5);

/// A passed call that is not on record yet.
pub(super) struct Passing {
    /// Index of the call in the submission, from 0.
    pub(super) index: usize,
    pub(super) call: NewCall,
    pub(super) seeds: Seeds,
    /// Credential of the call, if it has one. It is passed to the tool and never stored, because the call starts at
    /// once.
    pub(super) secret: Option<Secret>,
}

impl Gate {
    /// Records passed calls as started, each separately, and returns their rulings in the same order. If one of them
    /// cannot be recorded, none of them runs.
    ///
    /// `held` is true if other calls of the submission are held. Then the approval of those calls carries the
    /// submission's idempotency key.
    pub(super) async fn record_passing(
        &self,
        submission: &Submission,
        body: Hash,
        mut passing: Vec<Passing>,
        held: bool,
    ) -> Result<Vec<(usize, Ruled)>, SubmitError> {
        let mut ruled = Vec::with_capacity(passing.len());
        // INVARIANT: exactly one record of a submission carries its idempotency key unchanged, under any policy. A
        // retry under another policy finds that record, and runs nothing a second time.
        if !held && submission.key.is_some() && !passing.is_empty() {
            let first = passing.remove(0);
            let key = submission.key.clone().map(|key| (key, body));
            ruled.push(self.record_one(submission, first, key).await?);
        }
        let rest = passing.into_iter().map(|passing| {
            let key = submission.key.as_ref().map(|key| key_of(key, passing.index));
            async {
                let key = key.transpose()?.map(|key| (key, body));
                self.record_one(submission, passing, key).await
            }
        });
        let mut problem = None;
        for recorded in join_all(rest).await {
            match recorded {
                Ok(recorded) => ruled.push(recorded),
                Err(error) => problem = Some(error),
            }
        }
        match problem {
            None => Ok(ruled),
            Some(problem) => {
                self.give_up(submission, ruled).await;
                Err(problem)
            }
        }
    }

    async fn record_one(
        &self,
        submission: &Submission,
        passing: Passing,
        key: Option<(Key, Hash)>,
    ) -> Result<(usize, Ruled), SubmitError> {
        let Passing {
            index,
            call,
            seeds,
            secret,
        } = passing;
        let token = StartToken::new()?;
        let (tool, arguments, timeout) = (call.tool.clone(), call.arguments.clone(), call.terms.timeout);
        let propose = self.propose_command(submission.clone(), seeds, vec![call], None);
        let propose = Propose {
            passes: Some(token.hash()),
            // Limits on pending approvals do not apply to a call that no person is asked about.
            restraint: None,
            ttl: Duration::ZERO,
            key: key.clone(),
            ..propose
        };
        let Proposed { approval, repeated } = self.write_proposal(propose).await?;
        let call = CallId {
            approval: approval.id,
            position: 1,
        };
        let ruled = match (repeated, approval.state) {
            (false, _) => Ruled::Pass(Permit {
                tenant: submission.tenant.clone(),
                tool,
                arguments,
                secret,
                timeout,
                call: Some(call),
                start_and_deadline: start_and_deadline(&approval, 1),
                since: token.since,
                token: Some(token.token),
            }),
            (true, State::Passed) => Ruled::PassedBefore(call),
            // Under an earlier policy a person was asked about the call; that decision remains valid.
            (true, _) if submission.calls.len() == 1 => Ruled::Held(call),
            (true, _) => return Err(reused(key)),
        };
        Ok((index, ruled))
    }

    /// Records passed calls as failed because they will not run.
    async fn give_up(&self, submission: &Submission, ruled: Vec<(usize, Ruled)>) {
        for (_, ruled) in ruled {
            if let Ruled::Pass(Permit {
                call: Some(call),
                token: Some(token),
                ..
            }) = ruled
            {
                let why = "not run: another call of the same turn could not be recorded";
                let outcome = Outcome::NotSent(why.to_owned());
                let finish = self.finish_command(&submission.tenant, call, &token, outcome);
                let _ = self.record_outcome(finish).await;
            }
        }
    }

    /// Waits until a started call has ended and returns its outcome. If the call has not ended some seconds after its
    /// timeout, the outcome is unknown.
    pub async fn outcome_of(&self, tenant: &Tenant, call: CallId) -> Outcome {
        let unreadable = |error: StoreError| Outcome::Unknown(format!("its record cannot be read: {error}"));
        let started = match self.store.approval(tenant, call.approval).await {
            Ok(started) => started,
            Err(error) => return unreadable(error),
        };
        let timeout = started.as_ref().and_then(|approval| approval.call(call.position));
        let timeout = timeout.map_or(Duration::ZERO, |call| call.terms.timeout);
        let waited = self
            .wait(
                tenant,
                call.approval,
                Until::Finished,
                timeout.saturating_add(GRACE),
            )
            .await;
        match waited {
            Ok(Waited::Done(approval) | Waited::TimedOut(approval)) => ended(&approval, call.position),
            Ok(Waited::NotFound) => Outcome::Unknown("there is no such call".to_owned()),
            Err(error) => unreadable(error),
        }
    }
}

/// Returns the error for an idempotency key that was used for another submission.
pub(super) fn reused(key: Option<(Key, Hash)>) -> SubmitError {
    match key {
        Some((key, _)) => ProposeRefusal::KeyReused(key).into(),
        None => StoreError::Impossible("a submission without a key was repeated".to_owned()).into(),
    }
}

/// Returns the recorded outcome of a call.
fn ended(approval: &SharedApproval, position: u8) -> Outcome {
    let Some(call) = approval.call(position) else {
        return Outcome::Unknown("there is no such call".to_owned());
    };
    let result = call.result.clone();
    match (call.state, result) {
        (CallState::Succeeded | CallState::Undone, Some(result)) => Outcome::Succeeded(result),
        (CallState::Failed, result) if call.was_not_sent() => {
            let reason = result.as_deref().map(String::from_utf8_lossy);
            Outcome::NotSent(reason.unwrap_or("its reason was not kept".into()).into_owned())
        }
        (CallState::Failed, Some(result)) => Outcome::Failed(result),
        (CallState::Succeeded | CallState::Undone, None) => Outcome::succeeded("null"),
        (CallState::Failed, None) => Outcome::failed("its reason was not kept"),
        (CallState::Unknown, _) => {
            Outcome::Unknown("it was started and never said how it ended; it is not run again".to_owned())
        }
        (CallState::Held | CallState::Refused | CallState::Released | CallState::Running, _) => {
            Outcome::Unknown("it has not ended yet; it is not run again".to_owned())
        }
    }
}

/// Derives the idempotency key of one of several passed calls in a submission.
fn key_of(key: &Key, index: usize) -> Result<Key, SubmitError> {
    let name = Fields::new("countersign/passed/1")
        .field(key.as_str().as_bytes())
        .number(index as u64)
        .finish();
    Key::new(format!("passed:{name}")).map_err(|problem| StoreError::Impossible(problem.to_string()).into())
}
