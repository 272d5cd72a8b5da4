//! Streams and long polls end when their credential does (X68).

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Method, Request};
use countersign_server::access::{Scope, Token};
use futures_util::StreamExt as _;
use serde_json::json;

use crate::access::propose;
use crate::accounts::{page, remove, sign_in};
use crate::support::{Service, id, request, tenant};

/// Measures how long a stream stays open, up to three seconds.
async fn ends_after(response: axum::response::Response) -> Duration {
    assert_eq!(response.status(), 200);
    let mut body = response.into_body().into_data_stream();
    let begun = Instant::now();
    let end = async { while body.next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(3), end).await;
    begun.elapsed()
}

async fn revoke(service: &Service, token: &str) {
    let key = countersign::hash::Hash::of(token.as_bytes()).to_string();
    Token::revoke(service.app.store(), &tenant(), &key).await.unwrap();
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn x68_a_revoked_token_follows_nothing_any_more() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let approval = propose(&service, &agent, 1, "one").await;
    let reader = service.with_scope("main", Scope::Read).await;
    let stream = service
        .open(request(Method::GET, "/v1/events", Some(&reader), ""))
        .await;
    let other = service
        .open(request(Method::GET, "/v1/events", Some(&agent), ""))
        .await;
    let path = format!("/v1/approvals/{}?wait=30s", id(&approval));
    let polled = async {
        let begun = Instant::now();
        let asked = tokio::time::timeout(3 * SECOND, service.get(&reader, &path)).await;
        (
            asked.map(|answered| answered.status.as_u16()).unwrap_or(0),
            begun.elapsed(),
        )
    };
    let revoked = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        revoke(&service, &reader).await;
        ends_after(stream).await
    };
    let ((status, _), ended) = tokio::join!(polled, revoked);
    assert!(ended < SECOND, "{ended:?}");
    assert_eq!(status, 401, "a long poll is told at once");
    // Another credential's stream stays open.
    assert!(ends_after(other).await > 2 * SECOND);
}

#[tokio::test]
async fn x68_streams_end_with_time_the_session_and_the_account() {
    let service = Service::new().await;
    let ana = service.with_scope("main", Scope::Chat).await;
    let said = json!({ "text": "find Lucía", "session": "s" }).to_string();
    service.post(&ana, "/v1/agents/crm/messages", &said).await;
    let talk = async || {
        let path = "/v1/agents/crm/sessions/s/events";
        service.open(request(Method::GET, path, Some(&ana), "")).await
    };
    // Signing out ends the pages' streams.
    let cookie = sign_in(&service, "ana").await;
    let pages = ["/approvals/live", "/playground/crm/live?session=s"];
    let [list, play] = [
        page(&service, &cookie, pages[0]).await,
        page(&service, &cookie, pages[1]).await,
    ];
    let request_out = Request::post("/sign-out")
        .header("host", "service.test")
        .header("cookie", &cookie);
    service.ask(request_out.body(Body::empty()).unwrap()).await;
    assert!(ends_after(list).await < SECOND, "sign-out, list");
    assert!(ends_after(play).await < SECOND, "sign-out, playground");
    // Removing a person ends their streams.
    let cookie = sign_in(&service, "ana").await;
    let (list, told) = (page(&service, &cookie, pages[0]).await, talk().await);
    remove(&service, "ana").await;
    assert!(ends_after(list).await < SECOND, "removed, page");
    assert!(ends_after(told).await < SECOND, "removed, talk");
    // A token's expiry ends its streams too.
    let reader = service.with_scope("main", Scope::Read).await;
    let stream = service
        .open(request(Method::GET, "/v1/events", Some(&reader), ""))
        .await;
    service.clock.advance(Duration::from_secs(25 * 3600));
    assert!(ends_after(stream).await < SECOND, "expired");
}
