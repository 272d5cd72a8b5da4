//! What whoever runs the service looks at.

use axum::http::Method;
use countersign_server::access::Scope;

use crate::support::{Service, request};

#[tokio::test]
async fn h26_health_says_nothing_about_anybody() {
    let service = Service::new().await;
    let get = |path: &'static str| service.ask(request(Method::GET, path, None, ""));
    assert_eq!(get("/healthz").await.text, "ok\n");
    assert_eq!(get("/readyz").await.text, "ready\n");
    service.app.stopping.cancel();
    assert_eq!(get("/healthz").await.status, 200);
    assert_eq!(get("/readyz").await.error(), (503, "stopping".to_owned()));
}

#[tokio::test]
async fn h25_what_happens_is_counted() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let admin = service.with_scope("main", Scope::Admin).await;
    let approval = service.propose(&agent, "echo", "{}").await;
    let path = format!(
        "/v1/approvals/{}?waitFor=finished",
        approval["id"].as_str().unwrap()
    );
    service.post(&ana, &path, r#"{"approved":true}"#).await.good();
    service.post(&ana, &path, r#"{"approved":true}"#).await;
    service.propose(&agent, "create_contact", "{}").await;
    let figures = service.get(&admin, "/metrics").await.text;
    for line in [
        "countersign_approvals_proposed_total 2",
        "countersign_approvals_decided_total{verdict=\"approved\"} 1",
        "countersign_decisions_refused_total{reason=\"already_decided\"} 1",
        "countersign_calls_finished_total{outcome=\"succeeded\"} 1",
        "countersign_hasty_approvals_total 1",
        "countersign_approvals_pending 1",
    ] {
        assert!(figures.contains(line), "{line}\n{figures}");
    }
}
