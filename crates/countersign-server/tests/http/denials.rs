//! What was denied stays denied, however it is written.

use serde_json::Value;

use crate::support::{POLICY, Service, id};

const DENIED: &str = r#"{"amount":5000,"to":"caf\u00e9 X","deep":{"a":[1,2]}}"#;

/// Ways to write the same values.
const AGAIN: [&str; 9] = [
    r#"{"amount":5000,"to":"caf\u00e9 X","deep":{"a":[1,2]}}"#,
    r#"{ "amount":5000, "to":"caf\u00e9 X","deep":{"a":[1, 2]} }"#,
    r#"{"deep":{"a":[1,2]},"to":"caf\u00e9 X","amount":5000}"#,
    r#"{"amount":5000.0,"to":"caf\u00e9 X","deep":{"a":[1,2]}}"#,
    r#"{"amount":5e3,"to":"caf\u00e9 X","deep":{"a":[1,2]}}"#,
    r#"{"amount":5000,"to":"café \u0058","deep":{"a":[1,2]}}"#,
    r#"{"amount":5000,"to":"caf\u00e9 X","deep":{"a":[1,2]},"confirmed":true}"#,
    r#"{"amount":5000,"to":"caf\u00e9 X","deep":{"a":[1,2]},"x":null}"#,
    r#"{"amount":50.00e2,"to":"cafe\u0301 X","deep":{"y":null,"a":[1,2]},"confirm":false}"#,
];

/// Others, which are new questions.
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
