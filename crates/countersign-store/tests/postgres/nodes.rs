//! Several nodes on one database: one wins each race, and all are notified.

use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign::command::{Answer, Command, Finish, Propose};
use countersign::event::Replay;
use countersign::executor::Outcome;
use countersign::hash::Hash;
use countersign::id::{CallId, Key, Tenant};
use countersign::registry::{Entry, Kind, Put};
use countersign::state::{CallState, State};
use countersign::store::{Filter, Store};
use countersign::undoes::Undoes;
use countersign_store::postgres::{PostgresOptions, PostgresStore};

use crate::support::{
    PERMIT, approve, database, id, in_channel, new_approval, open, propose, stored, try_propose,
};

/// Measures the time from a decision on one node until a waiter on another is woken.
async fn wake_after(waiting: &PostgresStore, deciding: &PostgresStore, number: u64) -> Duration {
    propose(waiting, new_approval(number)).await;
    let waiter = waiting.hub().wait_for(id(number));
    assert_eq!(stored(waiting, number).await.unwrap().state, State::Pending);
    approve(deciding, number).await.unwrap().accepted().unwrap();
    let begun = Instant::now();
    let woken = tokio::time::timeout(Duration::from_secs(5), waiter.changed()).await;
    assert_eq!(woken.unwrap().unwrap().state, State::Approved);
    begun.elapsed()
}

#[tokio::test]
async fn i14_a_waiter_learns_of_another_nodes_decision() {
    let url = database().await;
    let silent = || PostgresOptions {
        notify: false,
        ..PostgresOptions::default()
    };
    let (one, other) = (open(&url).await, open(&url).await);
    // The listener needs a moment to connect; before that, the polling fallback would answer.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let notified = wake_after(&one, &other, 1).await;
    assert!(notified < Duration::from_millis(500), "{notified:?}");
    let mute = PostgresStore::connect(&url, silent()).await.unwrap();
    for number in 2..5 {
        let lost = wake_after(&one, &mute, number).await;
        assert!(lost < Duration::from_millis(1100), "{lost:?}");
    }
    let deaf = PostgresStore::connect(&url, silent()).await.unwrap();
    let lost = wake_after(&deaf, &other, 5).await;
    assert!(lost < Duration::from_millis(1100), "{lost:?}");
}

/// Measures the time from a commit on one node until a follower on another sees its event.
async fn follow_after(following: &PostgresStore, writing: &PostgresStore, number: u64) -> Duration {
    let tenant = Tenant::single();
    let mut changes = following.hub().changes();
    let cursor = following.feed_end(&tenant).await.unwrap();
    propose(writing, new_approval(number)).await;
    let begun = Instant::now();
    loop {
        let heard = tokio::time::timeout(Duration::from_secs(5), changes.next()).await;
        assert!(heard.unwrap());
        let feed = following.feed(&tenant, cursor, 10).await.unwrap();
        if feed.iter().any(|place| place.approval == id(number)) {
            return begun.elapsed();
        }
    }
}

#[tokio::test]
async fn d2_followers_learn_of_another_nodes_proposal() {
    let url = database().await;
    let (one, other) = (open(&url).await, open(&url).await);
    // The listener needs a moment to connect; before that, the polling fallback would answer.
    tokio::time::sleep(Duration::from_millis(500)).await;
    // The feed ends before the oldest transaction in flight, and other tests use the same server: take the best of
    // several.
    let mut fastest = Duration::MAX;
    for number in 1..6 {
        fastest = fastest.min(follow_after(&one, &other, number).await);
    }
    assert!(fastest < Duration::from_millis(200), "{fastest:?}");
    let silent = PostgresOptions {
        notify: false,
        ..PostgresOptions::default()
    };
    let deaf = PostgresStore::connect(&url, silent).await.unwrap();
    let lost = follow_after(&deaf, &other, 6).await;
    assert!(lost < Duration::from_secs(3), "{lost:?}");
    // Registry changes are in no feed, but still signal followers.
    let mut changes = one.hub().changes();
    let entry = Entry {
        kind: Kind::Token,
        key: "t".to_owned(),
        tenant: Tenant::single(),
        body: Arc::from(&b"x"[..]),
        version: 0,
        expires_at: None,
    };
    assert_eq!(other.put_entry(entry).await, Ok(Put::Written(1)));
    let heard = tokio::time::timeout(Duration::from_secs(5), changes.next()).await;
    assert_eq!(heard, Ok(true));
    assert!(one.entry(Kind::Token, "t").await.unwrap().is_some());
}

#[tokio::test]
async fn m10_of_many_decisions_on_many_nodes_one_wins() {
    let url = database().await;
    let nodes = [Arc::new(open(&url).await), Arc::new(open(&url).await)];
    for number in 0..20 {
        propose(&nodes[0], new_approval(number)).await;
    }
    let attempts = (0..320u64).map(|attempt| {
        let node = nodes[(attempt % 2) as usize].clone();
        tokio::spawn(async move {
            (
                attempt / 2 % 20,
                approve(&node, attempt / 2 % 20).await.unwrap().started,
            )
        })
    });
    let mut wins = [0; 20];
    for attempt in futures_util::future::join_all(attempts).await {
        let (number, started) = attempt.unwrap();
        wins[number as usize] += usize::from(started.is_some());
    }
    assert_eq!(wins, [1; 20]);
    for number in 0..20 {
        let events = nodes[0].events(&Tenant::single(), id(number)).await.unwrap();
        let replay = Replay::fold(&Tenant::single(), id(number), &events).unwrap();
        assert_eq!(replay.state, State::Approved);
    }
}

#[tokio::test]
async fn one_pending_approval_per_channel_across_nodes() {
    let url = database().await;
    let nodes = [Arc::new(open(&url).await), Arc::new(open(&url).await)];
    let proposals = (0..64u64).map(|number| {
        let node = nodes[(number % 2) as usize].clone();
        tokio::spawn(async move {
            let channel = format!("telegram:{}", number % 3);
            try_propose(&node, in_channel(number, &channel)).await.unwrap();
        })
    });
    for proposal in futures_util::future::join_all(proposals).await {
        proposal.unwrap();
    }
    let pending = nodes[0]
        .list(&Tenant::single(), &Filter::pending())
        .await
        .unwrap();
    assert_eq!(pending.len(), 3);
    let all = Filter {
        limit: Some(500),
        ..Filter::default()
    };
    let all = nodes[0].list(&Tenant::single(), &all).await.unwrap();
    assert_eq!(all.len(), 64);
    let ended = all.iter().filter(|approval| approval.state == State::Superseded);
    assert_eq!(ended.count(), 61);
}

#[tokio::test]
async fn one_approval_per_key_across_nodes() {
    let url = database().await;
    let nodes = [Arc::new(open(&url).await), Arc::new(open(&url).await)];
    let proposals = (0..32u64).map(|number| {
        let node = nodes[(number % 2) as usize].clone();
        let proposal = Propose {
            key: Some((Key::new("order-1").unwrap(), Hash([9; 32]))),
            ..new_approval(number)
        };
        tokio::spawn(async move { try_propose(&node, proposal).await.unwrap() })
    });
    let answers: Vec<_> = futures_util::future::join_all(proposals).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| !answer.repeated).count(), 1);
    let first = answers[0].approval.id;
    assert!(answers.iter().all(|answer| answer.approval.id == first));
}

/// An undo locks and changes two approvals, of which the command names only one.
#[tokio::test]
async fn an_undo_reaches_the_call_it_undoes() {
    let url = database().await;
    let store = open(&url).await;
    let finish = |number: u64| {
        store.write(Command::Finish(Finish {
            tenant: Tenant::single(),
            call: CallId {
                approval: id(number),
                position: 1,
            },
            permit: PERMIT,
            outcome: Outcome::succeeded("{}"),
            policy: Hash([1; 32]),
            start_next: None,
            late: false,
        }))
    };
    let proposed = propose(&store, new_approval(1)).await;
    assert_eq!(proposed.calls[0].arguments.as_bytes(), br#"{"b": 1e2,"a":-0}"#);
    approve(&store, 1).await.unwrap().accepted().unwrap();
    finish(1).await.unwrap();
    let undo = Propose {
        undoes: Undoes::new(id(1), [1]),
        ..new_approval(2)
    };
    propose(&store, undo).await;
    assert_eq!(approve(&store, 2).await.unwrap().started, Some(1));
    let Answer::Finish(finished) = finish(2).await.unwrap() else {
        panic!()
    };
    finished.unwrap();
    let undone = stored(&store, 1).await.unwrap();
    assert_eq!(undone.calls[0].state, CallState::Undone);
    assert_eq!(
        undone.calls[0].arguments.as_bytes(),
        br#"{"b": 1e2,"a":-0}"#,
        "M5"
    );
    assert_eq!(undone.calls[0].result.as_deref(), Some(b"{}".as_slice()));
    let other = Tenant::new("other").unwrap();
    assert_eq!(store.approval(&other, id(1)).await.unwrap(), None, "X20");
}
