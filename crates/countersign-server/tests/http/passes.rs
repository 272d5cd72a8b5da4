//! Calls that pass and are more than reads: on record, and run once for each idempotency key.

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
    // Without a key, and with another one, it is another call.
    recording.send(&agent, &pay(5.0), None).await.good();
    recording.send(&agent, &pay(5.0), None).await.good();
    recording.send(&agent, &pay(5.0), Some("k2")).await.good();
    assert_eq!(recording.ran().len(), 4);
    // Another agent's key is another key.
    let second = recording.service.agent("ops").await;
    recording.send(&second, &pay(5.0), Some("k1")).await.good();
    assert_eq!(recording.ran().len(), 5);
}
