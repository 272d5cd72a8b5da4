//! Start, finish and reconcile: the single run of a call.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use crate::call::RefusalReason;
use crate::command::{Decide, ExecuteRefusal, Finish, Finished};
use crate::decision::Verdict;
use crate::event::EventKind;
use crate::executor::{Outcome, Tools};
use crate::gate::{Gate, Until, Waited};
use crate::policy::{OnFailure, Policy, Terms};
use crate::state::CallState::{self, Failed, Refused, Released, Running, Succeeded, Unknown};
use crate::store::suite::{Fixture, sample};

fn done() -> Outcome {
    Outcome::succeeded(r#"{"id":1}"#)
}

fn states(approval: &crate::approval::Approval) -> Vec<CallState> {
    approval.calls.iter().map(|call| call.state).collect()
}

fn going_on() -> Terms {
    Terms {
        on_failure: OnFailure::Continue,
        ..sample::terms()
    }
}

pub async fn a8_decision_is_consumed_before_the_run(fixture: Fixture) {
    let pending = fixture.propose(sample::batch(1, 2)).await;
    let decide = Decide {
        start: Some(sample::permit(1)),
        ..sample::approve(&pending)
    };
    let answer = fixture.decide(decide.clone()).await;
    assert_eq!((answer.refusal, answer.started), (None, Some(1)));
    let approval = answer.approval.unwrap();
    assert_eq!(states(&approval), [Running, Released]);
    let execution = approval.calls[0].execution.as_ref().unwrap();
    assert_eq!(execution.permit, sample::permit(1));
    assert_eq!(execution.deadline, sample::BEGINNING.plus(sample::TIMEOUT));
    assert_eq!(
        fixture.words(&approval).await,
        ["proposed", "approved", "started"]
    );
    // A double click is refused and starts nothing.
    let again = fixture.decide(decide).await;
    assert_eq!(again.refusal.unwrap().code(), "already_decided");
    assert_eq!(again.started, None);
    // A denial with `start` set starts nothing.
    let denied = fixture.propose(sample::propose(2)).await;
    let deny = Decide {
        start: Some(sample::permit(2)),
        ..sample::deny(&denied)
    };
    assert_eq!(fixture.decide(deny).await.started, None);
}

/// Dropping the request, as when a tab is closed, must not interrupt a decision or the calls that it releases.
pub async fn a8_who_decides_and_goes_away_leaves_nothing_half_done(fixture: Fixture) {
    let mut propose = sample::batch(1, 2);
    propose.calls.iter_mut().for_each(|call| call.sealed = None);
    let pending = fixture.propose(propose).await;
    let tool = pending.calls[0].tool.clone();
    let policy = Policy::parse(&format!("[tools.{tool}]\neffect = \"write\"\n")).unwrap();
    let tools = Tools::default().with(tool, |_| async { done() });
    let gate = Gate::new(fixture.store.clone(), Arc::new(policy)).with_executor(Arc::new(tools));
    let deciding = gate.decide_and_run(sample::approve(&pending).decision);
    assert!(deciding.now_or_never().is_none(), "dropped half-way");
    let patience = Duration::from_secs(30);
    let waited = gate.wait(&pending.tenant, pending.id, Until::Finished, patience);
    let Waited::Done(approval) = waited.await.unwrap() else {
        panic!("it never ran");
    };
    assert_eq!(states(&approval), [Succeeded, Succeeded]);
}

pub async fn a8_a_repeated_decision_starts_nothing(fixture: Fixture) {
    let pending = fixture.propose(sample::batch(1, 2)).await;
    let decide = sample::keyed(sample::approve(&pending), "k", "body");
    fixture.accept(decide.clone()).await;
    let again = Decide {
        start: Some(sample::permit(1)),
        ..decide
    };
    let answer = fixture.decide(again).await;
    assert_eq!((answer.refusal, answer.started), (None, None));
    assert_eq!(states(&answer.approval.unwrap()), [Released, Released]);
}

pub async fn a8_a_call_starts_once(fixture: Fixture) {
    let approval = fixture.running(sample::propose(1)).await;
    // Refused even with the same permit: if an answer was lost, nobody knows whether the call runs.
    for permit in [1, 2] {
        let refused = fixture
            .start(sample::start(&approval, 1, permit))
            .await
            .unwrap_err();
        let call = sample::call_id(&approval, 1);
        let (state, because) = (Running, None);
        assert_eq!(refused, ExecuteRefusal::WrongState { call, state, because });
    }
    fixture
        .finish(sample::finish(&approval, 1, 1, done()))
        .await
        .unwrap();
    let refused = fixture.start(sample::start(&approval, 1, 3)).await.unwrap_err();
    assert_eq!(refused.code(), "wrong_state");
    assert_eq!(
        fixture.words(&approval).await,
        ["proposed", "approved", "started", "succeeded"]
    );
}

pub async fn what_was_not_approved_never_starts(fixture: Fixture) {
    let superseded = fixture.propose(sample::propose_in(1, "c")).await;
    let withdrawn = fixture.propose(sample::propose_in(2, "c")).await;
    fixture
        .withdraw(sample::withdraw(&withdrawn))
        .await
        .accepted()
        .unwrap();
    let denied = fixture.propose(sample::propose(3)).await;
    fixture.accept(sample::deny(&denied)).await;
    let pending = fixture.propose(sample::propose(4)).await;
    let table = [
        (&superseded, Refused, Some(RefusalReason::Superseded)),
        (&withdrawn, Refused, Some(RefusalReason::Withdrawn)),
        (&denied, Refused, Some(RefusalReason::Denied)),
        (&pending, CallState::Held, None),
    ];
    for (approval, state, because) in table {
        let call = sample::call_id(approval, 1);
        let refused = fixture.start(sample::start(approval, 1, 1)).await.unwrap_err();
        assert_eq!(refused, ExecuteRefusal::WrongState { call, state, because });
        let finish = sample::finish(approval, 1, 1, done());
        let refused = fixture.finish(finish).await.unwrap_err();
        assert_eq!(refused, ExecuteRefusal::NotYourPermit(call));
        let reconcile = sample::reconcile(approval, 1, true);
        assert_eq!(
            fixture.reconcile(reconcile).await.unwrap_err().code(),
            "wrong_state"
        );
    }
    for position in [0, 2, 255] {
        let refused = fixture
            .start(sample::start(&pending, position, 1))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), "not_found", "position {position}");
    }
}

pub async fn a16_calls_run_in_proposed_order(fixture: Fixture) {
    let approval = fixture.approved(sample::batch(1, 3)).await;
    let call = sample::call_id(&approval, 2);
    for first_is in ["released", "running"] {
        let refused = fixture.start(sample::start(&approval, 2, 2)).await.unwrap_err();
        assert_eq!(
            refused,
            ExecuteRefusal::EarlierFirst { call, first: 1 },
            "{first_is}"
        );
        if first_is == "released" {
            fixture.start(sample::start(&approval, 1, 1)).await.unwrap();
        }
    }
    fixture
        .finish(sample::finish(&approval, 1, 1, done()))
        .await
        .unwrap();
    let started = fixture.start(sample::start(&approval, 2, 2)).await.unwrap();
    assert_eq!(states(&started.approval), [Succeeded, Running, Released]);
}

pub async fn a16_a_failure_stops_the_batch(fixture: Fixture) {
    for (n, outcome, state) in [
        (1, Outcome::failed("no"), Failed),
        (2, Outcome::Unknown("?".to_owned()), Unknown),
    ] {
        let approval = fixture.running(sample::batch(n, 3)).await;
        let finish = Finish {
            start_next: Some(sample::permit(9)),
            ..sample::finish(&approval, 1, 1, outcome)
        };
        let Finished { approval, started } = fixture.finish(finish).await.unwrap();
        assert_eq!(started, None);
        assert_eq!(states(&approval), [state, Refused, Refused]);
        assert_eq!(approval.calls[1].because, Some(RefusalReason::EarlierFailed));
        assert!(approval.is_finished());
    }
}

pub async fn a16_a_batch_may_go_on_after_a_failure(fixture: Fixture) {
    for (n, outcome, state) in [
        (1, Outcome::failed("no"), Failed),
        (2, Outcome::Unknown("?".to_owned()), Unknown),
    ] {
        let approval = fixture.running(sample::batch_under(n, 3, &going_on())).await;
        let finish = Finish {
            start_next: Some(sample::permit(9)),
            ..sample::finish(&approval, 1, 1, outcome)
        };
        let Finished { approval, started } = fixture.finish(finish).await.unwrap();
        assert_eq!(started, Some(2));
        assert_eq!(states(&approval), [state, Running, Released]);
    }
}

pub async fn a16_finishing_starts_the_next(fixture: Fixture) {
    let approval = fixture.running(sample::batch(1, 2)).await;
    let finish = Finish {
        start_next: Some(sample::permit(2)),
        ..sample::finish(&approval, 1, 1, done())
    };
    let finished = fixture.finish(finish.clone()).await.unwrap();
    assert_eq!(finished.started, Some(2));
    assert_eq!(states(&finished.approval), [Succeeded, Running]);
    // A repeated finish starts nothing.
    assert_eq!(fixture.finish(finish).await.unwrap().started, None);
    let last = Finish {
        start_next: Some(sample::permit(3)),
        ..sample::finish(&approval, 2, 2, done())
    };
    let finished = fixture.finish(last).await.unwrap();
    assert_eq!(finished.started, None);
    assert!(finished.approval.is_finished());
}

pub async fn x37_only_the_permit_finishes_a_call(fixture: Fixture) {
    let approval = fixture.running(sample::batch(1, 2)).await;
    let call = sample::call_id(&approval, 1);
    let refused = fixture
        .finish(sample::finish(&approval, 1, 2, done()))
        .await
        .unwrap_err();
    assert_eq!(refused, ExecuteRefusal::NotYourPermit(call));
    let refused = fixture
        .finish(sample::finish(&approval, 2, 1, done()))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "not_your_permit");
    let missing = fixture
        .finish(sample::finish(&approval, 3, 1, done()))
        .await
        .unwrap_err();
    assert_eq!(missing.code(), "not_found");
    assert_eq!(states(&*fixture.get(&approval).await), [Running, Released]);
}

pub async fn f13_finishing_again_gives_the_same_answer(fixture: Fixture) {
    let table = [
        (1, done(), Succeeded),
        (2, Outcome::failed("no"), Failed),
        (3, Outcome::Unknown("?".to_owned()), Unknown),
    ];
    for (n, outcome, state) in table {
        let approval = fixture.running(sample::propose(n)).await;
        let finish = sample::finish(&approval, 1, 1, outcome);
        let first = fixture.finish(finish.clone()).await.unwrap();
        let again = fixture.finish(finish).await.unwrap();
        assert_eq!(again.approval, first.approval);
        assert_eq!(states(&again.approval), [state]);
    }
    let approval = fixture.running(sample::propose(4)).await;
    fixture
        .finish(sample::finish(&approval, 1, 1, done()))
        .await
        .unwrap();
    for other in [Outcome::succeeded("other"), Outcome::failed("{\"id\":1}")] {
        let refused = fixture.finish(sample::finish(&approval, 1, 1, other)).await;
        assert_eq!(refused.unwrap_err().code(), "wrong_state");
    }
}

pub async fn x12_lost_run_is_unknown_and_never_starts_again(fixture: Fixture) {
    let approval = fixture.running(sample::batch(1, 2)).await;
    fixture.advance(sample::TIMEOUT - Duration::from_micros(1));
    assert_eq!(fixture.sweep(sample::sweep(10)).await.unknown, 0);
    fixture.advance(Duration::from_micros(1));
    assert_eq!(fixture.sweep(sample::sweep(10)).await.unknown, 1);
    let lost = fixture.get(&approval).await;
    assert_eq!(states(&lost), [Unknown, Refused]);
    for position in [1, 2] {
        let refused = fixture
            .start(sample::start(&approval, position, 7))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), "wrong_state");
    }
    // Nothing is left to sweep at any later time.
    fixture.advance(Duration::from_secs(1_000_000));
    assert_eq!(fixture.sweep(sample::sweep(10)).await, Default::default());
    assert_eq!(
        fixture.words(&approval).await,
        ["proposed", "approved", "started", "lost", "refused"]
    );
}

pub async fn x12_an_executor_that_cannot_tell_leaves_its_words_out_of_events(fixture: Fixture) {
    let approval = fixture.running(sample::propose(1)).await;
    let words = "connection to https://u:secret-canary@host cut";
    let unknown = Outcome::Unknown(words.to_owned());
    fixture
        .finish(sample::finish(&approval, 1, 1, unknown))
        .await
        .unwrap();
    let events = fixture.events(&approval).await;
    assert!(events.iter().all(|event| !event.text().contains("canary")));
    let call = &fixture.get(&approval).await.calls[0];
    assert_eq!(call.result.as_deref(), Some(words.as_bytes()));
}

/// A call that was not sent counts as failed, and its record states that nothing ran, even if the sweep had given it
/// up.
pub async fn x84_a_call_that_was_not_sent_is_on_record_as_such(fixture: Fixture) {
    let not_sent = |approval: &crate::approval::Approval| {
        let outcome = Outcome::NotSent("too late".to_owned());
        sample::finish(approval, 1, 1, outcome)
    };
    let soon = fixture.running(sample::batch_under(1, 2, &sample::terms())).await;
    let late = fixture.running(sample::propose(2)).await;
    fixture.finish(not_sent(&soon)).await.unwrap();
    fixture.advance(sample::TIMEOUT);
    fixture.sweep(sample::sweep(10)).await;
    let given_up = fixture.get(&late).await;
    assert_eq!(states(&given_up), [Unknown]);
    fixture.finish(not_sent(&late)).await.unwrap();
    for approval in [&soon, &late] {
        fixture.finish(not_sent(approval)).await.unwrap();
        let stored = fixture.get(approval).await;
        let call = &stored.calls[0];
        assert_eq!(call.because, Some(RefusalReason::NotSent));
        assert!(call.was_not_sent());
        assert_eq!(call.result.as_deref(), Some(&b"too late"[..]));
        let told = &crate::transcript::exchanges(&stored, &Policy::empty())[0].result;
        assert_eq!((told.status, told.ran, told.is_error), ("not_sent", false, true));
        assert!(told.content.contains("nothing ran"), "{}", told.content);
    }
    // The rest of its batch does not run either.
    let batch = fixture.get(&soon).await;
    assert_eq!(states(&batch), [Failed, Refused]);
    // A call that ran and failed is reported as failed, whatever the tool's message says.
    let ran = fixture.running(sample::propose(3)).await;
    let outcome = Outcome::failed("not sent: nothing ran");
    fixture.finish(sample::finish(&ran, 1, 1, outcome)).await.unwrap();
    let stored = fixture.get(&ran).await;
    let told = crate::transcript::exchanges(&stored, &Policy::empty());
    assert_eq!((told[0].result.status, told[0].result.ran), ("failed", true));
}

pub async fn x37_late_finish_is_reconciled_and_starts_nothing(fixture: Fixture) {
    let approval = fixture.running(sample::batch_under(1, 2, &going_on())).await;
    fixture.advance(sample::TIMEOUT);
    fixture.sweep(sample::sweep(10)).await;
    let start_by = fixture.get(&approval).await.start_by();
    fixture.advance(Duration::from_secs(5));
    let late = Finish {
        start_next: Some(sample::permit(2)),
        ..sample::finish(&approval, 1, 1, done())
    };
    let finished = fixture.finish(late.clone()).await.unwrap();
    assert_eq!(finished.started, None);
    assert_eq!(states(&finished.approval), [Succeeded, Released]);
    assert_eq!(
        finished.approval.calls[0].result.as_deref(),
        Some(&br#"{"id":1}"#[..])
    );
    assert_eq!(
        finished.approval.start_by(),
        start_by,
        "the rest gets no longer by it"
    );
    let events = fixture.events(&approval).await;
    let reconciled = EventKind::Reconciled {
        call: 1,
        succeeded: true,
        hash: Some(approval.hash_of_result(br#"{"id":1}"#)),
    };
    assert_eq!(events.last().unwrap().what, reconciled);
    assert_eq!(fixture.finish(late).await.unwrap().started, None);
    // An unknown outcome reported after the call was given up changes nothing.
    let other = fixture.running(sample::propose(2)).await;
    fixture.advance(sample::TIMEOUT);
    fixture.sweep(sample::sweep(10)).await;
    let unknown = Outcome::Unknown("?".to_owned());
    fixture
        .finish(sample::finish(&other, 1, 1, unknown))
        .await
        .unwrap();
    assert_eq!(
        fixture.words(&other).await,
        ["proposed", "approved", "started", "lost"]
    );
}

/// A result that arrives after a person's reconciliation is recorded, but the person's verdict stands.
pub async fn x87_a_late_answer_is_appended_behind_a_persons_word(fixture: Fixture) {
    let approval = fixture.running(sample::batch_under(1, 2, &going_on())).await;
    fixture.advance(sample::TIMEOUT);
    fixture.sweep(sample::sweep(10)).await;
    fixture
        .reconcile(sample::reconcile(&approval, 1, false))
        .await
        .unwrap();
    let late = Finish {
        late: true,
        start_next: Some(sample::permit(2)),
        ..sample::finish(&approval, 1, 1, done())
    };
    let finished = fixture.finish(late.clone()).await.unwrap();
    assert_eq!(finished.started, None, "it starts nothing");
    assert_eq!(states(&finished.approval), [Failed, Released]);
    assert_eq!(
        finished.approval.calls[0].result.as_deref(),
        Some(&b"looked it up"[..])
    );
    let events = fixture.events(&approval).await;
    assert_eq!(
        events.last().unwrap().what,
        EventKind::LateResult {
            call: 1,
            succeeded: true,
            hash: Some(approval.hash_of_result(br#"{"id":1}"#)),
        }
    );
    crate::event::verify(&finished.approval, &events).expect("the chain holds");
    // Another permit is refused, and so is an unknown outcome.
    let forged = Finish {
        permit: sample::permit(9),
        ..late.clone()
    };
    assert_eq!(
        fixture.finish(forged).await.unwrap_err().code(),
        "not_your_permit"
    );
    let unknown = Finish {
        outcome: Outcome::Unknown("?".to_owned()),
        ..late
    };
    assert_eq!(fixture.finish(unknown).await.unwrap_err().code(), "wrong_state");
}

pub async fn x12_a_person_reconciles(fixture: Fixture) {
    for (n, succeeded, state) in [(1, true, Succeeded), (2, false, Failed)] {
        let approval = fixture.running(sample::propose(n)).await;
        let early = fixture
            .reconcile(sample::reconcile(&approval, 1, succeeded))
            .await;
        assert_eq!(early.unwrap_err().code(), "wrong_state");
        let unknown = Outcome::Unknown("?".to_owned());
        fixture
            .finish(sample::finish(&approval, 1, 1, unknown))
            .await
            .unwrap();
        let reconciled = fixture
            .reconcile(sample::reconcile(&approval, 1, succeeded))
            .await
            .unwrap();
        assert_eq!(states(&reconciled), [state]);
        assert_eq!(reconciled.calls[0].result.as_deref(), Some(&b"looked it up"[..]));
        // A call is reconciled once, and a later result from its executor is refused.
        let twice = fixture
            .reconcile(sample::reconcile(&approval, 1, !succeeded))
            .await;
        assert_eq!(twice.unwrap_err().code(), "wrong_state");
        let late = fixture
            .finish(sample::finish(&approval, 1, 1, Outcome::succeeded("other")))
            .await;
        assert_eq!(late.unwrap_err().code(), "wrong_state");
        let missing = fixture
            .reconcile(sample::reconcile(&approval, 2, succeeded))
            .await;
        assert_eq!(missing.unwrap_err().code(), "not_found");
        let decided = sample::decide(&approval, Verdict::Approve);
        assert_eq!(
            fixture.decide(decided).await.refusal.unwrap().code(),
            "already_decided"
        );
    }
}
