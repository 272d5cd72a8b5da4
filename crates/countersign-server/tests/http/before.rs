//! Tests over HTTP: what a call would change, how a person edited it, and concerns.

use countersign_server::access::Scope;
use serde_json::{Value, json};

use crate::support::{Service, id};

const RENAME: &str = r#"{"id":"p1","title":"New","token":"canary-1"}"#;

fn call(approval: &Value) -> &Value {
    &approval["calls"][0]
}

#[tokio::test]
async fn x22_an_approval_shows_what_would_change() {
    let service = Service::new().await;
    let agent = service.agent("cms").await;
    let approval = service.propose(&agent, "rename_page", RENAME).await;
    let path = format!("/v1/approvals/{}", id(&approval));
    let shown = service.get(&agent, &path).await.good();
    assert_eq!(shown["description"], "Rename Old to New");
    let before = &call(&shown)["before"];
    let hash = before["hash"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    assert_eq!(
        *before,
        json!({
            "tool": "get_page",
            "hash": hash,
            "bytes": 32,
            "result": { "title": "Old", "sections": [1, 2] },
            "changes": [{ "pointer": "/title", "was": "Old", "is": "New" }],
        })
    );
    assert_eq!(call(&shown).get("edits"), None);
    // A list contains the same.
    let listed = service.get(&agent, "/v1/approvals").await.good();
    assert_eq!(call(&listed["approvals"][0])["before"], *before);
}

#[tokio::test]
async fn x22_a_snapshot_with_a_secret_is_not_given_out() {
    let service = Service::new().await;
    *service.page.lock().unwrap() = r#"{"title":"Old","token":"canary-2"}"#.to_owned();
    let agent = service.agent("cms").await;
    let approval = service.propose(&agent, "rename_page", RENAME).await;
    let shown = service
        .get(&agent, &format!("/v1/approvals/{}?events=true", id(&approval)))
        .await;
    assert!(!shown.text.contains("canary"), "{}", shown.text);
    let shown = shown.good();
    let before = &call(&shown)["before"];
    assert_eq!(before.get("result"), None);
    assert_eq!(
        before["changes"],
        json!([
            { "pointer": "/title", "was": "Old", "is": "New" },
            { "pointer": "/token", "was": "hidden", "is": "hidden" },
        ])
    );
}

#[tokio::test]
async fn a16_what_was_edited_is_shown_value_by_value() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("cms").await, service.decider("ana").await);
    let approval = service.propose(&agent, "rename_page", RENAME).await;
    let path = format!("/v1/approvals/{}", id(&approval));
    let edit =
        r#"{"approved":true,"calls":[{"approved":true,"arguments":{"id":"p1","title":"Newer","slug":"n"}}]}"#;
    let decided = service.post(&ana, &path, edit).await;
    assert!(!decided.text.contains("canary"), "{}", decided.text);
    let decided = decided.good();
    let edits = json!([
        { "pointer": "/title", "was": "New", "is": "Newer" },
        { "pointer": "/slug", "was": null, "is": "n" },
        { "pointer": "/token", "was": "hidden", "is": null },
    ]);
    assert_eq!(call(&decided)["edits"], edits);
    assert_eq!(call(&decided)["edited"], true);
    assert_eq!(call(&decided)["before"]["changes"][0]["is"], "Newer");
    assert_eq!(call(&service.get(&agent, &path).await.good())["edits"], edits);
}

/// A host that starts a call itself is refused, too, and finds the approval that replaces the changed one.
#[tokio::test]
async fn x22_a_host_cannot_start_what_has_changed() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("cms").await, service.decider("ana").await);
    let host = service.with_scope("main", Scope::Execute).await;
    let approval = service.propose(&agent, "rename_page", RENAME).await;
    let path = format!("/v1/approvals/{}", id(&approval));
    service.post(&ana, &path, r#"{"approved":true}"#).await.good();
    *service.page.lock().unwrap() = r#"{"title":"Other","sections":[]}"#.to_owned();
    let start = format!("/v1/calls/{}.1/start", id(&approval));
    let refused = service.post(&host, &start, "{}").await;
    assert_eq!(refused.error(), (409, "not_as_shown".to_owned()));
    let error = &refused.json()["error"];
    let again = error["proposedAgain"].as_str().unwrap();
    let successor = service
        .get(&agent, &format!("/v1/approvals/{again}"))
        .await
        .good();
    assert_eq!(
        (
            &successor["status"],
            &successor["description"],
            &successor["replaces"]
        ),
        (
            &json!("pending"),
            &json!("Rename Other to New"),
            &json!(id(&approval))
        )
    );
    let old = service.get(&agent, &path).await.good();
    assert_eq!(
        (&call(&old)["state"], &call(&old)["because"]),
        (
            &json!("refused"),
            &json!("what it would change has changed since it was shown")
        )
    );
    let twice = service.post(&host, &start, "{}").await;
    assert_eq!(twice.error(), (409, "wrong_state".to_owned()));
}

/// Lists contain concerns only on request, because they require reading each agent's history.
#[tokio::test]
async fn x11_a_list_says_what_deserves_a_second_look_when_asked() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let denied = service.propose(&agent, "echo", r#"{"n":1}"#).await;
    let path = format!("/v1/approvals/{}", id(&denied));
    service.post(&ana, &path, r#"{"approved":false}"#).await.good();
    for tool in ["refund", "create_contact"] {
        service.propose(&agent, tool, r#"{"amount":1}"#).await;
    }
    let plain = service.get(&agent, "/v1/approvals").await.good();
    let listed = service
        .get(&agent, "/v1/approvals?concerns=true&status=all")
        .await;
    let listed = listed.good();
    let concerns = |page: &Value| -> Vec<Value> {
        let approvals = page["approvals"].as_array().unwrap().iter();
        approvals
            .map(|approval| call(approval)["concerns"].clone())
            .collect()
    };
    assert_eq!(concerns(&plain), [Value::Null, Value::Null]);
    let first = json!(["this agent never asked for this tool before"]);
    // Newest first; a decided approval has no concerns.
    assert_eq!(concerns(&listed), [first.clone(), first, Value::Null]);
    for approval in plain["approvals"].as_array().unwrap() {
        let path = format!("/v1/approvals/{}?concerns=true", id(approval));
        let alone = service.get(&agent, &path).await.good();
        let listed = listed["approvals"].as_array().unwrap().iter();
        let same = listed.into_iter().find(|other| other["id"] == approval["id"]);
        assert_eq!(call(same.unwrap())["concerns"], call(&alone)["concerns"]);
    }
}

/// Everything is new for an agent without a history, and an undo is made by the policy, not by the agent.
#[tokio::test]
async fn x11_neither_the_first_call_of_all_nor_an_undo_is_a_first_use() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let host = service.with_scope("main", Scope::Execute).await;
    let concerns = async |approval: &Value| {
        let path = format!("/v1/approvals/{}?concerns=true", id(approval));
        call(&service.get(&ana, &path).await.good())["concerns"].clone()
    };
    let first_use = json!(["this agent never asked for this tool before"]);
    let first = service
        .propose(&agent, "create_contact", r#"{"name":"Maria"}"#)
        .await;
    assert_eq!(concerns(&first).await, Value::Null);
    let path = format!("/v1/approvals/{}", id(&first));
    service.post(&ana, &path, r#"{"approved":true}"#).await.good();
    let path = format!("/v1/calls/{}.1", id(&first));
    let permit = service.post(&host, &format!("{path}/start"), "").await.good();
    let done = json!({ "permit": permit["permit"], "outcome": "succeeded", "result": { "id": 7 } });
    service
        .post(&host, &format!("{path}/finish"), &done.to_string())
        .await
        .good();
    let undo = service.post(&agent, &format!("{path}/undo"), "{}").await.good();
    assert_eq!(call(&undo)["tool"], "delete_contact");
    assert_eq!(concerns(&undo).await, Value::Null);
    // The agent's own request is still its first.
    let own = service.propose(&agent, "delete_contact", r#"{"id":"c-9"}"#).await;
    assert_eq!(concerns(&own).await, first_use);
    let other = service.agent("cms").await;
    let first = service.propose(&other, "refund", r#"{"amount":1}"#).await;
    assert_eq!(
        concerns(&first).await,
        Value::Null,
        "agents do not share a history"
    );
}

/// A snapshot is of what the call names: a value that is copied into the read is the same to the byte.
#[tokio::test]
async fn x22_a_number_is_read_as_it_was_written() {
    let policy = r#"
        [tools.get_page]
        effect = "read"

        [tools.rename_page]
        effect = "write"
        before = { tool = "get_page", arguments = { id = "{{ args.id }}", path = "/pages/{{ args.id }}", all = "{{ args }}" } }
        undo = { tool = "restore_page", arguments = { id = "{{ args.id }}", first = "{{ args.list[0] }}", key = "{{ args['to-do'].n }}" } }

        [tools.restore_page]
        effect = "write"
    "#;
    for id_of in [
        "1E3",
        "1e3",
        "1000.0",
        "-0",
        "1.50",
        "123456789012345678901234567890123456789012345678901",
        "0.1000000000000000000000000001",
        "\"\\u0041\"",
    ] {
        let (service, journal) = Service::noting(policy, &["get_page", "rename_page", "restore_page"]).await;
        let (agent, ana) = (service.agent("cms").await, service.decider("ana").await);
        let arguments = format!(r#"{{"id":{id_of}, "list":[{id_of}], "to-do":{{"n":{id_of}}}}}"#);
        // Sent as text: a JSON library would write the numbers anew.
        let body = format!(r#"{{"calls":[{{"tool":"rename_page","arguments":{arguments}}}]}}"#);
        let proposed = service.post(&agent, "/v1/calls", &body).await.good();
        let text = match id_of.starts_with('"') {
            true => "A",
            false => id_of,
        };
        let read = format!(r#"{{"all":{arguments},"id":{id_of},"path":"/pages/{text}"}}"#);
        assert_eq!(
            *journal.lock().unwrap(),
            std::slice::from_ref(&read),
            "{proposed}"
        );
        let approval = &proposed["approval"];
        let path = format!("/v1/approvals/{}?waitFor=finished", id(approval));
        service.post(&ana, &path, r#"{"approved":true}"#).await.good();
        let undo = format!("/v1/calls/{}.1/undo", id(approval));
        let undo = service.post(&agent, &undo, "{}").await.good();
        let path = format!("/v1/approvals/{}?waitFor=finished", id(&undo));
        service.post(&ana, &path, r#"{"approved":true}"#).await.good();
        let undone = format!(r#"{{"first":{id_of},"id":{id_of},"key":{id_of}}}"#);
        assert_eq!(
            *journal.lock().unwrap(),
            [read.clone(), read, arguments, undone],
            "{id_of}"
        );
    }
}
