//! Expiry, staleness and timeouts, and the sweep that records them.

use std::time::Duration;

use crate::call::RefusalReason;
use crate::command::{Command, Finish, Swept};
use crate::decision::{Refusal, Verdict};
use crate::executor::Outcome;
use crate::state::{CallState, State};
use crate::store::Filter;
use crate::store::suite::{Fixture, sample};

const MICROSECOND: Duration = Duration::from_micros(1);

pub async fn a5_expired_is_invisible_and_cannot_be_approved(fixture: Fixture) {
    let approval = fixture.propose(sample::propose_in(1, "c")).await;
    let channel = sample::channel("c");
    assert_eq!(fixture.pending_in(&channel).await, Some(approval.id));
    fixture.advance(sample::TTL);
    // Nothing was swept yet.
    assert_eq!(fixture.pending_in(&channel).await, None);
    let pending = fixture.store.list(&approval.tenant, &Filter::pending()).await;
    assert_eq!(pending, Ok(Vec::new()));
    let answer = fixture.decide(sample::approve(&approval)).await;
    let (id, at) = (approval.id, approval.expires_at);
    assert_eq!(answer.refusal, Some(Refusal::Expired { id, at }));
    let stored = fixture.get(&approval).await;
    assert_eq!(stored.state, State::Expired);
    assert_eq!(stored.calls[0].because, Some(RefusalReason::Expired));
    assert!(fixture.start(sample::start(&approval, 1, 1)).await.is_err());
    assert_eq!(
        fixture.words(&approval).await,
        ["proposed", "expired", "decision_refused"]
    );
}

pub async fn x10_the_last_microsecond_is_in_time_and_the_next_is_late(fixture: Fixture) {
    let first = fixture.propose(sample::propose(1)).await;
    let second = fixture.propose(sample::propose(2)).await;
    fixture.advance(sample::TTL - MICROSECOND);
    assert_eq!(
        fixture.accept(sample::approve(&first)).await.state,
        State::Approved
    );
    fixture.advance(MICROSECOND);
    for decide in [sample::approve(&second), sample::deny(&second)] {
        assert_eq!(fixture.decide(decide).await.refusal.unwrap().code(), "expired");
    }
}

pub async fn x47_time_never_goes_back_within_an_approval(fixture: Fixture) {
    let later = Duration::from_secs(60);
    let approval = fixture.propose(sample::batch(1, 2)).await;
    fixture.advance(later);
    fixture
        .decide(sample::decide_as("mallory", &approval, Verdict::Approve))
        .await
        .accepted()
        .unwrap_err();
    // Simulates another node's clock, or a new primary's. `check` runs after every step and would notice time going
    // back.
    let back = || fixture.clock.set(sample::BEGINNING);
    back();
    fixture.accept(sample::approve(&approval)).await;
    fixture.advance(later * 2);
    fixture.start(sample::start(&approval, 1, 1)).await.unwrap();
    back();
    let unknown = Outcome::Unknown("?".to_owned());
    fixture
        .finish(sample::finish(&approval, 1, 1, unknown))
        .await
        .unwrap();
    fixture.advance(later * 3);
    fixture
        .reconcile(sample::reconcile(&approval, 1, true))
        .await
        .unwrap();
    back();
    fixture
        .decide(sample::deny(&approval))
        .await
        .accepted()
        .unwrap_err();
    let times: Vec<_> = fixture
        .events(&approval)
        .await
        .iter()
        .map(|event| event.at)
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    // An expired approval stays expired.
    let other = fixture.propose(sample::propose(2)).await;
    fixture.advance(sample::TTL);
    fixture.sweep(sample::sweep(10)).await;
    back();
    assert_eq!(
        fixture
            .decide(sample::approve(&other))
            .await
            .refusal
            .unwrap()
            .code(),
        "expired"
    );
}

pub async fn a_stale_release_is_refused(fixture: Fixture) {
    let asked = fixture.approved(sample::batch(1, 2)).await;
    let swept = fixture.approved(sample::batch(2, 2)).await;
    fixture.advance(sample::START_WITHIN);
    let refused = fixture.start(sample::start(&asked, 1, 1)).await.unwrap_err();
    assert!(refused.to_string().contains("not started in time"), "{refused}");
    let stale = Swept {
        stale: 1,
        ..Swept::default()
    };
    assert_eq!(fixture.sweep(sample::sweep(10)).await, stale);
    for approval in [asked, swept] {
        let approval = fixture.get(&approval).await;
        assert_eq!(approval.state, State::Approved);
        for call in &approval.calls {
            assert_eq!(
                (call.state, &call.because),
                (CallState::Refused, &Some(RefusalReason::Stale))
            );
        }
        assert_eq!(
            fixture.words(&approval).await,
            ["proposed", "approved", "refused", "refused"]
        );
    }
}

pub async fn a_batch_has_as_long_again_after_each_call(fixture: Fixture) {
    let approval = fixture.approved(sample::batch(1, 3)).await;
    fixture.advance(sample::START_WITHIN - MICROSECOND);
    fixture.start(sample::start(&approval, 1, 1)).await.unwrap();
    fixture.advance(sample::TIMEOUT - MICROSECOND);
    let done = Outcome::succeeded("{}");
    fixture
        .finish(sample::finish(&approval, 1, 1, done.clone()))
        .await
        .unwrap();
    fixture.advance(sample::START_WITHIN - MICROSECOND);
    assert_eq!(fixture.sweep(sample::sweep(10)).await, Swept::default());
    fixture.start(sample::start(&approval, 2, 2)).await.unwrap();
    // A long-running call does not make the rest of its batch stale.
    fixture.advance(sample::TIMEOUT - MICROSECOND);
    let finish = Finish {
        start_next: Some(sample::permit(3)),
        ..sample::finish(&approval, 2, 2, done)
    };
    assert_eq!(fixture.finish(finish).await.unwrap().started, Some(3));
}

pub async fn d7_sweep_counts_what_it_did(fixture: Fixture) {
    assert_eq!(fixture.sweep(sample::sweep(10)).await, Swept::default());
    for n in 1..=3 {
        fixture.propose(sample::propose_in(n, &format!("c{n}"))).await;
    }
    for n in 4..=5 {
        fixture.approved(sample::batch(n, 2)).await;
    }
    for n in 6..=9 {
        fixture.running(sample::propose(n)).await;
    }
    let denied = fixture.propose(sample::propose(10)).await;
    fixture.accept(sample::deny(&denied)).await;
    assert_eq!(fixture.sweep(sample::sweep(100)).await, Swept::default());
    fixture.advance(Duration::from_secs(3600));
    let expected = Swept {
        expired: 3,
        stale: 2,
        unknown: 4,
        entries: 0,
        broken: 0,
        more: false,
    };
    assert_eq!(fixture.sweep(sample::sweep(100)).await, expected);
    assert_eq!(fixture.sweep(sample::sweep(100)).await, Swept::default());
}

pub async fn d7_sweep_keeps_its_limit(fixture: Fixture) {
    for n in 1..=5 {
        fixture.propose(sample::propose(n)).await;
        fixture.advance(MICROSECOND);
    }
    fixture.advance(sample::TTL);
    let mut counts = Vec::new();
    loop {
        let swept = fixture.sweep(sample::sweep(2)).await;
        counts.push(swept.expired);
        if !swept.more {
            break;
        }
        // Longest due first.
        for n in 1..=5 {
            let approval = fixture.find(&sample::tenant(), sample::id(n)).await.unwrap();
            let expired = n <= counts.iter().sum::<usize>() as u64;
            assert_eq!(approval.state == State::Expired, expired, "approval {n}");
        }
    }
    assert_eq!(counts, [2, 2, 1]);
}

/// The approval that has been due longest ends first, whatever the order of ids.
pub async fn d7_sweep_ends_the_longest_due_first(fixture: Fixture) {
    for n in 1..=5u32 {
        let mut propose = sample::propose(u64::from(n));
        propose.ttl = sample::TTL - MICROSECOND * n;
        fixture.propose(propose).await;
    }
    fixture.advance(sample::TTL);
    for ended in (1..=5).rev() {
        assert_eq!(fixture.sweep(sample::sweep(1)).await.expired, 1);
        for n in 1..=5 {
            let approval = fixture.find(&sample::tenant(), sample::id(n)).await.unwrap();
            assert_eq!(
                approval.state == State::Expired,
                n >= ended,
                "approval {n} of {ended}"
            );
        }
    }
}

/// I3: a write that waits for another must not use a time from before its wait. While one write reads the clock, no
/// other write can get through.
pub async fn i3_the_clock_is_read_behind_the_lock(fixture: Fixture) {
    const PATIENCE: Duration = Duration::from_millis(300);
    let approval = fixture.propose(sample::propose(1)).await;
    let (store, (done, is_done)) = (fixture.store.clone(), std::sync::mpsc::channel());
    let (ended, end) = tokio::sync::oneshot::channel();
    let (overtook, was_overtaken) = std::sync::mpsc::channel();
    fixture.clock.on_next_read(move || {
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let propose = Command::Propose(Box::new(sample::propose(2)));
            let written = runtime.unwrap().block_on(store.write(propose));
            let _ = done.send(());
            let _ = ended.send(written);
        });
        let _ = overtook.send(is_done.recv_timeout(PATIENCE).is_ok());
    });
    fixture.accept(sample::approve(&approval)).await;
    let overtaken: Vec<bool> = was_overtaken.try_iter().collect();
    assert_eq!(
        overtaken,
        [false],
        "another write was done between clock and lock"
    );
    let written = end.await.expect("the thread ended");
    assert!(written.is_ok(), "{written:?}");
}

pub async fn the_store_lives_by_its_clock(fixture: Fixture) {
    assert_eq!(fixture.store.now().await, Ok(sample::BEGINNING));
    fixture.advance(Duration::from_secs(90));
    let now = sample::BEGINNING.plus(Duration::from_secs(90));
    assert_eq!(fixture.store.now().await, Ok(now));
    let approval = fixture.propose(sample::propose(1)).await;
    assert_eq!(approval.created_at, now);
}

/// X92: while the clock is in doubt, expired approvals are refused, and become valid again when the clock is corrected.
pub async fn x92_a_clock_in_doubt_refuses_and_ends_nothing(fixture: Fixture) {
    let later = Duration::from_secs(32 * 24 * 60 * 60);
    let pending = fixture.propose(sample::propose_in(1, "c")).await;
    let released = fixture.propose(sample::propose(2)).await;
    let released = fixture.accept(sample::approve(&released)).await;
    let running = fixture.propose(sample::propose(3)).await;
    let running = fixture.accept(sample::approve(&running)).await;
    fixture.start(sample::start(&running, 1, 1)).await.unwrap();
    let mut session = sample::entry(crate::registry::Kind::Session, "s");
    session.expires_at = Some(sample::BEGINNING.plus(sample::TTL));
    fixture.store.put_entry(session.clone()).await.unwrap();
    fixture.clock.doubt_after(sample::BEGINNING);
    fixture.advance(later);
    // Requests treat the approvals as expired.
    assert_eq!(fixture.pending_in(&sample::channel("c")).await, None);
    let refused = fixture.decide(sample::approve(&pending)).await;
    assert_eq!(refused.refusal.unwrap().code(), "expired");
    assert!(fixture.start(sample::start(&released, 1, 2)).await.is_err());
    let find = async || {
        let found = fixture.store.entry(session.kind, &session.key).await;
        found.unwrap().is_some()
    };
    assert!(!find().await);
    // The expiry is not recorded.
    assert_eq!(fixture.sweep(sample::sweep(10)).await, Swept::default());
    assert_eq!(fixture.words(&pending).await, ["proposed"]);
    fixture.clock.set(sample::BEGINNING);
    assert!(find().await);
    let approved = fixture.accept(sample::approve(&pending)).await;
    assert_eq!(approved.state, State::Approved);
    fixture.start(sample::start(&released, 1, 2)).await.unwrap();
    assert_eq!(fixture.get(&running).await.calls[0].state, CallState::Running);
    // Now the time is certain.
    fixture.clock.doubt_after(sample::BEGINNING.plus(later));
    fixture.advance(later);
    let swept = fixture.sweep(sample::sweep(10)).await;
    // The two entries are the session and the ownership of the channel.
    assert_eq!((swept.unknown, swept.stale, swept.entries), (2, 1, 2));
    assert!(!find().await);
}
