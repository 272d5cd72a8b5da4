//! Calls that may start in any order, and starts that are repeated with the same permit.

use std::time::Duration;

use crate::approval::{Order, SharedApproval};
use crate::command::{Decide, ExecuteRefusal, Finish, Propose, Start};
use crate::executor::Outcome;
use crate::policy::Terms;
use crate::state::CallState::{self, Failed, Refused, Released, Running, Succeeded, Unknown};
use crate::store::suite::{Fixture, sample};

fn in_any_order(n: u64, calls: usize) -> Propose {
    Propose {
        order: Order::Any,
        ..sample::batch(n, calls)
    }
}

fn states(approval: &SharedApproval) -> Vec<CallState> {
    approval.calls.iter().map(|call| call.state).collect()
}

fn done() -> Outcome {
    Outcome::succeeded("{}")
}

/// Starts a call with a permit that can be given again.
fn repeatable(approval: &SharedApproval, position: u8, permit: u64) -> Start {
    Start {
        is_repeatable: true,
        ..sample::start(approval, position, permit)
    }
}

pub async fn e8_calls_in_any_order_start_side_by_side(fixture: Fixture) {
    let approval = fixture.approved(in_any_order(1, 3)).await;
    assert_eq!(fixture.get(&approval).await.order, Order::Any);
    fixture.start(sample::start(&approval, 3, 3)).await.unwrap();
    let started = fixture.start(sample::start(&approval, 1, 1)).await.unwrap();
    assert_eq!(states(&started.approval), [Running, Released, Running]);
    let failed = Outcome::failed("no");
    let after = fixture.finish(sample::finish(&approval, 3, 3, failed)).await;
    assert_eq!(
        states(&after.unwrap().approval),
        [Running, Released, Failed],
        "a failure stops no other"
    );
    // The gate names each call that it starts, so finishing one starts no other.
    let finish = Finish {
        start_next: Some(sample::permit(9)),
        ..sample::finish(&approval, 1, 1, done())
    };
    assert_eq!(fixture.finish(finish).await.unwrap().started, None);
    let twice = fixture.start(sample::start(&approval, 1, 4)).await.unwrap_err();
    assert_eq!(twice.code(), "wrong_state", "each still starts once");
    fixture.start(sample::start(&approval, 2, 2)).await.unwrap();
    let after = fixture.finish(sample::finish(&approval, 2, 2, done())).await;
    assert_eq!(states(&after.unwrap().approval), [Succeeded, Succeeded, Failed]);
    fixture.check_all().await;
}

pub async fn e8_a_decision_starts_no_call_of_any_order(fixture: Fixture) {
    let pending = fixture.propose(in_any_order(1, 2)).await;
    let decide = Decide {
        start: Some(sample::permit(1)),
        ..sample::approve(&pending)
    };
    let answer = fixture.decide(decide).await;
    assert_eq!((answer.refusal, answer.started), (None, None));
    assert_eq!(states(&answer.approval.unwrap()), [Released, Released]);
}

pub async fn e8_the_order_is_part_of_what_is_approved(fixture: Fixture) {
    let any = fixture.propose(in_any_order(1, 2)).await;
    let mut given = crate::approval::Approval::clone(&any);
    given.order = Order::Given;
    for (position, call) in any.numbered() {
        assert_eq!(call.digest, call.digest_in(&any, position));
        assert_ne!(call.digest, call.digest_in(&given, position));
    }
    let notes = any.notes_on(&any.calls[0]);
    assert!(notes[0].contains("in any order"), "{notes:?}");
    // A single call has no order, and its card does not mention one.
    let single = fixture.propose(in_any_order(2, 1)).await;
    assert_eq!(single.order, Order::Given);
    let notes = single.notes_on(&single.calls[0]);
    assert!(
        !notes.iter().any(|note| note.contains("in any order")),
        "{notes:?}"
    );
    fixture.check_all().await;
}

pub async fn e8_calls_in_any_order_become_stale_when_none_runs(fixture: Fixture) {
    let long = Terms {
        timeout: 10 * sample::START_WITHIN,
        ..sample::terms()
    };
    let propose = Propose {
        order: Order::Any,
        ..sample::batch_under(1, 3, &long)
    };
    let approval = fixture.approved(propose).await;
    fixture.start(sample::start(&approval, 2, 2)).await.unwrap();
    fixture.advance(sample::START_WITHIN);
    fixture.sweep(sample::sweep(10)).await;
    fixture.start(sample::start(&approval, 3, 3)).await.unwrap();
    for position in [2, 3] {
        let finish = sample::finish(&approval, position, position.into(), done());
        fixture.finish(finish).await.unwrap();
    }
    fixture.advance(sample::START_WITHIN);
    let late = fixture.start(sample::start(&approval, 1, 1)).await.unwrap_err();
    assert_eq!(late.code(), "wrong_state");
    let after = fixture.get(&approval).await;
    assert_eq!(states(&after), [Refused, Succeeded, Succeeded]);
    fixture.check_all().await;
}

pub async fn e8_calls_in_any_order_are_lost_each_by_itself(fixture: Fixture) {
    let approval = fixture.approved(in_any_order(1, 2)).await;
    fixture.start(sample::start(&approval, 2, 2)).await.unwrap();
    fixture.advance(Duration::from_secs(1));
    fixture.start(sample::start(&approval, 1, 1)).await.unwrap();
    fixture.advance(sample::TIMEOUT.saturating_sub(Duration::from_secs(1)));
    fixture.sweep(sample::sweep(10)).await;
    assert_eq!(states(&fixture.get(&approval).await), [Running, Unknown]);
    fixture.advance(Duration::from_secs(1));
    fixture.sweep(sample::sweep(10)).await;
    assert_eq!(states(&fixture.get(&approval).await), [Unknown, Unknown]);
    fixture.check_all().await;
}

pub async fn e8_a_repeated_start_gives_the_permit_again(fixture: Fixture) {
    let approval = fixture.approved(sample::propose(1)).await;
    let first = fixture.start(repeatable(&approval, 1, 1)).await.unwrap();
    let again = fixture.start(repeatable(&approval, 1, 1)).await.unwrap();
    assert_eq!(again.approval, first.approval, "nothing was written");
    let is_running =
        |refused: ExecuteRefusal| matches!(refused, ExecuteRefusal::WrongState { state: Running, .. });
    // Another permit, or the same one without a key, starts nothing.
    for other in [repeatable(&approval, 1, 2), sample::start(&approval, 1, 1)] {
        assert!(is_running(fixture.start(other).await.unwrap_err()));
    }
    assert_eq!(
        fixture.words(&approval).await,
        ["proposed", "approved", "started"]
    );
    let Some(fixture) = fixture.restarted().await else {
        return;
    };
    let again = fixture.start(repeatable(&approval, 1, 1)).await.unwrap();
    assert_eq!(
        again.approval.calls[0].execution,
        first.approval.calls[0].execution
    );
    // Nothing is given again once the call has ended.
    fixture
        .finish(sample::finish(&approval, 1, 1, done()))
        .await
        .unwrap();
    let over = fixture.start(repeatable(&approval, 1, 1)).await.unwrap_err();
    assert!(matches!(
        over,
        ExecuteRefusal::WrongState { state: Succeeded, .. }
    ));
}

pub async fn e8_a_start_is_not_repeated_after_the_deadline(fixture: Fixture) {
    let approval = fixture.approved(sample::propose(1)).await;
    fixture.start(repeatable(&approval, 1, 1)).await.unwrap();
    fixture.advance(sample::TIMEOUT);
    for _ in 0..2 {
        let late = fixture.start(repeatable(&approval, 1, 1)).await.unwrap_err();
        assert!(matches!(late, ExecuteRefusal::WrongState { state: Unknown, .. }));
        fixture.sweep(sample::sweep(10)).await;
    }
}
