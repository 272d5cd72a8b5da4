//! Asking the person at the client with the protocol's own elicitation requests.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, approval, journal, pending, text, until};
use crate::test_folder::TestFolder;

const POLICY: &str = r#"
[tools."peer/write"]
effect = "write"
summary = "Write {{ line }}"
yes = "Write it"

[tools."peer/slow"]
effect = "destructive"

[tools."peer/large"]
effect = "write"
risk = "critical"

[tools."peer/grow"]
effect = "external"
risk = "low"

[tools."peer/sneak"]
effect = "external"

[tools."peer/read"]
effect = "write"
risk = "medium"
raise_risk = "args.all == true"
"#;

fn asking(options: &[&str]) -> (TestFolder, Client) {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", POLICY);
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");
    let mut all = vec!["--name", "peer"];
    all.extend_from_slice(options);
    let mut client = Client::start(&place, &all, &["python3", peer, "journal"]);
    client.greet(json!({"elicitation": {}}));
    (place, client)
}

fn answer(client: &mut Client, question: &Value, result: &Value) {
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string());
}

/// Sleeps for the shortest time in which a person could have read the question.
fn read_it() {
    std::thread::sleep(Duration::from_millis(1100));
}

#[test]
fn the_person_at_the_client_can_approve_and_deny() {
    let (place, mut client) = asking(&[]);
    let call = client.begin("write", json!({"line": "x", "p\u{430}th": "y"}));
    let question = client.hear("elicitation/create");
    let message = question["params"]["message"].as_str().unwrap();
    // X56: the message also contains what the summary omits, and warnings.
    for part in ["Write x\n", "th: y\n", "warning: /p", "Tool peer/write, write, "] {
        assert!(message.contains(part), "`{part}` is missing from:\n{message}");
    }
    let decision = &question["params"]["requestedSchema"]["properties"]["decision"];
    assert_eq!(
        (&decision["default"], &decision["enumNames"]),
        (&json!("deny"), &json!(["No", "Write it"]))
    );
    read_it();
    answer(
        &mut client,
        &question,
        &json!({"action": "accept", "content": {"decision": "allow"}}),
    );
    assert!(text(&client.answer(call)).starts_with("write {\"line\": \"x\""));
    assert_eq!(journal(&place).len(), 1);

    for (result, status) in [
        (json!({"action": "decline"}), "denied"),
        (
            json!({"action": "accept", "content": {"decision": "deny", "reason": "no"}}),
            "denied",
        ),
    ] {
        let call = client.begin("write", json!({"line": status, "how": result}));
        let question = client.hear("elicitation/create");
        read_it();
        answer(&mut client, &question, &result);
        let told: Value = serde_json::from_str(text(&client.answer(call))).unwrap();
        assert_eq!(told["status"], status, "{result}");
    }
    assert_eq!(journal(&place).len(), 1);
    // Concerns are in the message, too: this call was denied a moment ago.
    client.begin("write", json!({"line": "denied", "how": {"action": "decline"}}));
    let question = client.hear("elicitation/create");
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("look twice: "), "{message}");
}

#[test]
fn x14_an_answer_faster_than_a_person_is_nobodys() {
    for result in [
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "accept", "content": {"decision": "allow"}}),
    ] {
        let (place, mut client) = asking(&["--hold", "200ms"]);
        let call = client.begin("write", json!({"line": "x"}));
        let question = client.hear("elicitation/create");
        answer(&mut client, &question, &result);
        let id = pending(&place);
        // The approval can still be decided elsewhere, and the client is told that it is pending.
        let told = client.answer(call);
        assert_eq!(approval(&told), id, "{result}");
        assert_eq!(journal(&place), [""; 0], "{result}");
    }
}

#[test]
fn x14_what_destroys_is_not_asked_at_the_client() {
    let (place, mut client) = asking(&["--hold", "300ms"]);
    approval(&client.call("slow", json!({})));
    // Nor are tools that are not in the policy.
    approval(&client.call("broken", json!({})));
    // Nor are calls that are too long for a question.
    approval(&client.call("write", json!({"line": "x".repeat(5000)})));
    assert!(client.seen.is_empty(), "{:?}", client.seen);
    assert_eq!(journal(&place), [""; 0]);
    // The operator can allow all of them,
    let (_place, mut client) = asking(&["--ask-client", "always"]);
    client.begin("slow", json!({}));
    client.hear("elicitation/create");
    // or none.
    let (_place, mut client) = asking(&["--ask-client", "never", "--hold", "100ms"]);
    approval(&client.call("write", json!({})));
    assert!(client.seen.is_empty(), "{:?}", client.seen);
}

#[test]
fn x34_who_asked_cannot_approve_where_others_must() {
    let (place, mut client) = asking(&["--hold", "1500ms", "--ask-client", "not-destructive"]);
    let call = client.begin("large", json!({}));
    let question = client.hear("elicitation/create");
    read_it();
    answer(
        &mut client,
        &question,
        &json!({"action": "accept", "content": {"decision": "allow"}}),
    );
    approval(&client.answer(call));
    assert_eq!(journal(&place), [""; 0]);
}

/// Calls a tool like a client that automatically accepts every question, just late enough to look like a person.
fn auto_accept(client: &mut Client, tool: &str, arguments: &Value) -> Value {
    let call = client.begin(tool, arguments.clone());
    let asked = Instant::now() + Duration::from_millis(700);
    while let Some(line) = client.line(asked) {
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["method"] == "elicitation/create" {
            read_it();
            let yes = json!({"action": "accept", "content": {"decision": "allow"}});
            answer(client, &message, &yes);
            break;
        }
        client.seen.push(message);
    }
    client.answer(call)
}

#[test]
fn x60_a_client_that_accepts_by_itself_approves_only_small_writes() {
    let (place, mut client) = asking(&["--hold", "1500ms"]);
    let all = json!({"all": true});
    for (tool, arguments) in [
        ("grow", &json!({})),
        ("sneak", &json!({})),
        ("slow", &json!({})),
        ("large", &json!({})),
        ("read", &all),
        ("broken", &json!({})),
    ] {
        approval(&auto_accept(&mut client, tool, arguments));
    }
    assert_eq!(journal(&place), [""; 0], "nothing of this was a person's word");
    // Reversible calls of low risk are still asked at the client.
    for (tool, arguments) in [("write", json!({"line": "x"})), ("read", json!({"all": false}))] {
        let told = auto_accept(&mut client, tool, &arguments);
        assert!(text(&told).starts_with(tool), "{told}");
    }
    assert_eq!(journal(&place).len(), 2);
    // The operator can widen this with an option.
    let (place, mut client) = asking(&["--ask-client", "not-destructive", "--hold", "1500ms"]);
    assert!(text(&auto_accept(&mut client, "grow", &json!({}))).starts_with("grow"));
    approval(&auto_accept(&mut client, "slow", &json!({})));
    assert_eq!(journal(&place).len(), 1);
}

#[test]
fn decided_elsewhere_the_question_is_taken_back() {
    let (place, mut client) = asking(&[]);
    let call = client.begin("write", json!({"line": "x"}));
    let question = client.hear("elicitation/create");
    place.good(&["approve", &pending(&place)]);
    assert_eq!(text(&client.answer(call)), "write {\"line\": \"x\"}");
    let taken = client.hear("notifications/cancelled");
    assert_eq!(taken["params"]["requestId"], question["id"]);
    // A late answer is not forwarded to the server.
    answer(&mut client, &question, &json!({"action": "decline"}));
    assert!(client.is_quiet(Duration::from_millis(100)));
    until("it has run once", || journal(&place).len() == 1);
}
