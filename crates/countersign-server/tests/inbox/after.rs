//! Tests pages after a run: results, undo, and calls with an unknown outcome.

use std::time::Duration;

use countersign::decision::Verdict;
use countersign::gate::{Submission, SubmittedCall};
use countersign::id::{Agent, Person, Tenant};
use countersign::state::{CallState, State};

use crate::support::{MARIA, World};

#[tokio::test]
async fn an_undo_is_an_approval_of_its_own() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("create_contact", MARIA)]).await;
    let path = format!("/approvals/{}", approval.id);
    world.get(&ana, &path).await.hides("Undo…");
    world.decide(&ana, &approval, &[("verdict", "approve")]).await;
    world.finished(&approval).await;
    let page = world.get(&ana, &path).await;
    page.shows("Undo…").shows("{&quot;id&quot;:&quot;c-1&quot;}");
    let undo = format!("{path}/calls/1/undo");
    let asked = world.post(&ana, &undo, &[("key", "u1")]).await;
    assert_eq!(asked.status, 303);
    // Sending the same form twice proposes one undo.
    let again = world.post(&ana, &undo, &[("key", "u1")]).await;
    assert_eq!(again.location(), asked.location());
    let page = world.get(&ana, asked.location()).await;
    page.shows("Delete contact c-1")
        .shows("<b>service:inbox</b> asks as ana")
        .shows("asked to undo")
        .hides("Look twice");
    let id = asked.location().rsplit('/').next().unwrap().parse().unwrap();
    let undoing = world
        .app
        .store()
        .approval(&approval.tenant, id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(undoing.state, State::Pending);
    assert_eq!(undoing.requester.as_str(), "ana");
    assert_eq!(world.ran().len(), 1, "nothing is undone before it is approved");
    assert_eq!(
        world
            .decide(&ana, &undoing, &[("verdict", "approve")])
            .await
            .status,
        303
    );
    world.finished(&undoing).await;
    assert_eq!(world.now(&approval).await.calls[0].state, CallState::Undone);
    let page = world.get(&ana, &path).await;
    page.hides("Undo…").shows("was undone by");
}

#[tokio::test]
async fn what_cannot_be_undone_says_why() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("note", r#"{"text":"x"}"#)]).await;
    world.decide(&ana, &approval, &[("verdict", "approve")]).await;
    world.finished(&approval).await;
    let path = format!("/approvals/{}/calls/1/undo", approval.id);
    let page = world.post(&ana, &path, &[]).await;
    assert_eq!(page.status, 409);
    page.shows("cannot be undone").shows("Undo it by hand.");
    let path = format!("/approvals/{}/calls/9/undo", approval.id);
    assert!(world.post(&ana, &path, &[]).await.status.is_client_error());
}

#[tokio::test]
async fn an_unknown_end_is_found_out_by_an_approver() {
    let world = World::new().await;
    let ana = world.ana().await;
    let eve = world.sign_in("eve", &["visitors"]).await;
    let approval = world.hold(&[("hang", "{}")]).await;
    world.decide(&ana, &approval, &[("verdict", "approve")]).await;
    for _ in 0..400 {
        if world.now(&approval).await.calls[0].state == CallState::Unknown {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(world.now(&approval).await.calls[0].state, CallState::Unknown);
    let path = format!("/approvals/{}", approval.id);
    world
        .get(&ana, &path)
        .await
        .shows("Nobody knows how this call ended.")
        .shows("it succeeded");
    world
        .get(&eve, &path)
        .await
        .shows("One of its approvers can say")
        .hides("it succeeded");
    world
        .get(&ana, "/numbers")
        .await
        .shows("<dt>Unknown outcomes</dt><dd>1</dd>");
    let found = format!("{path}/calls/1/reconciliation");
    let said = [("outcome", "succeeded"), ("note", "seen in the ledger")];
    assert_eq!(world.post(&eve, &found, &said).await.status, 403);
    assert_eq!(world.post(&ana, &found, &[("note", "hm")]).await.status, 422);
    assert_eq!(world.now(&approval).await.calls[0].state, CallState::Unknown);
    assert_eq!(world.post(&ana, &found, &said).await.status, 303);
    assert_eq!(world.now(&approval).await.calls[0].state, CallState::Succeeded);
    let page = world.get(&ana, &path).await;
    page.shows("found out that call 1 succeeded")
        .shows("seen in the ledger");
    // The outcome can be reported only once.
    assert_eq!(world.post(&ana, &found, &said).await.status, 409);
}

#[tokio::test]
async fn history_lists_what_was_decided_newest_first() {
    let world = World::new().await;
    let ana = world.ana().await;
    world
        .get(&ana, "/approvals/history")
        .await
        .shows("Nothing has been decided yet.");
    for number in 0..60 {
        let arguments = format!(r#"{{"text":"n{number:02}"}}"#);
        // Ids contain the machine's time in milliseconds, and the list is sorted by id.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let approval = world.hold(&[("note", &arguments)]).await;
        world.clock.advance(Duration::from_millis(200));
        let verdict = if number % 2 == 0 {
            Verdict::Approve
        } else {
            Verdict::Deny
        };
        world.decide_elsewhere(&approval, verdict).await;
    }
    let page = world.get(&ana, "/approvals/history").await;
    assert_eq!(page.text.matches("<li>").count(), 50);
    assert!(page.text.find("Note n59").unwrap() < page.text.find("Note n58").unwrap());
    let older = page
        .between("href=\"/approvals/history?status=&amp;after=", "\"")
        .to_owned();
    let next = world
        .get(&ana, &format!("/approvals/history?status=&after={older}"))
        .await;
    assert_eq!(next.text.matches("<li>").count(), 10);
    next.shows("Note n00").hides("Older");
    let denied = world.get(&ana, "/approvals/history?status=denied").await;
    assert_eq!(denied.text.matches("<li>").count(), 30);
    let numbers = world.get(&ana, "/numbers").await;
    numbers
        .shows("<dt>Approved</dt><dd>30</dd>")
        .shows("<dt>Denied</dt><dd>30</dd>")
        .shows("<dt>Median time to decide</dt><dd>0.2s</dd>")
        .shows("<dt>Decided in under 2 s</dt><dd>100 %</dd>")
        .shows("50 % <span class=\"quiet\">of 60")
        .shows("<svg");
}

#[tokio::test]
async fn x11_who_decides_faster_than_anybody_reads_is_counted() {
    let world = World::new().await;
    let (ana, cy) = (world.ana().await, world.sign_in("cy", &["approvers"]).await);
    let long = format!(r#"{{"text":"{}"}}"#, "read me ".repeat(100));
    for (browser, arguments, seconds) in [
        (&ana, long.as_str(), 1),
        (&ana, long.as_str(), 60),
        (&cy, r#"{"text":"hi"}"#, 1),
    ] {
        let approval = world.hold(&[("note", arguments)]).await;
        world.clock.advance(std::time::Duration::from_secs(seconds));
        world.decide(browser, &approval, &[("verdict", "deny")]).await;
    }
    let page = world.get(&ana, "/numbers").await;
    page.shows("<dt>Faster than reading allows</dt><dd>33 %</dd>")
        .shows("<span>ana</span>")
        .shows("<span>1 <span class=\"quiet\">of 2</span></span>")
        .shows("<span>0 <span class=\"quiet\">of 1</span></span>");
}

#[tokio::test]
async fn a_mixed_batch_says_how_many_were_approved() {
    let world = World::new().await;
    let ana = world.ana().await;
    let note = r#"{"text":"x"}"#;
    let approval = world
        .hold(&[("note", note), ("note", note), ("note", note)])
        .await;
    let some = [
        ("verdict", "chosen"),
        ("choice-1", "approve"),
        ("choice-2", "deny"),
        ("choice-3", "approve"),
    ];
    assert_eq!(world.decide(&ana, &approval, &some).await.status, 303);
    world.finished(&approval).await;
    let history = world.get(&ana, "/approvals/history").await;
    history
        .shows("<span class=\"mark state mixed\">2 of 3 approved</span>")
        .shows("<span class=\"mark state succeeded\">succeeded</span>");
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("<strong class=\"state mixed\">2 of 3 approved</strong>")
        .shows("2 of 3 approved by you");
    let done = format!("/approvals?done={}", approval.id);
    world.get(&ana, &done).await.shows("You approved 2 of 3:");
}

#[tokio::test]
async fn a_passed_call_says_why_in_words() {
    let policy = "[tools.pay]\neffect = \"external\"\nhold = \"args.amount >= 100.0\"\n";
    let world = World::with_policy(policy).await;
    let ana = world.ana().await;
    let submission = Submission::new(
        Tenant::single(),
        Agent::new("crm").unwrap(),
        Person::new("crm-token").unwrap(),
        vec![SubmittedCall::new("pay", br#"{"amount":5.0}"#.as_slice())],
    )
    .unwrap();
    let submitted = world.app.gate.submit(submission).await.unwrap();
    assert!(submitted.approval.is_none());
    let because = "Why: the policy asks about `pay` only under a condition, and this call did not meet it.";
    let history = world.get(&ana, "/approvals/history").await;
    history
        .shows("<span class=\"mark state passed\">passed</span>")
        .shows(because)
        .hides("args.amount");
    let id = history.between("class=\"title\" href=\"", "\"").to_owned();
    world.get(&ana, &id).await.shows(because).hides("args.amount");
}

#[tokio::test]
async fn the_history_is_searched_and_taken_along() {
    let world = World::new().await;
    let ana = world.ana().await;
    for text in ["apples", "=HYPERLINK(1)\nx", "pears, \"ripe\""] {
        let arguments = serde_json::json!({ "text": text }).to_string();
        let approval = world.hold(&[("note", &arguments)]).await;
        world
            .decide(&ana, &approval, &[("verdict", "deny"), ("comment", "=1+1")])
            .await;
    }
    world.hold(&[("note", r#"{"text":"pending apples"}"#)]).await;
    let found = world.get(&ana, "/approvals/history?q=APPLES%20note").await;
    found
        .shows("Note apples")
        .hides("pears")
        .hides("pending apples")
        .shows("value=\"APPLES note\"");
    world
        .get(&ana, "/approvals/history?q=%3Cb%3Eplums")
        .await
        .shows("Nothing found.")
        .hides("<b>plums");
    let csv = world.get(&ana, "/approvals/history.csv?q=").await;
    assert_eq!(csv.headers["content-type"], "text/csv; charset=utf-8");
    assert_eq!(csv.text.matches("\r\n").count(), 4, "{}", csv.text);
    csv.shows("\"Note pears, \"\"ripe\"\"\"")
        .shows("\"Note =HYPERLINK(1)↵x\"")
        .shows(",\"'=1+1\"\r\n")
        .hides("pending");
    let lines = world
        .get(&ana, "/approvals/history.jsonl?q=pears&status=denied")
        .await;
    let line: serde_json::Value = serde_json::from_str(lines.text.trim_end()).unwrap();
    assert_eq!(
        (line["summary"].as_str(), line["decidedBy"].as_str()),
        (Some("Note pears, \"ripe\""), Some("ana"))
    );
    assert_eq!(
        world.get(&world.nobody(), "/approvals/history.csv").await.status,
        303
    );
}
