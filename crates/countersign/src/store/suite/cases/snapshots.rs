//! X22: a call runs only if what it would change is still what was shown.

use std::sync::Arc;

use crate::approval::SharedApproval;
use crate::call::RefusalReason;
use crate::command::{
    Answer, Command, Decide, Erase, Erasure, ExecuteRefusal, Propose, SnapshotCheck, Start,
};
use crate::event::EventKind;
use crate::id::Actor;
use crate::policy::{OnFailure, Terms};
use crate::state::CallState::{self, Refused, Released, Running};
use crate::state::State;
use crate::store::suite::{Fixture, sample};
use crate::time::Time;

const THEN: &str = r#"{"title":"Old","sections":4}"#;
const NOW: &str = r#"{"title":"Old","sections":5}"#;

/// Creates a proposal bound to a snapshot with the content `THEN`.
fn over(n: u64) -> Propose {
    Propose {
        calls: vec![sample::call_over(r#"{"id":"p1"}"#, THEN)],
        ..sample::propose(n)
    }
}

/// Returns a start whose snapshot check read the content `found`. `n` is the number of the permit; the replacement is
/// proposal `1000 + n`.
fn start_over(approval: &SharedApproval, position: u8, n: u64, found: &str) -> Start {
    let found = sample::snapshot(found);
    let replacement = Propose {
        channel: approval.channel.clone(),
        calls: vec![crate::command::NewCall {
            before: Some(Arc::new(found.clone())),
            ..sample::call(r#"{"id":"p1"}"#)
        }],
        ..sample::propose(1000 + n)
    };
    Start {
        snapshot: Some(SnapshotCheck::Read(found.hash)),
        replacement: Some(Box::new(replacement)),
        ..sample::start(approval, position, n)
    }
}

fn states(approval: &SharedApproval) -> Vec<CallState> {
    approval.calls.iter().map(|call| call.state).collect()
}

pub async fn x22_a_call_over_a_snapshot_starts_only_after_a_look(fixture: Fixture) {
    let pending = fixture.propose(over(1)).await;
    assert_eq!(fixture.get(&pending).await.calls, pending.calls);
    // The call cannot start along with the decision: nothing was read again since the card was shown.
    let decide = Decide {
        start: Some(sample::permit(1)),
        ..sample::approve(&pending)
    };
    let answer = fixture.decide(decide).await;
    assert_eq!((answer.refusal, answer.started), (None, None));
    let blind = fixture.start(sample::start(&pending, 1, 1)).await.unwrap_err();
    assert_eq!(blind, ExecuteRefusal::NotLookedAt(sample::call_id(&pending, 1)));
    assert_eq!(states(&fixture.get(&pending).await), [Released]);
    let started = fixture.start(start_over(&pending, 1, 2, THEN)).await.unwrap();
    assert_eq!(states(&started.approval), [Running]);
    assert_eq!(fixture.words(&pending).await, ["proposed", "approved", "started"]);
    let waiting = fixture
        .store
        .list(&pending.tenant, &crate::store::Filter::pending())
        .await;
    assert_eq!(waiting.unwrap(), [], "nobody is asked again");
}

pub async fn x22_what_has_changed_does_not_run_and_is_asked_again(fixture: Fixture) {
    let approval = fixture.approved(over(1)).await;
    let start = start_over(&approval, 1, 1, NOW);
    let successor = start.replacement.as_ref().map(|replacement| replacement.id);
    let refused = fixture.start(start.clone()).await.unwrap_err();
    let call = sample::call_id(&approval, 1);
    let because = RefusalReason::Changed;
    assert_eq!(
        refused,
        ExecuteRefusal::NotAsShown {
            call,
            because: because.clone(),
            successor
        }
    );
    let after = fixture.get(&approval).await;
    assert_eq!(
        (states(&after), &after.calls[0].because),
        (vec![Refused], &Some(because.clone()))
    );
    assert_eq!(after.calls[0].sealed, None, "its credential is gone");
    let last = fixture.events(&approval).await.pop().unwrap();
    assert_eq!(
        (last.by, last.what),
        (
            Actor::Gate,
            EventKind::Refused {
                call: 1,
                because,
                successor
            }
        )
    );
    let asked = fixture.find(&approval.tenant, successor.unwrap()).await.unwrap();
    assert_eq!((asked.state, asked.replaces), (State::Pending, Some(approval.id)));
    assert_eq!(&*asked.calls[0].before.as_ref().unwrap().result, NOW.as_bytes());
    // A second start changes nothing, whatever it found.
    for found in [THEN, NOW] {
        let again = fixture
            .start(start_over(&approval, 1, 2, found))
            .await
            .unwrap_err();
        assert_eq!(again.code(), "wrong_state");
    }
    fixture.check_all().await;
}

pub async fn x22_what_cannot_be_read_again_does_not_run(fixture: Fixture) {
    let approval = fixture.approved(over(1)).await;
    let start = Start {
        snapshot: Some(SnapshotCheck::Unreadable),
        ..sample::start(&approval, 1, 1)
    };
    let refused = fixture.start(start).await.unwrap_err();
    assert_eq!(refused.code(), "not_as_shown");
    let after = fixture.get(&approval).await;
    assert_eq!(after.calls[0].because, Some(RefusalReason::Unreadable));
    fixture.check_all().await;
}

pub async fn x22_a_conversation_that_went_on_keeps_its_question(fixture: Fixture) {
    let first = Propose {
        channel: sample::propose_in(1, "c").channel,
        ..over(1)
    };
    let approval = fixture.approved(first).await;
    let other = fixture.propose(sample::propose_in(2, "c")).await;
    let refused = fixture.start(start_over(&approval, 1, 1, NOW)).await.unwrap_err();
    assert!(
        matches!(refused, ExecuteRefusal::NotAsShown { successor: None, .. }),
        "{refused}"
    );
    assert_eq!(fixture.get(&other).await.state, State::Pending);
    fixture.check_all().await;
}

pub async fn x22_a_batch_stops_behind_what_has_changed_or_goes_on(fixture: Fixture) {
    for (n, on_failure, behind) in [(1, OnFailure::Stop, Refused), (2, OnFailure::Continue, Released)] {
        let terms = Terms {
            on_failure,
            ..sample::terms()
        };
        let mut first = sample::call_under(r#"{"id":"p1"}"#, terms);
        first.before = Some(Arc::new(sample::snapshot(THEN)));
        let batch = Propose {
            calls: vec![first, sample::call("{}")],
            ..sample::propose(n)
        };
        let approval = fixture.approved(batch).await;
        fixture.start(start_over(&approval, 1, n, NOW)).await.unwrap_err();
        assert_eq!(states(&fixture.get(&approval).await), [Refused, behind]);
    }
}

/// Exactly one of two starts that read different content takes effect.
pub async fn x22_of_two_starts_that_saw_different_things_one_counts(fixture: Fixture) {
    for n in 1..=20 {
        let approval = fixture.approved(over(n)).await;
        let same = fixture
            .store
            .write(Command::Start(start_over(&approval, 1, 2 * n, THEN)));
        let other = start_over(&approval, 1, 2 * n + 1, NOW);
        let successor = other.replacement.as_ref().unwrap().id;
        let other = fixture.store.write(Command::Start(other));
        let answers = match n % 2 {
            0 => futures_util::future::join(same, other).await,
            _ => {
                let (other, same) = futures_util::future::join(other, same).await;
                (same, other)
            }
        };
        let (Ok(Answer::Start(same)), Ok(Answer::Start(other))) = answers else {
            panic!("{answers:?}");
        };
        let found = fixture.find(&approval.tenant, successor).await;
        let after = states(&fixture.get(&approval).await);
        match same.is_ok() {
            true => assert_eq!((after, found.is_some()), (vec![Running], false)),
            false => assert_eq!((after, found.is_some()), (vec![Refused], true)),
        }
        assert!(other.is_err());
    }
    fixture.check_all().await;
}

pub async fn x22_an_erased_snapshot_is_gone_and_the_history_still_verifies(fixture: Fixture) {
    let pending = fixture.propose(over(1)).await;
    let denied = fixture.accept(sample::deny(&pending)).await;
    let erase = Erase {
        tenant: denied.tenant.clone(),
        approval: denied.id,
        before: Time::from_micros(i64::MAX),
        by: Actor::Gate,
        policy: sample::policy(),
    };
    let erased = fixture.write(Command::Erase(erase)).await;
    assert!(matches!(erased, Answer::Erase(Erasure::Done)), "{erased:?}");
    let after = fixture.get(&denied).await;
    let before = after.calls[0].before.as_ref().unwrap();
    assert_eq!((before.result.len(), before.arguments.as_bytes().len()), (0, 0));
    fixture.check_all().await;
}
