//! Clients of protocol version 2026-07-28: no initialisation, every request is self-contained, and questions are
//! answered by repeating the request.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, approval, journal, pending, text, until};
use crate::test_folder::TestFolder;

const POLICY: &str = r#"
[tools."peer/read"]
effect = "read"

[tools."peer/write"]
effect = "write"
summary = "Write {{ line }}"

[tools."peer/slow"]
effect = "destructive"

[tools."peer/grow"]
effect = "external"

[tools."peer/large"]
effect = "write"
risk = "high"
"#;

fn place() -> TestFolder {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", POLICY);
    place
}

fn start(place: &TestFolder) -> Client {
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");
    Client::start(
        place,
        &["--name", "peer", "--hold", "300ms", "--resume", "--lease", "1s"],
        &["python3", peer, "journal"],
    )
}

/// Returns the metadata that a client of this protocol version sends with every request.
pub fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// Calls a tool as a client of this protocol version does. `more` are further parameters.
fn call(client: &mut Client, capabilities: &Value, tool: &str, arguments: &Value, more: Value) -> Value {
    let mut params = json!({"name": tool, "arguments": arguments, "_meta": meta(capabilities)});
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    client.request("tools/call", params)
}

fn state(answer: &Value) -> Value {
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    let question = &answer["result"]["inputRequests"]["countersign"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(
        question["params"]["requestedSchema"]["properties"]["decision"]["default"],
        "deny"
    );
    answer["result"]["requestState"].clone()
}

fn brings(state: &Value, result: Value) -> Value {
    json!({"requestState": state, "inputResponses": {"countersign": result}})
}

fn read_it() {
    std::thread::sleep(Duration::from_millis(1100));
}

#[test]
fn a_client_without_forms_is_told_that_it_is_pending() {
    let place = place();
    let mut client = start(&place);
    let (none, line) = (json!({}), json!({"line": "x"}));
    let read = call(&mut client, &none, "read", &line, json!({}));
    assert_eq!(text(&read), "read {\"line\": \"x\"}");
    let answer = call(&mut client, &none, "write", &line, json!({}));
    assert_eq!(answer["result"]["resultType"], "complete");
    let id = approval(&answer);
    place.good(&["approve", &id]);
    until("it has run", || journal(&place).len() == 2);
    let answer = call(&mut client, &none, "write", &line, json!({}));
    assert_eq!(text(&answer), "write {\"line\": \"x\"}");
    let card = place.json(&["show", &id]);
    assert_eq!(card["agentName"], "modern");
}

#[test]
fn x60_a_client_that_accepts_by_itself_is_not_asked_about_more_than_small_writes() {
    let place = place();
    let forms = json!({"elicitation": {}});
    let yes = json!({"action": "accept", "content": {"decision": "allow"}});
    let mut client = start(&place);
    for tool in ["grow", "large", "slow", "broken"] {
        let mut told = call(&mut client, &forms, tool, &json!({}), json!({}));
        if told["result"]["resultType"] == "input_required" {
            read_it();
            let given = brings(&told["result"]["requestState"], yes.clone());
            told = call(&mut client, &forms, tool, &json!({}), given);
        }
        approval(&told);
    }
    assert_eq!(journal(&place), [""; 0]);
    // An answer to a question from before the settings became stricter decides nothing either.
    drop(client);
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");
    let wide = [
        "--name",
        "peer",
        "--hold",
        "300ms",
        "--ask-client",
        "always",
        "--resume",
        "--lease",
        "1s",
    ];
    let mut client = Client::start(&place, &wide, &["python3", peer, "journal"]);
    let line = json!({"line": "x"});
    let given = state(&call(&mut client, &forms, "grow", &line, json!({})));
    client.kill();
    let mut client = start(&place);
    read_it();
    call(&mut client, &forms, "grow", &line, brings(&given, yes));
    assert_eq!(journal(&place), [""; 0]);
}

#[test]
fn the_person_at_the_client_answers_with_the_same_call() {
    let place = place();
    let forms = json!({"elicitation": {}});
    let line = json!({"line": "x"});
    let mut client = start(&place);
    let given = state(&call(&mut client, &forms, "write", &line, json!({})));
    // The issued state stays valid after a restart,
    client.kill();
    let mut client = start(&place);
    read_it();
    let yes = brings(
        &given,
        json!({"action": "accept", "content": {"decision": "allow"}}),
    );
    let answer = call(&mut client, &forms, "write", &line, yes.clone());
    assert_eq!(text(&answer), "write {\"line\": \"x\"}");
    assert_eq!(journal(&place), [line.to_string()]);
    let sent = std::fs::read_to_string(place.path().join("journal")).unwrap();
    assert!(
        !sent.contains("countersign\":{") && !sent.contains("requestState"),
        "ours stays here: {sent}"
    );
    // but only once.
    let again = call(&mut client, &forms, "write", &line, yes);
    assert_eq!(again["error"]["code"], -32602, "{again}");
    assert_eq!(journal(&place).len(), 1);
    // Declining denies the call.
    let given = state(&call(&mut client, &forms, "write", &line, json!({})));
    read_it();
    let answer = call(
        &mut client,
        &forms,
        "write",
        &line,
        brings(&given, json!({"action": "decline"})),
    );
    assert!(text(&answer).contains("\"denied\""), "{answer}");
    assert_eq!(journal(&place).len(), 1);
}

#[test]
fn a_state_is_good_for_its_own_call_only() {
    let place = place();
    let forms = json!({"elicitation": {}});
    let line = json!({"line": "x"});
    let mut client = start(&place);
    let given = state(&call(&mut client, &forms, "write", &line, json!({})));
    read_it();
    let yes = json!({"action": "accept", "content": {"decision": "allow"}});
    let bad = |state: Value| brings(&state, yes.clone());
    let tampered = json!(format!("{}0", given.as_str().unwrap()));
    let cases = [
        ("other arguments", json!({"line": "y"}), bad(given.clone())),
        ("a state nobody gave", line.clone(), bad(tampered)),
        (
            "a server's state nobody gave",
            line.clone(),
            bad(json!("foreign")),
        ),
        (
            "answers without a state",
            line.clone(),
            json!({"inputResponses": {"countersign": yes}}),
        ),
    ];
    for (what, arguments, more) in cases {
        let answer = call(&mut client, &forms, "write", &arguments, more);
        assert_eq!(answer["error"]["code"], -32602, "{what}: {answer}");
    }
    pending(&place);
    assert_eq!(journal(&place), [""; 0]);
    // An answer that is too fast for a person decides nothing.
    let answer = call(&mut client, &forms, "write", &line, brings(&given, yes.clone()));
    assert_eq!(text(&answer), "write {\"line\": \"x\"}", "this one took its time");
    let given = state(&call(&mut client, &forms, "write", &line, json!({})));
    let answer = call(&mut client, &forms, "write", &line, brings(&given, yes));
    approval(&answer);
    assert_eq!(journal(&place).len(), 1);
    // A destructive call is not asked at the client.
    approval(&call(&mut client, &forms, "slow", &json!({}), json!({})));
}

#[test]
fn a_client_that_takes_tasks_gets_one_that_outlives_the_gateway() {
    let place = place();
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}});
    let mut client = start(&place);
    let answer = call(&mut client, &tasks, "slow", &json!({"n": 1}), json!({}));
    let task = answer["result"].clone();
    assert_eq!(
        (&task["resultType"], &task["status"]),
        (&json!("task"), &json!("working")),
        "{answer}"
    );
    client.kill();
    let mut client = start(&place);
    let about = |id: &Value| json!({"taskId": id, "_meta": meta(&tasks)});
    let id = about(&task["taskId"]);
    let now = client.request("tasks/get", id.clone());
    assert_eq!(now["result"]["status"], "working", "{now}");
    assert!(now["result"].get("result").is_none());
    // The client's first call initialises the new gateway.
    call(&mut client, &tasks, "read", &json!({}), json!({}));
    place.good(&["approve", &pending(&place)]);
    let mut now = Value::Null;
    until("the task is over", || {
        now = client.request("tasks/get", id.clone());
        now["result"]["status"] == "completed"
    });
    assert_eq!(now["result"]["result"]["content"][0]["text"], "slow {\"n\": 1}");
    // A denied call is a completed task with a readable error; a withdrawn one is cancelled.
    let denied = call(&mut client, &tasks, "slow", &json!({"n": 2}), json!({}));
    place.good(&["deny", &pending(&place)]);
    let now = client.request("tasks/get", about(&denied["result"]["taskId"]));
    assert_eq!(
        (&now["result"]["status"], &now["result"]["result"]["isError"]),
        (&json!("completed"), &json!(true))
    );
    let cancelled = call(&mut client, &tasks, "slow", &json!({"n": 3}), json!({}));
    let id = about(&cancelled["result"]["taskId"]);
    client.request("tasks/cancel", id.clone());
    assert_eq!(client.request("tasks/get", id)["result"]["status"], "cancelled");
    let unknown = json!("countersign:01890a5d-ac96-774b-bcce-b302099a8057");
    assert_eq!(
        client.request("tasks/get", about(&unknown))["error"]["code"],
        -32602
    );
    // A client without the tasks capability cannot see tasks.
    let without = json!({"taskId": task["taskId"], "_meta": meta(&json!({}))});
    assert_eq!(client.request("tasks/get", without)["error"]["code"], -32021);
    // The server's own tasks are forwarded to the server.
    assert_eq!(
        client.request("tasks/get", about(&json!("other")))["result"],
        json!({})
    );
}

#[test]
fn an_approved_call_that_the_server_answers_with_questions_goes_on_without_another_approval() {
    let place = TestFolder::without_policy();
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peers/suite/server.mjs");
    let (node, folder) = (crate::peers::node(), crate::peers::peers().join("node"));
    let folder = folder.display().to_string();
    let options = ["--name", "suite", "--hold", "200ms"];
    let mut client = Client::start(&place, &options, &[&node, server, &folder, "stdio"]);
    let forms = json!({"elicitation": {}});
    let (tool, none) = ("test_input_required_result_multi_round", json!({}));
    let id = approval(&call(&mut client, &forms, tool, &none, json!({})));
    place.good(&["approve", &id]);
    let mut first = Value::Null;
    until("it has run", || {
        first = call(&mut client, &forms, tool, &none, json!({}));
        first["result"]["resultType"] == "input_required"
    });
    let accepts = |asked: &Value, content: Value| {
        let step = asked["result"]["inputRequests"]
            .as_object()
            .unwrap()
            .keys()
            .next()
            .unwrap();
        let answer = json!({"action": "accept", "content": content});
        json!({"requestState": asked["result"]["requestState"], "inputResponses": {step: answer}})
    };
    // The state that was issued for one call is not valid for another.
    let name = accepts(&first, json!({"name": "Dolly"}));
    for (other, arguments) in [("greet", none.clone()), (tool, json!({"n": 1}))] {
        let answer = call(&mut client, &forms, other, &arguments, name.clone());
        assert_eq!(answer["error"]["code"], -32602, "{other}: {answer}");
    }
    let second = call(&mut client, &forms, tool, &none, name.clone());
    assert_eq!(second["result"]["resultType"], "input_required", "{second}");
    let again = call(&mut client, &forms, tool, &none, name);
    assert_eq!(again["error"]["code"], -32602, "{again}");
    let last = call(
        &mut client,
        &forms,
        tool,
        &none,
        accepts(&second, json!({"color": "green"})),
    );
    assert_eq!(text(&last), "Dolly likes green", "{last}");
    assert_eq!(
        place.json(&["list", "--all"])["approvals"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
