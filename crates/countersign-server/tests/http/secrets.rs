//! X64: what the policy calls secret stands in no answer, wherever a tool or an agent repeats it.

use countersign_server::access::Scope;
use serde_json::json;

use crate::support::{Service, id};

const POLICY: &str = r#"
[tools.echo]
effect = "write"
secret = ["api_key"]
undo = { tool = "echo", arguments = { api_key = "{{ result.api_key }}", note = "{{ result.note }}" } }

[tools.lookup]
effect = "read"
secret = ["api_key"]
"#;

/// Needs escaping in JSON and in addresses, and is found in no other way by chance.
const CANARY: &str = "k\u{e4}nary/\"7+9\" &x=1";

#[tokio::test]
async fn x64_a_secret_stands_in_no_answer() {
    let service = Service::with_policy(POLICY).await;
    let agent = service.agent("crm").await;
    let ana = service.decider("ana").await;
    let reply = service.with_scope("main", Scope::Reply).await;
    let note = format!("the key is {CANARY}");
    let arguments = json!({ "api_key": CANARY, "note": note });
    let said = json!([{ "role": "user", "text": format!("please send: the key is {CANARY}") }]);
    let calls = json!([{ "tool": "echo", "arguments": arguments }]);
    let claim = format!("I use {CANARY}");
    let body = json!({ "channel": "c", "claim": claim, "conversation": said, "calls": calls }).to_string();
    let mut told = Vec::new();
    let proposed = service.post(&agent, "/v1/calls", &body).await;
    let card = proposed.json()["approval"].clone();
    told.push(("proposed", proposed.text));
    let path = format!("/v1/approvals/{}", id(&card));
    let yes = json!({ "approved": true, "comment": format!("fine, {CANARY}") }).to_string();
    let decided = service
        .post(&ana, &format!("{path}?waitFor=finished"), &yes)
        .await;
    assert_eq!(
        decided.json()["calls"][0]["state"],
        "succeeded",
        "{}",
        decided.text
    );
    told.push(("decided", decided.text));
    let undo = format!("/v1/calls/{}.1/undo", id(&card));
    told.push((
        "undo",
        service.post(&agent, &undo, "{\"channel\":\"c\"}").await.text,
    ));
    for token in [&agent, &ana, &reply] {
        for route in [
            "/v1/channels/c/transcript".to_owned(),
            "/v1/channels/c/transcript?format=openai".to_owned(),
            "/v1/channels/c/pending".to_owned(),
            "/v1/approvals?status=all&concerns=true".to_owned(),
            format!("{path}?events=true&concerns=true"),
        ] {
            told.push(("route", service.get(token, &route).await.text));
        }
    }
    let json_escaped = serde_json::to_string(CANARY).unwrap();
    let inner = json_escaped.trim_matches('"');
    let twice = serde_json::to_string(inner).unwrap();
    for (what, text) in &told {
        for form in [CANARY, inner, twice.trim_matches('"')] {
            assert!(!text.contains(form), "{what}: {text}");
        }
    }
}

/// X98: a repeated secret is the same one in capitals.
#[tokio::test]
async fn x98_a_secret_in_another_letter_case_stands_in_no_answer() {
    let policy = "[tools.echo]\neffect = \"write\"\nsecret = [\"api_key\"]\nsummary = \"Note {{ note }}\"\n";
    let service = Service::with_policy(policy).await;
    let agent = service.agent("crm").await;
    let ana = service.decider("ana").await;
    for (key, repeated) in [
        ("canary-80", "CANARY-80"),
        ("CANARY-81", "canary-81"),
        ("Stra\u{df}e-82", "STRA\u{df}E-82"),
        ("k\u{e4}n-83", "K\u{c4}N-83"),
        ("abz", "ABZ"),
    ] {
        let note = format!("the key is {repeated}");
        let calls = json!([{ "tool": "echo", "arguments": { "api_key": key, "note": note } }]);
        let body = json!({ "claim": format!("I use {repeated}"), "calls": calls }).to_string();
        let mut told = Vec::new();
        let proposed = service.post(&agent, "/v1/calls", &body).await;
        let path = format!("/v1/approvals/{}", id(&proposed.json()["approval"]));
        told.push(proposed.text);
        let yes = json!({ "approved": true, "comment": format!("fine, {repeated}") }).to_string();
        told.push(
            service
                .post(&ana, &format!("{path}?waitFor=finished"), &yes)
                .await
                .text,
        );
        let shown = format!("{path}?events=true&concerns=true");
        told.push(service.get(&ana, &shown).await.text);
        for text in told {
            assert!(
                !text.contains(repeated) && !text.contains(key),
                "{repeated}: {text}"
            );
        }
        let ran = service.ran.lock().unwrap().last().cloned().unwrap();
        assert!(
            ran.contains(repeated) && ran.contains(key),
            "the tool gets it: {ran}"
        );
    }
}
