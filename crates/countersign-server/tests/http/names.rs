//! Tests names of hosts, names of people, and the page that a sign-in redirects to (X71).

use axum::body::Body;
use axum::http::{Request, header};
use countersign::id::Person;
use countersign_server::access::{Link, Scope};
use serde_json::json;

use crate::access::{card, propose, ran};
use crate::support::{Service, tenant};

#[tokio::test]
async fn x71_signing_in_leads_nowhere_else() {
    let evil = [
        "/%09/evil.com",
        "/\t/evil.com",
        "/%0A/evil.com",
        "//evil.com",
        "/\\evil.com",
        "\\\\evil.com",
        "/%5Cevil.com",
        "/%2Fevil.com",
        "/%252Fevil.com",
        "/./%09/evil.com",
        "/.//evil.com",
        "/approvals/..//evil.com",
        "/approvals/%2e%2e//evil.com",
        "https://evil.com",
        "https:evil.com",
        "javascript:alert(1)",
        "/\u{0}/evil.com",
        " //evil.com",
        "/ /evil.com",
        "/\u{2028}/evil.com",
        "evil.com",
        "@evil.com",
        "",
    ];
    for next in evil {
        for is_decoded in [false, true] {
            // A new service each time, because attempts to sign in are limited.
            let service = Service::new().await;
            let code = Link::make(service.app.store(), &tenant(), Person::new("finn").unwrap())
                .await
                .unwrap();
            let sent: String = match is_decoded {
                true => next.to_owned(),
                false => next.bytes().map(|byte| format!("%{byte:02X}")).collect(),
            };
            if is_decoded && next.contains(['&', '\u{0}', '\t', '\u{2028}']) {
                continue;
            }
            let request = Request::post("/sign-in")
                .header("host", "service.test")
                .header("content-type", "application/x-www-form-urlencoded")
                .body(Body::from(format!("code={code}&next={sent}")))
                .unwrap();
            let answered = service.ask(request).await;
            let location = answered
                .headers
                .get(header::LOCATION)
                .map(|to| to.to_str().unwrap().to_owned());
            assert_eq!(location.as_deref(), Some("/approvals"), "next={next:?}");
        }
    }
}

#[tokio::test]
async fn x71_a_request_names_one_host_and_it_is_ours() {
    let service = Service::new().await;
    let ask = async |uri: &str, hosts: &[&str]| {
        let mut request = Request::get(uri);
        for host in hosts {
            request = request.header("host", *host);
        }
        service
            .ask(request.body(Body::empty()).unwrap())
            .await
            .status
            .as_u16()
    };
    assert_eq!(ask("/healthz", &["service.test"]).await, 200);
    assert_eq!(ask("http://service.test/healthz", &["service.test"]).await, 200);
    for (uri, hosts) in [
        ("/healthz", &["service.test", "evil.test"][..]),
        ("/healthz", &["service.test", "service.test"]),
        ("/healthz", &["evil.test", "service.test"]),
        ("/healthz", &[]),
        ("http://evil.test/healthz", &["service.test"]),
        ("http://service.test@evil.test/healthz", &["service.test"]),
        ("http://user@service.test/healthz", &["service.test"]),
        ("http://service.test:81/healthz", &["service.test"]),
        ("http://evil.test/healthz", &["evil.test"]),
    ] {
        let status = ask(uri, hosts).await;
        assert!(status == 400 || status == 403, "{uri} {hosts:?}: {status}");
    }
}

#[tokio::test]
async fn x71_a_sender_is_found_by_the_one_form_of_a_name() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let adapter = service.with_scope("main", Scope::Reply).await;
    propose(&service, &agent, 1, "one").await;
    let approve = card(&service, &adapter, "one").await["approve"].clone();
    let path = "/v1/channels/one/buttons";
    for sender in [
        "\u{430}n\u{430}",
        "a\u{200b}na",
        "ana\u{2060}",
        "an\u{430}",
        "ana\u{0}",
    ] {
        let body = json!({ "payload": approve, "sender": sender }).to_string();
        let status = service.post(&adapter, path, &body).await.status;
        assert!(status == 400 || status == 403, "{sender:?}: {status}");
    }
    assert!(ran(&service).is_empty());
    let body = json!({ "payload": approve, "sender": "ANA" }).to_string();
    let pressed = service.post(&adapter, path, &body).await.good();
    assert_eq!(pressed["approval"]["decidedBy"], "ana");
}
