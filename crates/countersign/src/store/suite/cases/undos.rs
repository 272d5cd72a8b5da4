//! Undo, and the removal of credentials when their calls end.

use std::time::Duration;

use crate::approval::SharedApproval;
use crate::call::RefusalReason;
use crate::command::{Decide, ExecuteRefusal, Propose, ProposeRefusal};
use crate::executor::Outcome;
use crate::id::CallId;
use crate::state::CallState;
use crate::store::suite::{Fixture, sample};
use crate::undoes::Undoes;

fn done() -> Outcome {
    Outcome::succeeded("{}")
}

fn undo(n: u64, undoes: CallId) -> Propose {
    Propose {
        undoes: Some(undoes.into()),
        ..sample::propose(n)
    }
}

/// Creates an approval whose one call succeeded.
async fn succeeded(fixture: &Fixture, n: u64) -> SharedApproval {
    let approval = fixture.running(sample::propose(n)).await;
    let finish = sample::finish(&approval, 1, 1, done());
    fixture.finish(finish).await.unwrap().approval
}

pub async fn a17_undo_marks_undone_and_cannot_run_twice(fixture: Fixture) {
    let target = succeeded(&fixture, 1).await;
    let undoes = sample::call_id(&target, 1);
    let approval = fixture.running(undo(2, undoes)).await;
    assert_eq!(approval.undoes, Some(undoes.into()));
    fixture
        .finish(sample::finish(&approval, 1, 1, done()))
        .await
        .unwrap();
    let undone = fixture.get(&target).await;
    assert_eq!(undone.calls[0].state, CallState::Undone);
    assert_eq!(undone.calls[0].undone_by, Some(sample::call_id(&approval, 1)));
    assert_eq!(
        fixture.words(&target).await,
        [
            "proposed",
            "approved",
            "started",
            "succeeded",
            "undo_started",
            "undone"
        ]
    );
    let again = fixture.try_propose(undo(3, undoes)).await;
    let (call, state) = (undoes, "undone");
    assert_eq!(again.err(), Some(ProposeRefusal::NotUndoable { call, state }));
    // The undo itself can be undone.
    fixture.running(undo(4, sample::call_id(&approval, 1))).await;
}

pub async fn a17_a_batch_is_undone_by_one_approval_each_call_by_its_own(fixture: Fixture) {
    let target = fixture.running(sample::batch(1, 3)).await;
    for position in 1..=3u8 {
        if position > 1 {
            fixture.start(sample::start(&target, position, 1)).await.unwrap();
        }
        let finish = sample::finish(&target, position, 1, done());
        fixture.finish(finish).await.unwrap();
    }
    let several = |n: u64, positions: &[u8]| Propose {
        undoes: Undoes::new(target.id, positions.iter().copied()),
        ..sample::batch(n, positions.len())
    };
    let one = fixture.running(several(2, &[1, 3])).await;
    assert_eq!(one.undoes, Undoes::new(target.id, [3, 1]));
    // While the undo of the last call runs, the other calls are untouched.
    let now = fixture.get(&target).await;
    let undone_by: Vec<Option<CallId>> = now.calls.iter().map(|call| call.undone_by).collect();
    assert_eq!(undone_by, [None, None, Some(sample::call_id(&one, 1))]);
    let refused = fixture.try_propose(several(3, &[2, 3])).await;
    let (call, state) = (sample::call_id(&target, 3), "being undone");
    assert_eq!(refused.err(), Some(ProposeRefusal::NotUndoable { call, state }));
    fixture.finish(sample::finish(&one, 1, 1, done())).await.unwrap();
    fixture.start(sample::start(&one, 2, 1)).await.unwrap();
    let failed = Outcome::failed("no");
    fixture.finish(sample::finish(&one, 2, 1, failed)).await.unwrap();
    let now = fixture.get(&target).await;
    let states: Vec<(CallState, bool)> = now
        .calls
        .iter()
        .map(|call| (call.state, call.undone_by.is_some()))
        .collect();
    let succeeded = (CallState::Succeeded, false);
    assert_eq!(states, [succeeded, succeeded, (CallState::Undone, true)]);
    // A failed undo releases its target.
    fixture.propose(several(4, &[1, 2])).await;
}

pub async fn a17_two_undos_of_one_call_do_not_both_run(fixture: Fixture) {
    let target = succeeded(&fixture, 1).await;
    let undoes = sample::call_id(&target, 1);
    let one = fixture.approved(undo(2, undoes)).await;
    let two = fixture.approved(undo(3, undoes)).await;
    let three = fixture.propose(undo(4, undoes)).await;
    let four = fixture.approved(undo(6, undoes)).await;
    fixture.start(sample::start(&one, 1, 1)).await.unwrap();
    // While the first undo runs, its outcome is open, so no other may start.
    let refused = fixture.start(sample::start(&two, 1, 2)).await.unwrap_err();
    let state = "being undone";
    assert_eq!(refused, ExecuteRefusal::NothingToUndo { undoes, state });
    let decide = Decide {
        start: Some(sample::permit(3)),
        ..sample::approve(&three)
    };
    let answer = fixture.decide(decide).await;
    assert_eq!((answer.refusal, answer.started), (None, None));
    // Both were refused right away rather than left waiting.
    for over in [&two, &three] {
        let over = fixture.get(over).await;
        assert_eq!(over.calls[0].state, CallState::Refused);
        assert_eq!(over.calls[0].because, Some(RefusalReason::NothingToUndo));
    }
    let refused = fixture.try_propose(undo(5, undoes)).await.err();
    let call = undoes;
    assert_eq!(refused, Some(ProposeRefusal::NotUndoable { call, state }));
    fixture.finish(sample::finish(&one, 1, 1, done())).await.unwrap();
    let refused = fixture.start(sample::start(&four, 1, 3)).await.unwrap_err();
    let state = "undone";
    assert_eq!(refused, ExecuteRefusal::NothingToUndo { undoes, state });
}

pub async fn a17_a_failed_undo_can_be_tried_again(fixture: Fixture) {
    let target = succeeded(&fixture, 1).await;
    let undoes = sample::call_id(&target, 1);
    let one = fixture.running(undo(2, undoes)).await;
    let failed = Outcome::failed("no");
    fixture.finish(sample::finish(&one, 1, 1, failed)).await.unwrap();
    let free = fixture.get(&target).await;
    assert_eq!(
        (free.calls[0].state, free.calls[0].undone_by),
        (CallState::Succeeded, None)
    );
    let two = fixture.running(undo(3, undoes)).await;
    fixture.finish(sample::finish(&two, 1, 1, done())).await.unwrap();
    assert_eq!(
        fixture.get(&target).await.calls[0].undone_by,
        Some(sample::call_id(&two, 1))
    );
}

pub async fn a17_a_lost_undo_holds_its_claim_until_reconciled(fixture: Fixture) {
    for (n, succeeds, expected) in [(10, true, CallState::Undone), (20, false, CallState::Succeeded)] {
        let target = succeeded(&fixture, n).await;
        let undoes = sample::call_id(&target, 1);
        let lost = fixture.running(undo(n + 1, undoes)).await;
        fixture.advance(Duration::from_secs(3600));
        fixture.sweep(sample::sweep(10)).await;
        let refused = fixture.try_propose(undo(n + 2, undoes)).await;
        assert!(refused.is_err(), "nobody knows whether it is undone");
        fixture
            .reconcile(sample::reconcile(&lost, 1, succeeds))
            .await
            .unwrap();
        let call = fixture.get(&target).await.calls[0].clone();
        assert_eq!(call.state, expected);
        assert_eq!(call.undone_by.is_some(), succeeds);
        let again = fixture.try_propose(undo(n + 2, undoes)).await;
        assert_eq!(again.is_ok(), !succeeds);
    }
    // A late result of the undo also settles the state of its target.
    let target = succeeded(&fixture, 30).await;
    let lost = fixture.running(undo(31, sample::call_id(&target, 1))).await;
    fixture.advance(Duration::from_secs(3600));
    fixture.sweep(sample::sweep(10)).await;
    fixture.finish(sample::finish(&lost, 1, 1, done())).await.unwrap();
    assert_eq!(fixture.get(&target).await.calls[0].state, CallState::Undone);
}

pub async fn a17_only_what_succeeded_can_be_undone(fixture: Fixture) {
    let pending = fixture.propose(sample::propose(1)).await;
    let running = fixture.running(sample::propose(2)).await;
    let table = [
        (sample::call_id(&pending, 1), "held"),
        (sample::call_id(&running, 1), "running"),
        (sample::call_id(&running, 2), "not there"),
        (
            CallId {
                approval: sample::id(99),
                position: 1,
            },
            "not there",
        ),
    ];
    for (n, (call, state)) in (10..).zip(table) {
        let refused = fixture.try_propose(undo(n, call)).await.err();
        assert_eq!(refused, Some(ProposeRefusal::NotUndoable { call, state }));
    }
}

pub async fn a15_sealed_is_erased_at_every_end(fixture: Fixture) {
    let sealed = |approval: &SharedApproval| -> Vec<bool> {
        approval.calls.iter().map(|call| call.sealed.is_some()).collect()
    };
    let released = fixture.approved(sample::batch(1, 2)).await;
    assert_eq!(sealed(&released), [true, true], "still needed");
    let running = fixture
        .start(sample::start(&released, 1, 1))
        .await
        .unwrap()
        .approval;
    assert_eq!(sealed(&running), [true, true], "still needed");
    let failed = sample::finish(&running, 1, 1, Outcome::failed("no"));
    let over = fixture.finish(failed).await.unwrap().approval;
    assert_eq!(sealed(&over), [false, false], "failed, and behind a failure");

    let over = succeeded(&fixture, 2).await;
    assert_eq!(sealed(&over), [false], "succeeded");
    let superseded = fixture.propose(sample::propose_in(3, "c")).await;
    let withdrawn = fixture.propose(sample::propose_in(4, "c")).await;
    fixture
        .withdraw(sample::withdraw(&withdrawn))
        .await
        .accepted()
        .unwrap();
    let denied = fixture.propose(sample::propose(5)).await;
    fixture.accept(sample::deny(&denied)).await;
    let expired = fixture.propose(sample::propose(6)).await;
    let stale = fixture.approved(sample::propose(7)).await;
    let lost = fixture.running(sample::propose(8)).await;
    fixture.advance(Duration::from_secs(3600));
    fixture.sweep(sample::sweep(10)).await;
    for (approval, end) in [
        (superseded, "superseded"),
        (withdrawn, "withdrawn"),
        (denied, "denied"),
        (expired, "expired"),
        (stale, "stale"),
        (lost, "lost"),
    ] {
        assert_eq!(sealed(&fixture.get(&approval).await), [false], "{end}");
    }
}
