//! Life cycles of tokens, sessions and sign-in links.

use std::time::Duration;

use axum::http::Method;
use countersign::id::Person;
use countersign_server::access::{Account, Link, Token};

use crate::support::{Service, request, tenant};

#[tokio::test]
async fn h03_a_token_ends_when_it_is_revoked_and_when_its_time_is_over() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    assert_eq!(service.get(&agent, "/v1/approvals").await.status, 200);
    let listed = Token::list(service.app.store(), &tenant()).await.unwrap();
    let (id, _) = &listed[0];
    Token::revoke(service.app.store(), &tenant(), id).await.unwrap();
    assert_eq!(
        service.get(&agent, "/v1/approvals").await.error(),
        (401, "unauthorized".to_owned())
    );
    let second = service.agent("crm").await;
    service.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(service.get(&second, "/v1/approvals").await.status, 401);
}

/// Repeated reads get the same bytes until anything changes in the store.
#[tokio::test]
async fn h03_a_look_that_was_made_before_opens_and_hides_nothing() {
    let service = Service::new().await;
    let (agent, other) = (service.agent("crm").await, service.agent("cms").await);
    let ana = service.decider("ana").await;
    let approval = service.propose(&agent, "create_contact", "{}").await;
    let path = format!("/v1/approvals/{}", approval["id"].as_str().unwrap());
    let look = async || service.get(&agent, &path).await.good();
    let first = look().await;
    service.clock.advance(Duration::from_secs(1));
    let second = look().await;
    assert_ne!(first["now"], second["now"]);
    assert_eq!(
        (&first["status"], &second["status"]),
        (&"pending".into(), &"pending".into())
    );
    assert_eq!(
        service.get(&other, &path).await.error(),
        (404, "not_found".to_owned())
    );
    service.post(&ana, &path, r#"{"approved":false}"#).await.good();
    assert_eq!(look().await["status"], "denied");
    assert_eq!(look().await["status"], "denied");
    let listed = Token::list(service.app.store(), &tenant()).await.unwrap();
    let (id, _) = listed
        .iter()
        .find(|(_, token)| token.name.as_str() == "crm")
        .unwrap();
    Token::revoke(service.app.store(), &tenant(), id).await.unwrap();
    assert_eq!(service.get(&agent, &path).await.status, 401);
}

#[tokio::test]
async fn h03_a_look_that_was_made_before_ends_with_time() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let approval = service.propose(&agent, "create_contact", "{}").await;
    let path = format!("/v1/approvals/{}", approval["id"].as_str().unwrap());
    let look = async || service.get(&agent, &path).await;
    assert_eq!(look().await.good()["status"], "pending");
    service.clock.advance(Duration::from_secs(24 * 3600 - 1));
    let answered = look().await;
    assert_eq!(answered.json()["status"], "expired", "{:?}", answered.json());
    service.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(look().await.status, 401);
}

#[tokio::test]
async fn h03_what_is_kept_opens_nothing() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let store = service.app.store();
    let kept = store
        .entries(&tenant(), countersign::registry::Kind::Token, None, 10)
        .await
        .unwrap();
    let body = String::from_utf8(kept[0].body.to_vec()).unwrap();
    let secret = agent.trim_start_matches("cst_");
    assert!(!body.contains(secret) && !kept[0].key.contains(secret));
    for stolen in [kept[0].key.clone(), format!("cst_{}", kept[0].key)] {
        assert_eq!(service.get(&stolen, "/v1/approvals").await.status, 401);
    }
}

#[tokio::test]
async fn x46_who_left_a_group_or_the_house_decides_nothing() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let approval = service.propose(&agent, "create_contact", "{}").await;
    let path = format!("/v1/approvals/{}", approval["id"].as_str().unwrap());
    let name = Person::new("ana").unwrap();
    let leave = |account: &mut Account| account.groups.clear();
    Account::change(service.app.store(), &tenant(), &name, leave)
        .await
        .unwrap();
    let refused = service.post(&ana, &path, r#"{"approved":true}"#).await;
    assert_eq!(refused.error(), (403, "not_allowed".to_owned()));
    Account::remove(service.app.store(), &tenant(), &name)
        .await
        .unwrap();
    assert_eq!(
        service.post(&ana, &path, r#"{"approved":true}"#).await.status,
        401
    );
}

async fn sign_in(service: &Service, body: &str) -> crate::support::Answered {
    let mut request = request(Method::POST, "/sign-in", None, body);
    let kind = "application/x-www-form-urlencoded".parse().unwrap();
    request.headers_mut().insert("content-type", kind);
    service.ask(request).await
}

/// Requests the inbox with a cookie and returns the status.
async fn inbox(service: &Service, cookie: &str) -> u16 {
    let mut request = request(Method::GET, "/approvals", None, "");
    request.headers_mut().insert("cookie", cookie.parse().unwrap());
    service.ask(request).await.status.as_u16()
}

#[tokio::test]
async fn h04_a_link_signs_in_once_and_opening_it_changes_nothing() {
    let service = Service::new().await;
    let name = Person::new("ana").unwrap();
    let code = Link::make(service.app.store(), &tenant(), name.clone())
        .await
        .unwrap();
    for _ in 0..3 {
        let opened = service
            .ask(request(Method::GET, &format!("/sign-in?code={code}"), None, ""))
            .await;
        assert_eq!(opened.status, 200);
        assert!(!opened.headers.contains_key("set-cookie"), "X36");
    }
    let entered = sign_in(&service, &format!("code={code}&next=/approvals")).await;
    assert_eq!(entered.status, 303);
    let cookie = entered.headers["set-cookie"].to_str().unwrap();
    for part in [
        "__Host-countersign=",
        "Path=/",
        "Secure",
        "HttpOnly",
        "SameSite=Strict",
    ] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap().to_owned();
    assert_eq!(inbox(&service, &cookie).await, 200);
    assert_eq!(
        sign_in(&service, &format!("code={code}")).await.status,
        401,
        "only once"
    );
    // Half an hour without a request signs out.
    service.clock.advance(Duration::from_secs(31 * 60));
    assert_eq!(inbox(&service, &cookie).await, 303);
    let late = Link::make(service.app.store(), &tenant(), name).await.unwrap();
    service.clock.advance(Duration::from_secs(16 * 60));
    assert_eq!(sign_in(&service, &format!("code={late}")).await.status, 401);
}

#[tokio::test]
async fn h04_a_session_lasts_while_it_is_used_but_not_for_ever() {
    let service = Service::new().await;
    let code = Link::make(service.app.store(), &tenant(), Person::new("ana").unwrap())
        .await
        .unwrap();
    let entered = sign_in(&service, &format!("code={code}")).await;
    let cookie = entered.headers["set-cookie"]
        .to_str()
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    for _ in 0..28 {
        service.clock.advance(Duration::from_secs(25 * 60));
        assert_eq!(inbox(&service, &cookie).await, 200);
    }
    service.clock.advance(Duration::from_secs(25 * 60));
    assert_eq!(inbox(&service, &cookie).await, 303, "twelve hours are over");
    // A page's cookie does not open the API.
    let mut api = request(Method::GET, "/v1/approvals", None, "");
    api.headers_mut().insert("cookie", cookie.parse().unwrap());
    assert_eq!(service.ask(api).await.status, 401);
}

#[tokio::test]
async fn h04_a_password_signs_in_and_guessing_is_slowed_down() {
    let service = Service::new().await;
    let hash = Account::hash_password("correct horse").unwrap();
    Account::set_password(
        service.app.store(),
        &tenant(),
        &Person::new("ana").unwrap(),
        &hash,
    )
    .await
    .unwrap();
    assert_eq!(
        sign_in(&service, "name=ana&password=correct+horse").await.status,
        303
    );
    assert_eq!(sign_in(&service, "name=ana&password=wrong").await.status, 401);
    assert_eq!(
        sign_in(&service, "name=finn&password=").await.status,
        401,
        "no password is not an empty one"
    );
    assert_eq!(sign_in(&service, "name=nobody&password=x").await.status, 401);
    let mut last = 0;
    for _ in 0..6 {
        last = sign_in(&service, "name=ana&password=guess").await.status.as_u16();
    }
    assert_eq!(last, 429);
    assert!(Account::hash_password("short").is_err());
    let away = sign_in(&service, "name=finn&password=x&next=//evil.test").await;
    assert!(!away.text.contains("evil.test"), "{}", away.text);
}
