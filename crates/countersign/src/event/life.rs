//! What follows from a history: the states, and whether the history can be true.

use std::collections::BTreeSet;

use super::{Event, What, first_link, link};
use crate::approval::{Approval, digest_of};
use crate::call::Call;
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, Person, Tenant};
use crate::state::{CallState, Illegal, State};
use crate::time::Time;

/// A history that cannot be true.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenHistory {
    /// There is no first event, or it is not `proposed`.
    #[error("the history does not begin with a proposal")]
    NoBeginning,
    /// A second beginning.
    #[error("event {0} is a second proposal")]
    SecondBeginning(u32),
    /// Numbers have a gap, a repeat or another order.
    #[error("event {found} stands where event {expected} belongs")]
    OutOfOrder {
        /// The number that belongs there.
        expected: u32,
        /// The number found there.
        found: u32,
    },
    /// An event was changed, or one before it.
    #[error("event {0} does not fit the events before it")]
    BrokenLink(u32),
    /// An event is earlier than the one before it.
    #[error("event {0} happened before the event before it")]
    TimeWentBack(u32),
    /// An event is not legal where it stands.
    #[error("event {0}: {1}")]
    Illegal(u32, Illegal),
    /// An event names a call that the approval does not have.
    #[error("event {0} names call {1}, which is not there")]
    NoSuchCall(u32, u8),
    /// The approval knows of other events than these: the last ones were cut off, or do not belong to it.
    #[error("the approval knows {approval} events, the history has {history}")]
    OtherLength {
        /// How many the approval knows.
        approval: u32,
        /// How many there are.
        history: usize,
    },
    /// The approval's row says something else than its history.
    #[error("the {0} of the approval is not what its history says")]
    OtherContent(&'static str),
    /// A call's bytes, or what the decision was bound to with them, were changed.
    #[error("call {0} does not fit its digest")]
    OtherBytes(u8),
}

/// The states that follow from a history: the oracle that stores are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The approval's state.
    pub state: State,
    /// Its calls' states, in order.
    pub calls: Vec<CallState>,
}

impl Life {
    /// Folds a whole history and checks numbers, links, times and legality on the way.
    pub fn fold(tenant: &Tenant, id: ApprovalId, events: &[Event]) -> Result<Life, BrokenHistory> {
        let Some(first) = events.first() else {
            return Err(BrokenHistory::NoBeginning);
        };
        let What::Proposed { calls, .. } = first.what else {
            return Err(BrokenHistory::NoBeginning);
        };
        let mut life = Life {
            state: State::Pending,
            calls: vec![CallState::Held; usize::from(calls)],
        };
        let mut before = (first_link(tenant, id), first.at);
        for (expected, event) in (1u32..).zip(events) {
            check_place(event, expected, before)?;
            before = (event.link, event.at);
            life.apply(event)?;
        }
        Ok(life)
    }

    fn apply(&mut self, event: &Event) -> Result<(), BrokenHistory> {
        let illegal = |illegal| BrokenHistory::Illegal(event.number, illegal);
        if matches!(event.what, What::Proposed { .. }) && event.number > 1 {
            return Err(BrokenHistory::SecondBeginning(event.number));
        }
        let changes = event
            .what
            .changes(u8::try_from(self.calls.len()).unwrap_or(u8::MAX));
        if let Some(change) = changes.approval {
            self.state = self.state.apply(change).map_err(illegal)?;
        }
        for (position, change) in changes.calls {
            let call = usize::from(position)
                .checked_sub(1)
                .and_then(|index| self.calls.get_mut(index));
            let call = call.ok_or(BrokenHistory::NoSuchCall(event.number, position))?;
            *call = call.apply(change).map_err(illegal)?;
        }
        Ok(())
    }
}

fn check_place(event: &Event, expected: u32, before: (Hash, Time)) -> Result<(), BrokenHistory> {
    let number = event.number;
    if number != expected {
        return Err(BrokenHistory::OutOfOrder {
            expected,
            found: number,
        });
    }
    if event.link != link(before.0, number, event.at, event.policy, &event.by, &event.text) {
        return Err(BrokenHistory::BrokenLink(number));
    }
    if event.at < before.1 {
        return Err(BrokenHistory::TimeWentBack(number));
    }
    Ok(())
}

/// Compares a stored approval with its history: what was changed, removed, moved or cut off is found.
///
/// Not found is a tail that was cut off together with the approval's own `version` and `link`; for that, keep the
/// link somewhere else.
pub fn verify(approval: &Approval, events: &[Event]) -> Result<(), BrokenHistory> {
    let life = Life::fold(&approval.tenant, approval.id, events)?;
    let history = events.len();
    if usize::try_from(approval.version) != Ok(history) {
        return Err(BrokenHistory::OtherLength {
            approval: approval.version,
            history,
        });
    }
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return Err(BrokenHistory::NoBeginning);
    };
    let ended_at = events
        .iter()
        .find(|event| ends(&event.what))
        .map(|event| event.at);
    let calls = approval.calls.iter().map(|call| call.state);
    let same = [
        ("link", approval.link == last.link),
        (
            "time",
            approval.changed_at == last.at && approval.ended_at == ended_at,
        ),
        ("state", approval.state == life.state),
        ("state of the calls", calls.eq(life.calls)),
        ("digest or expiry", began_so(approval, &first.what)),
        ("endorsements", endorsed_so(approval, events)),
        ("quorum", has_quorum(approval, events)),
        ("pass", passed_so(approval, events)),
        ("erasure", erased_so(approval, events)),
    ];
    if let Some((what, _)) = same.into_iter().find(|(_, same)| !same) {
        return Err(BrokenHistory::OtherContent(what));
    }
    check_bytes(approval, events)
}

fn ends(what: &What) -> bool {
    matches!(
        what,
        What::Approved { .. }
            | What::Denied { .. }
            | What::Expired
            | What::Superseded { .. }
            | What::Withdrawn { .. }
            | What::Passed { .. }
    )
}

fn began_so(approval: &Approval, first: &What) -> bool {
    matches!(first, What::Proposed { expires_at, digest, replaces, undoes, .. }
        if *expires_at == approval.expires_at
            && *digest == approval.digest
            && *replaces == approval.replaces
            && *undoes == approval.undoes)
}

/// The endorsements are those of the history, each on this very card.
fn endorsed_so(approval: &Approval, events: &[Event]) -> bool {
    let told = events.iter().filter_map(|event| match (&event.what, &event.by) {
        (What::Endorsed { digest, calls, .. }, Actor::Person(by)) if *digest == approval.digest => {
            Some((by, event.at, calls))
        }
        _ => None,
    });
    let kept = approval.endorsements.iter();
    let count = events
        .iter()
        .filter(|event| matches!(event.what, What::Endorsed { .. }));
    count.count() == approval.endorsements.len()
        && told.eq(kept.map(|endorsed| (&endorsed.by, endorsed.at, &endorsed.calls)))
}

/// A call passes before anybody can be asked: as the second event of a history, written by the gate, about this call alone.
fn passed_so(approval: &Approval, events: &[Event]) -> bool {
    let mut passes = events
        .iter()
        .filter(|event| matches!(event.what, What::Passed { .. }));
    let Some(pass) = passes.next() else {
        return true;
    };
    let is_of_this = matches!(pass.what, What::Passed { digest } if digest == approval.digest);
    let is_by_the_gate = pass.by == Actor::Gate && approval.decision.is_none();
    pass.number == 2 && is_of_this && is_by_the_gate && approval.calls.len() == 1 && passes.next().is_none()
}

/// Content is missing where the history says so, and nowhere else.
fn erased_so(approval: &Approval, events: &[Event]) -> bool {
    let mut erased = events.iter().filter(|event| event.what == What::Erased);
    let first = erased.next().map(|event| event.at);
    // Results are not asked for: what an unknown call did may be found out later.
    let is_gone = |call: &Call| call.arguments.as_bytes().is_empty() && call.original.is_none();
    first == approval.erased_at
        && erased.next().is_none()
        && (first.is_none() || approval.calls.iter().all(is_gone))
}

/// What was approved was approved by as many people as it takes, and each call that was released by all of them.
fn has_quorum(approval: &Approval, events: &[Event]) -> bool {
    let approved = events.iter().find_map(|event| match &event.what {
        What::Approved { calls, .. } => Some((event, calls)),
        _ => None,
    });
    let Some((event, calls)) = approved else {
        return true;
    };
    let earlier = approval.in_force().map(|endorsed| &endorsed.by);
    let last = match &event.by {
        Actor::Person(person) => Some(person),
        _ => None,
    };
    let people: BTreeSet<&Person> = earlier.chain(last).collect();
    let is_granted = |position: &u8| calls.as_ref().is_none_or(|calls| calls.contains(position));
    let mut granted = approval
        .numbered()
        .map(|(position, _)| position)
        .filter(is_granted);
    people.len() >= usize::from(approval.quorum())
        && granted.all(|position| approval.in_force().all(|endorsed| endorsed.grants(position)))
}

/// The stored bytes are those that were proposed, or those that the approving person put in their place.
fn check_bytes(approval: &Approval, events: &[Event]) -> Result<(), BrokenHistory> {
    let edited = events.iter().find_map(|event| match &event.what {
        What::Approved { edited, .. } => Some(edited.as_slice()),
        _ => None,
    });
    let edited = edited.unwrap_or_default();
    let mut as_proposed = Vec::with_capacity(approval.calls.len());
    for (position, call) in approval.numbered() {
        let edit = edited.iter().find(|edit| edit.call == position);
        let bound = match edit {
            Some(edit) => call.revision == 2 && edit.digest == call.digest,
            None => call.revision == 1,
        };
        // What was erased cannot be compared any more; what was decided on is still named by its digest.
        let is_whole = approval.erased_at.is_some() || call.digest == call.digest_in(approval, position);
        if !bound || !is_whole {
            return Err(BrokenHistory::OtherBytes(position));
        }
        as_proposed.push(edit.map_or(call.digest, |edit| edit.was));
    }
    match digest_of(as_proposed.into_iter()) == approval.digest {
        true => Ok(()),
        false => Err(BrokenHistory::OtherContent("digest or expiry")),
    }
}
