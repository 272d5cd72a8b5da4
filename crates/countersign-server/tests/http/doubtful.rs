//! Requests that could mean two things, names that look the same, and rights that reach too far.

use axum::body::Body;
use axum::http::Request;
use countersign_server::access::Scope;
use serde_json::json;

use crate::support::{Service, id};

const BODY: &str = r#"{"calls":[{"tool":"echo","arguments":{"a":1}}]}"#;

/// A proxy in front of the service may have checked the other value.
#[tokio::test]
async fn a_header_that_stands_twice_is_refused() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let other = service.agent("bot").await;
    for (name, first, second) in [
        (
            "authorization",
            format!("Bearer {agent}"),
            format!("Bearer {other}"),
        ),
        ("idempotency-key", "k1".to_owned(), "k2".to_owned()),
        (
            "content-type",
            "application/json".to_owned(),
            "text/plain".to_owned(),
        ),
    ] {
        let mut request = Request::post("/v1/calls").header("host", "service.test");
        for (usual, value) in [
            ("authorization", format!("Bearer {agent}")),
            ("content-type", "application/json".to_owned()),
        ] {
            if usual != name {
                request = request.header(usual, value);
            }
        }
        let request = request.header(name, first).header(name, second);
        let refused = service.ask(request.body(Body::from(BODY)).unwrap()).await;
        assert_eq!(
            refused.error(),
            (400, "header_twice".to_owned()),
            "{name}: {}",
            refused.text
        );
    }
}

/// An agent says how its own passed call ended; what a person approved is finished by the host that started it.
#[tokio::test]
async fn an_agent_does_not_finish_what_a_person_approved() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let host = service.with_scope("main", Scope::Execute).await;
    let approval = service.propose(&agent, "create_contact", r#"{"name":"M"}"#).await;
    let path = format!("/v1/approvals/{}", id(&approval));
    service.post(&ana, &path, r#"{"approved":true}"#).await.good();
    let call = format!("/v1/calls/{}.1", id(&approval));
    let permit = service.post(&host, &format!("{call}/start"), "").await.good()["permit"].clone();
    let end = json!({ "permit": permit, "outcome": "succeeded", "result": {} }).to_string();
    let refused = service.post(&agent, &format!("{call}/finish"), &end).await;
    assert_eq!(
        refused.error(),
        (403, "wrong_scope".to_owned()),
        "{}",
        refused.text
    );
    let shown = service.get(&ana, &path).await.good();
    assert_eq!(shown["calls"][0]["state"], "running");
    service.post(&host, &format!("{call}/finish"), &end).await.good();
}

/// Channels that differ only in blanks look the same to people.
#[tokio::test]
async fn a_channel_with_odd_blanks_is_refused() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    for channel in [
        "ev1 ",
        " ev1",
        "ev  1",
        "ev\u{a0}",
        "\u{2003}ev",
        "ev \u{a0}1",
        "ev1\u{200b}",
    ] {
        let call = json!({ "tool": "echo", "arguments": {} });
        let body = json!({ "channel": channel, "calls": [call] }).to_string();
        let refused = service.post(&agent, "/v1/calls", &body).await;
        assert_eq!(refused.status, 422, "{channel:?}: {}", refused.text);
        assert!(
            refused.text.contains("a channel has no blank at its"),
            "{}",
            refused.text
        );
    }
    // The last has two characters that no font draws as nothing.
    for channel in ["ev1", "EV1", "ev 1", "ev\u{ffac7}\u{df816}"] {
        let body =
            json!({ "channel": channel, "calls": [{ "tool": "echo", "arguments": { "c": channel } }] });
        service.post(&agent, "/v1/calls", &body.to_string()).await.good();
    }
}

/// The name before the host of an address is not the host.
#[tokio::test]
async fn a_name_before_the_host_of_an_address_is_told() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let approval = service
        .propose(
            &agent,
            "echo",
            r#"{"url":"http://acme.com@evil.example/x","mail":"ana@acme.com"}"#,
        )
        .await;
    let path = format!("/v1/approvals/{}", id(&approval));
    let shown = service.get(&ana, &path).await.good();
    let warnings = shown["calls"][0]["warnings"].to_string();
    assert!(warnings.contains("whose host is `evil.example`"), "{warnings}");
    assert!(!warnings.contains("mail"), "{warnings}");
}

/// Over the API nothing puts the secret back, so the placeholder of the page would run as the password.
#[tokio::test]
async fn an_edit_over_the_api_does_not_run_the_placeholder_of_a_secret() {
    let policy = "[tools.echo]\neffect = \"write\"\nsecret = [\"api_key\"]\n";
    let service = Service::with_policy(policy).await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let approval = service
        .propose(&agent, "echo", r#"{"api_key":"canary-7","n":1}"#)
        .await;
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
    let edit = |key: &str| {
        let arguments = json!({ "api_key": key, "n": 2 });
        json!({ "approved": true, "calls": [{ "approved": true, "arguments": arguments }] }).to_string()
    };
    let refused = service.post(&ana, &path, &edit("(secret, kept as it is)")).await;
    assert_eq!(refused.error(), (422, "bad_edit".to_owned()), "{}", refused.text);
    assert!(service.ran.lock().unwrap().is_empty());
    service.post(&ana, &path, &edit("canary-8")).await.good();
    assert_eq!(service.ran.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn errors_use_the_right_article() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let long = "k".repeat(300);
    let request = Request::post("/v1/calls")
        .header("host", "service.test")
        .header("authorization", format!("Bearer {agent}"))
        .header("content-type", "application/json")
        .header("idempotency-key", &long)
        .body(Body::from(BODY));
    let refused = service.ask(request.unwrap()).await;
    assert!(
        refused.text.contains("an idempotency key has at most 256"),
        "{}",
        refused.text
    );
}
