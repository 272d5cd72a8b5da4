use std::sync::Arc;

use super::*;
use crate::approval::Approval;
use crate::call::Arguments;
use crate::decision::{Choice, Verdict};
use crate::executor::Outcome;
use crate::state::{CallState, State};
use crate::store::memory::MemoryStore;
use crate::store::suite::{Fixture, sample};

async fn fixture() -> Fixture {
    let clock = Fixture::clock();
    Fixture::new(Arc::new(MemoryStore::with_clock(clock.clone())), clock)
}

/// Creates an approval with nearly every kind of event in its history.
async fn eventful() -> (Approval, Vec<Event>) {
    let fixture = fixture().await;
    let approval = fixture.propose(sample::batch(1, 3)).await;
    let stranger = sample::decide_as("mallory", &approval, Verdict::Approve);
    fixture.decide(stranger).await.accepted().unwrap_err();
    let edit = Choice::Edit(sample::arguments("{}"));
    let verdict = Verdict::Each(vec![Choice::Approve, Choice::Deny, edit]);
    fixture.accept(sample::decide(&approval, verdict)).await;
    for (position, outcome) in [
        (1, Outcome::succeeded("{}")),
        (3, Outcome::Unknown("?".to_owned())),
    ] {
        fixture
            .start(sample::start(&approval, position, 1))
            .await
            .unwrap();
        fixture.advance(std::time::Duration::from_secs(1));
        let finish = sample::finish(&approval, position, 1, outcome);
        fixture.finish(finish).await.unwrap();
    }
    fixture
        .reconcile(sample::reconcile(&approval, 3, false))
        .await
        .unwrap();
    let stored = fixture.get(&approval).await;
    (Approval::clone(&stored), fixture.events(&approval).await)
}

/// Recomputes all links, as an attacker with write access would do.
fn relinked(approval: &Approval, events: &[Event]) -> Vec<Event> {
    let mut before = first_link(&approval.tenant, approval.id);
    let mut forged = Vec::new();
    for (number, event) in (1..).zip(events) {
        let Event {
            at,
            policy,
            by,
            text,
            content,
            ..
        } = event.clone();
        let link = link(before, number, at, policy, &by, &text, content);
        forged.push(Event::stored(number, at, policy, by, text, link, content).unwrap());
        before = link;
    }
    forged
}

#[tokio::test]
async fn i16_an_honest_history_is_found_true() {
    let (approval, events) = eventful().await;
    assert_eq!(events.len(), 8);
    assert_eq!(verify(&approval, &events), Ok(()));
    assert_eq!(relinked(&approval, &events), events);
    // Reading the stored text back gives the same event.
    for event in &events {
        let Event {
            number,
            at,
            policy,
            by,
            text,
            link,
            content,
            ..
        } = event.clone();
        assert_eq!(
            Event::stored(number, at, policy, by, text, link, content)
                .as_ref()
                .ok(),
            Some(event)
        );
    }
}

#[tokio::test]
async fn i16_a_changed_event_is_found() {
    type Change = fn(&mut Event);
    let changes: [(&str, Change); 6] = [
        ("number", |event| event.number += 1),
        ("time", |event| {
            event.at = Time::from_micros(event.at.as_micros() + 1)
        }),
        ("policy", |event| event.policy = Hash([0; 32])),
        ("actor", |event| {
            event.by = Actor::Agent(crate::id::Agent::new("x").unwrap())
        }),
        ("text", |event| event.text = event.text.replace('}', " }")),
        ("link", |event| event.link = Hash([0; 32])),
    ];
    let (approval, events) = eventful().await;
    for index in 0..events.len() {
        for (what, change) in changes {
            let mut forged = events.clone();
            change(&mut forged[index]);
            let found = Replay::fold(&approval.tenant, approval.id, &forged);
            assert!(found.is_err(), "{what} of event {}", index + 1);
        }
    }
}

#[tokio::test]
async fn i16_a_removed_or_moved_event_is_found() {
    let (approval, events) = eventful().await;
    let fold = |events: &[Event]| Replay::fold(&approval.tenant, approval.id, events);
    for index in 0..events.len() - 1 {
        let mut removed = events.clone();
        removed.remove(index);
        assert!(fold(&removed).is_err(), "without event {}", index + 1);
        let mut moved = events.clone();
        moved.swap(index, index + 1);
        assert!(fold(&moved).is_err(), "event {} and the next", index + 1);
        let mut repeated = events.clone();
        repeated.insert(index, events[index].clone());
        assert!(fold(&repeated).is_err(), "event {} twice", index + 1);
    }
    assert_eq!(fold(&[]), Err(BrokenHistory::NoBeginning));
    // A history does not fit another approval.
    let other = sample::id(2);
    let found = Replay::fold(&approval.tenant, other, &events);
    assert_eq!(found, Err(BrokenHistory::BrokenLink(1)));
    let tenant = sample::tenant_named("b");
    assert!(Replay::fold(&tenant, approval.id, &events).is_err());
}

#[tokio::test]
async fn i16_a_cut_tail_is_found_by_the_approval() {
    let (approval, events) = eventful().await;
    for length in 1..events.len() {
        let cut = &events[..length];
        assert!(
            Replay::fold(&approval.tenant, approval.id, cut).is_ok(),
            "a tail leaves no gap"
        );
        let (found, history) = (approval.version, length);
        let expected = BrokenHistory::OtherLength {
            approval: found,
            history,
        };
        assert_eq!(verify(&approval, cut), Err(expected));
    }
}

#[tokio::test]
async fn i16_a_forged_chain_is_found_by_the_approval() {
    let (approval, events) = eventful().await;
    for index in 0..events.len() {
        let mut forged = events.clone();
        forged[index].policy = Hash([9; 32]);
        let forged = relinked(&approval, &forged);
        assert!(
            Replay::fold(&approval.tenant, approval.id, &forged).is_ok(),
            "the chain fits"
        );
        let expected = Err(BrokenHistory::OtherContent("link"));
        assert_eq!(verify(&approval, &forged), expected, "event {}", index + 1);
    }
}

#[tokio::test]
async fn i16_a_changed_row_is_found() {
    type Change = fn(&mut Approval);
    let changes: [(&str, Change); 12] = [
        ("version", |approval| approval.version += 1),
        ("link", |approval| approval.link = Hash([0; 32])),
        ("state", |approval| approval.state = State::Denied),
        ("ended", |approval| approval.ended_at = None),
        ("changed", |approval| approval.changed_at = sample::BEGINNING),
        ("expiry", |approval| {
            approval.expires_at = approval.expires_at.plus(sample::TTL)
        }),
        ("digest", |approval| approval.digest = Hash([0; 32])),
        ("undoes", |approval| {
            approval.undoes = Some(sample::call_id(&approval.clone(), 1).into())
        }),
        ("call state", |approval| {
            approval.calls[1].state = CallState::Released
        }),
        ("bytes", |approval| {
            approval.calls[0].arguments = Arguments::stored(&b"{}"[..])
        }),
        ("requester", |approval| approval.requester = sample::person("x")),
        ("a call less", |approval| _ = approval.calls.pop()),
    ];
    let (approval, events) = eventful().await;
    for (what, change) in changes {
        let mut forged = approval.clone();
        change(&mut forged);
        assert!(verify(&forged, &events).is_err(), "{what}");
    }
    // A change is found even if the digest is recomputed for the new bytes.
    for position in [1, 3] {
        let mut forged = approval.clone();
        forged.call_mut(position).unwrap().arguments = Arguments::stored(&br#"{"all":true}"#[..]);
        let digest = forged.call(position).unwrap().digest_in(&forged, position);
        forged.call_mut(position).unwrap().digest = digest;
        assert!(verify(&forged, &events).is_err(), "call {position}");
    }
}

/// Replays any events after linking them correctly.
fn history(whats: Vec<(i64, EventKind)>) -> Result<Replay, BrokenHistory> {
    let (tenant, id) = (sample::tenant(), sample::id(1));
    let mut before = first_link(&tenant, id);
    let mut events = Vec::new();
    for (number, (at, what)) in (1..).zip(whats) {
        let event = Event::new(
            before,
            number,
            Time::from_micros(at),
            Hash([0; 32]),
            Actor::Gate,
            what,
        );
        before = event.link;
        events.push(event);
    }
    Replay::fold(&tenant, id, &events)
}

#[test]
fn i4_what_cannot_have_happened_is_found() {
    let proposed = || EventKind::Proposed {
        calls: 1,
        expires_at: Time::from_micros(9),
        digest: Hash([0; 32]),
        replaces: None,
        undoes: None,
    };
    let started = |call| EventKind::Started {
        call,
        deadline: Time::from_micros(9),
    };
    assert!(history(vec![(1, proposed()), (1, EventKind::Expired)]).is_ok());
    let again = history(vec![(1, proposed()), (1, proposed())]);
    assert_eq!(again, Err(BrokenHistory::SecondBeginning(2)));
    let back = history(vec![(2, proposed()), (1, EventKind::Expired)]);
    assert_eq!(back, Err(BrokenHistory::TimeWentBack(2)));
    let unapproved = history(vec![(1, proposed()), (1, started(1))]);
    assert!(matches!(unapproved, Err(BrokenHistory::Illegal(2, _))));
    for call in [0, 2, 255] {
        let nobody = history(vec![(1, proposed()), (1, started(call))]);
        assert_eq!(nobody, Err(BrokenHistory::NoSuchCall(2, call)));
    }
    assert_eq!(
        history(vec![(1, EventKind::Expired)]),
        Err(BrokenHistory::NoBeginning)
    );
}

/// Checks links that were computed independently of this code. They serve as test vectors for other verifiers.
#[tokio::test]
async fn i16_links_are_what_they_always_were() {
    let fixture = fixture().await;
    let approval = fixture.propose(sample::batch(1, 2)).await;
    assert_eq!(
        first_link(&approval.tenant, approval.id).to_string(),
        "1c29c4a83ad912c69afa36c926f98ac75cb3ff66abde81ce78473b941f234aae"
    );
    let events = fixture.events(&approval).await;
    assert_eq!(
        events[0].text(),
        concat!(
            r#"{"what":"proposed","calls":2,"expiresAt":1767225900000000,"#,
            r#""digest":"35de6385f7a089e269d087549a05044043e589c004fb553fb688aa3b70450453"}"#
        )
    );
    // Link format before version 0.2.0, without a content hash.
    let Event {
        number,
        at,
        policy,
        by,
        text,
        ..
    } = events[0].clone();
    let before = first_link(&approval.tenant, approval.id);
    assert_eq!(
        link(before, number, at, policy, &by, &text, None).to_string(),
        "4a824070f788f141be2191fe02bb171b4418c31e592e5ce42fed2baf79af8d76"
    );
    let (before, at, policy) = (Hash([1; 32]), Time::from_micros(3), Hash([4; 32]));
    let content = Some(ContentHash([7; 16]));
    assert_eq!(
        link(before, 2, at, policy, &Actor::Gate, "{}", content).to_string(),
        "b7a06af912460714f20fbb6ab67ab88e2db94e8a38d2ec809c45c3c5e26af15d"
    );
}

#[tokio::test]
async fn i16_an_endorsement_that_was_added_moved_or_removed_is_found() {
    let fixture = fixture().await;
    let authority = crate::policy::Authority {
        quorum: 2,
        ..crate::policy::Authority::default()
    };
    let mut propose = sample::propose(1);
    propose.calls = vec![sample::call_under("{}", sample::terms_asking(authority))];
    let approval = fixture.propose(propose).await;
    fixture.accept(sample::approve(&approval)).await;
    let mut second = sample::decide_as("bob", &approval, Verdict::Approve);
    second.decision.decider.groups = vec!["ops".to_owned()];
    fixture.accept(second).await;
    let honest = Approval::clone(&*fixture.get(&approval).await);
    let events = fixture.events(&approval).await;
    assert_eq!(verify(&honest, &events), Ok(()));
    type Change = fn(&mut Approval);
    let changes: [(&str, Change); 5] = [
        ("endorsements", |approval| approval.endorsements.clear()),
        ("endorsements", |approval| {
            approval.endorsements[0].by = sample::person("carol");
        }),
        ("endorsements", |approval| {
            approval.endorsements[0].calls = Some(Vec::new());
        }),
        ("endorsements", |approval| {
            let again = approval.endorsements[0].clone();
            approval.endorsements.push(again);
        }),
        ("quorum", |approval| {
            let mut terms = (*approval.calls[0].terms).clone();
            let quorum = 3;
            terms.stakes = sample::terms_asking(crate::policy::Authority {
                quorum,
                ..Default::default()
            })
            .stakes;
            approval.calls[0].terms = Arc::new(terms);
        }),
    ];
    for (what, change) in changes {
        let mut forged = honest.clone();
        change(&mut forged);
        assert_eq!(
            verify(&forged, &events),
            Err(BrokenHistory::OtherContent(what)),
            "{what}"
        );
    }
}

/// X63: detects a forged name, a forged result, and changes that no event mentions.
#[tokio::test]
async fn x63_a_forged_name_result_or_row_is_found() {
    use crate::store::record::Bodies;
    type Change = fn(&mut Approval);
    let (approval, events) = eventful().await;
    let content = |approval: &Approval| Bodies::of(approval).content(approval);
    assert_eq!(verify_rows(&approval, &events, content(&approval)), Ok(()));
    let told: [(&str, Change); 6] = [
        ("approver", |approval| {
            approval.decision.as_mut().unwrap().by = sample::person("mallory")
        }),
        ("surface", |approval| {
            approval.decision.as_mut().unwrap().surface = "api".to_owned()
        }),
        ("decision", |approval| approval.decision = None),
        ("result", |approval| {
            approval.calls[0].result = Some(b"{\"ok\":1}".as_slice().into())
        }),
        ("a note", |approval| approval.calls[2].result = None),
        ("a result of nothing", |approval| {
            approval.calls[1].result = Some(b"{}".as_slice().into())
        }),
    ];
    for (what, change) in told {
        let mut forged = approval.clone();
        change(&mut forged);
        assert!(verify(&forged, &events).is_err(), "{what}");
    }
    let untold: [(&str, Change); 8] = [
        ("comment", |approval| {
            approval.decision.as_mut().unwrap().comment = Some("x".to_owned())
        }),
        ("claim", |approval| approval.claim = Some("x".to_owned())),
        ("nonce", |approval| approval.nonce[0] ^= 1),
        ("agent", |approval| {
            approval.agent = crate::id::Agent::new("x").unwrap()
        }),
        ("start within", |approval| approval.start_within *= 2),
        ("permit", |approval| {
            approval.calls[0].execution.as_mut().unwrap().permit = Hash([0; 32])
        }),
        ("summary", |approval| {
            Arc::make_mut(&mut approval.calls[0].terms).summary.push('!')
        }),
        ("tool", |approval| {
            approval.calls[1].original = Some(Arguments::stored(&b"{}"[..]))
        }),
    ];
    for (what, change) in untold {
        let mut forged = approval.clone();
        change(&mut forged);
        let found = verify_rows(&forged, &events, content(&forged));
        assert!(found.is_err(), "{what}");
    }
    // The stored row has no content hash, although the events have one.
    assert!(verify_rows(&approval, &events, None).is_err());
}
