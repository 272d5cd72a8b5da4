//! Access matrix: every possible credential on every route. A credential allows what it is for, and nothing else (H01,
//! I10, X66).

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, header};
use countersign::id::Person;
use countersign_server::access::{Link, NewToken, Role, Scope, Scopes};
use countersign_server::http::openapi;
use serde_json::Value;

use crate::support::{Service, request, tenant};

/// A route of the API, as its OpenAPI document lists it.
#[derive(Debug)]
struct Route {
    method: Method,
    path: String,
    /// Accepted scopes, of which one suffices; if empty, the route is public.
    scopes: BTreeSet<String>,
}

/// Pages: method, path, and whether they are public.
const PAGES: &[(&str, &str, bool)] = &[
    ("GET", "/", true),
    ("GET", "/approvals", false),
    ("GET", "/approvals/history", false),
    ("GET", "/approvals/history.csv", false),
    ("GET", "/approvals/history.jsonl", false),
    ("GET", "/approvals/{id}", false),
    ("POST", "/approvals/decisions", false),
    ("POST", "/approvals/{id}/decision", false),
    ("GET", "/approvals/{id}/calls/{position}/arguments", false),
    ("GET", "/approvals/{id}/calls/{position}/result", false),
    ("POST", "/approvals/{id}/calls/{position}/undo", false),
    ("POST", "/approvals/{id}/calls/{position}/reconciliation", false),
    ("GET", "/numbers", false),
    ("GET", "/approvals/cards", false),
    ("GET", "/approvals/{id}/card", false),
    ("GET", "/approvals/live", false),
    ("GET", "/people", false),
    ("POST", "/people", false),
    ("POST", "/people/{name}/groups", false),
    ("POST", "/people/{name}/sign-in-link", false),
    ("POST", "/people/{name}/senders", false),
    ("POST", "/people/{name}/senders/unlink", false),
    ("POST", "/people/{name}/remove", false),
    ("GET", "/playground", false),
    ("GET", "/playground/{agent}", false),
    ("POST", "/playground/{agent}/messages", false),
    ("GET", "/playground/{agent}/live", false),
    ("GET", "/sign-in", true),
    ("POST", "/sign-in", true),
    ("POST", "/sign-out", true),
    ("GET", "/assets/{name}", true),
    ("GET", "/openapi.json", true),
];

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

/// Creates a token for every allowed set of scopes.
async fn tokens(service: &Service) -> Vec<(Scopes, String)> {
    let mut tokens = Vec::new();
    for bits in 1u32..1 << Scope::ALL.len() {
        let scopes: Scopes = (0..Scope::ALL.len())
            .filter(|index| bits & (1 << index) != 0)
            .map(|index| Scope::ALL[index])
            .collect();
        let agents = [None, Some("crm")];
        let people = [None, Some("ana")];
        let kinds = agents
            .iter()
            .flat_map(|agent| people.iter().map(move |person| (agent, person)));
        for (agent, person) in kinds {
            let new = NewToken {
                tenant: tenant(),
                name: Some(Person::new("some program").unwrap()),
                scopes: scopes.clone(),
                agent: agent.map(|name| name.parse().unwrap()),
                person: person.map(|name| name.parse().unwrap()),
                lasts: Duration::from_secs(24 * 3600),
            };
            if let Ok(minted) = new.mint(service.app.store()).await {
                tokens.push((scopes.clone(), minted.text));
            }
        }
    }
    tokens
}

async fn cookie(service: &Service, name: &str) -> String {
    let link = Link::make(service.app.store(), &tenant(), Person::new(name).unwrap())
        .await
        .unwrap();
    let entered = Request::post("/sign-in")
        .header("host", "service.test")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(format!("code={link}")))
        .unwrap();
    let entered = service.ask(entered).await;
    let cookie = entered.headers[header::SET_COOKIE].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

/// Replaces the parameters of a path by a real approval's id, so that a missing access check would show.
fn filled(path: &str, approval: &str) -> String {
    let id = match path.starts_with("/v1/calls") {
        true => format!("{approval}.1"),
        false => approval.to_owned(),
    };
    path.replace("{id}", &id)
        .replace("{channel}", "echo")
        .replace("{position}", "1")
        .replace("{agent}", "crm")
        .replace("{name}", "crm")
        .replace("{sender}", "telegram:1")
}

#[tokio::test]
async fn h01_every_token_on_every_route() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let other = service.agent("cms").await;
    let session = cookie(&service, "ana").await;
    let tokens = tokens(&service).await;
    let kinds: BTreeSet<String> = tokens.iter().map(|(scopes, _)| scopes.to_string()).collect();
    assert_eq!(kinds.len(), 20, "{kinds:?}");
    let routes = routes();
    assert!(routes.len() >= 20, "{routes:?}");
    for route in routes {
        let mut approval = service.propose(&agent, "echo", "{}").await;
        let id = |approval: &Value| approval["id"].as_str().unwrap().to_owned();
        let body = if route.method == Method::POST { "{}" } else { "" };
        let ask = async |path: &str, token: Option<&str>| {
            let response = service
                .open(request(route.method.clone(), path, token, body))
                .await;
            response.status().as_u16()
        };
        for (scopes, token) in &tokens {
            let path = filled(&route.path, &id(&approval));
            let status = ask(&path, Some(token)).await;
            let is_allowed =
                route.scopes.is_empty() || scopes.iter().any(|scope| route.scopes.contains(scope.as_str()));
            assert_eq!(
                status == 403,
                !is_allowed,
                "{scopes} on {} {path}: {status}",
                route.method
            );
            assert_ne!(status, 401, "{scopes} on {} {path}", route.method);
            if route.path.ends_with("/withdraw") && status == 200 {
                approval = service.propose(&agent, "echo", "{}").await;
            }
        }
        let path = filled(&route.path, &id(&approval));
        for (token, who) in [
            (None, "nobody"),
            (Some("cst_0"), "a guess"),
            (Some(""), "an empty token"),
        ] {
            let status = ask(&path, token).await;
            assert_eq!(
                status == 401,
                !route.scopes.is_empty(),
                "{who} on {path}: {status}"
            );
        }
        // A page's cookie does not open the API, not even as a token.
        let (_, text) = session.split_once('=').unwrap();
        let shown = Request::builder()
            .method(route.method.clone())
            .uri(&path)
            .header("host", "service.test")
            .header("content-type", "application/json")
            .header("cookie", &session);
        let status = service.open(shown.body(Body::from(body)).unwrap()).await.status();
        assert_eq!(
            status == 401,
            !route.scopes.is_empty(),
            "a session on {path}: {status}"
        );
        let status = ask(&path, Some(text)).await;
        assert_eq!(
            status == 401,
            !route.scopes.is_empty(),
            "a session's text on {path}: {status}"
        );
        // Another agent's approval is answered like one that does not exist.
        if route.path.contains("{id}") && !route.path.contains("/agents/") {
            let status = ask(&path, Some(&other)).await;
            assert!(
                [400, 403, 404].contains(&status),
                "another agent on {path}: {status}"
            );
            let (is_missing, missing) = (
                status,
                filled(&route.path, "01890a5d-ac96-774b-bcce-b302099a8057"),
            );
            assert_eq!(ask(&missing, Some(&other)).await, is_missing, "{path}");
        }
        let now = service
            .get(&agent, &format!("/v1/approvals/{}", id(&approval)))
            .await
            .good();
        assert_eq!(now["status"], "pending", "after {}", route.path);
    }
    assert!(service.ran.lock().unwrap().is_empty(), "nothing ran");
}

#[tokio::test]
async fn h01_pages_are_for_sessions_alone() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let approval = service.propose(&agent, "echo", "{}").await;
    let approval = approval["id"].as_str().unwrap();
    let session = cookie(&service, "ana").await;
    let tokens = tokens(&service).await;
    let ask = async |method: &str, path: &str, name: &str, value: &str| {
        let asked = Request::builder()
            .method(method)
            .uri(filled(path, approval))
            .header("host", "service.test")
            .header("content-type", "application/x-www-form-urlencoded")
            .header(name, value);
        let response = service.open(asked.body(Body::empty()).unwrap()).await;
        let to = response
            .headers()
            .get(header::LOCATION)
            .map(|to| to.to_str().unwrap().to_owned());
        let leads_to_sign_in = to.is_some_and(|to| to.starts_with("/sign-in"));
        response.status() == 401 || leads_to_sign_in
    };
    for (method, path, is_open) in PAGES {
        if *path == "/sign-out" || *path == "/sign-in" {
            continue;
        }
        for (scopes, token) in &tokens {
            let shown = format!("Bearer {token}");
            assert_eq!(
                ask(method, path, "authorization", &shown).await,
                !is_open,
                "{scopes} on {path}"
            );
            let as_cookie = format!("__Host-countersign={token}");
            assert_eq!(
                ask(method, path, "cookie", &as_cookie).await,
                !is_open,
                "{scopes} on {path}"
            );
        }
        assert_eq!(
            ask(method, path, "x-nothing", "x").await,
            !is_open,
            "nobody on {path}"
        );
        assert!(
            !ask(method, path, "cookie", &session).await,
            "a session on {path}"
        );
    }
    let now = service
        .get(&agent, &format!("/v1/approvals/{approval}"))
        .await
        .good();
    assert_eq!(now["status"], "pending");
    assert!(service.ran.lock().unwrap().is_empty(), "nothing ran");
}

/// The matrix contains every route in the source: those of the API from its document, the others from [`PAGES`].
#[test]
fn h01_no_route_is_missing_from_the_matrix() {
    let mut found = BTreeSet::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for folder in ["http", "inbox"] {
        look_for_routes(&source.join(folder), &mut found);
    }
    let known: BTreeSet<(String, String)> = PAGES
        .iter()
        .map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()))
        .collect();
    assert_eq!(found, known);
}

fn look_for_routes(folder: &Path, found: &mut BTreeSet<(String, String)>) {
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            look_for_routes(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(
                !text.contains(".nest(") && !text.contains("route_service("),
                "{path:?}"
            );
            for (at, _) in text.match_indices(".route(") {
                let rest = text[at + 7..].trim_start();
                let rest = rest
                    .strip_prefix('"')
                    .unwrap_or_else(|| panic!("{path:?}: a path that is not written out"));
                let (route, rest) = rest.split_once('"').unwrap();
                let end = rest
                    .find(".route(")
                    .or_else(|| rest.find("\n}"))
                    .unwrap_or(rest.len());
                let handlers = &rest[..end];
                for (word, method) in [
                    ("get(", "GET"),
                    ("post(", "POST"),
                    ("put(", "PUT"),
                    ("delete(", "DELETE"),
                    ("any(", "ANY"),
                ] {
                    let is_there = [" ", "\n", "."]
                        .iter()
                        .any(|before| handlers.contains(&format!("{before}{word}")));
                    if is_there {
                        found.insert((method.to_owned(), route.to_owned()));
                    }
                }
            }
        }
    }
}

/// The table in docs/serve.md agrees with the code.
#[test]
fn x66_the_documented_roles_are_those_in_force() {
    let document = include_str!("../../../../docs/serve.md");
    for role in Role::ALL {
        let scopes: Vec<&str> = role.scopes().iter().map(|scope| scope.as_str()).collect();
        let row = format!("| {} | {} |", role.as_str(), scopes.join(", "));
        assert!(document.contains(&row), "docs/serve.md has no `{row}`");
    }
}

/// I10: no credential can combine powers that must stay apart.
#[tokio::test]
async fn i10_no_token_holds_both_sides() {
    let service = Service::new().await;
    let mint = |scopes: &[Scope], agent: Option<&str>, person: Option<&str>| {
        let new = NewToken {
            tenant: tenant(),
            name: Some("x".parse().unwrap()),
            scopes: scopes.iter().copied().collect(),
            agent: agent.map(|agent| agent.parse().unwrap()),
            person: person.map(|person| person.parse().unwrap()),
            lasts: Duration::from_secs(60),
        };
        let app = service.app.clone();
        async move {
            new.mint(app.store())
                .await
                .map(|_| ())
                .map_err(|error| error.to_string())
        }
    };
    use Scope::{Admin, Agent, Chat, Decide, Execute, Propose, Read, Reply, Wait};
    assert!(mint(&[Propose, Wait], Some("crm"), Some("ana")).await.is_ok());
    assert!(mint(&[Read, Decide], None, Some("ana")).await.is_ok());
    for extra in [Read, Decide, Execute, Reply, Admin] {
        assert!(
            mint(&[Propose, extra], Some("crm"), Some("ana")).await.is_err(),
            "{extra}"
        );
    }
    assert!(mint(&[Agent], Some("crm"), Some("ana")).await.is_ok());
    for extra in [Read, Decide, Execute, Reply, Chat, Admin] {
        assert!(
            mint(&[Agent, extra], Some("crm"), Some("ana")).await.is_err(),
            "{extra}"
        );
    }
    assert!(mint(&[Agent], None, Some("ana")).await.is_err(), "only agents");
    assert!(
        mint(&[Propose], None, Some("ana")).await.is_err(),
        "only agents propose"
    );
    let refused = mint(&[Reply, Execute], None, None).await.unwrap_err();
    assert!(
        refused.starts_with("a token cannot combine execute,reply"),
        "{refused}"
    );
    assert!(mint(&[Decide], None, None).await.is_err(), "nobody decides");
    assert!(mint(&[Decide], None, Some("ghost")).await.is_err());
    assert!(mint(&[], Some("crm"), None).await.is_err());
}
