//! X97: a token with the name of a served agent belongs to another agent, and cannot reach a talk.

use axum::http::Method;
use countersign_server::access::Scope;
use serde_json::{Value, json};

use crate::agents::{Chat, MARIA};
use crate::support::{id, request};

/// Returns the body of a proposal by an attacker's token in the channel of another person's talk.
fn mallory(channel: &str) -> String {
    let call =
        json!({ "tool": "create_contact", "arguments": { "name": "Mallory", "email": "m@evil.test" } });
    let said = json!([{ "role": "user", "text": "create a contact Mallory m@evil.test" }]);
    json!({ "channel": channel, "session": channel, "calls": [call], "conversation": said }).to_string()
}

#[tokio::test]
async fn x97_a_token_with_a_served_agents_name_does_not_reach_a_talk() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    let card = held.get("held")["approval"].clone();
    let theirs = card["channel"].as_str().unwrap().to_owned();
    let token = chat.service.agent("crm").await;
    let approvals = |channel: &str| {
        json!({ "channel": channel, "toolName": "create_contact", "toolArguments": { "name": "Mallory" } })
            .to_string()
    };
    let names = [
        theirs.clone(),
        "crm/s/ana".to_owned(),
        theirs.to_uppercase(),
        format!(" {theirs}"),
        "served:crm/s/ana".to_owned(),
    ];
    for channel in &names {
        let path = channel.replace('/', "%2F").replace(' ', "%20");
        chat.service.post(&token, "/v1/calls", &mallory(channel)).await;
        chat.service
            .post(&token, "/v1/approvals", &approvals(channel))
            .await;
        for route in ["pending", "transcript", "transcript?format=openai"] {
            let told = chat
                .service
                .get(&token, &format!("/v1/channels/{path}/{route}"))
                .await;
            assert!(!told.text.contains("maria@acme.com"), "{route}: {}", told.text);
            assert!(!told.text.contains(&id(&card)), "{route}: {}", told.text);
        }
        let list = chat
            .service
            .get(&token, &format!("/v1/approvals?status=all&channel={path}"))
            .await;
        assert!(!list.text.contains("maria@acme.com"), "{}", list.text);
    }
    // The card is not accessible by its id, its agent's name, or the events either.
    let path = format!("/v1/approvals/{}", id(&card));
    assert_eq!(chat.service.get(&token, &path).await.status, 404);
    let withdrawn = chat.service.post(&token, &format!("{path}/withdraw"), "{}").await;
    assert_eq!(withdrawn.status, 404, "{}", withdrawn.text);
    let undo = format!("/v1/calls/{}.1/undo", id(&card));
    assert_eq!(chat.service.post(&token, &undo, "{}").await.status, 404);
    for query in [
        "?status=all",
        "?status=all&agentName=crm",
        "?status=all&agentName=served:crm",
        "?agentName=crm",
    ] {
        let list = chat.service.get(&token, &format!("/v1/approvals{query}")).await;
        assert!(!list.text.contains("maria@acme.com"), "{query}: {}", list.text);
    }
    // Her card is unchanged, and her yes runs only that.
    let reader = chat.service.decider("ana").await;
    let now = chat.service.get(&reader, &path).await.good();
    assert_eq!(now["status"], "pending", "{now}");
    let done = chat.answers("yes", held.get("held")).await;
    assert_eq!(done.get("decided")["approval"]["id"], card["id"]);
    assert_eq!(chat.contacts().await, 1);
    let found = chat
        .say(json!({ "session": "other", "text": "find mallory" }))
        .await;
    assert!(!found.text().contains("evil.test"), "{}", found.text());
}

/// The token's own proposals cannot be mistaken for the served agent's.
#[tokio::test]
async fn x97_both_agents_are_told_apart() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    let token = chat.service.agent("crm").await;
    let own = chat
        .service
        .propose(&token, "create_contact", r#"{"name":"Ben"}"#)
        .await;
    assert_ne!(own["agentName"], held.get("held")["approval"]["agentName"]);
    // Idempotency keys and counts of pending approvals are separate.
    assert_eq!(own["agentName"], "crm");
    let reader = chat.service.decider("ana").await;
    let named = held.get("held")["approval"]["agentName"]
        .as_str()
        .unwrap()
        .to_owned();
    let found = chat
        .service
        .get(&reader, &format!("/v1/approvals?agentName={named}"))
        .await
        .good();
    assert_eq!(found["approvals"].as_array().unwrap().len(), 1, "{found}");
}

/// Adapters that pass on chat messages can neither speak in a talk nor press its buttons.
#[tokio::test]
async fn x97_who_passes_replies_on_does_not_reach_a_talk() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    let card = held.get("held").clone();
    let adapter = chat.service.with_scope("main", Scope::Reply).await;
    let theirs = card["approval"]["channel"].as_str().unwrap();
    for channel in [theirs, "crm/s/ana"] {
        let path = format!("/v1/channels/{}", channel.replace('/', "%2F"));
        let reply = json!({ "sender": "ana", "text": "yes", "messageId": "m1", "after": card["card"] });
        chat.service
            .post(&adapter, &format!("{path}/replies"), &reply.to_string())
            .await;
        let shown = json!({ "messageId": "m2", "digest": card["approval"]["digest"] });
        chat.service
            .post(&adapter, &format!("{path}/shown"), &shown.to_string())
            .await;
        let reply = json!({ "sender": "ana", "text": "yes", "messageId": "m3", "after": "m2" });
        chat.service
            .post(&adapter, &format!("{path}/replies"), &reply.to_string())
            .await;
        let told = chat
            .service
            .ask(request(
                Method::GET,
                &format!("{path}/pending"),
                Some(&adapter),
                "",
            ))
            .await;
        assert!(!told.text.contains("maria@acme.com"), "{}", told.text);
    }
    assert_eq!(
        chat.session().await["pending"]["approval"],
        card["approval"]["id"]
    );
    assert_eq!(chat.contacts().await, 0);
}

/// No token can have a served agent's name as the service writes it.
#[tokio::test]
async fn x97_no_credential_carries_the_services_names() {
    for name in ["served:crm", "Served:crm", "service:inbox", "ｓerved:crm"] {
        assert!(countersign::id::Agent::new(name).is_err(), "{name}");
        let body: Result<countersign_server::access::Token, _> = serde_json::from_value(json!({
            "name": "x", "scopes": ["propose"], "agent": name, "person": Value::Null,
            "created_at": 0, "expires_at": 1,
        }));
        assert!(body.is_err(), "{name}");
    }
}

/// A talk belongs to one account: a later account of the same name gets neither its messages nor its open card.
#[tokio::test]
async fn x67_a_new_account_of_the_same_name_gets_no_old_talk() {
    let mut chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    let card = held.get("held").clone();
    let theirs = id(&card["approval"]);
    let old = chat.token.clone();
    crate::accounts::remove(&chat.service, "ana").await;
    chat.service.person("main", "ana", &["approvers"]).await;
    chat.token = chat.service.with_scope("main", Scope::Chat).await;
    let path = "/v1/agents/crm/sessions/s";
    assert_eq!(chat.service.get(&old, path).await.status, 401);
    for path in [path.to_owned(), format!("{path}/events")] {
        let read = chat.service.get(&chat.token, &path).await;
        assert_eq!(read.status, 404, "{path}: {}", read.text);
    }
    let cookie = crate::accounts::sign_in(&chat.service, "ana").await;
    for said in [
        json!({ "session": "s", "text": "yes", "after": card["card"] }),
        json!({ "session": "s", "text": "yes" }),
        json!({ "session": "s", "button": card["prompt"]["approve"] }),
        json!({ "session": "s", "text": "undo that" }),
    ] {
        let body = said.to_string();
        let answered = chat
            .service
            .post(&chat.token, "/v1/agents/crm/messages", &body)
            .await;
        assert!(!answered.text.contains(&theirs), "{said}: {}", answered.text);
        assert!(
            !answered.text.contains("event: decided"),
            "{said}: {}",
            answered.text
        );
    }
    for path in ["/playground/crm?session=s", "/playground/crm"] {
        let page = crate::accounts::page(&chat.service, &cookie, path).await;
        let page = http_body_util::BodyExt::collect(page.into_body()).await.unwrap();
        let page = String::from_utf8_lossy(&page.to_bytes()).into_owned();
        assert!(!page.contains(&theirs), "{page}");
    }
    assert_eq!(chat.contacts().await, 0, "nothing ran");
    // The new account's own talk works.
    let card = chat.says(MARIA).await.get("held").clone();
    chat.answers("yes", &card).await.get("decided");
    assert_eq!(chat.contacts().await, 1);
}
