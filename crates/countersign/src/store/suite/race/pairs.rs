//! X38, F15: races each pair of approve, deny, expire, supersede and withdraw, in both orders and concurrently.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{look, propose, together, write};
use crate::approval::{Approval, SharedApproval};
use crate::command::{Answer, Command, Propose};
use crate::decision::Refusal;
use crate::event::EventKind;
use crate::state::State;
use crate::store::Store;
use crate::store::suite::{Fixture, sample};
use crate::time::ManualClock;

/// Command that ends a pending approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Approve,
    Deny,
    Expire,
    Supersede,
    Withdraw,
}

const WAYS: [Way; 5] = [
    Way::Approve,
    Way::Deny,
    Way::Expire,
    Way::Supersede,
    Way::Withdraw,
];

/// For each pair of competitors: the number of rounds, and how often the first competitor won.
pub type RaceCounts = BTreeMap<String, (usize, usize)>;

/// Races every way to end an approval against every other, `rounds` times each. A quarter of the rounds runs in one
/// order, a quarter in the other, and half concurrently, so every order occurs.
pub async fn race_all_pairs(fixture: &Fixture, rounds: usize) -> RaceCounts {
    let mut counts = RaceCounts::new();
    let mut number = 0;
    for (index, first) in WAYS.into_iter().enumerate() {
        for second in WAYS.into_iter().skip(index + 1) {
            let count = counts.entry(format!("{first:?} against {second:?}")).or_default();
            for round in 0..rounds {
                number += 1;
                let won = run_round(fixture, number, round, [first, second]).await;
                count.0 += 1;
                count.1 += usize::from(won == first);
            }
        }
    }
    for (pair, (count, first_won)) in &counts {
        assert!(
            0 < *first_won && first_won < count,
            "{pair}: one order was never seen"
        );
    }
    counts
}

async fn run_round(fixture: &Fixture, number: u64, round: usize, ways: [Way; 2]) -> Way {
    let channel = format!("channel {number}");
    let approval = propose(&fixture.store, sample::propose_in(number * 2, &channel)).await;
    let context = Arc::new(Context {
        store: fixture.store.clone(),
        clock: fixture.clock.clone(),
        approval,
        successor: sample::propose_in(number * 2 + 1, &channel),
    });
    let [first, second] = ways;
    let answers = match round % 4 {
        0 => {
            let answer = context.go(first).await;
            vec![answer, context.go(second).await]
        }
        1 => {
            let answer = context.go(second).await;
            vec![context.go(first).await, answer]
        }
        _ => together(2, |task| {
            let (context, way) = (context.clone(), ways[(task + round) % 2]);
            async move { (way, context.go(way).await) }
        })
        .await
        .into_iter()
        .fold(vec![None, None], |mut answers, (way, answer)| {
            answers[usize::from(way == second)] = Some(answer);
            answers
        })
        .into_iter()
        .map(|answer| answer.expect("both answered"))
        .collect(),
    };
    context.check(ways, &answers).await
}

struct Context {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    approval: SharedApproval,
    successor: Propose,
}

impl Context {
    async fn go(&self, way: Way) -> Answer {
        let command = match way {
            Way::Approve => Command::Decide(Box::new(sample::approve(&self.approval))),
            Way::Deny => Command::Decide(Box::new(sample::deny(&self.approval))),
            Way::Supersede => Command::Propose(Box::new(self.successor.clone())),
            Way::Withdraw => Command::Withdraw(sample::withdraw(&self.approval)),
            Way::Expire => {
                // The clock moves while the other command is in flight.
                self.clock.advance(sample::TTL);
                Command::Sweep(sample::sweep(sample::SWEEP_ALL))
            }
        };
        write(&self.store, command).await
    }

    /// Returns the winner, after checking that both commands got the correct answer.
    async fn check(&self, ways: [Way; 2], answers: &[Answer]) -> Way {
        let approval = look(&self.store, self.approval.id).await;
        let events = self.store.events(&approval.tenant, approval.id).await.unwrap();
        let ends = events.iter().filter(|event| {
            !matches!(
                event.what,
                EventKind::Proposed { .. } | EventKind::DecisionRefused { .. } | EventKind::Refused { .. }
            )
        });
        assert_eq!(ends.count(), 1, "I6: one end");
        let winner = match approval.state {
            State::Approved => Way::Approve,
            State::Denied => Way::Deny,
            State::Expired => Way::Expire,
            State::Superseded => Way::Supersede,
            State::Withdrawn => Way::Withdraw,
            State::Pending | State::Passed => panic!("{ways:?}: {} at the end", approval.state),
        };
        assert!(ways.contains(&winner), "{ways:?}: {winner:?}");
        for (way, answer) in ways.into_iter().zip(answers) {
            match answer {
                Answer::Decide(answer) | Answer::Withdraw(answer) => {
                    let expected = (way != winner).then(|| truth(&approval));
                    assert_eq!(answer.refusal, expected, "{ways:?}: {way:?}");
                }
                Answer::Propose(Ok(proposed)) => {
                    let replaced = (way == winner).then_some(approval.id);
                    assert_eq!(proposed.approval.replaces, replaced, "{ways:?}");
                }
                Answer::Sweep(_) => {}
                other => panic!("{ways:?}: {other:?}"),
            }
        }
        winner
    }
}

/// Returns the refusal that a loser must get.
fn truth(approval: &Approval) -> Refusal {
    let id = approval.id;
    match (approval.state, &approval.decision, approval.superseded_by) {
        (state, Some(decided), _) => Refusal::AlreadyDecided {
            id,
            state,
            by: decided.by.clone(),
            at: decided.at,
        },
        (State::Expired, _, _) => Refusal::Expired {
            id,
            at: approval.expires_at,
        },
        (_, _, Some(by)) => Refusal::Superseded { id, by },
        _ => Refusal::Withdrawn {
            id,
            at: approval.ended_at.expect("it ended"),
        },
    }
}
