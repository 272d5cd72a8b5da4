//! Listings, histories and the feed.

use crate::approval::SharedApproval;
use crate::command::Propose;
use crate::decision::Verdict;
use crate::event::EventKind;
use crate::executor::Outcome;
use crate::id::{Actor, ApprovalId};
use crate::state::State;
use crate::store::suite::{Fixture, sample};
use crate::store::{Cursor, FeedEvent, Filter, LONGEST_PAGE};

async fn ids(fixture: &Fixture, filter: &Filter) -> Vec<ApprovalId> {
    let listed: Vec<SharedApproval> = fixture.store.list(&sample::tenant(), filter).await.unwrap();
    for approval in &listed {
        assert_eq!(
            fixture.get(approval).await,
            *approval,
            "a listing shows the whole"
        );
    }
    listed.iter().map(|approval| approval.id).collect()
}

fn numbers(numbers: impl IntoIterator<Item = u64>) -> Vec<ApprovalId> {
    numbers.into_iter().map(sample::id).collect()
}

fn of_state(state: State) -> Filter {
    Filter {
        state: Some(state),
        ..Filter::default()
    }
}

pub async fn d1_pending_is_listed_oldest_first_and_never_expired(fixture: Fixture) {
    fixture.propose(sample::propose(1)).await;
    fixture.advance(sample::TTL / 2);
    for n in 2..=4 {
        fixture.propose(sample::propose(n)).await;
    }
    let third = fixture.find(&sample::tenant(), sample::id(3)).await.unwrap();
    fixture.accept(sample::deny(&third)).await;
    assert_eq!(ids(&fixture, &Filter::pending()).await, numbers([1, 2, 4]));
    fixture.advance(sample::TTL / 2);
    assert_eq!(ids(&fixture, &Filter::pending()).await, numbers([2, 4]));
    fixture.sweep(sample::sweep(10)).await;
    assert_eq!(ids(&fixture, &Filter::pending()).await, numbers([2, 4]));
    assert_eq!(ids(&fixture, &of_state(State::Expired)).await, numbers([1]));
}

pub async fn d1_everything_else_is_listed_newest_first(fixture: Fixture) {
    for n in 1..=6 {
        let approval = fixture.propose(sample::propose(n)).await;
        match n % 3 {
            0 => _ = fixture.accept(sample::approve(&approval)).await,
            1 => _ = fixture.accept(sample::deny(&approval)).await,
            _ => {}
        }
    }
    assert_eq!(
        ids(&fixture, &Filter::default()).await,
        numbers([6, 5, 4, 3, 2, 1])
    );
    assert_eq!(ids(&fixture, &of_state(State::Approved)).await, numbers([6, 3]));
    assert_eq!(ids(&fixture, &of_state(State::Denied)).await, numbers([4, 1]));
    assert_eq!(ids(&fixture, &of_state(State::Withdrawn)).await, []);
    assert_eq!(ids(&fixture, &of_state(State::Superseded)).await, []);
}

pub async fn d1_filters_meet(fixture: Fixture) {
    let table = [
        (1, "crm", Some("c"), Some("r1")),
        (2, "crm", Some("d"), Some("r1")),
        (3, "billing", Some("e"), Some("r1")),
        (4, "billing", Some("c"), Some("r2")),
        (5, "crm", None, None),
    ];
    for (n, agent, channel, run) in table {
        let propose = Propose {
            agent: sample::agent(agent),
            channel: channel.map(sample::channel),
            run: run.map(sample::run),
            is_shared: true,
            ..sample::propose(n)
        };
        fixture.propose(propose).await;
    }
    let filter = |state, agent: &str, channel: &str, run: &str| Filter {
        state,
        agent: (!agent.is_empty()).then(|| sample::agent(agent)),
        channel: (!channel.is_empty()).then(|| sample::channel(channel)),
        run: (!run.is_empty()).then(|| sample::run(run)),
        ..Filter::default()
    };
    let pending = Some(State::Pending);
    let table: [(Filter, &[u64]); 11] = [
        (filter(None, "crm", "", ""), &[5, 2, 1]),
        (filter(None, "billing", "", ""), &[4, 3]),
        (filter(None, "", "c", ""), &[4, 1]),
        (filter(None, "", "", "r1"), &[3, 2, 1]),
        (filter(None, "crm", "", "r1"), &[2, 1]),
        (filter(None, "crm", "c", "r1"), &[1]),
        (filter(None, "nobody", "", ""), &[]),
        (filter(pending, "crm", "", ""), &[2, 5]),
        (filter(pending, "", "c", ""), &[4]),
        (filter(pending, "", "", "r1"), &[2, 3]),
        (filter(Some(State::Superseded), "", "c", ""), &[1]),
    ];
    for (filter, expected) in table {
        let expected = numbers(expected.iter().copied());
        assert_eq!(ids(&fixture, &filter).await, expected, "{filter:?}");
    }
}

pub async fn d1_pages_have_no_gaps_and_no_repeats(fixture: Fixture) {
    for n in 1..=23 {
        let approval = fixture.propose(sample::propose(n)).await;
        if n % 4 == 0 {
            fixture.accept(sample::deny(&approval)).await;
        }
    }
    for (state, whole) in [
        (None, numbers((1..=23).rev())),
        (Some(State::Pending), numbers((1..=23).filter(|n| n % 4 != 0))),
        (
            Some(State::Denied),
            numbers((1..=23).rev().filter(|n| n % 4 == 0)),
        ),
    ] {
        for size in [1, 5, 23, 24] {
            let mut filter = Filter {
                state,
                limit: Some(size),
                ..Filter::default()
            };
            let mut seen = Vec::new();
            loop {
                let page = ids(&fixture, &filter).await;
                assert!(page.len() <= size);
                let Some(last) = page.last() else { break };
                filter.after = Some(*last);
                seen.extend(page);
            }
            assert_eq!(seen, whole, "{state:?} by {size}");
        }
    }
    // A decision between two pages does not shift the second page.
    let mut filter = Filter {
        limit: Some(3),
        ..Filter::pending()
    };
    let page = ids(&fixture, &filter).await;
    let last = fixture.find(&sample::tenant(), page[2]).await.unwrap();
    fixture.accept(sample::deny(&last)).await;
    filter.after = Some(page[2]);
    assert_eq!(ids(&fixture, &filter).await, numbers([5, 6, 7]));
}

pub async fn d1_a_page_has_its_limits(fixture: Fixture) {
    for n in 1..=60 {
        fixture.propose(sample::propose(n)).await;
    }
    assert_eq!(ids(&fixture, &Filter::default()).await.len(), 50);
    let limit = |limit| Filter {
        limit: Some(limit),
        ..Filter::default()
    };
    assert_eq!(ids(&fixture, &limit(0)).await.len(), 0);
    assert_eq!(ids(&fixture, &limit(60)).await.len(), 60);
    assert_eq!(ids(&fixture, &limit(usize::MAX)).await.len(), 60);
    assert_eq!(limit(usize::MAX).page(), LONGEST_PAGE);
}

pub async fn x62_a_page_ends_when_it_has_its_bytes(fixture: Fixture) {
    let text = "x".repeat(1000);
    for n in 1..=9 {
        let mut propose = sample::propose(n);
        for call in &mut propose.calls {
            call.arguments = sample::arguments(&format!("{{\"text\":\"{text}\"}}"));
        }
        fixture.propose(propose).await;
    }
    let whole = ids(&fixture, &Filter::default()).await;
    let weight = fixture.find(&sample::tenant(), whole[0]).await.unwrap().weight();
    assert!(weight > 1000);
    for (most_bytes, expected) in [
        (1, 1),
        (weight, 1),
        (weight + 1, 2),
        (3 * weight, 3),
        (weight * 9 + 1, 9),
    ] {
        for state in [None, Some(State::Pending)] {
            let mut filter = Filter {
                state,
                most_bytes: Some(most_bytes),
                ..Filter::default()
            };
            let mut seen = Vec::new();
            loop {
                let page = fixture.store.list(&sample::tenant(), &filter).await.unwrap();
                assert!(page.len() <= expected, "{most_bytes}");
                assert_eq!(
                    filter.is_full(&page),
                    page.len() == expected && expected < 9,
                    "{most_bytes}"
                );
                let Some(last) = page.last() else { break };
                filter.after = Some(last.id);
                let is_full = filter.is_full(&page);
                seen.extend(page.iter().map(|approval| approval.id));
                if !is_full {
                    break;
                }
            }
            seen.sort_unstable();
            let mut whole = whole.clone();
            whole.sort_unstable();
            assert_eq!(seen, whole, "every one is on some page");
        }
    }
}

pub async fn b8_the_history_tells_everything_in_order(fixture: Fixture) {
    let approval = fixture.propose(sample::propose(1)).await;
    fixture
        .decide(sample::decide_as("mallory", &approval, Verdict::Approve))
        .await
        .accepted()
        .unwrap_err();
    fixture.accept(sample::approve(&approval)).await;
    fixture.start(sample::start(&approval, 1, 1)).await.unwrap();
    let done = sample::finish(&approval, 1, 1, Outcome::succeeded("{}"));
    fixture.finish(done).await.unwrap();
    let events = fixture.events(&approval).await;
    let by: Vec<String> = events
        .iter()
        .map(|event| format!("{} {} by {}", event.number, event.what.as_str(), event.by))
        .collect();
    assert_eq!(
        by,
        [
            "1 proposed by agent:crm",
            "2 decision_refused by person:mallory",
            "3 approved by person:alice",
            "4 started by gate",
            "5 succeeded by gate",
        ]
    );
    assert!(events.iter().all(|event| event.policy == sample::policy()));
    assert_eq!(events[2].by, Actor::Person(sample::person("alice")));
    let EventKind::Approved { digest, .. } = events[2].what else {
        panic!("{:?}", events[2]);
    };
    assert_eq!(digest, approval.digest);
    let missing = fixture.store.events(&approval.tenant, sample::id(9)).await;
    assert_eq!(missing, Ok(Vec::new()));
}

/// Creates three approvals with interleaved events, and returns what the feed must show.
async fn busy(fixture: &Fixture) -> Vec<(ApprovalId, u32)> {
    let one = fixture.propose(sample::propose_in(1, "c")).await;
    let two = fixture.propose(sample::batch(2, 2)).await;
    let foreign = Propose {
        tenant: sample::tenant_named("other"),
        ..sample::propose(4)
    };
    fixture.propose(foreign).await;
    fixture.accept(sample::approve(&two)).await;
    fixture.propose(sample::propose_in(3, "c")).await;
    fixture.start(sample::start(&two, 1, 1)).await.unwrap();
    fixture.advance(sample::TTL);
    fixture.sweep(sample::sweep(10)).await;
    let mut expected = Vec::new();
    for (approval, count) in [(one.id, 2), (two.id, 5), (sample::id(3), 2)] {
        expected.extend((1..=count).map(|number| (approval, number)));
    }
    expected
}

fn places(feed: &[FeedEvent]) -> Vec<(ApprovalId, u32)> {
    feed.iter()
        .map(|place| (place.approval, place.event.number))
        .collect()
}

pub async fn b8_the_feed_is_complete_and_in_order(fixture: Fixture) {
    let expected = busy(&fixture).await;
    let feed = fixture
        .feed(&sample::tenant(), Cursor::default(), expected.len())
        .await;
    let mut found = places(&feed);
    let cursors: Vec<Cursor> = feed.iter().map(|place| place.cursor).collect();
    assert!(cursors.is_sorted_by(|a, b| a < b), "{cursors:?}");
    for place in &feed {
        let events = fixture.store.events(&sample::tenant(), place.approval).await;
        let number = usize::try_from(place.event.number).unwrap();
        assert_eq!(place.event, events.unwrap()[number - 1]);
    }
    let own = |id: ApprovalId| -> Vec<u32> {
        let own = feed.iter().filter(|place| place.approval == id);
        own.map(|place| place.event.number).collect()
    };
    for n in 1..=3 {
        let numbers = own(sample::id(n));
        assert!(numbers.is_sorted_by(|a, b| a < b), "{n}: {numbers:?}");
    }
    found.sort_unstable();
    assert_eq!(found, expected);
}

/// Other transactions in flight may hold back the end of the feed; then some events are returned again, but none is
/// missed.
pub async fn b8_behind_the_end_of_the_feed_comes_only_what_is_new(fixture: Fixture) {
    let count = busy(&fixture).await.len();
    let tenant = sample::tenant();
    let whole = fixture.feed(&tenant, Cursor::default(), count).await;
    let end = fixture.store.feed_end(&tenant).await.unwrap();
    let again = fixture.store.feed(&tenant, end, 100).await.unwrap();
    assert!(whole.ends_with(&again) && again.len() < whole.len(), "{again:?}");
    fixture.propose(sample::propose(9)).await;
    let news = fixture.feed(&tenant, end, again.len() + 1).await;
    assert_eq!(places(&news).last(), Some(&(sample::id(9), 1)));
}

pub async fn b8_the_feed_goes_on_behind_a_cursor(fixture: Fixture) {
    let count = busy(&fixture).await.len();
    let tenant = sample::tenant();
    let whole = fixture.feed(&tenant, Cursor::default(), count).await;
    for size in [1, 2, 4, 100] {
        let mut cursor = Cursor::default();
        let mut seen = Vec::new();
        loop {
            let page = fixture.store.feed(&tenant, cursor, size).await.unwrap();
            assert!(page.len() <= size);
            let Some(last) = page.last() else { break };
            cursor = last.cursor;
            seen.extend(page);
        }
        assert_eq!(seen, whole, "by {size}");
    }
    // New events follow the cursor.
    let last = whole.last().unwrap().cursor;
    fixture.propose(sample::propose(9)).await;
    let news = fixture.feed(&tenant, last, 1).await;
    assert_eq!(places(&news), [(sample::id(9), 1)]);
    assert_eq!(fixture.store.feed(&tenant, last, 0).await, Ok(Vec::new()));
}

pub async fn d2_what_was_approved_and_nobody_runs_is_found(fixture: Fixture) {
    let tenant = sample::tenant();
    let released = async |after: Cursor, count: usize| {
        // The feed may lag.
        for _ in 0..200 {
            let found = fixture.store.released(&tenant, after).await.unwrap();
            if found.approvals.len() >= count {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{count} released approvals are not found");
    };
    fixture.propose(sample::propose(1)).await;
    let denied = fixture.propose(sample::propose(2)).await;
    fixture.accept(sample::deny(&denied)).await;
    fixture.running(sample::propose(3)).await;
    // A batch with a running call is not listed: its runner continues with the next call.
    fixture.running(sample::batch(4, 2)).await;
    let first = fixture.approved(sample::propose(5)).await;
    let second = fixture.approved(sample::batch(6, 2)).await;
    let ids = |approvals: &[SharedApproval]| approvals.iter().map(|found| found.id).collect::<Vec<_>>();
    let found = released(Cursor::default(), 2).await;
    assert_eq!(ids(&found.approvals), [first.id, second.id]);
    assert_eq!(
        found.approvals,
        [first.clone(), second.clone()],
        "the whole of them"
    );
    assert!(!found.is_more);
    let other = fixture
        .store
        .released(&sample::tenant_named("globex"), Cursor::default())
        .await
        .unwrap();
    assert_eq!(ids(&other.approvals), []);
    // Continuing from `upto` finds only what was approved since.
    let third = fixture.approved(sample::propose(7)).await;
    let found = released(found.upto, 1).await;
    assert_eq!(ids(&found.approvals), [third.id]);
    fixture.start(sample::start(&first, 1, 1)).await.unwrap();
    let all = released(Cursor::default(), 2).await;
    assert_eq!(ids(&all.approvals), [second.id, third.id]);
}

/// Followers of the feed find the remaining calls of a batch after a call was given up, or ended without starting the
/// next.
pub async fn x89_what_goes_on_behind_a_call_that_is_over_is_found(fixture: Fixture) {
    let tenant = sample::tenant();
    let found_after = async |after: Cursor| {
        // The feed may lag.
        for _ in 0..200 {
            let found = fixture.store.released(&tenant, after).await.unwrap();
            if !found.approvals.is_empty() {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("nothing is found");
    };
    let going_on = crate::policy::Terms {
        on_failure: crate::policy::OnFailure::Continue,
        ..sample::terms()
    };
    let lost = fixture.running(sample::batch_under(1, 2, &going_on)).await;
    let place = fixture.store.feed_end(&tenant).await.unwrap();
    fixture.advance(sample::TIMEOUT);
    assert_eq!(fixture.sweep(sample::sweep(10)).await.unknown, 1);
    let found = found_after(place).await;
    assert_eq!(found.approvals, [fixture.get(&lost).await]);
    // A call that ended without starting the next one.
    let ended = fixture.running(sample::batch(2, 2)).await;
    let place = fixture.store.feed_end(&tenant).await.unwrap();
    let done = crate::executor::Outcome::succeeded("{}");
    fixture.finish(sample::finish(&ended, 1, 1, done)).await.unwrap();
    let found = found_after(place).await;
    assert_eq!(found.approvals, [fixture.get(&ended).await]);
    // Both batches count as open, and so do pending approvals; finished ones do not.
    let denied = fixture.propose(sample::propose(3)).await;
    fixture.accept(sample::deny(&denied)).await;
    let pending = fixture.propose(sample::propose(4)).await;
    let open = async |state| {
        let filter = Filter {
            state,
            open: true,
            ..Filter::default()
        };
        let page = fixture.store.list(&tenant, &filter).await.unwrap();
        page.iter().map(|approval| approval.id).collect::<Vec<_>>()
    };
    assert_eq!(open(None).await, [pending.id, ended.id, lost.id]);
    assert_eq!(open(Some(State::Approved)).await, [ended.id, lost.id]);
}

/// Uses more than one page of approvals.
pub async fn x92_everything_pending_is_counted(fixture: Fixture) {
    let tenant = sample::tenant();
    assert_eq!(fixture.store.count_pending(&tenant).await, Ok(0));
    for n in 1..=520 {
        fixture.propose(sample::propose(n)).await;
    }
    assert_eq!(fixture.store.count_pending(&tenant).await, Ok(520));
    let other = sample::tenant_named("globex");
    assert_eq!(fixture.store.count_pending(&other).await, Ok(0));
    // Expired approvals do not count, whether or not a sweep has recorded their expiry.
    fixture.advance(std::time::Duration::from_secs(1_000_000));
    assert_eq!(fixture.store.count_pending(&tenant).await, Ok(0));
}
