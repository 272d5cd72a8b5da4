//! Calls that pass and are more than reads: on record before they are sent, with what the server answered.

use serde_json::{Value, json};

use crate::client::{Client, journal, text, until};
use crate::place::Place;

const POLICY: &str = r#"
[tools."peer/read"]
effect = "read"

[tools."peer/write"]
effect = "write"
hold = "'careful' in args"
summary = "Write {{ line }}"

[tools."peer/broken"]
effect = "write"
hold = "false"

[tools."peer/slow"]
effect = "write"
hold = "false"
timeout = "2s"
"#;

fn place() -> Place {
    let place = Place::without_policy();
    place.write("countersign.toml", POLICY);
    place
}

fn passed(place: &Place) -> Vec<Value> {
    let listed = place.json(&["list", "--state", "passed"]);
    listed["approvals"].as_array().unwrap().clone()
}

#[test]
fn x58_what_passes_is_on_record_with_its_answer() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    let answer = client.call("write", json!({"line": "x"}));
    assert_eq!(text(&answer), "write {\"line\": \"x\"}");
    until("its end is on record", || {
        passed(&place)
            .first()
            .is_some_and(|record| record["calls"][0]["state"] == "succeeded")
    });
    let record = &passed(&place)[0];
    assert_eq!(record["calls"][0]["tool"], "peer/write");
    assert_eq!(record["decidedBy"], Value::Null);
    let shown = place.good(&["show", record["id"].as_str().unwrap()]);
    assert!(
        shown.contains("passed by the policy, nobody was asked") && shown.contains("Write x"),
        "{shown}"
    );
    assert!(!shown.contains("approved"), "{shown}");
    client.call("broken", json!({}));
    until("the error is on record", || {
        passed(&place)
            .first()
            .is_some_and(|record| record["calls"][0]["state"] == "failed")
    });
    // Reads leave nothing, and the same call again is a new one.
    client.call("read", json!({}));
    client.call("write", json!({"line": "x"}));
    until("three are on record", || passed(&place).len() == 3);
    assert_eq!(place.json(&["list"])["approvals"], json!([]));
}

#[test]
fn x58_killed_while_a_passed_call_runs_it_is_unknown_and_runs_once() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    client.begin("slow", json!({"line": "x"}));
    until("it runs", || journal(&place).len() == 1);
    assert_eq!(passed(&place)[0]["calls"][0]["state"], "running");
    client.kill();
    let _next = Client::peer(&place, &[]);
    until("nobody knows", || {
        passed(&place)[0]["calls"][0]["state"] == "unknown"
    });
    assert_eq!(journal(&place).len(), 1);
}
