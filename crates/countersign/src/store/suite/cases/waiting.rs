//! Waiting for changes, and persistence over a restart.

use std::time::Duration;

use crate::approval::SharedApproval;
use crate::command::{Propose, Swept};
use crate::decision::Verdict;
use crate::executor::Outcome;
use crate::id::ApprovalId;
use crate::registry::Kind;
use crate::state::{CallState, State};
use crate::store::suite::{Fixture, sample};
use crate::store::{Cursor, Filter};
use crate::wake::Waiter;

/// Timeout that a working store never reaches.
const LONG: Duration = Duration::from_secs(20);

async fn woken(waiter: Waiter, id: ApprovalId) -> SharedApproval {
    let changed = tokio::time::timeout(LONG, waiter.changed()).await;
    let approval = changed.expect("woken in time").expect("the store is there");
    assert_eq!(approval.id, id);
    approval
}

pub async fn d2_waiters_are_woken_by_every_change(fixture: Fixture) {
    let hub = fixture.store.hub();
    let denied = fixture.propose(sample::propose(1)).await;
    let waiters = [hub.wait_for(denied.id), hub.wait_for(denied.id)];
    fixture.accept(sample::deny(&denied)).await;
    for waiter in waiters {
        assert_eq!(woken(waiter, denied.id).await.state, State::Denied);
    }

    let superseded = fixture.propose(sample::propose_in(2, "c")).await;
    let waiter = hub.wait_for(superseded.id);
    let withdrawn = fixture.propose(sample::propose_in(3, "c")).await;
    assert_eq!(woken(waiter, superseded.id).await.state, State::Superseded);
    let waiter = hub.wait_for(withdrawn.id);
    fixture
        .withdraw(sample::withdraw(&withdrawn))
        .await
        .accepted()
        .unwrap();
    assert_eq!(woken(waiter, withdrawn.id).await.state, State::Withdrawn);

    let approval = fixture.approved(sample::propose(4)).await;
    let waiter = hub.wait_for(approval.id);
    fixture.start(sample::start(&approval, 1, 1)).await.unwrap();
    assert_eq!(
        woken(waiter, approval.id).await.calls[0].state,
        CallState::Running
    );
    let waiter = hub.wait_for(approval.id);
    let done = sample::finish(&approval, 1, 1, Outcome::succeeded("{}"));
    fixture.finish(done).await.unwrap();
    assert!(woken(waiter, approval.id).await.is_finished());

    let expired = fixture.propose(sample::propose(5)).await;
    let lost = fixture.running(sample::propose(6)).await;
    let waiters = (hub.wait_for(expired.id), hub.wait_for(lost.id));
    fixture.advance(sample::TTL);
    fixture.sweep(sample::sweep(10)).await;
    assert_eq!(woken(waiters.0, expired.id).await.state, State::Expired);
    assert_eq!(woken(waiters.1, lost.id).await.calls[0].state, CallState::Unknown);
    assert!(hub.is_idle(), "who was woken is forgotten");
}

pub async fn d2_a_change_of_nothing_wakes_nobody(fixture: Fixture) {
    let hub = fixture.store.hub();
    let approval = fixture.approved(sample::propose(1)).await;
    for _ in 0..16 {
        fixture
            .decide(sample::decide_as("mallory", &approval, Verdict::Deny))
            .await
            .accepted()
            .unwrap_err();
    }
    let version = fixture.get(&approval).await.version;
    let waiter = hub.wait_for(approval.id);
    // Nothing here changes the approval: evidence is full, the withdrawal is too late, and the last write concerns
    // another approval.
    fixture
        .decide(sample::decide_as("mallory", &approval, Verdict::Deny))
        .await
        .accepted()
        .unwrap_err();
    fixture
        .withdraw(sample::withdraw(&approval))
        .await
        .accepted()
        .unwrap_err();
    fixture.propose(sample::propose(2)).await;
    assert_eq!(hub.awaited(None), [approval.id]);
    assert_eq!(fixture.get(&approval).await.version, version);
    drop(waiter);
    assert!(hub.is_idle());
}

pub async fn d2_who_follows_hears_of_every_commit(fixture: Fixture) {
    let tenant = sample::tenant();
    let mut changes = fixture.store.hub().changes();
    let mut heard = async || {
        let signal = tokio::time::timeout(LONG, changes.next()).await;
        assert!(signal.expect("signalled in time"), "the store is there");
    };
    let mut cursor = fixture.store.feed_end(&tenant).await.unwrap();
    let mut seen = Vec::new();
    let mut words = Vec::new();
    let approval = fixture.propose(sample::propose(1)).await;
    let mut waiting = 1;
    while seen.len() < 5 {
        heard().await;
        // The feed may lag behind its signal; then another signal follows.
        let page = fixture.store.feed(&tenant, cursor, 10).await.unwrap();
        for place in page {
            cursor = place.cursor;
            words.push(place.event.what.as_str());
            seen.push(place.event.number);
        }
        match (seen.len(), waiting) {
            (1, 1) => _ = fixture.accept(sample::approve(&approval)).await,
            (2, 2) => _ = fixture.start(sample::start(&approval, 1, 1)).await.unwrap(),
            (3, 3) => {
                fixture.advance(Duration::from_secs(3600));
                fixture.sweep(sample::sweep(10)).await;
            }
            (4, 4) => {
                _ = fixture
                    .reconcile(sample::reconcile(&approval, 1, true))
                    .await
                    .unwrap()
            }
            _ => continue,
        }
        waiting += 1;
    }
    assert_eq!(words, ["proposed", "approved", "started", "lost", "reconciled"]);
    // Registry changes are not in the feed, but its followers are signalled.
    let entry = sample::entry(Kind::Token, "t");
    fixture.store.put_entry(entry).await.unwrap();
    heard().await;
    fixture.store.take_entry(Kind::Token, "t").await.unwrap();
    heard().await;
    drop(changes);
    assert!(!fixture.store.hub().is_followed());
}

/// Creates one approval in each state.
async fn one_of_each(fixture: &Fixture) -> Vec<SharedApproval> {
    let keyed = Propose {
        key: Some(sample::key("k", "body")),
        run: Some(sample::run("run-1")),
        ..sample::propose_in(1, "c")
    };
    let mut all = vec![fixture.propose(keyed).await];
    all.push(fixture.approved(sample::batch(2, 3)).await);
    all.push(fixture.running(sample::batch(3, 2)).await);
    let denied = fixture.propose(sample::propose(4)).await;
    all.push(
        fixture
            .accept(sample::keyed(sample::deny(&denied), "d", "body"))
            .await,
    );
    let done = fixture.running(sample::propose(5)).await;
    let finish = sample::finish(&done, 1, 1, Outcome::succeeded([0, 159, 255]));
    all.push(fixture.finish(finish).await.unwrap().approval);
    let edited = fixture.propose(sample::propose(6)).await;
    let edit = crate::decision::Choice::Edit(sample::arguments("{ \"new\": true }"));
    let decide = sample::decide(&edited, Verdict::Each(vec![edit]));
    all.push(fixture.accept(decide).await);
    all
}

pub async fn a6_everything_survives_a_restart(fixture: Fixture) {
    let all = one_of_each(&fixture).await;
    let tenant = sample::tenant();
    let mut histories = Vec::new();
    for approval in &all {
        histories.push(fixture.events(approval).await);
    }
    let count = histories.iter().map(Vec::len).sum();
    let feed = fixture.feed(&tenant, Cursor::default(), count).await;
    let Some(fixture) = fixture.restarted().await else {
        return says_so();
    };
    for (approval, history) in all.iter().zip(&histories) {
        assert_eq!(fixture.get(approval).await, *approval);
        assert_eq!(fixture.events(approval).await, *history);
    }
    fixture.check_all().await;
    let listed = fixture.store.list(&tenant, &Filter::default()).await.unwrap();
    assert_eq!(listed.len(), all.len());
    // A cursor from before the restart still works.
    let (half, rest) = feed.split_at(feed.len() / 2);
    let cursor = half.last().unwrap().cursor;
    let after = fixture.store.feed(&tenant, cursor, 1000).await.unwrap();
    assert_eq!(after, rest);
}

pub async fn x32_what_waits_goes_on_after_a_restart(fixture: Fixture) {
    let all = one_of_each(&fixture).await;
    let Some(fixture) = fixture.restarted().await else {
        return says_so();
    };
    let (pending, released, running, denied) = (&all[0], &all[1], &all[2], &all[3]);
    // Retries of the proposal and of the denial find the original results.
    let retry = Propose {
        key: Some(sample::key("k", "body")),
        ..sample::propose_in(7, "c")
    };
    assert!(fixture.try_propose(retry).await.unwrap().repeated);
    fixture
        .accept(sample::keyed(sample::deny(denied), "d", "body"))
        .await;
    assert_eq!(fixture.pending_in(&sample::channel("c")).await, Some(pending.id));
    // Waiting, replacing and deciding still work.
    let waiter = fixture.store.hub().wait_for(pending.id);
    let next = fixture.propose(sample::propose_in(8, "c")).await;
    assert_eq!(next.replaces, Some(pending.id));
    assert_eq!(woken(waiter, pending.id).await.state, State::Superseded);
    fixture.accept(sample::approve(&next)).await;
    fixture.start(sample::start(released, 1, 1)).await.unwrap();
    let done = sample::finish(running, 1, 1, Outcome::succeeded("{}"));
    fixture.finish(done).await.unwrap();
    fixture.advance(Duration::from_secs(3600));
    let expected = Swept {
        expired: 0,
        // `next`, the rest of `running`, and the edited one.
        stale: 3,
        unknown: 1,
        entries: 0,
        broken: 0,
        more: false,
    };
    assert_eq!(fixture.sweep(sample::sweep(100)).await, expected);
}

#[expect(clippy::print_stderr, reason = "a test that proves nothing must say so")]
fn says_so() {
    eprintln!("this store keeps nothing beyond its process: nothing was proved");
}
