//! The gate: between an agent's wish and the world.
//!
//! Enters: the calls of one agent turn. Leaves: permits for those that pass, an approval for those that are held.
//! Later a decision, a run and a record. This file and its folder know the order of the steps and nothing else.
//!
//! It fails closed: before a start is on record, any error, time-out or unknown answer means that nothing runs.

mod before;
mod decide;
mod flag;
mod hear;
mod look;
mod passed;
mod run;
mod submission;
mod undo;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use crate::approval::{MOST_CALLS, SharedApproval};
use crate::call::Arguments;
use crate::command::{Answer, CallSet, Command, NewCall, Propose, Proposed, Restraint, Swept};
use crate::effect::Effect;
use crate::executor::{Executor, HostRuns, Permit, PermitToken};
use crate::hash::{Fields, Hash};
use crate::id::{Actor, Agent, ApprovalId, CallId, Channel, Person, Run, Tenant, ToolName};
use crate::policy::{Asked, Policy, Ruling, Terms};
use crate::provenance::{Provenance, Told};
use crate::seal::{SealError, Sealer, Secret};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::stopwatch::Stopwatch;
use crate::store::{Store, StoreError};
use crate::undoes::Undoes;

use before::Snapshots;
pub use decide::{Resolved, Running};
pub use flag::{Flagged, GUIDE, is_same_but_for_the_flag};
pub use hear::{Heard, Reply};
pub use look::Concerns;
use passed::{Passing, reused};
pub use run::Ran;
pub use submission::{Asking, LONGEST_CLAIM, Ruled, Submission, SubmitError, Submitted, SubmittedCall};
pub use undo::{NotUndone, Undoing};
pub use wait::{Until, Waited};

/// How many due approvals one sweeping transaction ends: few enough that a decision never waits long behind it.
const SWEEP: usize = 200;

/// The gate. Clones share everything.
#[derive(Clone)]
pub struct Gate {
    store: Arc<dyn Store>,
    policy: Arc<Policy>,
    executor: Arc<dyn Executor>,
    sealer: Option<Sealer>,
    pace: Option<Arc<dyn Pace>>,
}

/// Counts new approvals and says when an agent makes them too fast. Kept outside of the gate because it needs a clock
/// and memory of its own.
pub trait Pace: Send + Sync {
    /// Counts one new approval, or returns how long to wait before the next try.
    fn propose(&self, tenant: &Tenant, agent: &Agent, requester: &Person) -> Result<(), Duration>;
}

impl Gate {
    /// A gate over a store, under a policy. Without an executor, hosts start and finish calls themselves.
    pub fn new(store: Arc<dyn Store>, policy: Arc<Policy>) -> Gate {
        Gate {
            store,
            policy,
            executor: Arc::new(HostRuns),
            sealer: None,
            pace: None,
        }
    }

    /// Limits how fast agents may propose.
    pub fn with_pace(self, pace: Arc<dyn Pace>) -> Gate {
        Gate {
            pace: Some(pace),
            ..self
        }
    }

    /// Lets the gate run tools.
    pub fn with_executor(self, executor: Arc<dyn Executor>) -> Gate {
        Gate { executor, ..self }
    }

    /// Lets calls come with secrets.
    pub fn with_sealer(self, sealer: Sealer) -> Gate {
        Gate {
            sealer: Some(sealer),
            ..self
        }
    }

    /// The store behind it.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Rules on the calls of one turn: those that pass get permits, all that are held become one approval.
    ///
    /// When the approval cannot be saved, the whole submission fails and nothing of it may run.
    pub async fn submit(&self, submission: Submission) -> Result<Submitted, SubmitError> {
        check_shape(&submission)?;
        let seeds = Seeds::new()?;
        let snapshots = self.snapshots(&submission).await;
        let rulings = match submission
            .calls
            .iter()
            .any(|call| self.policy.is_slow(&call.tool, call.arguments.len()))
            || submission.conversation.as_ref().is_some_and(is_long)
        {
            false => self.rule_all(&submission, &snapshots, &seeds)?,
            // Conditions over large arguments and long conversations may take long: not on the threads that everybody
            // shares.
            true => {
                let (gate, submission) = (self.clone(), submission.clone());
                let ruling =
                    tokio::task::spawn_blocking(move || gate.rule_all(&submission, &snapshots, &seeds));
                ruling
                    .await
                    .map_err(|error| StoreError::Unavailable(error.to_string()))??
            }
        };
        self.record(&submission, seeds, rulings).await
    }

    /// Puts what was ruled on record: one approval for all held calls, and one for each that passes and is more than a
    /// read.
    async fn record(
        &self,
        submission: &Submission,
        seeds: Seeds,
        rulings: Rulings,
    ) -> Result<Submitted, SubmitError> {
        let Rulings {
            mut calls,
            held,
            passing,
        } = rulings;
        let body = submission_hash(submission, &held, None);
        let held_calls = held.len();
        let proposed = match held.is_empty() {
            true => None,
            false => {
                let propose = self.propose_command(submission.clone(), seeds, held, None);
                Some(self.propose(propose).await?)
            }
        };
        if let Some(Proposed { approval, repeated }) = &proposed {
            let is_same = approval.state != State::Passed && approval.calls.len() == held_calls;
            for ruling in &mut calls {
                match ruling {
                    // The same submission sent again is about the approval that is already there.
                    Some(Ruled::Held(call)) if is_same || !repeated => call.approval = approval.id,
                    // Under an earlier policy it passed: it ran then.
                    Some(Ruled::Held(_)) if submission.calls.len() == 1 => {
                        let call = CallId {
                            approval: approval.id,
                            position: 1,
                        };
                        *ruling = Some(Ruled::PassedBefore(call));
                    }
                    Some(Ruled::Held(_)) => {
                        return Err(reused(submission.key.clone().map(|key| (key, body))));
                    }
                    _ => {}
                }
            }
        }
        match self
            .record_passing(submission, body, passing, proposed.is_some())
            .await
        {
            Ok(passed) => {
                for (index, ruled) in passed {
                    if let Some(ruling) = calls.get_mut(index) {
                        *ruling = Some(ruled);
                    }
                }
            }
            Err(error) => {
                self.withdraw_new(submission, proposed).await;
                return Err(error);
            }
        }
        let calls: Option<Vec<Ruled>> = calls.into_iter().collect();
        let calls = calls.ok_or_else(|| StoreError::Impossible("a call without a ruling".to_owned()))?;
        let earlier = calls.iter().find_map(|ruled| match ruled {
            Ruled::Held(call) => Some(call.approval),
            _ => None,
        });
        let approval = match (proposed, earlier) {
            (Some(proposed), Some(_)) => Some(proposed.approval),
            // A call that passes now, and about which a person was asked under an earlier policy.
            (None, Some(id)) => self.store.approval(&submission.tenant, id).await?,
            (_, None) => None,
        };
        Ok(Submitted { calls, approval })
    }

    /// Takes back an approval that was proposed a moment ago, because the submission failed as a whole.
    async fn withdraw_new(&self, submission: &Submission, proposed: Option<Proposed>) {
        if let Some(Proposed {
            approval,
            repeated: false,
        }) = proposed
        {
            let by = Actor::Agent(submission.agent.clone());
            let reason = "another call of the same turn could not be recorded".to_owned();
            // Where this fails too, the question stays and expires; the agent was told that nothing was accepted.
            let _ = self
                .withdraw(&submission.tenant, approval.id, by, Some(reason))
                .await;
        }
    }

    /// Asks for approval outright: calls are held even where the policy would let them pass. One that the policy
    /// forbids, or that cannot be read, makes the whole request fail.
    pub async fn ask(&self, submission: Submission, asking: Asking) -> Result<SharedApproval, SubmitError> {
        check_shape(&submission)?;
        let seeds = Seeds::new()?;
        let snapshots = self.snapshots(&submission).await;
        let (gate, asked) = (self.clone(), submission.clone());
        // Conditions over large arguments may take long: not on the threads that everybody shares.
        let holding = tokio::task::spawn_blocking(move || gate.hold_all(&asked, asking, &snapshots, &seeds));
        let held = holding
            .await
            .map_err(|error| StoreError::Unavailable(error.to_string()))??;
        let propose = self.propose_command(submission, seeds, held, None);
        Ok(self.propose(propose).await?.approval)
    }

    fn hold_all(
        &self,
        submission: &Submission,
        asking: Asking,
        snapshots: &Snapshots,
        seeds: &Seeds,
    ) -> Result<Vec<NewCall>, SubmitError> {
        let mut held = Vec::with_capacity(submission.calls.len());
        for (position, call) in (1u8..).zip(&submission.calls) {
            let bad = |reason: String| SubmitError::NotAskable(position, reason);
            let before = snapshot_at(snapshots, held.len()).map_err(bad)?;
            let tool = ToolName::new(call.tool.as_str()).map_err(|problem| bad(problem.to_string()))?;
            let arguments =
                Arguments::parse(call.arguments.clone()).map_err(|problem| bad(problem.to_string()))?;
            let asked = Asked {
                tool: tool.as_str(),
                arguments: arguments.as_bytes(),
                definition: call.definition,
                salt: &seeds.salt,
                before: before.as_deref().map(|before| &*before.result),
            };
            let provenance = self.trace(submission, asked);
            let terms = self.policy.hold_traced(asked, provenance.as_ref(), asking.risk);
            let mut terms = terms.map_err(bad)?;
            terms.ttl = asking.ttl.map_or(terms.ttl, |ttl| ttl.min(terms.ttl));
            let id = CallId {
                approval: seeds.id,
                position,
            };
            let sealed = call.secret.as_ref();
            let sealed = sealed.map(|secret| self.seal(secret, &submission.tenant, id));
            held.push(NewCall {
                tool,
                definition: call.definition,
                arguments,
                terms: Arc::new(terms),
                sealed: sealed.transpose()?,
                provenance: provenance.map(Arc::new),
                before,
            });
        }
        Ok(held)
    }

    /// True when this gate's executor runs the tool.
    pub fn runs(&self, tool: &ToolName) -> bool {
        self.executor.runs(tool)
    }

    /// Ends everything that is due, and counts it.
    pub async fn expire_due(&self) -> Result<Swept, StoreError> {
        let mut total = Swept::default();
        loop {
            let sweep = crate::command::Sweep {
                limit: SWEEP,
                policy: self.policy.hash(),
            };
            let Answer::Sweep(swept) = self.store.write(Command::Sweep(sweep)).await? else {
                return Err(mismatch());
            };
            total.expired += swept.expired;
            total.stale += swept.stale;
            total.unknown += swept.unknown;
            if !swept.more {
                return Ok(total);
            }
        }
    }

    fn rule_all(
        &self,
        submission: &Submission,
        snapshots: &Snapshots,
        seeds: &Seeds,
    ) -> Result<Rulings, SubmitError> {
        let mut rulings = Rulings::default();
        for (index, call) in submission.calls.iter().enumerate() {
            let before = snapshot_at(snapshots, index);
            let ruled = self.rule(submission, (index, call), before, seeds, &mut rulings)?;
            rulings.calls.push(ruled);
        }
        Ok(rulings)
    }

    fn rule(
        &self,
        submission: &Submission,
        (index, call): (usize, &SubmittedCall),
        before: Result<Option<Arc<Snapshot>>, String>,
        seeds: &Seeds,
        rulings: &mut Rulings,
    ) -> Result<Option<Ruled>, SubmitError> {
        let tenant = &submission.tenant;
        let forbidden = |reason: String| Ok(Some(Ruled::Forbidden { reason }));
        let tool = match ToolName::new(call.tool.as_str()) {
            Ok(tool) => tool,
            Err(problem) => return forbidden(problem.to_string()),
        };
        let arguments = match Arguments::parse(call.arguments.clone()) {
            Ok(arguments) => arguments,
            Err(problem) => return forbidden(format!("the arguments are not acceptable: {problem}")),
        };
        let asked = Asked {
            tool: tool.as_str(),
            arguments: arguments.as_bytes(),
            definition: call.definition,
            salt: &seeds.salt,
            before: before
                .as_ref()
                .ok()
                .and_then(|before| Some(&*before.as_ref()?.result)),
        };
        let provenance = match self.policy.is_traced(asked.tool) {
            true => self.trace(submission, asked),
            false => None,
        };
        let terms = match self.policy.rule_traced(asked, provenance.as_ref()) {
            Ruling::Hold(terms) => terms,
            Ruling::Forbid { reason } => return forbidden(reason),
            // A read may repeat, and is on no record.
            Ruling::Pass(pass) if pass.effect == Effect::Read => {
                return Ok(Some(Ruled::Pass(Permit {
                    tenant: tenant.clone(),
                    tool,
                    arguments,
                    secret: call.secret.clone(),
                    timeout: pass.timeout,
                    call: None,
                    token: None,
                    since: Stopwatch::start(),
                    span: None,
                })));
            }
            Ruling::Pass(_) => {
                let seeds = Seeds::new()?;
                let asked = Asked {
                    salt: &seeds.salt,
                    before: None,
                    ..asked
                };
                let terms = match self.policy.hold_traced(asked, provenance.as_ref(), None) {
                    Ok(terms) => terms,
                    Err(reason) => return forbidden(reason),
                };
                rulings.passing.push(Passing {
                    index,
                    seeds,
                    secret: call.secret.clone(),
                    call: NewCall {
                        tool,
                        definition: call.definition,
                        arguments,
                        terms: Arc::new(terms),
                        // It starts in the transaction that records it, so its credential is never stored.
                        sealed: None,
                        provenance: provenance.map(Arc::new),
                        before: None,
                    },
                });
                return Ok(None);
            }
        };
        // Nobody is asked about what cannot be shown.
        let before = match before {
            Ok(before) => before,
            Err(reason) => {
                let secrecy = self
                    .policy
                    .secrecy_of_passed(tool.as_str(), arguments.as_bytes(), b"");
                return forbidden(secrecy.text(&reason).into_owned());
            }
        };
        let held = &mut rulings.held;
        let position = u8::try_from(held.len() + 1).unwrap_or(u8::MAX);
        let id = CallId {
            approval: seeds.id,
            position,
        };
        let sealed = call
            .secret
            .as_ref()
            .map(|secret| self.seal(secret, tenant, id))
            .transpose()?;
        let definition = call.definition;
        held.push(NewCall {
            tool,
            definition,
            arguments,
            terms: Arc::new(terms),
            sealed,
            provenance: provenance.map(Arc::new),
            before,
        });
        Ok(Some(Ruled::Held(id)))
    }

    /// Where a call's values came from, if the conversation was given.
    fn trace(&self, submission: &Submission, asked: Asked<'_>) -> Option<Provenance> {
        let told = submission.conversation.as_ref()?;
        Some(self.policy.trace(asked.tool, asked.arguments, told))
    }

    fn seal(&self, secret: &Secret, tenant: &Tenant, call: CallId) -> Result<Arc<[u8]>, SealError> {
        self.sealer
            .as_ref()
            .ok_or(SealError::NoKey)?
            .seal(secret, tenant, call)
    }

    fn propose_command(
        &self,
        submission: Submission,
        seeds: Seeds,
        calls: Vec<NewCall>,
        undoes: Option<Undoes>,
    ) -> Propose {
        let body = submission_hash(&submission, &calls, undoes);
        let is_shared = submission
            .channel
            .as_ref()
            .is_some_and(|channel| self.policy.shares(channel));
        let restraint = self.restraint(&submission, &calls);
        // The strictest call decides for all: they are one question.
        let shortest = |of: fn(&Terms) -> Duration| calls.iter().map(|call| of(&call.terms)).min();
        let ttl = shortest(|terms| terms.ttl).unwrap_or(Duration::ZERO);
        let start_within = shortest(|terms| terms.start_within.unwrap_or(terms.ttl)).unwrap_or(ttl);
        Propose {
            tenant: submission.tenant,
            id: seeds.id,
            channel: submission.channel,
            agent: submission.agent,
            run: submission.run,
            session: submission.session,
            requester: submission.requester,
            on_behalf_of: submission.on_behalf_of,
            claim: submission.claim,
            nonce: seeds.nonce,
            salt: seeds.salt,
            ttl,
            start_within,
            policy: self.policy.hash(),
            undoes,
            key: submission.key.map(|key| (key, body)),
            restraint,
            is_shared,
            passes: None,
            calls,
        }
    }

    fn restraint(&self, submission: &Submission, calls: &[NewCall]) -> Option<Restraint> {
        let agents = self.policy.agents();
        let calls = calls
            .iter()
            .map(|call| (call.tool.as_str(), call.arguments.as_bytes()));
        let denial = agents
            .cool_down
            .map(|wait| (CallSet::of(&submission.tenant, &submission.agent, calls), wait));
        let is_limited = agents.most_pending.is_some() || denial.is_some();
        is_limited.then_some(Restraint {
            most_pending: agents.most_pending,
            joins: agents.joins,
            denial,
        })
    }

    async fn propose(&self, propose: Propose) -> Result<Proposed, SubmitError> {
        if let Some(pace) = &self.pace {
            let Propose {
                tenant,
                agent,
                requester,
                ..
            } = &propose;
            let counted = pace.propose(tenant, agent, requester);
            counted.map_err(|retry_after| SubmitError::TooFast { retry_after })?;
        }
        self.write_proposal(propose).await
    }

    async fn write_proposal(&self, propose: Propose) -> Result<Proposed, SubmitError> {
        match self.store.write(Command::Propose(Box::new(propose))).await? {
            Answer::Propose(proposed) => Ok(proposed?),
            _ => Err(mismatch().into()),
        }
    }
}

/// Rulings on the calls of one submission, before any of them is recorded.
#[derive(Default)]
struct Rulings {
    /// One per call, in order; nothing yet for those that are in `passing`.
    calls: Vec<Option<Ruled>>,
    held: Vec<NewCall>,
    /// Calls that pass and are more than reads.
    passing: Vec<Passing>,
}

fn check_shape(submission: &Submission) -> Result<(), SubmitError> {
    let count = submission.calls.len();
    if count == 0 || count > MOST_CALLS {
        return Err(SubmitError::CallCount(count));
    }
    match &submission.claim {
        Some(claim) if claim.len() > LONGEST_CLAIM => Err(SubmitError::ClaimTooLong(claim.len())),
        _ => Ok(()),
    }
}

/// The snapshot for the call at an index, or why there is none where one has to be.
fn snapshot_at(snapshots: &Snapshots, at: usize) -> Result<Option<Arc<Snapshot>>, String> {
    snapshots.get(at).cloned().flatten().transpose()
}

/// What makes an approval unguessable.
#[derive(Clone, Copy)]
struct Seeds {
    id: ApprovalId,
    nonce: [u8; 16],
    salt: [u8; 16],
}

impl Seeds {
    fn new() -> Result<Seeds, StoreError> {
        // One request for randomness: this is on the way of every read.
        let mut random = [0; 42];
        fill(&mut random)?;
        let (id, rest) = random.split_at(10);
        let (nonce, salt) = rest.split_at(16);
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // Only the order of ids depends on this clock, nothing else.
        let millis = since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
        Ok(Seeds {
            id: ApprovalId::from_parts(millis, &array(id)),
            nonce: array(nonce),
            salt: array(salt),
        })
    }
}

/// The first bytes of a slice that has them.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    array
}

fn fill(bytes: &mut [u8]) -> Result<(), StoreError> {
    getrandom::fill(bytes)
        .map_err(|error| StoreError::Unavailable(format!("no random bytes to be had: {error}")))
}

/// A permit's token, made before the start of its call is written.
#[derive(Clone)]
struct StartToken {
    token: PermitToken,
    since: Stopwatch,
}

impl StartToken {
    fn new() -> Result<StartToken, StoreError> {
        let mut token = [0; 32];
        fill(&mut token)?;
        Ok(StartToken {
            token: PermitToken(token),
            since: Stopwatch::start(),
        })
    }

    fn hash(&self) -> Hash {
        self.token.hash()
    }
}

/// What an idempotency key stands for: everything a retry of the same submission has in common with it. `calls` are those that the
/// gate made itself, for a submission that has none of its own.
fn submission_hash(submission: &Submission, calls: &[NewCall], undoes: Option<Undoes>) -> Hash {
    let text = |name: Option<&str>| name.map(|name| name.as_bytes().to_vec());
    let mut fields = Fields::new("countersign/submission/1")
        .optional(text(submission.channel.as_ref().map(Channel::as_str)).as_deref())
        .optional(text(submission.run.as_ref().map(Run::as_str)).as_deref())
        .optional(text(undoes.map(|undoes| undoes.to_string()).as_deref()).as_deref())
        .number(calls.len().max(submission.calls.len()) as u64);
    let submitted = submission
        .calls
        .iter()
        .map(|call| (call.tool.as_str(), call.definition, &*call.arguments));
    let made = calls
        .iter()
        .filter(|_| submission.calls.is_empty())
        .map(|call| (call.tool.as_str(), call.definition, call.arguments.as_bytes()));
    for (tool, definition, arguments) in submitted.chain(made) {
        fields = fields
            .field(tool.as_bytes())
            .optional(definition.hash().as_ref().map(|hash| hash.0.as_slice()))
            .field(arguments);
    }
    fields.finish()
}

/// Whether looking through a conversation may take longer than a thread that others wait for should be held.
fn is_long(told: &Told) -> bool {
    const LONG_FROM: usize = 64 * 1024;
    let bytes = told
        .conversation()
        .messages
        .iter()
        .map(|message| message.text().len());
    bytes.sum::<usize>() >= LONG_FROM
}

/// A store that answers something else than it was asked.
fn mismatch() -> StoreError {
    StoreError::Impossible("the store answered another question".to_owned())
}
