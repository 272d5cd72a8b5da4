//! State of the model: the store, the nodes and the time.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use countersign::approval::{Approval, SharedApproval};
use countersign::command::Propose;
use countersign::hash::Hash as Digest;
use countersign::id::{ApprovalId, Person};
use countersign::policy::Authority;
use countersign::state::{CallState, State};
use countersign::store::suite::sample;
use countersign::time::Time;

use crate::check::Fault;
use crate::rows::{Row, Table};

/// Size of the model, and the rules that hold in it.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Number of nodes. The first node proposes the first approval, and the second node the second.
    pub nodes: usize,
    /// Number of approvals, all in one channel, where a later one supersedes a pending one.
    pub approvals: usize,
    /// Number of people, who decide as often as they like.
    pub deciders: usize,
    /// Number of people who have to approve.
    pub quorum: u8,
    /// Maximum number of crashes of each node. A node restarts at once, as a new process.
    pub crashes: u8,
    /// Last tick at which an approval is proposed.
    pub propose_by: u8,
    /// Rule to leave out. Tests set this to show that the model then finds a fault.
    pub without: Option<Rule>,
}

/// A rule that a store or the gate enforces, outside of the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A store reads its clock after it has the lock. Without this rule, a decision may carry an earlier time.
    ClockAfterLock,
    /// Just before sending a call, a node checks the call's deadline, and that the record still shows this node's run
    /// (X84).
    LookBeforeSending,
}

/// Ticks until an approval expires.
const TTL: u32 = 2;
/// Ticks within which a released call may be started.
const START_WITHIN: u32 = 1;
/// Ticks that a call may run.
pub(crate) const TIMEOUT: u8 = 2;
const TICK: Duration = Duration::from_secs(60);

impl Instance {
    /// Returns the tick by which everything must be finished.
    pub(crate) fn end(&self) -> u8 {
        // The longest path: decided just before expiry, started just before the release is stale, then lost.
        self.propose_by + 2 + 1 + TIMEOUT
    }

    pub(crate) fn propose(&self, index: usize) -> Propose {
        let number = index as u64 + 1;
        let authority = Authority {
            quorum: self.quorum,
            ..Authority::default()
        };
        let mut terms = sample::terms_asking(authority);
        terms.timeout = TICK * u32::from(TIMEOUT);
        terms.approvers = (0..self.deciders).map(|who| person(who).to_owned()).collect();
        Propose {
            calls: vec![sample::call_under(&format!("{{\"n\":{number}}}"), terms)],
            ttl: TICK * TTL,
            start_within: TICK * START_WITHIN,
            ..sample::propose_in(number, "channel")
        }
    }
}

pub(crate) fn person(who: usize) -> &'static str {
    ["alice", "bob", "carol"].get(who).copied().unwrap_or("dora")
}

pub(crate) fn id(index: usize) -> ApprovalId {
    sample::id(index as u64 + 1)
}

/// One state of the model: the store's rows, the nodes, the time, and the faults found so far.
#[derive(Clone, Debug)]
pub struct World {
    pub(crate) tick: u8,
    pub(crate) store: Table,
    pub(crate) nodes: Vec<Node>,
    /// Facts about each approval that are not in the store.
    pub(crate) asked: Vec<Asked>,
    /// Set when a decision naming another approval's card was refused. The refusal changes nothing, so paths after it
    /// are not explored further.
    pub(crate) misaimed: bool,
    /// Faults found on the path to this state.
    pub(crate) faults: BTreeSet<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) crashes: u8,
    /// False if the node's lease has lapsed, although the node may merely be paused.
    pub(crate) has_lease: bool,
    /// State of each approval's call as the node remembers it. A crash clears this memory.
    pub(crate) memory: Vec<Memory>,
}

/// State of a call as a node remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Memory {
    Nothing,
    /// The call's start is recorded and the node may send the call.
    Permit {
        since: u8,
        /// Digest of the approval when the call was started.
        digest: Digest,
    },
    /// The call has ended, but its end is not yet recorded in the store.
    Ended {
        succeeded: bool,
        sent: bool,
    },
}

/// Facts about an approval that are not in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    /// Node that proposed the approval, and the number of its crashes at that time. `None` before the proposal.
    pub(crate) owner: Option<(usize, u8)>,
    /// Number of times that the call had an effect.
    pub(crate) effects: u8,
    /// True if the outcome of the call was unknown at some time.
    pub(crate) was_unknown: bool,
}

impl World {
    pub(crate) fn new(instance: &Instance) -> World {
        let node = Node {
            crashes: 0,
            has_lease: true,
            memory: vec![Memory::Nothing; instance.approvals],
        };
        World {
            tick: 0,
            store: Table::default(),
            nodes: vec![node; instance.nodes],
            asked: vec![Asked::default(); instance.approvals],
            misaimed: false,
            faults: BTreeSet::new(),
        }
    }

    /// Returns the store's time.
    pub(crate) fn now(&self) -> Time {
        time(self.tick)
    }

    pub(crate) fn row(&self, index: usize) -> Option<&Row> {
        self.store.rows.get(&id(index))
    }

    pub(crate) fn approval(&self, index: usize) -> Option<&SharedApproval> {
        self.row(index).map(|row| &row.approval)
    }

    pub(crate) fn state(&self, index: usize) -> Option<State> {
        self.approval(index).map(|approval| approval.state)
    }

    pub(crate) fn call_state(&self, index: usize) -> Option<CallState> {
        self.approval(index)?.call(1).map(|call| call.state)
    }

    /// Returns true if all approvals were proposed and are finished.
    pub(crate) fn is_over(&self) -> bool {
        let mut all = (0..self.asked.len()).map(|index| self.approval(index));
        all.all(|approval| approval.is_some_and(|approval| approval.is_finished()))
    }
}

pub(crate) fn time(tick: u8) -> Time {
    sample::BEGINNING.plus(TICK * u32::from(tick))
}

/// Returns the hash of a permit's token, which is different for each process that starts a call.
pub(crate) fn permit(node: usize, crashes: u8, index: usize) -> Digest {
    sample::permit(node as u64 * 100 + u64::from(crashes) * 10 + index as u64)
}

/// Hashes everything that later steps depend on. Events, links and versions are left out: they depend on the path to
/// this state, and no rule reads them.
impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.tick.hash(hasher);
        self.nodes.hash(hasher);
        self.asked.hash(hasher);
        self.misaimed.hash(hasher);
        self.faults.hash(hasher);
        self.seen().hash(hasher);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &World) -> bool {
        self.tick == other.tick
            && self.nodes == other.nodes
            && self.asked == other.asked
            && self.misaimed == other.misaimed
            && self.faults == other.faults
            && self.seen() == other.seen()
    }
}

/// The fields of an approval that later steps depend on.
#[derive(PartialEq, Eq, Hash)]
struct Seen {
    state: State,
    due_at: Option<Time>,
    endorsed_by: Vec<Person>,
    call: Option<CallState>,
    // Needed to accept a late result.
    permit: Option<Digest>,
    because: Option<&'static str>,
    superseded_by: Option<ApprovalId>,
}

impl World {
    fn seen(&self) -> Vec<Option<Seen>> {
        let all = (0..self.asked.len()).map(|index| self.approval(index));
        all.map(|approval| approval.map(|approval| Seen::of(approval)))
            .collect()
    }
}

impl Seen {
    fn of(approval: &Approval) -> Seen {
        let call = approval.call(1);
        let execution = call.and_then(|call| call.execution.as_ref());
        let endorsements = approval.endorsements.iter();
        Seen {
            state: approval.state,
            due_at: approval.due_at(),
            endorsed_by: endorsements.map(|endorsed| endorsed.by.clone()).collect(),
            call: call.map(|call| call.state),
            permit: execution.map(|execution| execution.permit),
            because: call
                .and_then(|call| call.because.as_ref())
                .map(|why| why.as_str()),
            superseded_by: approval.superseded_by,
        }
    }
}
