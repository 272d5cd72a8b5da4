use crate::world::*;
use countersign::approval::MOST_CALLS;
use countersign::effect::{Effect, Risk};
use countersign::gate::{Ruled, SubmitError};
use countersign::id::Key;
use countersign::store::Filter;

#[tokio::test]
async fn a1_reads_pass_and_writes_are_held_and_not_run() {
    let world = world();
    let submitted = world
        .submit(vec![
            call("search_contacts", r#"{"q":"maria"}"#),
            call("create_contact", MARIA),
        ])
        .await;
    let [Ruled::Pass(permit), Ruled::Held(held)] = <[Ruled; 2]>::try_from(submitted.calls).unwrap() else {
        panic!()
    };
    let approval = submitted.approval.unwrap();
    assert_eq!((held.approval, held.position), (approval.id, 1));
    assert_eq!(
        world.ran(),
        Vec::<String>::new(),
        "nothing runs by being submitted"
    );
    world.gate.run_passed(permit).await;
    assert_eq!(world.ran(), [r#"search_contacts {"q":"maria"}"#]);
}

#[tokio::test]
async fn a1_reads_alone_leave_nothing_in_the_store() {
    let world = world();
    let submitted = world.submit(vec![call("search_contacts", "{}")]).await;
    assert!(submitted.approval.is_none());
    let all = world
        .gate
        .store()
        .list(&submission(vec![]).tenant, &Filter::default())
        .await
        .unwrap();
    assert!(all.is_empty());
}

#[tokio::test]
async fn a2_a_tool_nobody_classified_is_held_as_destructive() {
    let approval = world().hold(vec![call("search_contacts_v2", "{}")]).await;
    let terms = &approval.calls[0].terms;
    assert_eq!((terms.effect, terms.risk()), (Effect::Destructive, Risk::High));
    assert!(!terms.notes.is_empty(), "the card says why");
}

#[tokio::test]
async fn a9_people_read_a_sentence() {
    let approval = world().hold(vec![call("create_contact", MARIA)]).await;
    assert_eq!(
        approval.calls[0].terms.summary,
        "Create contact Maria Garcia, maria@acme.com, Acme Corp"
    );
}

#[tokio::test]
async fn b1_an_approval_carries_what_a_decision_needs() {
    let approval = world().hold(vec![call("create_contact", MARIA)]).await;
    assert_ne!(approval.nonce, [0; 16]);
    assert_ne!(approval.nonce, approval.salt);
    assert_eq!(approval.calls[0].arguments.as_bytes(), MARIA.as_bytes());
    assert_eq!(approval.expires_at.since(approval.created_at).as_secs(), 300);
}

#[tokio::test]
async fn c2_a_confirmed_flag_in_the_arguments_is_never_believed() {
    let world = world();
    let flagged = r#"{"id":"c-1","confirmed":true,"force":true,"approved_by":"admin"}"#;
    let submitted = world.submit(vec![call("delete_contact", flagged)]).await;
    assert!(matches!(submitted.calls[0], Ruled::Held(_)));
    assert!(world.ran().is_empty());
}

#[tokio::test]
async fn x23_bad_arguments_are_forbidden_with_the_reason_and_the_rest_goes_on() {
    let world = world();
    let bad = [
        r#"{"to":"a","to":"b"}"#,
        r#"{"to":1,"t\u006f":2}"#,
        "[1]",
        "{} x",
        r#"{"a":"\ud800"}"#,
        "{",
    ];
    let mut calls: Vec<_> = bad
        .iter()
        .map(|arguments| call("create_contact", arguments))
        .collect();
    calls.push(call(
        "create_contact",
        r#"{"name":"n","email":"e","n":9007199254740993,"x":1e400}"#,
    ));
    let submitted = world.submit(calls).await;
    for (ruled, arguments) in submitted.calls.iter().zip(bad) {
        assert!(
            matches!(ruled, Ruled::Malformed { .. }),
            "`{arguments}`: {ruled:?}"
        );
    }
    let kept = &submitted.approval.unwrap().calls;
    assert_eq!(kept.len(), 1);
    assert!(
        kept[0]
            .arguments
            .as_bytes()
            .ends_with(br#""n":9007199254740993,"x":1e400}"#)
    );
}

#[tokio::test]
async fn a16_a_batch_is_one_approval_of_at_most_100_calls() {
    let world = world();
    let many = |count| vec![call("create_contact", MARIA); count];
    assert_eq!(world.hold(many(MOST_CALLS)).await.calls.len(), 100);
    for count in [0, 101] {
        let error = world.gate.submit(submission(many(count))).await.unwrap_err();
        assert_eq!(error, SubmitError::CallCount(count));
    }
}

#[tokio::test]
async fn refunds_pass_are_held_or_forbidden_by_their_amount() {
    let world = world();
    let calls = [
        r#"{"amount":5}"#,
        r#"{"amount":500}"#,
        r#"{"amount":50000}"#,
        r#"{"sum":5}"#,
    ];
    let submitted = world
        .submit(calls.map(|arguments| call("refund", arguments)).to_vec())
        .await;
    assert!(matches!(submitted.calls[0], Ruled::Pass(_)));
    assert!(matches!(submitted.calls[1], Ruled::Held(_)));
    assert!(matches!(submitted.calls[2], Ruled::Forbidden { .. }));
    assert!(
        matches!(submitted.calls[3], Ruled::Held(_)),
        "a condition that errs holds"
    );
}

#[tokio::test]
async fn x40_the_same_submission_twice_is_one_card() {
    let world = world();
    let keyed = |arguments: &str| {
        let mut submission = submission(vec![call("create_contact", arguments)]);
        submission.key = Some(Key::new("turn-7").unwrap());
        submission
    };
    let first = world.gate.submit(keyed(MARIA)).await.unwrap().approval.unwrap();
    let again = world.gate.submit(keyed(MARIA)).await.unwrap().approval.unwrap();
    assert_eq!(first.id, again.id);
    let other = world
        .gate
        .submit(keyed("{\"name\":\"x\",\"email\":\"y\"}"))
        .await
        .unwrap_err();
    assert!(matches!(other, SubmitError::Refused(_)), "{other}");
}

#[tokio::test]
async fn a_submission_with_a_long_claim_is_refused() {
    let mut submission = submission(vec![call("create_contact", MARIA)]);
    submission.claim = Some("x".repeat(9000));
    assert_eq!(
        world().gate.submit(submission).await.unwrap_err(),
        SubmitError::ClaimTooLong(9000)
    );
}
