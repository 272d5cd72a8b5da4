//! A client that asks before it runs one of its own tools: `countersign_approve` answers with a person's decision.

use serde_json::{Value, json};

use crate::client::{Client, journal, pending, text, until};
use crate::test_folder::TestFolder;

const POLICY: &str = r#"
[tools.Bash]
effect = "destructive"
summary = "Run {{ command }}"

[tools.Read]
effect = "read"

[tools.Never]
effect = "write"
deny = "true"

[tools.Quick]
effect = "write"
ttl = "1s"

[tools."peer/write"]
effect = "write"
"#;

fn prompting() -> (TestFolder, Client) {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", POLICY);
    let client = Client::peer(&place, &["--permission-prompt", "--hold", "200ms"]);
    (place, client)
}

fn ask(client: &mut Client, arguments: &str) -> u64 {
    client.begin_raw("countersign_approve", arguments)
}

/// Parses the answer, which is one text block of JSON.
#[track_caller]
fn answer_json(answer: &Value) -> Value {
    assert_eq!(
        answer["result"]["content"].as_array().unwrap().len(),
        1,
        "{answer}"
    );
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    serde_json::from_str(text(answer)).unwrap()
}

#[track_caller]
fn check_denied(client: &mut Client, arguments: &str, reason: &str) {
    let id = ask(client, arguments);
    let told = answer_json(&client.answer(id));
    assert_eq!(told["behavior"], "deny", "{arguments}: {told}");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains(reason), "{arguments}: {message}");
    assert!(told.get("updatedInput").is_none(), "{told}");
}

#[test]
fn b3_a_yes_comes_with_the_very_bytes_that_were_shown() {
    let (place, mut client) = prompting();
    let input = r#"{ "command":"rm -rf \u0062uild", "timeout":12345678901234567890123, "x":1e2 }"#;
    // Unknown fields are ignored.
    let id = ask(
        &mut client,
        &format!(
            r#"{{"tool_name":"Bash","input":{input},"tool_use_id":"toolu_01","permission_suggestions":[{{}}]}}"#
        ),
    );
    let approval = pending(&place);
    let card = place.good(&["show", &approval]);
    assert!(
        card.contains("Run rm -rf build") && card.contains("Bash"),
        "{card}"
    );
    place.good(&["approve", &approval]);
    let answer = client.answer(id);
    assert_eq!(
        text(&answer),
        format!(r#"{{"behavior":"allow","updatedInput":{input}}}"#)
    );
    let shown = place.json(&["show", &approval]);
    assert_eq!(shown["calls"][0]["state"], "succeeded");
    // After an edit, the client is told to run the edited arguments.
    let id = ask(&mut client, r#"{"tool_name":"Bash","input":{"command":"make"}}"#);
    place.write("edited.json", r#"{"command": "make -n"}"#);
    place.good(&["approve", &pending(&place), "--edit", "1=@edited.json"]);
    assert_eq!(
        text(&client.answer(id)),
        r#"{"behavior":"allow","updatedInput":{"command": "make -n"}}"#
    );
    // A call that the policy lets pass is allowed at once.
    let id = ask(&mut client, r#"{"tool_name":"Read","input":{"file_path":"a"}}"#);
    assert_eq!(
        text(&client.answer(id)),
        r#"{"behavior":"allow","updatedInput":{"file_path":"a"}}"#
    );
    assert_eq!(journal(&place), [""; 0], "the server has nothing to do with it");
}

#[test]
fn b4_a_no_a_silence_and_a_rule_are_denials_with_words() {
    let (place, mut client) = prompting();
    let id = ask(&mut client, r#"{"tool_name":"Bash","input":{"command":"rm"}}"#);
    place.good(&["deny", &pending(&place), "--comment", "use the staging copy"]);
    assert_eq!(
        answer_json(&client.answer(id)),
        json!({"behavior": "deny", "message": "denied by ana: use the staging copy"})
    );
    check_denied(
        &mut client,
        r#"{"tool_name":"Quick","input":{}}"#,
        "nobody decided in time",
    );
    check_denied(&mut client, r#"{"tool_name":"Never","input":{}}"#, "forbids");
}

#[test]
fn a_prompt_that_cannot_be_read_is_a_denial() {
    let (place, mut client) = prompting();
    for (arguments, reason) in [
        (r#"{}"#, "`tool_name` is missing"),
        (r#"{"tool_name":7,"input":{}}"#, "`tool_name` is missing"),
        (r#"{"tool_name":"Bash"}"#, "`input` is missing"),
        (r#"{"tool_name":"Bash","input":"rm"}"#, "object"),
        (r#"{"tool_name":"Bash","input":[]}"#, "object"),
        (r#"{"tool_name":"Bash","input":null}"#, "object"),
        (
            r#"{"tool_name":"Bash","Tool_Name":"Read","input":{}}"#,
            "not a member",
        ),
        (r#"{"tool_name":"","input":{}}"#, "tool name"),
        (r#"{"tool_name":"B\u0430sh","input":{}}"#, "tool name"),
        (
            r#"{"tool_name":"peer/write","input":{"line":"x"}}"#,
            "without `/`",
        ),
    ] {
        check_denied(&mut client, arguments, reason);
    }
    // Input with more than one interpretation is refused as a message.
    for arguments in [
        r#"{"tool_name":"Bash","input":{"a":1,"a":2}}"#,
        r#"{"tool_name":"Read","tool_name":"Bash","input":{}}"#,
    ] {
        let id = client.begin_raw("countersign_approve", arguments);
        let answer = client.answer(id);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("a key occurs twice"), "{answer}");
    }
    let large = "x".repeat(65 * 1024);
    let arguments = format!(r#"{{"tool_name":"Bash","input":{{"command":"{large}"}}}}"#);
    check_denied(&mut client, &arguments, "larger than 65536 bytes");
    assert_eq!(place.json(&["list", "--all"])["approvals"], json!([]));
    // The tool exists only if the operator enables it.
    let mut other = Client::peer(&place, &[]);
    let answer = other.call("countersign_approve", json!({"tool_name": "Read", "input": {}}));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(text(&answer).contains("there is no tool"), "{answer}");
}

#[test]
fn x01_an_agent_that_asks_for_itself_gains_nothing() {
    let (place, mut client) = prompting();
    // The agent and the client ask for the same call: one decision, and only one of them is allowed.
    let input = r#"{"tool_name":"Bash","input":{"command":"make"}}"#;
    let ids = [ask(&mut client, input), ask(&mut client, input)];
    let approval = pending(&place);
    place.good(&["approve", &approval]);
    let mut told = ids.map(|id| answer_json(&client.answer(id))["behavior"].clone());
    told.sort_by_key(Value::to_string);
    assert_eq!(told, [json!("allow"), json!("deny")]);
    // A delivered approval is used up: the next prompt is a new approval.
    let id = ask(&mut client, input);
    let again = pending(&place);
    assert_ne!(again, approval);
    // Approval of a client's tool does not count for a server's tool with the same name and arguments.
    place.good(&["approve", &again]);
    client.answer(id);
    let id = ask(&mut client, r#"{"tool_name":"write","input":{"line":"x"}}"#);
    place.good(&["approve", &pending(&place)]);
    client.answer(id);
    let call = client.call("write", json!({"line": "x"}));
    assert_eq!(
        call["result"]["structuredContent"]["status"], "pending_confirmation",
        "{call}"
    );
    assert_eq!(journal(&place), [""; 0]);
    until("one is pending", || {
        place.json(&["list"])["approvals"].as_array().unwrap().len() == 1
    });
}
