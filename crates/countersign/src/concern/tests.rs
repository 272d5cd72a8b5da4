//! Tests of each concern: cases that raise it and cases that do not.

use super::*;
use crate::approval::{Approval, SharedApproval};
use crate::command::Propose;
use crate::decision::{Choice, Verdict};
use crate::id::ToolName;
use crate::provenance::{Coverage, Provenance};
use crate::state::CallState;
use crate::store::memory::MemoryStore;
use crate::store::suite::{Fixture, sample};
use crate::undoes::Undoes;
use std::sync::Arc;

fn fixture() -> Fixture {
    let clock = Fixture::clock();
    Fixture::new(Arc::new(MemoryStore::with_clock(clock.clone())), clock)
}

fn asks(n: u64, arguments: &str) -> Propose {
    let mut propose = sample::propose(n);
    propose.calls = vec![sample::call(arguments)];
    propose
}

fn asks_in_channel(n: u64, arguments: &str) -> Propose {
    let channel = Some(sample::channel("chat"));
    Propose {
        channel,
        ..asks(n, arguments)
    }
}

async fn history(fixture: &Fixture, arguments: &[&str], verdict: Verdict) -> Vec<SharedApproval> {
    let mut before = Vec::new();
    for (n, arguments) in (1..).zip(arguments) {
        let approval = fixture.propose(asks(n, arguments)).await;
        before.push(fixture.accept(sample::decide(&approval, verdict.clone())).await);
    }
    before
}

fn concerns_of(approval: &SharedApproval, before: &[SharedApproval]) -> Vec<String> {
    let history = History::of(before, None, &|_, pointer| pointer == "/secret");
    let found = history.concerns_of(approval);
    found[0].iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_first_use_is_told_once_and_not_of_an_agent_without_history() {
    let fixture = fixture();
    let first = fixture.propose(asks(1, "{}")).await;
    assert_eq!(
        concerns_of(&first, &[]),
        [""; 0],
        "of a new agent every tool is new"
    );
    let mut other = asks(2, "{}");
    other.calls[0].tool = ToolName::new("other").unwrap();
    let other = fixture.propose(other).await;
    let before = [first];
    assert_eq!(
        concerns_of(&other, &before),
        ["this agent never asked for this tool before"]
    );
    let again = fixture.propose(asks(3, "{}")).await;
    assert_eq!(concerns_of(&again, &before), [""; 0]);
}

#[tokio::test]
async fn an_undo_is_no_request_of_the_agent() {
    let fixture = fixture();
    let first = fixture.propose(asks(1, "{}")).await;
    let of_tool = |n: u64, tool: &str| {
        let mut propose = asks(n, "{}");
        propose.calls[0].tool = ToolName::new(tool).unwrap();
        propose
    };
    let undo = fixture.propose(of_tool(2, "delete")).await;
    let mut undo = Approval::clone(&undo);
    undo.undoes = Undoes::new(first.id, [1]);
    let undo = SharedApproval::from(undo);
    let own = fixture.propose(of_tool(3, "delete")).await;
    assert_eq!(concerns_of(&undo, std::slice::from_ref(&first)), [""; 0]);
    assert_eq!(
        concerns_of(&own, &[first, undo]),
        ["this agent never asked for this tool before"]
    );
}

#[tokio::test]
async fn a_conversation_is_missed_only_where_one_came_before() {
    let fixture = fixture();
    let first = fixture.propose(asks(1, r#"{"a":1}"#)).await;
    let with = |approval: &SharedApproval, heard: Coverage| {
        let mut approval = Approval::clone(approval);
        approval.calls[0].provenance = Some(Arc::new(Provenance::new(Vec::new(), heard)));
        SharedApproval::from(approval)
    };
    let second = fixture.propose(asks(2, r#"{"a":2}"#)).await;
    let check = |approval: &SharedApproval, before: SharedApproval, is_told: bool| {
        let found = concerns_of(approval, &[before]);
        let found = found.iter().any(|found| found.contains("came from is unknown"));
        assert_eq!(found, is_told);
    };
    check(&second, first.clone(), false);
    check(&second, with(&first, Coverage::Whole), true);
    check(&second, with(&first, Coverage::Recent), true);
    // A gateway that sees only tools may have seen nothing yet.
    check(&second, with(&first, Coverage::Tools), false);
    check(
        &with(&second, Coverage::Whole),
        with(&first, Coverage::Whole),
        false,
    );
    let mut undo = Approval::clone(&second);
    undo.undoes = Undoes::new(first.id, [1]);
    check(&SharedApproval::from(undo), with(&first, Coverage::Whole), false);
}

#[tokio::test]
async fn x11_a_denial_is_remembered_for_an_hour() {
    let fixture = fixture();
    let before = history(&fixture, &[r#"{"a":1}"#], Verdict::Deny).await;
    let same = fixture.propose(asks(2, r#"{"a":1}"#)).await;
    assert_eq!(
        concerns_of(&same, &before),
        ["the same call was denied within the last hour"]
    );
    assert_eq!(
        concerns_of(&fixture.propose(asks(3, r#"{"a":2}"#)).await, &before),
        [""; 0]
    );
    fixture.advance(DENIAL_WINDOW);
    assert_eq!(
        concerns_of(&fixture.propose(asks(4, r#"{"a":1}"#)).await, &before),
        [""; 0]
    );
}

#[tokio::test]
async fn x11_a_call_left_out_of_a_batch_counts_as_denied() {
    let fixture = fixture();
    let mut batch = asks(1, r#"{"a":1}"#);
    batch.calls.push(sample::call(r#"{"a":2}"#));
    let batch = fixture.propose(batch).await;
    let choices = Verdict::Each(vec![Choice::Approve, Choice::Deny]);
    let before = [fixture.accept(sample::decide(&batch, choices)).await];
    let denied = "the same call was denied within the last hour";
    assert_eq!(
        concerns_of(&fixture.propose(asks(2, r#"{"a":1}"#)).await, &before),
        [""; 0]
    );
    assert_eq!(
        concerns_of(&fixture.propose(asks(3, r#"{"a":2}"#)).await, &before),
        [denied]
    );
}

#[tokio::test]
async fn what_was_not_looked_at_is_not_called_never() {
    let fixture = fixture();
    let first = fixture.propose(asks(1, "{}")).await;
    let history = History::of(&[] as &[SharedApproval], Some(200), &|_, _| false);
    let found = history.concerns(&first, &first.calls[0]);
    assert_eq!(
        found[0].to_string(),
        "this agent did not ask for this tool in its last 200 approvals"
    );
}

#[tokio::test]
async fn what_was_asked_later_is_no_history() {
    let fixture = fixture();
    let known = r#"{"to":"maria@acme.com","n":1}"#;
    let early = fixture.propose(asks(1, r#"{"to":"marla@acme.com","n":9}"#)).await;
    let later = fixture.propose(asks(2, known)).await;
    let later = fixture.accept(sample::decide(&later, Verdict::Approve)).await;
    assert_eq!(concerns_of(&early, &[later]), [""; 0]);
}

#[tokio::test]
async fn x16_a_value_that_looks_like_a_known_one_is_told() {
    let fixture = fixture();
    let known = r#"{"to":"maria@acme.com","secret":"abcdefgh","id":"order-1001"}"#;
    let before = history(&fixture, &[known], Verdict::Approve).await;
    let mut n = 1;
    let mut check = async |arguments: &str, expected: &[&str]| {
        n += 1;
        assert_eq!(
            concerns_of(&fixture.propose(asks(n, arguments)).await, &before),
            expected,
            "{arguments}"
        );
    };
    let like = "/to is one letter away from `maria@acme.com`, which was used before";
    check(r#"{"to":"marla@acme.com"}"#, &[like]).await;
    check(r#"{"to":"maria@acme.co"}"#, &[like]).await;
    check(r#"{"to":"maria@amce.com"}"#, &[like]).await;
    check(r#"{"to":"maria@acme.com"}"#, &[]).await;
    check(r#"{"to":"pedro@acme.com"}"#, &[]).await;
    check(r#"{"secret":"abcdefgx"}"#, &[]).await;
    // Ids that differ in a digit are different ids, not look-alikes.
    check(r#"{"id":"order-1002"}"#, &[]).await;
}

#[tokio::test]
async fn an_amount_far_outside_is_told() {
    let fixture = fixture();
    let before = history(
        &fixture,
        &[r#"{"n":10}"#, r#"{"n":12.5}"#, r#"{"n":8}"#],
        Verdict::Approve,
    )
    .await;
    let far = fixture.propose(asks(4, r#"{"n":126}"#)).await;
    assert_eq!(
        concerns_of(&far, &before),
        ["/n is more than ten times the largest before, 12.5"]
    );
    assert_eq!(
        concerns_of(&fixture.propose(asks(5, r#"{"n":125}"#)).await, &before),
        [""; 0]
    );
    assert_eq!(
        concerns_of(&far, &before[..2]),
        [""; 0],
        "two numbers are no history"
    );
}

#[tokio::test]
async fn x29_a_changed_definition_and_a_large_batch_are_told() {
    let fixture = fixture();
    let before = history(&fixture, &["{}"], Verdict::Approve).await;
    let mut changed = asks(2, "{}");
    changed.calls[0].definition = crate::policy::Definition::Claimed(crate::hash::Hash::of(b"another"));
    let changed = fixture.propose(changed).await;
    assert_eq!(
        concerns_of(&changed, &before),
        ["the tool has changed since it was last approved"]
    );
    let batch = fixture.propose(sample::batch(3, 6)).await;
    assert_eq!(
        concerns_of(&batch, &before),
        ["6 calls at once; the most before were 1"]
    );
}

#[tokio::test]
async fn x12_a_start_without_a_known_end_is_told() {
    let fixture = fixture();
    let first = fixture.propose(asks(1, r#"{"a":1,"b":"x"}"#)).await;
    let before = fixture.accept(sample::decide(&first, Verdict::Approve)).await;
    let same = fixture.propose(asks(2, r#"{"b":"x","a":1.0}"#)).await;
    assert_eq!(
        concerns_of(&same, std::slice::from_ref(&before)),
        [""; 0],
        "it has not started"
    );
    let other = fixture.propose(asks(3, r#"{"a":2,"b":"x"}"#)).await;
    let mut started = Approval::clone(&before);
    let at = started.created_at;
    started.calls[0].execution = Some(crate::call::Execution {
        started_at: at,
        deadline: at,
        permit: crate::hash::Hash([0; 32]),
        ended_at: None,
    });
    for (state, is_told) in [
        (CallState::Running, true),
        (CallState::Unknown, true),
        (CallState::Succeeded, false),
        (CallState::Failed, false),
    ] {
        started.calls[0].state = state;
        let before = [SharedApproval::from(started.clone())];
        let expected = format!("the same call was started at {at}, and its outcome is not known");
        let expected: &[String] = if is_told { &[expected] } else { &[] };
        assert_eq!(concerns_of(&same, &before), expected, "{state:?}");
        assert_eq!(concerns_of(&other, &before), [""; 0]);
    }
}

#[tokio::test]
async fn e1_a_card_names_what_differs_from_the_card_it_replaces() {
    let fixture = fixture();
    let old = r#"{"name":"Maria","email":"maria@acme.com","size":"5","secret":"x"}"#;
    let first = fixture.propose(asks_in_channel(1, old)).await;
    let new = r#"{"name":"Maria","email":"zoe@x.com","size":5,"secret":"y","note":"n"}"#;
    let second = fixture.propose(asks_in_channel(2, new)).await;
    let before = fixture.get(&first).await;
    assert_eq!(before.superseded_by, Some(second.id));
    assert_eq!(
        concerns_of(&second, &[before]),
        [
            "changed since the last card: /email: `maria@acme.com` → `zoe@x.com`",
            "changed since the last card: /note is new: `n`",
            "changed since the last card: /secret: `(hidden)` → `(hidden)`",
            "changed since the last card: /size: `\"5\"` → `5`",
        ]
    );
    // A card that replaced nothing has no such lines.
    let decided = fixture.accept(sample::decide(&second, Verdict::Approve)).await;
    let third = fixture.propose(asks_in_channel(3, old)).await;
    let earlier = [fixture.get(&first).await, decided];
    assert!(
        !concerns_of(&third, &earlier)
            .iter()
            .any(|line| line.contains("last card"))
    );
}

#[tokio::test]
async fn e1_calls_that_were_left_out_or_added_are_named() {
    let fixture = fixture();
    let mut propose = asks_in_channel(1, "{}");
    propose.calls = ["Ana", "Ben", "Cleo"]
        .map(|name| sample::call(&format!(r#"{{"name":"{name}"}}"#)))
        .into();
    let first = fixture.propose(propose).await;
    let mut propose = asks_in_channel(2, "{}");
    propose.calls = ["Cleo", "Ana"]
        .map(|name| sample::call(&format!(r#"{{"name":"{name}"}}"#)))
        .into();
    let second = fixture.propose(propose).await;
    let before = fixture.get(&first).await;
    let found = concerns_of(&second, &[before]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("no longer on the card: "), "{found:?}");
    let mut propose = asks_in_channel(3, "{}");
    propose.calls = ["Cleo", "Ana", "Dan"]
        .map(|name| sample::call(&format!(r#"{{"name":"{name}"}}"#)))
        .into();
    let third = fixture.propose(propose).await;
    let earlier = [fixture.get(&first).await, fixture.get(&second).await];
    let history = History::of(&earlier, None, &|_, _| false);
    let found = history.concerns_of(&third);
    assert_eq!(found, [vec![], vec![], vec![Concern::Added]]);
}
