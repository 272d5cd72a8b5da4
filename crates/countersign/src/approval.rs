//! An approval: the question put to a person, with the calls that wait for the answer.
//!
//! States change only through events, in `Approval::record`. The rules on who may decide, and when, are in `command`.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::call::{Call, RefusalReason};
use crate::event::{Event, EventKind};
use crate::hash::{Fields, Hash};
use crate::id::{Actor, Agent, ApprovalId, Channel, Key, Person, Run, Session, Tenant};
use crate::policy::Policy;
use crate::secrecy::Secrecy;
use crate::state::{CallState, Illegal, State};
use crate::time::Time;
use crate::undoes::Undoes;

/// Maximum number of calls in one approval.
pub const MOST_CALLS: usize = 100;

/// A request for a human decision.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Approval {
    /// Unique id. Ids sort by time of creation.
    pub id: ApprovalId,
    /// Tenant that owns the approval.
    pub tenant: Tenant,
    /// Conversation that the approval belongs to, if any.
    pub channel: Option<Channel>,
    /// Agent that proposed the calls.
    pub agent: Agent,
    /// Run of the agent, if given.
    pub run: Option<Run>,
    /// Session of the agent, if given.
    pub session: Option<Session>,
    /// Credential with which the calls were proposed.
    pub requester: Person,
    /// Person for whom the agent acts, if known.
    pub on_behalf_of: Option<Person>,
    /// The agent's own description, if it gave one; an unchecked claim.
    pub claim: Option<String>,
    /// Secret that makes button payloads unguessable.
    pub nonce: [u8; 16],
    /// Salt that keeps digests from confirming guesses of short arguments.
    pub salt: [u8; 16],
    /// Time of the proposal.
    pub created_at: Time,
    /// Time from which the approval can no longer be decided.
    pub expires_at: Time,
    /// Maximum time between the decision and the start of the calls.
    pub start_within: Duration,
    /// Hash of the policy under which the approval was created.
    pub policy: Hash,
    /// Digest over the digests of the calls, as proposed.
    pub digest: Hash,
    /// State after the last event.
    pub state: State,
    /// Time at which the approval was decided or otherwise ended; `None` while it is pending.
    pub ended_at: Option<Time>,
    /// Time of the last event.
    pub changed_at: Time,
    /// Number of the last event. A store saves a change only if the stored version is still the one that was read.
    pub version: u32,
    /// Link of the last event: the hash that chains it to the events before it.
    pub link: Hash,
    /// The decision; `None` if no person has decided yet or the approval ended without one.
    pub decision: Option<Decided>,
    /// Approvals by single people, given while further people had to approve.
    pub endorsements: Vec<Endorsement>,
    /// Newer approval that replaced this one, if any.
    pub superseded_by: Option<ApprovalId>,
    /// Older approval that this one replaced, if any.
    pub replaces: Option<ApprovalId>,
    /// Calls that this approval undoes when it runs; `None` if it is no undo.
    pub undoes: Option<Undoes>,
    /// Idempotency key of the proposal, if it had one, with the hash of the request.
    pub key: Option<(Key, Hash)>,
    /// Number of refused decisions on record.
    pub refusals: u8,
    /// Number of refused decisions on record for each actor. The number is limited, so that one actor cannot use up the
    /// room for others.
    pub tried: Vec<(Actor, u8)>,
    /// Time at which the content was erased; `None` if it is still stored.
    pub erased_at: Option<Time>,
    /// Order in which the calls may be started.
    pub order: Order,
    /// Calls, in the order in which they would run.
    pub calls: Vec<Call>,
}

/// Order in which the approved calls of one approval may be started. Part of what a person approves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// One after the other, in the order in which they were proposed. A call that does not succeed stops those after
    /// it, unless the policy says otherwise.
    #[default]
    Given,
    /// In any order, also several at the same time. A call that does not succeed stops no other.
    Any,
}

impl Order {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Order::Given => "given",
            Order::Any => "any",
        }
    }
}

/// Note on the card of calls that may start in any order.
const ANY_ORDER: &str = "the calls of this card may start in any order, also at the same time; one that fails does not stop the others";

/// Decision that ended a pending approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Decided {
    /// True if at least one call was approved.
    pub approved: bool,
    /// The person who decided, identified by their credential.
    pub by: Person,
    /// Time of the decision, by the store's clock.
    pub at: Time,
    /// Surface from which the person decided.
    pub surface: String,
    /// Comment that the person gave with the decision, if any; removed when the content is erased.
    pub comment: Option<String>,
    /// Decider named in the request's body, if any; an unchecked claim.
    pub claimed_by: Option<String>,
    /// Idempotency key of the decision, if it had one, with the hash of the request.
    pub key: Option<(Key, Hash)>,
}

/// Approval by one person, where several people have to approve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Endorsement {
    /// The person who approved, identified by their credential.
    pub by: Person,
    /// Time of the decision, by the store's clock.
    pub at: Time,
    /// Surface from which the person decided.
    pub surface: String,
    /// Positions of the approved calls; `None` if the person approved all of them.
    pub calls: Option<Vec<u8>>,
    /// Comment that the person gave with the decision, if any; removed when the content is erased.
    pub comment: Option<String>,
    /// Decider named in the request's body, if any; an unchecked claim.
    pub claimed_by: Option<String>,
    /// Idempotency key of the decision, if it had one, with the hash of the request.
    pub key: Option<(Key, Hash)>,
    /// Account with which the endorsement was given. The endorsement counts only while that account is unchanged.
    #[serde(skip)]
    pub account: EndorsingAccount,
    /// True once the account was found changed or removed; the endorsement then never counts again.
    #[serde(skip)]
    pub lapsed: bool,
}

/// Account with which a person endorsed an approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndorsingAccount {
    /// No account was recorded, as in rows of the first release. The endorsement does not count.
    #[default]
    Unknown,
    /// The person used no account, because the endorsement was given on the machine that holds the store.
    NoAccount,
    /// Account with this key in the registry. The hash is that of the account's body at the time.
    Account(String, Hash),
}

impl Endorsement {
    /// Returns true if this endorsement approves the call at this position.
    pub fn grants(&self, position: u8) -> bool {
        self.calls.as_ref().is_none_or(|calls| calls.contains(&position))
    }
}

/// Leaves out the nonce and the salt, which are secret.
impl std::fmt::Debug for Approval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approval")
            .field("id", &self.id)
            .field("tenant", &self.tenant)
            .field("agent", &self.agent)
            .field("state", &self.state)
            .field("version", &self.version)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

impl Approval {
    /// Returns the approximate size in bytes of the approval's arguments, results and snapshots. Used to limit the size
    /// of lists.
    pub fn weight(&self) -> usize {
        const EACH_CALL: usize = 256;
        let calls = self.calls.iter().map(|call| {
            let original = call
                .original
                .as_ref()
                .map_or(0, |original| original.as_bytes().len());
            let result = call.result.as_ref().map_or(0, |result| result.len());
            let before = call.before.as_ref().map_or(0, |before| {
                before.arguments.as_bytes().len() + before.result.len()
            });
            EACH_CALL + call.arguments.as_bytes().len() + original + result + before
        });
        calls.sum()
    }

    /// Returns the call at `position`, counted from 1; `None` if there is no such call.
    pub fn call(&self, position: u8) -> Option<&Call> {
        self.calls.get(usize::from(position).checked_sub(1)?)
    }

    pub(crate) fn call_mut(&mut self, position: u8) -> Option<&mut Call> {
        self.calls.get_mut(usize::from(position).checked_sub(1)?)
    }

    /// Iterates over the calls with their positions, counted from 1.
    pub fn numbered(&self) -> impl Iterator<Item = (u8, &Call)> {
        (1u8..).zip(&self.calls)
    }

    /// Computes the digest over the digests of the calls, in order.
    pub fn digest_of_calls(&self) -> Hash {
        digest_of(self.calls.iter().map(|call| call.digest))
    }

    /// Returns the values that are secret by the terms of a call or by `policy`, so that texts can be shown without
    /// them.
    pub fn secrecy(&self, policy: &Policy) -> Secrecy {
        let each = self
            .calls
            .iter()
            .map(|call| Secrecy::of(call, policy, &self.salt));
        each.reduce(Secrecy::and).unwrap_or_default()
    }

    /// Returns true if version 0.1.0 of the service ran the proposing agent itself. Such an agent had the same name as
    /// its token, and its channel was `AGENT/SESSION/PERSON`.
    pub fn is_of_older_talk(&self) -> bool {
        let agent = self.agent.as_str();
        let is_named = |text: &str, before: &str, after: &str| {
            text.strip_prefix(before)
                .and_then(|rest| rest.strip_prefix(agent))
                .is_some_and(|rest| rest.starts_with(after))
        };
        self.requester.as_str().len() == "agent:".len() + agent.len()
            && is_named(self.requester.as_str(), "agent:", "")
            && self
                .channel
                .as_ref()
                .is_some_and(|channel| is_named(channel.as_str(), "", "/"))
    }

    /// Computes the hash of a call's result for the history. The hash is salted, so that it cannot confirm a guess at
    /// the result once the salt has been erased.
    pub fn hash_of_result(&self, result: &[u8]) -> Hash {
        Fields::new("countersign/result/1")
            .field(&self.salt)
            .field(result)
            .finish()
    }

    /// Returns the number of different people who must approve: the maximum over all calls.
    pub fn quorum(&self) -> u8 {
        let asked = self.calls.iter().map(|call| call.terms.authority().quorum);
        asked.max().unwrap_or(1).max(1)
    }

    /// Iterates over the endorsements that have not lapsed.
    pub fn in_force(&self) -> impl Iterator<Item = &Endorsement> {
        self.endorsements.iter().filter(|endorsed| !endorsed.lapsed)
    }

    /// Returns the number of people who still have to approve: at least 1 while the approval is pending, 0 afterwards.
    pub fn missing(&self) -> u8 {
        match self.state {
            State::Pending => {
                let found = u8::try_from(self.in_force().count()).unwrap_or(u8::MAX);
                self.quorum().saturating_sub(found).max(1)
            }
            _ => 0,
        }
    }

    /// Returns the time at which a sweep has to act, because the approval expires, a released call becomes stale, or a
    /// running call counts as lost. `None` if nothing is open.
    pub fn due_at(&self) -> Option<Time> {
        if self.state == State::Pending {
            return Some(self.expires_at);
        }
        let running = self.calls.iter().filter(|call| call.state == CallState::Running);
        let deadline = running
            .filter_map(|call| call.execution.as_ref())
            .map(|run| run.deadline)
            .min();
        deadline.or_else(|| self.stale_at())
    }

    /// Returns the time at which the released calls become stale; `None` if no call is released, or while one is
    /// running.
    pub fn stale_at(&self) -> Option<Time> {
        self.start_by().filter(|_| self.is_released())
    }

    /// Returns the notes that every card shows about one of the approval's calls: those of [`Call::notes`], and that
    /// the calls may start in any order. The texts are not escaped.
    pub fn notes_on(&self, call: &Call) -> Vec<String> {
        let order = (self.order == Order::Any).then(|| ANY_ORDER.to_owned());
        order.into_iter().chain(call.notes()).collect()
    }

    /// Returns the time until which released calls may be started; `None` before the decision. In a batch, the interval
    /// starts again whenever a call ends.
    pub fn start_by(&self) -> Option<Time> {
        let ends = self
            .calls
            .iter()
            .filter_map(|call| call.execution.as_ref()?.ended_at);
        let latest = ends
            .chain(self.decision.as_ref().map(|decided| decided.at))
            .max()?;
        Some(latest.plus(self.start_within))
    }

    /// Returns the position of the call that may be started next; `None` if no call is released, or while another call
    /// is running that has to end first.
    pub fn next_released(&self) -> Option<u8> {
        let earlier_runs =
            self.order == Order::Given && self.calls.iter().any(|call| call.state == CallState::Running);
        let mut released = self
            .numbered()
            .filter(|(_, call)| call.state == CallState::Released);
        released
            .next()
            .map(|(position, _)| position)
            .filter(|_| !earlier_runs)
    }

    /// Returns true if the approval is no longer pending and all its calls are over.
    pub fn is_finished(&self) -> bool {
        self.state != State::Pending && self.calls.iter().all(|call| call.state.is_over())
    }

    /// Returns true if the content can be erased: it has not been erased before, and the approval is finished and has
    /// not changed since `before`.
    pub fn is_erasable(&self, before: Time) -> bool {
        self.erased_at.is_none() && self.is_finished() && self.changed_at < before
    }

    /// Records an event: assigns its number and link, and applies the state changes that it implies.
    ///
    /// INVARIANT: states change nowhere else, so they are always the fold of the events.
    pub(crate) fn record(
        &mut self,
        at: Time,
        policy: Hash,
        by: Actor,
        what: EventKind,
    ) -> Result<Event, Illegal> {
        let changes = what.changes(u8::try_from(self.calls.len()).unwrap_or(u8::MAX));
        // Check everything before changing anything, so that an illegal event has no effect.
        let state = changes
            .approval
            .map_or(Ok(self.state), |change| self.state.apply(change))?;
        let mut next = Vec::with_capacity(changes.calls.len());
        for (position, change) in changes.calls {
            let missing = Illegal {
                state: "absent",
                event: "an event of a call",
            };
            let call = self.call(position).ok_or(missing)?;
            next.push((position, call.state.apply(change)?));
        }
        for (position, call_state) in next {
            if let Some(call) = self.call_mut(position) {
                call.state = call_state;
                if call_state.is_over() {
                    // INVARIANT: a credential is kept no longer than the call that needs it.
                    call.sealed = None;
                }
                if call_state == CallState::Refused {
                    call.because = Some(because(&what));
                }
            }
        }
        if self.state == State::Pending && state != State::Pending {
            self.ended_at = Some(at);
        }
        self.state = state;
        self.changed_at = at;
        self.version = self.version.saturating_add(1);
        let event = Event::new(self.link, self.version, at, policy, by, what);
        self.link = event.link;
        Ok(event)
    }
}

/// Computes the digest of an approval from the digests of its calls, which must be in order.
pub(crate) fn digest_of(calls: impl Iterator<Item = Hash>) -> Hash {
    let fields = Fields::new("countersign/approval/1");
    calls
        .fold(fields, |fields, digest| fields.field(&digest.0))
        .finish()
}

fn because(what: &EventKind) -> RefusalReason {
    match what {
        EventKind::Expired => RefusalReason::Expired,
        EventKind::Superseded { .. } => RefusalReason::Superseded,
        EventKind::Withdrawn { .. } => RefusalReason::Withdrawn,
        EventKind::Refused { because, .. } => because.clone(),
        _ => RefusalReason::Denied,
    }
}

/// Approval in an [`Arc`], so that answers and waiting tasks share one copy.
pub type SharedApproval = Arc<Approval>;
