//! Steps: the possible next actions, and the states that they lead to.

use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command, Decide};
use countersign::decision::{Refusal, Verdict};
use countersign::executor::Outcome;
use countersign::state::{CallState, State};
use countersign::store::suite::sample;
use countersign::time::Time;

use crate::check::{Fault, affect, compare};
use crate::world::{Instance, Memory, Rule, TIMEOUT, World, permit, person, time};

/// One step. Numbers identify nodes, approvals and people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Step {
    /// Time passes, also for paused nodes.
    Tick,
    Propose {
        node: usize,
        approval: usize,
    },
    /// A person decides. With `starts`, the decision goes through the node that proposed the call and starts it in the
    /// same transaction.
    Decide {
        who: usize,
        approval: usize,
        approve: bool,
        starts: bool,
    },
    /// A person approves, at a store that read its clock one tick before it got the lock.
    DecideWithOldClock {
        who: usize,
        approval: usize,
    },
    /// A person approves, but the decision names the card of another approval.
    Misaim {
        approval: usize,
        card: usize,
    },
    Withdraw {
        approval: usize,
    },
    Start {
        node: usize,
        approval: usize,
    },
    /// The node checks the deadline and, if there is time left, sends the call to the tool.
    Send {
        node: usize,
        approval: usize,
        succeeds: bool,
    },
    Finish {
        node: usize,
        approval: usize,
    },
    /// A person reconciles an unknown call.
    Reconcile {
        approval: usize,
        succeeded: bool,
    },
    Sweep,
    /// The node loses its memory and restarts as a new process.
    Crash {
        node: usize,
    },
    /// The node's lease lapses, although the node may merely be paused.
    Lapse {
        node: usize,
    },
}

pub(crate) fn actions(instance: &Instance, world: &World, steps: &mut Vec<Step>) {
    // A fault has been reported already; later steps add nothing.
    if !world.faults.is_empty() || world.misaimed {
        return;
    }
    let all_proposed = world.asked.iter().all(|asked| asked.owner.is_some());
    if world.tick < instance.end() && (all_proposed || world.tick < instance.propose_by) {
        steps.push(Step::Tick);
    }
    steps.push(Step::Sweep);
    for (approval, asked) in world.asked.iter().enumerate() {
        let Some((owner, _)) = asked.owner else {
            // Approvals are proposed in order, so that the later one supersedes the earlier one.
            let is_next = world
                .asked
                .iter()
                .take(approval)
                .all(|earlier| earlier.owner.is_some());
            let node = approval % instance.nodes;
            if is_next {
                steps.push(Step::Propose { node, approval });
            }
            continue;
        };
        people(instance, world, approval, steps);
        if world.state(approval) == Some(State::Pending) {
            steps.push(Step::Withdraw { approval });
        }
        nodes(world, approval, steps);
        let is_open = world.approval(approval).is_some_and(|found| !found.is_finished());
        let lapses = world.nodes.get(owner).is_some_and(|node| node.has_lease);
        if is_open && lapses {
            steps.push(Step::Lapse { node: owner });
        }
    }
    for (node, found) in world.nodes.iter().enumerate() {
        // The crash of a node with empty memory and no open proposals changes nothing.
        let owns = |asked: &crate::world::Asked| asked.owner == Some((node, found.crashes));
        let matters = found.memory.iter().any(|memory| *memory != Memory::Nothing)
            || world.asked.iter().enumerate().any(|(index, asked)| {
                owns(asked) && world.call_state(index).is_some_and(|state| !state.is_over())
            });
        if found.crashes < instance.crashes && matters {
            steps.push(Step::Crash { node });
        }
    }
    steps.dedup();
}

fn people(instance: &Instance, world: &World, approval: usize, steps: &mut Vec<Step>) {
    for who in 0..instance.deciders {
        for (approve, starts) in [(false, false), (true, false), (true, true)] {
            steps.push(Step::Decide {
                who,
                approval,
                approve,
                starts,
            });
        }
        if instance.without == Some(Rule::ClockAfterLock) {
            steps.push(Step::DecideWithOldClock { who, approval });
        }
    }
    let other = (0..instance.approvals).find(|other| *other != approval && world.approval(*other).is_some());
    if let Some(card) = other {
        steps.push(Step::Misaim { approval, card });
    }
    if world.call_state(approval) == Some(CallState::Unknown) {
        for succeeded in [true, false] {
            steps.push(Step::Reconcile { approval, succeeded });
        }
    }
}

fn nodes(world: &World, approval: usize, steps: &mut Vec<Step>) {
    for (node, found) in world.nodes.iter().enumerate() {
        match found.memory.get(approval) {
            Some(Memory::Permit { .. }) => {
                for succeeds in [true, false] {
                    steps.push(Step::Send {
                        node,
                        approval,
                        succeeds,
                    });
                }
            }
            Some(Memory::Ended { .. }) => steps.push(Step::Finish { node, approval }),
            // Independent of the call's state: a node may act on a stale read.
            _ if may_run(world, node, approval) => steps.push(Step::Start { node, approval }),
            _ => {}
        }
    }
}

/// X77: returns true if the node may run the call: as the process that proposed it, or once that process has crashed or
/// lost its lease.
fn may_run(world: &World, node: usize, approval: usize) -> bool {
    let Some((owner, crashes)) = world.asked.get(approval).and_then(|asked| asked.owner) else {
        return false;
    };
    let is_alive = world
        .nodes
        .get(owner)
        .is_some_and(|found| found.crashes == crashes);
    let has_lease = world.nodes.get(owner).is_some_and(|found| found.has_lease);
    match owner == node {
        true => is_alive,
        false => !is_alive || !has_lease,
    }
}

/// Returns the world after a step, or `None` if nothing changed.
pub(crate) fn next(instance: &Instance, world: &World, step: &Step) -> Option<World> {
    let mut after = world.clone();
    let taken = take(instance, &mut after, step);
    // A failed command ends the step and must be reported as a fault.
    if taken.is_none() && after.faults.is_empty() {
        return None;
    }
    compare(world, &mut after);
    is_other(world, &after).then_some(after)
}

/// Applies a step to the world. Returns `None` if the step is not possible or its command failed.
fn take(instance: &Instance, after: &mut World, step: &Step) -> Option<()> {
    match *step {
        Step::Tick => after.tick += 1,
        Step::Propose { node, approval } => {
            let command = Command::Propose(Box::new(instance.propose(approval)));
            apply(after, &command, None)?;
            let crashes = after.nodes.get(node)?.crashes;
            let asked = after.asked.get_mut(approval)?;
            asked.owner = Some((node, crashes));
        }
        Step::Decide {
            who,
            approval,
            approve,
            starts,
        } => decide(after, who, approval, approve, starts, None)?,
        Step::DecideWithOldClock { who, approval } => {
            let before = time(after.tick.checked_sub(1)?);
            decide(after, who, approval, true, false, Some(before))?;
        }
        Step::Misaim { approval, card } => misaim(after, approval, card)?,
        Step::Withdraw { approval } => {
            let withdraw = sample::withdraw(after.approval(approval)?);
            apply(after, &Command::Withdraw(withdraw), None)?;
        }
        Step::Start { node, approval } => start(after, node, approval)?,
        Step::Send {
            node,
            approval,
            succeeds,
        } => send(instance, after, node, approval, succeeds)?,
        Step::Finish { node, approval } => finish(after, node, approval)?,
        Step::Reconcile { approval, succeeded } => {
            let reconcile = sample::reconcile(after.approval(approval)?, 1, succeeded);
            apply(after, &Command::Reconcile(reconcile), None)?;
        }
        Step::Sweep => {
            let sweep = sample::sweep(sample::SWEEP_ALL);
            apply(after, &Command::Sweep(sweep), None)?;
        }
        Step::Crash { node } => {
            let node = after.nodes.get_mut(node)?;
            node.crashes += 1;
            node.has_lease = true;
            node.memory.fill(Memory::Nothing);
        }
        Step::Lapse { node } => after.nodes.get_mut(node)?.has_lease = false,
    }
    Some(())
}

/// Returns true if the step changed anything.
fn is_other(before: &World, after: &World) -> bool {
    let versions = |world: &World| -> Vec<u32> {
        let rows = world.store.rows.values();
        rows.map(|row| row.approval.version).collect()
    };
    before.tick != after.tick
        || before.nodes != after.nodes
        || before.asked != after.asked
        || before.misaimed != after.misaimed
        || before.faults != after.faults
        || versions(before) != versions(after)
}

/// Runs a command in one transaction, at the current time or at `at`. If the command fails, records a fault and returns
/// `None`.
fn apply(world: &mut World, command: &Command, at: Option<Time>) -> Option<Answer> {
    let mut copy = world.store.clone();
    let now = at.unwrap_or_else(|| world.now());
    match command.apply(&mut copy, now) {
        Ok(answer) => {
            world.store = copy;
            Some(answer)
        }
        Err(_) => {
            world.faults.insert(Fault::CommandFailed);
            None
        }
    }
}

fn decide(
    world: &mut World,
    who: usize,
    index: usize,
    approve: bool,
    starts: bool,
    at: Option<Time>,
) -> Option<()> {
    let approval = world.approval(index)?.clone();
    let (owner, crashes) = world.asked.get(index)?.owner?;
    // A decision starts the call only if the process that has to run it is alive.
    let starts = starts && world.nodes.get(owner)?.crashes == crashes;
    let verdict = match approve {
        true => Verdict::Approve,
        false => Verdict::Deny,
    };
    let decide = Decide {
        start: starts.then(|| permit(owner, crashes, index)),
        ..sample::decide_as(person(who), &approval, verdict)
    };
    let (tick, named) = (world.tick, decide.decision.digest);
    let answer = apply(world, &Command::Decide(Box::new(decide)), at)?;
    let Answer::Decide(answer) = answer else {
        return None;
    };
    if answer.refusal.is_none() {
        if named != Some(approval.digest) {
            world.faults.insert(Fault::OtherCard);
        }
        // Compare with the true time, even if the store used an earlier reading of its clock.
        if approve && time(tick) >= approval.expires_at {
            world.faults.insert(Fault::ApprovedLate);
        }
    }
    if answer.started.is_some() {
        permitted(world, owner, index, &answer.approval?)?;
    }
    Some(())
}

fn misaim(world: &mut World, index: usize, card: usize) -> Option<()> {
    let other = world.approval(card)?.digest;
    let approval = world.approval(index)?.clone();
    let mut decide = sample::decide_as(person(0), &approval, Verdict::Approve);
    decide.decision.digest = Some(other);
    let answer = apply(world, &Command::Decide(Box::new(decide)), None)?;
    let Answer::Decide(answer) = answer else {
        return None;
    };
    match answer.refusal {
        None => _ = world.faults.insert(Fault::OtherCard),
        Some(refusal) => world.misaimed = matches!(refusal, Refusal::Stale { .. }),
    }
    Some(())
}

fn start(world: &mut World, node: usize, index: usize) -> Option<()> {
    let approval = world.approval(index)?.clone();
    let crashes = world.nodes.get(node)?.crashes;
    let start = countersign::command::Start {
        permit: permit(node, crashes, index),
        ..sample::start(&approval, 1, 0)
    };
    let Answer::Start(answer) = apply(world, &Command::Start(start), None)? else {
        return None;
    };
    if let Ok(started) = answer {
        permitted(world, node, index, &started.approval)?;
    }
    Some(())
}

/// Gives the node a permit for the call. Returns `None` if there is no such node or approval.
fn permitted(world: &mut World, node: usize, index: usize, approval: &SharedApproval) -> Option<()> {
    let (since, digest) = (world.tick, approval.digest);
    let memory = world.nodes.get_mut(node)?.memory.get_mut(index)?;
    *memory = Memory::Permit { since, digest };
    Some(())
}

/// Sends a call as the gate does: not after its deadline, and, if time has passed since the start, only if the record
/// still shows this node's run. Returns `None` if the node has no permit for the call.
fn send(instance: &Instance, world: &mut World, node: usize, index: usize, succeeds: bool) -> Option<()> {
    let found = world.nodes.get(node)?;
    let Memory::Permit { since, digest } = found.memory.get(index)?.clone() else {
        return None;
    };
    let elapsed = world.tick.checked_sub(since)?;
    let execution = world.approval(index)?.call(1)?.execution.as_ref();
    let own = permit(node, found.crashes, index);
    let is_ours = world.call_state(index) == Some(CallState::Running)
        && execution.is_some_and(|execution| execution.permit == own);
    let in_time = elapsed < TIMEOUT && (elapsed == 0 || is_ours);
    let is_sent = in_time || instance.without == Some(Rule::LookBeforeSending);
    // A failing tool has no effect.
    let succeeded = is_sent && succeeds;
    if succeeded {
        affect(world, index, digest);
    }
    let memory = world.nodes.get_mut(node)?.memory.get_mut(index)?;
    *memory = Memory::Ended {
        succeeded,
        sent: is_sent,
    };
    Some(())
}

fn finish(world: &mut World, node: usize, index: usize) -> Option<()> {
    let found = world.nodes.get(node)?;
    let Memory::Ended { succeeded, .. } = *found.memory.get(index)? else {
        return None;
    };
    let outcome = match succeeded {
        true => Outcome::succeeded("done"),
        false => Outcome::failed("not done"),
    };
    let finish = countersign::command::Finish {
        permit: permit(node, found.crashes, index),
        ..sample::finish(world.approval(index)?, 1, 0, outcome)
    };
    apply(world, &Command::Finish(finish), None)?;
    *world.nodes.get_mut(node)?.memory.get_mut(index)? = Memory::Nothing;
    Some(())
}
