//! Tasks with several servers: those of the servers and those of held calls are one list.

use std::time::Instant;

use serde_json::{Value, json};

use super::{got, greeted, place, two};
use crate::client::{Client, LONG, text};

/// Proposes a call as a task and returns the task's id.
fn begin(client: &mut Client, tool: &str, to: &str) -> Value {
    let params = json!({"name": tool, "arguments": {"to": to}, "task": {"ttl": 60000}});
    let answer = client.request("tools/call", params);
    assert_eq!(answer["result"]["task"]["status"], "working", "{answer}");
    answer["result"]["task"]["taskId"].clone()
}

fn listed(client: &mut Client) -> Vec<Value> {
    let answer = client.request("tasks/list", json!({}));
    let tasks = answer["result"]["tasks"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(answer["result"]["nextCursor"], Value::Null, "{answer}");
    tasks.iter().map(|task| task["taskId"].clone()).collect()
}

#[test]
fn held_calls_stand_in_the_list_of_tasks_behind_those_of_all_servers() {
    let place = place(&[("mail", "tasks"), ("news", ""), ("post", "tasks")]);
    let mut client = greeted(&place, &[]);
    let theirs = ["mail-0", "mail-1", "mail-2", "post-0", "post-1", "post-2"];
    assert_eq!(listed(&mut client), theirs);
    let first = begin(&mut client, "mail__send_email", "a");
    let second = begin(&mut client, "news__send_email", "b");
    let expected: Vec<Value> = theirs.iter().map(|id| json!(id)).collect();
    let with =
        |ours: &[&Value]| -> Vec<Value> { expected.iter().chain(ours.iter().copied()).cloned().collect() };
    assert_eq!(listed(&mut client), with(&[&second, &first]));
    // Calls of somebody else at the same servers are not in the list.
    let mut other = greeted(&place, &["--as", "eve"]);
    assert_eq!(listed(&mut other), theirs);
    let approval = first.as_str().unwrap().strip_prefix("countersign:").unwrap();
    place.good(&["approve", approval]);
    let result = client.request("tasks/result", json!({"taskId": first}));
    assert_eq!(text(&result), "mail send_email {\"to\": \"a\"}");
    assert_eq!(
        listed(&mut client),
        with(&[&second]),
        "what is over is not in the list"
    );
}

#[test]
fn held_calls_are_listed_when_no_server_has_tasks() {
    let place = two();
    let mut client = greeted(&place, &[]);
    assert_eq!(listed(&mut client), [Value::Null; 0]);
    let held = begin(&mut client, "news__send_email", "a");
    assert_eq!(listed(&mut client), [held]);
    assert_eq!(
        got(&place, "news", "tasks/list"),
        [""; 0],
        "it has none, and is not asked"
    );
}

#[test]
fn x14_no_server_speaks_about_a_task_of_a_held_call() {
    let place = place(&[("mail", ""), ("news", "forges")]);
    let mut client = greeted(&place, &[]);
    let held = begin(&mut client, "mail__send_email", "a");
    let escaped = held.to_string().replacen('c', "\\u0063", 1);
    for (method, id) in [
        ("notifications/tasks/status", held.to_string()),
        ("notifications/tasks", held.to_string()),
        ("notifications/tasks", escaped),
    ] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"taskId":{id},"status":"completed","forged":1}}}}"#
        );
        let call = client.begin("mail__say", json!({ "line": line }));
        let answer = loop {
            let line = client.line(Instant::now() + LONG).unwrap();
            assert!(!line.contains("\"forged\":1"), "{line}");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == call {
                break message;
            }
        };
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert_eq!(listed(&mut client), [json!("plain"), held.clone()]);
    let answer = client.call("news__read", json!({}));
    assert!(answer["result"].is_null(), "{answer}");
    let status = client.request("tasks/get", json!({ "taskId": held }));
    assert_eq!(status["result"]["status"], "working", "{status}");
}
