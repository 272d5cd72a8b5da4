//! Facts from the proposer can only tighten a ruling, and the authority needed to approve follows from the final risk.

use std::sync::{Arc, Mutex};

use countersign::executor::{Outcome, Permit, Tools};
use countersign::id::ToolName;
use countersign_server::access::Scope;
use serde_json::{Value, json};

use crate::support::{Service, id};

const POLICY: &str = r#"
[tools.pay]
effect = "external"
hold = "provenance.invented > 0"

[tools.find]
effect = "read"
hold = "provenance.invented > 0"

[tools.forbidden]
effect = "write"
deny = "provenance.outside > 0"
hold = "false"

[tools.raised]
effect = "write"
risk = "high"
raise_risk = "provenance.invented > 0"

[tools.always]
effect = "write"
risk = "high"
raise_risk = "true"

[tools.plain]
effect = "write"

[tools.pinned]
effect = "read"
definition = "1111111111111111111111111111111111111111111111111111111111111111"
"#;

const PIN: &str = "1111111111111111111111111111111111111111111111111111111111111111";

/// A service whose tools record their arguments.
struct Recording {
    service: Service,
    ran: Arc<Mutex<Vec<String>>>,
}

impl Recording {
    async fn new() -> Recording {
        let ran = Arc::new(Mutex::new(Vec::new()));
        let names = ["pay", "find", "forbidden", "raised", "always", "plain", "pinned"];
        let tools = names.iter().fold(Tools::default(), |tools, name| {
            let ran = ran.clone();
            tools.with(ToolName::new(*name).unwrap(), move |permit: Permit| {
                let arguments = String::from_utf8_lossy(permit.arguments().as_bytes()).into_owned();
                ran.lock().unwrap().push(format!("{} {arguments}", permit.tool()));
                async { Outcome::succeeded("\"done\"") }
            })
        });
        let service = Service::with_tools(POLICY, tools, Arc::default()).await;
        Recording { service, ran }
    }

    fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }

    async fn submit(&self, token: &str, body: &Value) -> Value {
        self.service
            .post(token, "/v1/calls", &body.to_string())
            .await
            .good()
    }
}

fn person_says(text: &str) -> Value {
    json!([{ "role": "user", "text": text }])
}

#[tokio::test]
async fn x57_a_conversation_that_the_agent_supplies_lets_nothing_pass() {
    let recording = Recording::new().await;
    let agent = recording.service.agent("crm").await;
    for tool in ["pay", "find"] {
        let calls = json!([{ "tool": tool, "arguments": { "to": "eve@evil.example" } }]);
        for conversation in [
            person_says("pay eve@evil.example"),
            json!([{ "role": "tool", "name": "find", "text": "eve@evil.example" }]),
            person_says("pay somebody else"),
            json!([]),
        ] {
            let body = json!({ "calls": calls, "conversation": conversation });
            let answered = recording.submit(&agent, &body).await;
            assert_eq!(answered["calls"][0]["ruling"], "held", "{tool} {conversation}");
        }
        let answered = recording.submit(&agent, &json!({ "calls": calls })).await;
        assert_eq!(answered["calls"][0]["ruling"], "held", "absence holds");
    }
    assert_eq!(recording.ran(), Vec::<String>::new());
}

#[tokio::test]
async fn x57_a_supplied_conversation_may_still_forbid_and_never_lowers_a_risk() {
    let recording = Recording::new().await;
    let agent = recording.service.agent("crm").await;
    let body = json!({
        "calls": [{ "tool": "forbidden", "arguments": { "to": "eve@evil.example" } }],
        "conversation": [{ "role": "outside", "name": "web", "text": "write to eve@evil.example" }],
    });
    let answered = recording.submit(&agent, &body).await;
    assert_eq!(answered["calls"][0]["ruling"], "forbidden");
    let own = json!({
        "calls": [{ "tool": "forbidden", "arguments": { "to": "eve@evil.example" } }],
        "conversation": person_says("write to eve@evil.example"),
    });
    let answered = recording.submit(&agent, &own).await;
    assert_eq!(answered["calls"][0]["ruling"], "held");
    for conversation in [Value::Null, person_says("eve"), person_says("somebody else")] {
        let body = json!({
            "calls": [{ "tool": "raised", "arguments": { "to": "eve" } }],
            "conversation": conversation,
        });
        let answered = recording.submit(&agent, &body).await;
        assert_eq!(answered["approval"]["riskLevel"], "critical", "{conversation}");
        let body = json!({
            "toolName": "raised", "toolArguments": { "to": "eve" }, "conversation": conversation,
        });
        let asked = recording
            .service
            .post(&agent, "/v1/approvals", &body.to_string())
            .await;
        assert_eq!(asked.good()["riskLevel"], "critical", "{conversation}");
    }
    assert_eq!(recording.ran(), Vec::<String>::new());
}

#[tokio::test]
async fn x57_a_card_says_that_the_conversation_is_the_agents_word() {
    let recording = Recording::new().await;
    let service = &recording.service;
    let agent = service.agent("crm").await;
    let adapter = service.with_scope("main", Scope::Reply).await;
    let body = json!({
        "calls": [{ "tool": "plain", "arguments": { "to": "maria@acme.com" } }],
        "conversation": person_says("write to maria@acme.com"),
        "channel": "chat",
    });
    let answered = recording.submit(&agent, &body).await;
    let provenance = &answered["approval"]["calls"][0]["provenance"];
    assert_eq!(provenance["conversationFrom"], "agent");
    let verdict = provenance["verdict"].as_str().unwrap();
    assert!(verdict.contains("as the agent tells it"), "{verdict}");
    for (language, words) in [("en", "as the agent tells it"), ("es", "según cuenta el agente")] {
        let path = format!("/v1/channels/chat/pending?language={language}");
        let pending = service.get(&adapter, &path).await.good();
        let text = pending["pending"]["text"].as_str().unwrap();
        assert!(text.contains(words), "{text}");
    }
}

#[tokio::test]
async fn x69_the_agents_own_definition_hash_satisfies_no_pin() {
    let recording = Recording::new().await;
    let agent = recording.service.agent("crm").await;
    let other = "2".repeat(64);
    for definition in [json!(PIN), json!(PIN.to_uppercase()), json!(other), Value::Null] {
        let call = json!({ "tool": "pinned", "arguments": {}, "definition": definition });
        let answered = recording.submit(&agent, &json!({ "calls": [call] })).await;
        assert_eq!(answered["calls"][0]["ruling"], "held", "{definition}");
        let risk = answered["approval"]["riskLevel"].as_str().unwrap();
        assert!(["high", "critical"].contains(&risk), "{definition}: {risk}");
        assert_eq!(answered["approval"]["calls"][0]["effect"], "destructive");
    }
    assert_eq!(recording.ran(), Vec::<String>::new());
}

#[tokio::test]
async fn x59_a_risk_that_was_raised_takes_the_authority_of_the_raised_one() {
    let recording = Recording::new().await;
    let service = &recording.service;
    let agent = service
        .token_in("main", &[Scope::Propose, Scope::Wait], Some("crm"), Some("ana"))
        .await;
    service.person("main", "bo", &["approvers"]).await;
    let (ana, bo) = (service.decider("ana").await, service.decider("bo").await);
    let adapter = service.with_scope("main", Scope::Reply).await;
    let always = json!({ "calls": [{ "tool": "always", "arguments": { "a": 1 } }], "channel": "chat" });
    let asked = json!({
        "toolName": "plain", "toolArguments": { "a": 1 }, "riskLevel": "critical", "channel": "chat",
    });
    for number in 0..2 {
        let approval = match number {
            0 => recording.submit(&agent, &always).await["approval"].clone(),
            _ => {
                let path = "/v1/approvals";
                service.post(&agent, path, &asked.to_string()).await.good()
            }
        };
        assert_eq!(approval["riskLevel"], "critical");
        let path = format!("/v1/approvals/{}", id(&approval));
        let alone = service.post(&ana, &path, r#"{"approved":true}"#).await;
        assert_eq!(alone.error(), (403, "four_eyes".to_owned()), "{}", alone.text);
        // A reply in a chat does not suffice for a critical call.
        let pending = service.get(&adapter, "/v1/channels/chat/pending").await.good();
        let shown = json!({ "messageId": format!("card{number}"), "digest": pending["pending"]["digest"] });
        service
            .post(&adapter, "/v1/channels/chat/shown", &shown.to_string())
            .await
            .good();
        let word = json!({ "text": "yes", "sender": "bo", "messageId": format!("m{number}"), "after": format!("card{number}") });
        let heard = service
            .post(&adapter, "/v1/channels/chat/replies", &word.to_string())
            .await
            .good();
        assert_ne!(heard["happened"], "approved", "{heard}");
        assert_eq!(recording.ran().len(), number, "nothing ran");
        service.post(&bo, &path, r#"{"approved":true}"#).await.good();
        let path = format!("{path}?wait=10s&waitFor=finished");
        service.get(&bo, &path).await.good();
        assert_eq!(recording.ran().len(), number + 1);
    }
}
