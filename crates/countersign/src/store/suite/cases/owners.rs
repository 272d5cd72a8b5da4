//! Channel owners: a channel belongs to the agent that opened it. Also: evidence is counted per agent.

use std::time::Duration;

use crate::command::{Answer, Attempt, Command, OWNED_FOR, Propose, ProposeRefusal};
use crate::decision::Surface;
use crate::id::{Actor, Agent};
use crate::registry::Kind;
use crate::state::State;
use crate::store::suite::{Fixture, sample};

/// Creates a proposal by an agent in the channel `c`.
fn by(agent: &str, n: u64) -> Propose {
    Propose {
        agent: sample::agent(agent),
        ..sample::propose_in(n, "c")
    }
}

#[track_caller]
fn is_refused(answer: &Result<crate::command::Proposed, ProposeRefusal>) {
    let taken = ProposeRefusal::ChannelTaken(sample::channel("c"));
    assert_eq!(answer.as_ref().err(), Some(&taken));
}

pub async fn x70_a_channel_belongs_to_the_agent_that_opened_it(fixture: Fixture) {
    let first = fixture.propose(by("alfa", 1)).await;
    is_refused(&fixture.try_propose(by("beta", 2)).await);
    // Nothing of the refused proposal is stored, and the first card stays pending.
    assert_eq!(fixture.find(&sample::tenant(), sample::id(2)).await, None);
    assert_eq!(fixture.get(&first).await.state, State::Pending);
    assert_eq!(fixture.words(&first).await, ["proposed"]);
    // Refused also while nothing is pending in the channel, and with an idempotency key.
    fixture.accept(sample::deny(&first)).await;
    let keyed = Propose {
        key: Some(sample::key("k", "body")),
        ..by("beta", 3)
    };
    is_refused(&fixture.try_propose(keyed.clone()).await);
    is_refused(&fixture.try_propose(keyed).await);
    // The owner's cards replace each other, and other channels are free.
    let second = fixture.propose(by("alfa", 4)).await;
    let third = fixture.propose(by("alfa", 5)).await;
    assert_eq!(third.replaces, Some(second.id));
    let elsewhere = Propose {
        agent: sample::agent("beta"),
        ..sample::propose_in(6, "d")
    };
    fixture.propose(elsewhere).await;
    let of_other_tenant = Propose {
        tenant: sample::tenant_named("other"),
        ..by("beta", 7)
    };
    fixture.propose(of_other_tenant).await;
}

pub async fn x70_a_channel_keeps_its_agent_over_a_restart(fixture: Fixture) {
    let first = fixture.propose(by("alfa", 1)).await;
    fixture.accept(sample::deny(&first)).await;
    let Some(fixture) = fixture.restarted().await else {
        return;
    };
    is_refused(&fixture.try_propose(by("beta", 2)).await);
    fixture.propose(by("alfa", 3)).await;
}

pub async fn x70_a_channel_that_is_not_used_becomes_free(fixture: Fixture) {
    fixture.propose(by("alfa", 1)).await;
    fixture.advance(OWNED_FOR - Duration::from_secs(1));
    is_refused(&fixture.try_propose(by("beta", 2)).await);
    // A proposal renews the ownership.
    fixture.propose(by("alfa", 3)).await;
    fixture.advance(OWNED_FOR - Duration::from_secs(1));
    is_refused(&fixture.try_propose(by("beta", 4)).await);
    fixture.advance(Duration::from_secs(1));
    fixture.propose(by("beta", 5)).await;
    is_refused(&fixture.try_propose(by("alfa", 6)).await);
    // A refused proposal does not renew the ownership.
    fixture.advance(OWNED_FOR);
    fixture.propose(by("alfa", 7)).await;
}

pub async fn x70_a_pending_card_of_before_there_were_owners_stays(fixture: Fixture) {
    let first = fixture.propose(by("alfa", 1)).await;
    let entries = fixture
        .store
        .entries(&sample::tenant(), Kind::Owner, None, 10)
        .await
        .unwrap();
    assert_eq!(entries.len(), 1);
    fixture
        .store
        .take_entry(Kind::Owner, &entries[0].key)
        .await
        .unwrap();
    is_refused(&fixture.try_propose(by("beta", 2)).await);
    assert_eq!(fixture.get(&first).await.state, State::Pending);
    fixture.propose(by("alfa", 3)).await;
    is_refused(&fixture.try_propose(by("beta", 4)).await);
}

pub async fn x70_a_shared_channel_is_nobodys(fixture: Fixture) {
    let shared = |agent: &str, n| Propose {
        is_shared: true,
        ..by(agent, n)
    };
    let first = fixture.propose(shared("alfa", 1)).await;
    let second = fixture.propose(shared("beta", 2)).await;
    assert_eq!(fixture.get(&first).await.superseded_by, Some(second.id));
    fixture.propose(shared("alfa", 3)).await;
}

pub async fn x70_what_a_person_proposes_through_the_service_takes_no_channel(fixture: Fixture) {
    let persons = |n| Propose {
        agent: Agent::of_service("command-line").unwrap(),
        ..by("alfa", n)
    };
    fixture.propose(persons(1)).await;
    let card = fixture.propose(by("alfa", 2)).await;
    let own = fixture.propose(persons(3)).await;
    assert_eq!(fixture.get(&card).await.superseded_by, Some(own.id));
    is_refused(&fixture.try_propose(by("beta", 4)).await);
    fixture.propose(by("alfa", 5)).await;
}

pub async fn x70_two_agents_that_open_a_channel_at_once_do_not_both_get_it(fixture: Fixture) {
    let proposals = (0..8).map(|n| {
        let propose = by(["alfa", "beta"][n % 2], 1 + n as u64);
        fixture.store.write(Command::Propose(Box::new(propose)))
    });
    let answers = futures_util::future::join_all(proposals).await;
    let answers: Vec<_> = answers
        .into_iter()
        .map(|answer| match answer.unwrap() {
            Answer::Propose(answer) => answer,
            other => panic!("{other:?}"),
        })
        .collect();
    let agents: std::collections::BTreeSet<String> = answers
        .iter()
        .filter_map(|answer| Some(answer.as_ref().ok()?.approval.agent.to_string()))
        .collect();
    assert_eq!(agents.len(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 4);
}

pub async fn x70_evidence_is_kept_for_each_who_tries(fixture: Fixture) {
    let approval = fixture.propose(sample::propose(1)).await;
    let attempt = |agent: &str| Attempt {
        tenant: sample::tenant(),
        approval: approval.id,
        by: Actor::Agent(sample::agent(agent)),
        approve: true,
        surface: Surface::Api,
        policy: sample::policy(),
    };
    for _ in 0..20 {
        fixture.write(Command::Attempt(attempt("beta"))).await;
    }
    fixture.write(Command::Attempt(attempt("alfa"))).await;
    let events = fixture.events(&approval).await;
    let tries = |agent: &str| {
        let by = Actor::Agent(sample::agent(agent));
        events.iter().skip(1).filter(|event| event.by == by).count()
    };
    assert_eq!((tries("beta"), tries("alfa")), (16, 1));
    // The total amount of evidence is limited, however many try.
    for n in 0..40 {
        fixture
            .write(Command::Attempt(attempt(&format!("agent-{n}"))))
            .await;
    }
    assert_eq!(fixture.events(&approval).await.len(), 1 + 16 + 1 + 14);
    assert_eq!(fixture.get(&approval).await.tried.len(), 16);
}
