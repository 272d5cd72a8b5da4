//! X70: a channel belongs to the agent that opened it, and limits are counted for each agent alone.

use serde_json::{Value, json};

use crate::support::{POLICY, Service, id};

fn echo(channel: &str, n: u32) -> String {
    json!({ "channel": channel, "calls": [{ "tool": "echo", "arguments": { "n": n } }] }).to_string()
}

async fn pending(service: &Service, token: &str, channel: &str) -> Value {
    service
        .get(token, &format!("/v1/channels/{channel}/pending"))
        .await
        .good()["pending"]
        .clone()
}

#[tokio::test]
async fn x70_another_agent_does_not_replace_a_card() {
    let service = Service::new().await;
    let (alfa, beta) = (service.agent("alfa").await, service.agent("beta").await);
    let card = service.post(&alfa, "/v1/calls", &echo("desk", 1)).await.good()["approval"].clone();
    let ask = json!({ "channel": "desk", "toolName": "echo", "toolArguments": { "n": 3 } }).to_string();
    for (route, body) in [("/v1/calls", echo("desk", 2)), ("/v1/approvals", ask)] {
        let refused = service.post(&beta, route, &body).await;
        assert_eq!(
            refused.error(),
            (409, "channel_taken".to_owned()),
            "{}",
            refused.text
        );
        assert!(!refused.text.contains(&id(&card)), "{}", refused.text);
        assert!(!refused.text.contains("alfa"), "{}", refused.text);
    }
    // Nothing was stored, and the agent's next proposal works.
    let all = service.get(&beta, "/v1/approvals?status=all").await.good();
    assert_eq!(all["approvals"], json!([]));
    service.post(&beta, "/v1/calls", &echo("other", 4)).await.good();
    // The first card is unchanged, and runs what it says.
    assert_eq!(pending(&service, &alfa, "desk").await["approval"], card["id"]);
    let ana = service.decider("ana").await;
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&card));
    let ran = service.post(&ana, &path, r#"{"approved":true}"#).await.good();
    assert_eq!(ran["calls"][0]["result"]["n"], 1, "{ran}");
    // A new card of the owner supersedes its previous one.
    let second = service.post(&alfa, "/v1/calls", &echo("desk", 5)).await.good();
    let third = service.post(&alfa, "/v1/calls", &echo("desk", 6)).await.good();
    assert_eq!(third["approval"]["replaces"], second["approval"]["id"]);
    // The channel still belongs to alfa when nothing is pending in it.
    let withdraw = format!("/v1/approvals/{}/withdraw", id(&third["approval"]));
    service.post(&alfa, &withdraw, "{}").await.good();
    let refused = service.post(&beta, "/v1/calls", &echo("desk", 7)).await;
    assert_eq!(
        refused.error(),
        (409, "channel_taken".to_owned()),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn x70_what_another_agent_tries_does_not_use_up_the_evidence() {
    let service = Service::new().await;
    let (alfa, beta) = (service.agent("alfa").await, service.agent("beta").await);
    let card = service.post(&alfa, "/v1/calls", &echo("desk", 1)).await.good()["approval"].clone();
    let path = format!("/v1/approvals/{}", id(&card));
    for _ in 0..40 {
        let tried = service.post(&beta, &path, r#"{"approved":true}"#).await;
        assert_eq!(tried.status, 403);
    }
    service.post(&alfa, &path, r#"{"approved":true}"#).await;
    let ana = service.decider("ana").await;
    let events = service.get(&ana, &format!("{path}?events=true")).await.good()["events"].clone();
    let tries = |by: &str| {
        events
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["by"] == by)
            .count()
    };
    assert!((1..=16).contains(&tries("agent:beta")), "{events}");
    assert_eq!(tries("agent:alfa"), 2, "proposed and tried: {events}");
}

/// Agents can share a channel that the policy lists.
#[tokio::test]
async fn x70_a_policy_may_share_a_channel() {
    let service = Service::with_policy(&format!("[channel]\nshared = [\"desk\"]\n{POLICY}")).await;
    let (alfa, beta) = (service.agent("alfa").await, service.agent("beta").await);
    let first = service.post(&alfa, "/v1/calls", &echo("desk", 1)).await.good();
    let second = service.post(&beta, "/v1/calls", &echo("desk", 2)).await.good();
    assert_eq!(
        pending(&service, &beta, "desk").await["approval"],
        second["approval"]["id"]
    );
    let first = service
        .get(&alfa, &format!("/v1/approvals/{}", id(&first["approval"])))
        .await
        .good();
    assert_eq!(first["status"], "superseded");
    // Channels that are not listed are not shared.
    service.post(&alfa, "/v1/calls", &echo("desk2", 1)).await.good();
    assert_eq!(
        service.post(&beta, "/v1/calls", &echo("desk2", 2)).await.status,
        409
    );
}
