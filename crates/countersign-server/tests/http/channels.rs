//! Tests `/v1/channels`: a chat's dialogue over HTTP.

use std::sync::{Arc, Mutex};

use axum::http::Method;
use countersign_server::access::Scope;
use serde_json::{Value, json};

use crate::support::{Service, id, request};

struct Chat {
    service: Service,
    agent: String,
    adapter: String,
}

impl Chat {
    async fn new() -> Chat {
        let service = Service::new().await;
        let agent = service.agent("crm").await;
        let adapter = service.with_scope("main", Scope::Reply).await;
        Chat {
            service,
            agent,
            adapter,
        }
    }

    /// Proposes a call in the channel and posts its card as message `card`.
    async fn ask(&self, tool: &str, arguments: &str, card: &str) -> Value {
        let body = format!(r#"{{"calls":[{{"tool":"{tool}","arguments":{arguments}}}],"channel":"chat"}}"#);
        let approval = self.service.post(&self.agent, "/v1/calls", &body).await.good()["approval"].clone();
        let pending = self
            .service
            .get(&self.adapter, "/v1/channels/chat/pending")
            .await
            .good();
        let digest = pending["pending"]["digest"].as_str().unwrap();
        let shown = json!({ "messageId": card, "digest": digest }).to_string();
        let shown = self
            .service
            .post(&self.adapter, "/v1/channels/chat/shown", &shown)
            .await
            .good();
        assert_eq!(shown["pending"]["approval"], approval["id"]);
        approval
    }

    async fn say(&self, sender: &str, text: &str, number: u32, after: &str) -> Value {
        let body =
            json!({ "text": text, "sender": sender, "messageId": format!("m{number}"), "after": after });
        let path = "/v1/channels/chat/replies";
        self.service
            .post(&self.adapter, path, &body.to_string())
            .await
            .good()
    }
}

#[tokio::test]
async fn a7_yes_runs_no_cancels_and_anything_else_goes_on() {
    let chat = Chat::new().await;
    chat.ask("echo", r#"{"n":1}"#, "card1").await;
    let yes = chat.say("ana", "yes please", 1, "card1").await;
    assert_eq!(
        (&yes["reading"], &yes["happened"]),
        (&json!("yes"), &json!("approved"))
    );
    assert_eq!(yes["approval"]["calls"][0]["state"], "succeeded");
    assert_eq!(yes["goOn"], false);
    assert!(yes["say"].as_str().unwrap().starts_with("Done!"), "{yes}");

    chat.ask("echo", r#"{"n":2}"#, "card2").await;
    let no = chat.say("ana", "no thanks", 2, "card2").await;
    assert_eq!(
        (&no["happened"], &no["say"]),
        (&json!("denied"), &json!("Cancelled."))
    );

    let third = chat.ask("echo", r#"{"n":3}"#, "card3").await;
    let other = chat.say("ana", "what is the weather like?", 3, "card3").await;
    assert_eq!(
        (&other["happened"], &other["goOn"]),
        (&json!("cancelled"), &json!(true))
    );
    let gone = chat
        .service
        .get(&chat.agent, &format!("/v1/approvals/{}", id(&third)))
        .await
        .good();
    assert_eq!(gone["status"], "withdrawn");
    let nothing = chat.say("ana", "yes", 4, "card3").await;
    assert_eq!(
        (&nothing["happened"], &nothing["goOn"]),
        (&json!("nothing"), &json!(true))
    );
}

/// For agents whose loop is their own: a message about the card goes to the agent, and the card stays.
#[tokio::test]
async fn c9_e1_a_message_about_the_card_keeps_it() {
    let chat = Chat::new().await;
    let card = chat.ask("echo", r#"{"amount":12500}"#, "card1").await;
    for (number, text) in (1..).zip([
        "why?",
        "wait",
        "yes, but make it 50",
        "make it 50",
        "the amount is 50",
    ]) {
        let said = chat.say("ana", text, number, "card1").await;
        assert_eq!(
            (&said["happened"], &said["goOn"]),
            (&json!("kept"), &json!(true)),
            "{text}: {said}"
        );
    }
    let now = chat
        .service
        .get(&chat.agent, &format!("/v1/approvals/{}", id(&card)))
        .await
        .good();
    assert_eq!(now["status"], "pending");
    // A destructive card survives one message about something else, and not two.
    chat.ask("delete_contact", r#"{"id":1}"#, "card2").await;
    let first = chat.say("ana", "show me the weather", 11, "card2").await;
    assert_eq!(first["happened"], "kept", "{first}");
    let second = chat.say("ana", "show me the weather", 12, "card2").await;
    assert_eq!(second["happened"], "cancelled", "{second}");
}

#[tokio::test]
async fn x03_a_yes_to_the_card_before_is_shown_the_new_one() {
    let chat = Chat::new().await;
    chat.ask("echo", r#"{"n":1}"#, "card1").await;
    let second = chat.ask("delete_contact", r#"{"id":1}"#, "card2").await;
    let late = chat.say("ana", "yes", 1, "card1").await;
    assert_eq!(late["happened"], "show_again");
    assert_eq!(late["show"]["approval"], second["id"]);
    let approval = chat
        .service
        .get(&chat.agent, &format!("/v1/approvals/{}", id(&second)))
        .await
        .good();
    assert_eq!(approval["status"], "pending");
}

#[tokio::test]
async fn x04_others_edits_and_programs_decide_nothing() {
    let chat = Chat::new().await;
    let approval = chat.ask("echo", r#"{"n":1}"#, "card1").await;
    for sender in ["finn", "a stranger", "approvers"] {
        let said = chat.say(sender, "yes", 1, "card1").await;
        assert_eq!(said["happened"], "nothing", "{sender}");
    }
    for origin in ["edited", "forwarded", "program"] {
        let body = json!({ "text": "yes", "sender": "ana", "messageId": origin, "after": "card1", "origin": origin });
        let path = "/v1/channels/chat/replies";
        let said = chat
            .service
            .post(&chat.adapter, path, &body.to_string())
            .await
            .good();
        assert_eq!(said["happened"], "nothing", "{origin}");
    }
    let path = format!("/v1/approvals/{}", id(&approval));
    assert_eq!(
        chat.service.get(&chat.agent, &path).await.good()["status"],
        "pending"
    );
}

#[tokio::test]
async fn b2_a_button_decides_its_own_card_once() {
    let chat = Chat::new().await;
    chat.ask("echo", r#"{"n":1}"#, "card1").await;
    let card = chat
        .service
        .get(&chat.adapter, "/v1/channels/chat/pending")
        .await
        .good()["pending"]
        .clone();
    assert!(
        !card["text"]
            .as_str()
            .unwrap()
            .contains(card["approval"].as_str().unwrap()),
        "B6"
    );
    let press = |payload: &str, sender: &str| {
        let body = json!({ "payload": payload, "sender": sender }).to_string();
        let (service, adapter) = (&chat.service, &chat.adapter);
        async move { service.post(adapter, "/v1/channels/chat/buttons", &body).await }
    };
    let approve = card["approve"].as_str().unwrap();
    assert_eq!(
        press(approve, "finn").await.error(),
        (403, "not_allowed".to_owned())
    );
    let forged = format!(
        "{}{}",
        &approve[..approve.len() - 1],
        if approve.ends_with('0') { '1' } else { '0' }
    );
    assert_eq!(press(&forged, "ana").await.error(), (409, "stale".to_owned()));
    assert_eq!(press("nonsense", "ana").await.status, 404);
    assert_eq!(press(approve, "ana").await.good()["happened"], "approved");
    assert_eq!(
        press(approve, "ana").await.error(),
        (409, "already_decided".to_owned())
    );
}

#[tokio::test]
async fn b3_b4_the_model_is_told_of_every_call_exactly_once() {
    let chat = Chat::new().await;
    chat.ask("echo", r#"{"n":1}"#, "card1").await;
    chat.say("ana", "yes", 1, "card1").await;
    chat.ask("echo", r#"{"n":2}"#, "card2").await;
    chat.say("ana", "no", 2, "card2").await;
    chat.ask("echo", r#"{"n":3}"#, "card3").await;
    let messages = chat
        .service
        .get(&chat.agent, "/v1/channels/chat/transcript")
        .await
        .good();
    let messages = messages.as_array().unwrap();
    assert_eq!(messages.len(), 6, "three turns of calls, three of results");
    let results: Vec<&Value> = messages
        .iter()
        .skip(1)
        .step_by(2)
        .map(|message| &message["content"][0])
        .collect();
    let words: Vec<String> = results
        .iter()
        .map(|result| {
            let content: Value = serde_json::from_str(result["content"].as_str().unwrap()).unwrap();
            content["status"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(words, ["succeeded", "denied", "pending_confirmation"]);
    assert_eq!(results[1]["is_error"], true);
    let openai = chat
        .service
        .get(&chat.agent, "/v1/channels/chat/transcript?format=openai")
        .await
        .good();
    let roles: Vec<&str> = openai
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        ["assistant", "tool", "assistant", "tool", "assistant", "tool"]
    );
    let other = chat.service.agent("other").await;
    assert_eq!(
        chat.service
            .get(&other, "/v1/channels/chat/transcript")
            .await
            .good(),
        json!([])
    );
    assert_eq!(
        chat.service
            .get(&chat.agent, "/v1/channels/chat/transcript?format=odd")
            .await
            .status,
        400
    );
}

/// "s" is a yes in Spanish only, so it shows in which language a reply was read.
#[tokio::test]
async fn a13_replies_are_read_in_the_language_in_which_the_card_was_fetched() {
    for (fetched, shown, happened) in [
        (Some("es"), None, "approved"),
        (Some("es"), Some("en"), "show_again"),
        (None, Some("es"), "approved"),
        (None, None, "show_again"),
    ] {
        let chat = Chat::new().await;
        let calls = r#"{"calls":[{"tool":"echo","arguments":{"n":1}}],"channel":"chat"}"#;
        chat.service.post(&chat.agent, "/v1/calls", calls).await.good();
        let path = match fetched {
            Some(language) => format!("/v1/channels/chat/pending?language={language}"),
            None => "/v1/channels/chat/pending".to_owned(),
        };
        let card = chat.service.get(&chat.adapter, &path).await.good()["pending"].clone();
        let is_spanish = card["text"].as_str().unwrap().contains("responde");
        assert_eq!(is_spanish, fetched == Some("es"), "{card}");
        let body = json!({ "messageId": "card", "digest": card["digest"], "language": shown }).to_string();
        let posted = chat
            .service
            .post(&chat.adapter, "/v1/channels/chat/shown", &body)
            .await;
        posted.good();
        let said = chat.say("ana", "s", 1, "card").await;
        assert_eq!(said["happened"], happened, "{fetched:?} {shown:?}: {said}");
        if fetched.is_some() && shown.is_none() {
            assert!(said["say"].as_str().unwrap().starts_with("¡Listo!"), "{said}");
        }
    }
}

/// A chat whose tool records its runs, and whose card was posted as message `card` in this language.
async fn recorded(language: Option<&str>) -> (Chat, Value, Arc<Mutex<Vec<String>>>) {
    let policy = "[tools.echo]\neffect = \"write\"\nsummary = \"Echo {{ n }}\"\n";
    let (service, ran) = Service::recording(policy, &["echo"]).await;
    let agent = service.agent("crm").await;
    let adapter = service.with_scope("main", Scope::Reply).await;
    let chat = Chat {
        service,
        agent,
        adapter,
    };
    let card = chat.card(language).await;
    (chat, card, ran)
}

impl Chat {
    /// Proposes a call and reports its card as message `card`, in this language.
    async fn card(&self, language: Option<&str>) -> Value {
        let calls = r#"{"calls":[{"tool":"echo","arguments":{"n":1}}],"channel":"chat"}"#;
        self.service.post(&self.agent, "/v1/calls", calls).await.good();
        let path = "/v1/channels/chat/pending";
        let card = self.service.get(&self.adapter, path).await.good()["pending"].clone();
        let body = json!({ "messageId": "card", "digest": card["digest"], "language": language }).to_string();
        let path = "/v1/channels/chat/shown";
        self.service.post(&self.adapter, path, &body).await.good()["pending"].clone()
    }

    async fn press(&self, payload: &Value, number: u32) -> Value {
        let body = json!({ "payload": payload, "sender": "ana", "messageId": format!("b{number}") });
        let path = "/v1/channels/chat/buttons";
        self.service
            .post(&self.adapter, path, &body.to_string())
            .await
            .good()
    }
}

/// Compares what an adapter posts and what it knows of the approval, without the times of the responses.
#[track_caller]
fn assert_same_answer(first: &Value, again: &Value) {
    for part in ["happened", "say", "reading", "why"] {
        assert_eq!(first[part], again[part], "{part}: {again}");
    }
    for part in ["id", "status", "state", "calls"] {
        assert_eq!(
            first["approval"][part], again["approval"][part],
            "{part}: {again}"
        );
    }
    assert_eq!(again["goOn"], false, "the agent gets a message once");
}

#[tokio::test]
async fn x13_a_repeated_message_is_answered_as_the_first_time() {
    for (text, happened) in [
        ("yes", "approved"),
        ("no", "denied"),
        ("s", "show_again"),
        ("why?", "kept"),
        ("what is the weather like?", "cancelled"),
    ] {
        let (chat, _, ran) = recorded(None).await;
        let first = chat.say("ana", text, 1, "card").await;
        assert_eq!(first["happened"], happened, "{text}: {first}");
        let again = chat.say("ana", text, 1, "card").await;
        assert_same_answer(&first, &again);
        assert_eq!(first["show"], again["show"], "{text}");
        assert_eq!(
            ran.lock().unwrap().len(),
            usize::from(text == "yes"),
            "{text}: it ran at most once"
        );
        // The answer is posted and another card comes: the old message has no effect on it.
        if happened == "approved" {
            chat.card(None).await;
            let late = chat.say("ana", text, 1, "card").await;
            assert_same_answer(&first, &late);
            let path = "/v1/channels/chat/pending";
            let pending = chat.service.get(&chat.adapter, path).await.good();
            assert!(!pending["pending"].is_null(), "the new card still waits");
            assert_eq!(ran.lock().unwrap().len(), 1);
        }
    }
    // A message that is delivered again after much talk does not decide another card either.
    let (chat, _, ran) = recorded(None).await;
    chat.say("ana", "yes", 1, "card").await;
    chat.card(None).await;
    for number in 100..200 {
        chat.say("ana", "why?", number, "card").await;
    }
    let late = chat.say("ana", "yes", 1, "card").await;
    assert_eq!(late["happened"], "nothing", "{late}");
    assert_eq!(ran.lock().unwrap().len(), 1, "the new card still waits");
    // Somebody else under the same id learns nothing of the approval.
    let (chat, _, _) = recorded(None).await;
    chat.say("ana", "yes", 1, "card").await;
    let other = chat.say("telegram:666", "yes", 1, "card").await;
    assert_eq!(
        (&other["happened"], &other["approval"]),
        (&json!("nothing"), &Value::Null)
    );
}

#[tokio::test]
async fn x13_a_repeated_press_is_answered_as_the_first_time() {
    let (chat, card, ran) = recorded(None).await;
    let first = chat.press(&card["approve"], 1).await;
    assert_eq!(
        (&first["happened"], &first["say"]),
        (&json!("approved"), &json!("Done! Echo 1"))
    );
    let again = chat.press(&card["approve"], 1).await;
    assert_same_answer(&first, &again);
    assert_eq!(ran.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a13_a_button_answers_in_the_language_of_its_card() {
    for (language, say) in [(Some("es"), "¡Listo! Echo 1"), (None, "Done! Echo 1")] {
        let (chat, card, _) = recorded(language).await;
        let is_spanish = card["text"].as_str().unwrap().contains("responde");
        assert_eq!(is_spanish, language == Some("es"), "{card}");
        assert_eq!(chat.press(&card["approve"], 1).await["say"], say);
    }
    // The card has the same language after another message.
    let (chat, card, _) = recorded(Some("es")).await;
    let said = r#"{"messageId":"chatter"}"#;
    chat.service
        .post(&chat.adapter, "/v1/channels/chat/shown", said)
        .await
        .good();
    assert_eq!(chat.press(&card["deny"], 1).await["say"], "Cancelado.");
}

#[tokio::test]
async fn a13_a_card_is_in_the_language_of_the_request() {
    for (path, header, is_spanish) in [
        ("/v1/channels/chat/pending", Some("es-UY,en;q=0.5"), true),
        ("/v1/channels/chat/pending", Some("en, es;q=0.5"), false),
        ("/v1/channels/chat/pending", Some("*"), false),
        ("/v1/channels/chat/pending", None, false),
        ("/v1/channels/chat/pending?language=en", Some("es"), false),
    ] {
        let (chat, _, _) = recorded(None).await;
        let mut asked = request(Method::GET, path, Some(&chat.adapter), "");
        if let Some(header) = header {
            let headers = asked.headers_mut();
            headers.insert("accept-language", header.parse().unwrap());
        }
        let card = chat.service.ask(asked).await.good()["pending"].clone();
        let text = card["text"].as_str().unwrap();
        assert_eq!(text.contains("responde"), is_spanish, "{header:?}: {text}");
    }
}
