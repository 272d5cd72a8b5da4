//! Races: many concurrent tasks, exactly one winner, and correct refusals for the losers.
//!
//! Each race needs its own store and a multi-threaded runtime.

mod claims;
mod pairs;

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::Barrier;

use super::sample;
use crate::approval::SharedApproval;
use crate::command::{Answer, Command, Decide, ExecuteRefusal, Propose};
use crate::decision::{Refusal, Verdict};
use crate::event::{EventKind, verify};
use crate::executor::Outcome;
use crate::id::{ApprovalId, Person};
use crate::policy::Authority;
use crate::state::{CallState, State};
use crate::store::Store;

pub use claims::race_all_claims;
pub use pairs::{RaceCounts, race_all_pairs};

/// Runs `work` in `tasks` tasks that start together, and returns their results.
async fn together<F, T>(tasks: usize, work: impl Fn(usize) -> F) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let barrier = Arc::new(Barrier::new(tasks));
    let spawn = |number| {
        let (barrier, work) = (barrier.clone(), work(number));
        tokio::spawn(async move {
            barrier.wait().await;
            work.await
        })
    };
    let done = join_all((0..tasks).map(spawn)).await;
    done.into_iter()
        .map(|task| task.expect("no task panics"))
        .collect()
}

async fn write(store: &Arc<dyn Store>, command: Command) -> Answer {
    store.write(command).await.expect("the store answers")
}

async fn propose(store: &Arc<dyn Store>, propose: Propose) -> SharedApproval {
    match write(store, Command::Propose(Box::new(propose))).await {
        Answer::Propose(Ok(proposed)) => proposed.approval,
        other => panic!("{other:?}"),
    }
}

async fn approved(store: &Arc<dyn Store>, proposal: Propose) -> SharedApproval {
    let pending = propose(store, proposal).await;
    match write(store, Command::Decide(Box::new(sample::approve(&pending)))).await {
        Answer::Decide(answer) if answer.refusal.is_none() => answer.approval.unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Returns an approval after verifying its history.
async fn look(store: &Arc<dyn Store>, id: ApprovalId) -> SharedApproval {
    let tenant = sample::tenant();
    let approval = store.approval(&tenant, id).await.unwrap().expect("it is there");
    let events = store.events(&tenant, id).await.unwrap();
    assert_eq!(verify(&approval, &events), Ok(()), "approval {id}");
    approval
}

/// X13, F14: `tasks` tasks decide the same `approvals` approvals, half of them approving and half denying. Each
/// approval must have exactly one winner, and the refusal of every loser must name the winner.
pub async fn race_decides(store: &Arc<dyn Store>, tasks: usize, approvals: usize) {
    let mut pending = Vec::with_capacity(approvals);
    for n in 0..approvals as u64 {
        pending.push(propose(store, sample::propose(n)).await);
    }
    let pending = Arc::new(pending);
    let answers = together(tasks, |task| {
        let (store, pending) = (store.clone(), pending.clone());
        async move {
            let mut answers = Vec::with_capacity(pending.len());
            for approval in pending.iter() {
                let answer = write(&store, Command::Decide(Box::new(racer(task, approval)))).await;
                let Answer::Decide(answer) = answer else {
                    panic!("{answer:?}");
                };
                answers.push(answer.refusal);
            }
            answers
        }
    })
    .await;
    for (index, approval) in pending.iter().enumerate() {
        let approval = look(store, approval.id).await;
        let decided = approval.decision.clone().expect("somebody won");
        let mut winners = 0;
        for (task, answers) in answers.iter().enumerate() {
            match &answers[index] {
                None => {
                    winners += 1;
                    assert_eq!(decided.by, person(task), "the winner is on record");
                    assert_eq!(approval.state == State::Approved, task % 2 == 0);
                }
                Some(refusal) => {
                    let (id, state) = (approval.id, approval.state);
                    let (by, at) = (decided.by.clone(), decided.at);
                    assert_eq!(*refusal, Refusal::AlreadyDecided { id, state, by, at });
                }
            }
        }
        assert_eq!(winners, 1, "approval {}", approval.id);
    }
}

/// Lets `tasks` people approve each approval at once, with a quorum of `quorum`. Exactly that many approvals must be
/// counted, the last of them releases the calls, and all later ones are refused.
pub async fn race_quorums(store: &Arc<dyn Store>, tasks: usize, approvals: usize, quorum: u8) {
    for n in 0..approvals as u64 {
        let authority = Authority {
            quorum,
            ..Authority::default()
        };
        let proposal = Propose {
            calls: vec![sample::call_under("{}", sample::terms_asking(authority))],
            ..sample::propose(n)
        };
        let pending = propose(store, proposal).await;
        let answers = together(tasks, |task| {
            let mut decide = racer(task * 2, &pending);
            decide.start = Some(sample::permit(task as u64));
            let store = store.clone();
            async move { write(&store, Command::Decide(Box::new(decide))).await }
        })
        .await;
        let stored = look(store, pending.id).await;
        assert_eq!(stored.state, State::Approved);
        assert_eq!(stored.endorsements.len() + 1, usize::from(quorum));
        let (mut accepted, mut started) = (0, 0);
        for answer in answers {
            let Answer::Decide(answer) = answer else {
                panic!("{answer:?}");
            };
            accepted += usize::from(answer.refusal.is_none());
            started += usize::from(answer.started.is_some());
            let late = matches!(answer.refusal, None | Some(Refusal::AlreadyDecided { .. }));
            assert!(late, "{:?}", answer.refusal);
        }
        assert_eq!((accepted, started), (usize::from(quorum), 1));
    }
}

fn person(task: usize) -> Person {
    sample::person(&format!("racer {task}"))
}

fn racer(task: usize, approval: &SharedApproval) -> Decide {
    let verdict = match task % 2 {
        0 => Verdict::Approve,
        _ => Verdict::Deny,
    };
    let mut decide = sample::decide_as("alice", approval, verdict);
    decide.decision.decider.person = person(task);
    decide.decision.decider.groups = vec!["ops".to_owned()];
    decide
}

/// I2: `tasks` tasks start the same call; exactly one must get a permit.
pub async fn race_starts(store: &Arc<dyn Store>, tasks: usize, approvals: usize) {
    for n in 0..approvals as u64 {
        let approval = approved(store, sample::propose(n)).await;
        let started = together(tasks, |task| {
            let (store, start) = (store.clone(), sample::start(&approval, 1, task as u64));
            async move { write(&store, Command::Start(start)).await }
        })
        .await;
        let stored = look(store, approval.id).await;
        let execution = stored.calls[0].execution.clone().expect("it was started");
        let mut winners = 0;
        for (task, answer) in started.into_iter().enumerate() {
            match answer {
                Answer::Start(Ok(_)) => {
                    winners += 1;
                    assert_eq!(execution.permit, sample::permit(task as u64));
                }
                Answer::Start(Err(refusal)) => {
                    let call = sample::call_id(&approval, 1);
                    let (state, because) = (CallState::Running, None);
                    assert_eq!(refusal, ExecuteRefusal::WrongState { call, state, because });
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(winners, 1, "call {}.1", approval.id);
    }
}

/// A17: starts several approved undos of one call at once; exactly one must get a permit.
pub async fn race_undos(store: &Arc<dyn Store>, undos: usize, rounds: usize) {
    for round in 0..rounds as u64 {
        let first = round * 1000;
        let target = approved(store, sample::propose(first)).await;
        write(store, Command::Start(sample::start(&target, 1, 1))).await;
        let done = sample::finish(&target, 1, 1, Outcome::succeeded("{}"));
        write(store, Command::Finish(done)).await;
        let mut approvals = Vec::new();
        for n in 1..=undos as u64 {
            let undo = Propose {
                undoes: Some(sample::call_id(&target, 1).into()),
                ..sample::propose(first + n)
            };
            approvals.push(approved(store, undo).await);
        }
        let started = together(undos, |task| {
            let (store, start) = (store.clone(), sample::start(&approvals[task], 1, 1));
            async move { matches!(write(&store, Command::Start(start)).await, Answer::Start(Ok(_))) }
        })
        .await;
        let winners: Vec<usize> = (0..undos).filter(|task| started[*task]).collect();
        assert_eq!(winners.len(), 1, "A17: {winners:?} undo the same call");
        let claimed = look(store, target.id).await.calls[0].undone_by;
        assert_eq!(claimed, Some(sample::call_id(&approvals[winners[0]], 1)));
    }
}

/// A4, X40: `tasks` tasks propose in one channel at once, then all send one proposal under one key. One proposal must
/// end up pending while each of the others is replaced by exactly one, and the key must yield one approval.
pub async fn race_proposals(store: &Arc<dyn Store>, tasks: usize, rounds: usize) {
    for round in 0..rounds as u64 {
        let first = round * 1000;
        let name = format!("channel {round}");
        let made = together(tasks, |task| {
            let (store, proposal) = (store.clone(), sample::propose_in(first + task as u64, &name));
            async move { propose(&store, proposal).await.id }
        })
        .await;
        check_chain(store, &name, &made).await;

        let answers = together(tasks, |task| {
            let proposal = Propose {
                key: Some(sample::key(&format!("key {round}"), "body")),
                ..sample::propose(first + 500 + task as u64)
            };
            let store = store.clone();
            async move {
                match write(&store, Command::Propose(Box::new(proposal))).await {
                    Answer::Propose(Ok(proposed)) => (proposed.repeated, proposed.approval.id),
                    other => panic!("{other:?}"),
                }
            }
        })
        .await;
        let new = answers.iter().filter(|(repeated, _)| !repeated).count();
        assert_eq!(new, 1, "X40: one key, one approval");
        assert!(answers.iter().all(|(_, id)| *id == answers[0].1), "X40");
    }
}

/// Checks that each approval of a channel but the last was replaced by the one it names.
async fn check_chain(store: &Arc<dyn Store>, channel: &str, made: &[ApprovalId]) {
    let mut pending = Vec::new();
    for id in made {
        let approval = look(store, *id).await;
        match approval.state {
            State::Pending => pending.push(*id),
            State::Superseded => {
                let successor = approval.superseded_by.expect("it says by which");
                assert_eq!(look(store, successor).await.replaces, Some(*id), "A4");
            }
            state => panic!("A4: {state}"),
        }
        let events = store.events(&sample::tenant(), *id).await.unwrap();
        let ends = events
            .iter()
            .filter(|event| matches!(event.what, EventKind::Superseded { .. }));
        assert!(ends.count() <= 1, "I6");
    }
    assert_eq!(pending.len(), 1, "A4: pending in `{channel}`: {pending:?}");
    let found = store
        .pending_in(&sample::tenant(), &sample::channel(channel))
        .await
        .unwrap();
    assert_eq!(found.map(|approval| approval.id), Some(pending[0]), "A4");
}
