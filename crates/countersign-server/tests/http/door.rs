//! Tests the checks in front of all routes: hosts, origins, and security headers.

use axum::body::Body;
use axum::http::{Method, Request};

use crate::support::{Service, request};

fn from(headers: &[(&str, &str)], method: Method, path: &str) -> Request<Body> {
    let mut request = request(method, path, None, "");
    for (name, value) in headers {
        let name: axum::http::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

#[tokio::test]
async fn x26_only_known_names_are_answered() {
    let service = Service::new().await;
    for host in [
        "evil.test",
        "service.test.evil.test",
        "127.0.0.1",
        "",
        "service.test:80",
    ] {
        for path in ["/healthz", "/v1/approvals", "/sign-in", "/nowhere"] {
            let answered = service.ask(from(&[("host", host)], Method::GET, path)).await;
            assert_eq!(
                answered.error(),
                (403, "unknown_host".to_owned()),
                "{host} {path}"
            );
        }
    }
    let answered = service
        .ask(from(&[("host", "SERVICE.test")], Method::GET, "/healthz"))
        .await;
    assert_eq!(answered.status, 200);
}

#[tokio::test]
async fn x27_other_sites_cannot_speak_through_a_visitors_browser() {
    let service = Service::new().await;
    let refused: &[&[(&str, &str)]] = &[
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "cors")],
        &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "cors")],
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
        &[("origin", "https://evil.test")],
        &[("origin", "null")],
        &[
            ("origin", "https://service.test.evil.test"),
            ("sec-fetch-site", "same-origin"),
        ],
    ];
    for headers in refused {
        let answered = service.ask(from(headers, Method::POST, "/sign-in")).await;
        assert_eq!(answered.error(), (403, "cross_site".to_owned()), "{headers:?}");
    }
    let read = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")];
    assert_eq!(
        service.ask(from(&read, Method::GET, "/sign-in")).await.status,
        403
    );
    // A link on another site may open a page.
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    assert_eq!(
        service.ask(from(&link, Method::GET, "/sign-in")).await.status,
        200
    );
    let own = [
        ("sec-fetch-site", "same-origin"),
        ("origin", "http://service.test"),
    ];
    assert_ne!(
        service.ask(from(&own, Method::POST, "/sign-in")).await.status,
        403
    );
}

#[tokio::test]
async fn h05_every_answer_keeps_browsers_careful() {
    let service = Service::new().await;
    for (path, host) in [
        ("/healthz", "service.test"),
        ("/sign-in", "service.test"),
        ("/v1/approvals", "service.test"),
        ("/nowhere", "service.test"),
        ("/healthz", "evil.test"),
    ] {
        let answered = service.ask(from(&[("host", host)], Method::GET, path)).await;
        let headers = &answered.headers;
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{path}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(
            headers["referrer-policy"], "same-origin",
            "nothing to other sites"
        );
        assert!(!headers.contains_key("access-control-allow-origin"), "no CORS");
        assert_eq!(headers["cache-control"], "no-store");
    }
}

#[tokio::test]
async fn x36_nothing_is_changed_by_looking() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let approval = service.propose(&agent, "create_contact", "{}").await;
    let path = format!("/v1/approvals/{}", approval["id"].as_str().unwrap());
    for query in ["?approved=true", "?approve", "?decision=approve"] {
        let answered = service.get(&ana, &format!("{path}{query}")).await;
        assert_eq!(answered.status, 400, "{query}");
    }
    for method in [Method::PUT, Method::PATCH, Method::DELETE] {
        let answered = service.ask(request(method, &path, Some(&ana), "")).await;
        assert_eq!(answered.error(), (405, "wrong_method".to_owned()));
    }
    assert_eq!(service.get(&ana, &path).await.good()["status"], "pending");
}
