//! Invariants that hold after every step of any program.

use std::collections::{HashMap, HashSet};

use super::{Digest, Step};
use crate::approval::{Approval, SharedApproval};
use crate::command::{Answer, Command, Decide, DecideAnswer, Erasure, Propose, ProposeRefusal, Proposed};
use crate::decision::Refusal;
use crate::event::{Event, EventKind, verify};
use crate::hash::Hash;
use crate::id::{Actor, Agent, ApprovalId, CallId, Key, Person, Tenant};
use crate::state::{CallState, State};
use crate::time::Time;

/// Observations of all steps so far.
#[derive(Default)]
pub(super) struct Watch {
    ends: HashMap<ApprovalId, State>,
    call_ends: HashMap<CallId, CallState>,
    permits: HashMap<CallId, usize>,
    proposals: HashMap<(Tenant, Agent, Key), (Hash, ApprovalId)>,
    decisions: HashMap<(Tenant, ApprovalId, Person, Key), Hash>,
    key_before: Option<Hash>,
    /// Approvals whose content was erased, together with the requests stored under their idempotency keys.
    erased: HashSet<ApprovalId>,
    /// Hash of the current page.
    page: Option<Hash>,
}

impl Watch {
    pub(super) fn before(&mut self, command: &Command, page: Hash) {
        self.page = Some(page);
        self.key_before = match command {
            Command::Decide(decide) => decision_key(decide)
                .and_then(|key| self.decisions.get(&key))
                .copied(),
            _ => None,
        };
    }

    pub(super) fn answered(&mut self, step: &Step, command: &Command, answer: &Answer) {
        match (command, answer) {
            (Command::Propose(propose), Answer::Propose(answer)) => self.proposed(propose, answer),
            (Command::Decide(decide), Answer::Decide(answer)) => self.decided(step, decide, answer),
            (Command::Erase(erase), Answer::Erase(Erasure::Done)) => {
                self.erased.insert(erase.approval);
            }
            (Command::Start(start), Answer::Start(Ok(started))) => {
                assert_eq!(started.position, start.call.position);
                let shown = started.approval.call(started.position);
                let is_over_page = shown.is_some_and(|call| call.before.is_some());
                assert_eq!(
                    is_over_page,
                    start.snapshot.is_some(),
                    "X22: started without a look"
                );
                self.permitted(&started.approval, Some(started.position));
            }
            (Command::Finish(_), Answer::Finish(Ok(finished))) => {
                check_blind_start(&finished.approval, finished.started);
                self.permitted(&finished.approval, finished.started);
            }
            _ => {}
        }
    }

    /// I15, X40: checks that an idempotency key yields only one proposal.
    fn proposed(&mut self, propose: &Propose, answer: &Result<Proposed, ProposeRefusal>) {
        if let Ok(proposed) = answer
            && !proposed.repeated
            && propose.passes.is_some()
        {
            assert_eq!(proposed.approval.state, State::Passed, "X58");
            self.permitted(&proposed.approval, Some(1));
        }
        let Some((key, body)) = &propose.key else {
            assert!(!matches!(answer, Ok(proposed) if proposed.repeated));
            return;
        };
        let name = (propose.tenant.clone(), propose.agent.clone(), key.clone());
        match (self.proposals.get(&name), answer) {
            (Some((earlier, id)), Ok(proposed)) => {
                assert!(proposed.repeated, "I15: the same key gave two approvals");
                assert_eq!((earlier, *id), (body, proposed.approval.id), "I15");
            }
            (Some((earlier, id)), Err(ProposeRefusal::KeyReused(_))) => {
                assert!(earlier != body || self.erased.contains(id), "I15");
            }
            (None, Ok(proposed)) => {
                assert!(!proposed.repeated, "I15: a new key");
                self.proposals.insert(name, (*body, proposed.approval.id));
            }
            (_, Err(ProposeRefusal::NotUndoable { .. })) => {}
            (None, Err(ProposeRefusal::ChannelTaken(_))) => {}
            (Some(_), Err(refusal @ (ProposeRefusal::ChannelTaken(_) | ProposeRefusal::NothingEarlier))) => {
                panic!("I15: {refusal}")
            }
            (
                _,
                Err(refusal @ (ProposeRefusal::TooManyPending { .. } | ProposeRefusal::DeniedLately { .. })),
            ) => {
                panic!("programs propose without restraint: {refusal}")
            }
            (None, Err(refusal)) => panic!("I15: {refusal}"),
        }
    }

    fn decided(&mut self, step: &Step, decide: &Decide, answer: &DecideAnswer) {
        let decision = &decide.decision;
        if matches!(step, Step::Decide { on, .. } if on.foreign) {
            let missing = Some(Refusal::NotFound(decision.approval));
            assert_eq!((&answer.approval, &answer.refusal), (&None, &missing), "I9");
        }
        if let Some(earlier) = self.key_before {
            let is_erased = self.erased.contains(&decision.approval);
            match earlier == decide.body && !is_erased {
                true => assert_eq!(answer.refusal, None, "I15: the same decision again"),
                false => assert!(matches!(answer.refusal, Some(Refusal::KeyReused(_))), "I15"),
            }
            assert_eq!(answer.started, None, "I2: a repeated decision started something");
            return;
        }
        let Some(approval) = answer.approval.as_ref().filter(|_| answer.refusal.is_none()) else {
            assert_eq!(answer.started, None, "I11: a refused decision started something");
            return;
        };
        let wrong = matches!(
            step,
            Step::Decide {
                digest: Digest::Wrong,
                ..
            }
        );
        assert!(!wrong, "I8: a decision on another card was accepted");
        let by = match approval.state {
            State::Pending => approval.endorsements.last().map(|endorsed| &endorsed.by),
            _ => approval.decision.as_ref().map(|decided| &decided.by),
        };
        assert_eq!(by, Some(&decision.decider.person));
        assert!(
            approval.state != State::Pending || answer.started.is_none(),
            "I1: started while others had to approve"
        );
        if let Some(key) = decision_key(decide) {
            self.decisions.insert(key, decide.body);
        }
        check_blind_start(approval, answer.started);
        self.permitted(approval, answer.started);
    }

    /// I2: checks that each call gets at most one permit, ever.
    fn permitted(&mut self, approval: &Approval, position: Option<u8>) {
        let Some(position) = position else { return };
        let call = CallId {
            approval: approval.id,
            position,
        };
        let permits = self.permits.entry(call).or_default();
        *permits += 1;
        assert_eq!(*permits, 1, "I2: call {call} was started again");
        assert_eq!(
            approval.call(position).map(|call| call.state),
            Some(CallState::Running)
        );
        let shown = approval.call(position).and_then(|call| call.before.as_ref());
        assert!(
            shown.is_none_or(|shown| Some(shown.hash) == self.page),
            "X22: call {call} was started over something else than what was shown"
        );
    }

    pub(super) fn saw(&mut self, approval: &Approval, events: &[Event]) {
        assert_eq!(verify(approval, events), Ok(()), "I4: approval {}", approval.id);
        self.check_ends(approval);
        for (position, call) in approval.numbered() {
            let id = CallId {
                approval: approval.id,
                position,
            };
            let starts = events
                .iter()
                .filter(|event| matches!(event.what, EventKind::Started { call, .. } if call == position));
            let permits = self.permits.get(&id).copied().unwrap_or(0);
            assert_eq!(
                starts.count(),
                permits,
                "I2: call {id} was started behind our back"
            );
            assert_eq!(call.execution.is_some(), permits == 1, "I2");
            let over = call.state.is_over();
            assert!(
                !over || call.sealed.is_none(),
                "A15: call {id} is over and keeps its credential"
            );
        }
        check_starts(approval, events);
    }

    /// I6: checks that an approval or call that has ended keeps its final state.
    fn check_ends(&mut self, approval: &Approval) {
        if approval.state != State::Pending {
            let end = *self.ends.entry(approval.id).or_insert(approval.state);
            assert_eq!(end, approval.state, "I6: approval {} ended twice", approval.id);
        } else {
            assert!(
                !self.ends.contains_key(&approval.id),
                "I6: approval {} came back",
                approval.id
            );
        }
        for (position, call) in approval.numbered().filter(|(_, call)| call.state.is_over()) {
            let id = CallId {
                approval: approval.id,
                position,
            };
            let before = self.call_ends.insert(id, call.state).unwrap_or(call.state);
            let legal = before == call.state
                || matches!(
                    (before, call.state),
                    (
                        CallState::Unknown,
                        CallState::Succeeded | CallState::Failed | CallState::Undone
                    ) | (CallState::Succeeded, CallState::Undone)
                );
            assert!(legal, "I6: call {id} went from {before} to {}", call.state);
        }
    }

    /// A4: checks that a channel has at most one pending approval, and that the store returns that one.
    pub(super) fn saw_channel(listed: &[SharedApproval], found: Option<&Approval>, now: Time) {
        let mut pending = listed.iter().filter(|approval| approval.state == State::Pending);
        let first = pending.next();
        assert!(
            pending.next().is_none(),
            "A4: two pending approvals in one channel"
        );
        let visible = first.filter(|approval| approval.expires_at > now);
        assert_eq!(
            visible.map(|approval| approval.id),
            found.map(|approval| approval.id),
            "A5"
        );
    }
}

/// X22: checks that a call with a snapshot is not started along with a decision or the end of another call, because
/// neither reads the snapshot again.
fn check_blind_start(approval: &Approval, position: Option<u8>) {
    let call = position.and_then(|position| approval.call(position));
    assert!(
        call.is_none_or(|call| call.before.is_none()),
        "X22: approval {}: started without a look",
        approval.id
    );
}

fn decision_key(decide: &Decide) -> Option<(Tenant, ApprovalId, Person, Key)> {
    let decision = &decide.decision;
    let key = decision.key.clone()?;
    let person = decision.decider.person.clone();
    Some((decision.tenant.clone(), decision.approval, person, key))
}

/// I1, I3: checks that each start follows an approval of the same call, given in time by people who are allowed to
/// approve it.
fn check_starts(approval: &Approval, events: &[Event]) {
    let mut approved: Option<&Event> = None;
    for event in events {
        match &event.what {
            EventKind::Approved { digest, .. } => {
                assert!(event.at < approval.expires_at, "I3: approved at or after expiry");
                assert_eq!(*digest, approval.digest, "I8");
                approved = Some(event);
            }
            EventKind::Denied { .. } => {
                assert!(event.at < approval.expires_at, "I3: denied at or after expiry")
            }
            // Passed calls have no decision: proposal, pass and start are the events of one transaction.
            EventKind::Started { call, .. } if approval.state == State::Passed => {
                assert_eq!((*call, event.number), (1, 3), "X58");
                assert!(
                    approval.decision.is_none() && approval.endorsements.is_empty(),
                    "X58"
                );
            }
            EventKind::Started { call, .. } => {
                let Some(Event {
                    by: Actor::Person(person),
                    what: EventKind::Approved { calls, .. },
                    ..
                }) = approved
                else {
                    panic!("I1: call {call} was started and nobody had approved it");
                };
                let granted = calls.as_ref().is_none_or(|calls| calls.contains(call));
                assert!(granted, "I1: call {call} was started and had been denied");
                let mut people = vec![person];
                for endorsed in &approval.endorsements {
                    assert!(
                        endorsed.grants(*call),
                        "I1: call {call} was started, and not by all"
                    );
                    assert!(!people.contains(&&endorsed.by), "I1: {person} counted twice");
                    people.push(&endorsed.by);
                }
                assert!(
                    people.len() >= usize::from(approval.quorum()),
                    "I1: too few approved"
                );
                let four_eyes = approval
                    .call(*call)
                    .is_some_and(|call| call.terms.authority().four_eyes);
                let own = approval.on_behalf_of.iter().any(|own| people.contains(&own));
                assert!(
                    !(four_eyes && own),
                    "X34: {person} approved what was asked for them"
                );
                let approvers = approval.call(*call).map(|call| call.terms.approvers.clone());
                let may = approvers
                    .unwrap_or_default()
                    .contains(&person.as_str().to_owned());
                assert!(may, "I1: {person} may not approve call {call}");
            }
            _ => {}
        }
    }
}
