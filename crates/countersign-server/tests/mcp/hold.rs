//! A call that is not a read waits for a person, and runs once with the bytes that the person saw.

use std::time::Duration;

use serde_json::json;

use crate::client::{Client, approval, assert_not_sent, journal, pending, text, until};
use crate::test_folder::TestFolder;

const POLICY: &str = r#"
[tools."peer/read"]
effect = "read"

[tools."peer/write"]
effect = "write"
summary = "Write {{ line }}"

[tools."peer/slow"]
effect = "write"

[tools."peer/crash"]
effect = "write"

[tools."peer/broken"]
effect = "write"

[tools."peer/large"]
effect = "write"

[tools."peer/grow"]
effect = "read"

[tools."peer/sneak"]
effect = "read"

[tools."peer/never"]
effect = "write"
deny = "1 < 2"
"#;

pub fn place() -> TestFolder {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", POLICY);
    place
}

/// Creates a folder with a policy that allows any number of pending approvals per agent.
pub fn place_without_limits() -> TestFolder {
    let place = TestFolder::without_policy();
    let limits = "[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n";
    place.write("countersign.toml", format!("{POLICY}\n{limits}"));
    place
}

#[test]
fn a1_a_read_passes_and_a_write_waits_for_a_person() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    let answer = client.call("read", json!({"n": 1}));
    assert_eq!(text(&answer), "read {\"n\": 1}");
    assert!(!place.path().join("countersign.db").exists() || place.json(&["list"])["approvals"] == json!([]));

    let raw = r#"{"line" : "caf\u00e9", "n":12345678901234567890123, "x":1e2}"#;
    let frame = format!(
        r#"{{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{{"name":"write","arguments":{raw}}}}}"#
    );
    client.send(&frame);
    let id = pending(&place);
    let card = place.good(&["show", &id]);
    assert!(
        card.contains("Write café") && card.contains("peer/write"),
        "{card}"
    );
    assert_eq!(journal(&place).len(), 1, "only the read has run");
    place.good(&["approve", &id]);
    let line = client
        .line(std::time::Instant::now() + crate::client::LONG)
        .unwrap();
    assert!(line.contains(r#""id":"w""#) && line.contains("write {"), "{line}");
    assert_eq!(journal(&place)[1], raw, "the very bytes");
}

#[test]
fn b4_a_denial_is_an_answer_that_the_model_can_read() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    let call = client.begin("write", json!({"line": "x"}));
    let id = pending(&place);
    place.good(&["deny", &id, "--comment", "use the staging copy"]);
    let answer = client.answer(call);
    assert_eq!(answer["result"]["isError"], true);
    let told: serde_json::Value = serde_json::from_str(text(&answer)).unwrap();
    assert_eq!(
        (&told["status"], &told["comment"]),
        (&json!("denied"), &json!("use the staging copy"))
    );
    assert_eq!(journal(&place), [""; 0]);
}

#[test]
fn d2_a_client_that_cannot_wait_is_told_and_comes_back() {
    let place = place();
    let mut client = Client::peer(&place, &["--hold", "100ms"]);
    let arguments = json!({"line": "x"});
    let answer = client.call("write", arguments.clone());
    let id = approval(&answer);
    assert_eq!(answer["result"]["isError"], false);
    assert_eq!(answer["result"]["structuredContent"]["approval"], json!(id));
    // The same call again joins the same approval, and so does `countersign_wait`.
    assert_eq!(approval(&client.call("write", arguments.clone())), id);
    let wait = json!({"approval": id});
    assert_eq!(approval(&client.call("countersign_wait", wait.clone())), id);
    assert_eq!(pending(&place), id);
    place.good(&["approve", &id]);
    until("it has run with nobody waiting", || journal(&place).len() == 1);
    let answer = client.call("countersign_wait", wait.clone());
    assert_eq!(text(&answer), "write {\"line\": \"x\"}");
    // The result was delivered, so the same call is a new proposal.
    let again = approval(&client.call("write", arguments));
    assert_ne!(again, id);
    assert_eq!(journal(&place).len(), 1);
}

#[test]
fn the_same_call_again_gets_the_result_that_nobody_was_told() {
    let place = place();
    let mut client = Client::peer(&place, &["--hold", "100ms"]);
    let arguments = json!({"line": "x"});
    let id = approval(&client.call("write", arguments.clone()));
    place.good(&["approve", &id]);
    until("it has run", || journal(&place).len() == 1);
    let answer = client.call("write", arguments);
    assert_eq!(text(&answer), "write {\"line\": \"x\"}");
    assert_eq!(journal(&place).len(), 1, "and not again");
    // Another client cannot wait for an approval that is not its own.
    let other = Client::peer(&place, &["--as", "eve"]);
    let mut other = other;
    let answer = other.call("countersign_wait", json!({"approval": id}));
    assert!(text(&answer).contains("there is no approval"), "{answer}");
}

#[test]
fn progress_comes_at_once_and_cancelling_ends_the_wait_only() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    let params = json!({"name": "write", "arguments": {"line": "x"}, "_meta": {"progressToken": "p"}});
    let call = client.ask("tools/call", params);
    let progress = client.hear("notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "p");
    let id = pending(&place);
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
            .to_string(),
    );
    assert!(client.is_quiet(Duration::from_millis(200)), "{:?}", client.seen);
    assert_eq!(pending(&place), id, "the approval stands");
    place.good(&["approve", &id]);
    until("it has run", || journal(&place).len() == 1);
    assert!(
        client.is_quiet(Duration::from_millis(200)),
        "a cancelled request gets no answer"
    );
    let sent = std::fs::read_to_string(place.path().join("journal")).unwrap();
    assert!(!sent.contains("progressToken"), "nobody listens any more: {sent}");
}

#[test]
fn cancelling_withdraws_where_the_operator_wants_it() {
    let place = place();
    let mut client = Client::peer(&place, &["--on-cancel", "withdraw"]);
    let call = client.begin("write", json!({"line": "x"}));
    let id = pending(&place);
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
            .to_string(),
    );
    until("it is withdrawn", || {
        place.json(&["show", &id])["status"] == "withdrawn"
    });
    assert_eq!(journal(&place), [""; 0]);
}

#[test]
fn what_the_policy_forbids_nobody_is_asked() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    let answer = client.call("never", json!({}));
    assert!(text(&answer).contains("the policy forbids this call"), "{answer}");
    assert!(!text(&answer).contains("1 < 2"), "{answer}");
    // Arguments with more than one interpretation are not proposed either.
    client.send(r#"{"jsonrpc":"2.0","id":"d","method":"tools/call","params":{"name":"write","arguments":{"a":1,"a":2}}}"#);
    let line = client
        .line(std::time::Instant::now() + crate::client::LONG)
        .unwrap();
    assert!(
        line.contains("\"error\":{\"code\":-32700") && line.contains("a key occurs twice"),
        "{line}"
    );
    assert_eq!(journal(&place), [""; 0]);
    assert_eq!(place.json(&["list", "--all"])["approvals"], json!([]));
}

#[test]
fn x28_a_tool_that_is_not_in_the_policy_is_held_with_a_warning() {
    let place = TestFolder::without_policy();
    let mut client = Client::peer(&place, &["--hold", "50ms"]);
    let id = approval(&client.call("read", json!({})));
    let card = place.good(&["show", &id]);
    assert!(card.contains("not in the policy"), "{card}");
    assert_eq!(journal(&place), [""; 0]);
}

#[test]
fn b3_errors_and_large_results_reach_the_client_as_the_server_sent_them() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    let call = client.begin("broken", json!({}));
    place.good(&["approve", &pending(&place)]);
    let answer = client.answer(call);
    assert_eq!(
        answer["error"],
        json!({"code": -32000, "message": "broken", "data": {"b": 1, "a": 2}})
    );
    let call = client.begin("large", json!({}));
    place.good(&["approve", &pending(&place)]);
    assert_eq!(text(&client.answer(call)).len(), 2 << 20);
}

#[test]
fn the_model_is_told_what_a_person_changed() {
    let place = place();
    let mut client = Client::peer(&place, &[]);
    let call = client.begin("write", json!({"line": "x"}));
    let id = pending(&place);
    place.write("edited.json", r#"{"line": "better"}"#);
    place.good(&["approve", &id, "--edit", "1=@edited.json"]);
    let answer = client.answer(call);
    assert_eq!(text(&answer), "write {\"line\": \"better\"}");
    let note = answer["result"]["content"][1]["text"].as_str().unwrap();
    assert!(note.contains(r#"It ran with: {"line": "better"}"#), "{note}");
    assert_eq!(journal(&place), [r#"{"line": "better"}"#]);
}

#[test]
fn x30_a_tool_that_became_another_one_does_not_run() {
    for change in ["grow", "sneak"] {
        let place = place();
        let mut client = Client::peer(&place, &[]);
        let call = client.begin("write", json!({"line": "x"}));
        let id = pending(&place);
        client.call(change, json!({}));
        place.good(&["approve", &id]);
        let answer = client.answer(call);
        assert!(
            text(&answer).contains("no longer the one that was shown"),
            "{change}: {answer}"
        );
        assert_not_sent(&answer);
        assert_eq!(journal(&place), ["{}"], "only `{change}` has run");
        assert_eq!(place.json(&["show", &id])["calls"][0]["state"], "failed");
    }
}

/// The hint for readers of the client's log gives commands that work, also without a terminal.
#[test]
fn x56_the_hint_about_a_held_call_leads_to_a_decision() {
    let place = place();
    let mut client = Client::peer(&place, &["--hold", "50ms"]);
    let id = approval(&client.call("write", json!({"line": "x"})));
    // Run from another folder, as a person would.
    let run = |words: &[&str]| {
        let mut command = place.command(words);
        command
            .current_dir("/")
            .env_remove("COUNTERSIGN_STORE")
            .stdin(std::process::Stdio::null());
        crate::test_folder::Left::of(command.output().unwrap())
    };
    let digest = place.json(&["show", &id])["digest"].as_str().unwrap()[..12].to_owned();
    let told = place.path().join("countersign.db").canonicalize().unwrap();
    let told = format!("--full --store {}", told.display());
    place.good(&["approve", &id]);
    let (_, stderr) = client.close();
    assert!(stderr.contains(&told) && stderr.contains("--digest"), "{stderr}");
    assert!(
        !stderr.contains(&digest),
        "what was not shown cannot be approved: {stderr}"
    );
    let look = stderr
        .split('`')
        .find(|part| part.starts_with("countersign show"))
        .unwrap();
    let words: Vec<&str> = look.split(' ').skip(1).collect();
    assert_eq!(run(&words).code, 0, "{words:?}");
}
