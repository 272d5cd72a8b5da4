//! The model's properties: invariants that must always hold, and situations that some run must reach, so that the
//! invariants do not hold merely because nothing happens.

use countersign::call::RefusalReason;
use countersign::event::{EventKind, verify};
use countersign::state::{CallState, State};
use stateright::{Model, Property};

use crate::step::{Step, actions, next};
use crate::world::{Instance, Memory, World, id, permit};

/// A violated invariant, detected while a step is taken, when the states before and after are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// I1: an effect without an earlier approval of the same digest.
    EffectWithoutApproval,
    /// I2: a second start, or a second effect.
    Twice,
    /// I3: an approval at or after expiry.
    ApprovedLate,
    /// I4: the events do not match the stored approval.
    BrokenHistory,
    /// I6: a final state changed, or a call made a transition that does not exist.
    EndChanged,
    /// I8: a decision was accepted that named another card.
    OtherCard,
    /// I12, X84: a call had an effect after it was recorded as lost.
    EffectAfterLoss,
    /// A command of the library returned an error.
    CommandFailed,
}

impl Model for Instance {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        actions(self, world, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        next(self, world, &step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("I1 every effect was approved", |_, world: &World| {
                !world.faults.contains(&Fault::EffectWithoutApproval)
            }),
            Property::always("I2 at most one start and one effect", |_, world: &World| {
                !world.faults.contains(&Fault::Twice)
            }),
            Property::always("I3 nothing is approved at or after expiry", |_, world: &World| {
                !world.faults.contains(&Fault::ApprovedLate)
            }),
            Property::always("I4 histories verify", |_, world: &World| {
                !world.faults.contains(&Fault::BrokenHistory)
            }),
            Property::always("I6 what is over stays as it is", |_, world: &World| {
                !world.faults.contains(&Fault::EndChanged)
            }),
            Property::always("I8 decisions count for the card they name", |_, world: &World| {
                !world.faults.contains(&Fault::OtherCard)
            }),
            Property::always(
                "I12 what was given up has no effect after that",
                |_, world: &World| !world.faults.contains(&Fault::EffectAfterLoss),
            ),
            Property::always("commands do not fail", |_, world: &World| {
                !world.faults.contains(&Fault::CommandFailed)
            }),
            Property::always("one approval is pending in a channel", |_, world: &World| {
                let all = (0..world.asked.len()).filter_map(|index| world.state(index));
                all.filter(|state| *state == State::Pending).count() <= 1
            }),
            // There are no cycles and final states do not change, so the checker reaches the end of every path.
            Property::eventually("I13 everything ends", |_, world: &World| {
                world.misaimed || world.is_over()
            }),
        ];
        properties.extend(self.sights());
        properties
    }
}

impl Instance {
    /// Returns the reachability properties: situations that at least one run must reach. Without them, the invariants
    /// could hold only because nothing happens.
    fn sights(&self) -> Vec<Property<Self>> {
        fn any(world: &World, fits: impl Fn(usize) -> bool) -> bool {
            (0..world.asked.len()).any(fits)
        }
        fn is(world: &World, state: State) -> bool {
            any(world, |index| world.state(index) == Some(state))
        }
        fn ended(world: &World, state: CallState) -> bool {
            any(world, |index| world.call_state(index) == Some(state))
        }
        let mut sights = vec![
            Property::sometimes("denied", |_, world: &World| is(world, State::Denied)),
            Property::sometimes("expired", |_, world: &World| is(world, State::Expired)),
            Property::sometimes("withdrawn", |_, world: &World| is(world, State::Withdrawn)),
            Property::sometimes("succeeded", |_, world: &World| ended(world, CallState::Succeeded)),
            Property::sometimes("failed", |_, world: &World| ended(world, CallState::Failed)),
            Property::sometimes("unknown", |_, world: &World| ended(world, CallState::Unknown)),
            Property::sometimes("unknown, with an effect", |_, world: &World| {
                any(world, |index| {
                    world.call_state(index) == Some(CallState::Unknown)
                        && world.asked.get(index).is_some_and(|asked| asked.effects == 1)
                })
            }),
            Property::sometimes("unknown, then known", |_, world: &World| {
                ended(world, CallState::Succeeded) && any(world, |index| world.was_unknown(index))
            }),
            Property::sometimes("approved and never started", |_, world: &World| {
                any(world, |index| {
                    let call = world.approval(index).and_then(|approval| approval.call(1));
                    call.is_some_and(|call| call.because == Some(RefusalReason::Stale))
                })
            }),
            Property::sometimes("not sent, because it was late", |_, world: &World| {
                let mut known = world.nodes.iter().flat_map(|node| &node.memory);
                known.any(|memory| matches!(memory, Memory::Ended { sent: false, .. }))
            }),
        ];
        if self.nodes > 1 {
            sights.push(Property::sometimes("run by another node", |_, world: &World| {
                any(world, |index| world.was_taken_over(index))
            }));
        }
        if self.approvals > 1 {
            sights.push(Property::sometimes("superseded", |_, world: &World| {
                is(world, State::Superseded)
            }));
            sights.push(Property::sometimes(
                "refused for another card",
                |_, world: &World| world.misaimed,
            ));
            sights.push(Property::sometimes(
                "both had their effect",
                |_, world: &World| world.asked.iter().all(|asked| asked.effects == 1),
            ));
        }
        if self.quorum > 1 {
            sights.push(Property::sometimes(
                "endorsed by one of two",
                |_, world: &World| {
                    any(world, |index| {
                        let approval = world.approval(index);
                        approval.is_some_and(|approval| approval.missing() == 1 && approval.quorum() == 2)
                    })
                },
            ));
        }
        sights
    }
}

/// Checks the transition of each approval that a step changed.
pub(crate) fn compare(before: &World, after: &mut World) {
    for index in 0..after.asked.len() {
        let version = |world: &World| world.approval(index).map(|approval| approval.version);
        if version(before) == version(after) {
            continue;
        }
        let (states, calls) = (
            (before.state(index), after.state(index)),
            (before.call_state(index), after.call_state(index)),
        );
        if !may_become(states) || !may_call_become(calls) {
            after.faults.insert(Fault::EndChanged);
        }
        if calls.1 == Some(CallState::Unknown)
            && let Some(asked) = after.asked.get_mut(index)
        {
            asked.was_unknown = true;
        }
        check_history(index, after);
    }
}

fn check_history(index: usize, world: &mut World) {
    let Some(row) = world.row(index).cloned() else {
        return;
    };
    if verify(&row.approval, &row.events).is_err() {
        world.faults.insert(Fault::BrokenHistory);
    }
    let mut starts = 0;
    for event in row.events.iter() {
        // No wildcard, so that a new event does not compile until it is handled here.
        match event.what {
            EventKind::Started { .. } => starts += 1,
            EventKind::Approved { .. } | EventKind::Endorsed { .. } => {
                if event.at >= row.approval.expires_at {
                    world.faults.insert(Fault::ApprovedLate);
                }
            }
            EventKind::Proposed { .. }
            | EventKind::Denied { .. }
            | EventKind::Expired
            | EventKind::Superseded { .. }
            | EventKind::Withdrawn { .. }
            | EventKind::Passed { .. }
            | EventKind::DecisionRefused { .. }
            | EventKind::Succeeded { .. }
            | EventKind::Failed { .. }
            | EventKind::Lost { .. }
            | EventKind::Refused { .. }
            | EventKind::Reconciled { .. }
            | EventKind::LateResult { .. }
            | EventKind::UndoStarted { .. }
            | EventKind::UndoFailed { .. }
            | EventKind::Undone { .. }
            | EventKind::Erased => {}
        }
    }
    if starts > 1 {
        world.faults.insert(Fault::Twice);
    }
}

/// Returns true if one command may move an approval from the state `before` to the state `after`. `None` means that the
/// approval does not exist.
fn may_become((before, after): (Option<State>, Option<State>)) -> bool {
    match before {
        // New or pending: any state except `Passed`, which only the policy produces.
        None | Some(State::Pending) => after != Some(State::Passed),
        // INVARIANT: a final state never changes.
        Some(
            State::Approved
            | State::Denied
            | State::Expired
            | State::Superseded
            | State::Withdrawn
            | State::Passed,
        ) => after == before,
    }
}

/// Returns true if one command may move a call from the state `before` to the state `after`. A decision may also start
/// the call. `None` means that the call does not exist.
fn may_call_become((before, after): (Option<CallState>, Option<CallState>)) -> bool {
    let Some(after) = after else { return false };
    if before == Some(after) {
        return true;
    }
    match before {
        None => after == CallState::Held,
        Some(CallState::Held) => matches!(
            after,
            CallState::Refused | CallState::Released | CallState::Running
        ),
        Some(CallState::Released) => matches!(after, CallState::Refused | CallState::Running),
        Some(CallState::Running) => matches!(
            after,
            CallState::Succeeded | CallState::Failed | CallState::Unknown
        ),
        // A person may reconcile the outcome; the call never starts again.
        Some(CallState::Unknown) => matches!(after, CallState::Succeeded | CallState::Failed),
        Some(CallState::Refused | CallState::Succeeded | CallState::Failed | CallState::Undone) => false,
    }
}

/// Records that the call of this approval took effect under the digest in the node's permit, and checks that the call
/// was allowed to take effect.
pub(crate) fn affect(world: &mut World, index: usize, digest: countersign::hash::Hash) {
    let approved = world.row(index).is_some_and(|row| {
        let number = |fits: fn(&EventKind) -> bool| row.events.iter().position(|event| fits(&event.what));
        let started = number(|what| matches!(what, EventKind::Started { .. }));
        let same =
            |what: &EventKind| matches!(what, EventKind::Approved { digest: approved, .. } if *approved == digest);
        let approved = row.events.iter().position(|event| same(&event.what));
        row.approval.id == id(index)
            && approved
                .zip(started)
                .is_some_and(|(approved, started)| approved < started)
    });
    if !approved {
        world.faults.insert(Fault::EffectWithoutApproval);
    }
    if world.call_state(index) != Some(CallState::Running) {
        world.faults.insert(Fault::EffectAfterLoss);
    }
    let Some(asked) = world.asked.get_mut(index) else {
        return;
    };
    asked.effects += 1;
    if asked.effects > 1 {
        world.faults.insert(Fault::Twice);
    }
}

impl World {
    /// Returns true if the call took effect in a process other than the one that proposed it.
    fn was_taken_over(&self, index: usize) -> bool {
        let call = self.approval(index).and_then(|approval| approval.call(1));
        let ran = call.and_then(|call| call.execution.as_ref());
        let Some(asked) = self.asked.get(index) else {
            return false;
        };
        let own = asked.owner.map(|(node, crashes)| permit(node, crashes, index));
        asked.effects == 1 && ran.is_some_and(|ran| Some(ran.permit) != own)
    }

    fn was_unknown(&self, index: usize) -> bool {
        self.asked.get(index).is_some_and(|asked| asked.was_unknown)
    }
}
