//! The simple view, which clients of other approval services read, and requests for leave (D1, D3, D4).

use std::time::Duration;

use countersign::executor::Tools;
use countersign_agent::file::{AgentFile, Provider};
use countersign_server::access::Scope;
use countersign_server::service::agents::Loaded;
use serde_json::{Value, json};

use crate::agents::Frames;
use crate::support::{Service, id};

struct Desk {
    service: Service,
    agent: String,
    person: String,
}

impl Desk {
    async fn new() -> Desk {
        let service = Service::new().await;
        Desk {
            agent: service.agent("crm").await,
            person: service.decider("ana").await,
            service,
        }
    }

    async fn ask(&self, body: Value) -> Value {
        let asked = self
            .service
            .post(&self.agent, "/v1/approvals?view=simple", &body.to_string())
            .await;
        assert_eq!(asked.status, 201, "{}", asked.text);
        asked.json()
    }

    async fn read(&self, approval: &Value) -> Value {
        let path = format!("/v1/approvals/{}?view=simple", id(approval));
        self.service.get(&self.person, &path).await.good()
    }

    async fn decide(&self, approval: &Value, body: Value) -> Value {
        let path = format!("/v1/approvals/{}?view=simple&waitFor=finished", id(approval));
        self.service
            .post(&self.person, &path, &body.to_string())
            .await
            .good()
    }

    async fn list(&self, query: &str) -> Vec<String> {
        let page = self
            .service
            .get(&self.person, &format!("/v1/approvals?{query}"))
            .await
            .good();
        let approvals = page["approvals"].as_array().unwrap().iter();
        approvals
            .map(|approval| approval["status"].as_str().unwrap().to_owned())
            .collect()
    }

    fn ran(&self) -> Vec<String> {
        self.service.ran.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn d3_the_simple_view_has_the_fields_and_statuses_of_the_source() {
    let desk = Desk::new().await;
    let asked = desk
        .ask(json!({
            "runId": "run-1", "toolName": "echo", "toolArguments": { "to": "maria@acme.com" },
            "riskLevel": "high", "description": "She asked for it", "ttlMs": 60_000,
        }))
        .await;
    assert_eq!(asked["status"], "pending");
    assert_eq!(
        (&asked["runId"], &asked["agentName"], &asked["toolName"]),
        (&json!("run-1"), &json!("crm"), &json!("echo"))
    );
    assert_eq!(asked["toolArguments"], json!({ "to": "maria@acme.com" }));
    assert_eq!(asked["riskLevel"], "high");
    assert_eq!(asked["description"], "She asked for it", "the requester's words");
    assert_ne!(
        asked["summary"], asked["description"],
        "the gate's words stand beside them"
    );
    assert!(
        asked["card"].as_str().unwrap().contains("maria@acme.com"),
        "{asked}"
    );
    assert_eq!(asked["createdAt"], "2026-01-01T00:00:00.000Z");
    assert_eq!(
        asked["expiresAt"], "2026-01-01T00:01:00.000Z",
        "the time that was asked for"
    );
    assert_eq!(asked["requestedBy"], "crm");
    for absent in ["comment", "decidedAt", "decidedBy", "claimedBy"] {
        assert_eq!(asked.get(absent), None, "{absent}");
    }
    let yes =
        json!({ "approved": true, "comment": "Reviewed and OK", "decidedBy": "supervisor@company.com" });
    let decided = desk.decide(&asked, yes).await;
    assert_eq!(decided["status"], "approved");
    assert_eq!(decided["comment"], "Reviewed and OK");
    // The credential says who decided; what the body says is a claim.
    assert_eq!(decided["decidedBy"], "ana");
    assert_eq!(decided["claimedBy"], "supervisor@company.com");
    let full = desk
        .service
        .get(&desk.person, &format!("/v1/approvals/{}", id(&asked)))
        .await
        .good();
    assert_eq!(
        (&full["decidedBy"], &full["claimedBy"]),
        (&json!("ana"), &json!("supervisor@company.com"))
    );
    assert_eq!(desk.ran(), [r#"{"to":"maria@acme.com"}"#]);
}

/// Every state has one of the four statuses, and a run is found in all of them.
#[tokio::test]
async fn d1_d3_a_run_is_found_in_every_state() {
    let desk = Desk::new().await;
    let call = |n: u32, channel: &str| json!({ "runId": "r", "toolName": "echo", "toolArguments": { "n": n }, "channel": channel });
    let approved = desk.ask(call(1, "a")).await;
    desk.decide(&approved, json!({ "approved": true })).await;
    let rejected = desk.ask(call(2, "b")).await;
    desk.decide(&rejected, json!({ "approved": false, "comment": "Do not" }))
        .await;
    let superseded = desk.ask(call(3, "c")).await;
    desk.ask(call(4, "c")).await;
    let withdrawn = desk.ask(call(5, "d")).await;
    let path = format!("/v1/approvals/{}/withdraw", id(&withdrawn));
    desk.service.post(&desk.agent, &path, "{}").await.good();
    for (approval, status) in [
        (&approved, "approved"),
        (&rejected, "rejected"),
        (&superseded, "expired"),
        (&withdrawn, "expired"),
    ] {
        assert_eq!(desk.read(approval).await["status"], status);
    }
    assert_eq!(desk.read(&rejected).await["comment"], "Do not");
    let sorted = |mut list: Vec<String>| {
        list.sort();
        list.join(" ")
    };
    assert_eq!(
        sorted(desk.list("view=simple&runId=r").await),
        "approved expired expired pending rejected"
    );
    assert_eq!(
        sorted(desk.list("runId=r").await),
        "approved denied pending superseded withdrawn"
    );
    assert_eq!(desk.list("runId=r&status=pending").await, ["pending"]);
    assert_eq!(desk.list("view=simple").await, ["pending"]);
    for (status, count) in [
        ("pending", 1),
        ("approved", 1),
        ("rejected", 1),
        ("expired", 2),
        ("all", 5),
    ] {
        let listed = desk.list(&format!("view=simple&status={status}")).await;
        assert_eq!(listed.len(), count, "{status}: {listed:?}");
        assert!(
            status == "all" || listed.iter().all(|word| word == status),
            "{listed:?}"
        );
    }
    desk.service.clock.advance(Duration::from_secs(3600));
    let person = desk.service.decider("ana").await;
    let late = desk
        .service
        .get(&person, "/v1/approvals?view=simple&status=pending")
        .await
        .good();
    assert_eq!(late["approvals"], json!([]), "its time is over");
    for (odd, status) in [
        ("view=odd", 400),
        ("view=simple&status=denied", 422),
        ("view=simple&concerns=true", 422),
    ] {
        let answer = desk.service.get(&person, &format!("/v1/approvals?{odd}")).await;
        assert_eq!(answer.status, status, "{odd}");
    }
}

/// What a client of the simple view is shown is all that can be approved: secrets are marked, batches are whole.
#[tokio::test]
async fn d3_the_simple_view_leaves_nothing_out_and_shows_no_secret() {
    let desk = Desk::new().await;
    let secret = desk
        .ask(json!({ "toolName": "create_contact", "toolArguments": { "name": "Eva", "api_key": "hunter2hunter2" } }))
        .await;
    assert!(!secret.to_string().contains("hunter2"), "{secret}");
    assert_eq!(secret["toolArguments"]["name"], "Eva");
    assert_eq!(secret["runId"], "unknown");
    assert_eq!(secret.get("description"), None, "the requester said nothing");
    let body = json!({ "calls": [
        { "tool": "echo", "arguments": { "n": 1 } },
        { "tool": "delete_contact", "arguments": { "id": 2 } },
    ] });
    let batch = desk
        .service
        .post(&desk.agent, "/v1/calls", &body.to_string())
        .await
        .good();
    let batch = desk.read(&batch["approval"]).await;
    assert_eq!(batch["toolName"], "echo,delete_contact");
    assert_eq!(
        batch["toolArguments"],
        json!({ "calls": [
            { "tool": "echo", "arguments": { "n": 1 } },
            { "tool": "delete_contact", "arguments": { "id": 2 } },
        ] })
    );
}

#[tokio::test]
async fn d3_more_time_than_the_policy_allows_is_refused_with_the_reason() {
    let desk = Desk::new().await;
    let ask = async |ttl: u64| {
        let body = json!({ "toolName": "echo", "toolArguments": {}, "ttlMs": ttl }).to_string();
        desk.service.post(&desk.agent, "/v1/approvals", &body).await
    };
    let refused = ask(30 * 60 * 1000).await;
    assert_eq!(refused.error(), (422, "ttl_too_long".to_owned()));
    let error = refused.json()["error"].clone();
    assert_eq!(error["longestTtlMs"], 300_000);
    assert!(error["message"].as_str().unwrap().contains("300 s"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("`ttl`"), "{error}");
    let listed = desk.list("status=all").await;
    assert_eq!(listed, [""; 0], "nobody was asked");
    assert_eq!(ask(300_000).await.json()["expiresAt"], "2026-01-01T00:05:00.000Z");
    // With a policy that allows it, half an hour is half an hour.
    let service = Service::with_policy("[channel]\nttl = '1h'\n[tools.echo]\neffect = 'write'\n").await;
    let agent = service.agent("crm").await;
    let body = json!({ "toolName": "echo", "toolArguments": {}, "ttlMs": 1_800_000 }).to_string();
    let asked = service.post(&agent, "/v1/approvals", &body).await.good();
    assert_eq!(asked["expiresAt"], "2026-01-01T00:30:00.000Z");
}

#[tokio::test]
async fn d4_asking_for_leave_runs_nothing_of_the_tool_it_names() {
    let desk = Desk::new().await;
    let leave = desk
        .ask(json!({ "toolName": "echo", "description": "Mail the customer", "riskLevel": "critical" }))
        .await;
    assert_eq!(
        (&leave["toolName"], &leave["description"], &leave["riskLevel"]),
        (&json!("echo"), &json!("Mail the customer"), &json!("critical"))
    );
    let pending = desk.list("status=pending").await;
    assert_eq!(pending.len(), 1, "one approval");
    let decided = desk
        .decide(&leave, json!({ "approved": true, "comment": "go on" }))
        .await;
    assert_eq!(
        (&decided["status"], &decided["comment"]),
        (&json!("approved"), &json!("go on"))
    );
    assert_eq!(desk.ran(), [""; 0], "`echo` did not run");
    let full = desk
        .service
        .get(&desk.person, &format!("/v1/approvals/{}", id(&leave)))
        .await
        .good();
    let call = &full["calls"][0];
    assert_eq!(
        (&call["tool"], &call["state"], &call["result"]),
        (
            &json!("requestApproval"),
            &json!("succeeded"),
            &json!({ "approved": true })
        )
    );
    // The leave does not let the tool itself pass.
    let held = desk.service.propose(&desk.agent, "echo", "{}").await;
    assert_eq!(held["status"], "pending");
    assert_eq!(desk.ran(), [""; 0]);
    // As a call of the tool `requestApproval` it is the same.
    let body = json!({ "calls": [{ "tool": "requestApproval", "arguments": { "toolName": "echo", "description": "d", "riskLevel": "low" } }] });
    let asked = desk
        .service
        .post(&desk.agent, "/v1/calls", &body.to_string())
        .await
        .good();
    assert_eq!(asked["calls"][0]["ruling"], "held");
    let denied = desk
        .decide(&asked["approval"], json!({ "approved": false }))
        .await;
    assert_eq!(
        (&denied["status"], &denied["toolName"]),
        (&json!("rejected"), &json!("echo"))
    );
    assert_eq!(desk.ran(), [""; 0]);
}

/// A policy that lists the tool as a read gives no leave, because nobody was asked.
#[tokio::test]
async fn d4_a_request_for_leave_that_passes_gives_none() {
    let service = Service::with_policy("[tools.requestApproval]\neffect = 'read'\n").await;
    let agent = service.agent("crm").await;
    let body = json!({ "calls": [{ "tool": "requestApproval", "arguments": { "toolName": "echo" } }] });
    let asked = service.post(&agent, "/v1/calls", &body.to_string()).await.good();
    assert_eq!(asked["calls"][0]["status"], "failed");
    assert_eq!(asked["calls"][0]["result"]["approved"], false);
    // Asked for outright, a person is asked all the same.
    let asked = service
        .post(&agent, "/v1/approvals", r#"{"toolName":"echo"}"#)
        .await
        .good();
    assert_eq!(asked["status"], "pending");
}

const AGENT: &str = r#"
name = "support"
[models.any]
anthropic = "a"
openai = "o"
[[specialist]]
name = "all"
about = "Everything"
prompt = "Ask before you send mail."
model = "any"
tools = ["requestApproval"]
"#;

const SCRIPT: &str = r#"
[[rule]]
after = "requestApproval"
status = "succeeded"
say = "You have my thanks."

[[rule]]
after = "requestApproval"
status = "pending_confirmation"
say = "I asked."

[[rule]]
person = ["mail *"]
[[rule.call]]
tool = "requestApproval"
arguments = '{"toolName":"sendEmail","description":"Greet Alice","riskLevel":"high"}'
"#;

#[tokio::test]
async fn d4_a_served_agent_asks_for_leave_with_one_approval() {
    let file = AgentFile::parse(AGENT, "[]", Some(SCRIPT)).unwrap();
    let agent = Loaded {
        plan: file.config(&Provider::Script).unwrap(),
        is_scripted: true,
        openings: Vec::new(),
    };
    let service = Service::with_agent("", Tools::default(), agent).await;
    let chat = service.with_scope("main", Scope::Chat).await;
    let person = service.decider("ana").await;
    let body = json!({ "session": "s", "text": "mail alice" }).to_string();
    let said = service.post(&chat, "/v1/agents/support/messages", &body).await;
    let frames = Frames::read(&said.text);
    let card = frames.get("held").clone();
    assert_eq!(card["approval"]["toolName"], "requestApproval");
    let pending = service.get(&person, "/v1/approvals?view=simple").await.good();
    assert_eq!(pending["approvals"].as_array().unwrap().len(), 1);
    assert_eq!(pending["approvals"][0]["toolName"], "sendEmail");
    let body = json!({ "session": "s", "text": "yes", "after": card["card"] }).to_string();
    let said = service.post(&chat, "/v1/agents/support/messages", &body).await;
    let result = Frames::read(&said.text).get("result").clone();
    assert_eq!(result["status"], "succeeded", "{result}");
    assert!(
        result["content"].as_str().unwrap().contains("approved"),
        "{result}"
    );
    let pending = service.get(&person, "/v1/approvals").await.good();
    assert_eq!(pending["approvals"], json!([]), "nobody is asked again");
}

/// The source's clients read `tool-result`, `toolName` and `result.requiresConfirmation`.
#[tokio::test]
async fn c6_a_stream_in_the_simple_view_has_the_shape_of_the_source() {
    let chat = crate::agents::Chat::new().await;
    let path = "/v1/agents/crm/messages?view=simple";
    let held = chat
        .say_to(path, json!({ "session": "s", "text": crate::agents::MARIA }))
        .await;
    assert_eq!(
        *held.get("tool-call"),
        json!({ "type": "tool-call", "toolCallId": "script_1_1", "toolName": "create_contact" })
    );
    let result = held.get("tool-result");
    assert_eq!(
        (&result["type"], &result["toolCallId"], &result["toolName"]),
        (
            &json!("tool-result"),
            &json!("script_1_1"),
            &json!("create_contact")
        )
    );
    assert_eq!(result["result"]["requiresConfirmation"], true, "{result}");
    assert!(
        result["result"]["message"]
            .as_str()
            .unwrap()
            .contains("Create contact Maria Garcia"),
        "{result}"
    );
    assert_eq!(
        result["trace"],
        json!({
            "type": "confirmation-required", "level": "warn", "toolName": "create_contact",
            "summary": "create_contact: Confirmation required",
        })
    );
    let body = json!({ "session": "s", "text": "yes", "after": held.get("held")["card"] });
    let done = chat.say_to(path, body).await;
    let result = done.get("tool-result");
    assert_eq!(result["toolName"], "create_contact");
    assert_eq!(result["result"]["status"], "succeeded", "{result}");
    assert_eq!(result["result"].get("requiresConfirmation"), None);
    assert_eq!(result.get("trace"), None);
    assert_eq!(chat.contacts().await, 1);
}
