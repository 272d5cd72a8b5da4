//! AgentDojo's tools behind the gateway, with every write that an attacker got a model to make.
//!
//! The server logs a hash of its whole state after each call, so the tests do not rely on the gate's own report.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Client, approval, text};
use crate::peers::peers;
use crate::test_folder::TestFolder;

/// Prints the attacker's write calls of a suite, one per line.
const EXTRACT: &str = "
import gzip, json, sys
for line in gzip.open(sys.argv[1]):
    row = json.loads(line)
    for call in row['calls']:
        if row['suite'] == sys.argv[2] and call['injected'] and call['write']:
            print(json.dumps([call['tool'], call['args']]))
";

fn data() -> Option<PathBuf> {
    let named = std::env::var_os("COUNTERSIGN_DATA").map(PathBuf::from);
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let data = named.unwrap_or_else(|| beside.into());
    let is_there = data.join("score/agentdojo_mcp_server.py").exists();
    if !is_there {
        println!("skipped: there is no evaluation data in `{}`", data.display());
    }
    is_there.then_some(data)
}

fn attacks(data: &std::path::Path, suite: &str) -> Vec<(String, Value)> {
    let file = data.join("provenance_agentdojo.jsonl.gz");
    let mut python = Command::new(peers().join("python/bin/python"));
    let left = python
        .args(["-c", EXTRACT])
        .arg(file)
        .arg(suite)
        .output()
        .unwrap();
    let lines = String::from_utf8(left.stdout).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Reads the server's log: each call with its arguments, and the state after it.
fn notes(place: &TestFolder) -> Vec<Value> {
    let text = std::fs::read_to_string(place.path().join("world")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn check(suite: &str) {
    let Some(data) = data() else { return };
    let mut calls = attacks(&data, suite);
    assert!(!calls.is_empty(), "{suite}");
    let place = TestFolder::without_policy();
    let python = peers().join("python/bin/python").display().to_string();
    let server = data.join("score/agentdojo_mcp_server.py").display().to_string();
    let command = [python.as_str(), &server, suite, "world"];
    let mut init = vec![
        "policy",
        "init",
        "--name",
        "world",
        "--trust-annotations",
        "--timeout",
        "5m",
        "--output",
        "countersign.toml",
        "--",
    ];
    init.extend(command);
    place.good(&init);
    let mut client = Client::start(&place, &["--name", "world", "--hold", "0s"], &command);
    client.greet(json!({}));
    let untouched = notes(&place)[0]["state"].clone();

    // Leave all of them undecided.
    for (tool, arguments) in &calls {
        approval(&client.call(tool, arguments.clone()));
    }
    assert_eq!(notes(&place).len(), 1, "{suite}: nothing reached the world");

    // Deny all of them.
    let pending = || {
        place.json(&["list", "--limit", "500"])["approvals"]
            .as_array()
            .unwrap()
            .clone()
    };
    calls.sort_by_key(|(tool, arguments)| (tool.clone(), arguments.to_string()));
    calls.dedup();
    assert_eq!(
        pending().len(),
        calls.len(),
        "{suite}: the same call is asked once"
    );
    for waiting in pending() {
        place.good(&["deny", waiting["id"].as_str().unwrap()]);
    }
    for (tool, arguments) in &calls {
        let answer = client.call(tool, arguments.clone());
        assert!(text(&answer).contains("\"denied\""), "{suite}: {answer}");
    }
    assert_eq!(notes(&place).len(), 1, "{suite}: nothing reached the world");
    assert_eq!(notes(&place)[0]["state"], untouched);

    // Approve all of them: each reaches the server once, as it was shown.
    for (tool, arguments) in &calls {
        let id = approval(&client.call(tool, arguments.clone()));
        place.good(&["approve", &id]);
        let mut answer = client.call("countersign_wait", json!({"approval": id}));
        while text(&answer).starts_with("running") || text(&answer).starts_with("pending") {
            answer = client.call("countersign_wait", json!({"approval": id}));
        }
    }
    let notes = notes(&place);
    let mut ran: Vec<(String, Value)> = notes[1..]
        .iter()
        .map(|note| (note["tool"].as_str().unwrap().to_owned(), note["args"].clone()))
        .collect();
    ran.sort_by_key(|(tool, arguments)| (tool.clone(), arguments.to_string()));
    assert_eq!(ran, calls, "{suite}");
    assert_ne!(
        notes.last().unwrap()["state"],
        untouched,
        "{suite}: this time the world changed"
    );
}

#[test]
fn x01_attacks_on_the_workspace_reach_nothing_unsigned() {
    check("workspace");
}

#[test]
fn x01_attacks_on_the_bank_reach_nothing_unsigned() {
    check("banking");
}

#[test]
fn x01_attacks_on_the_journey_reach_nothing_unsigned() {
    check("travel");
}

#[test]
fn x01_attacks_on_the_chat_reach_nothing_unsigned() {
    check("slack");
}
