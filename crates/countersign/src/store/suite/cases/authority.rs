//! Authority beyond the list of approvers: four eyes, quorum, minimum surface.

use crate::approval::SharedApproval;
use crate::command::{Decide, Propose};
use crate::decision::{Assurance, AuthorityBasis, Choice, Refusal, Surface, Verdict};
use crate::policy::Authority;
use crate::registry::{Entry, Kind, Put};
use crate::state::{CallState, State};
use crate::store::suite::{Fixture, sample};

fn asking(n: u64, authority: Authority) -> Propose {
    Propose {
        calls: vec![sample::call_under("{}", sample::terms_asking(authority))],
        ..sample::propose(n)
    }
}

fn four_eyes() -> Authority {
    Authority {
        four_eyes: true,
        ..Authority::default()
    }
}

/// Creates a decision by a member of the group `ops`.
fn member(name: &str, approval: &SharedApproval, verdict: Verdict) -> Decide {
    let mut decide = sample::decide_as(name, approval, verdict);
    decide.decision.decider.groups = vec!["ops".to_owned()];
    decide
}

async fn code(fixture: &Fixture, decide: Decide) -> Option<&'static str> {
    fixture.decide(decide).await.refusal.map(|refusal| refusal.code())
}

pub async fn x34_who_asked_cannot_approve(fixture: Fixture) {
    let propose = Propose {
        requester: sample::person("alice"),
        on_behalf_of: Some(sample::person("maria")),
        ..asking(1, four_eyes())
    };
    let approval = fixture.propose(propose).await;
    // The person counts, not the credential: neither the requester nor the person for whom the agent acts may approve.
    for name in ["alice", "maria"] {
        let person = sample::person(name);
        let answer = fixture.decide(member(name, &approval, Verdict::Approve)).await;
        let id = approval.id;
        assert_eq!(answer.refusal, Some(Refusal::FourEyes { id, person }));
        assert_eq!(answer.approval.unwrap().state, State::Pending);
    }
    let accepted = fixture.accept(member("carol", &approval, Verdict::Approve)).await;
    assert_eq!(accepted.state, State::Approved);
    assert_eq!(
        fixture.words(&approval).await,
        ["proposed", "decision_refused", "decision_refused", "approved"]
    );
}

pub async fn x67_an_endorsement_counts_while_its_account_is_as_it_was(fixture: Fixture) {
    let two = || Authority {
        quorum: 2,
        ..Authority::default()
    };
    let entry = sample::entry(Kind::Person, "bob");
    assert_eq!(fixture.store.put_entry(entry.clone()).await, Ok(Put::Written(1)));
    let endorsed = async |n| {
        let approval = fixture.propose(asking(n, two())).await;
        let mut decide = member("bob", &approval, Verdict::Approve);
        decide.decision.decider.authority_bases = vec![AuthorityBasis::exactly(&entry)];
        let endorsed = fixture.accept(decide).await;
        assert_eq!((endorsed.state, endorsed.missing()), (State::Pending, 1));
        endorsed
    };
    // While the first account is unchanged, one more approval is enough.
    let first = endorsed(1).await;
    let approved = fixture.accept(member("carol", &first, Verdict::Approve)).await;
    assert_eq!(approved.state, State::Approved);
    // The account is removed and created again: the version is 1 again, but it is another account.
    let (second, third) = (endorsed(2).await, endorsed(3).await);
    fixture.store.take_entry(Kind::Person, "bob").await.unwrap();
    let still = fixture.accept(member("carol", &second, Verdict::Approve)).await;
    assert_eq!((still.state, still.missing()), (State::Pending, 1));
    let again = Entry {
        body: b"another generation".as_slice().into(),
        ..entry.clone()
    };
    assert_eq!(fixture.store.put_entry(again.clone()).await, Ok(Put::Written(1)));
    let still = fixture.accept(member("carol", &third, Verdict::Approve)).await;
    assert_eq!((still.state, still.missing()), (State::Pending, 1));
    // Bob may approve again with his new account.
    let mut anew = member("bob", &third, Verdict::Approve);
    anew.decision.decider.authority_bases = vec![AuthorityBasis::exactly(&again)];
    let approved = fixture.accept(anew).await;
    assert_eq!(approved.state, State::Approved);
    let kept = fixture.get(&third).await;
    assert_eq!(kept.endorsements, approved.endorsements);
    assert_eq!(kept.in_force().count(), 1);
    // Two other people approve the second approval.
    let dora = fixture.accept(member("dora", &second, Verdict::Approve)).await;
    assert_eq!(dora.state, State::Approved);
}

pub async fn x34_who_asked_may_deny(fixture: Fixture) {
    let propose = Propose {
        requester: sample::person("alice"),
        ..asking(1, four_eyes())
    };
    let approval = fixture.propose(propose).await;
    let denied = fixture.accept(sample::deny(&approval)).await;
    assert_eq!(denied.state, State::Denied);
}

pub async fn x34_without_four_eyes_who_asked_may_approve(fixture: Fixture) {
    let propose = Propose {
        requester: sample::person("alice"),
        ..sample::propose(1)
    };
    let approval = fixture.propose(propose).await;
    fixture.accept(sample::approve(&approval)).await;
}

pub async fn x34_four_eyes_count_for_the_calls_that_are_approved(fixture: Fixture) {
    let propose = Propose {
        requester: sample::person("alice"),
        calls: vec![
            sample::call("{}"),
            sample::call_under("{}", sample::terms_asking(four_eyes())),
        ],
        ..sample::propose(1)
    };
    let approval = fixture.propose(propose).await;
    assert_eq!(
        code(&fixture, sample::approve(&approval)).await,
        Some("four_eyes")
    );
    let own = Verdict::Each(vec![Choice::Approve, Choice::Deny]);
    let approved = fixture.accept(sample::decide(&approval, own)).await;
    let states: Vec<CallState> = approved.calls.iter().map(|call| call.state).collect();
    assert_eq!(states, [CallState::Released, CallState::Refused]);
}

pub async fn x44_under_four_eyes_nobody_edits_alone(fixture: Fixture) {
    let approval = fixture.propose(asking(1, four_eyes())).await;
    let edit = Verdict::Each(vec![Choice::Edit(sample::arguments("{\"new\":1}"))]);
    let answer = fixture.decide(sample::decide(&approval, edit.clone())).await;
    let (id, call) = (approval.id, 1);
    assert_eq!(answer.refusal, Some(Refusal::EditNotAlone { id, call }));
    // Editing is refused too if only the edited arguments demand four eyes.
    let approval = fixture.propose(sample::propose(2)).await;
    let mut decide = sample::decide(&approval, edit);
    decide.revisions[0].terms = std::sync::Arc::new(sample::terms_asking(four_eyes()));
    assert_eq!(code(&fixture, decide).await, Some("edit_not_alone"));
    assert_eq!(fixture.get(&approval).await.calls[0].revision, 1);
}

fn people(count: u8) -> Authority {
    Authority {
        quorum: count,
        ..Authority::default()
    }
}

pub async fn quorum_takes_as_many_people_as_it_says(fixture: Fixture) {
    let approval = fixture.propose(asking(1, people(3))).await;
    assert_eq!((approval.quorum(), approval.missing()), (3, 3));
    for (name, missing) in [("alice", 2), ("bob", 1)] {
        fixture.advance(std::time::Duration::from_secs(1));
        let mut decide = member(name, &approval, Verdict::Approve);
        decide.start = Some(sample::permit(1));
        decide.decision.comment = Some(format!("{name} says so"));
        let answer = fixture.decide(decide).await;
        assert_eq!((answer.refusal, answer.started), (None, None));
        let pending = answer.approval.unwrap();
        assert_eq!((pending.state, pending.missing()), (State::Pending, missing));
        assert_eq!(pending.decision, None);
        assert_eq!(pending.calls[0].state, CallState::Held);
        let last = pending.endorsements.last().unwrap();
        assert_eq!((last.by.as_str(), last.at), (name, pending.changed_at));
        assert!(fixture.start(sample::start(&approval, 1, 1)).await.is_err());
    }
    let mut last = member("carol", &approval, Verdict::Approve);
    last.start = Some(sample::permit(1));
    let answer = fixture.decide(last).await;
    assert_eq!((answer.refusal, answer.started), (None, Some(1)));
    let approved = answer.approval.unwrap();
    assert_eq!((approved.state, approved.missing()), (State::Approved, 0));
    assert_eq!(approved.decision.as_ref().unwrap().by.as_str(), "carol");
    assert_eq!(
        fixture.words(&approval).await,
        ["proposed", "endorsed", "endorsed", "approved", "started"]
    );
}

pub async fn quorum_counts_a_person_once(fixture: Fixture) {
    let approval = fixture.propose(asking(1, people(2))).await;
    let first = sample::keyed(sample::approve(&approval), "k", "body");
    fixture.accept(first.clone()).await;
    // A repeated click gets the same answer. A second approval by the same person adds nothing and is refused.
    let again = fixture.decide(first.clone()).await;
    assert_eq!(again.refusal, None);
    assert_eq!(again.approval.unwrap().endorsements.len(), 1);
    let other_body = sample::keyed(sample::approve(&approval), "k", "other");
    assert_eq!(code(&fixture, other_body).await, Some("key_reused"));
    let answer = fixture.decide(sample::approve(&approval)).await;
    let (id, person, missing) = (approval.id, sample::person("alice"), 1);
    assert_eq!(
        answer.refusal,
        Some(Refusal::AlreadyEndorsed { id, person, missing })
    );
    assert_eq!(answer.approval.unwrap().state, State::Pending);
    let approved = fixture.accept(member("bob", &approval, Verdict::Approve)).await;
    assert_eq!(approved.state, State::Approved);
    // A retry by the first approver still gets the original answer.
    assert_eq!(code(&fixture, first).await, None);
}

pub async fn quorum_ends_with_the_first_no(fixture: Fixture) {
    let approval = fixture.propose(asking(1, people(2))).await;
    fixture.accept(sample::approve(&approval)).await;
    let denied = fixture.accept(member("bob", &approval, Verdict::Deny)).await;
    assert_eq!(
        (denied.state, denied.calls[0].state),
        (State::Denied, CallState::Refused)
    );
    // An approver may still deny.
    let approval = fixture.propose(asking(2, people(2))).await;
    fixture.accept(sample::approve(&approval)).await;
    let denied = fixture.accept(sample::deny(&approval)).await;
    assert_eq!(denied.state, State::Denied);
}

pub async fn quorum_runs_what_all_approved(fixture: Fixture) {
    let calls = [1, 2, 1].map(|count| sample::call_under("{}", sample::terms_asking(people(count))));
    let propose = |n| Propose {
        calls: calls.to_vec(),
        ..sample::propose(n)
    };
    let (yes, no) = (Choice::Approve, Choice::Deny);
    let approval = fixture.propose(propose(1)).await;
    assert_eq!(approval.quorum(), 2, "the strictest call counts");
    let first = Verdict::Each(vec![yes.clone(), yes.clone(), no.clone()]);
    let pending = fixture.accept(sample::decide(&approval, first)).await;
    assert_eq!(pending.endorsements[0].calls, Some(vec![1, 2]));
    let second = Verdict::Each(vec![no.clone(), yes.clone(), yes.clone()]);
    let approved = fixture.accept(member("bob", &approval, second)).await;
    let states: Vec<CallState> = approved.calls.iter().map(|call| call.state).collect();
    let (released, refused) = (CallState::Released, CallState::Refused);
    assert_eq!(states, [refused, released, refused]);
    // If no call was approved by everybody, the approval counts as denied.
    let approval = fixture.propose(propose(2)).await;
    let first = Verdict::Each(vec![yes.clone(), no.clone(), no.clone()]);
    fixture.accept(sample::decide(&approval, first)).await;
    let second = Verdict::Each(vec![no.clone(), yes, no]);
    let denied = fixture.accept(member("bob", &approval, second)).await;
    assert_eq!(denied.state, State::Denied);
    assert_eq!(
        denied.decision.as_ref().map(|decided| decided.approved),
        Some(false)
    );
}

pub async fn quorum_is_bound_to_the_card_and_the_rules(fixture: Fixture) {
    let authority = Authority {
        four_eyes: true,
        quorum: 2,
        assurance: Assurance::Page,
    };
    let propose = Propose {
        on_behalf_of: Some(sample::person("maria")),
        ..asking(1, authority)
    };
    let approval = fixture.propose(propose).await;
    fixture.accept(sample::approve(&approval)).await;
    let mut stale = member("bob", &approval, Verdict::Approve);
    stale.decision.digest = Some(crate::hash::Hash::of(b"another card"));
    assert_eq!(code(&fixture, stale).await, Some("stale"));
    let mut weak = member("bob", &approval, Verdict::Approve);
    weak.decision.decider.surface = Surface::Button;
    assert_eq!(code(&fixture, weak).await, Some("surface_too_weak"));
    let own = member("maria", &approval, Verdict::Approve);
    assert_eq!(code(&fixture, own).await, Some("four_eyes"));
    let stranger = sample::decide_as("mallory", &approval, Verdict::Approve);
    assert_eq!(code(&fixture, stranger).await, Some("not_allowed"));
    let edit = Verdict::Each(vec![Choice::Edit(sample::arguments("{\"new\":1}"))]);
    assert_eq!(
        code(&fixture, member("bob", &approval, edit)).await,
        Some("edit_not_alone")
    );
    assert_eq!(fixture.get(&approval).await.missing(), 1);
    fixture.advance(sample::TTL);
    let late = member("bob", &approval, Verdict::Approve);
    assert_eq!(code(&fixture, late).await, Some("expired"));
}

pub async fn quorum_survives_a_restart(fixture: Fixture) {
    let approval = fixture.propose(asking(1, people(2))).await;
    let endorsed = fixture.accept(sample::approve(&approval)).await;
    let Some(fixture) = fixture.restarted().await else {
        return;
    };
    assert_eq!(fixture.get(&approval).await, endorsed);
    assert_eq!(
        code(&fixture, sample::approve(&approval)).await,
        Some("already_endorsed")
    );
    let approved = fixture.accept(member("bob", &approval, Verdict::Approve)).await;
    assert_eq!(approved.state, State::Approved);
}

/// Tries every surface against every required minimum.
pub async fn h08_a_weaker_surface_cannot_approve(fixture: Fixture) {
    let mut n = 0;
    for (asked, least) in Assurance::ALL.into_iter().enumerate() {
        for on in Surface::ALL {
            let came = Assurance::ALL
                .into_iter()
                .take_while(|level| *level != on.assurance())
                .count();
            n += 1;
            let authority = Authority {
                assurance: least,
                ..Authority::default()
            };
            let approval = fixture.propose(asking(n, authority)).await;
            let mut approve = sample::approve(&approval);
            approve.decision.decider.surface = on;
            let answer = fixture.decide(approve).await;
            let id = approval.id;
            let expected = (came < asked).then_some(Refusal::SurfaceTooWeak { id, on, least });
            assert_eq!(answer.refusal, expected, "{on:?} where {least:?} is asked for");
        }
    }
}

pub async fn x49_a_denial_counts_from_anywhere(fixture: Fixture) {
    let authority = Authority {
        assurance: Assurance::Passkey,
        ..Authority::default()
    };
    let approval = fixture.propose(asking(1, authority)).await;
    let mut deny = sample::deny(&approval);
    deny.decision.decider.surface = Surface::Text;
    assert_eq!(fixture.accept(deny).await.state, State::Denied);
}

pub async fn x04_who_is_not_listed_learns_nothing_of_four_eyes(fixture: Fixture) {
    let propose = Propose {
        requester: sample::person("mallory"),
        ..asking(1, four_eyes())
    };
    let approval = fixture.propose(propose).await;
    let decide = sample::decide_as("mallory", &approval, Verdict::Approve);
    assert_eq!(code(&fixture, decide).await, Some("not_allowed"));
}
