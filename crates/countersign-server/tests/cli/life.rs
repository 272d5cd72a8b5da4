//! Tests approvals from the proposal to the end of their calls.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::test_folder::{Left, MARIA, TestFolder};

#[test]
fn a9_a_whole_life_from_proposal_to_undo() {
    let place = TestFolder::new();
    let id = place.contact();
    let short = &id[id.len() - 8..];
    let list = place.good(&["list"]);
    assert!(
        list.contains(short) && list.contains("Create contact Maria Garcia, maria@acme.com"),
        "{list}"
    );
    assert!(!list.contains('{'), "people see no raw JSON: {list}");
    let card = place.good(&["show", short]);
    for text in [
        "medium risk",
        "can be undone",
        "/email",
        "maria@acme.com",
        "crm",
        "ana",
        "digest",
    ] {
        assert!(card.contains(text), "no `{text}` in {card}");
    }
    place.script("tool", "cat > got; printf '{\"id\": 7, \"key\": \"%s\", \"tool\": \"%s\"}' \"$COUNTERSIGN_CALL_ID\" \"$COUNTERSIGN_TOOL\"");
    place.good(&["approve", short, "--comment", "fine"]);
    let answer = place.json(&["wait", short, "--exec", "./tool"]);
    let call = format!("{id}.1");
    assert_eq!(answer["calls"][0]["state"], "succeeded");
    assert_eq!(answer["calls"][0]["result"]["key"], call.as_str());
    assert_eq!(answer["calls"][0]["result"]["tool"], "create_contact");
    assert_eq!(std::fs::read_to_string(place.path().join("got")).unwrap(), MARIA);
    // The call ran once and cannot run again.
    std::fs::remove_file(place.path().join("got")).unwrap();
    place.good(&["wait", short, "--exec", "./tool"]);
    assert!(!place.path().join("got").exists());

    let undo = place.json(&["undo", short]);
    assert_eq!(undo["approval"]["description"], "Delete contact 7");
    assert_eq!(undo["approval"]["undoes"], call.as_str());
    let undo = undo["approval"]["id"].as_str().unwrap();
    place.good(&["approve", undo]);
    place.good(&["wait", undo, "--exec", "./tool"]);
    assert_eq!(place.json(&["show", &id])["calls"][0]["state"], "undone");
    let history = place.good(&["show", &id, "--events"]);
    for word in ["proposed", "approved", "started", "succeeded", "undone"] {
        assert!(history.contains(word), "no `{word}` in {history}");
    }
}

#[test]
fn d2_three_terminals_are_a_whole_system() {
    let place = TestFolder::new();
    place.script("tool", "cat");
    let id = place.contact();
    let mut wait = place.command(&["wait", &id, "--exec", "./tool"]);
    let wait = wait
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    place.good(&["approve", &id]);
    let left = Left::of(wait.wait_with_output().unwrap());
    assert_eq!(left.code, 0, "{left:?}");
    assert!(left.stdout.contains("succeeded"), "{left:?}");
    assert!(
        left.stdout.contains(MARIA),
        "the result is what the tool wrote: {left:?}"
    );
}

#[test]
fn d5_denied_expired_and_timed_out_have_their_own_exit_codes() {
    let place = TestFolder::new();
    let id = place.contact();
    let left = place.run(&["wait", &id, "--timeout", "50ms"]);
    assert_eq!(left.code, 6, "{left:?}");
    place.good(&["deny", &id, "--comment", "wrong Maria"]);
    let left = place.run(&["wait", &id, "--json"]);
    assert_eq!(left.code, 5, "{left:?}");
    let answer: Value = serde_json::from_str(&left.stdout).unwrap();
    assert_eq!(
        (answer["status"].as_str(), answer["comment"].as_str()),
        (Some("denied"), Some("wrong Maria"))
    );
    let id = place.propose(&["quick", "{}"]);
    let left = place.run(&["wait", &id]);
    assert_eq!(left.code, 5, "{left:?}");
    assert!(left.stdout.contains("expired"), "{left:?}");
}

#[test]
fn a_tool_that_fails_failed_and_one_that_is_killed_is_unknown() {
    let place = TestFolder::new();
    let ran = |script: &str| {
        place.script("tool", script);
        let id = place.contact();
        place.good(&["approve", &id]);
        let left = place.run(&["wait", &id, "--exec", "./tool"]);
        assert_eq!(left.code, 7, "{left:?}");
        (id, left)
    };
    let (_, left) = ran("echo no such mailbox; exit 9");
    assert!(
        left.stdout.contains("failed") && left.stdout.contains("no such mailbox"),
        "{left:?}"
    );
    let (id, left) = ran("kill -9 $$");
    assert!(left.stdout.contains("unknown"), "{left:?}");
    place.good(&["reconcile", &id, "--succeeded", "--note", "seen in the mailbox"]);
    assert_eq!(place.json(&["show", &id])["calls"][0]["state"], "succeeded");
}

#[test]
fn d7_the_sweep_counts() {
    let place = TestFolder::new();
    place.propose(&["quick", "{}"]);
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(place.good(&["list"]), "Nothing waits for a decision.\n");
    let swept = place.json(&["expire"]);
    assert_eq!(
        (swept["expired"].as_u64(), swept["unknown"].as_u64()),
        (Some(1), Some(0))
    );
}

#[test]
fn propose_and_wait_in_one_command() {
    let place = TestFolder::new();
    place.script("tool", "cat");
    let mut propose = place.command(&["propose", "create_contact", MARIA, "--json", "--exec", "./tool"]);
    let propose = propose
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = loop {
        std::thread::sleep(Duration::from_millis(50));
        if place.path().join("countersign.db").exists() {
            let left = place.run(&["list", "--json"]);
            let list: Value = serde_json::from_str(&left.stdout).unwrap_or_default();
            if let Some(id) = list["approvals"][0]["id"].as_str() {
                break id.to_owned();
            }
        }
    };
    place.good(&["approve", &id]);
    let left = Left::of(propose.wait_with_output().unwrap());
    assert_eq!(left.code, 0, "{left:?}");
    let answer: Value = serde_json::from_str(&left.stdout).unwrap();
    assert_eq!(answer["approval"]["calls"][0]["state"], "succeeded");
    assert!(
        left.stderr.contains(&id),
        "the id is told before the end: {left:?}"
    );
}
