//! Tools that ask for confirmation themselves, with an argument `confirmed`, over HTTP (C1, C2).

use axum::http::Request;
use serde_json::{Value, json};

use crate::support::{Answered, Service, id};

struct Flow {
    service: Service,
    agent: String,
    person: String,
}

impl Flow {
    async fn new() -> Flow {
        let service = Service::new().await;
        let agent = service.agent("crm").await;
        let person = service.decider("ana").await;
        Flow {
            service,
            agent,
            person,
        }
    }

    async fn call(&self, arguments: Value) -> Value {
        self.call_in("echo", "chat", arguments).await
    }

    async fn call_in(&self, tool: &str, channel: &str, arguments: Value) -> Value {
        let body = json!({ "calls": [{ "tool": tool, "arguments": arguments }], "channel": channel });
        self.service
            .post(&self.agent, "/v1/calls", &body.to_string())
            .await
            .good()
    }

    async fn call_with_key(&self, key: &str, arguments: Value) -> Answered {
        let body = json!({ "calls": [{ "tool": "echo", "arguments": arguments }], "channel": "chat" });
        let asked = Request::post("/v1/calls")
            .header("host", "service.test")
            .header("authorization", format!("Bearer {}", self.agent))
            .header("content-type", "application/json")
            .header("idempotency-key", key);
        self.service
            .ask(asked.body(body.to_string().into()).unwrap())
            .await
    }

    async fn decide(&self, approval: &Value, approved: bool) {
        let path = format!("/v1/approvals/{}?waitFor=finished", id(approval));
        let body = json!({ "approved": approved }).to_string();
        self.service.post(&self.person, &path, &body).await.good();
    }

    fn ran(&self) -> Vec<String> {
        self.service.ran.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn c1_the_result_of_an_approved_call_comes_with_the_flag_once() {
    let flow = Flow::new().await;
    let first = flow.call(json!({ "slug": "about" })).await;
    let held = &first["calls"][0];
    assert_eq!(
        (&held["ruling"], &held["status"], &held["requiresConfirmation"]),
        (&json!("held"), &json!("pending_confirmation"), &json!(true))
    );
    assert!(
        held["message"].as_str().unwrap().starts_with("Are you sure? "),
        "{held}"
    );
    assert_eq!(held["details"], json!([held["summary"]]));
    flow.decide(&first["approval"], true).await;
    assert_eq!(flow.ran(), [r#"{"slug":"about"}"#]);
    let second = flow.call(json!({ "slug": "about", "confirmed": true })).await;
    let told = &second["calls"][0];
    assert_eq!(
        (&told["ruling"], &told["status"], &told["result"]),
        (
            &json!("confirmed"),
            &json!("succeeded"),
            &json!({ "slug": "about" })
        )
    );
    assert_eq!(told.get("requiresConfirmation"), None);
    assert_eq!(second["approval"]["id"], first["approval"]["id"]);
    // The third one is a new call.
    let third = flow.call(json!({ "slug": "about", "confirmed": true })).await;
    assert_eq!(third["calls"][0]["ruling"], "held");
    assert_ne!(third["approval"]["id"], first["approval"]["id"]);
    assert_eq!(flow.ran().len(), 1);
}

#[tokio::test]
async fn c2_over_http_the_flag_is_never_believed() {
    let flow = Flow::new().await;
    let flagged = json!({ "slug": "about", "confirmed": true });
    // At first it is held like any other call.
    let first = flow.call(flagged.clone()).await;
    assert_eq!(first["calls"][0]["ruling"], "held");
    // While a person is asked, it joins the card instead of replacing it.
    let again = flow.call(flagged.clone()).await;
    assert_eq!(again["approval"]["id"], first["approval"]["id"]);
    assert_eq!(again["calls"][0]["requiresConfirmation"], true);
    flow.decide(&first["approval"], false).await;
    // After a no it is asked again.
    let denied = flow.call(flagged.clone()).await;
    assert_eq!(denied["calls"][0]["ruling"], "held");
    assert_ne!(denied["approval"]["id"], first["approval"]["id"]);
    flow.decide(&denied["approval"], false).await;
    assert!(flow.ran().is_empty());

    let approved = flow.call(json!({ "slug": "about" })).await;
    flow.decide(&approved["approval"], true).await;
    assert_eq!(flow.ran().len(), 1);
    for (tool, channel, arguments) in [
        ("echo", "elsewhere", flagged.clone()),
        ("delete_contact", "chat2", flagged.clone()),
        ("echo", "chat", json!({ "slug": "home", "confirmed": true })),
        ("echo", "chat", json!({ "slug": "about", "confirmed": "true" })),
        ("echo", "chat", json!({ "slug": "about", "confirmed": false })),
        ("echo", "chat", json!({ "slug": "about" })),
        (
            "echo",
            "chat",
            json!({ "slug": "about", "n": 1, "confirmed": true }),
        ),
    ] {
        let answer = flow.call_in(tool, channel, arguments.clone()).await;
        assert_eq!(
            answer["calls"][0]["ruling"], "held",
            "{tool} {channel} {arguments}"
        );
    }
    // Another agent's flag refers to none of these.
    let other = flow.service.agent("other").await;
    let body = json!({ "calls": [{ "tool": "echo", "arguments": flagged }], "channel": "chat" }).to_string();
    assert_eq!(
        flow.service.post(&other, "/v1/calls", &body).await.error(),
        (409, "channel_taken".to_owned())
    );
    assert_eq!(flow.ran().len(), 1);
}

/// A call that a person left out of a batch is not confirmed by the approval of the rest.
#[tokio::test]
async fn c2_the_flag_does_not_revive_a_call_that_was_left_out() {
    let flow = Flow::new().await;
    let calls = json!({ "calls": [
        { "tool": "echo", "arguments": { "slug": "a" } },
        { "tool": "echo", "arguments": { "slug": "b" } },
    ], "channel": "chat" });
    let answer = flow
        .service
        .post(&flow.agent, "/v1/calls", &calls.to_string())
        .await
        .good();
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&answer["approval"]));
    let body = json!({ "approved": true, "calls": [{ "approved": true }, { "approved": false }] });
    flow.service
        .post(&flow.person, &path, &body.to_string())
        .await
        .good();
    assert_eq!(flow.ran(), [r#"{"slug":"a"}"#]);
    for view in ["full", "simple"] {
        let path = format!("/v1/approvals/{}?view={view}", id(&answer["approval"]));
        let read = flow.service.get(&flow.person, &path).await.good();
        assert_eq!(
            (&read["status"], &read["partlyDenied"]),
            (&json!("approved"), &json!(true)),
            "{view}"
        );
    }
    let left_out = flow.call(json!({ "slug": "b", "confirmed": true })).await;
    assert_eq!(left_out["calls"][0]["ruling"], "held");
    // This proposal is pending now. The approved call of the batch still gives its result.
    let ran = flow.call(json!({ "slug": "a", "confirmed": true })).await;
    assert_eq!(ran["calls"][0]["result"], json!({ "slug": "a" }));
    assert_eq!(flow.ran().len(), 1);
}

#[tokio::test]
async fn c2_a_yes_confirms_for_a_day() {
    let flow = Flow::new().await;
    let first = flow.call(json!({ "slug": "about" })).await;
    flow.decide(&first["approval"], true).await;
    flow.service
        .clock
        .advance(std::time::Duration::from_secs(24 * 3600));
    let agent = flow.service.agent("crm").await;
    let body = json!({ "calls": [{ "tool": "echo", "arguments": { "slug": "about", "confirmed": true } }], "channel": "chat" });
    let late = flow
        .service
        .post(&agent, "/v1/calls", &body.to_string())
        .await
        .good();
    assert_eq!(late["calls"][0]["ruling"], "held");
}

/// A repeated request with the same idempotency key gets the same result, because the first answer may be lost.
#[tokio::test]
async fn c1_a_repeated_request_gets_the_result_again() {
    let flow = Flow::new().await;
    let first = flow.call(json!({ "slug": "about" })).await;
    flow.decide(&first["approval"], true).await;
    let flagged = json!({ "slug": "about", "confirmed": true });
    for _ in 0..2 {
        let told = flow.call_with_key("k-1", flagged.clone()).await.good();
        assert_eq!(told["calls"][0]["result"], json!({ "slug": "about" }));
    }
    let other = flow.call_with_key("k-2", flagged.clone()).await.good();
    assert_eq!(other["calls"][0]["ruling"], "held");
    // A repetition of the request that proposed it is no confirmation.
    flow.decide(&other["approval"], true).await;
    let repeated = flow.call_with_key("k-2", flagged).await.good();
    assert_eq!(
        repeated["calls"][0]["ruling"], "held",
        "the same response as before"
    );
    assert_eq!(repeated["approval"]["id"], other["approval"]["id"]);
    assert_eq!(flow.ran().len(), 2);
}

/// The flag refers to what the agent asked for, and the answer says what ran.
#[tokio::test]
async fn c1_an_edited_call_answers_with_what_ran() {
    let flow = Flow::new().await;
    let first = flow.call(json!({ "slug": "about" })).await;
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&first["approval"]));
    let body =
        json!({ "approved": true, "calls": [{ "approved": true, "arguments": { "slug": "about-2" } }] });
    flow.service
        .post(&flow.person, &path, &body.to_string())
        .await
        .good();
    assert_eq!(flow.ran(), [r#"{"slug":"about-2"}"#]);
    let told = flow.call(json!({ "slug": "about", "confirmed": true })).await;
    assert_eq!(told["calls"][0]["ruling"], "confirmed");
    assert_eq!(told["approval"]["calls"][0]["edited"], true);
    assert_eq!(
        told["approval"]["calls"][0]["arguments"],
        json!({ "slug": "about-2" })
    );
}

/// X15: a condition on `confirmed` is not avoided with a name that a tool may read as `confirmed`.
#[tokio::test]
async fn x15_a_name_that_is_nearly_the_one_a_condition_reads_is_held() {
    let policy = r#"
[tools.echo]
effect = "write"
hold = "has(args.confirmed) && args.confirmed"

[tools.lookup]
effect = "write"
hold = "'force' in args.options && args[\"options\"].force"
"#;
    let service = Service::with_policy(policy).await;
    let agent = service.agent("crm").await;
    for (tool, arguments, ruling) in [
        ("echo", r#"{"x":1}"#, "pass"),
        ("echo", r#"{"x":2,"confirmed":false}"#, "pass"),
        ("echo", r#"{"x":3,"confirmed":true}"#, "held"),
        ("echo", r#"{"x":4,"Confirmed":true}"#, "held"),
        ("echo", r#"{"x":5,"CONFIRMED":true}"#, "held"),
        ("echo", r#"{"x":6,"confirmed ":true}"#, "held"),
        ("echo", r#"{"x":7,"confirmed\u200b":true}"#, "held"),
        ("echo", r#"{"x":8,"con_firmed":true}"#, "held"),
        ("echo", r#"{"x":9,"\uff43onfirmed":true}"#, "held"),
        ("echo", r#"{"x":10,"confirmed":false,"Confirmed":true}"#, "held"),
        ("echo", r#"{"x":11,"notes":{"Confirmed":true}}"#, "held"),
        ("lookup", r#"{"options":{"force":false}}"#, "pass"),
        ("lookup", r#"{"options":{"Force":true}}"#, "held"),
        ("lookup", r#"{"options":{},"Options":{"force":true}}"#, "held"),
    ] {
        let ran = service.ran.lock().unwrap().len();
        let body = format!(r#"{{"channel":"c","calls":[{{"tool":"{tool}","arguments":{arguments}}}]}}"#);
        let answer = service.post(&agent, "/v1/calls", &body).await.good();
        assert_eq!(answer["calls"][0]["ruling"], ruling, "{arguments} {answer}");
        if ruling == "held" {
            assert_eq!(service.ran.lock().unwrap().len(), ran, "{arguments}");
        }
    }
}
