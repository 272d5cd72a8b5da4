use super::*;
use crate::view::ApprovalView;

/// Returns an approval as a server would send it.
fn approval(number: u8, risk: &str, tools: &[&str]) -> ApprovalView {
    let id = format!("01a1e1bf-0691-746b-a7d3-4d5f91ac91{number:02x}");
    let calls: Vec<_> = (1..)
        .zip(tools)
        .map(|(position, tool)| {
            serde_json::json!({
                "id": format!("{id}.{position}"), "tool": tool, "arguments": {"n": position}, "effect": "write",
                "risk": risk, "summary": tool, "state": "held", "because": null, "notes": [], "warnings": [],
                "provenance": null, "approvers": [], "fourEyes": false, "surface": "text", "undoable": false, "edited": false, "digest": "00".repeat(32), "startedAt": null,
                "endedAt": null, "result": null, "undoneBy": null
            })
        })
        .collect();
    let approval = serde_json::json!({
        "id": id, "runId": null, "agentName": "a", "toolName": null, "riskLevel": risk, "description": "d",
        "status": "pending", "comment": null, "createdAt": "2026-01-01T00:00:00Z",
        "expiresAt": "2026-01-01T00:05:00Z", "decidedAt": null, "requestedBy": "r", "decidedBy": null,
        "onBehalfOf": null, "channel": null, "session": null, "claim": null, "digest": "11".repeat(32), "version": 1,
        "endedAt": null, "decidedOn": null, "replaces": null, "supersededBy": null, "undoes": null, "quorum": 1, "approvals": [],
        "now": "2026-01-01T00:00:00Z", "calls": calls
    });
    // Convert by way of text, because a `Value` would not keep the bytes of the arguments.
    serde_json::from_str(&approval.to_string()).unwrap()
}

fn inbox(approvals: Vec<ApprovalView>, now: Instant) -> Inbox {
    let mut inbox = Inbox::new(now);
    inbox.refresh(approvals, None, now);
    inbox
}

fn ids(inbox: &Inbox) -> Vec<ApprovalId> {
    inbox.listed.iter().map(|listed| listed.approval.id).collect()
}

#[test]
fn the_gravest_come_first_and_the_selection_stays_with_its_approval() {
    let now = Instant::now();
    let (low, high) = (approval(1, "low", &["x"]), approval(2, "high", &["x"]));
    let mut inbox = inbox(vec![low.clone()], now);
    assert_eq!(inbox.index(), Some(0));
    inbox.draft.comment.push('c');
    inbox.refresh(vec![low.clone(), high.clone()], None, now);
    assert_eq!(ids(&inbox), [high.id, low.id]);
    assert_eq!(inbox.index(), Some(1), "what comes does not move the person away");
    assert_eq!(inbox.draft.comment, "c");
    inbox.step(-1, now);
    assert_eq!((inbox.index(), inbox.draft.comment.as_str()), (Some(0), ""));
    inbox.step(-5, now);
    assert_eq!(inbox.index(), Some(0));
}

#[test]
fn x36_what_somebody_else_decided_stays_until_the_person_goes_on() {
    let now = Instant::now();
    let (first, second) = (approval(1, "low", &["x"]), approval(2, "low", &["x"]));
    let mut inbox = inbox(vec![first.clone(), second.clone()], now);
    inbox.mode = Mode::Confirm("?".to_owned());
    let mut decided = first.clone();
    decided.status = State::Denied;
    inbox.refresh(vec![second.clone()], Some(decided), now);
    assert_eq!(inbox.mode, Mode::Look, "there is nothing left to confirm");
    assert_eq!(inbox.current().unwrap().approval.status, State::Denied);
    inbox.step(1, now);
    assert_eq!(ids(&inbox), [second.id]);
}

#[test]
fn i3_a_decision_is_about_the_digest_that_was_shown() {
    let now = Instant::now();
    let mut inbox = inbox(vec![approval(1, "low", &["x", "y", "z"])], now);
    let digest = inbox.current().unwrap().approval.digest;
    assert!(inbox.approving().is_none(), "nothing was on the screen");
    inbox.seen.note((80, 24), 9, 0..9);
    let deciding = inbox.approving().unwrap();
    assert_eq!(
        (deciding.digest, deciding.verdict()),
        (Some(digest), &Verdict::Approve)
    );
    inbox.draft.toggle(1);
    let arguments = Arguments::parse(b"{ \"n\" : 7 }".as_slice()).unwrap();
    inbox.draft.edits.insert(2, arguments.clone());
    let deciding = inbox.approving().unwrap();
    let expected = vec![Choice::Deny, Choice::Edit(arguments), Choice::Approve];
    assert_eq!(deciding.verdict(), &Verdict::Each(expected));
    let shown = inbox.selected_as_edited().unwrap();
    let edited = shown.call(2).unwrap();
    assert_eq!(
        edited.argument_bytes().unwrap(),
        b"{ \"n\" : 7 }",
        "what would run is shown"
    );
    inbox.draft.toggle(2);
    inbox.draft.toggle(3);
    assert_eq!(inbox.approving().unwrap().verdict(), &Verdict::Deny);
    assert_eq!(inbox.denying().unwrap().digest, Some(digest));
}

#[test]
fn x08_what_is_grave_is_asked_about_again() {
    let now = Instant::now();
    for (risk, is_asked) in [
        ("low", false),
        ("medium", false),
        ("high", true),
        ("critical", true),
    ] {
        let mut inbox = inbox(vec![approval(1, risk, &["x"])], now);
        assert_eq!(inbox.question().is_some(), is_asked, "{risk}");
        inbox.listed[0].approval.calls[0].effect = Effect::Destructive;
        assert!(inbox.question().is_some());
        inbox.listed[0].approval.calls[0].effect = Effect::Write;
        inbox.listed[0].approval.calls[0].warnings.push("odd".to_owned());
        assert!(inbox.question().is_some());
    }
}

#[test]
fn x11_a_card_that_came_by_itself_is_not_approved_by_a_key_meant_for_another() {
    let now = Instant::now();
    let mut inbox = inbox(vec![approval(1, "low", &["x"]), approval(2, "low", &["x"])], now);
    assert!(inbox.is_new(now));
    assert!(!inbox.is_new(now + LOOK_FIRST));
    inbox.step(1, now + LOOK_FIRST);
    assert!(!inbox.is_new(now + LOOK_FIRST), "they went there themselves");
}

#[test]
fn time_goes_on_between_two_looks() {
    let now = Instant::now();
    let inbox = inbox(vec![approval(1, "low", &["x"])], now);
    let listed = inbox.current().unwrap();
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    assert_eq!(listed.left(now + minutes(2)), Some(minutes(3)));
    assert_eq!(listed.left(now + minutes(6)), None);
}
