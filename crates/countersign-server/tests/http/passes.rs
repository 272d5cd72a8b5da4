//! Calls that pass and are more than reads are recorded, and run once per idempotency key.

use std::sync::{Arc, Mutex};

use axum::http::Method;
use countersign::executor::{Outcome, Permit, Tools};
use countersign::id::ToolName;
use serde_json::{Value, json};

use crate::support::{Answered, Service, request};

const POLICY: &str = r#"
[tools.pay]
effect = "external"
hold = "args.amount > 100.0"
summary = "Pay {{ amount }}"

[tools.find]
effect = "read"

[tools.host_pays]
effect = "external"
hold = "args.amount > 100.0"
"#;

/// A run: the tool with its arguments, and the call's id.
type Run = (String, Option<String>);

struct Recording {
    service: Service,
    ran: Arc<Mutex<Vec<Run>>>,
}

impl Recording {
    async fn new() -> Recording {
        let ran = Arc::new(Mutex::new(Vec::new()));
        let tools = ["pay", "find"].iter().fold(Tools::default(), |tools, name| {
            let ran = ran.clone();
            tools.with(ToolName::new(*name).unwrap(), move |permit: Permit| {
                let arguments = String::from_utf8_lossy(permit.arguments().as_bytes()).into_owned();
                let call = permit.call().map(|call| call.to_string());
                ran.lock()
                    .unwrap()
                    .push((format!("{} {arguments}", permit.tool()), call));
                async { Outcome::succeeded(r#"{"receipt":7}"#) }
            })
        });
        let service = Service::with_tools(POLICY, tools, Arc::default()).await;
        Recording { service, ran }
    }

    fn ran(&self) -> Vec<Run> {
        self.ran.lock().unwrap().clone()
    }

    async fn send(&self, token: &str, body: &Value, key: Option<&str>) -> Answered {
        let mut request = request(Method::POST, "/v1/calls", Some(token), &body.to_string());
        if let Some(key) = key {
            request
                .headers_mut()
                .insert("idempotency-key", key.parse().unwrap());
        }
        self.service.ask(request).await
    }
}

fn pay(amount: f64) -> Value {
    json!({ "calls": [{ "tool": "pay", "arguments": { "amount": amount } }] })
}

#[tokio::test]
async fn x58_the_same_key_runs_a_passed_call_once() {
    let recording = Recording::new().await;
    let agent = recording.service.agent("crm").await;
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(recording.send(&agent, &pay(5.0), Some("k1")).await.good());
    }
    assert_eq!(recording.ran().len(), 1, "{:?}", recording.ran());
    assert_eq!(answers[0]["calls"][0]["ruling"], "pass");
    assert_eq!(answers[0]["calls"][0]["status"], "succeeded");
    assert_eq!(answers[0]["calls"][0]["result"], json!({ "receipt": 7 }));
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[1], answers[2]);
    let call = answers[0]["calls"][0]["id"].as_str().unwrap();
    assert_eq!(
        recording.ran()[0].1.as_deref(),
        Some(call),
        "the tool gets the call's id as its key"
    );
    let other = recording.send(&agent, &pay(6.0), Some("k1")).await;
    assert_eq!(other.error(), (409, "key_reused".to_owned()));
    assert_eq!(recording.ran().len(), 1);
    // Without a key, or with another one, the same call runs again.
    recording.send(&agent, &pay(5.0), None).await.good();
    recording.send(&agent, &pay(5.0), None).await.good();
    recording.send(&agent, &pay(5.0), Some("k2")).await.good();
    assert_eq!(recording.ran().len(), 4);
    // Keys of different agents are separate.
    let second = recording.service.agent("ops").await;
    recording.send(&second, &pay(5.0), Some("k1")).await.good();
    assert_eq!(recording.ran().len(), 5);
}

/// Returns the names of an approval's events, each with the kind of its actor.
async fn history(service: &Service, token: &str, id: &str) -> Vec<(String, String)> {
    let approval = service
        .get(token, &format!("/v1/approvals/{id}?events=true"))
        .await;
    let approval = approval.good();
    let events = approval["events"].as_array().unwrap();
    let word = |event: &Value| {
        (
            event["event"]["what"].as_str().unwrap().to_owned(),
            event["by"].as_str().unwrap().to_owned(),
        )
    };
    events.iter().map(word).collect()
}

fn approval_of(call: &Value) -> String {
    let id = call["id"].as_str().unwrap();
    id.rsplit_once('.').unwrap().0.to_owned()
}

#[tokio::test]
async fn x58_a_passed_call_is_in_the_history_and_nobody_approved_it() {
    let recording = Recording::new().await;
    let service = &recording.service;
    let (agent, person) = (service.agent("crm").await, service.decider("ana").await);
    let answer = recording.send(&agent, &pay(5.0), None).await.good();
    assert_eq!(recording.ran().len(), 1);
    let id = approval_of(&answer["calls"][0]);
    let listed = service.get(&person, "/v1/approvals?status=passed").await.good();
    let listed = listed["approvals"].as_array().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["id"], id.as_str());
    assert_eq!(listed[0]["status"], "passed");
    assert_eq!(listed[0]["decidedBy"], Value::Null);
    assert_eq!(listed[0]["calls"][0]["state"], "succeeded");
    assert_eq!(listed[0]["calls"][0]["summary"], "Pay 5.0");
    for status in ["pending", "approved"] {
        let others = service
            .get(&person, &format!("/v1/approvals?status={status}"))
            .await
            .good();
        assert_eq!(others["approvals"], json!([]), "{status}");
    }
    let words = history(service, &person, &id).await;
    let words: Vec<(&str, &str)> = words
        .iter()
        .map(|(word, by)| (word.as_str(), by.split(':').next().unwrap_or_default()))
        .collect();
    assert_eq!(
        words.iter().map(|(word, _)| *word).collect::<Vec<_>>(),
        ["proposed", "passed", "started", "succeeded"]
    );
    assert!(words.iter().all(|(_, by)| *by != "person"), "{words:?}");
    // There is nothing left to decide, and approving runs nothing.
    for approved in [true, false] {
        let body = json!({ "approved": approved, "digest": listed[0]["digest"] });
        let answer = service
            .post(&person, &format!("/v1/approvals/{id}"), &body.to_string())
            .await;
        assert_eq!(answer.error(), (409, "not_asked".to_owned()));
    }
    assert_eq!(recording.ran().len(), 1);
    // A read leaves no record.
    let find = json!({ "calls": [{ "tool": "find", "arguments": {} }] });
    recording.send(&agent, &find, Some("r")).await.good();
    let all = service.get(&person, "/v1/approvals?status=all").await.good();
    assert_eq!(all["approvals"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn x58_a_host_that_runs_a_passed_call_says_how_it_ended() {
    let recording = Recording::new().await;
    let service = &recording.service;
    let (agent, person) = (service.agent("crm").await, service.decider("ana").await);
    let body = json!({ "calls": [{ "tool": "host_pays", "arguments": { "amount": 5.0 } }] });
    let answer = recording.send(&agent, &body, Some("k")).await.good();
    let call = &answer["calls"][0];
    assert_eq!((&call["ruling"], &call["status"]), (&json!("pass"), &Value::Null));
    let (id, permit) = (call["id"].as_str().unwrap(), call["permit"].as_str().unwrap());
    let path = format!("/v1/approvals/{}", approval_of(call));
    let record = service.get(&person, &path).await.good();
    assert_eq!(record["calls"][0]["state"], "running");
    // Repeating the request gives no second permit.
    let again = recording.send(&agent, &body, Some("k")).await.good();
    assert_eq!(again["calls"][0]["ruling"], "passed_before");
    assert_eq!(again["calls"][0]["status"], "running");
    assert_eq!(again["calls"][0]["permit"], Value::Null);
    assert_eq!(again["calls"][0]["id"], id);
    // Neither another agent nor a wrong permit can finish the call.
    let end = |permit: &str| json!({ "permit": permit, "outcome": "succeeded", "result": { "receipt": 8 } });
    let finish = format!("/v1/calls/{id}/finish");
    let other = service.agent("ops").await;
    let refused = service.post(&other, &finish, &end(permit).to_string()).await;
    assert_eq!(refused.error().0, 404);
    let forged = "0".repeat(64);
    let refused = service.post(&agent, &finish, &end(&forged).to_string()).await;
    assert_eq!(refused.error(), (403, "not_your_permit".to_owned()));
    service
        .post(&agent, &finish, &end(permit).to_string())
        .await
        .good();
    let record = service.get(&person, &path).await.good();
    assert_eq!(record["status"], "passed");
    assert_eq!(record["calls"][0]["state"], "succeeded");
    let again = recording.send(&agent, &body, Some("k")).await.good();
    assert_eq!(again["calls"][0]["status"], "succeeded");
    assert_eq!(recording.ran(), [], "none of it ran here");
}

#[tokio::test]
async fn x58_a_key_used_for_other_calls_leaves_no_question_and_runs_nothing() {
    let recording = Recording::new().await;
    let service = &recording.service;
    let (agent, person) = (service.agent("crm").await, service.decider("ana").await);
    let turn = |passes: f64, held: f64| {
        json!({ "calls": [
            { "tool": "pay", "arguments": { "amount": passes } },
            { "tool": "pay", "arguments": { "amount": passes + 1.0 } },
            { "tool": "pay", "arguments": { "amount": held } },
        ] })
    };
    let first = recording.send(&agent, &turn(5.0, 500.0), Some("k")).await.good();
    assert_eq!(recording.ran().len(), 2);
    let again = recording.send(&agent, &turn(5.0, 500.0), Some("k")).await.good();
    assert_eq!(first["calls"], again["calls"]);
    assert_eq!(recording.ran().len(), 2);
    for (passes, held) in [(7.0, 500.0), (5.0, 700.0), (7.0, 7.0), (700.0, 700.0)] {
        let refused = recording.send(&agent, &turn(passes, held), Some("k")).await;
        assert_eq!(refused.error(), (409, "key_reused".to_owned()), "{passes} {held}");
    }
    assert_eq!(recording.ran().len(), 2);
    let pending = service.get(&person, "/v1/approvals").await.good();
    assert_eq!(pending["approvals"].as_array().unwrap().len(), 1);
}

/// A tool that ignores letter case would pay an amount that no condition saw.
#[tokio::test]
async fn x57_members_that_differ_in_little_do_not_pass() {
    let recording = Recording::new().await;
    let agent = recording.service.agent("crm").await;
    for twin in ["Amount", "AMOUNT", "amount ", "amount\u{0}", "a_mount"] {
        let arguments = json!({ "amount": 5.0, twin: 50000.0 });
        let body = json!({ "calls": [{ "tool": "pay", "arguments": arguments }] });
        let answer = recording.send(&agent, &body, None).await.good();
        assert_eq!(answer["calls"][0]["ruling"], "held", "{twin:?}: {answer}");
    }
    assert_eq!(recording.ran(), []);
}
