//! Passed calls that are more than reads: under an idempotency key each runs at most once.
//!
//! Enters: the permits of one submission, and its key. Leaves: the same permits, each with the claim that is on record for
//! it, and later its outcome. The claim is written before the permit is given out, so a crash, a retry or another node
//! never runs the call a second time. Reads are not claimed: they may repeat, and touch no disk.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Gate, Ruled, Submission, SubmitError, array, mismatch};
use crate::command::{Answer, Command, ProposeRefusal, PutEntry};
use crate::executor::{Outcome, Permit};
use crate::hash::{Fields, Hash};
use crate::id::{ApprovalId, CallId, Key, Tenant};
use crate::registry::{Entry, Kind, LARGEST_BODY, Put};
use crate::store::StoreError;

/// How long a key is remembered.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);
/// How often an earlier run of the same call is looked for.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// How often recording an outcome is tried.
const TRIES: u32 = 4;
/// A larger result is not kept, only its size and hash.
const LARGEST_KEPT: usize = LARGEST_BODY / 2;

/// What a permit of a passed call has on record.
#[derive(Debug)]
pub(crate) enum Claim {
    /// This submission is the first under its key: it runs.
    First(Entry),
    /// An earlier one had the same key and the same calls: nothing runs, its outcome is the answer.
    Repeated(String),
}

/// A passed call as it is kept.
#[derive(Serialize, Deserialize)]
struct Passed {
    /// Everything a retry has in common with its first sending.
    submission: Hash,
    agent: String,
    requester: String,
    tool: String,
    /// The hash of the exact arguments.
    arguments: Hash,
    /// The policy that let it pass.
    policy: Hash,
    outcome: Option<(Ended, Vec<u8>)>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Ended {
    Succeeded,
    Failed,
    Unknown,
}

impl Gate {
    /// Claims each passed call of a submission that is more than a read, under the submission's key.
    pub(super) async fn claim_passed(
        &self,
        submission: &Submission,
        ruled: &mut [Ruled],
    ) -> Result<(), SubmitError> {
        let Some(key) = &submission.key else {
            return Ok(());
        };
        let whole = hash_of(submission);
        for (index, ruled) in ruled.iter_mut().enumerate() {
            let Ruled::Pass(permit) = ruled else { continue };
            if permit.call.is_none() {
                continue;
            }
            let name = name_of(submission, key, index);
            // The same call again has the same id: a tool that knows it does nothing twice.
            permit.call = Some(CallId {
                approval: ApprovalId::from_parts(0, &array(&name.0)),
                position: 1,
            });
            let claim = self.claim(submission, permit, (key, name, whole)).await?;
            permit.claim = Some(claim);
        }
        Ok(())
    }

    async fn claim(
        &self,
        submission: &Submission,
        permit: &Permit,
        (key, name, whole): (&Key, Hash, Hash),
    ) -> Result<Claim, SubmitError> {
        let passed = Passed {
            submission: whole,
            agent: submission.agent.as_str().to_owned(),
            requester: submission.requester.as_str().to_owned(),
            tool: permit.tool.as_str().to_owned(),
            arguments: Hash::of(permit.arguments.as_bytes()),
            policy: self.policy.hash(),
            outcome: None,
        };
        let entry = Entry {
            kind: Kind::Passed,
            key: name.to_string(),
            tenant: submission.tenant.clone(),
            body: encode(&passed)?.into(),
            version: 0,
            expires_at: Some(self.store.now().await?.plus(REMEMBERED)),
        };
        if let Put::Kept(version) = self.put(entry.clone()).await? {
            return Ok(Claim::First(Entry { version, ..entry }));
        }
        match self.passed(&submission.tenant, &entry.key).await? {
            Some(earlier) if earlier.submission == whole => Ok(Claim::Repeated(entry.key)),
            Some(_) => Err(ProposeRefusal::KeyReused(key.clone()).into()),
            None => {
                Err(StoreError::Unavailable("the key is being given up: send it again".to_owned()).into())
            }
        }
    }

    /// Runs a passed call, or answers what its first sending came to. Goes on when the caller goes away.
    pub(super) async fn run_claimed(&self, mut permit: Permit) -> Outcome {
        match permit.claim.take() {
            None => self.execute(permit).await.0,
            Some(Claim::Repeated(name)) => self.earlier(&permit.tenant, &name, permit.timeout).await,
            Some(Claim::First(entry)) => {
                let gate = self.clone();
                let running = tokio::spawn(async move {
                    let outcome = gate.execute(permit).await.0.bounded();
                    gate.keep(entry, &outcome).await;
                    outcome
                });
                let lost = |_| Outcome::Unknown("the executor panicked".to_owned());
                running.await.unwrap_or_else(lost)
            }
        }
    }

    /// Waits for the outcome of the first sending, for as long as the tool may take.
    async fn earlier(&self, tenant: &Tenant, name: &str, timeout: Duration) -> Outcome {
        let unknown = |why: &str| Outcome::Unknown(format!("{why}; it is not run again"));
        let waits = tokio::time::Instant::now();
        loop {
            match self.passed(tenant, name).await {
                Ok(Some(Passed {
                    outcome: Some((ended, result)),
                    ..
                })) => {
                    return match ended {
                        Ended::Succeeded => Outcome::succeeded(result),
                        Ended::Failed => Outcome::failed(result),
                        Ended::Unknown => Outcome::Unknown(String::from_utf8_lossy(&result).into_owned()),
                    };
                }
                Ok(Some(_)) if waits.elapsed() < timeout => tokio::time::sleep(LOOKS_EVERY).await,
                Ok(_) => return unknown("the call was started under this key and never said how it ended"),
                Err(_) => return unknown("what became of the call under this key cannot be read"),
            }
        }
    }

    /// Records the outcome. A call whose outcome cannot be written stays claimed, and counts as unknown.
    async fn keep(&self, entry: Entry, outcome: &Outcome) {
        let (ended, result) = match outcome {
            Outcome::Succeeded(result) => (Ended::Succeeded, result.to_vec()),
            Outcome::Failed(result) => (Ended::Failed, result.to_vec()),
            Outcome::Unknown(reason) => (Ended::Unknown, reason.clone().into_bytes()),
        };
        let result = match result.len() {
            0..=LARGEST_KEPT => result,
            bytes => format!(
                "{{\"omitted\":\"the result was too large to keep\",\"bytes\":{bytes},\"sha256\":\"{}\"}}",
                Hash::of(&result)
            )
            .into_bytes(),
        };
        let Ok(mut passed) = postcard::from_bytes::<Passed>(&entry.body) else {
            return;
        };
        passed.outcome = Some((ended, result));
        let Ok(body) = encode(&passed) else { return };
        let body: std::sync::Arc<[u8]> = body.into();
        for tries in 1..=TRIES {
            let written = Entry {
                body: body.clone(),
                ..entry.clone()
            };
            if self.put(written).await.is_ok() {
                return;
            }
            tokio::time::sleep(LOOKS_EVERY * tries).await;
        }
    }

    async fn passed(&self, tenant: &Tenant, name: &str) -> Result<Option<Passed>, StoreError> {
        let entry = self.store.entry(Kind::Passed, name).await?;
        let entry = entry.filter(|entry| entry.tenant == *tenant);
        let read = entry.map(|entry| postcard::from_bytes(&entry.body));
        read.transpose()
            .map_err(|error| StoreError::Impossible(error.to_string()))
    }

    async fn put(&self, entry: Entry) -> Result<Put, StoreError> {
        match self.store.write(Command::PutEntry(PutEntry(entry))).await? {
            Answer::PutEntry(put) => Ok(put),
            _ => Err(mismatch()),
        }
    }
}

fn encode(passed: &Passed) -> Result<Vec<u8>, StoreError> {
    postcard::to_allocvec(passed).map_err(|error| StoreError::Impossible(error.to_string()))
}

/// The name of one call of what is sent under a key.
fn name_of(submission: &Submission, key: &Key, index: usize) -> Hash {
    Fields::new("countersign/passed/1")
        .field(submission.tenant.as_str().as_bytes())
        .field(submission.agent.as_str().as_bytes())
        .field(key.as_str().as_bytes())
        .number(index as u64)
        .finish()
}

/// Hash of the fields that a retry of the same submission must repeat.
fn hash_of(submission: &Submission) -> Hash {
    let channel = submission
        .channel
        .as_ref()
        .map(|channel| channel.as_str().as_bytes());
    let run = submission.run.as_ref().map(|run| run.as_str().as_bytes());
    let fields = Fields::new("countersign/passed/body/1")
        .optional(channel)
        .optional(run)
        .number(submission.calls.len() as u64);
    let calls = submission.calls.iter();
    let fields = calls.fold(fields, |fields, call| {
        fields
            .field(call.tool.as_bytes())
            .optional(call.definition.hash().as_ref().map(|hash| hash.0.as_slice()))
            .field(&call.arguments)
    });
    fields.finish()
}
