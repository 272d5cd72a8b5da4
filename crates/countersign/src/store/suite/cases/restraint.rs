//! Restraint: limits on pending approvals per agent, joining, and the cool-down after a denial.

use std::sync::Arc;
use std::time::Duration;

use crate::approval::SharedApproval;
use crate::command::{CallSet, Decide, Propose, ProposeRefusal, Restraint};
use crate::decision::{Choice, Verdict};
use crate::policy::Authority;
use crate::state::State;
use crate::store::suite::{Fixture, sample};
use crate::working_folder::WorkingFolder;

fn restrained(propose: Propose, most: usize) -> Propose {
    let calls = propose.calls.iter();
    let calls = calls.map(|call| (call.tool.as_str(), call.arguments.as_bytes()));
    let denial = CallSet::of(&propose.tenant, &propose.agent, calls);
    Propose {
        restraint: Some(Restraint {
            most_pending: Some(most),
            joins: true,
            denial: Some((denial, COOL_DOWN)),
        }),
        ..propose
    }
}

/// Creates proposal number `n`, with distinct arguments and no credential.
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
    // A proposal by another agent, or with one byte more, does not join.
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
    // A finished card is not joined.
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

pub async fn i3_the_same_calls_in_another_folder_are_another_card(fixture: Fixture) {
    let in_folder = |n: u64, folder: Option<&str>| {
        let mut propose = restrained(batch(n, &[1]), 100);
        let folder = folder.map(|path| WorkingFolder::new(path, Vec::new()).unwrap());
        propose.calls[0].working_folder = folder.map(Arc::new);
        propose
    };
    let first = fixture.propose(in_folder(1, Some("/p"))).await;
    assert_eq!(fixture.get(&first).await.calls, first.calls);
    for (n, folder) in [(2, Some("/q")), (3, None)] {
        let other = fixture.try_propose(in_folder(n, folder)).await.unwrap();
        assert!(!other.repeated, "{folder:?}");
        assert_eq!(fixture.get(&other.approval).await.calls, other.approval.calls);
    }
    let same = fixture.try_propose(in_folder(4, Some("/p"))).await.unwrap();
    assert_eq!((same.repeated, same.approval.id), (true, first.id));
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
    // Neither other agents nor proposals without restraint are limited.
    let other = Propose {
        agent: crate::id::Agent::new("another").unwrap(),
        ..own(5, 3)
    };
    fixture.propose(other).await;
    fixture.propose(sample::propose(6)).await;
    // Decided and expired approvals make room.
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
    // The same calls again join the card instead of replacing it.
    let again = Propose {
        id: sample::id(3),
        ..in_channel(2)
    };
    let joined = fixture.try_propose(again).await.unwrap();
    assert_eq!((joined.repeated, joined.approval.id), (true, second.id));
}

/// Creates proposal number `n` with one call for each of these numbers.
fn batch(n: u64, numbers: &[u64]) -> Propose {
    let mut propose = sample::propose(n);
    let call = propose.calls.first().cloned().unwrap();
    let numbered = |number: &u64| crate::command::NewCall {
        arguments: sample::arguments(&format!("{{\"n\":{number}}}")),
        sealed: None,
        ..call.clone()
    };
    propose.calls = numbers.iter().map(numbered).collect();
    restrained(propose, 100)
}

const COOL_DOWN: Duration = Duration::from_secs(600);

/// Proposes these calls and decides them with a cool-down.
async fn decided(fixture: &Fixture, n: u64, numbers: &[u64], verdict: Verdict) -> SharedApproval {
    let approval = fixture.propose(batch(n, numbers)).await;
    let decide = Decide {
        cool_down: Some(COOL_DOWN),
        ..sample::decide(&approval, verdict)
    };
    fixture.accept(decide).await
}

/// Checks whether each of these batches may be proposed, as `expected` says.
async fn check(fixture: &Fixture, from: u64, expected: &[(&[u64], bool)]) {
    for (n, (numbers, may_be_asked)) in (from..).zip(expected) {
        let asked = fixture.try_propose(batch(n, numbers)).await;
        match asked {
            Ok(_) => assert!(may_be_asked, "{numbers:?} was asked"),
            Err(refusal) => {
                let is_late = matches!(refusal, ProposeRefusal::DeniedLately { .. });
                assert!(is_late && !may_be_asked, "{numbers:?}: {refusal}");
            }
        }
    }
}

pub async fn x11_a_denied_call_cools_down(fixture: Fixture) {
    decided(&fixture, 1, &[1], Verdict::Deny).await;
    let until = sample::BEGINNING.plus(COOL_DOWN);
    let refused = fixture.try_propose(batch(2, &[1])).await.err();
    assert_eq!(refused, Some(ProposeRefusal::DeniedLately { until }));
    fixture.propose(batch(3, &[2])).await;
    // Proposals without restraint are not refused, nor are those of another agent.
    fixture
        .propose(Propose {
            restraint: None,
            ..batch(4, &[1])
        })
        .await;
    let another = Propose {
        agent: crate::id::Agent::new("another").unwrap(),
        ..batch(5, &[1])
    };
    fixture.propose(restrained(another, 100)).await;
    fixture.advance(COOL_DOWN);
    fixture.propose(batch(6, &[1])).await;
}

pub async fn x99_a_denied_call_is_refused_in_whatever_company(fixture: Fixture) {
    decided(&fixture, 1, &[1], Verdict::Deny).await;
    let expected: [(&[u64], bool); 6] = [
        (&[1], false),
        (&[1, 2], false),
        (&[3, 2, 1], false),
        (&[1, 1], false),
        (&[2], true),
        (&[2, 3], true),
    ];
    check(&fixture, 10, &expected).await;
    fixture.advance(COOL_DOWN);
    check(&fixture, 30, &[(&[1, 2], true), (&[1], true)]).await;
}

pub async fn x99_what_was_left_out_of_a_batch_counts_as_denied(fixture: Fixture) {
    let each = vec![Choice::Deny, Choice::Approve, Choice::Deny, Choice::Deny];
    decided(&fixture, 1, &[1, 2, 3, 3], Verdict::Each(each)).await;
    let expected: [(&[u64], bool); 5] = [
        (&[1], false),
        (&[3], false),
        (&[2, 3], false),
        (&[4, 1], false),
        (&[2, 4], true),
    ];
    check(&fixture, 10, &expected).await;
}

pub async fn x99_a_denied_batch_is_refused_in_any_order(fixture: Fixture) {
    decided(&fixture, 1, &[1, 2, 2], Verdict::Deny).await;
    let expected: [(&[u64], bool); 8] = [
        (&[1, 2, 2], false),
        (&[2, 1, 2], false),
        (&[2, 2, 3, 1], false),
        (&[2, 2, 2, 1], false),
        (&[1], true),
        (&[2, 2], true),
        (&[1, 2], true),
        (&[1, 2, 3], true),
    ];
    check(&fixture, 10, &expected).await;
    // A later denial of a part is kept in addition to the first, each for its own cool-down.
    fixture.advance(COOL_DOWN / 2);
    decided(&fixture, 2, &[2, 1], Verdict::Deny).await;
    check(
        &fixture,
        30,
        &[(&[1, 2], false), (&[2, 1, 2], false), (&[1, 4], true)],
    )
    .await;
    fixture.advance(COOL_DOWN / 2);
    check(
        &fixture,
        40,
        &[(&[1, 2], false), (&[2, 2], true), (&[2, 2, 1], false)],
    )
    .await;
    fixture.advance(COOL_DOWN / 2);
    check(&fixture, 50, &[(&[1, 2], true), (&[2, 1, 2], true)]).await;
}

pub async fn x99_what_an_earlier_approver_left_out_counts_as_denied(fixture: Fixture) {
    let mut propose = batch(1, &[1, 2]);
    let two = Authority {
        quorum: 2,
        ..Authority::default()
    };
    for call in &mut propose.calls {
        call.terms = sample::terms_asking(two).into();
    }
    let approval = fixture.propose(propose).await;
    let each = vec![Choice::Approve, Choice::Deny];
    for (name, verdict) in [("bob", Verdict::Each(each)), ("carol", Verdict::Approve)] {
        let mut decide = sample::decide_as(name, &approval, verdict);
        decide.decision.decider.groups = vec!["ops".to_owned()];
        decide.cool_down = Some(COOL_DOWN);
        fixture.accept(decide).await;
    }
    assert_eq!(fixture.get(&approval).await.state, State::Approved);
    check(&fixture, 10, &[(&[2], false), (&[1, 2], false), (&[1], true)]).await;
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
    // Another requester of the same agent is not locked out by the first.
    let other = fixture.propose(restrained(5, "ana")).await;
    // The same calls do not join unless the restraint asks for joining.
    let mut again = restrained(6, "ana");
    for (call, first) in again.calls.iter_mut().zip(&other.calls) {
        call.arguments = first.arguments.clone();
    }
    assert!(!fixture.try_propose(again).await.unwrap().repeated);
    let first = fixture.find(&sample::tenant(), sample::id(1)).await.unwrap();
    fixture.accept(sample::deny(&first)).await;
    fixture.propose(restrained(7, "crm")).await;
}
