//! The log of all events: one order over all tenants, and a head that commits to it.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::command::{Answer, Command, Erase};
use crate::decision::Verdict;
use crate::executor::Outcome;
use crate::hash::Hash;
use crate::id::Actor;
use crate::log::{Checkpoint, LogEntry, LogHead};
use crate::store::suite::{Fixture, sample};
use crate::store::{Audit, Cursor, Purge};

/// Creates approvals of two tenants with many kinds of events, and returns the number of events.
async fn busy(fixture: &Fixture) -> usize {
    let first = fixture.propose(sample::propose(1)).await;
    let mut elsewhere = sample::propose(2);
    elsewhere.tenant = sample::tenant_named("b");
    fixture.propose(elsewhere).await;
    fixture
        .decide(sample::decide_as("mallory", &first, Verdict::Approve))
        .await
        .accepted()
        .unwrap_err();
    fixture.accept(sample::approve(&first)).await;
    fixture.start(sample::start(&first, 1, 1)).await.unwrap();
    let finish = sample::finish(&first, 1, 1, Outcome::succeeded("{}"));
    fixture.finish(finish).await.unwrap();
    let lost = fixture.running(sample::propose(3)).await;
    fixture.advance(sample::TIMEOUT);
    fixture.sweep(sample::sweep(10)).await;
    let told = sample::reconcile(&lost, 1, true);
    fixture.reconcile(told).await.unwrap();
    fixture.propose(sample::propose(4)).await;
    let mut count = 0;
    for tenant in [sample::tenant(), sample::tenant_named("b")] {
        for approval in fixture.store.list(&tenant, &Default::default()).await.unwrap() {
            count += approval.version as usize;
        }
    }
    count
}

fn head_of(entries: &[LogEntry]) -> Checkpoint {
    let mut head = LogHead::default();
    entries.iter().for_each(|entry| head.push(entry.leaf()));
    head.checkpoint()
}

pub async fn i16_the_log_has_every_event_once_and_its_head_is_the_root_over_them(fixture: Fixture) {
    let empty = fixture.store.log_head().await.unwrap();
    assert_eq!(empty, LogHead::default().checkpoint());
    let count = busy(&fixture).await;
    let (head, log) = fixture.log(count).await;
    assert_eq!(log.len(), count);
    assert_eq!(head, head_of(&log));
    let distinct: BTreeSet<_> = log
        .iter()
        .map(|entry| (&entry.tenant, entry.approval, entry.number))
        .collect();
    assert_eq!(distinct.len(), count, "each event stands in it once");
    for tenant in [sample::tenant(), sample::tenant_named("b")] {
        let own: Vec<_> = log.iter().filter(|entry| entry.tenant == tenant).collect();
        let feed = fixture.feed(&tenant, Cursor::default(), own.len()).await;
        let feed: Vec<_> = feed
            .iter()
            .map(|told| (told.approval, told.event.number, told.event.link))
            .collect();
        let own: Vec<_> = own
            .iter()
            .map(|entry| (entry.approval, entry.number, entry.link))
            .collect();
        assert_eq!(own, feed, "the order of a tenant is that of its feed");
    }
    assert_eq!(fixture.store.log(count as u64, 10).await.unwrap(), []);
    assert_eq!(fixture.store.log(1, 2).await.unwrap(), log[1..3]);
}

pub async fn i16_the_log_goes_on_after_erasing_and_voiding(fixture: Fixture) {
    let count = busy(&fixture).await;
    let (_, before) = fixture.log(count).await;
    let finished = fixture.find(&sample::tenant(), sample::id(1)).await.unwrap();
    let erase = Command::Erase(Erase {
        tenant: finished.tenant.clone(),
        approval: finished.id,
        before: finished.changed_at.plus(Duration::from_micros(1)),
        by: Actor::Gate,
        policy: sample::policy(),
    });
    assert!(matches!(fixture.write(erase).await, Answer::Erase(_)));
    fixture.advance(Duration::from_secs(3600));
    let purge = Purge {
        tenant: sample::tenant(),
        before: fixture.store.now().await.unwrap(),
        after: None,
        limit: 100,
        by: Actor::Gate,
        policy: sample::policy(),
        dry_run: false,
    };
    let purged = fixture.store.purge(&purge).await.unwrap();
    let voided = fixture.store.void_open(sample::policy()).await.unwrap();
    let more = 1 + purged.erased + voided.pending;
    assert!(purged.erased > 0 && voided.pending > 0);
    let (head, after) = fixture.log(count + more).await;
    assert_eq!(after.len(), count + more);
    assert_eq!(after[..count], before, "what was there stays as it was");
    assert_eq!(head, head_of(&after));
    let audited = fixture.audit().await;
    assert_eq!(audited.faults, []);
}

pub async fn i16_the_log_survives_a_restart(fixture: Fixture) {
    let count = busy(&fixture).await;
    let before = fixture.log(count).await;
    let Some(fixture) = fixture.restarted().await else {
        return;
    };
    assert_eq!(fixture.log(count).await, before);
    fixture.propose(sample::propose(5)).await;
    let (head, log) = fixture.log(count + 1).await;
    assert_eq!(log[..count], before.1);
    assert_eq!(head, head_of(&log));
}

pub async fn i16_a_prefix_of_the_log_is_known_again(fixture: Fixture) {
    let count = busy(&fixture).await;
    let (head, log) = fixture.log(count).await;
    let other = Hash([9; 32]);
    let (short, cut) = (head_of(&log[..3]), head.size + 1);
    let checks = [
        (head, true),
        (short, true),
        (Checkpoint { root: other, ..head }, false),
        (Checkpoint { root: other, ..short }, false),
        (Checkpoint { size: cut, ..head }, false),
        (Checkpoint { size: 2, ..short }, false),
    ];
    for (expected, is_known) in checks {
        let audit = Audit {
            expected: Some(expected),
            ..Audit::default()
        };
        let audited = fixture.store.audit(&audit, &|_| ()).await.unwrap();
        assert_eq!(audited.is_sound(), is_known, "{expected}: {:?}", audited.faults);
    }
}

pub async fn x63_whatever_happened_an_honest_store_is_sound(fixture: Fixture) {
    let count = busy(&fixture).await;
    fixture.log(count).await;
    let audited = fixture.audit().await;
    assert_eq!(audited.faults, []);
    assert_eq!(audited.events, count as u64);
    assert_eq!(audited.approvals, 4);
    let audit = Audit {
        tenant: Some(sample::tenant_named("b")),
        ..Audit::default()
    };
    let audited = fixture.store.audit(&audit, &|_| ()).await.unwrap();
    assert_eq!((audited.approvals, audited.is_sound()), (1, true));
}
