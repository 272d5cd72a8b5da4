//! Calls that pass and are not reads: recorded before they are sent, with the server's result.

use serde_json::{Value, json};

use crate::client::{Client, assert_not_sent, journal, text, until};
use crate::test_folder::TestFolder;

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

[tools."peer/large"]
effect = "write"
summary = "Make it large"
timeout = "2s"
"#;

fn place() -> TestFolder {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", POLICY);
    place
}

fn passed(place: &TestFolder) -> Vec<Value> {
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
    // Reads leave no record, and a repeated call is a new one.
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

/// X84: a call that waits behind a server that does not read its input is not sent after its deadline.
#[test]
fn x84_a_call_that_waited_past_its_deadline_is_not_sent() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    client.call("read", json!({"warm": true}));
    let gateway = client.child.id();
    let children = std::fs::read_to_string(format!("/proc/{gateway}/task/{gateway}/children"));
    let children = children.unwrap_or_default();
    let server = children
        .split_whitespace()
        .next()
        .map(str::to_owned)
        .unwrap_or_else(|| {
            let found = std::process::Command::new("pgrep")
                .args(["-P", &gateway.to_string()])
                .output();
            String::from_utf8(found.unwrap().stdout)
                .unwrap()
                .trim()
                .to_owned()
        });
    let signal = |name: &str| {
        let sent = std::process::Command::new("kill").args([name, &server]).status();
        assert!(sent.unwrap().success());
    };
    let held = client.begin("large", json!({}));
    let id = crate::client::pending(&place);
    let before = journal(&place).len();
    signal("-STOP");
    // Fill the pipe, so that the next call waits in the gateway.
    let filling: Vec<u64> = (0..8)
        .map(|n| client.begin("read", json!({"n": n, "filling": "x".repeat(32 * 1024)})))
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let late = client.begin("slow", json!({"late": true}));
    until("it is on record as started", || !passed(&place).is_empty());
    place.good(&["approve", &id]);
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    signal("-CONT");
    for id in filling {
        client.answer(id);
    }
    let answer = client.answer(late);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(answer.to_string().contains("its time was over"), "{answer}");
    assert_not_sent(&client.answer(held));
    let got = journal(&place);
    assert_eq!(
        got.len(),
        before + 8,
        "only the reads that fill the pipe: {got:?}"
    );
    assert!(!got.iter().any(|arguments| arguments.contains("late")));
    until("what was not sent is on record as such", || {
        let record = &passed(&place)[0]["calls"][0];
        record.to_string().contains("not sent")
    });
}
