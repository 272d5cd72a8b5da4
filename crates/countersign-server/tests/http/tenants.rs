//! Two tenants: neither can see, decide or infer anything of the other's (I9, X20).

use axum::http::Method;
use countersign_server::access::Scope;
use countersign_server::http::openapi;
use serde_json::Value;

use crate::support::{Service, request};

#[tokio::test]
async fn x20_a_foreign_id_is_as_unknown_as_one_that_never_was() {
    let service = Service::new().await;
    service.person("other", "ana", &["approvers"]).await;
    let ours = service.agent("crm").await;
    let document = serde_json::to_value(openapi()).unwrap();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if !path.contains("{id}") {
            continue;
        }
        let path = &path.replace("{name}", "crm");
        for (method, operation) in methods.as_object().unwrap() {
            let approval = service.propose(&ours, "create_contact", "{}").await;
            let id = approval["id"].as_str().unwrap();
            let never = "01890a5d-ac96-774b-bcce-b302099a8057";
            let with = |id: &str| match path.starts_with("/v1/calls") {
                true => path.replace("{id}", &format!("{id}.1")),
                false => path.replace("{id}", id),
            };
            let body = match (method.as_str(), path.as_str()) {
                ("get", _) => String::new(),
                (_, path) if path.ends_with("/finish") => {
                    format!(r#"{{"permit":"{}","outcome":"succeeded"}}"#, "0".repeat(64))
                }
                (_, path) if path.ends_with("/reconcile") => r#"{"succeeded":true}"#.to_owned(),
                (_, "/v1/approvals/{id}") => r#"{"approved":true}"#.to_owned(),
                _ => "{}".to_owned(),
            };
            let scope = operation["security"][0]["token"][0].as_str().unwrap();
            let scope: Scope = scope.parse().unwrap();
            let theirs = service.with_scope("other", scope).await;
            let method: Method = method.to_uppercase().parse().unwrap();
            let foreign = service
                .ask(request(method.clone(), &with(id), Some(&theirs), &body))
                .await;
            let unknown = service
                .ask(request(method, &with(never), Some(&theirs), &body))
                .await;
            assert_eq!(foreign.status, 404, "{path}: {}", foreign.text);
            assert_eq!(
                foreign.text.replace(id, "ID"),
                unknown.text.replace(never, "ID"),
                "{path}: they can be told apart"
            );
            asked += 1;
        }
    }
    assert!(asked >= 6, "{asked}");
}

#[tokio::test]
async fn x20_lists_and_streams_hold_only_ones_own() {
    let service = Service::new().await;
    let ours = service.agent("crm").await;
    service.propose(&ours, "create_contact", "{}").await;
    let theirs = service.with_scope("other", Scope::Read).await;
    let list = service.get(&theirs, "/v1/approvals?status=all").await.good();
    assert_eq!(list["approvals"], Value::Array(Vec::new()));
    let path = "/v1/events?after=0";
    let response = service.open(request(Method::GET, path, Some(&theirs), "")).await;
    let mut body = response.into_body();
    let silent = tokio::time::timeout(
        std::time::Duration::from_millis(200),
        http_body_util::BodyExt::frame(&mut body),
    );
    assert!(silent.await.is_err(), "something came");
}
