//! One agent cannot flood people, and a no is a no for a while.

use std::time::Duration;

use crate::command::{Command, Propose, ProposeRefusal, PutEntry, Restraint, denial_key};
use crate::registry::{Entry, Kind};
use crate::state::State;
use crate::store::suite::{Fixture, sample};

fn restrained(propose: Propose, most: usize) -> Propose {
    let calls = propose.calls.iter();
    let calls = calls.map(|call| (call.tool.as_str(), call.arguments.as_bytes()));
    let denial = denial_key(&propose.tenant, &propose.agent, calls);
    Propose {
        restraint: Some(Restraint {
            most_pending: Some(most),
            joins: true,
            denial: Some(denial),
        }),
        ..propose
    }
}

/// Proposal number `n`, with arguments of its own and no credential.
fn own(n: u64, most: usize) -> Propose {
    let mut propose = sample::propose(n);
    for call in &mut propose.calls {
        call.arguments = sample::arguments(&format!("{{\"n\":{n}}}"));
        call.sealed = None;
    }
    restrained(propose, most)
}

pub async fn x11_the_same_calls_join_the_open_card(fixture: Fixture) {
    let first = fixture.propose(own(1, 20)).await;
    let again = Propose {
        id: sample::id(2),
        ..own(1, 20)
    };
    let joined = fixture.try_propose(again.clone()).await.unwrap();
    assert!(joined.repeated);
    assert_eq!(joined.approval, first);
    assert_eq!(fixture.words(&first).await, ["proposed"], "nothing was written");
    // Another agent's, or with one byte more, is another question.
    let mut other = Propose {
        id: sample::id(3),
        agent: crate::id::Agent::new("another").unwrap(),
        ..again.clone()
    };
    assert!(!fixture.try_propose(other.clone()).await.unwrap().repeated);
    other = Propose {
        id: sample::id(4),
        ..again.clone()
    };
    other.calls[0].arguments = sample::arguments("{\"n\":1 }");
    assert!(!fixture.try_propose(other).await.unwrap().repeated);
    // A card that is over is not joined.
    fixture.accept(sample::approve(&first)).await;
    let anew = Propose {
        id: sample::id(5),
        ..again.clone()
    };
    assert!(!fixture.try_propose(anew).await.unwrap().repeated);
    fixture.advance(sample::TTL);
    let late = Propose {
        id: sample::id(6),
        ..again
    };
    assert!(!fixture.try_propose(late).await.unwrap().repeated);
}

pub async fn x11_an_agent_has_only_so_many_pending(fixture: Fixture) {
    let first = fixture.propose(own(1, 3)).await;
    for n in 2..=3 {
        fixture.propose(own(n, 3)).await;
    }
    let refused = fixture.try_propose(own(4, 3)).await.err();
    assert_eq!(
        refused,
        Some(ProposeRefusal::TooManyPending { count: 3, most: 3 })
    );
    // Others are not in the way, and neither is who asks without restraint.
    let other = Propose {
        agent: crate::id::Agent::new("another").unwrap(),
        ..own(5, 3)
    };
    fixture.propose(other).await;
    fixture.propose(sample::propose(6)).await;
    // What is decided, and what nobody decided in time, makes room.
    fixture.accept(sample::approve(&first)).await;
    let refused = fixture.try_propose(own(7, 3)).await.err();
    assert_eq!(
        refused,
        Some(ProposeRefusal::TooManyPending { count: 3, most: 3 })
    );
    fixture.advance(sample::TTL);
    assert_eq!(fixture.propose(own(8, 3)).await.state, State::Pending);
}

pub async fn x11_who_takes_a_place_does_not_count_twice(fixture: Fixture) {
    let in_channel = |n: u64| Propose {
        channel: Some(sample::channel("c")),
        ..own(n, 1)
    };
    let first = fixture.propose(in_channel(1)).await;
    let second = fixture.propose(in_channel(2)).await;
    assert_eq!(second.replaces, Some(first.id));
    // The same again joins; it replaces nothing.
    let again = Propose {
        id: sample::id(3),
        ..in_channel(2)
    };
    let joined = fixture.try_propose(again).await.unwrap();
    assert_eq!((joined.repeated, joined.approval.id), (true, second.id));
}

pub async fn x11_a_denied_call_cools_down(fixture: Fixture) {
    let propose = own(1, 20);
    let key = propose
        .restraint
        .as_ref()
        .and_then(|restraint| restraint.denial.clone())
        .unwrap();
    let until = sample::BEGINNING.plus(Duration::from_secs(600));
    let entry = Entry {
        kind: Kind::Denial,
        key,
        tenant: propose.tenant.clone(),
        body: [].into(),
        version: 0,
        expires_at: Some(until),
    };
    fixture
        .store
        .write(Command::PutEntry(PutEntry(entry)))
        .await
        .unwrap();
    let refused = fixture.try_propose(propose.clone()).await.err();
    assert_eq!(refused, Some(ProposeRefusal::DeniedLately { until }));
    fixture.propose(own(2, 20)).await;
    fixture.advance(Duration::from_secs(600));
    fixture.propose(propose).await;
}

pub async fn x62_a_limit_counts_what_one_requester_asks(fixture: Fixture) {
    let restrained = |n: u64, requester: &str| {
        let propose = own(n, 3);
        Propose {
            requester: crate::id::Person::new(requester).unwrap(),
            restraint: Some(Restraint {
                most_pending: Some(3),
                joins: false,
                denial: None,
            }),
            channel: None,
            ..propose
        }
    };
    for n in 1..=3 {
        fixture.propose(restrained(n, "crm")).await;
    }
    let refused = fixture.try_propose(restrained(4, "crm")).await.unwrap_err();
    assert_eq!(refused, ProposeRefusal::TooManyPending { count: 3, most: 3 });
    // Another token, or another person who talks to the same agent, is not locked out by the first.
    let other = fixture.propose(restrained(5, "ana")).await;
    // The same calls again are another question where the policy does not join them.
    let mut again = restrained(6, "ana");
    for (call, first) in again.calls.iter_mut().zip(&other.calls) {
        call.arguments = first.arguments.clone();
    }
    assert!(!fixture.try_propose(again).await.unwrap().repeated);
    let first = fixture.find(&sample::tenant(), sample::id(1)).await.unwrap();
    fixture.accept(sample::deny(&first)).await;
    fixture.propose(restrained(7, "crm")).await;
}
