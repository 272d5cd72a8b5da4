//! Tests decisions by form: approve, deny, choose some of the calls; and the reason shown when a decision comes too
//! late.

use std::time::Duration;

use countersign::decision::Verdict;
use countersign::state::{CallState, State};

use crate::support::{MARIA, World};

#[tokio::test]
async fn approving_runs_the_exact_bytes_once() {
    let world = World::new().await;
    let ana = world.ana().await;
    let spaced = r#"{ "name":"Maria Garcia",  "email":"maria@example.com"}"#;
    let approval = world.hold(&[("create_contact", spaced)]).await;
    let form = [("verdict", "approve"), ("comment", " fine ")];
    let answer = world.decide(&ana, &approval, &form).await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.location(), format!("/approvals/{}", approval.id));
    let done = world.finished(&approval).await;
    assert_eq!(world.ran(), [format!("create_contact {spaced}")]);
    let decided = done.decision.clone().unwrap();
    assert_eq!(
        (
            decided.by.as_str(),
            decided.surface.as_str(),
            decided.comment.as_deref()
        ),
        ("ana", "page", Some("fine"))
    );
    // Sending the same form again is the same decision: no error, and no second run.
    let again = world.decide(&ana, &approval, &form).await;
    assert_eq!(again.status, 303);
    assert_eq!(world.ran().len(), 1);
}

#[tokio::test]
async fn from_the_list_one_comes_back_to_the_list() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("note", r#"{"text":"x"}"#)]).await;
    let digest = approval.digest.to_string();
    let path = format!("/approvals/{}/decision", approval.id);
    let form = [("digest", digest.as_str()), ("verdict", "deny")];
    let answer = world.post(&ana, &path, &form).await;
    assert_eq!(answer.location(), format!("/approvals?done={}", approval.id));
    let page = world.get(&ana, answer.location()).await;
    page.shows("You denied:").shows("Note x");
    assert!(world.ran().is_empty());
    // The query parameter alone does not claim a decision that was not made.
    let other = world.hold(&[("note", r#"{"text":"y"}"#)]).await;
    let page = world.get(&ana, &format!("/approvals?done={}", other.id)).await;
    page.hides("You ").hides("class=\"done");
}

#[tokio::test]
async fn each_call_of_a_batch_can_be_decided() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world
        .hold(&[
            ("note", r#"{"text":"a"}"#),
            ("note", r#"{"text":"b"}"#),
            ("note", r#"{"text":"c"}"#),
        ])
        .await;
    let form = [
        ("verdict", "chosen"),
        ("choice-1", "approve"),
        ("choice-2", "deny"),
        ("choice-3", "approve"),
    ];
    assert_eq!(world.decide(&ana, &approval, &form).await.status, 303);
    let done = world.finished(&approval).await;
    let states: Vec<CallState> = done.calls.iter().map(|call| call.state).collect();
    assert_eq!(
        states,
        [CallState::Succeeded, CallState::Refused, CallState::Succeeded]
    );
    assert_eq!(world.ran(), [r#"note {"text":"a"}"#, r#"note {"text":"c"}"#]);
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("approved on the page, only calls 1, 3")
        .shows("refused: denied");
}

#[tokio::test]
async fn a_batch_with_nothing_chosen_is_not_decided() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world
        .hold(&[("note", "{\"text\":1}"), ("note", "{\"text\":2}")])
        .await;
    let form = [
        ("verdict", "chosen"),
        ("choice-1", "deny"),
        ("choice-2", "deny"),
        ("comment", "hm"),
    ];
    let page = world.decide(&ana, &approval, &form).await;
    assert_eq!(page.status, 422);
    page.shows("No call is chosen.").shows(">hm</textarea>");
    assert_eq!(
        page.text.matches("value=\"deny\" checked").count(),
        2,
        "the choices are kept"
    );
    assert_eq!(world.now(&approval).await.state, State::Pending);
}

#[tokio::test]
async fn x03_a_form_of_another_card_is_stale() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("note", r#"{"text":"x"}"#)]).await;
    let path = format!("/approvals/{}/decision", approval.id);
    let digest = "0".repeat(64);
    for (form, status) in [
        (vec![("digest", digest.as_str()), ("verdict", "approve")], 409),
        (vec![("verdict", "approve")], 422),
        (vec![("digest", "zz"), ("verdict", "approve")], 422),
        (vec![], 422),
    ] {
        let page = world.post(&ana, &path, &form).await;
        assert_eq!(page.status, status, "{form:?}");
        page.shows("role=\"alert\"");
        assert_eq!(world.now(&approval).await.state, State::Pending);
    }
    assert!(world.ran().is_empty());
}

#[tokio::test]
async fn who_is_late_learns_who_was_first() {
    let world = World::new().await;
    let ana = world.ana().await;
    let bo = world.sign_in("bo", &["approvers"]).await;
    let approval = world.hold(&[("note", r#"{"text":"x"}"#)]).await;
    world.decide(&bo, &approval, &[("verdict", "deny")]).await;
    let page = world.decide(&ana, &approval, &[("verdict", "approve")]).await;
    assert_eq!(page.status, 409);
    page.shows("was already denied by `bo`")
        .shows("Denied by <b>bo</b>")
        .shows("tried to approve on the page, refused");
    // The person who decided first cannot change the decision either.
    let page = world.decide(&bo, &approval, &[("verdict", "approve")]).await;
    assert_eq!(page.status, 409);
    page.shows("was already denied by `bo`");
    assert!(world.ran().is_empty());
}

#[tokio::test]
async fn x12_nobody_approves_after_expiry() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("note", r#"{"text":"x"}"#)]).await;
    world.clock.advance(Duration::from_secs(300));
    let page = world.decide(&ana, &approval, &[("verdict", "approve")]).await;
    assert_eq!(page.status, 410);
    page.shows("expired at")
        .shows("Ask the agent to propose it again.");
    assert!(world.ran().is_empty());
}

#[tokio::test]
async fn who_may_not_decide_is_told_before_and_after() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("refund", r#"{"amount":5}"#)]).await;
    let page = world.get(&ana, "/approvals?view=all").await;
    page.shows("Only finance may approve this.")
        .hides("<form class=decide");
    let page = world.decide(&ana, &approval, &[("verdict", "approve")]).await;
    assert_eq!(page.status, 403);
    page.shows("`ana` may not decide");
    let finn = world.sign_in("finn", &["finance"]).await;
    assert_eq!(
        world
            .decide(&finn, &approval, &[("verdict", "approve")])
            .await
            .status,
        303
    );
}

/// Covers a batch of which the person may approve only a part.
#[tokio::test]
async fn what_one_may_not_approve_can_be_left_out() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world
        .hold(&[("note", r#"{"text":"x"}"#), ("refund", r#"{"amount":5}"#)])
        .await;
    let path = format!("/approvals/{}", approval.id);
    let page = world.get(&ana, &path).await;
    page.shows("Only finance may approve this.")
        .shows(r#"name="choice-2" value="approve" disabled"#)
        .shows(r#"name="choice-2" value="deny" checked"#);
    let form = [
        ("verdict", "chosen"),
        ("choice-1", "approve"),
        ("choice-2", "deny"),
    ];
    assert_eq!(world.decide(&ana, &approval, &form).await.status, 303);
    world.finished(&approval).await;
    assert_eq!(world.ran(), [r#"note {"text":"x"}"#]);
}

#[tokio::test]
async fn four_eyes_are_said_on_the_card() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world
        .hold_as(&[("pay", r#"{"amount":5}"#)], |submission| {
            submission.on_behalf_of = Some("ana".parse().unwrap());
        })
        .await;
    let page = world.get(&ana, "/approvals?view=all").await;
    page.shows("You asked for this, so another person has to approve it.")
        .hides("value=approve>")
        .shows("value=deny>");
    assert_eq!(
        world
            .decide(&ana, &approval, &[("verdict", "approve")])
            .await
            .status,
        403
    );
    let bo = world.sign_in("bo", &["approvers"]).await;
    let page = world.get(&bo, "/approvals").await;
    page.shows("value=approve>").hides("?edit=");
    assert_eq!(
        world
            .decide(&bo, &approval, &[("verdict", "approve")])
            .await
            .status,
        303
    );
}

#[tokio::test]
async fn a_replaced_card_leads_to_its_successor() {
    let world = World::new().await;
    let ana = world.ana().await;
    let channel = |submission: &mut countersign::gate::Submission| {
        submission.channel = Some("chat".parse().unwrap());
    };
    let old = world.hold_as(&[("note", r#"{"text":"old"}"#)], channel).await;
    let new = world.hold_as(&[("note", r#"{"text":"new"}"#)], channel).await;
    let page = world.decide(&ana, &old, &[("verdict", "approve")]).await;
    assert_eq!(page.status, 409);
    page.shows("was superseded by")
        .shows(&format!("href=\"/approvals/{}\"", new.id));
}

#[tokio::test]
async fn the_script_gets_the_card_and_the_status() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("note", r#"{"text":"x"}"#)]).await;
    let digest = approval.digest.to_string();
    let path = format!("/approvals/{}/decision", approval.id);
    let form = [("digest", digest.as_str()), ("verdict", "approve")];
    let fragment = [("countersign-fragment", "1")];
    let card = world.send(&ana, &path, Some(&form), &fragment).await;
    assert_eq!(card.status, 200);
    card.shows("Approved by you").hides("<html");
    let other = [("digest", digest.as_str()), ("verdict", "deny")];
    let card = world.send(&ana, &path, Some(&other), &fragment).await;
    assert_eq!(card.status, 409);
    card.shows("was already approved by `ana`")
        .shows("<article")
        .hides("<html");
}

/// X36: opening pages decides nothing, with a session or without.
#[tokio::test]
async fn x36_opening_addresses_changes_nothing() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("create_contact", MARIA)]).await;
    let id = approval.id;
    let paths = [
        "/".to_owned(),
        format!("/approvals/{id}"),
        format!("/approvals/{id}?verdict=approve&digest={}", approval.digest),
        format!("/approvals/{id}?edit=1"),
        format!(
            "/approvals/{id}/decision?verdict=approve&digest={}",
            approval.digest
        ),
        format!("/approvals/{id}/card"),
        format!("/approvals/{id}/calls/1/arguments"),
        format!("/approvals/{id}/calls/1/undo"),
        format!("/approvals/{id}/calls/1/reconciliation?outcome=succeeded"),
        "/approvals?done=1".to_owned(),
    ];
    for path in &paths {
        world.get(&ana, path).await;
    }
    let now = world.now(&approval).await;
    assert_eq!((now.state, now.version), (State::Pending, approval.version));
}

/// The page shows decisions made on other surfaces.
#[tokio::test]
async fn other_surfaces_are_shown_as_such() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("note", r#"{"text":"x"}"#)]).await;
    world.decide_elsewhere(&approval, Verdict::Deny).await;
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("Denied by <b>bo</b> on the command line")
        .shows("not today")
        .shows("the boss <span class=\"quiet\">(not checked)");
}

/// A card on the list that leaves something out has no button to approve it, and a form that says so anyway decides
/// nothing.
#[tokio::test]
async fn x56_a_card_that_leaves_something_out_is_approved_on_its_own_page_alone() {
    let world = World::new().await;
    let ana = world.ana().await;
    let long = format!(r#"{{"text":"{}; rm -rf /"}}"#, "x".repeat(400));
    let fields: Vec<String> = (0..20).map(|n| format!(r#""k{n}":{n}"#)).collect();
    let many = format!("{{{}}}", fields.join(","));
    let page = format!(r#"{{"id":"p1","title":"Old","body":"{}"}}"#, "y".repeat(900));
    *world.page.lock().unwrap() = page;
    for (tool, arguments) in [
        ("note", long.as_str()),
        ("note", many.as_str()),
        ("rename_page", r#"{"id":"p1","title":"New"}"#),
    ] {
        let approval = world.hold(&[(tool, arguments)]).await;
        let before = world.ran().len();
        let list = world.get(&ana, "/approvals").await;
        list.shows("Show all, to approve")
            .hides("value=approve")
            .hides("?edit=");
        let digest = approval.digest.to_string();
        let path = format!("/approvals/{}/decision", approval.id);
        for verdict in ["approve", "chosen", "edit"] {
            // Whatever is not known counts as the list.
            for more in [
                ("from", ""),
                ("from", "x"),
                ("from", "detail "),
                ("shown", "some"),
            ] {
                let mut form = vec![("digest", digest.as_str()), ("verdict", verdict), more];
                if verdict == "chosen" {
                    form.push(("choice-1", "approve"));
                }
                let answer = world.post(&ana, &path, &form).await;
                assert_eq!(answer.status, 409, "{tool} {verdict} {more:?}");
                answer.shows("was not shown there");
            }
        }
        assert_eq!(world.ran().len(), before, "{tool}");
        // The approval's own page shows everything, and the card expanded in place declares that it does.
        let detail = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
        detail.shows("value=approve");
        let opened = world
            .get(&ana, &format!("/approvals/{}/card?full=1", approval.id))
            .await;
        opened.shows("name=shown value=all").shows("value=approve");
        let form = [
            ("digest", digest.as_str()),
            ("verdict", "approve"),
            ("shown", "all"),
        ];
        assert_eq!(world.post(&ana, &path, &form).await.status, 303, "{tool}");
        world.finished(&approval).await;
        assert_eq!(world.ran().len(), before + 1, "{tool}");
    }
    // Denying is always possible.
    let approval = world.hold(&[("note", &long)]).await;
    let digest = approval.digest.to_string();
    let path = format!("/approvals/{}/decision", approval.id);
    let form = [("digest", digest.as_str()), ("verdict", "deny")];
    assert_eq!(world.post(&ana, &path, &form).await.status, 303);
}

/// Two readers of a form that names a field twice could take different values from it.
#[tokio::test]
async fn a_form_with_a_field_twice_is_refused() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("note", r#"{"text":"x"}"#)]).await;
    let digest = approval.digest;
    let decision = format!("/approvals/{}/decision", approval.id);
    for (path, form) in [
        (
            decision.as_str(),
            format!("digest={digest}&from=detail&verdict=deny&verdict=approve"),
        ),
        (
            &decision,
            format!("digest={digest}&from=detail&from=x&verdict=approve"),
        ),
        (
            &decision,
            format!("digest={digest}&digest={digest}&verdict=approve"),
        ),
        (&decision, format!("digest={digest}&verdict=deny&v%65rdict=deny")),
        (
            &format!("/approvals/{}/calls/1/undo", approval.id),
            "key=a&key=b".to_owned(),
        ),
        (
            &format!("/approvals/{}/calls/1/reconciliation", approval.id),
            "outcome=failed&outcome=succeeded".to_owned(),
        ),
        ("/sign-in", "name=ana&name=bo&password=x".to_owned()),
    ] {
        let page = world.post_text(&ana, path, &form).await;
        assert_eq!(page.status, 400, "{form}: {}", page.text);
        page.shows("has a field twice");
    }
    assert_eq!(world.now(&approval).await.state, State::Pending);
    assert!(world.ran().is_empty());
}

/// The page of one approval is complete: the current content is expanded there, and titles on the list are not cut.
#[tokio::test]
async fn what_is_there_now_stands_open_on_the_approvals_own_page() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("delete_page", r#"{"id":"p1"}"#)]).await;
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("<details class=before open><summary>What is there now");
    world.get(&ana, "/assets/inbox.css").await.hides("line-clamp");
}

/// X44: a choice that is missing, misspelt, or for no call of the batch approves nothing, and neither does a form that
/// says two things.
#[tokio::test]
async fn x44_a_missing_or_unknown_choice_approves_nothing() {
    let world = World::new().await;
    let ana = world.ana().await;
    let calls = [
        ("note", r#"{"text":"a"}"#),
        ("note", r#"{"text":"b"}"#),
        ("note", r#"{"text":"c"}"#),
    ];
    let approval = world.hold(&calls).await;
    let all = [
        ("choice-1", "approve"),
        ("choice-2", "approve"),
        ("choice-3", "deny"),
    ];
    let with = |more: &[(&'static str, &'static str)]| [&all[..], more].concat();
    for (verdict, fields) in [
        ("chosen", vec![]),
        ("chosen", vec![("choice-1", "deny")]),
        ("chosen", all[..2].to_vec()),
        ("chosen", [&all[..2], &[("choice-3", "Deny")]].concat()),
        ("chosen", [&all[..2], &[("choice-3", "")]].concat()),
        ("chosen", with(&[("choice-4", "deny")])),
        ("chosen", with(&[("choice-01", "deny")])),
        ("chosen", with(&[("arguments-1", r#"{"text":"z"}"#)])),
        ("approve", all.to_vec()),
        ("approve", vec![("arguments-1", r#"{"text":"z"}"#)]),
        ("approve", vec![("value-1-0", "z")]),
        ("edit", vec![("arguments-1", r#"{"text":"z"}"#)]),
    ] {
        let form = [&[("verdict", verdict)], &fields[..]].concat();
        let page = world.decide(&ana, &approval, &form).await;
        assert_eq!(page.status, 422, "{form:?} {}", page.text);
        assert_eq!(world.now(&approval).await.state, State::Pending, "{form:?}");
    }
    assert!(world.ran().is_empty());
    let single = world.hold(&[("note", r#"{"text":"d"}"#)]).await;
    let edited = [("verdict", "approve"), ("value-1-0", "z")];
    assert_eq!(world.decide(&ana, &single, &edited).await.status, 422);
    assert_eq!(world.now(&single).await.state, State::Pending);
}

/// X56: the choices that are decided are those that the preview showed.
#[tokio::test]
async fn x56_a_choice_that_was_changed_after_the_preview_decides_nothing() {
    let world = World::new().await;
    let ana = world.ana().await;
    let calls = [("note", r#"{"text":"a"}"#), ("note", r#"{"text":"b"}"#)];
    let approval = world.hold(&calls).await;
    let form = |verdict, first, preview| {
        [
            ("verdict", verdict),
            ("preview", preview),
            ("choice-1", first),
            ("choice-2", "approve"),
            ("value-2-0", "B"),
        ]
    };
    let card = world.decide(&ana, &approval, &form("edit", "deny", "")).await;
    card.shows("This call is denied: it will not run.");
    let preview = card.between("name=preview value=", ">");
    let changed = form("confirm", "approve", preview);
    assert_eq!(world.decide(&ana, &approval, &changed).await.status, 409);
    assert!(world.ran().is_empty());
    let same = form("confirm", "deny", preview);
    assert_eq!(world.decide(&ana, &approval, &same).await.status, 303);
    world.finished(&approval).await;
    assert_eq!(world.ran(), [r#"note {"text":"B"}"#]);
}
