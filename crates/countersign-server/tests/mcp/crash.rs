//! Crashes in the middle of a call: nothing runs twice, nothing acknowledged is lost, and an uncertain outcome becomes
//! unknown.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, approval, journal, pending, text, until};
use crate::hold::{place, place_without_limits};
use crate::test_folder::TestFolder;

/// Options for a stateless server: a new gateway takes over calls that an earlier one left open.
const STATELESS: [&str; 3] = ["--resume", "--lease", "1s"];
/// Slightly longer than the lease in `STATELESS`.
const LAPSED: Duration = Duration::from_millis(1300);

fn state(place: &TestFolder, id: &str) -> Value {
    place.json(&["show", id])["calls"][0]["state"].clone()
}

#[test]
fn x32_killed_while_pending_and_taken_up_by_the_next() {
    let place = place();
    let mut client = Client::peer(&place, &STATELESS);
    client.begin("write", json!({"line": "x"}));
    let id = pending(&place);
    client.kill();
    // A new gateway joins the pending approval.
    let mut client = Client::peer(&place, &["--hold", "100ms", "--resume", "--lease", "1s"]);
    assert_eq!(approval(&client.call("write", json!({"line": "x"}))), id);
    place.good(&["approve", &id]);
    until("it has run", || journal(&place).len() == 1);
    assert_eq!(
        text(&client.call("write", json!({"line": "x"}))),
        "write {\"line\": \"x\"}"
    );
    assert_eq!(journal(&place).len(), 1);
}

#[test]
fn x12_killed_before_the_start_it_runs_once_in_the_next() {
    let place = place();
    let mut client = Client::peer(&place, &STATELESS);
    client.begin("write", json!({"line": "x"}));
    let id = pending(&place);
    client.kill();
    place.good(&["approve", &id]);
    assert_eq!(state(&place, &id), "released");
    let mut client = Client::peer(&place, &STATELESS);
    until("it has run", || state(&place, &id) == "succeeded");
    assert_eq!(
        text(&client.call("write", json!({"line": "x"}))),
        "write {\"line\": \"x\"}"
    );
    assert_eq!(journal(&place), [r#"{"line":"x"}"#]);
}

#[test]
fn x12_killed_after_the_start_nobody_knows_and_nobody_runs_it_again() {
    let place = place();
    place.write(
        "countersign.toml",
        "[tools.\"peer/slow\"]\neffect = \"write\"\ntimeout = \"2s\"\n",
    );
    let mut client = Client::peer(&place, &["--lease", "1s"]);
    client.begin("slow", json!({"line": "x"}));
    let id = pending(&place);
    place.good(&["approve", &id]);
    until("it has started", || journal(&place).len() == 1);
    client.kill();
    assert_eq!(state(&place, &id), "running");
    std::thread::sleep(LAPSED);
    let mut client = Client::peer(&place, &["--lease", "1s"]);
    // The same call waits until the outcome of the first one is settled.
    let answer = client.call("slow", json!({"line": "x"}));
    let told: Value = serde_json::from_str(text(&answer)).unwrap();
    assert_eq!(told["status"], "unknown", "{answer}");
    assert_eq!(state(&place, &id), "unknown");
    assert_eq!(journal(&place).len(), 1, "not again");
}

#[test]
fn x12_killed_after_the_start_the_same_call_at_once_says_that_it_may_have_run() {
    let place = place();
    place.write(
        "countersign.toml",
        "[tools.\"peer/slow\"]\neffect = \"write\"\ntimeout = \"2s\"\n",
    );
    let mut client = Client::peer(&place, &[]);
    client.begin("slow", json!({"line": "x", "n": 1}));
    let first = pending(&place);
    place.good(&["approve", &first]);
    until("it has started", || journal(&place).len() == 1);
    client.kill();
    // The lease of the killed gateway has not expired yet, so it may still be alive.
    let mut client = Client::peer(&place, &["--hold", "100ms"]);
    let concerns = |id: &str| place.json(&["show", id])["calls"][0]["concerns"].to_string();
    let said = "the same call was started at ";
    // Same values, different spelling.
    let again = client.begin_raw("slow", r#"{ "n":1.0, "line":"\u0078" }"#);
    let again = approval(&client.answer(again));
    assert_ne!(again, first);
    assert!(concerns(&again).contains(said), "{}", concerns(&again));
    assert!(place.good(&["show", &again]).contains(said), "on the card, too");
    let other = approval(&client.call("slow", json!({"line": "y", "n": 1})));
    assert!(!concerns(&other).contains(said), "{}", concerns(&other));
    // After reconciliation, the concern disappears.
    until("it is unknown", || {
        place.run(&["expire"]);
        place.run(&["reconcile", &format!("{first}.1"), "--failed"]).code == 0
    });
    assert!(!concerns(&again).contains(said), "{}", concerns(&again));
    assert_eq!(journal(&place).len(), 1, "not again");
}

#[test]
fn killed_after_the_result_was_kept_the_next_hands_it_out() {
    let place = place();
    let mut client = Client::peer(&place, &["--hold", "50ms", "--lease", "1s"]);
    let id = approval(&client.call("write", json!({"line": "x"})));
    place.good(&["approve", &id]);
    until("it has run", || state(&place, &id) == "succeeded");
    client.kill();
    std::thread::sleep(LAPSED);
    let mut client = Client::peer(&place, &["--hold", "50ms", "--lease", "1s"]);
    assert_eq!(
        text(&client.call("write", json!({"line": "x"}))),
        "write {\"line\": \"x\"}"
    );
    client.kill();
    std::thread::sleep(LAPSED);
    // The result has been delivered now, and that is remembered across the restart too.
    let mut client = Client::peer(&place, &["--hold", "50ms", "--lease", "1s"]);
    assert_ne!(approval(&client.call("write", json!({"line": "x"}))), id);
    assert_eq!(journal(&place).len(), 1);
}

#[test]
fn what_is_approved_runs_though_the_client_is_gone() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    client.begin("write", json!({"line": "x"}));
    let id = pending(&place);
    let ending = std::thread::spawn(move || client.close());
    std::thread::sleep(Duration::from_millis(200));
    assert!(!ending.is_finished(), "it waits for the decision");
    place.good(&["approve", &id]);
    let (code, stderr) = ending.join().unwrap();
    assert_eq!(code, 7, "{stderr}");
    assert_eq!(state(&place, &id), "succeeded");
    assert_eq!(journal(&place), [r#"{"line":"x"}"#]);
}

#[test]
fn told_to_end_it_ends_and_the_approval_stands() {
    let place = place();
    let mut client = Client::peer(&place, &STATELESS);
    client.begin("write", json!({"line": "x"}));
    let id = pending(&place);
    let pid = client.child.id().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    let (code, _) = client.ended();
    assert_eq!(code, 7, "as the server ended");
    assert_eq!(pending(&place), id);
    assert_eq!(journal(&place), [""; 0]);
}

#[test]
fn x12_a_server_that_ends_in_the_middle_leaves_the_call_unknown() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    let call = client.begin("crash", json!({"line": "x"}));
    let id = pending(&place);
    place.good(&["approve", &id]);
    let answer = client.answer(call);
    assert!(text(&answer).contains("\"unknown\""), "{answer}");
    let (code, _) = client.close();
    assert_eq!(code, 3, "as the server ended");
    assert_eq!(state(&place, &id), "unknown");
    drop(Client::peer(&place, &[]));
    assert_eq!(journal(&place).len(), 1, "not again");
}

#[test]
fn a_wrong_gateway_runs_nothing_of_anothers() {
    let place = place();
    let mut client = Client::peer(&place, &["--hold", "50ms"]);
    let id = approval(&client.call("write", json!({"line": "x"})));
    client.kill();
    place.good(&["approve", &id]);
    // Same name and same tools, but a different server.
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");
    let mut other = Client::start(&place, &["--name", "peer"], &["python3", peer, "other"]);
    other.greet(json!({}));
    other.call("read", json!({}));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(state(&place, &id), "released");
    assert_eq!(journal(&place), [""; 0]);
}

#[test]
fn fifty_calls_at_once_each_run_once() {
    let place = place_without_limits();
    let mut client = Client::peer(&place, &[]);
    let calls: Vec<u64> = (0..50)
        .map(|n| client.begin("write", json!({"line": n})))
        .collect();
    // Pending calls do not block reads.
    assert_eq!(text(&client.call("read", json!({}))), "read {}");
    let mut waiting = Vec::new();
    until("all are pending", || {
        let listed = place.json(&["list", "--limit", "100"]);
        waiting = listed["approvals"].as_array().unwrap().clone();
        waiting.len() == 50
    });
    for approval in &waiting {
        place.good(&["approve", approval["id"].as_str().unwrap()]);
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(text(&client.answer(call)), format!("write {{\"line\": {n}}}"));
    }
    let mut ran = journal(&place);
    ran.retain(|arguments| arguments != "{}");
    ran.sort();
    ran.dedup();
    assert_eq!(ran.len(), 50);
    assert_eq!(journal(&place).len(), 51);
}
