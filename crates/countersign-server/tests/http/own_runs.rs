//! Agents that run their own calls (E8): one token, any order, exact text, dry runs, time limits, repeated requests.

use std::time::Duration;

use axum::http::Method;
use countersign_server::access::Scope;
use serde_json::{Value, json};

use crate::support::{Answered, POLICY, Service, empty_store, id, request};

/// Creates a token with the scope `agent`.
async fn own_runner(service: &Service, agent: &str) -> String {
    service.token_in("main", &[Scope::Agent], Some(agent), None).await
}

async fn keyed(service: &Service, token: &str, path: &str, body: &str, key: &str) -> Answered {
    let mut request = request(Method::POST, path, Some(token), body);
    request
        .headers_mut()
        .insert("idempotency-key", key.parse().unwrap());
    service.ask(request).await
}

async fn decide(service: &Service, approval: &Value, body: &str) -> Value {
    let ana = service.decider("ana").await;
    let path = format!("/v1/approvals/{}", id(approval));
    service.post(&ana, &path, body).await.good()
}

async fn approve(service: &Service, approval: &Value) -> Value {
    decide(service, approval, r#"{"approved":true}"#).await
}

fn call_path(approval: &Value, position: usize) -> String {
    let call = &approval["calls"][position - 1]["id"];
    format!("/v1/calls/{}", call.as_str().unwrap())
}

async fn start(service: &Service, token: &str, call: &str) -> Answered {
    service.post(token, &format!("{call}/start"), "{}").await
}

async fn finish(service: &Service, token: &str, call: &str, permit: &Value, rest: &str) -> Answered {
    let body = format!(r#"{{"permit":{},{rest}}}"#, permit["permit"]);
    service.post(token, &format!("{call}/finish"), &body).await
}

fn error_of(answered: &Answered) -> (String, Value, Value) {
    let error = answered.json()["error"].clone();
    let code = error["code"].as_str().unwrap().to_owned();
    (code, error["state"].clone(), error["end"].clone())
}

const CONTACTS: &str = r#"{"calls":[
    {"tool":"create_contact","arguments":{"name":"A"}},
    {"tool":"create_contact","arguments":{"name":"B"}},
    {"tool":"create_contact","arguments":{"name":"C"}}],"order":"any"}"#;

#[tokio::test]
async fn e8_one_token_proposes_waits_starts_and_finishes() {
    let service = Service::new().await;
    let agent = own_runner(&service, "crm").await;
    let approval = service.propose(&agent, "create_contact", r#"{"name":"M"}"#).await;
    let call = call_path(&approval, 1);
    let early = start(&service, &agent, &call).await;
    assert_eq!(
        error_of(&early),
        ("wrong_state".to_owned(), json!("held"), json!(null))
    );
    approve(&service, &approval).await;
    let waited = service
        .get(
            &agent,
            &format!("/v1/approvals/{}?wait=1s&waitFor=decision", id(&approval)),
        )
        .await
        .good();
    assert_eq!(waited["calls"][0]["state"], "released");
    let permit = start(&service, &agent, &call).await.good();
    assert_eq!(permit["arguments"], json!({ "name": "M" }));
    let ended = finish(
        &service,
        &agent,
        &call,
        &permit,
        r#""outcome":"succeeded","result":{"id":7}"#,
    )
    .await;
    let ended = ended.good();
    assert_eq!(ended["calls"][0]["end"], "succeeded");
    assert_eq!(ended["calls"][0]["result"], json!({ "id": 7 }));
    let late = start(&service, &agent, &call).await;
    assert_eq!(
        error_of(&late),
        ("wrong_state".to_owned(), json!("succeeded"), json!("succeeded"))
    );
}

#[tokio::test]
async fn i10_the_scope_agent_decides_nothing_and_runs_nothing_of_others() {
    let service = Service::new().await;
    let (agent, other) = (
        own_runner(&service, "crm").await,
        own_runner(&service, "cms").await,
    );
    let proposer = service.agent("crm").await;
    let approval = service.propose(&agent, "create_contact", r#"{"name":"M"}"#).await;
    let path = format!("/v1/approvals/{}", id(&approval));
    let call = call_path(&approval, 1);
    let refused = service.post(&agent, &path, r#"{"approved":true}"#).await;
    assert_eq!(refused.error(), (403, "wrong_scope".to_owned()));
    let refused = service
        .post(&agent, &format!("{call}/reconcile"), r#"{"succeeded":true}"#)
        .await;
    assert_eq!(refused.error(), (403, "wrong_scope".to_owned()));
    approve(&service, &approval).await;
    // Another agent's call is answered like one that does not exist; `propose` alone starts nothing.
    let missing = format!("/v1/calls/{}.1", "01890a5d-ac96-774b-bcce-b302099a8057");
    for path in [&call, &missing] {
        assert_eq!(
            start(&service, &other, path).await.error(),
            (404, "not_found".to_owned())
        );
    }
    assert_eq!(
        start(&service, &proposer, &call).await.error(),
        (403, "wrong_scope".to_owned())
    );
    let permit = start(&service, &agent, &call).await.good();
    let done = r#""outcome":"succeeded""#;
    let foreign = finish(&service, &other, &call, &permit, done).await;
    assert_eq!(foreign.error(), (404, "not_found".to_owned()));
    let weaker = finish(&service, &proposer, &call, &permit, done).await;
    assert_eq!(weaker.error(), (403, "wrong_scope".to_owned()));
    // Another tenant's agent of the same name is another agent.
    let foreign = service
        .token_in("elsewhere", &[Scope::Agent], Some("crm"), None)
        .await;
    let refused = finish(&service, &foreign, &call, &permit, done).await;
    assert_eq!(refused.error(), (404, "not_found".to_owned()));
    finish(&service, &agent, &call, &permit, done).await.good();
    // What the service or a gateway runs is not for the agent to start.
    let echo = service.propose(&agent, "echo", "{}").await;
    let refused = start(&service, &agent, &call_path(&echo, 1)).await;
    assert_eq!(refused.error(), (409, "runs_elsewhere".to_owned()));
    let body = r#"{"calls":[{"tool":"create_contact","arguments":{}}],"runId":"mcp:1"}"#;
    if let Some(gateways) = service
        .post(&agent, "/v1/calls", body)
        .await
        .json()
        .get("approval")
    {
        let refused = start(&service, &agent, &call_path(gateways, 1)).await;
        assert_eq!(refused.error(), (409, "runs_elsewhere".to_owned()));
    }
    assert!(service.ran.lock().unwrap().is_empty());
}

#[tokio::test]
async fn e8_calls_of_any_order_run_side_by_side_and_the_card_says_so() {
    let service = Service::new().await;
    let agent = own_runner(&service, "crm").await;
    let submitted = service.post(&agent, "/v1/calls", CONTACTS).await.good();
    let approval = submitted["approval"].clone();
    assert_eq!(approval["order"], "any");
    assert_eq!(submitted["calls"][1]["callId"], approval["calls"][1]["id"]);
    for call in approval["calls"].as_array().unwrap() {
        assert!(call["notes"].to_string().contains("in any order"), "{call}");
    }
    let simple = format!("/v1/approvals/{}?view=simple", id(&approval));
    let card = service.get(&agent, &simple).await.good();
    assert!(card["card"].as_str().unwrap().contains("in any order"), "{card}");
    approve(&service, &approval).await;
    let (first, third) = (call_path(&approval, 1), call_path(&approval, 3));
    let permit = start(&service, &agent, &third).await.good();
    let other = start(&service, &agent, &first).await.good();
    finish(
        &service,
        &agent,
        &third,
        &permit,
        r#""outcome":"failed","resultText":"no room""#,
    )
    .await
    .good();
    finish(&service, &agent, &first, &other, r#""outcome":"succeeded""#)
        .await
        .good();
    let second = call_path(&approval, 2);
    start(&service, &agent, &second).await.good();
    let now = service
        .get(&agent, &format!("/v1/approvals/{}", id(&approval)))
        .await
        .good();
    let ends: Vec<&Value> = now["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["end"])
        .collect();
    assert_eq!(ends, [&json!("succeeded"), &json!(null), &json!("failed")]);
    assert_eq!(now["calls"][2]["result"], "no room");
    // In the given order, which is the default, the second call waits, and a failure stops it.
    let given = CONTACTS.replace("any", "given");
    let approval = service.post(&agent, "/v1/calls", &given).await.good()["approval"].clone();
    assert_eq!(approval["order"], "given");
    approve(&service, &approval).await;
    let refused = start(&service, &agent, &call_path(&approval, 2)).await;
    assert_eq!(refused.error(), (409, "earlier_first".to_owned()));
    let first = call_path(&approval, 1);
    let permit = start(&service, &agent, &first).await.good();
    let ended = finish(&service, &agent, &first, &permit, r#""outcome":"not_sent""#)
        .await
        .good();
    assert_eq!(ended["calls"][0]["end"], "not_sent");
    assert_eq!(ended["calls"][1]["end"], "earlier_failed");
}

/// The service's own tools run as well, and beside those of the host.
#[tokio::test]
async fn e8_the_service_runs_its_calls_of_any_order() {
    let service = Service::new().await;
    let agent = own_runner(&service, "crm").await;
    let body = r#"{"calls":[
        {"tool":"create_contact","arguments":{"name":"A"}},
        {"tool":"echo","arguments":{"n":1}},
        {"tool":"echo","arguments":{"n":2}}],"order":"any"}"#;
    let approval = service.post(&agent, "/v1/calls", body).await.good()["approval"].clone();
    let ana = service.decider("ana").await;
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
    let decided = service.post(&ana, &path, r#"{"approved":true}"#).await.good();
    let states: Vec<&Value> = decided["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["state"])
        .collect();
    assert_eq!(states, ["released", "succeeded", "succeeded"]);
    assert_eq!(*service.ran.lock().unwrap(), [r#"{"n":1}"#, r#"{"n":2}"#]);
}

#[tokio::test]
async fn e8_arguments_as_text_go_in_and_out_byte_for_byte() {
    let service = Service::new().await;
    let agent = own_runner(&service, "crm").await;
    let text = " {\"name\" : \"M\\u00fc\", \"n\": 9007199254740993, \"x\": 1e2 }\n";
    let body = json!({ "calls": [{ "tool": "create_contact", "argumentsText": text }] }).to_string();
    let approval = service.post(&agent, "/v1/calls", &body).await.good()["approval"].clone();
    assert_eq!(approval["calls"][0]["argumentsText"], text);
    approve(&service, &approval).await;
    let permit = start(&service, &agent, &call_path(&approval, 1)).await.good();
    assert_eq!(permit["argumentsText"], text);
    // What is secret is not given as text either; the permit has it, because the tool needs it.
    let approval = service
        .propose(
            &agent,
            "create_contact",
            r#"{"name":"M","api_key":"hunter2-canary"}"#,
        )
        .await;
    assert!(approval["calls"][0].get("argumentsText").is_none());
    assert!(!approval.to_string().contains("canary"));
    for (bad, status) in [
        (r#"{"calls":[{"tool":"create_contact"}]}"#, 422),
        (
            r#"{"calls":[{"tool":"create_contact","arguments":{},"argumentsText":"{}"}]}"#,
            422,
        ),
        (r#"{"calls":[{"tool":"create_contact","argumentsText":{}}]}"#, 400),
    ] {
        let answered = service.post(&agent, "/v1/calls", bad).await;
        assert_eq!(answered.status.as_u16(), status, "{bad}");
    }
    // Text that is not an object is forbidden, as other arguments are.
    for bad in ["", "[]", "{} {}", "{\"a\":1,\"a\":2}", "null"] {
        let body = json!({ "calls": [{ "tool": "create_contact", "argumentsText": bad }] }).to_string();
        let ruled = service.post(&agent, "/v1/calls", &body).await.good();
        assert_eq!(ruled["calls"][0]["ruling"], "forbidden", "{bad}");
        assert_eq!(ruled["calls"][0]["end"], "forbidden", "{bad}");
    }
}

#[tokio::test]
async fn e8_a_dry_run_says_what_would_be_ruled_and_does_nothing() {
    let (service, ran) = Service::recording(POLICY, &["lookup", "get_page", "echo"]).await;
    let agent = own_runner(&service, "crm").await;
    let body = r#"{"calls":[
        {"tool":"lookup","arguments":{"q":1}},
        {"tool":"rename_page","arguments":{"id":1,"title":"New"}},
        {"tool":"refund","arguments":{"amount":5000}},
        {"tool":"echo","arguments":{}}],"dryRun":true}"#;
    let foreseen = keyed(&service, &agent, "/v1/calls", body, "k").await.good();
    let rulings: Vec<&Value> = foreseen["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["ruling"])
        .collect();
    assert_eq!(rulings, ["pass", "held", "forbidden", "held"]);
    assert_eq!(foreseen["approval"], json!(null));
    assert_eq!(foreseen["calls"][1]["callId"], json!(null));
    assert!(foreseen["calls"][1]["summary"].is_string(), "{foreseen}");
    assert!(foreseen["calls"][2]["reason"].is_string(), "{foreseen}");
    assert!(ran.lock().unwrap().is_empty(), "nothing was read or run");
    let all = service.get(&agent, "/v1/approvals?status=all").await.good();
    assert_eq!(all["approvals"], json!([]));
    // The key was not used up.
    let body = body.replace(r#","dryRun":true"#, r#","dryRun":false"#);
    let real = keyed(&service, &agent, "/v1/calls", &body, "k").await.good();
    assert!(real["approval"].is_object());
    assert!(!ran.lock().unwrap().is_empty());
}

#[tokio::test]
async fn e8_times_are_honoured_or_refused() {
    let policy = format!(
        "[channel]\nttl = \"10m\"\n{POLICY}\n[tools.slow]\neffect = \"write\"\nstart_within = \"2m\"\n"
    );
    let service = Service::with_policy(&policy).await;
    let agent = own_runner(&service, "crm").await;
    let send = async |tool: &str, times: &str| {
        let body = format!(r#"{{"calls":[{{"tool":"{tool}","arguments":{{}}}}],{times}}}"#);
        service.post(&agent, "/v1/calls", &body).await
    };
    for (tool, times, code, field, longest) in [
        (
            "create_contact",
            r#""ttlMs":600001"#,
            "ttl_too_long",
            "longestTtlMs",
            600_000,
        ),
        (
            "slow",
            r#""startWithinMs":120001"#,
            "start_within_too_long",
            "longestStartWithinMs",
            120_000,
        ),
        (
            "create_contact",
            r#""startWithinMs":600001"#,
            "start_within_too_long",
            "longestStartWithinMs",
            600_000,
        ),
    ] {
        let refused = send(tool, times).await;
        assert_eq!(refused.error(), (422, code.to_owned()), "{times}");
        assert_eq!(refused.json()["error"][field], longest, "{times}");
    }
    for bad in [r#""ttlMs":999"#, r#""ttlMs":1000.5"#, r#""startWithinMs":-1"#] {
        assert_eq!(send("slow", bad).await.status, 400, "{bad}");
    }
    let listed = service.get(&agent, "/v1/approvals?status=all").await.good();
    assert_eq!(listed["approvals"], json!([]), "what was refused is not proposed");
    let approval = send("create_contact", r#""ttlMs":60000,"startWithinMs":30000"#).await;
    let approval = approval.good()["approval"].clone();
    assert_eq!(approval["createdAt"], "2026-01-01T00:00:00.000Z");
    assert_eq!(approval["expiresAt"], "2026-01-01T00:01:00.000Z");
    approve(&service, &approval).await;
    service.clock.advance(Duration::from_secs(30));
    let late = start(&service, &agent, &call_path(&approval, 1)).await;
    assert_eq!(
        error_of(&late),
        ("wrong_state".to_owned(), json!("refused"), json!("stale"))
    );
    // An approval that nobody decided has ended with its time, before any sweep.
    let approval = send("create_contact", r#""ttlMs":60000"#).await.good()["approval"].clone();
    service.clock.advance(Duration::from_secs(60));
    let path = format!("/v1/approvals/{}", id(&approval));
    let now = service.get(&agent, &path).await.good();
    assert_eq!(
        (&now["calls"][0]["state"], &now["calls"][0]["end"]),
        (&json!("refused"), &json!("expired"))
    );
}

#[tokio::test]
async fn e8_a_repeated_start_gives_the_same_permit_to_the_same_token() {
    let (clock, store) = empty_store();
    let service = Service::on(&clock, &store).await;
    let (agent, twin) = (
        own_runner(&service, "crm").await,
        own_runner(&service, "crm").await,
    );
    let host = service.with_scope("main", Scope::Execute).await;
    let approval = service.propose(&agent, "create_contact", r#"{"name":"M"}"#).await;
    approve(&service, &approval).await;
    let call = call_path(&approval, 1);
    let path = format!("{call}/start");
    let first = keyed(&service, &agent, &path, "{}", "once").await.good();
    clock.advance(Duration::from_secs(10));
    // The service was restarted meanwhile.
    let service = Service::on(&clock, &store).await;
    let again = keyed(&service, &agent, &path, "{}", "once").await.good();
    for field in ["permit", "argumentsText", "startedAt", "deadline", "id"] {
        assert_eq!(again[field], first[field], "{field}");
    }
    assert_eq!(first["timeoutMs"], 60_000);
    assert_eq!(again["timeoutMs"], 50_000, "the time that is left");
    let running = ("wrong_state".to_owned(), json!("running"), json!(null));
    for (token, key) in [(&agent, "twice"), (&twin, "once"), (&host, "once")] {
        let refused = keyed(&service, token, &path, "{}", key).await;
        assert_eq!(error_of(&refused), running, "{key}");
    }
    assert_eq!(error_of(&start(&service, &agent, &call).await), running);
    let done = r#""outcome":"succeeded","result":{"id":1}"#;
    finish(&service, &agent, &call, &again, done).await.good();
    finish(&service, &agent, &call, &first, done).await.good();
    let other = finish(&service, &agent, &call, &first, r#""outcome":"failed""#).await;
    assert_eq!(
        error_of(&other),
        ("wrong_state".to_owned(), json!("succeeded"), json!("succeeded"))
    );
    let over = keyed(&service, &agent, &path, "{}", "once").await;
    assert_eq!(
        error_of(&over),
        ("wrong_state".to_owned(), json!("succeeded"), json!("succeeded"))
    );
    // After its deadline a call is unknown, and its permit is not given again.
    let approval = service.propose(&agent, "create_contact", r#"{"name":"N"}"#).await;
    approve(&service, &approval).await;
    let path = format!("{}/start", call_path(&approval, 1));
    keyed(&service, &agent, &path, "{}", "once").await.good();
    clock.advance(Duration::from_secs(60));
    let late = keyed(&service, &agent, &path, "{}", "once").await;
    assert_eq!(
        error_of(&late),
        ("wrong_state".to_owned(), json!("unknown"), json!("unknown"))
    );
}

#[tokio::test]
async fn e8_a_large_result_ends_the_call_and_keeps_its_size_and_hash() {
    let service = Service::new().await;
    let agent = own_runner(&service, "crm").await;
    let secret = "hunter2-canary";
    let run = async |text: &str| {
        let arguments = json!({ "name": "M", "api_key": secret }).to_string();
        let approval = service.propose(&agent, "create_contact", &arguments).await;
        approve(&service, &approval).await;
        let call = call_path(&approval, 1);
        let permit = start(&service, &agent, &call).await.good();
        let rest = format!(r#""outcome":"succeeded","resultText":{}"#, json!(text));
        let ended = finish(&service, &agent, &call, &permit, &rest).await;
        if ended.status == 200 {
            finish(&service, &agent, &call, &permit, &rest).await.good();
        }
        ended
    };
    let small = "x".repeat(256 * 1024 - 2);
    assert_eq!(run(&small).await.good()["calls"][0]["result"], small);
    // The secret lies across the place where the beginning ends.
    let large = format!("{}{secret}{}", "é".repeat(2040), "y".repeat(5 << 20));
    let ended = run(&large).await.good();
    let (call, json) = (&ended["calls"][0], json!(large).to_string());
    assert_eq!(
        (&call["state"], &call["end"]),
        (&json!("succeeded"), &json!("succeeded"))
    );
    assert_eq!(call["result"]["truncated"], true);
    assert_eq!(call["result"]["bytes"], json.len());
    let hash = countersign::hash::Hash::of(json.as_bytes()).to_string();
    assert_eq!(call["result"]["sha256"], hash);
    let head = call["result"]["head"].as_str().unwrap();
    assert!(head.len() <= 4096 && head.starts_with("\"éé"), "{}", head.len());
    assert!(!head.contains("hunter2"), "{}", &head[4000..]);
    assert_eq!(
        run(&"z".repeat(8 << 20)).await.error(),
        (413, "too_large".to_owned())
    );
}

#[tokio::test]
async fn e8_a_repeated_submission_tells_the_present_state() {
    let service = Service::new().await;
    let agent = own_runner(&service, "crm").await;
    let send = async |body: &str| keyed(&service, &agent, "/v1/calls", body, "turn-1").await;
    let first = send(CONTACTS).await.good();
    assert_eq!(first["calls"][0]["state"], "held");
    assert_eq!(first["calls"][0]["status"], "pending_confirmation");
    let choices = r#"{"approved":true,"calls":[{"approved":true},{"approved":false},{"approved":true}]}"#;
    decide(&service, &first["approval"], choices).await;
    let call = call_path(&first["approval"], 1);
    let permit = start(&service, &agent, &call).await.good();
    let again = send(CONTACTS).await.good();
    assert_eq!(again["approval"]["status"], "approved");
    let seen: Vec<(Value, Value)> = again["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| (call["state"].clone(), call["end"].clone()))
        .collect();
    assert_eq!(
        seen,
        [
            (json!("running"), json!(null)),
            (json!("refused"), json!("denied")),
            (json!("released"), json!(null)),
        ]
    );
    assert!(again["calls"][0].get("requiresConfirmation").is_none());
    finish(&service, &agent, &call, &permit, r#""outcome":"unknown""#)
        .await
        .good();
    assert_eq!(send(CONTACTS).await.good()["calls"][0]["end"], "unknown");
    let with_time = CONTACTS.replace(r#""order""#, r#""ttlMs":2000,"order""#);
    for other in [CONTACTS.replace("any", "given"), with_time] {
        assert_eq!(
            send(&other).await.error(),
            (409, "key_reused".to_owned()),
            "{other}"
        );
    }
}

/// What the call would change may be gone by then, because the call itself has run.
#[tokio::test]
async fn e8_a_repeated_submission_is_answered_although_it_would_be_forbidden_now() {
    let service = Service::new().await;
    let agent = own_runner(&service, "crm").await;
    let body = r#"{"calls":[
        {"tool":"refund","arguments":{"amount":5000}},
        {"tool":"search","arguments":{}},
        {"tool":"rename_page","arguments":{"id":1,"title":"New"}}]}"#;
    let first = keyed(&service, &agent, "/v1/calls", body, "turn-1").await.good();
    assert_eq!(first["calls"][0]["end"], "forbidden");
    decide(&service, &first["approval"], r#"{"approved":false}"#).await;
    "gone".clone_into(&mut service.page.lock().unwrap());
    let again = keyed(&service, &agent, "/v1/calls", body, "turn-1").await.good();
    assert_eq!(again["approval"]["id"], first["approval"]["id"]);
    assert_eq!(again["calls"][0]["end"], "forbidden");
    assert_eq!(again["calls"][1]["ruling"], "pass");
    assert_eq!(again["calls"][2]["end"], "denied");
    assert_eq!(again["calls"][2]["callId"], first["calls"][2]["callId"]);
    let other = body.replace("New", "Newer");
    let reused = keyed(&service, &agent, "/v1/calls", &other, "turn-1").await;
    assert_eq!(reused.error(), (409, "key_reused".to_owned()));
    let anew = keyed(&service, &agent, "/v1/calls", body, "turn-2").await.good();
    assert_eq!(anew["calls"][2]["end"], "forbidden");
    assert_eq!(anew["approval"], json!(null));
}

#[tokio::test]
async fn e8_every_answer_names_the_version() {
    let service = Service::new().await;
    for path in ["/healthz", "/v1/approvals", "/nowhere", "/openapi.json"] {
        let answered = service.get("cst_0", path).await;
        assert_eq!(
            answered.headers["countersign-version"],
            env!("CARGO_PKG_VERSION"),
            "{path}"
        );
    }
}
