//! Attacks with credentials: buttons of other channels, and two powers in one token (X65, X66).

use std::time::Duration;

use axum::http::Method;
use countersign::id::Person;
use countersign::registry::{Entry, Kind};
use countersign_server::access::{NewToken, Scope};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::support::{Service, id, request, tenant};

pub async fn propose(service: &Service, agent: &str, n: u32, channel: &str) -> Value {
    let body = json!({ "calls": [{ "tool": "echo", "arguments": { "n": n } }], "channel": channel });
    service.post(agent, "/v1/calls", &body.to_string()).await.good()["approval"].clone()
}

pub fn ran(service: &Service) -> Vec<String> {
    service.ran.lock().unwrap().clone()
}

pub async fn card(service: &Service, token: &str, channel: &str) -> Value {
    let path = format!("/v1/channels/{channel}/pending");
    service.get(token, &path).await.good()["pending"].clone()
}

pub async fn press(service: &Service, adapter: &str, channel: &str, payload: &Value) -> u16 {
    let body = json!({ "payload": payload, "sender": "ana" }).to_string();
    let path = format!("/v1/channels/{channel}/buttons");
    service.post(adapter, &path, &body).await.status.as_u16()
}

#[tokio::test]
async fn x65_only_those_who_reply_are_given_what_buttons_send() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let adapter = service.with_scope("main", Scope::Reply).await;
    let approval = propose(&service, &agent, 1, "one").await;
    let approve = card(&service, &adapter, "one").await["approve"]
        .as_str()
        .unwrap()
        .to_owned();
    let (_, proof) = approve.split_once('.').unwrap();
    let id = id(&approval);
    let paths = [
        "/v1/channels/one/pending".to_owned(),
        "/v1/channels/one/transcript".to_owned(),
        "/v1/approvals".to_owned(),
        format!("/v1/approvals/{id}?events=true&concerns=true"),
        "/v1/events?after=0".to_owned(),
    ];
    for scope in [
        Scope::Propose,
        Scope::Wait,
        Scope::Read,
        Scope::Decide,
        Scope::Execute,
    ] {
        let token = service.with_scope("main", scope).await;
        for path in &paths {
            let response = service.open(request(Method::GET, path, Some(&token), "")).await;
            let mut body = response.into_body().into_data_stream();
            let mut text = String::new();
            while let Ok(Some(Ok(piece))) =
                tokio::time::timeout(Duration::from_millis(100), body.next()).await
            {
                text.push_str(&String::from_utf8_lossy(&piece));
            }
            assert!(!text.contains(proof), "{scope} on {path}: {text}");
        }
    }
}

#[tokio::test]
async fn x65_a_button_works_in_its_own_channel_only() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let adapter = service.with_scope("main", Scope::Reply).await;
    let approval = propose(&service, &agent, 1, "one").await;
    propose(&service, &agent, 2, "other").await;
    let own = card(&service, &adapter, "one").await;
    for channel in ["other", "nothing-is-here", "ONE", "one%20"] {
        let status = press(&service, &adapter, channel, &own["approve"]).await;
        assert!(status >= 400, "{channel}: {status}");
        let status = press(&service, &adapter, channel, &own["deny"]).await;
        assert!(status >= 400, "{channel}: {status}");
    }
    assert!(ran(&service).is_empty(), "{:?}", ran(&service));
    let path = format!("/v1/approvals/{}", id(&approval));
    assert_eq!(service.get(&agent, &path).await.good()["status"], "pending");
    assert_eq!(press(&service, &adapter, "one", &own["approve"]).await, 200);
    assert_eq!(ran(&service), [r#"{"n":1}"#]);
}

/// Stores a token as an earlier version may have made it, and returns its text.
async fn old_token(service: &Service, change: impl Fn(&mut Value)) -> String {
    let text = service.with_scope("main", Scope::Reply).await;
    let key = countersign::hash::Hash::of(text.as_bytes()).to_string();
    let entry = service
        .app
        .store()
        .entry(Kind::Token, &key)
        .await
        .unwrap()
        .unwrap();
    let mut body: Value = serde_json::from_slice(&entry.body).unwrap();
    change(&mut body);
    let body = serde_json::to_vec(&body).unwrap().into();
    let changed = service
        .app
        .store()
        .put_entry(Entry { body, ..entry })
        .await
        .unwrap();
    assert!(matches!(changed, countersign::registry::Put::Written(_)));
    text
}

#[tokio::test]
async fn x66_a_token_of_an_earlier_version_with_two_powers_opens_nothing() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    propose(&service, &agent, 1, "one").await;
    for scopes in [
        json!(["execute", "reply"]),
        json!(["reply", "chat"]),
        json!(["decide", "execute"]),
        json!(["propose", "reply"]),
        json!(["admin", "reply"]),
        json!(["admin", "execute"]),
    ] {
        let token = old_token(&service, |body| {
            body["scopes"] = scopes.clone();
            body["person"] = json!("ana");
        })
        .await;
        for path in ["/v1/channels/one/pending", "/v1/approvals", "/metrics"] {
            assert_eq!(service.get(&token, path).await.status, 401, "{scopes} on {path}");
        }
    }
    // A token with a single power still works.
    let token = old_token(&service, |_| {}).await;
    assert_eq!(service.get(&token, "/v1/channels/one/pending").await.status, 200);
}

#[tokio::test]
async fn x66_no_token_can_be_made_that_decides_and_starts() {
    let service = Service::new().await;
    let mint = async |scopes: &[Scope], agent: bool, person: bool| {
        let new = NewToken {
            tenant: tenant(),
            name: Some(Person::new("x").unwrap()),
            scopes: scopes.iter().copied().collect(),
            agent: agent.then(|| "crm".parse().unwrap()),
            person: person.then(|| "ana".parse().unwrap()),
            lasts: Duration::from_secs(60),
        };
        new.mint(service.app.store()).await.is_ok()
    };
    let decides = [Scope::Decide, Scope::Reply, Scope::Chat];
    let acts = [Scope::Propose, Scope::Execute, Scope::Admin];
    for bits in 1u32..1 << Scope::ALL.len() {
        let scopes: Vec<Scope> = (0..Scope::ALL.len())
            .filter(|index| bits & (1 << index) != 0)
            .map(|index| Scope::ALL[index])
            .collect();
        let has = |list: &[Scope]| list.iter().filter(|scope| scopes.contains(scope)).count();
        let mut is_made = false;
        for (agent, person) in [(false, false), (true, false), (false, true), (true, true)] {
            is_made |= mint(&scopes, agent, person).await;
        }
        assert!(!is_made || has(&decides) == 0 || has(&acts) == 0, "{scopes:?}");
        // A token that replies for people has no other way to decide.
        assert!(
            !is_made || !scopes.contains(&Scope::Reply) || has(&decides) == 1,
            "{scopes:?}"
        );
        assert!(!is_made || has(&acts) <= 1, "{scopes:?}");
    }
}
