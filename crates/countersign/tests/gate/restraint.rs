//! Limits on how much one agent may ask.

use std::time::Duration;

use crate::world::*;
use countersign::command::ProposeRefusal;
use countersign::decision::Verdict;
use countersign::gate::{Submission, SubmitError};

const POLICY: &str = r#"
[agents]
most_pending = 2
cool_down = "10m"

[tools.create_contact]
effect = "write"
ttl = "1h"
"#;

fn ask(arguments: &str) -> Submission {
    Submission {
        channel: None,
        ..submission(vec![call("create_contact", arguments)])
    }
}

#[tokio::test]
async fn x11_a_flood_ends_in_a_few_cards() {
    let world = world_with(POLICY);
    let first = world
        .gate
        .submit(ask(r#"{"n":1}"#))
        .await
        .unwrap()
        .approval
        .unwrap();
    for _ in 0..500 {
        let again = world.gate.submit(ask(r#"{"n":1}"#)).await.unwrap();
        assert_eq!(
            again.approval.unwrap().id,
            first.id,
            "the same calls join the open card"
        );
    }
    world.gate.submit(ask(r#"{"n":2}"#)).await.unwrap();
    let refused = world.gate.submit(ask(r#"{"n":3}"#)).await.unwrap_err();
    let expected = ProposeRefusal::TooManyPending { count: 2, most: 2 };
    assert_eq!(refused, SubmitError::Refused(expected));
}

#[tokio::test]
async fn x11_after_a_no_the_same_is_not_asked_again_for_a_while() {
    let world = world_with(POLICY);
    let approval = world
        .gate
        .submit(ask(r#"{"n":1}"#))
        .await
        .unwrap()
        .approval
        .unwrap();
    world
        .gate
        .decide(decision(&approval, alice(), Verdict::Deny))
        .await
        .unwrap()
        .accepted()
        .unwrap();
    let refused = world.gate.submit(ask(r#"{"n":1}"#)).await.unwrap_err();
    assert!(
        matches!(refused, SubmitError::Refused(ProposeRefusal::DeniedLately { .. })),
        "{refused:?}"
    );
    world.gate.submit(ask(r#"{"n":2}"#)).await.unwrap();
    world.clock.advance(Duration::from_secs(600));
    world.gate.submit(ask(r#"{"n":1}"#)).await.unwrap();
}

#[tokio::test]
async fn without_such_a_policy_the_same_again_is_another_card() {
    let world = world();
    let ids: Vec<_> = [1, 2].map(|_| ask(r#"{"n":1}"#)).into_iter().collect();
    let mut found = Vec::new();
    for submission in ids {
        found.push(world.gate.submit(submission).await.unwrap().approval.unwrap().id);
    }
    assert_ne!(found[0], found[1]);
}

#[tokio::test]
async fn x62_without_a_word_in_the_policy_twenty_may_be_pending() {
    let world = world_with("[tools.create_contact]\neffect = \"write\"\n");
    for n in 0..20 {
        world.gate.submit(ask(&format!(r#"{{"n":{n}}}"#))).await.unwrap();
    }
    let refused = world.gate.submit(ask(r#"{"n":20}"#)).await.unwrap_err();
    let expected = ProposeRefusal::TooManyPending { count: 20, most: 20 };
    assert_eq!(refused, SubmitError::Refused(expected));
}

#[tokio::test]
async fn x62_no_limit_has_to_be_said() {
    let policy = "[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n";
    let world = world_with(policy);
    for n in 0..30 {
        world.gate.submit(ask(&format!(r#"{{"n":{n}}}"#))).await.unwrap();
    }
    for wrong in ["0", "201", "\"none\"", "false"] {
        let policy = format!("[agents]\nmost_pending = {wrong}\n");
        assert!(countersign::policy::Policy::parse(&policy).is_err(), "{wrong}");
    }
}
