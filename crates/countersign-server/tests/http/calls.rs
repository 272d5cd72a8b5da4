//! Tests `/v1/calls`.

use axum::http::Method;
use countersign_server::access::Scope;
use serde_json::{Value, json};

use crate::support::{Service, id, request};

#[tokio::test]
async fn x12_a_person_says_how_an_unknown_call_ended_and_it_is_not_run_again() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let finn = service.decider("finn").await;
    let host = service.with_scope("main", Scope::Execute).await;
    let approval = service.propose(&agent, "create_contact", r#"{"name":"M"}"#).await;
    let (id, call) = (approval["id"].as_str().unwrap(), &approval["calls"][0]["id"]);
    let call = format!("/v1/calls/{}", call.as_str().unwrap());
    let settle = |token: &str, body: &str| {
        let (service, token, body) = (&service, token.to_owned(), body.to_owned());
        let path = format!("{call}/reconcile");
        async move { service.post(&token, &path, &body).await }
    };
    let good = r#"{"succeeded":true,"note":"seen in the mailbox"}"#;
    assert_eq!(settle(&ana, good).await.status, 409, "it has not even started");
    let path = format!("/v1/approvals/{id}");
    service.post(&ana, &path, r#"{"approved":true}"#).await.good();
    let permit = service.post(&host, &format!("{call}/start"), "{}").await.good();
    let permit = permit["permit"].as_str().unwrap().to_owned();
    let lost = format!(r#"{{"permit":"{permit}","outcome":"unknown"}}"#);
    service.post(&host, &format!("{call}/finish"), &lost).await.good();
    assert_eq!(
        settle(&agent, good).await.error(),
        (403, "wrong_scope".to_owned())
    );
    assert_eq!(settle(&finn, good).await.error(), (403, "not_allowed".to_owned()));
    assert_eq!(settle(&ana, r#"{"note":"?"}"#).await.status, 400);
    let settled = settle(&ana, good).await.good();
    assert_eq!(settled["calls"][0]["state"], "succeeded");
    let again = service.post(&host, &format!("{call}/start"), "{}").await;
    assert_eq!(again.status, 409, "it is never run again");
}

#[tokio::test]
async fn a1_reads_pass_writes_are_held_and_forbidden_calls_say_why() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let body = r#"{"calls":[
        {"tool":"search","arguments":{"q":1}},
        {"tool":"create_contact","arguments":{"name":"Maria"}},
        {"tool":"refund","arguments":{"amount":5000}},
        {"tool":"lookup","arguments":{"q": 2}},
        {"tool":"nobody_knows_it","arguments":{}}]}"#;
    let answered = service.post(&agent, "/v1/calls", body).await.good();
    let rulings: Vec<_> = answered["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["ruling"].clone())
        .collect();
    assert_eq!(rulings, ["pass", "held", "forbidden", "pass", "held"]);
    assert_eq!(answered["calls"][1]["status"], "pending_confirmation");
    assert!(
        answered["calls"][2]["reason"]
            .as_str()
            .unwrap()
            .contains("forbids")
    );
    // The service has run the tool that it executes itself.
    assert_eq!(answered["calls"][3]["result"], json!({ "q": 2 }));
    assert_eq!(answered["calls"][0]["result"], json!(null));
    assert_eq!(answered["approval"]["calls"].as_array().unwrap().len(), 2);
    assert_eq!(answered["approval"]["calls"][1]["effect"], "destructive");
}

#[tokio::test]
async fn x23_arguments_that_could_be_read_two_ways_are_forbidden() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    for bad in [
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"a":"\ud800"}"#,
        "[1]",
        "7",
    ] {
        let body = format!(r#"{{"calls":[{{"tool":"create_contact","arguments":{bad}}}]}}"#);
        let answered = service.post(&agent, "/v1/calls", &body).await;
        let refused = match answered.status.as_u16() {
            200 => answered.json()["calls"][0]["ruling"] == "forbidden",
            400 => true,
            _ => false,
        };
        assert!(refused, "{bad}: {}", answered.text);
    }
}

#[tokio::test]
async fn bad_bodies_are_told_apart() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    for (body, code) in [
        ("{", 400),
        (r#"{"calls":[]}"#, 422),
        (r#"{"calls":[{"tool":"search"}]}"#, 422),
        (r#"{"calls":[{"tool":"search","arguments":{}}],"colour":1}"#, 400),
        (
            r#"{"calls":[{"tool":"search","arguments":{}}],"channel":""}"#,
            400,
        ),
        (
            r#"{"calls":[{"tool":"search","arguments":{},"definition":"x"}]}"#,
            400,
        ),
    ] {
        let answered = service.post(&agent, "/v1/calls", body).await;
        assert_eq!(answered.status.as_u16(), code, "{body}: {}", answered.text);
        assert!(answered.json()["error"]["hint"].is_string(), "{body}");
    }
    let mut plain = request(Method::POST, "/v1/calls", Some(&agent), r#"{"calls":[]}"#);
    plain
        .headers_mut()
        .insert("content-type", "text/plain".parse().unwrap());
    assert_eq!(service.ask(plain).await.error(), (415, "not_json".to_owned()));
    let large = format!(r#"{{"claim":"{}"}}"#, "x".repeat(300_000));
    assert_eq!(
        service.post(&agent, "/v1/calls", &large).await.error(),
        (413, "too_large".to_owned())
    );
}

#[tokio::test]
async fn x40_the_same_turn_sent_again_is_one_approval() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let send = |body: &'static str| {
        let mut request = request(Method::POST, "/v1/calls", Some(&agent), body);
        request
            .headers_mut()
            .insert("idempotency-key", "turn-1".parse().unwrap());
        service.ask(request)
    };
    let body = r#"{"calls":[{"tool":"create_contact","arguments":{"name":"Maria"}}]}"#;
    let (first, second) = (send(body).await.good(), send(body).await.good());
    assert_eq!(first["approval"]["id"], second["approval"]["id"]);
    let other = send(r#"{"calls":[{"tool":"create_contact","arguments":{"name":"Mario"}}]}"#).await;
    assert_eq!(other.error(), (409, "key_reused".to_owned()));
}

/// One agent that acts for two people: what one of them asked for is not what the other asked for.
#[tokio::test]
async fn x40_a_key_of_one_person_is_not_anothers() {
    let service = Service::new().await;
    let scopes = [Scope::Propose, Scope::Wait];
    let body = r#"{"calls":[{"tool":"create_contact","arguments":{"name":"Maria"}}]}"#;
    let send = async |person: &str| {
        let token = service.token_in("main", &scopes, Some("crm"), Some(person)).await;
        let mut request = request(Method::POST, "/v1/calls", Some(&token), body);
        request
            .headers_mut()
            .insert("idempotency-key", "turn-1".parse().unwrap());
        service.ask(request).await
    };
    let first = send("ana").await.good();
    assert_eq!(first["approval"]["onBehalfOf"], "ana");
    assert_eq!(
        send("ana").await.good()["approval"]["id"],
        first["approval"]["id"]
    );
    assert_eq!(send("finn").await.error(), (409, "key_reused".to_owned()));
}

#[tokio::test]
async fn a15_hosts_get_the_exact_bytes_the_secret_and_a_permit_once() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let host = service.with_scope("main", Scope::Execute).await;
    let body = r#"{"calls":[{"tool":"create_contact","arguments":{"name":"Ma\u0072ia" , "n":1e2},"secret":"hunter2"}]}"#;
    let submitted = service.post(&agent, "/v1/calls", body).await;
    assert!(!submitted.text.contains("hunter2"), "{}", submitted.text);
    let approval = submitted.good()["approval"].clone();
    let call = format!("/v1/calls/{}.1", id(&approval));
    let early = service.post(&host, &format!("{call}/start"), "").await;
    assert_eq!(early.error(), (409, "wrong_state".to_owned()));
    service
        .post(
            &ana,
            &format!("/v1/approvals/{}", id(&approval)),
            r#"{"approved":true}"#,
        )
        .await
        .good();
    let started = service.post(&host, &format!("{call}/start"), "").await;
    assert!(
        started
            .text
            .contains(r#""arguments":{"name":"Ma\u0072ia" , "n":1e2}"#),
        "{}",
        started.text
    );
    let permit = started.good();
    assert_eq!(permit["secret"], "hunter2");
    let again = service.post(&host, &format!("{call}/start"), "").await;
    assert_eq!(again.error(), (409, "wrong_state".to_owned()));

    let finish = |permit: &str, outcome: &str| {
        let body = format!(r#"{{"permit":"{permit}","outcome":"{outcome}","result":{{"id":7}}}}"#);
        let (service, host, path) = (&service, &host, format!("{call}/finish"));
        async move { service.post(host, &path, &body).await }
    };
    let forged = finish(&"0".repeat(64), "succeeded").await;
    assert_eq!(forged.error(), (403, "not_your_permit".to_owned()));
    assert_eq!(finish("x", "succeeded").await.status, 400);
    let permit = permit["permit"].as_str().unwrap();
    assert_eq!(finish(permit, "perhaps").await.status, 400);
    let finished = finish(permit, "succeeded").await.good();
    assert_eq!(finished["calls"][0]["state"], "succeeded");
    assert_eq!(finished["calls"][0]["result"], json!({ "id": 7 }));

    let undo = service.post(&agent, &format!("{call}/undo"), "{}").await;
    assert_eq!(undo.status, 201, "{}", undo.text);
    assert_eq!(undo.json()["toolName"], "delete_contact");
    assert_eq!(undo.json()["status"], "pending");
}

#[tokio::test]
async fn x31_secret_arguments_are_in_no_answer() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let arguments = r#"{"name":"M","api_key":"canary-4711"}"#;
    let body = format!(r#"{{"calls":[{{"tool":"create_contact","arguments":{arguments}}}]}}"#);
    let submitted = service.post(&agent, "/v1/calls", &body).await;
    let approval = submitted.json()["approval"].clone();
    let one = service
        .get(&ana, &format!("/v1/approvals/{}?events=true", id(&approval)))
        .await;
    let all = service.get(&ana, "/v1/approvals").await;
    for answered in [submitted, one, all] {
        assert!(!answered.text.contains("canary"), "{}", answered.text);
        assert!(answered.text.contains("\"hidden\":true"));
    }
}

#[tokio::test]
async fn a18_the_conversation_comes_with_the_calls() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let conversation =
        r#"[{"role":"user","text":"Add Maria"},{"role":"tool","name":"find","text":"{\"id\":\"c7\"}"}]"#;
    let arguments = r#"{"name":"Maria","id":"c7","email":"maria@acme.com"}"#;
    let body = format!(
        r#"{{"calls":[{{"tool":"create_contact","arguments":{arguments}}}],"conversation":{conversation}}}"#
    );
    let answered = service.post(&agent, "/v1/calls", &body).await.good();
    let provenance = &answered["approval"]["calls"][0]["provenance"];
    let marks: Vec<_> = provenance["leaves"]
        .as_array()
        .unwrap()
        .iter()
        .map(|leaf| leaf["mark"].clone())
        .collect();
    assert_eq!(marks, ["user", "tool:find", "none"]);
    assert_eq!(
        provenance["verdict"],
        "as the agent tells it, 2 of 3 values were not given by you: 1 invented, 1 from tools"
    );
    let body = format!(
        r#"{{"toolName":"create_contact","toolArguments":{arguments},"conversation":{conversation}}}"#
    );
    let asked = service.post(&agent, "/v1/approvals", &body).await.good();
    assert_eq!(asked["calls"][0]["provenance"]["counts"]["invented"], 1);
    let body = r#"{"calls":[{"tool":"search","arguments":{}}],"conversation":[{"role":"root","text":"x"}]}"#;
    assert_eq!(service.post(&agent, "/v1/calls", body).await.status, 400);
}

/// X81: a file URL names a sensitive place however it is encoded.
#[tokio::test]
async fn x81_an_encoded_file_url_is_held() {
    let service = Service::with_policy("[tools.lookup]\neffect = \"read\"\nplaces = [\"path\"]\n").await;
    let agent = service.agent("crm").await;
    for (path, is_held) in [
        ("file:///home/u/notes%20of%20may.md", false),
        ("file:///home/u/%2eenv", true),
        ("file:///home/u/%252eenv", true),
        ("FILE:///home/u/.%45NV", true),
        ("file://localhost/etc/shadow", true),
        ("file:///home/u/key%2epem?x", true),
        ("file:///home/u/%ff", true),
    ] {
        let calls = json!([{ "tool": "lookup", "arguments": { "path": path } }]);
        let body = json!({ "calls": calls }).to_string();
        let answer = service.post(&agent, "/v1/calls", &body).await.good();
        assert_eq!(!answer["approval"].is_null(), is_held, "{path}: {answer}");
    }
}

#[tokio::test]
async fn x84_what_did_not_run_what_failed_and_what_is_unknown_are_told_apart() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let host = service.with_scope("main", Scope::Execute).await;
    for (outcome, state, ran) in [
        ("failed", "failed", true),
        ("not_sent", "failed", false),
        ("unknown", "unknown", true),
    ] {
        let body = format!(
            r#"{{"channel":"{outcome}","calls":[{{"tool":"create_contact","arguments":{{"name":"{outcome}"}}}}]}}"#
        );
        let approval = service.post(&agent, "/v1/calls", &body).await.good()["approval"].clone();
        let decide = format!("/v1/approvals/{}", id(&approval));
        service.post(&ana, &decide, r#"{"approved":true}"#).await.good();
        let call = format!("/v1/calls/{}.1", id(&approval));
        let permit = service.post(&host, &format!("{call}/start"), "").await.good();
        let body = json!({"permit": permit["permit"], "outcome": outcome, "result": "why"}).to_string();
        let finished = service.post(&host, &format!("{call}/finish"), &body).await.good();
        assert_eq!(finished["calls"][0]["state"], state, "{finished}");
        for format in ["anthropic", "openai"] {
            let path = format!("/v1/channels/{outcome}/transcript?format={format}");
            let told = service.get(&agent, &path).await.good();
            let content = match format {
                "openai" => &told[1]["content"],
                _ => &told[1]["content"][0]["content"],
            };
            let content: Value = serde_json::from_str(content.as_str().unwrap()).unwrap();
            assert_eq!(
                (&content["status"], &content["ran"]),
                (&json!(outcome), &json!(ran)),
                "{told}"
            );
        }
    }
}

#[tokio::test]
async fn a_query_parameter_that_a_route_does_not_have_is_refused_and_nothing_is_done() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let body = r#"{"calls":[{"tool":"create_contact","arguments":{"name":"Maria"}}]}"#;
    for query in ["dryRun=true", "dry%52un=true", "limit=1", "a", "&b=1"] {
        let refused = service.post(&agent, &format!("/v1/calls?{query}"), body).await;
        assert_eq!(refused.error(), (400, "unknown_parameter".to_owned()), "{query}");
    }
    let waiting = service.get(&ana, "/v1/approvals").await.good();
    assert_eq!(waiting["approvals"], json!([]), "nothing was proposed");
    let listed = service.get(&ana, "/v1/approvals?limit=1&page=2").await;
    let text = listed.text.clone();
    assert_eq!(listed.error(), (400, "unknown_parameter".to_owned()));
    assert!(
        text.contains("limit"),
        "the hint names what the route has: {text}"
    );
    // An empty query has no parameter.
    let approval = service.post(&agent, "/v1/calls?", body).await.good();
    let id = approval["approval"]["id"].as_str().unwrap();
    let path = format!("/v1/approvals/{id}?approve=true");
    let refused = service.post(&ana, &path, r#"{"approved":true}"#).await;
    assert_eq!(refused.error(), (400, "unknown_parameter".to_owned()));
    let one = service.get(&ana, &format!("/v1/approvals/{id}")).await.good();
    assert_eq!(one["status"], "pending");
}
