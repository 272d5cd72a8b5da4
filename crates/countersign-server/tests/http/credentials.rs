//! A credential that comes with a call: every card says so, and a retry has to bring the same one.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Request;
use countersign::executor::{Outcome, Permit, Tools};
use countersign::id::ToolName;
use countersign_server::access::Scope;
use serde_json::json;

use crate::support::{Answered, POLICY, Service, id};

const NOTE: &str = "carries a credential of 9 bytes";

/// A service whose tool `echo` records the credential of each run.
async fn recording() -> (Service, Arc<Mutex<Vec<String>>>) {
    let ran = Arc::<Mutex<Vec<String>>>::default();
    let record = ran.clone();
    let tool = move |permit: Permit| {
        let secret = permit.secret().map(|secret| secret.reveal().to_vec());
        let secret = String::from_utf8(secret.unwrap_or_default()).unwrap();
        record.lock().unwrap().push(secret);
        async { Outcome::succeeded("{}") }
    };
    let tools = Tools::default().with(ToolName::new("echo").unwrap(), tool);
    (Service::with_tools(POLICY, tools, Arc::default()).await, ran)
}

fn body(secret: Option<&str>) -> String {
    let mut call = json!({ "tool": "echo", "arguments": { "a": 1 } });
    if let Some(secret) = secret {
        call["secret"] = json!(secret);
    }
    json!({ "channel": "c", "calls": [call] }).to_string()
}

async fn with_key(service: &Service, token: &str, key: &str, body: String) -> Answered {
    let request = Request::post("/v1/calls")
        .header("host", "service.test")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(Body::from(body));
    service.ask(request.unwrap()).await
}

#[tokio::test]
async fn a_card_says_that_the_call_comes_with_a_credential() {
    let (service, ran) = recording().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let reply = service.with_scope("main", Scope::Reply).await;
    let proposed = service.post(&agent, "/v1/calls", &body(Some("ROOT-CRED"))).await;
    let approval = proposed.json()["approval"].clone();
    let path = format!("/v1/approvals/{}", id(&approval));
    let shown = service.get(&ana, &path).await;
    let chat = service.get(&reply, "/v1/channels/c/pending").await;
    let list = service.get(&ana, "/v1/approvals").await;
    for answer in [&proposed, &shown, &chat, &list] {
        assert!(answer.text.contains(NOTE), "{}", answer.text);
        assert!(!answer.text.contains("ROOT-CRED"), "{}", answer.text);
    }
    assert_eq!(chat.json()["pending"]["whole"], true, "{}", chat.text);
    let yes = service
        .post(&ana, &format!("{path}?waitFor=finished"), r#"{"approved":true}"#)
        .await;
    assert_eq!(yes.good()["calls"][0]["state"], "succeeded");
    assert_eq!(*ran.lock().unwrap(), ["ROOT-CRED"]);

    let without = service.post(&agent, "/v1/calls", &body(None)).await;
    assert!(!without.text.contains("credential"), "{}", without.text);
}

#[tokio::test]
async fn a_credential_that_no_header_carries_is_refused_when_it_is_proposed() {
    let (service, ran) = recording().await;
    let agent = service.agent("crm").await;
    let long = "x".repeat(4_097);
    for secret in [
        "a\r\nX-Admin: 1",
        "a\nb",
        "a\u{0}b",
        "tab\tbed",
        "del\u{7f}",
        "k\u{e4}n",
        "",
        " a",
        "a ",
        &long,
    ] {
        let refused = service.post(&agent, "/v1/calls", &body(Some(secret))).await;
        assert_eq!(
            refused.error(),
            (422, "seal".to_owned()),
            "{secret:?}: {}",
            refused.text
        );
        let told = refused.json()["error"]["message"].to_string();
        assert!(
            told.contains("visible ASCII") || told.contains("at most 4096 bytes"),
            "{told}"
        );
    }
    for secret in ["Bearer a b", &"x".repeat(4_096)] {
        service
            .post(&agent, "/v1/calls", &body(Some(secret)))
            .await
            .good();
    }
    assert!(ran.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_key_used_with_another_credential_is_refused() {
    let (service, _) = recording().await;
    let agent = service.agent("crm").await;
    let send = |secret| with_key(&service, &agent, "k1", body(secret));
    let first = send(Some("ROOT-CRED")).await.good();
    let again = send(Some("ROOT-CRED")).await.good();
    assert_eq!(first["approval"]["id"], again["approval"]["id"]);
    for other in [Some("ROOT-CREE"), None] {
        let refused = send(other).await;
        assert_eq!(
            refused.error(),
            (409, "key_reused".to_owned()),
            "{}",
            refused.text
        );
    }
    let plain = with_key(&service, &agent, "k2", body(None)).await.good();
    let same = with_key(&service, &agent, "k2", body(None)).await.good();
    assert_eq!(plain["approval"]["id"], same["approval"]["id"]);
}
