//! The registry: entries are found by key, changed by compare-and-swap, taken once, and expire by the clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::command::Swept;
use crate::registry::{Entry, Kind, LARGEST_BODY, Put};
use crate::store::suite::{Fixture, sample};
use crate::store::{LONGEST_PAGE, StoreError};

const MICROSECOND: Duration = Duration::from_micros(1);

/// Number of concurrent tasks.
const TASKS: usize = 16;

async fn put(fixture: &Fixture, entry: &Entry) -> Put {
    fixture
        .store
        .put_entry(entry.clone())
        .await
        .expect("the store answers")
}

async fn find(fixture: &Fixture, kind: Kind, key: &str) -> Option<Entry> {
    fixture.store.entry(kind, key).await.expect("the store answers")
}

async fn take(fixture: &Fixture, kind: Kind, key: &str) -> Option<Entry> {
    fixture
        .store
        .take_entry(kind, key)
        .await
        .expect("the store answers")
}

/// A store may have no change counter; if it has one, every change must count.
pub async fn h02_a_stamp_stays_while_nothing_changes_and_changes_with_everything(fixture: Fixture) {
    let stamp = async || fixture.store.change_counter().await.expect("the store answers");
    let Some(mut last) = stamp().await else {
        return;
    };
    let approval = fixture.propose(sample::propose(1)).await;
    let mut changed = async |what: &str| {
        let now = stamp().await.expect("a stamp");
        assert_ne!(now, last, "{what}");
        assert_eq!(stamp().await, Some(now), "{what}, and nothing since");
        last = now;
    };
    changed("a proposal").await;
    let entry = sample::entry(Kind::Token, "k");
    put(&fixture, &entry).await;
    changed("an entry").await;
    let deny = crate::command::Command::Decide(Box::new(sample::deny(&approval)));
    fixture.store.write(deny).await.expect("the store answers");
    changed("a decision").await;
    take(&fixture, Kind::Token, "k").await;
    changed("an entry that is gone").await;
}

pub async fn h02_an_entry_comes_back_as_it_was_put(fixture: Fixture) {
    let largest: Vec<u8> = (0..LARGEST_BODY).map(|n| (n % 251) as u8).collect();
    let mut entries = Vec::new();
    for (kind, key, body) in [
        (Kind::Token, "k", &b"\0\xff\x80"[..]),
        (Kind::Person, "k", b""),
        (Kind::Session, "Ünï 🔑", b"{\"a\": 1}"),
        (Kind::Link, &"k".repeat(256), &largest),
        (Kind::Setting, "a/b:c.d'e\"f%", b"x"),
    ] {
        let mut entry = sample::entry(kind, key);
        entry.body = Arc::from(body);
        entry.expires_at = Some(sample::BEGINNING.plus(Duration::from_secs(9)));
        assert_eq!(put(&fixture, &entry).await, Put::Written(1));
        entry.version = 1;
        entries.push(entry);
    }
    for entry in &entries {
        let found = find(&fixture, entry.kind, &entry.key).await;
        assert_eq!(found.as_ref(), Some(entry));
    }
    assert_eq!(find(&fixture, Kind::Token, "K").await, None);
    assert_eq!(find(&fixture, Kind::Token, "").await, None);
    let Some(fixture) = fixture.restarted().await else {
        return;
    };
    for entry in &entries {
        let found = find(&fixture, entry.kind, &entry.key).await;
        assert_eq!(found.as_ref(), Some(entry), "after a restart");
    }
}

pub async fn h02_what_is_no_entry_is_not_kept(fixture: Fixture) {
    let mut bad = vec![
        sample::entry(Kind::Token, ""),
        sample::entry(Kind::Token, &"k".repeat(257)),
        sample::entry(Kind::Token, "a\0b"),
        sample::entry(Kind::Token, "k"),
    ];
    bad[3].body = vec![0; LARGEST_BODY + 1].into();
    for entry in bad {
        let refused = fixture.store.put_entry(entry.clone()).await;
        assert!(matches!(refused, Err(StoreError::Impossible(_))), "{refused:?}");
        assert_eq!(find(&fixture, entry.kind, "k").await, None);
    }
}

pub async fn h02_an_entry_changes_by_compare_and_swap(fixture: Fixture) {
    let mut entry = sample::entry(Kind::Person, "maria");
    let unknown = Entry {
        version: 1,
        ..entry.clone()
    };
    assert_eq!(put(&fixture, &unknown).await, Put::Conflict, "none is there");
    assert_eq!(put(&fixture, &entry).await, Put::Written(1));
    assert_eq!(put(&fixture, &entry).await, Put::Conflict, "one is there");
    entry.version = 1;
    entry.body = Arc::from(&b"second"[..]);
    assert_eq!(put(&fixture, &entry).await, Put::Written(2));
    assert_eq!(put(&fixture, &entry).await, Put::Conflict, "somebody was faster");
    let foreign = Entry {
        tenant: sample::tenant_named("mallory"),
        version: 2,
        ..entry.clone()
    };
    assert_eq!(put(&fixture, &foreign).await, Put::Conflict, "another tenant's");
    entry.version = 2;
    assert_eq!(find(&fixture, Kind::Person, "maria").await, Some(entry));
}

pub async fn h02_an_entry_ends_by_the_clock(fixture: Fixture) {
    let end = sample::BEGINNING.plus(sample::TTL);
    let mut entry = sample::entry(Kind::Session, "s");
    entry.expires_at = Some(end);
    put(&fixture, &entry).await;
    let mut taken = sample::entry(Kind::Link, "l");
    taken.expires_at = Some(end);
    put(&fixture, &taken).await;
    let lasting = sample::entry(Kind::Session, "t");
    put(&fixture, &lasting).await;
    let keys = async || {
        let listed = fixture
            .store
            .entries(&sample::tenant(), Kind::Session, None, 10)
            .await;
        let keys = listed.unwrap().into_iter().map(|entry| entry.key);
        keys.collect::<Vec<String>>()
    };
    fixture.advance(sample::TTL - MICROSECOND);
    assert!(find(&fixture, Kind::Session, "s").await.is_some());
    assert_eq!(keys().await, ["s", "t"]);
    fixture.advance(MICROSECOND);
    // Nothing was swept yet.
    assert_eq!(find(&fixture, Kind::Session, "s").await, None);
    assert_eq!(keys().await, ["t"]);
    assert_eq!(take(&fixture, Kind::Link, "l").await, None);
    let late = Entry {
        version: 1,
        expires_at: None,
        ..entry.clone()
    };
    assert_eq!(put(&fixture, &late).await, Put::Conflict, "it is over");
    // Another entry may take the expired one's place, even another tenant's; holders of the old version cannot change
    // the new entry.
    let next = Entry {
        tenant: sample::tenant_named("other"),
        version: 0,
        ..late.clone()
    };
    assert_eq!(put(&fixture, &next).await, Put::Written(2));
    assert_eq!(put(&fixture, &late).await, Put::Conflict);
    let found = find(&fixture, Kind::Session, "s").await;
    assert_eq!(found.map(|entry| entry.tenant), Some(next.tenant));
}

pub async fn h02_the_sweep_removes_what_is_over(fixture: Fixture) {
    for n in 0..5u32 {
        let mut entry = sample::entry(Kind::Session, &format!("s{n}"));
        entry.expires_at = Some(sample::BEGINNING.plus(MICROSECOND * (10 - n)));
        put(&fixture, &entry).await;
    }
    put(&fixture, &sample::entry(Kind::Token, "t")).await;
    let swept = |entries, more| Swept {
        entries,
        more,
        ..Swept::default()
    };
    assert_eq!(fixture.sweep(sample::sweep(10)).await, swept(0, false));
    fixture.advance(MICROSECOND * 9);
    assert_eq!(fixture.sweep(sample::sweep(3)).await, swept(3, true));
    assert_eq!(fixture.sweep(sample::sweep(3)).await, swept(1, false));
    // `s0` has not expired yet.
    assert!(find(&fixture, Kind::Session, "s0").await.is_some());
    fixture.advance(MICROSECOND);
    assert_eq!(fixture.sweep(sample::sweep(3)).await, swept(1, false));
    assert!(find(&fixture, Kind::Token, "t").await.is_some());
    assert_eq!(fixture.sweep(sample::sweep(3)).await, swept(0, false));
}

pub async fn h02_an_entry_is_taken_once(fixture: Fixture) {
    let entry = sample::entry(Kind::Link, "l");
    put(&fixture, &entry).await;
    put(&fixture, &sample::entry(Kind::Token, "l")).await;
    let taken = take(&fixture, Kind::Link, "l").await;
    assert_eq!(taken, Some(Entry { version: 1, ..entry }));
    assert_eq!(take(&fixture, Kind::Link, "l").await, None);
    assert_eq!(find(&fixture, Kind::Link, "l").await, None);
    assert!(find(&fixture, Kind::Token, "l").await.is_some());
}

pub async fn h02_many_take_and_one_has_it(fixture: Fixture) {
    for round in 0..10 {
        let key = format!("l{round}");
        put(&fixture, &sample::entry(Kind::Link, &key)).await;
        let taking = (0..TASKS).map(|_| take(&fixture, Kind::Link, &key));
        let taken = join_all(taking).await;
        assert_eq!(taken.iter().flatten().count(), 1, "round {round}");
    }
}

pub async fn h02_many_put_and_one_is_kept(fixture: Fixture) {
    for version in 0..10 {
        let putting = (0..TASKS).map(|n| {
            let mut entry = sample::entry(Kind::Setting, "s");
            entry.body = n.to_string().into_bytes().into();
            entry.version = version;
            let fixture = &fixture;
            async move { (put(fixture, &entry).await, entry.body) }
        });
        let answers = join_all(putting).await;
        let kept: Vec<_> = answers.iter().filter(|(put, _)| *put != Put::Conflict).collect();
        assert_eq!(kept.len(), 1, "version {version}");
        assert_eq!(kept[0].0, Put::Written(version + 1));
        let found = find(&fixture, Kind::Setting, "s").await.unwrap();
        assert_eq!((found.body, found.version), (kept[0].1.clone(), version + 1));
    }
}

pub async fn x20_entries_are_listed_by_tenant(fixture: Fixture) {
    let (ours, theirs) = (sample::tenant(), sample::tenant_named("mallory"));
    let mut keys = BTreeSet::new();
    for n in 0..7u8 {
        // Keys sort by bytes in any locale: capitals before small letters, both before other alphabets.
        let key = ["b", "B", "é", "a b", "ab", "a-b", "🔑"][usize::from(n)].to_owned();
        put(&fixture, &sample::entry(Kind::Person, &key)).await;
        let foreign = Entry {
            tenant: theirs.clone(),
            ..sample::entry(Kind::Person, &format!("{key}2"))
        };
        put(&fixture, &foreign).await;
        keys.insert(key);
    }
    put(&fixture, &sample::entry(Kind::Token, "a")).await;
    let mut listed = Vec::new();
    loop {
        let after: Option<&str> = listed.last().map(String::as_str);
        let page = fixture
            .store
            .entries(&ours, Kind::Person, after, 3)
            .await
            .unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 3);
        assert!(page.iter().all(|entry| entry.tenant == ours));
        listed.extend(page.into_iter().map(|entry| entry.key));
    }
    assert_eq!(listed, keys.into_iter().collect::<Vec<_>>());
    let all = fixture
        .store
        .entries(&theirs, Kind::Person, None, usize::MAX)
        .await;
    assert_eq!(all.unwrap().len(), 7);
    let none = fixture
        .store
        .entries(&theirs, Kind::Token, None, LONGEST_PAGE)
        .await;
    assert_eq!(none.unwrap(), []);
}

pub async fn h02_a_page_of_entries_has_its_limit(fixture: Fixture) {
    let keys: Vec<String> = (0..=LONGEST_PAGE).map(|n| format!("{n:04}")).collect();
    for some in keys.chunks(50) {
        let entries: Vec<Entry> = some.iter().map(|key| sample::entry(Kind::Setting, key)).collect();
        join_all(entries.iter().map(|entry| put(&fixture, entry))).await;
    }
    let tenant = sample::tenant();
    let page = async |after: Option<&str>| {
        let page = fixture.store.entries(&tenant, Kind::Setting, after, usize::MAX);
        let entries = page.await.expect("the store answers");
        entries
            .into_iter()
            .map(|entry| entry.key)
            .collect::<Vec<String>>()
    };
    let first = page(None).await;
    assert_eq!(first, keys[..LONGEST_PAGE]);
    assert_eq!(page(first.last().map(String::as_str)).await, keys[LONGEST_PAGE..]);
}

pub async fn a10_turns_of_a_session_come_back_in_order_and_each_number_is_taken_once(fixture: Fixture) {
    let key = |session: &str, number: u32| format!("{session}/{number:08}");
    let mut expected = Vec::new();
    // Entries are written out of order, and between those of other sessions.
    for number in [3, 0, 12, 1, 2] {
        for session in ["a", "b", "b0", "c"] {
            let mut entry = sample::entry(Kind::Turn, &key(session, number));
            entry.body = Arc::from(key(session, number).as_bytes());
            assert_eq!(put(&fixture, &entry).await, Put::Written(1));
            assert_eq!(put(&fixture, &entry).await, Put::Conflict, "the number is taken");
        }
        expected.push(key("b", number));
    }
    expected.sort_unstable();
    let mut other = sample::entry(Kind::Turn, "b/00000004");
    other.tenant = sample::tenant_named("mallory");
    put(&fixture, &other).await;
    let check = async |fixture: &Fixture| {
        let listed = fixture
            .store
            .entries(&sample::tenant(), Kind::Turn, Some("b/"), LONGEST_PAGE)
            .await
            .expect("the store answers");
        let keys = listed.into_iter().map(|entry| entry.key);
        let own: Vec<String> = keys.take_while(|key| key.starts_with("b/")).collect();
        assert_eq!(own, expected);
    };
    check(&fixture).await;
    if let Some(fixture) = fixture.restarted().await {
        check(&fixture).await;
    }
}
