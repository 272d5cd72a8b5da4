//! Tests talks with a served agent, the scripted CRM agent, event by event.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use countersign::store::memory::MemoryStore;
use countersign::time::{ManualClock, Time};
use countersign_examples::{World, crm};
use countersign_http_client::events::{Event, EventReader};
use countersign_server::access::Scope;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::support::{NEW_YEAR, Service, request};

pub const MARIA: &str = "Create a contact for Maria Garcia at Acme Corp, maria@acme.com";

/// Maximum wait for a message.
const PATIENCE: Duration = Duration::from_secs(20);

/// A service and a token with which `ana` talks to its agent.
pub struct Chat {
    pub service: Service,
    pub token: String,
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
    world: World,
}

impl Chat {
    pub async fn new() -> Chat {
        let clock = Arc::new(ManualClock::at(Time::from_micros(NEW_YEAR)));
        let store = Arc::new(MemoryStore::with_clock(clock.clone()));
        let world = World::in_memory(&crm::SETUP).unwrap();
        let service = Service::talking(&clock, &store, &world).await;
        Chat {
            token: service.with_scope("main", Scope::Chat).await,
            service,
            clock,
            store,
            world,
        }
    }

    /// Restarts the service: its memory is lost, the store and the world are kept.
    pub async fn restarted(self) -> Chat {
        self.service.app.stopping.cancel();
        let service = Service::talking(&self.clock, &self.store, &self.world).await;
        Chat { service, ..self }
    }

    pub async fn say(&self, body: Value) -> Frames {
        self.say_to("/v1/agents/crm/messages", body).await
    }

    pub async fn say_to(&self, path: &str, body: Value) -> Frames {
        let body = body.to_string();
        let answered = self.service.post(&self.token, path, &body).await;
        assert_eq!(answered.status, 200, "{}", answered.text);
        assert_eq!(answered.headers["content-type"], "text/event-stream");
        Frames::read(&answered.text)
    }

    pub async fn says(&self, text: &str) -> Frames {
        self.say(json!({ "session": "s", "text": text })).await
    }

    /// Sends a reply that refers to this card.
    pub async fn answers(&self, text: &str, card: &Value) -> Frames {
        self.say(json!({ "session": "s", "text": text, "after": card["card"] }))
            .await
    }

    pub async fn session(&self) -> Value {
        self.service
            .get(&self.token, "/v1/agents/crm/sessions/s")
            .await
            .good()
    }

    /// Waits until the last message of the session contains `expected`.
    async fn until_said(&self, expected: &str) {
        let begin = std::time::Instant::now();
        loop {
            let session = self.session().await;
            let last = session["messages"].as_array().unwrap().last().unwrap().clone();
            if last["text"].as_str().is_some_and(|text| text.contains(expected)) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "never said: {expected}; {session}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn contacts(&self) -> usize {
        let frames = self
            .say(json!({ "session": "other", "text": "find maria" }))
            .await;
        frames.text().matches("Maria Garcia").count()
    }
}

/// Parsed server-sent events: name and data of each.
pub struct Frames(Vec<(String, Value)>);

impl Frames {
    pub fn read(text: &str) -> Frames {
        let mut events = EventReader::new(text.len());
        events.push(text.as_bytes());
        let frame = |event: Event| {
            let name = String::from_utf8(event.name.unwrap().into()).unwrap();
            (name, serde_json::from_slice(&event.data.unwrap()).unwrap())
        };
        Frames(
            std::iter::from_fn(|| events.next_event().unwrap())
                .map(frame)
                .collect(),
        )
    }

    pub fn get(&self, event: &str) -> &Value {
        let found = self.0.iter().find(|(name, _)| name == event);
        &found.unwrap_or_else(|| panic!("no `{event}`: {}", self.show())).1
    }

    pub fn text(&self) -> String {
        let texts = self.0.iter().filter(|(name, _)| name == "text");
        texts.map(|(_, data)| data["text"].as_str().unwrap()).collect()
    }

    /// Prints one event per line for snapshots: with stable ids, streamed text joined, and only the relevant fields of
    /// approvals.
    fn show(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        let mut said = String::new();
        let mut pieces = 0;
        for (event, data) in &self.0 {
            if event == "text" {
                said.push_str(data["text"].as_str().unwrap());
                pieces += 1;
                continue;
            }
            if pieces > 0 {
                lines.push(format!("text x{pieces} {:?}", std::mem::take(&mut said)));
                pieces = 0;
            }
            let mut data = data.clone();
            if let Some(approval) = data.get("approval") {
                let kept = ["status", "description", "toolName", "decidedBy", "decidedOn"];
                let kept = kept.iter().filter(|name| !approval[**name].is_null());
                data["approval"] = kept
                    .map(|name| ((*name).to_owned(), approval[*name].clone()))
                    .collect();
            }
            lines.push(format!("{event} {data}"));
        }
        let shown = lines.join("\n");
        let is_id = |word: &str| {
            word.len() >= 24
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit() || b"-_.".contains(&byte))
        };
        let parts = shown.split_inclusive(['"', ' ']).map(|part| {
            let word = part.trim_end_matches(['"', ' ']);
            let (prefix, rest) = match word.strip_prefix("card-") {
                Some(rest) => ("card-", rest),
                None => match word.strip_prefix("call_") {
                    Some(rest) => ("call_", rest),
                    None => ("", word),
                },
            };
            match is_id(rest) {
                true => format!("{prefix}[id]{}", &part[word.len()..]),
                false => part.to_owned(),
            }
        });
        parts.collect()
    }
}

#[tokio::test]
async fn d8_c6_a_held_call_and_a_yes_frame_by_frame() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    insta::assert_snapshot!(held.show(), @r##"
    session {"agent":"crm","session":"s"}
    routed {"specialist":"contacts"}
    tool {"id":"script_1_1","tool":"create_contact"}
    result {"content":"{\"status\":\"pending_confirmation\",\"ran\":false,\"message\":\"This action requires confirmation: Create contact Maria Garcia, maria@acme.com, Acme Corp. A person has been asked. It has not run.\"}","id":"script_1_1","isError":false,"requiresConfirmation":true,"status":"pending_confirmation","tool":"create_contact"}
    text x16 "I'll create a new contact with these details:\n- Name: Maria Garcia\n- Email: maria@acme.com\n- Company: Acme Corp"
    held {"approval":{"description":"Create contact Maria Garcia, maria@acme.com, Acme Corp","status":"pending","toolName":"create_contact"},"card":"card-[id]","prompt":{"approval":"[id]","approve":"[id]","deny":"[id]","digest":"[id]","expiresAt":"2026-01-01T00:05:00.000Z","no":"no","origins":"all 3 values were given by you","summary":"Create contact Maria Garcia, maria@acme.com, Acme Corp","text":"Create contact Maria Garcia, maria@acme.com, Acme Corp\nall 3 values were given by you\n-- reply \"yes\" to confirm or \"no\" to cancel.","whole":true,"yes":"yes"},"trace":{"level":"warn","name":"confirmation-required"}}
    done {"inputTokens":0,"outputTokens":0}
    "##);
    let done = chat.answers("yes", held.get("held")).await;
    insta::assert_snapshot!(done.show(), @r##"
    session {"agent":"crm","session":"s"}
    say {"text":"Done! Create contact Maria Garcia, maria@acme.com, Acme Corp"}
    decided {"approval":{"decidedBy":"ana","decidedOn":"text","description":"Create contact Maria Garcia, maria@acme.com, Acme Corp","status":"approved","toolName":"create_contact"}}
    result {"content":"{\"status\":\"succeeded\",\"ran\":true,\"message\":\"It ran.\",\"result\":\"{\\\"company\\\":\\\"Acme Corp\\\",\\\"email\\\":\\\"maria@acme.com\\\",\\\"id\\\":7,\\\"name\\\":\\\"Maria Garcia\\\",\\\"phone\\\":null}\"}","id":"call_[id]","isError":false,"requiresConfirmation":false,"status":"succeeded","tool":"create_contact"}
    done {"inputTokens":0,"outputTokens":0}
    "##);
    assert_eq!(chat.contacts().await, 1);
}

/// The card has the exact bytes of the model's arguments; nothing was parsed and written again on the way.
#[tokio::test]
async fn b1_a_card_carries_the_exact_arguments() {
    let chat = Chat::new().await;
    let body = json!({ "text": MARIA }).to_string();
    let answered = chat
        .service
        .post(&chat.token, "/v1/agents/crm/messages", &body)
        .await;
    let exact = r#""toolArguments":{"name":"Maria Garcia","email":"maria@acme.com","company":"Acme Corp"}"#;
    assert!(answered.text.contains(exact), "{}", answered.text);
}

#[tokio::test]
async fn d8_a_read_runs_at_once_and_nobody_is_asked() {
    let chat = Chat::new().await;
    insta::assert_snapshot!(chat.says("show me my pipeline").await.show(), @r##"
    session {"agent":"crm","session":"s"}
    routed {"specialist":"deals"}
    tool {"id":"script_1_1","tool":"get_pipeline"}
    result {"content":"{\"stages\":[{\"amount\":18000,\"currency\":\"EUR\",\"deals\":1,\"stage\":\"proposal\"},{\"amount\":6500,\"currency\":\"EUR\",\"deals\":1,\"stage\":\"qualified\"},{\"amount\":42000,\"currency\":\"EUR\",\"deals\":1,\"stage\":\"lead\"},{\"amount\":3200,\"currency\":\"EUR\",\"deals\":1,\"stage\":\"won\"},{\"amount\":9900,\"currency\":\"USD\",\"deals\":1,\"stage\":\"proposal\"}]}","id":"script_1_1","isError":false,"requiresConfirmation":false,"status":"ok","tool":"get_pipeline"}
    text x1 "Your pipeline:\n- proposal: 1 deal, 18000 EUR\n- qualified: 1 deal, 6500 EUR\n- lead: 1 deal, 42000 EUR\n- won: 1 deal, 3200 EUR\n- proposal: 1 deal, 9900 USD"
    done {"inputTokens":0,"outputTokens":0}
    "##);
}

#[tokio::test]
async fn a7_a_no_and_something_else_run_nothing() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    insta::assert_snapshot!(chat.answers("no", held.get("held")).await.show(), @r##"
    session {"agent":"crm","session":"s"}
    say {"text":"Cancelled."}
    decided {"approval":{"decidedBy":"ana","decidedOn":"text","description":"Create contact Maria Garcia, maria@acme.com, Acme Corp","status":"denied","toolName":"create_contact"}}
    result {"content":"{\"status\":\"denied\",\"ran\":false,\"message\":\"A person said no. It did not run. Do not propose it again unless they ask for it.\"}","id":"call_[id]","isError":true,"requiresConfirmation":false,"status":"denied","tool":"create_contact"}
    done {"inputTokens":0,"outputTokens":0}
    "##);
    let held = chat
        .says("Create a contact for Maria Garcia at Acme Corp, maria@acme.org")
        .await;
    let other = chat.answers("show me my pipeline", held.get("held")).await;
    assert!(
        other.get("say")["text"]
            .as_str()
            .unwrap()
            .starts_with("Cancelled, because")
    );
    assert_eq!(chat.contacts().await, 0);
}

/// A question and a correction over HTTP: the card stays, and the corrected card says what is different.
#[tokio::test]
async fn e1_c9_a_question_and_a_correction_over_http() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    let asked = chat.answers("why?", held.get("held")).await;
    let shown = asked.show();
    assert!(
        shown.contains("You asked for it. Nothing has happened yet."),
        "{shown}"
    );
    assert_eq!(asked.get("say")["text"], "Still waiting for your answer.");
    let id = |held: &Value| held["prompt"]["approval"].clone();
    assert_eq!(id(asked.get("held")), id(held.get("held")), "{shown}");
    let corrected = chat
        .answers("yes, but her email is zoe@x.com", asked.get("held"))
        .await;
    let card = corrected.get("held");
    assert_ne!(id(card), id(held.get("held")));
    let text = card["prompt"]["text"].as_str().unwrap();
    assert!(
        text.contains("changed since the last card: /email: `maria@acme.com` → `zoe@x.com`"),
        "{text}"
    );
    assert_eq!(chat.contacts().await, 0, "nothing of it was a yes");
    chat.answers("yes", card).await;
    assert_eq!(chat.contacts().await, 1);
}

/// X03: a yes that names no card, or another one, decides nothing, and the card is shown again.
#[tokio::test]
async fn x03_a_yes_counts_only_for_the_card_that_was_seen() {
    let chat = Chat::new().await;
    let first = chat.says(MARIA).await;
    for after in [Value::Null, json!("card-of-somebody"), json!("")] {
        let body = match after.is_null() {
            true => json!({ "session": "s", "text": "yes" }),
            false => json!({ "session": "s", "text": "yes", "after": after }),
        };
        let answered = chat
            .service
            .post(&chat.token, "/v1/agents/crm/messages", &body.to_string())
            .await;
        if answered.status != 200 {
            assert_eq!(answered.error(), (400, "bad_request".to_owned()));
            continue;
        }
        let frames = Frames::read(&answered.text);
        assert_eq!(frames.get("held")["card"], first.get("held")["card"]);
    }
    assert_eq!(
        chat.session().await["pending"]["summary"],
        first.get("held")["prompt"]["summary"]
    );
    assert_eq!(chat.contacts().await, 0);
}

#[tokio::test]
async fn b2_buttons_decide_their_own_card_once() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    let press = |payload: Value| chat.say(json!({ "session": "s", "button": payload }));
    let nobodys = press(json!("x.y")).await;
    assert_eq!(nobodys.get("error")["message"], "this button belongs to no card");
    let approve = held.get("held")["prompt"]["approve"].clone();
    // The button does not work in another session.
    let elsewhere = chat.say(json!({ "session": "other", "button": approve })).await;
    assert_eq!(
        elsewhere.get("error")["message"],
        "this button belongs to no card"
    );
    assert_eq!(
        press(approve.clone()).await.get("decided")["approval"]["decidedOn"],
        "button"
    );
    let again = press(approve).await;
    assert!(
        again.get("say")["text"]
            .as_str()
            .unwrap()
            .starts_with("Nothing was done"),
        "{}",
        again.show()
    );
    assert_eq!(chat.contacts().await, 1);
}

#[tokio::test]
async fn a16_a_button_approves_some_of_a_batch() {
    let chat = Chat::new().await;
    let held = chat.says("Create contacts for Ana, Ben and Cleo").await;
    let approve = held.get("held")["prompt"]["approve"].clone();
    let press = |calls: Value| chat.say(json!({ "session": "s", "button": approve, "calls": calls }));
    for bad in [json!([]), json!([0]), json!([1, 4])] {
        let refused = press(bad.clone()).await;
        let said = refused.get("say")["text"].as_str().unwrap();
        assert!(said.starts_with("Nothing was done"), "{bad}: {said}");
    }
    let done = press(json!([1, 3])).await;
    assert_eq!(
        done.get("say")["text"],
        "Done! Create contact Ana\nLeft out: Create contact Ben\nDone! Create contact Cleo"
    );
}

/// Metrics count what is proposed, decided and run in talks.
#[tokio::test]
async fn what_happens_in_talks_is_counted() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    chat.answers("yes", held.get("held")).await;
    let held = chat.says("Create contacts for Ana, Ben and Cleo").await;
    let (approve, deny) = (
        held.get("held")["prompt"]["approve"].clone(),
        held.get("held")["prompt"]["deny"].clone(),
    );
    chat.say(json!({ "session": "s", "button": deny })).await;
    chat.say(json!({ "session": "s", "button": approve })).await;
    // A decision on another surface is counted only there.
    let held = chat
        .says("Create a contact for Ana Diaz at Acme Corp, ana@acme.com")
        .await;
    let decider = chat.service.decider("ana").await;
    let id = held.get("held")["approval"]["id"].as_str().unwrap();
    let path = format!("/v1/approvals/{id}");
    let approved = chat.service.post(&decider, &path, r#"{"approved":true}"#);
    approved.await.good();
    chat.until_said("Done!").await;
    let admin = chat.service.with_scope("main", Scope::Admin).await;
    let figures = chat.service.get(&admin, "/metrics").await.text;
    for expected in [
        "countersign_approvals_proposed_total 3\n",
        "countersign_approvals_decided_total{verdict=\"approved\"} 2\n",
        "countersign_approvals_decided_total{verdict=\"denied\"} 1\n",
        "countersign_decisions_refused_total{reason=\"already_decided\"} 1\n",
        "countersign_calls_finished_total{outcome=\"succeeded\"} 2\n",
        "countersign_decision_seconds_count 3\n",
    ] {
        assert!(figures.contains(expected), "no {expected} in\n{figures}");
    }
}

/// B2: after a decision through another program, the talk continues by itself and tells its listeners.
#[tokio::test]
async fn b2_what_is_decided_elsewhere_goes_on_here() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    let path = "/v1/agents/crm/sessions/s/events";
    let stream = chat
        .service
        .open(request(Method::GET, path, Some(&chat.token), ""))
        .await;
    let mut body = stream.into_body();
    let decider = chat.service.decider("ana").await;
    let id = held.get("held")["approval"]["id"].as_str().unwrap();
    let path = format!("/v1/approvals/{id}");
    chat.service
        .post(&decider, &path, r#"{"approved":true}"#)
        .await
        .good();
    let mut text = String::new();
    while !text.contains("event: done") {
        let frame = tokio::time::timeout(PATIENCE, body.frame())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
    }
    insta::assert_snapshot!(Frames::read(&text).show(), @r##"
    decided {"approval":{"decidedBy":"ana","decidedOn":"api","description":"Create contact Maria Garcia, maria@acme.com, Acme Corp","status":"approved","toolName":"create_contact"}}
    result {"content":"{\"status\":\"succeeded\",\"ran\":true,\"message\":\"It ran.\",\"result\":\"{\\\"company\\\":\\\"Acme Corp\\\",\\\"email\\\":\\\"maria@acme.com\\\",\\\"id\\\":7,\\\"name\\\":\\\"Maria Garcia\\\",\\\"phone\\\":null}\"}","id":"call_[id]","isError":false,"requiresConfirmation":false,"status":"succeeded","tool":"create_contact"}
    say {"text":"Done! Create contact Maria Garcia, maria@acme.com, Acme Corp"}
    done {"inputTokens":0,"outputTokens":0}
    "##);
    assert_eq!(chat.contacts().await, 1);
}

#[tokio::test]
async fn a6_x32_a_restart_between_the_card_and_the_yes() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    let chat = chat.restarted().await;
    let session = chat.session().await;
    assert_eq!(session["card"], held.get("held")["card"]);
    let done = chat.answers("yes", held.get("held")).await;
    assert!(
        done.get("say")["text"].as_str().unwrap().starts_with("Done!"),
        "{}",
        done.show()
    );
    assert_eq!(chat.contacts().await, 1);
}

/// A decision made while the service was down is reported after its start.
#[tokio::test]
async fn a6_what_was_decided_while_nobody_followed_is_told_at_the_start() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    chat.service.app.stopping.cancel();
    let id = held.get("held")["approval"]["id"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let approval = chat
        .service
        .app
        .store()
        .approval(&crate::support::tenant(), id)
        .await
        .unwrap()
        .unwrap();
    let decision = countersign::decision::Decision::on(
        crate::support::tenant(),
        countersign::card::WholeCard::shown(&approval),
        countersign::decision::Decider::new(
            "ana".parse().unwrap(),
            vec!["approvers".to_owned()],
            countersign::decision::Surface::CommandLine,
        ),
        countersign::decision::Verdict::Approve,
    );
    chat.service
        .app
        .gate
        .decide(decision)
        .await
        .unwrap()
        .accepted()
        .unwrap();
    let chat = chat.restarted().await;
    chat.until_said("Done!").await;
    assert_eq!(chat.contacts().await, 1);
}

/// Of two nodes on one store that follow the same card, one continues the talk, and the call runs once.
#[tokio::test]
async fn a8_of_two_nodes_one_goes_on() {
    let chat = Chat::new().await;
    let other = Service::talking(&chat.clock, &chat.store, &chat.world).await;
    let held = chat.says(MARIA).await;
    let decider = other.decider("ana").await;
    let path = format!(
        "/v1/approvals/{}",
        held.get("held")["approval"]["id"].as_str().unwrap()
    );
    other.post(&decider, &path, r#"{"approved":true}"#).await.good();
    chat.until_said("Done!").await;
    // A reply at one node: the other does not interfere.
    let held = chat.says("Create a contact for Maria").await;
    let done = chat.answers("yes", held.get("held")).await;
    done.get("decided");
    done.get("done");
    let session = chat.session().await;
    let said = session["messages"].as_array().unwrap().iter();
    let said = said.filter(|message| message["role"] == "channel");
    assert_eq!(said.count(), 2, "{session}");
    assert_eq!(chat.contacts().await, 1);
}

#[tokio::test]
async fn a5_a_card_that_nobody_answers_is_said_to_be_over() {
    let chat = Chat::new().await;
    chat.says(MARIA).await;
    chat.clock.advance(Duration::from_secs(301));
    chat.service.app.gate.expire_due().await.unwrap();
    chat.until_said("Nobody answered in time").await;
    assert_eq!(chat.contacts().await, 0);
}

#[tokio::test]
async fn a17_undo_is_a_card_of_its_own() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    chat.answers("yes", held.get("held")).await;
    let undo = chat.says("undo that").await;
    assert!(
        undo.get("held")["prompt"]["summary"]
            .as_str()
            .unwrap()
            .starts_with("Delete contact")
    );
    chat.answers("yes", undo.get("held")).await;
    assert_eq!(chat.contacts().await, 0);
}

/// A message sent twice, as after a lost response, is processed once.
#[tokio::test]
async fn a8_a_message_sent_twice_is_heard_once() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    let yes = json!({ "session": "s", "text": "yes", "messageId": "m-1", "after": held.get("held")["card"] });
    chat.say(yes.clone()).await.get("decided");
    let again = chat.say(yes).await;
    assert_eq!(
        again.0.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["session", "done"]
    );
    assert_eq!(chat.contacts().await, 1);
}

#[tokio::test]
async fn bad_messages_are_refused_before_anybody_hears_them() {
    let chat = Chat::new().await;
    let check = async |path: &str, body: Value, expected: (u16, &str)| {
        let answered = chat.service.post(&chat.token, path, &body.to_string()).await;
        let (status, code) = answered.error();
        assert_eq!((status, code.as_str()), expected, "{body}");
    };
    let path = "/v1/agents/crm/messages";
    check(path, json!({}), (400, "bad_request")).await;
    check(path, json!({ "text": " " }), (400, "bad_request")).await;
    check(path, json!({ "text": "a", "button": "b" }), (400, "bad_request")).await;
    check(path, json!({ "text": "a", "what": 1 }), (400, "bad_request")).await;
    check(
        path,
        json!({ "text": "a".repeat(16 * 1024 + 1) }),
        (413, "too_large"),
    )
    .await;
    check(path, json!({ "text": "a", "session": "a/b" }), (404, "not_found")).await;
    check(
        "/v1/agents/nobody/messages",
        json!({ "text": "a" }),
        (404, "not_found"),
    )
    .await;
    // A message that the script does not understand is an error in the talk, and the talk continues.
    let lost = chat.says("what is the weather like on the moon").await;
    assert!(!lost.0.is_empty());
    chat.says("show me my pipeline").await.get("result");
}

/// X20: a session belongs to one person, and an agent to one tenant.
#[tokio::test]
async fn x20_nobody_reads_or_joins_the_session_of_another() {
    let chat = Chat::new().await;
    let held = chat.says(MARIA).await;
    let finn = chat
        .service
        .token_in("main", &[Scope::Chat], None, Some("finn"))
        .await;
    let read = chat.service.get(&finn, "/v1/agents/crm/sessions/s").await;
    assert_eq!(read.error(), (404, "not_found".to_owned()));
    let events = chat.service.get(&finn, "/v1/agents/crm/sessions/s/events").await;
    assert_eq!(events.error(), (404, "not_found".to_owned()));
    // For another person, the same id is a new session with no card.
    let yes = json!({ "session": "s", "text": "yes", "after": held.get("held")["card"] }).to_string();
    chat.service.post(&finn, "/v1/agents/crm/messages", &yes).await;
    assert_eq!(
        chat.session().await["card"],
        held.get("held")["card"],
        "it still waits"
    );
    chat.service.person("other", "ana", &["approvers"]).await;
    let theirs = chat.service.with_scope("other", Scope::Chat).await;
    let said = chat
        .service
        .post(
            &theirs,
            "/v1/agents/crm/messages",
            r#"{"text":"show me my contacts"}"#,
        )
        .await;
    assert_eq!(said.error(), (404, "not_found".to_owned()));
}
