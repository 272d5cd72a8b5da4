//! Replays a history: derives the states and verifies that the history is consistent.

use std::collections::BTreeSet;

use super::{ContentHash, Event, EventKind, first_link, link};
use crate::approval::{Approval, digest_of};
use crate::call::Call;
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, Person, Tenant};
use crate::state::{CallState, Illegal, State};
use crate::time::Time;

/// Inconsistency in a history. A `u32` is the number of the event, a `u8` the position of the call, from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrokenHistory {
    /// The first event is missing or not `proposed`.
    #[error("the history does not begin with a proposal")]
    NoBeginning,
    /// There is a second `proposed` event.
    #[error("event {0} is a second proposal")]
    SecondBeginning(u32),
    /// Event numbers have a gap or a repeat, or are out of order.
    #[error("event {found} stands where event {expected} belongs")]
    OutOfOrder {
        /// Number that should come next.
        expected: u32,
        /// Number that the event has.
        found: u32,
    },
    /// This event, or an event before it, was changed.
    #[error("event {0} does not fit the events before it")]
    BrokenLink(u32),
    /// An event is earlier than the one before it.
    #[error("event {0} happened before the event before it")]
    TimeWentBack(u32),
    /// An event is illegal in the state it was recorded in.
    #[error("event {0}: {1}")]
    Illegal(u32, Illegal),
    /// An event names a call that the approval does not have.
    #[error("event {0} names call {1}, which is not there")]
    NoSuchCall(u32, u8),
    /// The approval's version differs from the number of events: the last events were cut off, or some belong to
    /// another approval.
    #[error("the approval knows {approval} events, the history has {history}")]
    OtherLength {
        /// Number of events according to the approval's version.
        approval: u32,
        /// Number of events found.
        history: usize,
    },
    /// The approval's row contradicts its history; with the name of the field that differs.
    #[error("the {0} of the approval is not what its history says")]
    OtherContent(&'static str),
    /// A call's arguments, or other fields covered by its digest, were changed.
    #[error("call {0} does not fit its digest")]
    OtherBytes(u8),
    /// A call's result does not match the hash in its history.
    #[error("the result of call {0} is not what its history says")]
    OtherResult(u8),
    /// The rows were changed after the last event.
    #[error("the rows are not what event {0} left")]
    OtherRows(u32),
}

/// States that are derived from a history. Stores are checked against these states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// State of the approval.
    pub state: State,
    /// States of its calls, in order.
    pub calls: Vec<CallState>,
}

impl Replay {
    /// Replays a whole history, checking numbers, links, times and legality.
    pub fn fold(tenant: &Tenant, id: ApprovalId, events: &[Event]) -> Result<Replay, BrokenHistory> {
        let Some(first) = events.first() else {
            return Err(BrokenHistory::NoBeginning);
        };
        let EventKind::Proposed { calls, .. } = first.what else {
            return Err(BrokenHistory::NoBeginning);
        };
        let mut replay = Replay {
            state: State::Pending,
            calls: vec![CallState::Held; usize::from(calls)],
        };
        let mut before = (first_link(tenant, id), first.at);
        for (expected, event) in (1u32..).zip(events) {
            check_place(event, expected, before)?;
            before = (event.link, event.at);
            replay.apply(event)?;
        }
        Ok(replay)
    }

    fn apply(&mut self, event: &Event) -> Result<(), BrokenHistory> {
        let illegal = |illegal| BrokenHistory::Illegal(event.number, illegal);
        if matches!(event.what, EventKind::Proposed { .. }) && event.number > 1 {
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
    let (policy, by, text) = (event.policy, &event.by, &event.text);
    if event.link != link(before.0, number, event.at, policy, by, text, event.content) {
        return Err(BrokenHistory::BrokenLink(number));
    }
    if event.at < before.1 {
        return Err(BrokenHistory::TimeWentBack(number));
    }
    Ok(())
}

/// Compares a stored approval with its history. Detects events that were changed, removed, moved or cut off.
///
/// Does not detect that the last events were cut off together with the approval's own `version` and `link`. To detect
/// that, keep the link or a checkpoint of the log elsewhere.
pub fn verify(approval: &Approval, events: &[Event]) -> Result<(), BrokenHistory> {
    let replay = Replay::fold(&approval.tenant, approval.id, events)?;
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
        ("state", approval.state == replay.state),
        ("state of the calls", calls.eq(replay.calls)),
        ("digest or expiry", began_so(approval, &first.what)),
        ("decision", decided_so(approval, events)),
        ("successor", superseded_so(approval, events)),
        ("endorsements", endorsed_so(approval, events)),
        ("quorum", has_quorum(approval, events)),
        ("pass", passed_so(approval, events)),
        ("erasure", erased_so(approval, events)),
    ];
    if let Some((what, _)) = same.into_iter().find(|(_, same)| !same) {
        return Err(BrokenHistory::OtherContent(what));
    }
    check_bytes(approval, events)?;
    check_results(approval, events)
}

/// Like [`verify`], but also compares the stored rows with the content hash in the last event. So fields that no event
/// mentions, such as a summary or a comment, cannot be changed either. `found` is the hash of the stored rows.
pub fn verify_rows(
    approval: &Approval,
    events: &[Event],
    found: Option<ContentHash>,
) -> Result<(), BrokenHistory> {
    verify(approval, events)?;
    let Some(last) = events.last() else {
        return Err(BrokenHistory::NoBeginning);
    };
    match last.content {
        Some(_) if last.content == found => Ok(()),
        // The events were written by a version without content hashes.
        None if events.iter().all(|event| event.content.is_none()) => Ok(()),
        _ => Err(BrokenHistory::OtherRows(last.number)),
    }
}

fn ends(what: &EventKind) -> bool {
    matches!(
        what,
        EventKind::Approved { .. }
            | EventKind::Denied { .. }
            | EventKind::Expired
            | EventKind::Superseded { .. }
            | EventKind::Withdrawn { .. }
            | EventKind::Passed { .. }
    )
}

fn began_so(approval: &Approval, first: &EventKind) -> bool {
    matches!(first, EventKind::Proposed { expires_at, digest, replaces, undoes, .. }
        if *expires_at == approval.expires_at
            && *digest == approval.digest
            && *replaces == approval.replaces
            && *undoes == approval.undoes)
}

/// Returns true if the decision has the person, time and surface that the history records, or if both have no decision.
fn decided_so(approval: &Approval, events: &[Event]) -> bool {
    let told = events.iter().find_map(|event| match (&event.what, &event.by) {
        (EventKind::Approved { surface, .. }, Actor::Person(by)) => Some((true, by, event.at, surface)),
        (EventKind::Denied { surface, .. }, Actor::Person(by)) => Some((false, by, event.at, surface)),
        _ => None,
    });
    let kept = approval.decision.as_ref();
    told == kept.map(|decided| (decided.approved, &decided.by, decided.at, &decided.surface))
}

fn superseded_so(approval: &Approval, events: &[Event]) -> bool {
    let told = events.iter().find_map(|event| match event.what {
        EventKind::Superseded { successor } => Some(successor),
        _ => None,
    });
    told == approval.superseded_by
}

/// Information about a call's result in the history.
#[derive(Clone, Copy)]
enum ToldResult {
    /// The call has no result.
    Nothing,
    /// The result has this hash and, in events of earlier versions, this length.
    Hash(Hash, Option<u64>),
    /// The event has no hash: an earlier version wrote it, or the salt was erased.
    Untold,
}

/// Checks that each result matches the hash recorded with its call's outcome.
fn check_results(approval: &Approval, events: &[Event]) -> Result<(), BrokenHistory> {
    for (position, call) in approval.numbered() {
        let mut told = ToldResult::Nothing;
        for event in events {
            match event.what {
                EventKind::Succeeded { call, bytes, hash } | EventKind::Failed { call, bytes, hash }
                    if call == position =>
                {
                    told = ToldResult::Hash(hash, bytes);
                }
                EventKind::Lost { call, hash, .. } | EventKind::Reconciled { call, hash, .. }
                    if call == position =>
                {
                    told = hash.map_or(ToldResult::Untold, |hash| ToldResult::Hash(hash, None));
                }
                EventKind::Erased => told = ToldResult::Nothing,
                _ => {}
            }
        }
        let is_so = match (told, &call.result) {
            (ToldResult::Untold, _) | (ToldResult::Nothing, None) => true,
            // Version 0.1.0 computed the hash without the salt.
            (ToldResult::Hash(hash, bytes), Some(result)) => {
                bytes.is_none_or(|bytes| u64::try_from(result.len()) == Ok(bytes))
                    && (approval.hash_of_result(result) == hash || Hash::of(result) == hash)
            }
            (ToldResult::Nothing, Some(_)) | (ToldResult::Hash(..), None) => false,
        };
        if !is_so {
            return Err(BrokenHistory::OtherResult(position));
        }
    }
    Ok(())
}

/// Returns true if the stored endorsements are those that the history records, and each was given on a card with this
/// approval's digest.
fn endorsed_so(approval: &Approval, events: &[Event]) -> bool {
    let told = events.iter().filter_map(|event| match (&event.what, &event.by) {
        (EventKind::Endorsed { digest, calls, .. }, Actor::Person(by)) if *digest == approval.digest => {
            Some((by, event.at, calls))
        }
        _ => None,
    });
    let kept = approval.endorsements.iter();
    let count = events
        .iter()
        .filter(|event| matches!(event.what, EventKind::Endorsed { .. }));
    count.count() == approval.endorsements.len()
        && told.eq(kept.map(|endorsed| (&endorsed.by, endorsed.at, &endorsed.calls)))
}

/// Returns true if the history contains no `passed` event, or only one: the second event, written by the gate, about
/// this approval's only call.
fn passed_so(approval: &Approval, events: &[Event]) -> bool {
    let mut passes = events
        .iter()
        .filter(|event| matches!(event.what, EventKind::Passed { .. }));
    let Some(pass) = passes.next() else {
        return true;
    };
    let is_of_this = matches!(pass.what, EventKind::Passed { digest } if digest == approval.digest);
    let is_by_the_gate = pass.by == Actor::Gate && approval.decision.is_none();
    pass.number == 2 && is_of_this && is_by_the_gate && approval.calls.len() == 1 && passes.next().is_none()
}

/// Returns true if the content is erased and the history records an erasure, or if neither is the case.
fn erased_so(approval: &Approval, events: &[Event]) -> bool {
    let mut erased = events.iter().filter(|event| event.what == EventKind::Erased);
    let first = erased.next().map(|event| event.at);
    // Results are not checked: an unknown call may be reconciled after the erasure.
    let is_gone = |call: &Call| call.arguments.as_bytes().is_empty() && call.original.is_none();
    first == approval.erased_at
        && erased.next().is_none()
        && (first.is_none() || approval.calls.iter().all(is_gone))
}

/// Returns true if an approved approval has its quorum, and every endorser granted each released call.
fn has_quorum(approval: &Approval, events: &[Event]) -> bool {
    let approved = events.iter().find_map(|event| match &event.what {
        EventKind::Approved { calls, .. } => Some((event, calls)),
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

/// Checks that the stored arguments are those proposed, or the edits of the approving person.
fn check_bytes(approval: &Approval, events: &[Event]) -> Result<(), BrokenHistory> {
    let edited = events.iter().find_map(|event| match &event.what {
        EventKind::Approved { edited, .. } => Some(edited.as_slice()),
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
        // Erased arguments cannot be checked; the digest still names what was decided.
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
