//! Pages of other web sites that call the API, and keys that would have no effect.

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::json;

use crate::support::{Answered, Service};

const OURS: &str = "https://app.example";

async fn send(
    service: &Service,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answered {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "service.test");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    service
        .ask(request.body(Body::from(body.to_owned())).unwrap())
        .await
}

fn header<'a>(answer: &'a Answered, name: &str) -> Option<&'a str> {
    answer.headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn d3_a_page_of_a_listed_origin_may_call_the_api() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let approval = service.propose(&agent, "echo", "{}").await;
    let path = format!("/v1/approvals/{}", crate::support::id(&approval));
    let preflight = [
        ("origin", OURS),
        ("sec-fetch-mode", "cors"),
        ("sec-fetch-site", "cross-site"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    let answer = send(&service, Method::OPTIONS, &path, &preflight, "").await;
    assert_eq!(answer.status, 204);
    assert_eq!(header(&answer, "access-control-allow-origin"), Some(OURS));
    assert_eq!(
        header(&answer, "access-control-allow-methods"),
        Some("GET, POST, PUT, DELETE")
    );
    let allowed = header(&answer, "access-control-allow-headers").unwrap();
    assert!(
        allowed.contains("authorization") && allowed.contains("content-type"),
        "{allowed}"
    );
    assert_eq!(header(&answer, "access-control-allow-credentials"), None);
    assert!(header(&answer, "vary").unwrap().contains("origin"));

    let token = format!("Bearer {}", service.decider("ana").await);
    let call = [
        ("origin", OURS),
        ("sec-fetch-mode", "cors"),
        ("sec-fetch-site", "cross-site"),
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
    ];
    let decision = json!({ "approved": true }).to_string();
    let answer = send(
        &service,
        Method::POST,
        &format!("{path}?waitFor=finished"),
        &call,
        &decision,
    )
    .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(header(&answer, "access-control-allow-origin"), Some(OURS));
    assert_eq!(header(&answer, "access-control-allow-credentials"), None);
    assert_eq!(service.ran.lock().unwrap().len(), 1);
    // An error can be read by the page, too; a token is still needed.
    let answer = send(&service, Method::GET, &path, &call[..3], "").await;
    assert_eq!(answer.status, 401);
    assert_eq!(header(&answer, "access-control-allow-origin"), Some(OURS));
}

#[tokio::test]
async fn x27_other_origins_and_the_pages_stay_closed() {
    let service = Service::new().await;
    let token = format!("Bearer {}", service.decider("ana").await);
    let origins = [
        "https://evil.example",
        "https://app.example.evil.example",
        "https://app.example:8443",
        "http://app.example",
        "https://APP.example",
        "null",
        "*",
    ];
    for origin in origins {
        for method in [Method::OPTIONS, Method::GET] {
            let headers = [
                ("origin", origin),
                ("access-control-request-method", "GET"),
                ("authorization", token.as_str()),
            ];
            let answer = send(&service, method.clone(), "/v1/approvals", &headers, "").await;
            assert_eq!(
                answer.error(),
                (403, "cross_site".to_owned()),
                "{method} {origin}"
            );
            assert_eq!(header(&answer, "access-control-allow-origin"), None, "{origin}");
        }
    }
    // A listed origin gets the API only: no page, and nothing that a browser sends without asking (no-cors).
    for (path, mode) in [
        ("/approvals", "cors"),
        ("/sign-in", "cors"),
        ("/openapi.json", "cors"),
        ("/v1/approvals", "no-cors"),
    ] {
        let headers = [
            ("origin", OURS),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", mode),
            ("authorization", token.as_str()),
        ];
        let answer = send(&service, Method::POST, path, &headers, "").await;
        assert_eq!(answer.error(), (403, "cross_site".to_owned()), "{path} {mode}");
        assert_eq!(header(&answer, "access-control-allow-origin"), None, "{path}");
    }
    // Two origins in one request are refused before anything else is done.
    let headers = [
        ("origin", OURS),
        ("origin", "https://evil.example"),
        ("authorization", token.as_str()),
    ];
    let answer = send(&service, Method::GET, "/v1/approvals", &headers, "").await;
    assert_eq!(answer.error(), (400, "header_twice".to_owned()));
}

#[tokio::test]
async fn an_idempotency_key_is_refused_where_it_has_no_effect() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let approval = service.propose(&agent, "echo", "{}").await;
    let id = crate::support::id(&approval);
    let token = format!("Bearer {agent}");
    let headers = [
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", "k"),
    ];
    for (method, path) in [
        (Method::POST, format!("/v1/approvals/{id}/withdraw")),
        (Method::GET, format!("/v1/approvals/{id}")),
        (Method::POST, format!("/v1/calls/{id}.1/finish")),
        (Method::POST, "/v1/channels/echo/replies".to_owned()),
        (Method::POST, "/v1/people".to_owned()),
    ] {
        let answer = send(&service, method, &path, &headers, "{}").await;
        assert_eq!(answer.error(), (400, "no_idempotency_key".to_owned()), "{path}");
    }
    let now = service.get(&agent, &format!("/v1/approvals/{id}")).await.good();
    assert_eq!(now["status"], "pending", "nothing was done");
    let body = json!({ "calls": [{ "tool": "echo", "arguments": { "n": 1 } }] }).to_string();
    let answer = send(&service, Method::POST, "/v1/calls", &headers, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}
