//! I2, F15: races a start against everything else that can happen to an approved call, in both orders and concurrently.

use super::{RaceCounts, approved, look, together, write};
use crate::approval::SharedApproval;
use crate::call::RefusalReason;
use crate::command::{Answer, Command, ExecuteRefusal, Propose};
use crate::decision::Refusal;
use crate::event::EventKind;
use crate::state::{CallState, State};
use crate::store::suite::{Fixture, sample};

/// The command that races a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rival {
    /// Another start of the same call.
    Start,
    Approve,
    Deny,
    /// The time within which the call may start runs out.
    Expire,
    Supersede,
    Withdraw,
}

const RIVALS: [Rival; 6] = [
    Rival::Start,
    Rival::Approve,
    Rival::Deny,
    Rival::Expire,
    Rival::Supersede,
    Rival::Withdraw,
];

/// Races a start against every rival, `rounds` times each: a quarter in one order, a quarter in the other, half
/// concurrently. Returns, for each rival, the number of rounds and how often the start came first.
pub async fn race_all_claims(fixture: &Fixture, rounds: usize) -> RaceCounts {
    let mut counts = RaceCounts::new();
    let mut number = 0;
    for rival in RIVALS {
        let count = counts.entry(format!("Start against {rival:?}")).or_default();
        for round in 0..rounds {
            number += 1;
            count.0 += 1;
            count.1 += usize::from(run_round(fixture, number, round, rival).await);
        }
    }
    counts
}

/// Runs one race. Returns true if the start came first.
async fn run_round(fixture: &Fixture, number: u64, round: usize, rival: Rival) -> bool {
    // Keeps the ids apart from other races on the same store.
    let number = 1_000_000_000 + number * 2;
    let channel = format!("claim {number}");
    let approval = approved(&fixture.store, sample::propose_in(number, &channel)).await;
    let tenant = approval.tenant.clone();
    let feed = fixture.store.feed_end(&tenant).await.unwrap();
    let start = Command::Start(sample::start(&approval, 1, 1));
    let other = command(&approval, rival, sample::propose_in(number + 1, &channel));
    let go = |is_start: bool| {
        let (store, clock) = (fixture.store.clone(), fixture.clock.clone());
        let command = match is_start {
            true => start.clone(),
            false => other.clone(),
        };
        async move {
            if !is_start && rival == Rival::Expire {
                // The clock moves while the other command is in flight.
                clock.advance(sample::START_WITHIN);
            }
            (is_start, write(&store, command).await)
        }
    };
    let mut answers = match round % 4 {
        0 => vec![go(true).await, go(false).await],
        1 => vec![go(false).await, go(true).await],
        _ => together(2, |task| go((task + round).is_multiple_of(2))).await,
    };
    answers.sort_by_key(|(is_start, _)| !is_start);
    let [(_, start), (_, other)] = answers.as_slice() else {
        panic!("{answers:?}");
    };
    let after = look(&fixture.store, approval.id).await;
    check(&after, rival, start, other);
    match other {
        Answer::Decide(answer) | Answer::Withdraw(answer) => {
            let found = answer.approval.as_ref().expect("it is there");
            found.calls[0].state == CallState::Running
        }
        Answer::Propose(Ok(_)) => {
            let events = fixture.feed(&tenant, feed, 2).await;
            matches!(events[0].event.what, EventKind::Started { .. })
        }
        _ => matches!(start, Answer::Start(Ok(_))),
    }
}

fn command(approval: &SharedApproval, rival: Rival, successor: Propose) -> Command {
    match rival {
        Rival::Start => Command::Start(sample::start(approval, 1, 2)),
        Rival::Approve => Command::Decide(Box::new(sample::approve(approval))),
        Rival::Deny => Command::Decide(Box::new(sample::deny(approval))),
        Rival::Expire => Command::Sweep(sample::sweep(sample::SWEEP_ALL)),
        Rival::Supersede => Command::Propose(Box::new(successor)),
        Rival::Withdraw => Command::Withdraw(sample::withdraw(approval)),
    }
}

/// Checks that at most one start succeeded, that the decision stands, and that both commands got the correct answer.
fn check(after: &SharedApproval, rival: Rival, start: &Answer, other: &Answer) {
    let call = &after.calls[0];
    assert_eq!(after.state, State::Approved, "I6: {rival:?}");
    let started = matches!(start, Answer::Start(Ok(_)));
    match rival {
        Rival::Start => {
            let both = [start, other].map(|answer| matches!(answer, Answer::Start(Ok(_))));
            assert_eq!(both.iter().filter(|won| **won).count(), 1, "I2: {both:?}");
            let winner = match started {
                true => sample::permit(1),
                false => sample::permit(2),
            };
            assert_eq!(call.execution.as_ref().map(|run| run.permit), Some(winner));
        }
        Rival::Expire if !started => {
            assert_eq!(
                (call.state, &call.because),
                (CallState::Refused, &Some(RefusalReason::Stale))
            );
            let told = matches!(start, Answer::Start(Err(ExecuteRefusal::WrongState { .. })));
            assert!(told, "{start:?}");
        }
        // The call was started, and so much time has passed that the sweep gave up on it.
        Rival::Expire => assert_eq!(call.state, CallState::Unknown, "I12"),
        Rival::Approve | Rival::Deny | Rival::Withdraw => {
            let (Answer::Decide(answer) | Answer::Withdraw(answer)) = other else {
                panic!("{other:?}");
            };
            let told = matches!(answer.refusal, Some(Refusal::AlreadyDecided { .. }));
            assert!(told && started, "{rival:?}: {:?}", answer.refusal);
            assert_eq!(call.state, CallState::Running);
        }
        Rival::Supersede => {
            let Answer::Propose(Ok(proposed)) = other else {
                panic!("{other:?}");
            };
            assert_eq!(
                proposed.approval.replaces, None,
                "what was decided is not replaced"
            );
            assert!(started);
            assert_eq!(call.state, CallState::Running);
        }
    }
}
