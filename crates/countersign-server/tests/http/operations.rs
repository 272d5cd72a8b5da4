//! Tests the endpoints for operators: health, readiness and metrics.

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
async fn c7_the_guide_is_for_everybody() {
    let service = Service::new().await;
    let guide = service.ask(request(Method::GET, "/v1/guide", None, "")).await;
    assert_eq!(guide.status, 200);
    assert_eq!(guide.text, countersign::gate::GUIDE);
    assert!(
        guide.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/plain")
    );
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

/// X86: a node that cannot write is not ready, and one that never will again is not alive.
#[tokio::test]
async fn x86_a_node_that_cannot_write_is_not_ready() {
    use countersign::store::StoreError;
    let service = Service::new().await;
    let admin = service.with_scope("main", Scope::Admin).await;
    let get = |path: &'static str| service.ask(request(Method::GET, path, None, ""));
    let metrics = async || service.get(&admin, "/metrics").await.text;
    assert!(metrics().await.contains("countersign_store_writable 1"));
    service
        .app
        .writable
        .note(Err(StoreError::Full("no space left".to_owned())));
    assert_eq!(get("/readyz").await.error(), (503, "store_full".to_owned()));
    assert_eq!(
        get("/healthz").await.status,
        200,
        "a full disk is no reason to restart"
    );
    assert!(metrics().await.contains("countersign_store_writable 0"));
    service.app.writable.note(Ok(()));
    assert_eq!(get("/readyz").await.status, 200);
}
