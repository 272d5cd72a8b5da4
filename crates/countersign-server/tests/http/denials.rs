//! A denied call stays denied, however its arguments are written.

use serde_json::Value;

use crate::support::{POLICY, Service, id};

const DENIED: &str = r#"{"amount":5000,"to":"caf\u00e9 X","deep":{"a":[1,2]}}"#;

/// Arguments with the same values as `DENIED`, spelled differently.
const AGAIN: [&str; 11] = [
    r#"{"amount":5000,"to":"caf\u00e9 X","deep":{"a":[1,2]}}"#,
    r#"{ "amount":5000, "to":"caf\u00e9 X","deep":{"a":[1, 2]} }"#,
    r#"{"deep":{"a":[1,2]},"to":"caf\u00e9 X","amount":5000}"#,
    r#"{"amount":5000.0,"to":"caf\u00e9 X","deep":{"a":[1,2]}}"#,
    r#"{"amount":5e3,"to":"caf\u00e9 X","deep":{"a":[1,2]}}"#,
    r#"{"amount":5000,"to":"café \u0058","deep":{"a":[1,2]}}"#,
    r#"{"amount":5000,"to":"caf\u00e9 X","deep":{"a":[1,2]},"confirmed":true}"#,
    r#"{"amount":5000,"to":"caf\u00e9 X","deep":{"a":[1,2]},"x":null}"#,
    r#"{"amount":5000,"to":"caf\u00e9\u00a0X\u200b ","deep":{"a":[1,2]}}"#,
    r#"{"amount":5000,"to":"\ufeffcaf\u00e9 X\n","deep":{"a":[1,2]},"user_confirmed":"yes"}"#,
    r#"{"amount":50.00e2,"to":"cafe\u0301 X","deep":{"y":null,"a":[1,2]},"confirm":false}"#,
];

/// Arguments with other values, which may be proposed although `DENIED` was denied.
const OTHERS: [&str; 5] = [
    r#"{"amount":5000.01,"to":"caf\u00e9 X","deep":{"a":[1,2]}}"#,
    r#"{"amount":"5000","to":"caf\u00e9 X","deep":{"a":[1,2]}}"#,
    r#"{"amount":5000,"to":"caf\u00e9 x","deep":{"a":[1,2]}}"#,
    r#"{"amount":5000,"to":"caf\u00e9 X","deep":{"a":[2,1]}}"#,
    r#"{"amount":5000,"to":"caf\u00e9 X","deep":{"a":[1,2]},"x":0}"#,
];

async fn deny(service: &Service, agent: &str, arguments: &str) {
    let ana = service.decider("ana").await;
    let denied = service.propose(agent, "echo", arguments).await;
    let path = format!("/v1/approvals/{}", id(&denied));
    service.post(&ana, &path, r#"{"approved":false}"#).await.good();
}

fn body(arguments: &str) -> String {
    format!(r#"{{"calls":[{{"tool":"echo","arguments":{arguments}}}]}}"#)
}

#[tokio::test]
async fn x99_a_cool_down_refuses_the_same_values_however_they_are_written() {
    let service = Service::with_policy(&format!("{POLICY}\n[agents]\ncool_down = \"10m\"\n")).await;
    let agent = service.agent("crm").await;
    deny(&service, &agent, DENIED).await;
    deny(&service, &agent, r#"{"n":9007199254740992}"#).await;
    for again in AGAIN {
        let refused = service.post(&agent, "/v1/calls", &body(again)).await;
        assert_eq!(refused.error().1, "denied_lately", "{again}");
    }
    let listed = service.get(&agent, "/v1/approvals").await.good();
    assert_eq!(
        listed["approvals"].as_array().unwrap().len(),
        0,
        "nobody is asked"
    );
    for other in OTHERS.into_iter().chain([r#"{"n":9007199254740993}"#]) {
        let asked = service.post(&agent, "/v1/calls", &body(other)).await;
        assert!(asked.status.is_success(), "{other}: {asked:?}");
    }
}

#[tokio::test]
async fn x99_a_card_says_that_the_same_values_were_denied_lately() {
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    deny(&service, &agent, DENIED).await;
    let concerns = async |arguments: &str| {
        let asked = service.propose(&agent, "echo", arguments).await;
        let path = format!("/v1/approvals/{}?concerns=true", id(&asked));
        let shown = service.get(&agent, &path).await.good();
        shown["calls"][0]["concerns"].clone()
    };
    let denied = Value::from("the same call was denied within the last hour");
    let has = |concerns: &Value| concerns.as_array().is_some_and(|all| all.contains(&denied));
    for again in AGAIN {
        assert!(has(&concerns(again).await), "{again}");
    }
    for other in OTHERS {
        assert!(!has(&concerns(other).await), "{other}");
    }
}

const COOLING: &str = r#"
[tools.pay]
effect = "write"
[tools.note]
effect = "write"
[agents]
cool_down = "10m"
"#;

const PAY: (&str, &str) = ("pay", r#"{"amount":5000,"to":"X"}"#);
const NOTE: (&str, &str) = ("note", r#"{"n":1}"#);
const OTHER: (&str, &str) = ("note", r#"{"n":2}"#);

/// A service with an agent, a person, and tools that record their runs.
struct Desk {
    service: Service,
    ran: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
    agent: String,
    ana: String,
}

impl Desk {
    async fn new() -> Desk {
        let (service, ran) = Service::recording(COOLING, &["pay", "note"]).await;
        let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
        Desk {
            service,
            ran,
            agent,
            ana,
        }
    }

    async fn ask(&self, calls: &[(&str, &str)]) -> crate::support::Answered {
        let calls: Vec<String> = calls
            .iter()
            .map(|(tool, arguments)| format!(r#"{{"tool":"{tool}","arguments":{arguments}}}"#))
            .collect();
        let body = format!(r#"{{"calls":[{}]}}"#, calls.join(","));
        self.service.post(&self.agent, "/v1/calls", &body).await
    }

    async fn decide(&self, calls: &[(&str, &str)], decision: &str) {
        let asked = self.ask(calls).await.good()["approval"].clone();
        let path = format!("/v1/approvals/{}?waitFor=finished", id(&asked));
        self.service.post(&self.ana, &path, decision).await.good();
    }

    /// Proposes calls that must be refused. Approves them if they are held after all, to prove that nothing runs.
    async fn is_refused(&self, calls: &[(&str, &str)]) {
        let ran = self.ran.lock().unwrap().clone();
        let asked = self.ask(calls).await;
        if asked.status.is_success() {
            let path = format!("/v1/approvals/{}?waitFor=finished", id(&asked.json()["approval"]));
            self.service.post(&self.ana, &path, r#"{"approved":true}"#).await;
        }
        assert_eq!(*self.ran.lock().unwrap(), ran, "{calls:?}");
        assert_eq!(asked.error().1, "denied_lately", "{calls:?}");
    }

    async fn is_asked(&self, calls: &[(&str, &str)]) {
        let asked = self.ask(calls).await.good()["approval"].clone();
        assert_eq!(asked["status"], "pending", "{calls:?}");
        let path = format!("/v1/approvals/{}/withdraw", id(&asked));
        self.service.post(&self.agent, &path, "{}").await.good();
    }
}

#[tokio::test]
async fn x99_a_denied_call_is_refused_in_whatever_company() {
    let desk = Desk::new().await;
    desk.decide(&[PAY], r#"{"approved":false}"#).await;
    let again = ("pay", r#"{ "to":"X", "amount":5e3, "Confirmed":true }"#);
    for calls in [
        &[PAY][..],
        &[PAY, NOTE],
        &[NOTE, PAY],
        &[PAY, PAY],
        &[NOTE, OTHER, again],
    ] {
        desk.is_refused(calls).await;
    }
    desk.is_asked(&[NOTE]).await;
    desk.is_asked(&[NOTE, OTHER]).await;
}

#[tokio::test]
async fn x99_each_call_that_was_left_out_counts_as_denied() {
    let desk = Desk::new().await;
    desk.decide(
        &[PAY, NOTE, OTHER],
        r#"{"approved":true,"calls":[{"approved":false},{"approved":true},{"approved":false}]}"#,
    )
    .await;
    assert_eq!(*desk.ran.lock().unwrap(), ["note"]);
    for calls in [&[PAY][..], &[OTHER], &[PAY, NOTE], &[NOTE, OTHER]] {
        desk.is_refused(calls).await;
    }
    desk.is_asked(&[NOTE]).await;
}

#[tokio::test]
async fn x99_a_batch_that_was_denied_is_refused_in_any_order() {
    let desk = Desk::new().await;
    desk.decide(&[PAY, NOTE, NOTE], r#"{"approved":false}"#).await;
    for calls in [
        &[PAY, NOTE, NOTE][..],
        &[NOTE, PAY, NOTE],
        &[NOTE, NOTE, PAY],
        &[OTHER, NOTE, NOTE, PAY],
        &[NOTE, NOTE, NOTE, PAY],
    ] {
        desk.is_refused(calls).await;
    }
    // The person may have objected to another call of the batch.
    for calls in [
        &[PAY][..],
        &[NOTE],
        &[NOTE, NOTE],
        &[PAY, NOTE],
        &[PAY, NOTE, OTHER],
    ] {
        desk.is_asked(calls).await;
    }
    // Denying a smaller batch refuses that one as well.
    desk.decide(&[NOTE, PAY], r#"{"approved":false}"#).await;
    desk.is_refused(&[PAY, NOTE]).await;
    desk.is_refused(&[PAY, OTHER, NOTE]).await;
    desk.is_asked(&[PAY]).await;
}
