//! Tests `/v1/approvals`.

use std::time::Duration;

use axum::http::Method;
use serde_json::json;

use crate::support::{Service, id, request};

const MARIA: &str = r#"{"name":"Maria",  "n":9007199254740993}"#;

#[tokio::test]
async fn d3_an_approval_has_the_fields_of_the_contract_and_the_exact_arguments() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let approval = service.propose(&agent, "create_contact", MARIA).await;
    let path = format!("/v1/approvals/{}", id(&approval));
    let answered = service.get(&agent, &path).await;
    assert_eq!(answered.status, 200);
    for field in [
        "id",
        "runId",
        "agentName",
        "toolName",
        "toolArguments",
        "riskLevel",
        "description",
        "status",
        "comment",
        "createdAt",
        "expiresAt",
        "decidedAt",
        "requestedBy",
        "decidedBy",
    ] {
        assert!(answered.json().get(field).is_some(), "{field}");
    }
    let exact = format!("\"toolArguments\":{MARIA}");
    assert!(answered.text.contains(&exact), "{}", answered.text);
}

#[tokio::test]
async fn d3_a_decision_is_the_credentials_and_what_the_body_says_is_a_claim() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let approval = service.propose(&agent, "create_contact", MARIA).await;
    let path = format!("/v1/approvals/{}", id(&approval));
    let body = r#"{"approved":true,"comment":"fine","decidedBy":"the queen"}"#;
    let decided = service.post(&ana, &path, body).await.good();
    assert_eq!(decided["status"], "approved");
    assert_eq!(decided["decidedBy"], "ana");
    assert_eq!(decided["comment"], "fine");
    let approval = service.app.store();
    let stored = approval
        .approval(&crate::support::tenant(), id(&decided).parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        stored.decision.as_ref().unwrap().claimed_by.as_deref(),
        Some("the queen")
    );
}

#[tokio::test]
async fn b7_each_refusal_has_its_own_code_and_says_what_is_so() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let (ana, finn) = (service.decider("ana").await, service.decider("finn").await);
    let yes = r#"{"approved":true}"#;

    let decided = service.propose(&agent, "create_contact", MARIA).await;
    let path = format!("/v1/approvals/{}", id(&decided));
    service.post(&ana, &path, yes).await.good();
    let again = service.post(&ana, &path, yes).await;
    assert_eq!(again.error(), (409, "already_decided".to_owned()));
    let error = &again.json()["error"];
    assert_eq!(
        (&error["decidedBy"], &error["status"]),
        (&json!("ana"), &json!("approved"))
    );
    assert!(error["decidedAt"].as_str().unwrap().starts_with("2026-01-01T"));

    let old = service.propose(&agent, "create_contact", MARIA).await;
    let new = service.propose(&agent, "create_contact", MARIA).await;
    let superseded = service
        .post(&ana, &format!("/v1/approvals/{}", id(&old)), yes)
        .await;
    assert_eq!(superseded.error(), (409, "superseded".to_owned()));
    assert_eq!(superseded.json()["error"]["supersededBy"], new["id"]);

    let path = format!("/v1/approvals/{}", id(&new));
    let stale = format!(r#"{{"approved":true,"digest":"{}"}}"#, "0".repeat(64));
    let stale = service.post(&ana, &path, &stale).await;
    assert_eq!(stale.error(), (409, "stale".to_owned()));
    assert_eq!(stale.json()["error"]["digest"], new["digest"]);
    assert_eq!(
        service.post(&finn, &path, yes).await.error(),
        (403, "not_allowed".to_owned())
    );
    let seen = format!(
        r#"{{"approved":true,"digest":"{}"}}"#,
        new["digest"].as_str().unwrap()
    );
    assert_eq!(
        service.post(&ana, &path, &seen).await.good()["status"],
        "approved"
    );

    let late = service.propose(&agent, "delete_contact", "{}").await;
    service.clock.advance(Duration::from_secs(301));
    let late = service
        .post(&ana, &format!("/v1/approvals/{}", id(&late)), yes)
        .await;
    assert_eq!(late.error(), (410, "expired".to_owned()));

    let nowhere = service
        .post(&ana, "/v1/approvals/01890a5d-ac96-774b-bcce-b302099a8057", yes)
        .await;
    assert_eq!(nowhere.error(), (404, "not_found".to_owned()));
    assert_eq!(
        service.post(&ana, "/v1/approvals/nonsense", yes).await.error().0,
        404
    );

    let withdrawn = service.propose(&agent, "create_contact", MARIA).await;
    let path = format!("/v1/approvals/{}", id(&withdrawn));
    service
        .post(&agent, &format!("{path}/withdraw"), r#"{"reason":"a slip"}"#)
        .await
        .good();
    assert_eq!(
        service.post(&ana, &path, yes).await.error(),
        (409, "withdrawn".to_owned())
    );
}

#[tokio::test]
async fn x01_an_agents_token_cannot_decide_and_nothing_happens() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let arguments = r#"{"name":"M","confirmed":true,"force":true,"approve":true}"#;
    let approval = service.propose(&agent, "create_contact", arguments).await;
    assert_eq!(approval["status"], "pending");
    let path = format!("/v1/approvals/{}", id(&approval));
    let refused = service.post(&agent, &path, r#"{"approved":true}"#).await;
    assert_eq!(refused.error(), (403, "wrong_scope".to_owned()));
    let now = service.get(&agent, &format!("{path}?events=true")).await.good();
    assert_eq!(now["status"], "pending");
    let last = now["events"].as_array().unwrap().last().unwrap();
    assert_eq!(last["by"], "agent:crm");
    assert_eq!(last["event"]["what"], "decision_refused");
    assert_eq!(last["event"]["reason"], "wrong_scope");
}

#[tokio::test]
async fn x13_the_same_decision_sent_again_is_one_decision() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let approval = service.propose(&agent, "create_contact", MARIA).await;
    let path = format!("/v1/approvals/{}", id(&approval));
    let send = |body: &str| {
        let mut request = request(Method::POST, &path, Some(&ana), body);
        request
            .headers_mut()
            .insert("idempotency-key", "k1".parse().unwrap());
        service.ask(request)
    };
    let first = send(r#"{"approved":true}"#).await.good();
    let second = send(r#"{"approved":true}"#).await.good();
    assert_eq!(first["version"], second["version"]);
    let other = send(r#"{"approved":false}"#).await;
    assert_eq!(other.error(), (409, "key_reused".to_owned()));
}

#[tokio::test]
async fn a16_a_batch_is_decided_call_by_call_and_edits_run_as_edited() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let body = r#"{"calls":[{"tool":"echo","arguments":{"n":1}},{"tool":"echo","arguments":{"n":2}},{"tool":"echo","arguments":{"n":3}}]}"#;
    let approval = service.post(&agent, "/v1/calls", body).await.good()["approval"].clone();
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
    let choices = r#"{"approved":true,"calls":[{"approved":true},{"approved":false},{"approved":true,"arguments":{"n": 33}}]}"#;
    let decided = service.post(&ana, &path, choices).await.good();
    let states: Vec<_> = decided["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["state"].clone())
        .collect();
    assert_eq!(states, ["succeeded", "refused", "succeeded"]);
    assert_eq!(decided["calls"][2]["result"], json!({ "n": 33 }));
    assert_eq!(decided["calls"][2]["edited"], true);
    let short = r#"{"approved":true,"calls":[{"approved":true}]}"#;
    let approval = service.post(&agent, "/v1/calls", body).await.good()["approval"].clone();
    let refused = service
        .post(&ana, &format!("/v1/approvals/{}", id(&approval)), short)
        .await;
    assert_eq!(refused.error(), (422, "bad_choices".to_owned()));
}

#[tokio::test]
async fn d2_a_wait_ends_with_the_decision() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let approval = service.propose(&agent, "create_contact", MARIA).await;
    let path = format!("/v1/approvals/{}", id(&approval));
    let waiting = format!("{path}?wait=30s");
    let (waited, _) = tokio::join!(service.get(&agent, &waiting), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        service
            .post(&ana, &path, r#"{"approved":false,"comment":"no"}"#)
            .await
            .good()
    });
    assert_eq!(waited.good()["status"], "denied");
    for bad in ["wait=soon", "waitFor=ever", "colour=red"] {
        assert_eq!(
            service.get(&agent, &format!("{path}?{bad}")).await.status,
            400,
            "{bad}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn d2_a_wait_that_times_out_decides_nothing() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let approval = service.propose(&agent, "create_contact", MARIA).await;
    let path = format!("/v1/approvals/{}?wait=2s", id(&approval));
    assert_eq!(service.get(&agent, &path).await.good()["status"], "pending");
}

#[tokio::test]
async fn f04_a_stop_ends_waits_with_a_hint_and_takes_nothing_new() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let approval = service.propose(&agent, "create_contact", MARIA).await;
    let path = format!("/v1/approvals/{}", id(&approval));
    let waiting = format!("{path}?wait=60s");
    let (waited, ()) = tokio::join!(service.get(&agent, &waiting), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        service.app.stopping.cancel();
    });
    assert_eq!(waited.headers["retry-after"], "1");
    assert_eq!(waited.good()["status"], "pending");
    for refused in [
        service.post(&ana, &path, r#"{"approved":true}"#).await,
        service
            .post(
                &agent,
                "/v1/calls",
                r#"{"calls":[{"tool":"search","arguments":{}}]}"#,
            )
            .await,
    ] {
        assert_eq!(refused.error(), (503, "stopping".to_owned()));
    }
}

#[tokio::test]
async fn d4_asking_outright_holds_even_a_read_and_may_only_tighten() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let ask = |body: &'static str| service.post(&agent, "/v1/approvals", body);
    let approval = ask(
        r#"{"runId":"r1","agentName":"somebody else","toolName":"search","toolArguments":{"q":"x"},"riskLevel":"critical","description":"I need this","ttlMs":2000}"#,
    )
    .await;
    assert_eq!(approval.status, 201);
    let approval = approval.json();
    assert_eq!(approval["agentName"], "crm", "X41");
    assert_eq!(approval["riskLevel"], "critical");
    assert_eq!(approval["claim"], "I need this");
    assert_eq!(approval["runId"], "r1");
    assert_ne!(approval["description"], "I need this", "X05");
    let lower = ask(r#"{"toolName":"refund","toolArguments":{"amount":5},"riskLevel":"low"}"#).await;
    assert_eq!(lower.json()["riskLevel"], "high");
    let forbidden = ask(r#"{"toolName":"refund","toolArguments":{"amount":5000}}"#).await;
    assert_eq!(forbidden.error(), (422, "forbidden".to_owned()));
    assert_eq!(
        ask(r#"{"toolName":"search","riskLevel":"huge"}"#).await.status,
        400
    );
    service.clock.advance(Duration::from_secs(3));
    let gone = service
        .get(&agent, &format!("/v1/approvals/{}", id(&approval)))
        .await
        .good();
    assert_eq!(gone["status"], "expired", "the shorter life was kept");
}

#[tokio::test]
async fn lists_are_paged_and_filtered() {
    let service = Service::new().await;
    let (crm, other, ana) = (
        service.agent("crm").await,
        service.agent("other").await,
        service.decider("ana").await,
    );
    for n in 0..5 {
        let body = format!(r#"{{"calls":[{{"tool":"echo","arguments":{{"n":{n}}}}}],"runId":"r{n}"}}"#);
        service.post(&crm, "/v1/calls", &body).await.good();
    }
    service.propose(&other, "delete_contact", "{}").await;
    let count = |page: serde_json::Value| page["approvals"].as_array().unwrap().len();
    assert_eq!(count(service.get(&ana, "/v1/approvals").await.good()), 6);
    assert_eq!(
        count(service.get(&ana, "/v1/approvals?agentName=crm").await.good()),
        5
    );
    assert_eq!(count(service.get(&ana, "/v1/approvals?runId=r3").await.good()), 1);
    assert_eq!(
        count(service.get(&ana, "/v1/approvals?status=denied").await.good()),
        0
    );
    assert_eq!(
        count(service.get(&other, "/v1/approvals?agentName=crm").await.good()),
        1,
        "its own"
    );
    let first = service.get(&ana, "/v1/approvals?limit=4").await.good();
    assert_eq!(count(first.clone()), 4);
    let next = first["next"].as_str().unwrap();
    let rest = service
        .get(&ana, &format!("/v1/approvals?limit=4&cursor={next}"))
        .await
        .good();
    assert_eq!(
        (count(rest.clone()), &rest["next"]),
        (2, &serde_json::Value::Null)
    );
    for bad in ["limit=0", "limit=501", "status=odd", "cursor=odd", "agentName="] {
        assert_eq!(
            service.get(&ana, &format!("/v1/approvals?{bad}")).await.status,
            400,
            "{bad}"
        );
    }
}

#[tokio::test]
async fn h09_decisions_come_at_most_ten_a_second() {
    let service = Service::new().await;
    let ana = service.decider("ana").await;
    let path = "/v1/approvals/01890a5d-ac96-774b-bcce-b302099a8057";
    let mut statuses = Vec::new();
    for _ in 0..12 {
        statuses.push(
            service
                .post(&ana, path, r#"{"approved":true}"#)
                .await
                .status
                .as_u16(),
        );
    }
    assert_eq!(statuses[..10], [404; 10]);
    assert!(statuses[10..].contains(&429), "{statuses:?}");
}

/// An array whose first element is true is not a decision.
#[tokio::test]
async fn x41_a_body_is_an_object_and_so_is_each_part_of_it() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let approval = service.propose(&agent, "create_contact", "{}").await;
    let path = format!("/v1/approvals/{}", id(&approval));
    for body in ["[true]", r#"{"approved":true,"calls":[[true]]}"#, "[]", "true"] {
        assert_eq!(service.post(&ana, &path, body).await.status, 400, "{body}");
    }
    let withdraw = format!("{path}/withdraw");
    assert_eq!(service.post(&agent, &withdraw, "[null]").await.status, 400);
    for body in [
        r#"[[{"tool":"create_contact","arguments":{}}]]"#,
        r#"{"calls":[["create_contact",{}]]}"#,
        r#"{"calls":[{"tool":"create_contact","arguments":{}}],"conversation":[["user","hello"]]}"#,
    ] {
        assert_eq!(
            service.post(&agent, "/v1/calls", body).await.status,
            400,
            "{body}"
        );
    }
    assert_eq!(service.get(&agent, &path).await.good()["status"], "pending");
}
