//! Life cycles of accounts: a person who was removed and added again regains nothing old (X67).

use axum::body::Body;
use axum::http::{Request, header};
use countersign::id::Person;
use countersign_server::access::{Account, Link, Scope};

use crate::access::{propose, ran};
use crate::support::{Service, id, tenant};

const QUORUM: &str = r#"
[tools.echo]
effect = "write"
quorum = 2
"#;

/// Signs a person in by a link and returns the session cookie.
pub async fn sign_in(service: &Service, name: &str) -> String {
    let code = Link::make(service.app.store(), &tenant(), Person::new(name).unwrap())
        .await
        .unwrap();
    enter(service, &code).await.unwrap()
}

async fn enter(service: &Service, code: &str) -> Option<String> {
    let request = Request::post("/sign-in")
        .header("host", "service.test")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(format!("code={code}")))
        .unwrap();
    let answered = service.ask(request).await;
    let cookie = answered.headers.get(header::SET_COOKIE)?.to_str().unwrap();
    Some(cookie.split(';').next().unwrap().to_owned())
}

pub async fn page(service: &Service, cookie: &str, path: &str) -> axum::response::Response {
    let request = Request::get(path)
        .header("host", "service.test")
        .header("cookie", cookie);
    service.open(request.body(Body::empty()).unwrap()).await
}

async fn is_signed_in(service: &Service, cookie: &str) -> bool {
    page(service, cookie, "/approvals").await.status() == 200
}

pub async fn remove(service: &Service, name: &str) {
    let person = Person::new(name).unwrap();
    Account::remove(service.app.store(), &tenant(), &person)
        .await
        .unwrap();
}

#[tokio::test]
async fn x67_who_was_removed_and_comes_back_gets_nothing_old_back() {
    let service = Service::new().await;
    let crm = service.agent("crm").await;
    let approval = propose(&service, &crm, 1, "one").await;
    let decider = service.decider("ana").await;
    let chat = service.with_scope("main", Scope::Chat).await;
    let for_ana = service
        .token_in("main", &[Scope::Propose], Some("crm"), Some("ana"))
        .await;
    let cookie = sign_in(&service, "ana").await;
    let link = Link::make(service.app.store(), &tenant(), Person::new("ana").unwrap())
        .await
        .unwrap();
    assert!(is_signed_in(&service, &cookie).await);
    remove(&service, "ana").await;
    let calls = r#"{"calls":[{"tool":"echo","arguments":{}}]}"#;
    assert_eq!(
        service.post(&for_ana, "/v1/calls", calls).await.status,
        401,
        "she is gone"
    );
    service.person("main", "ana", &["approvers"]).await;
    let path = format!("/v1/approvals/{}", id(&approval));
    let decided = service.post(&decider, &path, r#"{"approved":true}"#).await;
    assert_eq!(decided.status, 401);
    assert_eq!(service.get(&chat, "/v1/agents/crm/sessions/x").await.status, 401);
    assert_eq!(service.post(&for_ana, "/v1/calls", calls).await.status, 401);
    assert!(!is_signed_in(&service, &cookie).await);
    assert!(enter(&service, &link).await.is_none());
    assert!(ran(&service).is_empty());
    // New credentials work.
    let again = service.decider("ana").await;
    let path = format!("{path}?waitFor=finished");
    service.post(&again, &path, r#"{"approved":true}"#).await.good();
    assert_eq!(ran(&service), [r#"{"n":1}"#]);
    let cookie = sign_in(&service, "ana").await;
    assert!(is_signed_in(&service, &cookie).await);
}

#[tokio::test]
async fn x67_the_approval_of_somebody_who_left_does_not_count_towards_a_quorum() {
    let service = Service::with_policy(QUORUM).await;
    for name in ["bob", "carl"] {
        service.person("main", name, &["approvers"]).await;
    }
    let agent = service.agent("crm").await;
    for comes_back in [false, true] {
        service.ran.lock().unwrap().clear();
        service.person("main", "ana", &["approvers"]).await;
        let approval = propose(&service, &agent, 7, "one").await;
        let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
        let ana = service.decider("ana").await;
        let yes = r#"{"approved":true}"#;
        assert_eq!(service.post(&ana, &path, yes).await.good()["status"], "pending");
        remove(&service, "ana").await;
        if comes_back {
            service.person("main", "ana", &["approvers"]).await;
        }
        let bob = service.decider("bob").await;
        assert_eq!(
            service.post(&bob, &path, yes).await.good()["status"],
            "pending",
            "{comes_back}"
        );
        assert!(ran(&service).is_empty(), "{comes_back}");
        let carl = service.decider("carl").await;
        assert_eq!(service.post(&carl, &path, yes).await.good()["status"], "approved");
        assert_eq!(ran(&service), [r#"{"n":7}"#]);
        // The history is still readable.
        let path = format!("/v1/approvals/{}?events=true", id(&approval));
        let events = service.get(&agent, &path).await.good()["events"].clone();
        assert!(events.to_string().contains("endorsed"), "{events}");
    }
}

#[tokio::test]
async fn x67_a_person_who_left_the_group_does_not_count_towards_a_quorum() {
    let service = Service::with_policy(QUORUM).await;
    service.person("main", "bob", &["approvers"]).await;
    let agent = service.agent("crm").await;
    let approval = propose(&service, &agent, 7, "one").await;
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
    let (ana, bob) = (service.decider("ana").await, service.decider("bob").await);
    let yes = r#"{"approved":true}"#;
    service.post(&ana, &path, yes).await.good();
    let leave = |account: &mut Account| account.groups.clear();
    let name = Person::new("ana").unwrap();
    Account::change(service.app.store(), &tenant(), &name, leave)
        .await
        .unwrap();
    assert_eq!(service.post(&bob, &path, yes).await.good()["status"], "pending");
    assert!(ran(&service).is_empty());
}
