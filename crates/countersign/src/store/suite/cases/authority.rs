//! What approving takes beyond being on the list: other eyes, more people, a better surface.

use crate::approval::SharedApproval;
use crate::command::{Decide, Propose};
use crate::decision::{Choice, Refusal, Surface, Verdict};
use crate::policy::Authority;
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

/// Somebody of the group that may decide.
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
    // The person counts, whatever credential they come with: who proposed, and whom the agent acts for.
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
    // Nor where only the edited call asks for it.
    let approval = fixture.propose(sample::propose(2)).await;
    let mut decide = sample::decide(&approval, edit);
    decide.revisions[0].terms = std::sync::Arc::new(sample::terms_asking(four_eyes()));
    assert_eq!(code(&fixture, decide).await, Some("edit_not_alone"));
    assert_eq!(fixture.get(&approval).await.calls[0].revision, 1);
}

/// Every pair of a surface and the least one asked for.
pub async fn h08_a_weaker_surface_cannot_approve(fixture: Fixture) {
    let surfaces = [
        Surface::Text,
        Surface::Button,
        Surface::Api,
        Surface::CommandLine,
        Surface::Page,
        Surface::Passkey,
    ];
    let mut n = 0;
    for (asked, least) in surfaces.into_iter().enumerate() {
        for (came, on) in surfaces.into_iter().enumerate() {
            n += 1;
            let authority = Authority {
                surface: least,
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
        surface: Surface::Passkey,
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
