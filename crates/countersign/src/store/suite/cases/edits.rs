//! Partial approval of a batch, and edited arguments.

use crate::call::RefusalReason;
use crate::command::Command;
use crate::decision::{Choice, Verdict};
use crate::event::{Edited, EventKind};
use crate::state::{CallState, State};
use crate::store::StoreError;
use crate::store::suite::{Fixture, sample};

pub async fn a16_partial_batch(fixture: Fixture) {
    let approval = fixture.propose(sample::batch(1, 3)).await;
    let verdict = Verdict::Each(vec![Choice::Approve, Choice::Deny, Choice::Approve]);
    let decided = fixture.accept(sample::decide(&approval, verdict)).await;
    assert_eq!(decided.state, State::Approved);
    let states: Vec<CallState> = decided.calls.iter().map(|call| call.state).collect();
    assert_eq!(
        states,
        [CallState::Released, CallState::Refused, CallState::Released]
    );
    assert_eq!(decided.calls[1].because, Some(RefusalReason::Denied));
    let events = fixture.events(&approval).await;
    let EventKind::Approved { calls, edited, .. } = &events[1].what else {
        panic!("{:?}", events[1]);
    };
    assert_eq!(calls.as_deref(), Some(&[1, 3][..]));
    assert_eq!(edited, &[]);
    // The denied call is skipped, not waited for.
    assert_eq!(
        fixture
            .start(sample::start(&decided, 2, 1))
            .await
            .unwrap_err()
            .code(),
        "wrong_state"
    );
    for position in [1, 3] {
        fixture.start(sample::start(&decided, position, 1)).await.unwrap();
        let done = crate::executor::Outcome::succeeded("{}");
        fixture
            .finish(sample::finish(&decided, position, 1, done))
            .await
            .unwrap();
    }
    assert!(fixture.get(&decided).await.is_finished());
}

pub async fn x44_an_edit_is_a_second_revision(fixture: Fixture) {
    let approval = fixture.propose(sample::batch(1, 3)).await;
    let new = sample::arguments("{ \"email\":\"right@acme.com\" }");
    let verdict = Verdict::Each(vec![Choice::Approve, Choice::Edit(new.clone()), Choice::Deny]);
    let decided = fixture.accept(sample::decide(&approval, verdict)).await;
    let (before, after) = (&approval.calls[1], &decided.calls[1]);
    assert_eq!(after.revision, 2);
    assert_eq!(after.arguments, new);
    assert_eq!(after.original.as_ref(), Some(&before.arguments));
    assert_ne!(after.digest, before.digest);
    assert_eq!(after.digest, after.digest_in(&decided, 2));
    assert_eq!(after.state, CallState::Released);
    for untouched in [0, 2] {
        assert_eq!(decided.calls[untouched].digest, approval.calls[untouched].digest);
        assert_eq!(decided.calls[untouched].revision, 1);
        assert_eq!(decided.calls[untouched].original, None);
    }
    // The decision is about the card as proposed; the event names the resulting digests.
    assert_eq!(decided.digest, approval.digest);
    let events = fixture.events(&approval).await;
    let EventKind::Approved { edited, digest, .. } = &events[1].what else {
        panic!("{:?}", events[1]);
    };
    let (call, new_digest) = (2, after.digest);
    let expected = Edited {
        call,
        was: before.digest,
        digest: new_digest,
    };
    assert_eq!(edited, &[expected]);
    assert_eq!(*digest, approval.digest);
    // The edited arguments run.
    fixture.start(sample::start(&decided, 1, 1)).await.unwrap();
    let done = crate::executor::Outcome::succeeded("{}");
    fixture
        .finish(sample::finish(&decided, 1, 1, done))
        .await
        .unwrap();
    let started = fixture.start(sample::start(&decided, 2, 2)).await.unwrap();
    assert_eq!(started.approval.calls[1].arguments, new);
}

pub async fn x44_an_edit_nobody_ruled_on_writes_nothing(fixture: Fixture) {
    let approval = fixture.propose(sample::batch(1, 2)).await;
    let edit = |text| Choice::Edit(sample::arguments(text));
    let verdict = Verdict::Each(vec![edit(r#"{"a":1}"#), edit(r#"{"b":1}"#)]);
    let whole = sample::decide(&approval, verdict);
    let mut missing = whole.clone();
    missing.revisions.pop();
    let mut swapped = whole.clone();
    swapped.revisions.reverse();
    for decide in [missing, swapped] {
        let answer = fixture.try_write(Command::Decide(Box::new(decide))).await;
        assert!(matches!(answer, Err(StoreError::Impossible(_))), "{answer:?}");
        assert_eq!(fixture.get(&approval).await, approval);
        assert_eq!(fixture.words(&approval).await, ["proposed"]);
    }
    // If the edited arguments have other approvers, the editor may not decide.
    let mut foreign = whole.clone();
    foreign.revisions[1].terms = std::sync::Arc::new(sample::terms_for(&["bob"]));
    assert_eq!(
        fixture.decide(foreign).await.refusal.unwrap().code(),
        "not_allowed"
    );
    fixture.accept(whole).await;
}
