//! The gate between an agent's calls and the tools that run them.
//!
//! An agent submits the calls of one turn. Calls that the policy passes get a permit; the others are held in an
//! approval until people decide. The gate then starts the released calls and records their outcomes. This module
//! determines the order of these steps: the rules are in [`policy`](crate::policy), and storing and running are behind
//! [`Store`] and [`Executor`].
//!
//! The gate fails closed: before a start is on record, any error, timeout or unknown answer means that nothing runs.

mod concerns;
mod decide;
mod flag;
mod follow;
#[cfg(feature = "reply")]
mod hear;
mod passed;
mod ruling;
mod run;
mod snapshots;
mod submission;
mod trace;
mod undo;
mod unrecorded;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use crate::approval::{MOST_CALLS, SharedApproval};
use crate::call::{Arguments, Call};
use crate::command::{
    Answer, CallSet, Command, NewCall, Propose, ProposeRefusal, Proposed, Restraint, Swept,
};
use crate::executor::{Executor, NoExecutor, PermitToken};
use crate::hash::{Fields, Hash};
use crate::id::{Actor, Agent, ApprovalId, CallId, Channel, Person, Run, Tenant, ToolName};
use crate::policy::{CallRequest, Policy, Terms};
use crate::seal::{SealError, Sealer, Secret};
use crate::secrecy::{Concealed, Secrecy, concealed_with};
use crate::state::State;
use crate::stopwatch::Stopwatch;
use crate::store::{Store, StoreError};
use crate::undoes::Undoes;

pub use concerns::Concerns;
pub use decide::{KEPT, Resolved, Running};
pub use flag::{Flagged, GUIDE, confirmation, declares_flag, is_flagged, is_same_but_for_the_flag};
pub use follow::ReleasedCursor;
#[cfg(feature = "reply")]
pub(crate) use hear::may_answer;
#[cfg(feature = "reply")]
pub use hear::{Reply, ReplyOutcome};
use passed::reused;
use ruling::{Rulings, snapshot_at};
pub use run::Ran;
use snapshots::Snapshots;
pub use submission::{
    ApprovalOptions, Foreseen, LONGEST_CLAIM, Ruled, Submission, SubmissionOptions, SubmitError, Submitted,
    SubmittedCall,
};
pub use undo::{NotUndone, Undoing};
use unrecorded::Unrecorded;
pub use wait::{Until, Waited};

/// Maximum number of approvals per sweep transaction: few enough that a decision never waits long for a sweep.
const SWEEP: usize = 200;

/// The gate: rules on an agent's calls, holds them for people, and issues the permits to run them. Clones share all
/// state.
///
/// ```
/// use countersign::{Gate, MemoryStore, Policy, Ruled, Submission, SubmittedCall, Tenant};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let policy = Policy::parse("[tools.search]\neffect = \"read\"\n[tools.send_mail]\neffect = \"external\"")?;
/// let gate = Gate::new(MemoryStore::default(), policy);
/// let calls = vec![
///     SubmittedCall::new("search", r#"{"query":"maria"}"#),
///     SubmittedCall::new("send_mail", r#"{"to":"maria@acme.com"}"#),
/// ];
/// let submitted = gate.submit(Submission::new(Tenant::single(), "crm", "crm-token", calls)?).await?;
/// // The read may run at once. The mail waits for a person; until then there is no permit for it.
/// assert!(matches!(submitted.calls[..], [Ruled::Pass { .. }, Ruled::Held { .. }]));
/// assert_eq!(submitted.approval.map(|approval| approval.calls.len()), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Gate {
    store: Arc<dyn Store>,
    policy: Arc<Policy>,
    executor: Arc<dyn Executor>,
    sealer: Option<Sealer>,
    pace: Option<Arc<dyn Pace>>,
    unrecorded: Arc<Unrecorded>,
}

/// Rate limiter for new approvals. It is implemented outside of the gate, because it needs its own clock and memory.
pub trait Pace: Send + Sync {
    /// Counts one new approval. If the limit is reached, returns how long to wait before the next try.
    fn propose(&self, tenant: &Tenant, agent: &Agent, requester: &Person) -> Result<(), Duration>;
}

impl Gate {
    /// Creates a gate over a store, under a policy. Without an executor, hosts start and finish calls themselves.
    ///
    /// The store and the executor can be shared with the host, by passing an [`Arc`].
    pub fn new(store: impl Store, policy: impl Into<Arc<Policy>>) -> Gate {
        Gate {
            store: Arc::new(store),
            policy: policy.into(),
            executor: Arc::new(NoExecutor),
            sealer: None,
            pace: None,
            unrecorded: Arc::default(),
        }
    }

    /// Limits how fast agents may propose. When the limit is reached, new proposals fail with [`SubmitError::TooFast`].
    pub fn with_pace(self, pace: Arc<dyn Pace>) -> Gate {
        Gate {
            pace: Some(pace),
            ..self
        }
    }

    /// Sets the executor, so that the gate itself runs the executor's tools.
    pub fn with_executor(self, executor: impl Executor) -> Gate {
        Gate {
            executor: Arc::new(executor),
            ..self
        }
    }

    /// Sets the sealer, so that held calls may carry secrets. The secrets are encrypted while the calls wait.
    #[cfg(feature = "seal")]
    pub fn with_sealer(self, sealer: Sealer) -> Gate {
        Gate {
            sealer: Some(sealer),
            ..self
        }
    }

    /// Returns the store that the gate writes to.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Returns the policy in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Rules on the calls of one turn. Calls that pass get permits; all held calls together become one approval.
    ///
    /// If the approval cannot be saved, the whole submission fails and none of its calls may run.
    pub async fn submit(&self, submission: Submission) -> Result<Submitted, SubmitError> {
        self.check_shape(&submission)?;
        let seeds = Seeds::new()?;
        let snapshots = self.snapshots(&submission).await;
        let rulings = self.rule_off_thread(&submission, snapshots, seeds).await?;
        if let Some((approval, positions)) = self.held_before(&submission, seeds, &rulings).await? {
            let id = approval.id;
            let held = |position| {
                Ruled::Held(CallId {
                    approval: id,
                    position,
                })
            };
            let calls = rulings.calls.into_iter().zip(positions);
            return Ok(Submitted {
                calls: calls
                    .filter_map(|(ruled, position)| position.map(held).or(ruled))
                    .collect(),
                approval: Some(approval),
            });
        }
        Self::check_times(submission.options, &rulings.held)?;
        self.record(&submission, seeds, rulings).await
    }

    /// Returns the approval of an earlier request under the same idempotency key, and for each call its position there if
    /// it was held. A call that was held then may be forbidden now: because the policy has changed, or because what it
    /// would change can no longer be read, perhaps since the call itself has run. `None` if nothing is forbidden, or if
    /// there was no such request.
    async fn held_before(
        &self,
        submission: &Submission,
        seeds: Seeds,
        rulings: &Rulings,
    ) -> Result<Option<(SharedApproval, Vec<Option<u8>>)>, SubmitError> {
        let is_forbidden = |ruled: &Option<Ruled>| matches!(ruled, Some(Ruled::Forbidden { .. }));
        let may_differ = rulings.passing.is_empty() && rulings.calls.iter().any(is_forbidden);
        if submission.key.is_none() || !may_differ {
            return Ok(None);
        }
        let look = self.propose_command(submission.clone(), seeds, Vec::new(), None);
        let approval = match self.write_proposal(look).await {
            Ok(Proposed { approval, .. }) if approval.state != State::Passed => approval,
            Ok(_) | Err(SubmitError::Refused(ProposeRefusal::NothingEarlier)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let earlier = approval.clone();
        let mut held = earlier.numbered().peekable();
        let mut positions = Vec::with_capacity(submission.calls.len());
        for (submitted, ruled) in submission.calls.iter().zip(&rulings.calls) {
            let is_same = |(_, call): &(u8, &Call)| {
                let proposed = call.original.as_ref().unwrap_or(&call.arguments);
                call.tool.as_str() == submitted.tool && proposed.as_bytes() == &*submitted.arguments
            };
            let position = held.next_if(is_same).map(|(position, _)| position);
            if position.is_none() && matches!(ruled, Some(Ruled::Held(_))) {
                return Ok(None);
            }
            positions.push(position);
        }
        let is_whole = held.next().is_none();
        Ok(is_whole.then_some((approval, positions)))
    }

    /// Rules on the calls of one turn without recording, proposing or running anything. Reads nothing either: what a
    /// held call would change is not part of its terms here.
    pub async fn preview_submission(&self, submission: &Submission) -> Result<Vec<Foreseen>, SubmitError> {
        self.check_shape(submission)?;
        let seeds = Seeds::new()?;
        let rulings = self.rule_off_thread(submission, Snapshots::new(), seeds).await?;
        Self::check_times(submission.options, &rulings.held)?;
        let Rulings { calls, held, passing } = rulings;
        let (mut held, mut passing) = (held.into_iter(), passing.into_iter());
        let foreseen = calls.into_iter().map(|ruled| match ruled {
            None => Foreseen::Pass(passing.next().map(|passing| passing.call.terms)),
            Some(Ruled::Pass(_) | Ruled::PassedBefore(_)) => Foreseen::Pass(None),
            Some(Ruled::Held(_)) => Foreseen::Held(held.next().map(|call| call.terms)),
            Some(Ruled::Forbidden { reason } | Ruled::Malformed { reason }) => Foreseen::Forbidden { reason },
        });
        Ok(foreseen.collect())
    }

    /// Rules on the calls, on another thread if that may take long.
    async fn rule_off_thread(
        &self,
        submission: &Submission,
        snapshots: Snapshots,
        seeds: Seeds,
    ) -> Result<Rulings, SubmitError> {
        match submission
            .calls
            .iter()
            .any(|call| self.policy.is_slow(&call.tool, call.arguments.len()))
            || trace::is_long(submission)
        {
            false => self.rule_all(submission, &snapshots, &seeds),
            // Conditions on large arguments and long conversations may take long: keep them off the async worker
            // threads.
            true => {
                let (gate, submission) = (self.clone(), submission.clone());
                let ruling =
                    tokio::task::spawn_blocking(move || gate.rule_all(&submission, &snapshots, &seeds));
                ruling
                    .await
                    .map_err(|error| StoreError::Unavailable(error.to_string()))?
            }
        }
    }

    /// Records the rulings: one approval for all held calls, and one record for each passed call whose effect is not
    /// `read`.
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
        let body = self.submission_hash(submission, &held, None);
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
                    // A retry refers to the existing approval.
                    Some(Ruled::Held(call)) if is_same || !repeated => call.approval = approval.id,
                    // The call passed under an earlier policy, and ran at that time.
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
            // The call passes now, but a person was asked about it under an earlier policy.
            (None, Some(id)) => self.store.approval(&submission.tenant, id).await?,
            (_, None) => None,
        };
        Ok(Submitted { calls, approval })
    }

    /// Withdraws an approval that was just proposed, because the submission failed as a whole.
    async fn withdraw_new(&self, submission: &Submission, proposed: Option<Proposed>) {
        if let Some(Proposed {
            approval,
            repeated: false,
        }) = proposed
        {
            let by = Actor::Agent(submission.agent.clone());
            let reason = "another call of the same turn could not be recorded".to_owned();
            // If this fails as well, the approval stays until it expires. The agent was told that nothing was accepted.
            let _ = self
                .withdraw(&submission.tenant, approval.id, by, Some(reason))
                .await;
        }
    }

    /// Asks for approval explicitly: holds calls even if the policy would let them pass. Fails for all calls if one of
    /// them is forbidden or malformed.
    pub async fn ask(
        &self,
        submission: Submission,
        options: ApprovalOptions,
    ) -> Result<SharedApproval, SubmitError> {
        self.check_shape(&submission)?;
        let seeds = Seeds::new()?;
        let snapshots = self.snapshots(&submission).await;
        let (gate, submitted) = (self.clone(), submission.clone());
        // Conditions on large arguments may take long: keep them off the async worker threads.
        let holding =
            tokio::task::spawn_blocking(move || gate.hold_all(&submitted, options, &snapshots, &seeds));
        let held = holding
            .await
            .map_err(|error| StoreError::Unavailable(error.to_string()))??;
        Self::check_times(submission.options, &held)?;
        let propose = self.propose_command(submission, seeds, held, None);
        Ok(self.propose(propose).await?.approval)
    }

    fn hold_all(
        &self,
        submission: &Submission,
        options: ApprovalOptions,
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
            if let Some(problem) = self.policy.too_many_secrets(tool.as_str(), arguments.as_bytes()) {
                return Err(bad(problem.with_hint()));
            }
            let request = CallRequest {
                tool: tool.as_str(),
                arguments: arguments.as_bytes(),
                definition: call.definition,
                salt: &seeds.salt,
                before: before.as_deref().map(|before| &*before.result),
                working_folder: call.working_folder.as_deref(),
            };
            let provenance = self.trace(submission, request);
            let terms = self
                .policy
                .hold_traced(request, provenance.as_ref(), options.risk);
            let mut terms = terms.map_err(bad)?;
            if let Some(asked) = options.ttl {
                let limit = terms.ttl;
                if asked > limit {
                    return Err(SubmitError::TtlTooLong { asked, limit });
                }
                terms.ttl = asked;
            }
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
                working_folder: call.working_folder.clone(),
            });
        }
        match self.concealed(&held, None, seeds) {
            Some(concealed) => Err(SubmitError::NotAskable(concealed.call, concealed.with_hint())),
            None => Ok(held),
        }
    }

    /// Returns the first value or name in these calls that is not secret but would be hidden from the approver, because
    /// it repeats one of the calls' secrets; `None` if there is none. If `new` is given, only the call at that position
    /// has to be compared: the others are known not to hide parts of each other.
    fn concealed(&self, calls: &[NewCall], new: Option<u8>, seeds: &Seeds) -> Option<Concealed> {
        let calls: Vec<Call> = calls.iter().map(NewCall::hold).collect();
        let secrecy = |call| Secrecy::of(call, &self.policy, &seeds.salt);
        concealed_with(calls.iter().map(|call| (call, secrecy(call))), new)
    }

    /// Returns true if this gate's executor runs the tool; false if the host has to run it.
    pub fn runs(&self, tool: &ToolName) -> bool {
        self.executor.runs(tool)
    }

    /// Records everything that is due: approvals that have expired, released calls that were not started in time,
    /// running calls past their deadline, and expired registry entries. Uses several transactions if necessary, and
    /// returns the counts.
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
            total.entries += swept.entries;
            total.broken = total.broken.max(swept.broken);
            if !swept.more {
                return Ok(total);
            }
        }
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
        let body = self.submission_hash(&submission, &calls, undoes);
        let is_shared = submission
            .channel
            .as_ref()
            .is_some_and(|channel| self.policy.shares(channel));
        let restraint = self.restraint(&submission, &calls);
        // The shortest times apply to all calls, since they form one question.
        let shortest = |of: fn(&Terms) -> Duration| calls.iter().map(|call| of(&call.terms)).min();
        let options = submission.options;
        let ttl = shortest(|terms| terms.ttl).unwrap_or(Duration::ZERO);
        let start_within = shortest(|terms| terms.start_within.unwrap_or(terms.ttl)).unwrap_or(ttl);
        // `check_times` has refused longer ones than these.
        let ttl = options.ttl.map_or(ttl, |asked| asked.min(ttl));
        let start_within = options
            .start_within
            .map_or(start_within, |asked| asked.min(start_within));
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
            order: options.order,
            calls,
        }
    }

    /// Checks that the agent asks for no more time than the policy allows for these calls.
    fn check_times(options: SubmissionOptions, calls: &[NewCall]) -> Result<(), SubmitError> {
        let shortest = |of: fn(&Terms) -> Duration| calls.iter().map(|call| of(&call.terms)).min();
        if let (Some(asked), Some(limit)) = (options.ttl, shortest(|terms| terms.ttl))
            && asked > limit
        {
            return Err(SubmitError::TtlTooLong { asked, limit });
        }
        let longest_start = shortest(|terms| terms.start_within.unwrap_or(terms.ttl));
        if let (Some(asked), Some(limit)) = (options.start_within, longest_start)
            && asked > limit
        {
            return Err(SubmitError::StartWithinTooLong { asked, limit });
        }
        Ok(())
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

    fn check_shape(&self, submission: &Submission) -> Result<(), SubmitError> {
        let count = submission.calls.len();
        if count == 0 || count > MOST_CALLS {
            return Err(SubmitError::CallCount(count));
        }
        for secret in submission.calls.iter().filter_map(|call| call.secret.as_ref()) {
            secret.check()?;
            // Without the sealing key, a retry with another credential could not be distinguished from one with the
            // same credential.
            if submission.key.is_some() && self.sealer.is_none() {
                return Err(SealError::NoKey.into());
            }
        }
        match &submission.claim {
            Some(claim) if claim.len() > LONGEST_CLAIM => Err(SubmitError::ClaimTooLong(claim.len())),
            _ => Ok(()),
        }
    }

    /// Returns the request hash stored with an idempotency key: everything that a retry of the submission must repeat.
    /// `calls` are used if the submission has none of its own, as for an undo.
    ///
    /// Credentials are included as keyed hashes, so that a reader of the store cannot test guesses against them.
    fn submission_hash(&self, submission: &Submission, calls: &[NewCall], undoes: Option<Undoes>) -> Hash {
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
        // Submissions without a person, options, working folders or credentials keep the hash that earlier versions
        // computed.
        if let Some(person) = &submission.on_behalf_of {
            fields = fields.field(b"on behalf of").field(person.as_str().as_bytes());
        }
        let options = submission.options;
        if options != SubmissionOptions::default() {
            let millis = |time: Option<Duration>| time.map(|time| time.as_millis().to_be_bytes());
            fields = fields
                .field(b"options")
                .field(options.order.as_str().as_bytes())
                .optional(millis(options.ttl).as_ref().map(<[u8; 16]>::as_slice))
                .optional(millis(options.start_within).as_ref().map(<[u8; 16]>::as_slice));
        }
        if submission.calls.iter().any(|call| call.working_folder.is_some()) {
            fields = fields.field(b"folders");
            for call in &submission.calls {
                let folder = call.working_folder.as_ref().map(|folder| folder.hash());
                fields = fields.optional(folder.as_ref().map(|folder| folder.0.as_slice()));
            }
        }
        if submission.calls.iter().any(|call| call.secret.is_some()) {
            fields = fields.field(b"credentials");
            for call in &submission.calls {
                let secret = call.secret.as_ref().zip(self.sealer.as_ref());
                let mark = secret.map(|(secret, sealer)| sealer.mark(secret, &submission.tenant));
                fields = fields.optional(mark.as_ref().map(|mark| mark.0.as_slice()));
            }
        }
        fields.finish()
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

/// Id and random values of a new approval.
#[derive(Clone, Copy)]
struct Seeds {
    id: ApprovalId,
    nonce: [u8; 16],
    salt: [u8; 16],
}

impl Seeds {
    fn new() -> Result<Seeds, StoreError> {
        // A single request for randomness, because every submission makes one.
        let mut random = [0; 42];
        fill(&mut random)?;
        let (id, rest) = random.split_at(10);
        let (nonce, salt) = rest.split_at(16);
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // Only the order of ids depends on this clock.
        let millis = since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
        Ok(Seeds {
            id: ApprovalId::from_parts(millis, &array(id)),
            nonce: array(nonce),
            salt: array(salt),
        })
    }
}

/// Copies the first `N` bytes of a slice that has at least that many.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    array
}

fn fill(bytes: &mut [u8]) -> Result<(), StoreError> {
    getrandom::fill(bytes).map_err(|error| {
        StoreError::Unavailable(format!("the operating system returned no random bytes: {error}"))
    })
}

/// A permit token with a stopwatch. Both are created before the start of the call is recorded.
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

    /// Returns a start token with a token that the caller has computed.
    fn of(token: PermitToken) -> StartToken {
        StartToken {
            token,
            since: Stopwatch::start(),
        }
    }

    fn hash(&self) -> Hash {
        self.token.hash()
    }
}

/// Returns the error for a store whose answer does not belong to the command.
fn mismatch() -> StoreError {
    StoreError::Impossible("internal error: the store returned an unexpected answer".to_owned())
}
