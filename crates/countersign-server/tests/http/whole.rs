//! X56: in a chat, a yes or a button counts only for a card of which every call, value and note was delivered.

use std::sync::{Arc, Mutex};

use countersign_server::access::Scope;
use serde_json::{Value, json};

use crate::support::{Service, id};

const POLICY: &str = r#"
[tools.note]
effect = "write"

[tools.send_mail]
effect = "write"
summary = "Send mail to {{ to }}"
secret = ["api_key"]

[tools.get_page]
effect = "read"

[tools.rename_page]
effect = "write"
summary = "Rename a page to {{ title }}"
before = { tool = "get_page", arguments = { id = "{{ args.id }}" } }

[tools.create_contact]
effect = "write"
summary = "Create contact {{ name }}"
undo = { tool = "delete_contact", arguments = { id = "{{ result.id }}" } }

[tools.delete_contact]
effect = "write"
summary = "Delete contact {{ id }}"
"#;

const TOOLS: [&str; 7] = [
    "note",
    "send_mail",
    "get_page",
    "rename_page",
    "create_contact",
    "delete_contact",
    // Not in the policy.
    "wipe",
];

struct Chat {
    service: Service,
    agent: String,
    adapter: String,
    ana: String,
    journal: Arc<Mutex<Vec<String>>>,
}

impl Chat {
    async fn new() -> Chat {
        let (service, journal) = Service::noting(POLICY, &TOOLS).await;
        Chat {
            agent: service.agent("crm").await,
            adapter: service.with_scope("main", Scope::Reply).await,
            ana: service.decider("ana").await,
            service,
            journal,
        }
    }

    async fn propose(&self, calls: &Value) -> Value {
        let body = json!({ "calls": calls, "channel": "chat" }).to_string();
        self.service.post(&self.agent, "/v1/calls", &body).await.good()["approval"].clone()
    }

    async fn pending(&self, query: &str) -> Value {
        let path = format!("/v1/channels/chat/pending{query}");
        self.service.get(&self.adapter, &path).await.good()["pending"].clone()
    }

    /// Reports to the service that the card was posted, as an adapter does.
    async fn post(&self, card: &Value) {
        let shown = json!({ "messageId": "card", "digest": card["digest"] }).to_string();
        let path = "/v1/channels/chat/shown";
        self.service.post(&self.adapter, path, &shown).await.good();
    }

    async fn say(&self, text: &str, number: u32) -> Value {
        let body =
            json!({ "text": text, "sender": "ana", "messageId": format!("m{number}"), "after": "card" });
        let path = "/v1/channels/chat/replies";
        self.service
            .post(&self.adapter, path, &body.to_string())
            .await
            .good()
    }

    fn ran(&self) -> usize {
        self.journal.lock().unwrap().len()
    }

    async fn state(&self, approval: &Value) -> Value {
        let path = format!("/v1/approvals/{}", id(approval));
        self.service.get(&self.ana, &path).await.good()["status"].clone()
    }
}

/// Checks a card that does not fit: it says so and offers no approve button, a yes decides nothing and names the page,
/// and there the approval can be approved.
async fn check_too_long(calls: &Value, count: usize) {
    let chat = Chat::new().await;
    let approval = chat.propose(calls).await;
    let before = chat.ran();
    let card = chat.pending("").await;
    let text = card["text"].as_str().unwrap();
    assert!(text.encode_utf16().count() <= 4000, "{}", text.len());
    assert!(text.contains("cannot be approved here"), "{text}");
    let place = format!("https://gate.example/approvals/{}", id(&approval));
    assert!(text.contains(&place), "{text}");
    assert_eq!((&card["whole"], &card["digest"]), (&json!(false), &Value::Null));
    assert_eq!(card.get("approve"), None);
    chat.post(&card).await;
    for (number, yes) in [
        "yes",
        "yes please",
        "yes, approve",
        "sí",
        "do it",
        "yes to the first",
    ]
    .into_iter()
    .enumerate()
    {
        let said = chat.say(yes, number as u32).await;
        if said["happened"] == "cancelled" {
            // The reply was not read as an answer; nothing ran either.
            break;
        }
        assert_eq!(said["happened"], "incomplete", "{yes}: {said}");
        assert!(said["say"].as_str().unwrap().contains(&place), "{said}");
        assert_eq!(chat.state(&approval).await, "pending");
    }
    assert_eq!(chat.ran(), before);

    let approval = chat.propose(calls).await;
    let (before, card) = (chat.ran(), chat.pending("").await);
    chat.post(&card).await;
    assert_eq!(chat.say("yes", 20).await["happened"], "incomplete");
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
    let digest = approval["digest"].as_str().unwrap();
    let body = json!({ "approved": true, "digest": digest }).to_string();
    let approved = chat.service.post(&chat.ana, &path, &body).await.good();
    assert_eq!(approved["status"], "approved");
    assert_eq!(chat.ran() - before, count, "elsewhere it can be approved");

    let approval = chat.propose(calls).await;
    let (before, card) = (chat.ran(), chat.pending("").await);
    chat.post(&card).await;
    assert_eq!(
        chat.say("no", 21).await["happened"],
        "denied",
        "a no is never too little"
    );
    assert_eq!(
        (chat.ran(), chat.state(&approval).await),
        (before, json!("denied"))
    );
    let approval = chat.propose(calls).await;
    let deny = json!({ "payload": chat.pending("").await["deny"], "sender": "ana" }).to_string();
    let path = "/v1/channels/chat/buttons";
    chat.service.post(&chat.adapter, path, &deny).await.good();
    assert_eq!(chat.state(&approval).await, "denied");
}

/// Checks a card that fits: its text contains everything, and both a reply and a button run the calls.
async fn check_whole(calls: &Value, expected: &[&str]) -> String {
    let chat = Chat::new().await;
    let mut runs = 0;
    for by_button in [false, true] {
        chat.propose(calls).await;
        let before = chat.ran();
        let card = chat.pending("").await;
        let text = card["text"].as_str().unwrap().to_owned();
        for part in expected {
            assert!(text.contains(part), "`{part}` is missing from:\n{text}");
        }
        assert_eq!(card["whole"], true, "{text}");
        chat.post(&card).await;
        let said = match by_button {
            true => {
                let press = json!({ "payload": card["approve"], "sender": "ana" }).to_string();
                let path = "/v1/channels/chat/buttons";
                chat.service.post(&chat.adapter, path, &press).await.good()
            }
            false => chat.say("yes", 1).await,
        };
        assert_eq!(said["happened"], "approved", "{said}");
        assert!(chat.ran() > before);
        runs += 1;
        if runs == 2 {
            return text;
        }
    }
    unreachable!()
}

fn notes(count: usize, filler: &str) -> Value {
    let call = |n: usize| json!({ "tool": "note", "arguments": { "n": n, "text": filler } });
    (1..=count).map(call).collect()
}

#[tokio::test]
async fn x56_a_hundred_calls_are_all_shown_or_none_is_approved() {
    check_too_long(&notes(100, &"x".repeat(60)), 100).await;
    // Forty short calls fit, with the bad one among them.
    let mut calls = notes(40, "hello");
    calls[33] = json!({ "tool": "send_mail", "arguments": { "to": "evil@example.com" } });
    check_whole(
        &calls,
        &["40. note: n 40, text hello", "34. Send mail to evil@example.com"],
    )
    .await;
}

#[tokio::test]
async fn x56_a_long_value_is_shown_to_its_end_or_not_approved() {
    let text = format!("{}; rm -rf /", "a".repeat(150));
    let call = json!([{ "tool": "note", "arguments": { "text": text } }]);
    check_whole(&call, &[&format!("/text: {text}")]).await;
    let hidden = format!("hello{}rm -rf /", " ".repeat(4000));
    let call = json!([{ "tool": "send_mail", "arguments": { "to": hidden } }]);
    check_whole(&call, &["hello\\u{20×4000}rm -rf /"]).await;
    for tail in ["; rm -rf /", ""] {
        let long = format!("{}{tail}", "ab ".repeat(5461));
        check_too_long(&json!([{ "tool": "note", "arguments": { "text": long } }]), 1).await;
    }
    // The length is counted as the chat does, in UTF-16 units.
    let astral = "🙂".repeat(1900);
    check_too_long(&json!([{ "tool": "note", "arguments": { "text": astral } }]), 1).await;
}

#[tokio::test]
async fn x56_values_that_the_sentence_leaves_out_stand_below_it() {
    let call = json!([{ "tool": "send_mail", "arguments": {
        "to": "ana@acme.com", "bcc": "evil@example.com", "to2": ["a", "b"], "dry_run": false, "api_key": "hunter2",
    } }]);
    let text = check_whole(
        &call,
        &[
            "Send mail to ana@acme.com\n",
            "/bcc: evil@example.com\n",
            "/to2/0-1: [a, b]\n",
            "/dry_run: false\n",
            "/api_key: (hidden, 7 bytes, hash ",
        ],
    )
    .await;
    assert!(!text.contains("hunter2") && !text.contains("/to: "), "{text}");
    // A value counts as shown only by itself, not because another one is equal.
    let twice = json!([{ "tool": "send_mail", "arguments": { "to": "x@y.z", "bcc": "x@y.z" } }]);
    check_whole(&twice, &["Send mail to x@y.z\n/bcc: x@y.z\n"]).await;
}

#[tokio::test]
async fn x56_notes_warnings_second_looks_and_what_is_there_now_are_delivered() {
    let call = json!([{ "tool": "wipe", "arguments": { "disk": "p\u{430}ypal.com" } }]);
    check_whole(
        &call,
        &[
            "note: not in the policy: treated as destructive\n",
            "warning: /disk ",
        ],
    )
    .await;
    let chat = Chat::new().await;
    chat.propose(&json!([{ "tool": "create_contact", "arguments": { "name": "Maria" } }]))
        .await;
    chat.propose(&call).await;
    let text = chat.pending("").await["text"].to_string();
    assert!(
        text.contains("look twice: this agent never asked for this tool before"),
        "{text}"
    );
    let call = json!([{ "tool": "rename_page", "arguments": { "id": 7, "title": "New" } }]);
    let now = r#"there now, as get_page read it: {"id":"*","title":"Old"}"#;
    check_whole(&call, &["Rename a page to New\n/id: 7\n", now]).await;
}

#[tokio::test]
async fn x56_a_chat_with_shorter_messages_says_so() {
    let chat = Chat::new().await;
    chat.propose(&notes(10, "hello hello hello hello hello hello"))
        .await;
    assert_eq!(chat.pending("").await["whole"], true);
    let short = chat.pending("?limit=500").await;
    assert!(short["text"].as_str().unwrap().encode_utf16().count() <= 500);
    assert_eq!((&short["whole"], &short["digest"]), (&json!(false), &Value::Null));
    // Without a digest to report, a yes after the adapter's message finds no card.
    chat.post(&short).await;
    assert_eq!(chat.say("yes", 1).await["happened"], "show_again");
    assert_eq!(chat.ran(), 0);
    let path = "/v1/channels/chat/pending?limit=10";
    assert_eq!(chat.service.get(&chat.adapter, path).await.status, 400);
}

#[tokio::test]
async fn x103_an_undo_says_that_its_value_is_the_tools() {
    let chat = Chat::new().await;
    let call = json!([{ "tool": "create_contact", "arguments": { "name": "Maria" } }]);
    let done = chat.propose(&call).await;
    chat.post(&chat.pending("").await).await;
    assert_eq!(chat.say("yes", 1).await["happened"], "approved");
    let path = format!("/v1/calls/{}.1/undo", id(&done));
    let undo = chat
        .service
        .post(&chat.agent, &path, r#"{"channel":"chat"}"#)
        .await;
    let undo = undo.good();
    let marks = &undo["calls"][0]["provenance"];
    assert_eq!(marks["leaves"][0]["mark"], "tool:create_contact", "{marks}");
    let text = chat.pending("").await["text"].as_str().unwrap().to_owned();
    assert!(text.contains("[from a tool] /id: *\n"), "{text}");
    assert!(
        text.contains("1 of 1 value was not given by you: 1 from tools\n"),
        "{text}"
    );
}

/// X16: a card warns of text that looks like another address, or that is not what it seems.
#[tokio::test]
async fn x16_a_card_says_what_the_eye_misses() {
    let values = json!({
        "host": "https://\u{430}\u{440}\u{440}\u{4cf}\u{435}.com/a",
        "slash": "acme.com\u{2215}evil.net",
        "dot": "ann@acme\u{3002}com",
        "first": "caf\u{e9}",
        "second": "cafe\u{301}",
        "order": "\u{5e9}\u{5dc}\u{5d5}\u{5dd} 100",
        "cafe\u{301}": 1,
    });
    let call = json!([{ "tool": "note", "arguments": values }]);
    let text = check_whole(
        &call,
        &[
            "warning: /host the host `\u{430}\u{440}\u{440}\u{4cf}\u{435}.com` looks like `apple.com` and is another one, \
             `xn--80ak6aa92e.com`",
            "warning: /slash has a character in `acme.com\u{2215}evil.net` that looks like a dot or a slash and is none (U+2215)",
            "warning: /dot has a character in `ann@acme\u{3002}com` that looks like a dot or a slash and is none (U+3002)",
            "warning: /second writes `cafe\u{301}` with separate accents",
            "warning: /order has text from right to left beside digits",
            "warning: /cafe\u{301} writes `cafe\u{301}` with separate accents",
        ],
    )
    .await;
    assert!(!text.contains("warning: /first"), "{text}");
}
