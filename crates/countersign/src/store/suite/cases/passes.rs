//! Passed calls: recorded like any other call, but with no record of a person approving them.

use std::time::Duration;

use crate::command::{Answer, Command, Erase, ExecuteRefusal, Propose, ProposeRefusal};
use crate::decision::{Refusal, Verdict};
use crate::executor::Outcome;
use crate::id::Actor;
use crate::state::{CallState, State};
use crate::store::Filter;
use crate::store::suite::{Fixture, sample};

/// Creates passed call number `n`, started under permit number `n`.
fn pass(n: u64) -> Propose {
    let mut propose = sample::propose(n);
    for call in &mut propose.calls {
        call.sealed = None;
    }
    Propose {
        passes: Some(sample::permit(n)),
        ..propose
    }
}

pub async fn x58_a_passed_call_is_recorded_as_started_and_ends_once(fixture: Fixture) {
    let passed = fixture.propose(pass(1)).await;
    assert_eq!(passed.state, State::Passed);
    assert_eq!(passed.calls[0].state, CallState::Running);
    assert_eq!(passed.decision, None, "nobody decided it");
    assert_eq!(
        fixture.words(&passed).await,
        ["proposed", "passed", "started"],
        "in one transaction, and none of them a person's"
    );
    // The call runs once: it cannot be started again, nor finished without its permit.
    let again = fixture.start(sample::start(&passed, 1, 2)).await;
    assert!(matches!(again, Err(ExecuteRefusal::WrongState { .. })));
    let forged = sample::finish(&passed, 1, 9, Outcome::succeeded("{}"));
    assert!(matches!(
        fixture.finish(forged).await,
        Err(ExecuteRefusal::NotYourPermit(_))
    ));
    let end = sample::finish(&passed, 1, 1, Outcome::succeeded("{\"receipt\":7}"));
    let ended = fixture.finish(end).await.unwrap().approval;
    assert_eq!(ended.calls[0].state, CallState::Succeeded);
    assert_eq!(ended.calls[0].result.as_deref(), Some(&b"{\"receipt\":7}"[..]));
    assert!(ended.is_finished());
    assert_eq!(fixture.get(&passed).await, ended);
    fixture.check_all().await;
}

pub async fn x58_nobody_decides_or_withdraws_a_passed_call(fixture: Fixture) {
    let passed = fixture.propose(pass(1)).await;
    for verdict in [Verdict::Approve, Verdict::Deny] {
        let answer = fixture.decide(sample::decide(&passed, verdict)).await;
        assert!(
            matches!(answer.refusal, Some(Refusal::NotAsked { .. })),
            "{answer:?}"
        );
        assert_eq!(answer.started, None);
    }
    let answer = fixture.withdraw(sample::withdraw(&passed)).await;
    assert!(matches!(answer.refusal, Some(Refusal::NotAsked { .. })));
    assert_eq!(fixture.get(&passed).await.state, State::Passed);
    assert_eq!(fixture.get(&passed).await.calls[0].state, CallState::Running);
}

pub async fn x58_a_passed_call_that_never_ends_is_unknown(fixture: Fixture) {
    let passed = fixture.propose(pass(1)).await;
    fixture.advance(passed.calls[0].terms.timeout);
    assert_eq!(fixture.sweep(sample::sweep(10)).await.unknown, 1);
    let lost = fixture.get(&passed).await;
    assert_eq!(
        (lost.state, lost.calls[0].state),
        (State::Passed, CallState::Unknown)
    );
    let settled = fixture
        .reconcile(sample::reconcile(&lost, 1, true))
        .await
        .unwrap();
    assert_eq!(settled.calls[0].state, CallState::Succeeded);
    assert_eq!(
        fixture.words(&passed).await,
        ["proposed", "passed", "started", "lost", "reconciled"]
    );
}

pub async fn x58_a_key_records_a_passed_call_once(fixture: Fixture) {
    let keyed = |n, body| Propose {
        key: Some(sample::key("k", body)),
        ..pass(n)
    };
    let first = fixture.try_propose(keyed(1, "body")).await.unwrap();
    assert!(!first.repeated);
    let again = fixture.try_propose(keyed(2, "body")).await.unwrap();
    assert!(again.repeated);
    assert_eq!(again.approval, first.approval);
    assert_eq!(fixture.find(&sample::tenant(), sample::id(2)).await, None);
    let other = fixture.try_propose(keyed(3, "another body")).await;
    assert!(matches!(other, Err(ProposeRefusal::KeyReused(_))));
    // A held proposal with the same key finds the passed call, and vice versa.
    let held = Propose {
        passes: None,
        ..keyed(4, "body")
    };
    let found = fixture.try_propose(held).await.unwrap();
    assert_eq!((found.repeated, found.approval.id), (true, first.approval.id));
    let asked = Propose {
        key: Some(sample::key("q", "body")),
        ..sample::propose(5)
    };
    let asked = fixture.propose(asked).await;
    let passes = Propose {
        key: Some(sample::key("q", "body")),
        ..pass(6)
    };
    let found = fixture.try_propose(passes).await.unwrap();
    assert_eq!((found.repeated, found.approval.id), (true, asked.id));
    assert_eq!(found.approval.state, State::Pending);
}

pub async fn x58_many_send_a_passed_call_under_one_key_and_one_runs_it(fixture: Fixture) {
    let sending = (1..=16).map(|n| {
        let store = fixture.store.clone();
        let keyed = Propose {
            key: Some(sample::key("k", "body")),
            ..pass(n)
        };
        tokio::spawn(async move { store.write(Command::Propose(Box::new(keyed))).await })
    });
    let mut first = 0;
    for sent in sending.collect::<Vec<_>>() {
        match sent.await.unwrap().unwrap() {
            Answer::Propose(Ok(proposed)) => first += usize::from(!proposed.repeated),
            other => panic!("not recorded: {other:?}"),
        }
    }
    assert_eq!(first, 1);
    let all = fixture.store.list(&sample::tenant(), &Filter::default()).await;
    assert_eq!(all.unwrap().len(), 1);
}

pub async fn x58_a_passed_call_leaves_the_question_of_its_channel_alone(fixture: Fixture) {
    let asked = fixture.propose(sample::propose_in(1, "c")).await;
    let passes = Propose {
        channel: Some(sample::channel("c")),
        ..pass(2)
    };
    let passed = fixture.propose(passes.clone()).await;
    assert_eq!(passed.replaces, None);
    assert_eq!(fixture.pending_in(&sample::channel("c")).await, Some(asked.id));
    // A passed call in another agent's channel is refused.
    let foreign = Propose {
        agent: sample::agent("other"),
        id: sample::id(3),
        ..passes
    };
    let refused = fixture.try_propose(foreign).await;
    assert!(matches!(refused, Err(ProposeRefusal::ChannelTaken(_))));
}

pub async fn x58_lists_tell_passed_calls_apart(fixture: Fixture) {
    let asked = fixture.propose(sample::propose(1)).await;
    let passed = fixture.propose(pass(2)).await;
    let list = async |filter: Filter| -> Vec<_> {
        let listed = fixture.store.list(&sample::tenant(), &filter).await.unwrap();
        listed.iter().map(|approval| approval.id).collect()
    };
    let of_state = |state| Filter {
        state: Some(state),
        ..Filter::default()
    };
    assert_eq!(list(of_state(State::Pending)).await, [asked.id]);
    assert_eq!(list(of_state(State::Passed)).await, [passed.id]);
    assert_eq!(list(of_state(State::Approved)).await, []);
    assert_eq!(list(Filter::default()).await, [passed.id, asked.id]);
    let only_asked = Filter {
        asked: true,
        ..Filter::default()
    };
    assert_eq!(list(only_asked.clone()).await, [asked.id]);
    let of_run = Filter {
        run: Some(sample::run("r")),
        ..only_asked
    };
    assert_eq!(list(of_run).await, []);
}

pub async fn x58_a_passed_call_is_erased_like_any_other(fixture: Fixture) {
    let passed = fixture.propose(pass(1)).await;
    let end = sample::finish(&passed, 1, 1, Outcome::succeeded("{}"));
    fixture.finish(end).await.unwrap();
    let over = fixture.get(&passed).await;
    let erase = Command::Erase(Erase {
        tenant: over.tenant.clone(),
        approval: over.id,
        before: over.changed_at.plus(Duration::from_micros(1)),
        by: Actor::Gate,
        policy: sample::policy(),
    });
    assert!(matches!(fixture.write(erase).await, Answer::Erase(_)));
    let erased = fixture.get(&over).await;
    assert_eq!(erased.state, State::Passed);
    assert!(erased.erased_at.is_some());
    assert!(erased.calls[0].arguments.as_bytes().is_empty());
    fixture.check_all().await;
}

pub async fn x58_a_record_of_several_passed_calls_is_refused(fixture: Fixture) {
    let several = Propose {
        calls: sample::batch(1, 2).calls,
        ..pass(1)
    };
    let several = Command::Propose(Box::new(several));
    assert!(fixture.try_write(several).await.is_err());
    assert_eq!(fixture.find(&sample::tenant(), sample::id(1)).await, None);
}

pub async fn x58_passed_calls_survive_a_restart(fixture: Fixture) {
    let keyed = |n| Propose {
        key: Some(sample::key("k", "body")),
        ..pass(n)
    };
    let passed = fixture.propose(keyed(1)).await;
    let Some(fixture) = fixture.restarted().await else {
        return;
    };
    assert_eq!(fixture.get(&passed).await, passed);
    let again = fixture.try_propose(keyed(2)).await.unwrap();
    assert!(again.repeated, "what may have run is not started again");
    fixture.advance(passed.calls[0].terms.timeout);
    assert_eq!(fixture.sweep(sample::sweep(10)).await.unknown, 1);
}
