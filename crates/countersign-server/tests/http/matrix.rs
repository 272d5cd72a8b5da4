//! Every role on every route: what a credential is for, it can do, and nothing else (H01, I10).

use std::collections::BTreeSet;

use axum::http::Method;
use countersign_server::access::Scope;
use countersign_server::http::openapi;
use serde_json::Value;

use crate::support::{Service, request};

/// A route as the API's own document has it.
#[derive(Debug)]
struct Route {
    method: Method,
    path: String,
    /// Any of these is enough; empty: open to all.
    scopes: BTreeSet<String>,
}

fn routes() -> Vec<Route> {
    let document = serde_json::to_value(openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let mut routes = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let security = operation["security"].as_array().cloned().unwrap_or_default();
            let scopes = security
                .iter()
                .flat_map(|one| one["token"].as_array().cloned().unwrap_or_default());
            routes.push(Route {
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                scopes: scopes
                    .map(|scope: Value| scope.as_str().unwrap().to_owned())
                    .collect(),
            });
        }
    }
    routes
}

#[tokio::test]
async fn h01_every_scope_on_every_route() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let routes = routes();
    assert!(routes.len() >= 11, "{routes:?}");
    for route in routes {
        // Somebody's real approval, so that a missing check would show.
        let approval = service.propose(&agent, "create_contact", "{}").await;
        let id = approval["id"].as_str().unwrap();
        let id = match route.path.starts_with("/v1/calls") {
            true => format!("{id}.1"),
            false => id.to_owned(),
        };
        let path = route
            .path
            .replace("{id}", &id)
            .replace("{channel}", "create_contact")
            .replace("{name}", "crm");
        let body = if route.method == Method::POST { "{}" } else { "" };
        for scope in Scope::ALL {
            let token = service.with_scope("main", scope).await;
            let response = service
                .open(request(route.method.clone(), &path, Some(&token), body))
                .await;
            let is_allowed = route.scopes.is_empty() || route.scopes.contains(scope.as_str());
            assert_eq!(
                response.status() == 403,
                !is_allowed,
                "{scope} on {} {path}: {}",
                route.method,
                response.status()
            );
        }
        for (token, who) in [
            (None, "nobody"),
            (Some("cst_0"), "a guess"),
            (Some(""), "an empty token"),
        ] {
            let response = service
                .open(request(route.method.clone(), &path, token, body))
                .await;
            assert_eq!(
                response.status() == 401,
                !route.scopes.is_empty(),
                "{who} on {path}"
            );
        }
        let pending = service
            .get(
                &agent,
                &format!("/v1/approvals/{}", approval["id"].as_str().unwrap()),
            )
            .await;
        let state = pending.good()["status"].clone();
        assert!(
            state == "pending" || route.path.ends_with("/withdraw"),
            "{state} after {}",
            route.path
        );
    }
}

/// I10: the credentials themselves cannot hold what must not meet.
#[tokio::test]
async fn i10_no_token_holds_both_sides() {
    let service = Service::new().await;
    let mint = |scopes: &[Scope], agent: Option<&str>, person: Option<&str>| {
        let new = countersign_server::access::NewToken {
            tenant: crate::support::tenant(),
            name: Some("x".parse().unwrap()),
            scopes: scopes.iter().copied().collect(),
            agent: agent.map(|agent| agent.parse().unwrap()),
            person: person.map(|person| person.parse().unwrap()),
            lasts: std::time::Duration::from_secs(60),
        };
        let app = service.app.clone();
        async move {
            new.mint(app.store())
                .await
                .map(|_| ())
                .map_err(|error| error.to_string())
        }
    };
    use Scope::{Admin, Decide, Execute, Propose, Read, Reply, Wait};
    assert!(mint(&[Propose, Wait], Some("crm"), Some("ana")).await.is_ok());
    assert!(mint(&[Read, Decide], None, Some("ana")).await.is_ok());
    for extra in [Read, Decide, Execute, Reply, Admin] {
        assert!(
            mint(&[Propose, extra], Some("crm"), Some("ana")).await.is_err(),
            "{extra}"
        );
    }
    assert!(
        mint(&[Propose], None, Some("ana")).await.is_err(),
        "only agents propose"
    );
    assert!(mint(&[Decide, Execute], None, Some("ana")).await.is_err());
    assert!(mint(&[Decide], None, None).await.is_err(), "nobody decides");
    assert!(mint(&[Decide], None, Some("ghost")).await.is_err());
    assert!(mint(&[], Some("crm"), None).await.is_err());
}
