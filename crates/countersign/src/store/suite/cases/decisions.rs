//! Decide and withdraw: who may decide what, and how often.

use crate::approval::Approval;
use crate::command::{Answer, Attempt, Command, Propose, Withdraw};
use crate::decision::{AuthorityBasis, Choice, Refusal, Surface, Verdict};
use crate::event::{Event, EventKind};
use crate::id::Actor;
use crate::registry::{Entry, Kind, Put};
use crate::state::State;
use crate::store::suite::{Fixture, sample};

pub async fn x03_decision_on_another_digest_is_stale(fixture: Fixture) {
    let one = fixture.propose(sample::propose(1)).await;
    let other = fixture.propose(sample::propose(2)).await;
    let mut decide = sample::approve(&one);
    decide.decision.digest = Some(other.digest);
    let answer = fixture.decide(decide).await;
    let (id, digest) = (one.id, one.digest);
    assert_eq!(answer.refusal, Some(Refusal::Stale { id, digest }));
    assert_eq!(fixture.get(&one).await.state, State::Pending);
    // A decision without a digest is accepted, and so is one with the right digest.
    let mut decide = sample::approve(&one);
    decide.decision.digest = None;
    fixture.accept(decide).await;
    fixture.accept(sample::approve(&other)).await;
}

pub async fn x03_the_old_card_does_not_decide_its_replacement(fixture: Fixture) {
    let old = fixture.propose(sample::propose_in(1, "c")).await;
    let new = fixture.propose(sample::propose_in(2, "c")).await;
    let answer = fixture.decide(sample::approve(&old)).await;
    let (id, by) = (old.id, new.id);
    assert_eq!(answer.refusal, Some(Refusal::Superseded { id, by }));
    assert_eq!(fixture.get(&new).await.state, State::Pending);
    // The digest of the old card is not accepted for the new one either.
    let mut decide = sample::approve(&new);
    decide.decision.digest = Some(old.digest);
    assert_eq!(fixture.decide(decide).await.refusal.unwrap().code(), "stale");
    assert_eq!(fixture.get(&new).await.state, State::Pending);
}

pub async fn x13_same_key_same_answer_other_body_refused(fixture: Fixture) {
    let approval = fixture.propose(sample::propose(1)).await;
    let decide = sample::keyed(sample::approve(&approval), "click-1", "body");
    let first = fixture.accept(decide.clone()).await;
    let again = fixture.decide(decide).await;
    assert_eq!(again.refusal, None);
    assert_eq!(again.approval.as_ref(), Some(&first));
    let other = sample::keyed(sample::deny(&approval), "click-1", "another body");
    let (key, _) = sample::key("click-1", "");
    assert_eq!(fixture.decide(other).await.refusal, Some(Refusal::KeyReused(key)));
    // Without a key, or with another one, the approval is already decided.
    for late in [
        sample::approve(&approval),
        sample::keyed(sample::approve(&approval), "click-2", "body"),
    ] {
        assert_eq!(
            fixture.decide(late).await.refusal.unwrap().code(),
            "already_decided"
        );
    }
    assert_eq!(fixture.get(&approval).await.state, State::Approved);
}

pub async fn x13_somebody_elses_key_is_no_answer(fixture: Fixture) {
    let approval = fixture.propose(sample::propose(1)).await;
    fixture
        .accept(sample::keyed(sample::approve(&approval), "1", "body"))
        .await;
    let stranger = sample::decide_as("mallory", &approval, Verdict::Approve);
    let answer = fixture.decide(sample::keyed(stranger, "1", "body")).await;
    assert_eq!(answer.refusal.unwrap().code(), "already_decided");
}

pub async fn x01_an_attempt_is_kept_and_decides_nothing(fixture: Fixture) {
    let approval = fixture.propose(sample::propose(1)).await;
    let attempt = Attempt {
        tenant: approval.tenant.clone(),
        approval: approval.id,
        by: Actor::Agent(approval.agent.clone()),
        approve: true,
        surface: Surface::Api,
        policy: sample::policy(),
    };
    for _ in 0..20 {
        fixture.write(Command::Attempt(attempt.clone())).await;
    }
    assert_eq!(fixture.get(&approval).await.state, State::Pending);
    let events = fixture.events(&approval).await;
    let is_refused = |event: &&Event| matches!(event.what, EventKind::DecisionRefused { approve: true, .. });
    let refused: Vec<&Event> = events.iter().filter(is_refused).collect();
    assert_eq!(refused.len(), 16, "enough is enough");
    assert_eq!(refused[0].by, attempt.by);
    fixture.accept(sample::approve(&approval)).await;
    // No evidence is kept for a missing approval.
    let other = Attempt {
        approval: sample::propose(9).id,
        ..attempt
    };
    assert!(matches!(
        fixture.write(Command::Attempt(other)).await,
        Answer::Attempt(None)
    ));
}

pub async fn x46_a_role_taken_away_meanwhile_decides_nothing(fixture: Fixture) {
    let entry = sample::entry(Kind::Person, "alice");
    assert_eq!(fixture.store.put_entry(entry.clone()).await, Ok(Put::Written(1)));
    let decide = |approval: &Approval, basis: AuthorityBasis| {
        let mut decide = sample::approve(approval);
        decide.decision.decider.authority_bases = vec![basis];
        decide
    };
    // The account is unchanged: accepted.
    let approval = fixture.propose(sample::propose(1)).await;
    fixture
        .accept(decide(&approval, AuthorityBasis::exactly(&entry)))
        .await;
    // The account has changed since: refused.
    let changed = Entry {
        version: 1,
        body: b"other".as_slice().into(),
        ..entry.clone()
    };
    assert_eq!(
        fixture.store.put_entry(changed.clone()).await,
        Ok(Put::Written(2))
    );
    let approval = fixture.propose(sample::propose(2)).await;
    let answer = fixture
        .decide(decide(&approval, AuthorityBasis::exactly(&entry)))
        .await;
    assert_eq!(answer.refusal.unwrap().code(), "not_allowed");
    // The account was removed: refused.
    fixture.store.take_entry(Kind::Person, "alice").await.unwrap();
    let answer = fixture
        .decide(decide(&approval, AuthorityBasis::any(&entry)))
        .await;
    assert_eq!(answer.refusal.unwrap().code(), "not_allowed");
    // The account was created again: the version is the same as at first, but it counts as another account.
    let again = Entry {
        version: 0,
        body: b"again".as_slice().into(),
        ..entry.clone()
    };
    assert_eq!(fixture.store.put_entry(again).await, Ok(Put::Written(1)));
    let answer = fixture
        .decide(decide(&approval, AuthorityBasis::exactly(&entry)))
        .await;
    assert_eq!(answer.refusal.unwrap().code(), "not_allowed");
    assert_eq!(fixture.get(&approval).await.state, State::Pending);
}

pub async fn x04_nobody_outside_the_list_decides(fixture: Fixture) {
    let approval = fixture.propose(sample::propose(1)).await;
    let (id, person) = (approval.id, sample::person("mallory"));
    for verdict in [
        Verdict::Approve,
        Verdict::Deny,
        Verdict::Each(vec![Choice::Approve]),
    ] {
        let mut decide = sample::decide_as("mallory", &approval, verdict);
        decide.decision.claimed_by = Some("alice".to_owned());
        let answer = fixture.decide(decide).await;
        let person = person.clone();
        assert_eq!(answer.refusal, Some(Refusal::NotAllowed { id, person }));
    }
    let mut by_group = sample::decide_as("bob", &approval, Verdict::Approve);
    by_group.decision.decider.groups = vec!["sales".to_owned(), "ops".to_owned()];
    fixture.accept(by_group).await;
    // With an empty list of approvers nobody may decide.
    let closed = fixture
        .propose(sample::batch_under(2, 1, &sample::terms_for(&[])))
        .await;
    for decide in [sample::approve(&closed), sample::deny(&closed)] {
        assert_eq!(
            fixture.decide(decide).await.refusal.unwrap().code(),
            "not_allowed"
        );
    }
}

pub async fn x04_who_may_not_decide_learns_nothing_else(fixture: Fixture) {
    let approval = fixture.propose(sample::propose(1)).await;
    let verdict = Verdict::Each(vec![Choice::Approve; 3]);
    let mut decide = sample::decide_as("mallory", &approval, verdict);
    decide.decision.digest = Some(sample::policy());
    assert_eq!(
        fixture.decide(decide).await.refusal.unwrap().code(),
        "not_allowed"
    );
}

pub async fn x04_approving_needs_every_call_and_denying_one(fixture: Fixture) {
    let propose = |n| Propose {
        calls: vec![
            sample::call_under("{}", sample::terms_for(&["alice", "bob"])),
            sample::call_under("{}", sample::terms_for(&["bob"])),
        ],
        ..sample::propose(n)
    };
    let approval = fixture.propose(propose(1)).await;
    assert_eq!(
        fixture
            .decide(sample::approve(&approval))
            .await
            .refusal
            .unwrap()
            .code(),
        "not_allowed"
    );
    // A person may approve their own part and thereby deny the rest.
    let part = Verdict::Each(vec![Choice::Approve, Choice::Deny]);
    fixture.accept(sample::decide(&approval, part)).await;
    let approval = fixture.propose(propose(2)).await;
    fixture.accept(sample::deny(&approval)).await;
    let approval = fixture.propose(propose(3)).await;
    fixture
        .accept(sample::decide_as("bob", &approval, Verdict::Approve))
        .await;
}

pub async fn b7_each_refusal_is_distinct(fixture: Fixture) {
    let code = |answer: crate::command::DecideAnswer| answer.refusal.map(|refusal| refusal.code());
    let superseded = fixture.propose(sample::propose_in(1, "c")).await;
    let withdrawn = fixture.propose(sample::propose_in(2, "c")).await;
    fixture
        .withdraw(sample::withdraw(&withdrawn))
        .await
        .accepted()
        .unwrap();
    let approved = fixture.approved(sample::propose(3)).await;
    let denied = fixture.propose(sample::propose(4)).await;
    fixture.accept(sample::deny(&denied)).await;
    let expired = fixture.propose(sample::propose(5)).await;
    fixture.advance(sample::TTL);
    let table = [
        (&superseded, "superseded"),
        (&withdrawn, "withdrawn"),
        (&approved, "already_decided"),
        (&denied, "already_decided"),
        (&expired, "expired"),
    ];
    for (approval, expected) in table {
        for decide in [sample::approve(approval), sample::deny(approval)] {
            assert_eq!(code(fixture.decide(decide).await), Some(expected));
        }
        let answer = fixture.withdraw(sample::withdraw(approval)).await;
        assert_eq!(code(answer), Some(expected));
    }
    let mut missing = sample::approve(&approved);
    missing.decision.approval = sample::id(99);
    let answer = fixture.decide(missing).await;
    assert_eq!(answer.refusal, Some(Refusal::NotFound(sample::id(99))));
    assert_eq!(answer.approval, None);
}

pub async fn x38_refused_decisions_are_kept_up_to_sixteen(fixture: Fixture) {
    let approval = fixture.propose(sample::propose(1)).await;
    let strange = |approve: bool| match approve {
        true => Verdict::Approve,
        false => Verdict::Each(vec![Choice::Deny]),
    };
    for n in 0..20 {
        let decide = sample::decide_as("mallory", &approval, strange(n % 2 == 0));
        fixture.decide(decide).await.accepted().unwrap_err();
    }
    let events = fixture.events(&approval).await;
    assert_eq!(events.len(), 1 + 16);
    for (n, event) in (0..).zip(&events[1..]) {
        assert_eq!(event.by, Actor::Person(sample::person("mallory")));
        let expected = EventKind::DecisionRefused {
            reason: "not_allowed".to_owned(),
            approve: n % 2 == 0,
            surface: "page".to_owned(),
        };
        assert_eq!(event.what, expected);
    }
    // Full evidence does not prevent a decision.
    fixture.accept(sample::approve(&approval)).await;
    // A late denial is kept as evidence too, while there is room.
    let other = fixture.approved(sample::propose(2)).await;
    fixture.decide(sample::deny(&other)).await.accepted().unwrap_err();
    assert_eq!(
        fixture.words(&other).await,
        ["proposed", "approved", "decision_refused"]
    );
}

pub async fn an_agent_withdraws_only_its_own(fixture: Fixture) {
    let approval = fixture.propose(sample::propose_in(1, "c")).await;
    let foreign = Withdraw {
        by: Actor::Agent(sample::agent("billing")),
        ..sample::withdraw(&approval)
    };
    let answer = fixture.withdraw(foreign).await;
    assert_eq!(answer.refusal, Some(Refusal::NotFound(approval.id)));
    assert_eq!(answer.approval, None);
    assert_eq!(fixture.get(&approval).await.state, State::Pending);
    let answer = fixture.withdraw(sample::withdraw(&approval)).await;
    assert_eq!(answer.refusal, None);
    assert_eq!(answer.approval.unwrap().state, State::Withdrawn);
    assert_eq!(fixture.pending_in(&sample::channel("c")).await, None);
    // The channel is free again.
    let next = fixture.propose(sample::propose_in(2, "c")).await;
    assert_eq!(next.replaces, None);
}

pub async fn a_person_withdraws_by_going_on(fixture: Fixture) {
    let approval = fixture.propose(sample::propose_in(1, "c")).await;
    let withdraw = Withdraw {
        by: Actor::Person(sample::person("maria")),
        reason: Some("other_reply".to_owned()),
        ..sample::withdraw(&approval)
    };
    let answer = fixture.withdraw(withdraw).await;
    assert_eq!(answer.approval.unwrap().state, State::Withdrawn);
    let events = fixture.events(&approval).await;
    assert_eq!(events[1].by, Actor::Person(sample::person("maria")));
    let reason = Some("other_reply".to_owned());
    assert_eq!(events[1].what, EventKind::Withdrawn { reason });
}

pub async fn a16_choices_must_fit_the_calls(fixture: Fixture) {
    let approval = fixture.propose(sample::batch(1, 3)).await;
    for count in [0usize, 1, 2, 4, 300] {
        let verdict = Verdict::Each(vec![Choice::Approve; count]);
        let answer = fixture.decide(sample::decide(&approval, verdict)).await;
        let (id, calls, choices) = (approval.id, 3, count);
        assert_eq!(
            answer.refusal,
            Some(Refusal::BadChoices { id, calls, choices }),
            "{count}"
        );
    }
    assert_eq!(fixture.get(&approval).await.state, State::Pending);
}

pub async fn a16_each_denied_is_denied(fixture: Fixture) {
    let approval = fixture.propose(sample::batch(1, 2)).await;
    let verdict = Verdict::Each(vec![Choice::Deny; 2]);
    let decided = fixture.accept(sample::decide(&approval, verdict)).await;
    assert_eq!(decided.state, State::Denied);
    assert!(!decided.decision.as_ref().unwrap().approved);
    assert_eq!(fixture.words(&approval).await, ["proposed", "denied"]);
}
