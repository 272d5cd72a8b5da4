//! An approval: the question put to a person, with the calls it holds.
//!
//! Enters: events, through [`Approval::record`], the only way its states change.
//! Deliberately absent: who may decide, and when; see `command`.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::call::{Because, Call};
use crate::event::{Event, What};
use crate::hash::{Fields, Hash};
use crate::id::{Actor, Agent, ApprovalId, Channel, Key, Person, Run, Session, Tenant};
use crate::policy::Policy;
use crate::secrecy::Secrecy;
use crate::state::{CallState, Illegal, State};
use crate::time::Time;
use crate::undoes::Undoes;

/// The most calls one approval holds.
pub const MOST_CALLS: usize = 100;

/// One request for a human decision.
#[derive(Clone, PartialEq)]
pub struct Approval {
    /// Its name.
    pub id: ApprovalId,
    /// Whose it is.
    pub tenant: Tenant,
    /// The conversation it belongs to, if any.
    pub channel: Option<Channel>,
    /// The agent that asks.
    pub agent: Agent,
    /// The agent's run.
    pub run: Option<Run>,
    /// The agent's session.
    pub session: Option<Session>,
    /// The credential that proposed it.
    pub requester: Person,
    /// The person the agent acts for, when known.
    pub on_behalf_of: Option<Person>,
    /// The agent's own words: its claim, never checked.
    pub claim: Option<String>,
    /// Makes button payloads unguessable.
    pub nonce: [u8; 16],
    /// Keeps digests from revealing short arguments.
    pub salt: [u8; 16],
    /// When it was proposed.
    pub created_at: Time,
    /// From then on nobody can decide it.
    pub expires_at: Time,
    /// How long after the decision its calls may be started.
    pub start_within: Duration,
    /// The policy it was held under.
    pub policy: Hash,
    /// Over its calls' digests, as proposed.
    pub digest: Hash,
    /// Where it is in its life.
    pub state: State,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// When its last event happened.
    pub changed_at: Time,
    /// The number of its last event.
    pub version: u32,
    /// The link of its last event.
    pub link: Hash,
    /// How it was decided, if it was.
    pub decision: Option<Decided>,
    /// Who approved it while others still had to.
    pub endorsements: Vec<Endorsement>,
    /// What took its place.
    pub superseded_by: Option<ApprovalId>,
    /// What it replaced.
    pub replaces: Option<ApprovalId>,
    /// What it would undo.
    pub undoes: Option<Undoes>,
    /// The proposer's idempotency key, and the hash of what came with it.
    pub key: Option<(Key, Hash)>,
    /// How many decisions were refused, so far as they were counted.
    pub refusals: u8,
    /// How many of these were kept for whom: one who tries often does not use up the room for others.
    pub tried: Vec<(Actor, u8)>,
    /// When its content was erased, if it was.
    pub erased_at: Option<Time>,
    /// What would run, in order.
    pub calls: Vec<Call>,
}

/// A decision that was accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// Approved at least one call, or denied all.
    pub approved: bool,
    /// The person, from their credential.
    pub by: Person,
    /// When, by the store's clock.
    pub at: Time,
    /// Where they decided.
    pub surface: String,
    /// What they added.
    pub comment: Option<String>,
    /// Who a request's body said decided: a claim.
    pub claimed_by: Option<String>,
    /// The decider's idempotency key, and the hash of what came with it.
    pub key: Option<(Key, Hash)>,
}

/// An approval by one of several people who have to approve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Endorsement {
    /// The person, from their credential.
    pub by: Person,
    /// When, by the store's clock.
    pub at: Time,
    /// Where they decided.
    pub surface: String,
    /// The positions they approved; absent: all of them.
    pub calls: Option<Vec<u8>>,
    /// What they added.
    pub comment: Option<String>,
    /// Who a request's body said decided: a claim.
    pub claimed_by: Option<String>,
    /// Their idempotency key, and the hash of what came with it.
    pub key: Option<(Key, Hash)>,
    /// The account it was given with. It counts only while that account is as it was.
    #[serde(skip)]
    pub account: EndorsedWith,
    /// True once the account was found to have changed or gone: it does not count, and never will again.
    #[serde(skip)]
    pub lapsed: bool,
}

/// What an endorsement rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndorsedWith {
    /// Not on record, as in rows of the first release: it does not count.
    #[default]
    Unknown,
    /// No account: somebody on the machine that holds the store.
    NoAccount,
    /// The account under this key of the registry, with a body of this hash.
    Account(String, Hash),
}

impl Endorsement {
    /// True when this person approved the call at this position.
    pub fn grants(&self, position: u8) -> bool {
        self.calls.as_ref().is_none_or(|calls| calls.contains(&position))
    }
}

/// Its nonce and salt do not print themselves.
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
    /// Bytes of its arguments, results and snapshots, and a little for each call: what lists are bounded by.
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

    /// The call at `position`, from 1.
    pub fn call(&self, position: u8) -> Option<&Call> {
        self.calls.get(usize::from(position).checked_sub(1)?)
    }

    pub(crate) fn call_mut(&mut self, position: u8) -> Option<&mut Call> {
        self.calls.get_mut(usize::from(position).checked_sub(1)?)
    }

    /// Its calls with their positions, from 1.
    pub fn numbered(&self) -> impl Iterator<Item = (u8, &Call)> {
        (1u8..).zip(&self.calls)
    }

    /// The digest over its calls' digests, in order.
    pub fn digest_of_calls(&self) -> Hash {
        digest_of(self.calls.iter().map(|call| call.digest))
    }

    /// What is secret about any of its calls.
    pub fn secrecy(&self, policy: &Policy) -> Secrecy {
        let each = self
            .calls
            .iter()
            .map(|call| Secrecy::of(call, policy, &self.salt));
        each.reduce(Secrecy::and).unwrap_or_default()
    }

    /// True when an agent proposed this that version 0.1.0 served. It had the name that a token of that name has, and its
    /// channel was `AGENT/SESSION/PERSON`.
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

    /// The hash of a call's result that stands in the history: with the salt, so that it confirms no guess once the
    /// content is erased.
    pub fn hash_of_result(&self, result: &[u8]) -> Hash {
        Fields::new("countersign/result/1")
            .field(&self.salt)
            .field(result)
            .finish()
    }

    /// How many different people have to approve it: as many as its strictest call asks for.
    pub fn quorum(&self) -> u8 {
        let asked = self.calls.iter().map(|call| call.terms.authority().quorum);
        asked.max().unwrap_or(1).max(1)
    }

    /// The endorsements that count.
    pub fn in_force(&self) -> impl Iterator<Item = &Endorsement> {
        self.endorsements.iter().filter(|endorsed| !endorsed.lapsed)
    }

    /// How many of them are still missing; none when it is over.
    pub fn missing(&self) -> u8 {
        match self.state {
            State::Pending => {
                let found = u8::try_from(self.in_force().count()).unwrap_or(u8::MAX);
                self.quorum().saturating_sub(found).max(1)
            }
            _ => 0,
        }
    }

    /// When the sweep has something to do for it: expiry, a stale release or a lost run.
    pub fn due_at(&self) -> Option<Time> {
        if self.state == State::Pending {
            return Some(self.expires_at);
        }
        let running = self.calls.iter().filter(|call| call.state == CallState::Running);
        let deadline = running
            .filter_map(|call| call.execution.as_ref())
            .map(|run| run.deadline)
            .min();
        deadline.or_else(|| self.next_released().and_then(|_| self.start_by()))
    }

    /// The last moment its released calls may be started. A batch gets as long again after each call that ended.
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

    /// The position of the call that may be started next.
    pub fn next_released(&self) -> Option<u8> {
        let earlier_runs = self.calls.iter().any(|call| call.state == CallState::Running);
        let mut released = self
            .numbered()
            .filter(|(_, call)| call.state == CallState::Released);
        released
            .next()
            .map(|(position, _)| position)
            .filter(|_| !earlier_runs)
    }

    /// True when it is decided, or otherwise over, and none of its calls will do anything any more.
    pub fn is_finished(&self) -> bool {
        self.state != State::Pending && self.calls.iter().all(|call| call.state.is_over())
    }

    /// Records an event: gives it its number and link, and changes the states it changes.
    ///
    /// INVARIANT: states change nowhere else, so they are always the fold of the events.
    pub(crate) fn record(&mut self, at: Time, policy: Hash, by: Actor, what: What) -> Result<Event, Illegal> {
        let changes = what.changes(u8::try_from(self.calls.len()).unwrap_or(u8::MAX));
        // Check all before changing any: an illegal event leaves no trace.
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

/// The digest of an approval whose calls have these digests, in order.
pub(crate) fn digest_of(calls: impl Iterator<Item = Hash>) -> Hash {
    let fields = Fields::new("countersign/approval/1");
    calls
        .fold(fields, |fields, digest| fields.field(&digest.0))
        .finish()
}

fn because(what: &What) -> Because {
    match what {
        What::Expired => Because::Expired,
        What::Superseded { .. } => Because::Superseded,
        What::Withdrawn { .. } => Because::Withdrawn,
        What::Refused { because, .. } => because.clone(),
        _ => Because::Denied,
    }
}

/// A shared approval, as answers and waiters pass it around.
pub type SharedApproval = Arc<Approval>;
