//! Erasure, purging, and voiding after a restore.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::approval::{Approval, SharedApproval};
use crate::call::RefusalReason;
use crate::command::{
    Answer, Command, Decide, ERASED, Erase, Erasure, Propose, ProposeRefusal, Voided, denial_key,
};
use crate::decision::{Choice, Verdict};
use crate::executor::Outcome;
use crate::hash::Hash;
use crate::id::Actor;
use crate::policy::Authority;
use crate::registry::Kind;
use crate::state::{CallState, State};
use crate::store::suite::{Fixture, sample};
use crate::store::{Filter, Purge, Purged};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn erase(approval: &SharedApproval) -> Erase {
    Erase {
        tenant: approval.tenant.clone(),
        approval: approval.id,
        before: approval.changed_at.plus(Duration::from_micros(1)),
        by: Actor::Gate,
        policy: sample::policy(),
    }
}

async fn erased(fixture: &Fixture, erase: Erase) -> Erasure {
    match fixture.write(Command::Erase(erase)).await {
        Answer::Erase(erasure) => erasure,
        other => panic!("not the answer to an erasure: {other:?}"),
    }
}

/// Creates a finished approval with text in every field that can hold some.
async fn talkative(fixture: &Fixture, n: u64) -> SharedApproval {
    let mut call = sample::call("{\"secret\":\"canary\"}");
    let mut terms = sample::terms_asking(Authority {
        quorum: 2,
        ..Authority::default()
    });
    (terms.summary, terms.notes) = ("canary".to_owned(), vec!["canary".to_owned()]);
    call.terms = Arc::new(terms);
    let propose = Propose {
        claim: Some("canary".to_owned()),
        calls: vec![call],
        ..sample::propose(n)
    };
    let approval = fixture.propose(propose).await;
    for name in ["alice", "bob"] {
        let mut decide = sample::decide_as(name, &approval, Verdict::Approve);
        decide.decision.decider.groups = vec!["ops".to_owned()];
        decide.decision.comment = Some("canary".to_owned());
        decide.decision.claimed_by = Some("canary".to_owned());
        fixture.accept(decide).await;
    }
    fixture.start(sample::start(&approval, 1, 1)).await.unwrap();
    let done = sample::finish(&approval, 1, 1, Outcome::succeeded("canary"));
    fixture.finish(done).await.unwrap().approval
}

pub async fn h21_erasing_leaves_what_happened_and_nothing_that_was_said(fixture: Fixture) {
    let before = talkative(&fixture, 1).await;
    fixture.advance(DAY);
    assert_eq!(erased(&fixture, erase(&before)).await, Erasure::Done);
    let after = fixture.get(&before).await;
    assert_eq!(after.calls[0].arguments.as_bytes(), b"");
    assert_eq!(after.calls[0].result, None);
    assert_eq!(after.calls[0].terms.summary, ERASED);
    let bodies = crate::store::record::Bodies::of(&after);
    let holds = |bytes: &[u8]| bytes.windows(6).any(|bytes| bytes == b"canary");
    assert!(!holds(&bodies.approval) && !holds(&bodies.calls[0]));
    for event in fixture.events(&before).await {
        assert!(!holds(event.text().as_bytes()), "{}", event.text());
    }
    // People, times, states and digests are kept.
    assert_eq!(
        (after.state, after.digest, after.calls[0].digest),
        (before.state, before.digest, before.calls[0].digest)
    );
    assert_eq!(after.endorsements[0].by, before.endorsements[0].by);
    assert_eq!(after.erased_at, Some(after.changed_at));
    assert_eq!(
        fixture.words(&before).await.last().copied(),
        Some("erased"),
        "the history says so"
    );
    fixture.check(&after.tenant, after.id).await;
    assert_eq!(erased(&fixture, erase(&after)).await, Erasure::Already);
    assert_eq!(fixture.get(&before).await, after);
}

pub async fn h21_what_is_open_or_young_is_not_erased(fixture: Fixture) {
    let pending = fixture.propose(sample::propose(1)).await;
    let released = fixture.approved(sample::propose(2)).await;
    let running = fixture.running(sample::propose(3)).await;
    for approval in [&pending, &released, &running] {
        assert_eq!(erased(&fixture, erase(approval)).await, Erasure::NotYet);
    }
    let denied = fixture.propose(sample::propose(4)).await;
    let denied = fixture.accept(sample::deny(&denied)).await;
    let young = Erase {
        before: denied.changed_at,
        ..erase(&denied)
    };
    assert_eq!(erased(&fixture, young).await, Erasure::NotYet);
    let foreign = Erase {
        tenant: sample::tenant_named("mallory"),
        ..erase(&denied)
    };
    assert_eq!(erased(&fixture, foreign).await, Erasure::NotFound);
    for approval in [&pending, &released, &running, &denied] {
        assert_eq!(fixture.get(approval).await, *approval, "untouched");
    }
}

pub async fn h21_an_edited_approval_still_verifies_when_erased(fixture: Fixture) {
    let approval = fixture.propose(sample::batch(1, 2)).await;
    let edit = Choice::Edit(sample::arguments("{\"secret\":\"canary\"}"));
    let verdict = Verdict::Each(vec![edit, Choice::Deny]);
    fixture.accept(sample::decide(&approval, verdict)).await;
    fixture.start(sample::start(&approval, 1, 1)).await.unwrap();
    let lost = sample::finish(&approval, 1, 1, Outcome::Unknown("?".to_owned()));
    let lost = fixture.finish(lost).await.unwrap().approval;
    assert_eq!(erased(&fixture, erase(&lost)).await, Erasure::Done);
    assert_eq!(fixture.get(&approval).await.calls[0].original, None);
    // An unknown outcome can still be reconciled.
    fixture
        .reconcile(sample::reconcile(&approval, 1, true))
        .await
        .unwrap();
}

pub async fn h21_a_purge_goes_through_what_is_old(fixture: Fixture) {
    for n in 1..=7 {
        let approval = fixture.propose(sample::propose(n)).await;
        match n {
            3 => {}
            _ => _ = fixture.accept(sample::deny(&approval)).await,
        }
    }
    fixture.advance(DAY);
    let before = fixture.store.now().await.unwrap();
    for n in 8..=9 {
        let approval = fixture.propose(sample::propose(n)).await;
        fixture.accept(sample::deny(&approval)).await;
    }
    let mut purge = Purge {
        tenant: sample::tenant(),
        before,
        after: None,
        limit: 4,
        by: Actor::Gate,
        policy: sample::policy(),
        dry_run: false,
    };
    let counted = Purge {
        limit: 500,
        dry_run: true,
        ..purge.clone()
    };
    assert_eq!(fixture.store.purge(&counted).await.unwrap().erased, 6);
    let (mut total, mut pages) = (0, 0);
    loop {
        let purged = fixture.store.purge(&purge).await.unwrap();
        (total, pages) = (total + purged.erased, pages + 1);
        let Some(next) = purged.next else { break };
        purge.after = Some(next);
    }
    // Number 3 is not erased: it has expired, but no sweep has recorded the expiry.
    assert_eq!(total, 6);
    assert!(pages >= 2, "{pages}");
    let all = fixture
        .store
        .list(&sample::tenant(), &Filter::default())
        .await
        .unwrap();
    for approval in &all {
        fixture.check(&approval.tenant, approval.id).await;
    }
    let gone = all.iter().filter(|approval| approval.erased_at.is_some());
    assert_eq!(gone.count(), 6);
    purge.after = None;
    purge.limit = 500;
    let again = fixture.store.purge(&purge).await.unwrap();
    let expected = Purged {
        erased: 0,
        already: 6,
        next: None,
    };
    assert_eq!(again, expected);
}

pub async fn x33_after_a_restore_nothing_that_was_open_goes_on(fixture: Fixture) {
    let pending = fixture.propose(sample::propose_in(1, "c")).await;
    let endorsed = Propose {
        calls: vec![sample::call_under(
            "{}",
            sample::terms_asking(Authority {
                quorum: 2,
                ..Authority::default()
            }),
        )],
        ..sample::propose(2)
    };
    let endorsed = fixture.propose(endorsed).await;
    fixture.accept(sample::approve(&endorsed)).await;
    let released = fixture.approved(sample::batch(3, 2)).await;
    let running = fixture.running(sample::batch(4, 2)).await;
    let denied = fixture.propose(sample::propose(5)).await;
    let denied = fixture.accept(sample::deny(&denied)).await;
    for kind in Kind::ALL {
        let entry = sample::entry(kind, "k");
        fixture.store.put_entry(entry).await.unwrap();
    }
    let voided = fixture.store.void_open(sample::policy()).await.unwrap();
    let expected = Voided {
        pending: 2,
        released: 3,
        running: 1,
        more: false,
    };
    assert_eq!(voided, expected);
    for approval in [&pending, &endorsed, &released, &running, &denied] {
        let approval = fixture.get(approval).await;
        assert!(approval.is_finished());
        fixture.check(&approval.tenant, approval.id).await;
    }
    assert_eq!(fixture.get(&pending).await.state, State::Withdrawn);
    let answer = fixture.decide(sample::approve(&pending)).await;
    assert_eq!(answer.refusal.unwrap().code(), "withdrawn");
    for call in &fixture.get(&released).await.calls {
        assert_eq!(
            (call.state, call.because.clone()),
            (CallState::Refused, Some(RefusalReason::Voided))
        );
    }
    assert!(fixture.start(sample::start(&released, 1, 1)).await.is_err());
    // The running call may have had its effect: it is unknown, its permit no longer counts, and only a person can
    // reconcile it.
    let calls = &fixture.get(&running).await.calls;
    assert_eq!(
        (calls[0].state, calls[1].state),
        (CallState::Unknown, CallState::Refused)
    );
    let late = sample::finish(&running, 1, 1, Outcome::succeeded("{}"));
    assert!(fixture.finish(late).await.is_err());
    fixture
        .reconcile(sample::reconcile(&running, 1, true))
        .await
        .unwrap();
    assert_eq!(
        fixture.get(&denied).await,
        denied,
        "what was over stays as it was"
    );
    // The channel is free again, and everybody has to sign in again.
    fixture.propose(sample::propose_in(6, "c")).await;
    for kind in Kind::ALL {
        let stays = matches!(
            kind,
            Kind::Person
                | Kind::Setting
                | Kind::Denial
                | Kind::Channel
                | Kind::Turn
                | Kind::Owner
                | Kind::Node
        );
        let found = fixture.store.entry(kind, "k").await.unwrap();
        assert_eq!(found.is_some(), stays, "{kind}");
    }
}

pub async fn x33_voiding_goes_on_until_nothing_is_left(fixture: Fixture) {
    for n in 1..=7 {
        fixture.propose(sample::propose(n)).await;
    }
    let mut pending = Vec::new();
    loop {
        let void = crate::command::Void {
            limit: 3,
            policy: sample::policy(),
            changed_after: None,
        };
        let Answer::Void(voided) = fixture.write(Command::Void(void)).await else {
            panic!("not the answer to a void");
        };
        pending.push(voided.pending);
        if !voided.more {
            break;
        }
    }
    assert_eq!(pending, [3, 3, 1]);
}

/// X92: after the clock was set back, only approvals changed by the wrong clock are voided.
pub async fn x92_only_what_a_wrong_clock_changed_is_voided(fixture: Fixture) {
    let before = fixture.propose(sample::propose(1)).await;
    let reset_at = before.changed_at;
    let token = crate::registry::Entry {
        kind: crate::registry::Kind::Token,
        key: "t".to_owned(),
        tenant: sample::tenant(),
        body: std::sync::Arc::from(&b"{}"[..]),
        version: 0,
        expires_at: None,
    };
    fixture.store.put_entry(token).await.unwrap();
    fixture.advance(std::time::Duration::from_secs(1));
    let pending = fixture.propose(sample::propose(2)).await;
    let running = fixture.running(sample::propose(3)).await;
    let void = crate::command::Void {
        limit: 100,
        policy: sample::policy(),
        changed_after: Some(reset_at),
    };
    let Answer::Void(voided) = fixture.write(Command::Void(void)).await else {
        panic!("not the answer to a void");
    };
    assert_eq!((voided.pending, voided.released, voided.running), (1, 0, 1));
    assert_eq!(fixture.get(&before).await.state, crate::state::State::Pending);
    assert_eq!(fixture.get(&pending).await.state, crate::state::State::Withdrawn);
    assert_eq!(
        fixture.get(&running).await.calls[0].state,
        crate::state::CallState::Unknown
    );
    let kept = fixture.store.entry(crate::registry::Kind::Token, "t").await;
    assert!(kept.unwrap().is_some(), "credentials stay");
}

const PIN: &str = "7291";

/// Returns arguments with a PIN that an attacker might try to guess.
fn with_pin(pin: &str) -> String {
    format!("{{\"pin\":\"{pin}\"}}")
}

/// Collects everything left of an approval: its rows, its history and the registry's denials.
async fn left_of(fixture: &Fixture, approval: &SharedApproval) -> (SharedApproval, Vec<u8>) {
    let after = fixture.get(approval).await;
    let bodies = crate::store::record::Bodies::of(&after);
    let mut left = bodies.approval;
    left.extend(bodies.calls.into_iter().flatten());
    for event in fixture.events(approval).await {
        left.extend_from_slice(event.text().as_bytes());
        left.extend_from_slice(&event.link.0);
    }
    let denials = fixture
        .store
        .entries(&after.tenant, Kind::Denial, None, 100)
        .await
        .unwrap();
    for entry in denials {
        left.extend_from_slice(entry.key.as_bytes());
        left.extend_from_slice(&entry.body);
    }
    (after, left)
}

/// Returns every hash that this program computes of content, for one guess and with whatever salt is left.
fn hashes(guess: &str, after: &SharedApproval) -> Vec<Hash> {
    let arguments = with_pin(guess);
    let mut copy = Approval::clone(after);
    for call in &mut copy.calls {
        call.arguments = sample::arguments(&arguments);
        if let Some(before) = &mut call.before {
            *before = Arc::new(sample::snapshot(&arguments));
        }
    }
    let mut found: Vec<Hash> = copy
        .numbered()
        .map(|(position, call)| call.digest_in(&copy, position))
        .collect();
    for call in &copy.calls {
        let tool = call.tool.as_str();
        found.push(denial_key(&copy.tenant, &copy.agent, tool, arguments.as_bytes()));
    }
    found.push(sample::snapshot(&arguments).hash);
    for text in [guess, arguments.as_str()] {
        found.push(Hash::of(text.as_bytes()));
        found.push(copy.hash_of_result(text.as_bytes()));
        found.push(sample::key("k", text).1);
    }
    found
}

/// Returns the PIN that can be confirmed with a hash in `left`, raw or in hex; `None` if none can.
fn confirmed(left: &[u8], after: &SharedApproval) -> Option<String> {
    let raw: HashSet<&[u8]> = left.windows(32).collect();
    let hex: HashSet<&[u8]> = left.windows(64).collect();
    let is_there = |hash: &Hash| raw.contains(hash.0.as_slice()) || hex.contains(hash.to_string().as_bytes());
    let guesses = (0..10_000).map(|number| format!("{number:04}"));
    let mut guesses = guesses.filter(|guess| hashes(guess, after).iter().any(is_there));
    guesses.next()
}

pub async fn x83_after_an_erasure_nothing_left_confirms_a_guess(fixture: Fixture) {
    let pin = with_pin(PIN);
    let cooling = |decide: Decide| Decide {
        cool_down: Some(DAY * 30),
        ..decide
    };
    let propose = |n: u64| Propose {
        claim: Some(PIN.to_owned()),
        key: Some(sample::key(&format!("k{n}"), &pin)),
        calls: vec![sample::call(&pin)],
        ..sample::propose(n)
    };
    // One call that ran, one that was denied, and one with a snapshot.
    let ran = fixture.propose(propose(1)).await;
    let mut approve = sample::keyed(sample::approve(&ran), "d", &pin);
    approve.decision.comment = Some(PIN.to_owned());
    fixture.accept(approve).await;
    fixture.start(sample::start(&ran, 1, 1)).await.unwrap();
    let done = sample::finish(&ran, 1, 1, Outcome::succeeded(PIN));
    let ran = fixture.finish(done).await.unwrap().approval;
    let denied = fixture.propose(propose(2)).await;
    let denied = fixture.accept(cooling(sample::deny(&denied))).await;
    let over = Propose {
        calls: vec![sample::call_over("{}", &pin)],
        ..propose(3)
    };
    let over = fixture.propose(over).await;
    let over = fixture.accept(cooling(sample::deny(&over))).await;
    // Denied as a batch, and in part: the PIN's hash is in the body of one entry and in the key of another.
    let several = |n: u64| Propose {
        calls: vec![sample::call("{}"), sample::call(&pin), sample::call("{\"a\":1}")],
        ..propose(n)
    };
    let batch = fixture.propose(several(4)).await;
    let batch = fixture.accept(cooling(sample::deny(&batch))).await;
    let part = fixture.propose(several(5)).await;
    let mut left_out = sample::approve(&part);
    left_out.decision.verdict = Verdict::Each(vec![Choice::Approve, Choice::Deny, Choice::Deny]);
    fixture.accept(cooling(left_out)).await;
    fixture.start(sample::start(&part, 1, 1)).await.unwrap();
    let done = sample::finish(&part, 1, 1, Outcome::succeeded(PIN));
    let part = fixture.finish(done).await.unwrap().approval;
    let all = [&ran, &denied, &over, &batch, &part];
    for approval in all {
        let (now, left) = left_of(&fixture, approval).await;
        assert_eq!(
            confirmed(&left, &now).as_deref(),
            Some(PIN),
            "the attack works before"
        );
    }
    fixture.advance(DAY);
    for approval in all {
        assert_eq!(erased(&fixture, erase(approval)).await, Erasure::Done);
        fixture.check(&approval.tenant, approval.id).await;
    }
    for approval in all {
        let (after, left) = left_of(&fixture, approval).await;
        assert_eq!(after.salt, [0; 16]);
        assert_eq!(confirmed(&left, &after), None, "{after:?}");
        // Searches for the whole arguments, because four digits alone may occur in any hash.
        assert!(!left.windows(pin.len()).any(|bytes| bytes == pin.as_bytes()));
    }
}

pub async fn x83_after_an_erasure_nothing_tells_how_long_a_result_was(fixture: Fixture) {
    let long = "x".repeat(5_000);
    let mut lengths = Vec::new();
    for (n, outcome) in [
        (1, Outcome::succeeded("1234")),
        (2, Outcome::succeeded(long.as_str())),
        (3, Outcome::failed("1234")),
        (4, Outcome::failed(long.as_str())),
    ] {
        let approval = fixture.propose(sample::propose(n)).await;
        fixture.accept(sample::approve(&approval)).await;
        fixture.start(sample::start(&approval, 1, 1)).await.unwrap();
        let done = sample::finish(&approval, 1, 1, outcome);
        let done = fixture.finish(done).await.unwrap().approval;
        fixture.advance(DAY);
        assert_eq!(erased(&fixture, erase(&done)).await, Erasure::Done);
        let (_, left) = left_of(&fixture, &done).await;
        assert!(!String::from_utf8_lossy(&left).contains("bytes"));
        lengths.push(left.len());
    }
    assert_eq!((lengths[0], lengths[2]), (lengths[1], lengths[3]), "{lengths:?}");
}

pub async fn x83_an_erased_keys_retry_gets_no_answer(fixture: Fixture) {
    let keyed = |n: u64| Propose {
        key: Some(sample::key("k", "body")),
        ..sample::propose(n)
    };
    let denied = fixture.propose(keyed(1)).await;
    let denied = fixture.accept(sample::deny(&denied)).await;
    fixture.advance(DAY);
    assert_eq!(erased(&fixture, erase(&denied)).await, Erasure::Done);
    // Whether the request is the same cannot be checked any more, so the retry is refused.
    let refused = fixture.try_propose(keyed(2)).await.err();
    assert!(
        matches!(refused, Some(ProposeRefusal::KeyReused(_))),
        "{refused:?}"
    );
}
