//! Whole dialogues: what a person writes, what the channel answers, what ran and what the model is told.

use std::sync::Arc;

use countersign::conversation::{Conversations, Message, MessageResponse, Origin};
use countersign::decision::Surface;
use countersign::executor::{Outcome, Tools};
use countersign::gate::{Flagged, GUIDE, Gate};
use countersign::id::{Channel, Key, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::sentence::Sentences;
use countersign::state::{CallState, State};
use countersign::store::memory::MemoryStore;
use countersign::transcript::{anthropic, exchanges, openai};

use crate::world::*;

const CMS: &str = r#"
[tools.delete_page]
effect = "destructive"
risk = "high"
summary = "Delete page {{ name }} and all {{ sections }} sections"
yes = "Delete"
no = "Keep"

[tools.delete_potreros]
effect = "destructive"
summary = "Borrar {{ ids|length }} potreros"
yes = "Sí, borrar"
no = "No, dejar"

[tools.create_contact]
effect = "write"
summary = "Create contact {{ name }}, {{ email }}{% if company %}, {{ company }}{% endif %}"
"#;

pub struct Chat {
    pub conversations: Conversations,
    pub gate: Gate,
    pub journal: Journal,
    messages: std::cell::Cell<u32>,
    last: std::cell::RefCell<Option<Key>>,
}

pub fn chat(policy: &str) -> Chat {
    let journal = Journal::default();
    let mut tools = Tools::default();
    for name in ["delete_page", "delete_potreros", "create_contact"] {
        let journal = journal.clone();
        tools = tools.with(ToolName::new(name).unwrap(), move |permit| {
            let journal = journal.clone();
            async move {
                let bytes = permit.arguments().as_bytes().to_vec();
                journal.lock().unwrap().push((name.to_owned(), bytes));
                Outcome::succeeded(r#"{"ok":true}"#)
            }
        });
    }
    let policy = Arc::new(Policy::parse(policy).unwrap());
    let gate = Gate::new(Arc::new(MemoryStore::default()), policy).with_executor(Arc::new(tools));
    Chat {
        conversations: Conversations::new(gate.clone()),
        gate,
        journal,
        messages: std::cell::Cell::new(0),
        last: std::cell::RefCell::new(None),
    }
}

pub fn channel() -> Channel {
    Channel::new("chat-1").unwrap()
}

impl Chat {
    fn next(&self) -> Key {
        self.messages.set(self.messages.get() + 1);
        Key::new(format!("message-{}", self.messages.get())).unwrap()
    }

    /// Proposes a call and shows its card.
    pub async fn propose(&self, tool: &str, arguments: &str) -> countersign::approval::SharedApproval {
        let submitted = self
            .gate
            .submit(submission(vec![call(tool, arguments)]))
            .await
            .unwrap();
        let approval = submitted.approval.unwrap();
        let prompt = self.conversations.prompt(&approval, Some("en")).await.unwrap();
        let id = self.next();
        self.conversations
            .shown(&Tenant::single(), &channel(), &prompt, id.clone())
            .await
            .unwrap();
        *self.last.borrow_mut() = Some(id);
        approval
    }

    pub fn message(&self, text: &str) -> Message {
        let mut sender = alice();
        sender.surface = Surface::Text;
        Message {
            tenant: Tenant::single(),
            channel: channel(),
            sender,
            text: text.to_owned(),
            language: None,
            id: self.next(),
            origin: Origin::Written,
            after: self.last.borrow().clone(),
        }
    }

    pub async fn says(&self, text: &str) -> MessageResponse {
        self.conversations.hear(self.message(text)).await.unwrap()
    }

    pub fn ran(&self) -> usize {
        self.journal.lock().unwrap().len()
    }
}

#[tokio::test]
async fn a13_the_first_sources_dialogue() {
    let chat = chat(CMS);
    let approval = chat.propose("create_contact", MARIA).await;
    let prompt = chat.conversations.prompt(&approval, None).await.unwrap();
    assert_eq!(
        prompt.text,
        "Create contact Maria Garcia, maria@acme.com, Acme Corp\n\
         -- reply \"yes\" to confirm or \"no\" to cancel."
    );
    let said = chat.says("yes").await;
    assert_eq!(
        said.say.as_deref(),
        Some("Done! Create contact Maria Garcia, maria@acme.com, Acme Corp")
    );
    assert!(!said.forward_to_agent);
    assert_eq!(chat.journal.lock().unwrap()[0].1, MARIA.as_bytes());

    chat.propose("create_contact", MARIA).await;
    let said = chat.says("No").await;
    assert_eq!(
        (said.say.as_deref(), said.forward_to_agent),
        (Some("Cancelled."), false)
    );

    chat.propose("create_contact", MARIA).await;
    let said = chat.says("actually, show me my pipeline").await;
    assert!(said.forward_to_agent && said.say.unwrap().starts_with("Cancelled, because"));
    assert!(
        chat.says("yes").await.forward_to_agent,
        "nothing is pending any more"
    );
    assert_eq!(chat.ran(), 1);
}

#[tokio::test]
async fn c8_the_three_scenarios_of_the_third_source() {
    let page = |name: &str| format!(r#"{{"name":"{name}","sections":3}}"#);
    // Cancellation.
    let chat = chat(CMS);
    let approval = chat.propose("delete_page", &page("homepage")).await;
    let prompt = chat.conversations.prompt(&approval, None).await.unwrap();
    assert_eq!(prompt.summary, "Delete page homepage and all 3 sections");
    assert_eq!(chat.says("no").await.say.as_deref(), Some("Cancelled."));
    assert_eq!(chat.ran(), 0);
    // Confirmation.
    chat.propose("delete_page", &page("test page")).await;
    assert_eq!(
        chat.says("yes").await.say.as_deref(),
        Some("Done! Delete page test page and all 3 sections")
    );
    // Several in a row: each needs its own yes.
    for draft in ["Draft 1", "Draft 2", "Draft 3"] {
        let before = chat.ran();
        chat.propose("delete_page", &page(draft)).await;
        assert_eq!(chat.ran(), before, "an earlier yes never confirms a later call");
        chat.says("yes").await;
        assert_eq!(chat.ran(), before + 1);
    }
}

#[tokio::test]
async fn x09_ok_is_too_little_for_a_destructive_call_and_cancels_nothing() {
    let chat = chat(CMS);
    let approval = chat
        .propose("delete_page", r#"{"name":"About","sections":2}"#)
        .await;
    let said = chat.says("ok").await;
    assert_eq!(
        said.say.as_deref(),
        Some("This cannot be undone. Please say \"Delete\" or \"Keep\".")
    );
    // A call with an undo is not called permanent, in either language.
    let undoable = CMS.replace(
        "yes = \"Delete\"\n",
        "yes = \"Delete\"\nundo = { tool = \"create_contact\", arguments = {} }\n",
    );
    for (language, expected) in [
        (
            None,
            "That is not clear enough for this. Please say \"Delete\" or \"Keep\".",
        ),
        (
            Some("es"),
            "Con eso no basta. Di \"Delete\" o \"Keep\", por favor.",
        ),
    ] {
        let other = super::dialogue::chat(&undoable);
        other
            .propose("delete_page", r#"{"name":"About","sections":2}"#)
            .await;
        let mut message = other.message("ok");
        message.language = language.map(str::to_owned);
        let heard = other.conversations.hear(message).await.unwrap();
        assert_eq!(heard.say.as_deref(), Some(expected));
    }
    assert!(said.show.is_some() && !said.forward_to_agent);
    assert_eq!(now(&chat, &approval).await.state, State::Pending);
    assert_eq!(chat.ran(), 0);
    chat.says("delete").await;
    assert_eq!(chat.ran(), 1);

    let lenient = super::dialogue::chat(&format!("[channel]\non_filler = \"approve\"\n{CMS}"));
    lenient
        .propose("delete_page", r#"{"name":"About","sections":2}"#)
        .await;
    lenient.says("ok").await;
    assert_eq!(lenient.ran(), 1);
}

async fn now(
    chat: &Chat,
    approval: &countersign::approval::SharedApproval,
) -> countersign::approval::SharedApproval {
    let store = chat.gate.store();
    store
        .approval(&approval.tenant, approval.id)
        .await
        .unwrap()
        .unwrap()
}

fn paddocks() -> String {
    let ids: Vec<String> = (101..114).map(|id| id.to_string()).collect();
    format!(r#"{{"ids":[{}],"confirm":true}}"#, ids.join(","))
}

#[tokio::test]
async fn b10_thirteen_paddocks_with_the_button_and_with_the_label_typed() {
    for typed in [false, true] {
        let chat = chat(CMS);
        let approval = chat.propose("delete_potreros", &paddocks()).await;
        let prompt = chat.conversations.prompt(&approval, Some("es")).await.unwrap();
        assert_eq!(
            (prompt.summary.as_str(), prompt.yes.as_str()),
            ("Borrar 13 potreros", "Sí, borrar")
        );
        // The label and the sentence stay short; the values they omit are listed below.
        assert!(!prompt.text.contains(&approval.id.to_string()), "{}", prompt.text);
        assert!(
            prompt.text.starts_with(
                "Borrar 13 potreros\n/ids/0-12: [101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113]\n\
                 /confirm: true\n"
            ),
            "{}",
            prompt.text
        );
        let say = match typed {
            true => {
                let mut message = chat.message("Sí, borrar");
                message.language = Some("es".to_owned());
                chat.conversations.hear(message).await.unwrap().say.unwrap()
            }
            false => {
                let pressed = chat
                    .conversations
                    .press(
                        &Tenant::single(),
                        &channel(),
                        prompt.approve.as_ref().unwrap(),
                        alice(),
                        None,
                    )
                    .await;
                let resolved = pressed.unwrap().unwrap();
                chat.conversations.outcome(&resolved, Some("es"))
            }
        };
        assert_eq!(say, "¡Listo! Borrar 13 potreros");
        let journal = chat.journal.lock().unwrap();
        assert_eq!(journal.len(), 1);
        assert_eq!(
            journal[0].1,
            paddocks().as_bytes(),
            "the exact bytes ran, nobody repeated the list"
        );
    }
}

#[tokio::test]
async fn x03_a_button_belongs_to_its_own_card() {
    let chat = chat(CMS);
    let old = chat.propose("delete_potreros", &paddocks()).await;
    let old_card = chat.conversations.prompt(&old, None).await.unwrap();
    let new = chat
        .propose("delete_page", r#"{"name":"Home","sections":1}"#)
        .await;
    let new_card = chat.conversations.prompt(&new, None).await.unwrap();
    let press = |payload: String| {
        let conversations = chat.conversations.clone();
        async move {
            conversations
                .press(&Tenant::single(), &channel(), &payload, alice(), None)
                .await
                .unwrap()
        }
    };
    let (old_yes, new_yes) = (old_card.approve.unwrap(), new_card.approve.unwrap());
    let resolved = press(old_yes.clone()).await.unwrap();
    assert_eq!(resolved.refusal.unwrap().code(), "superseded");
    // A payload combined from two cards is refused.
    let (_, proof) = old_yes.split_once('.').unwrap();
    let (id, _) = new_yes.split_once('.').unwrap();
    let resolved = press(format!("{id}.{proof}")).await.unwrap();
    assert_eq!(resolved.refusal.unwrap().code(), "stale");
    assert!(press("nonsense".to_owned()).await.is_none());
    assert!(new_yes.len() <= 64 && new_yes != new_card.deny);
    press(new_card.deny.clone()).await.unwrap().accepted().unwrap();
    assert_eq!(now(&chat, &new).await.state, State::Denied);
    assert_eq!(chat.ran(), 0);
}

#[tokio::test]
async fn x03_a_yes_sent_before_the_card_shows_it_again() {
    let chat = chat(CMS);
    chat.propose("create_contact", MARIA).await;
    let early = chat.message("yes");
    let new = chat
        .propose("delete_page", r#"{"name":"Home","sections":1}"#)
        .await;
    let said = chat.conversations.hear(early).await.unwrap();
    assert_eq!(said.show.map(|prompt| prompt.approval), Some(new.id));
    assert_eq!(chat.ran(), 0);
    // Something else was said since, so the card is not the last message shown.
    chat.conversations
        .said(&Tenant::single(), &channel())
        .await
        .unwrap();
    assert!(chat.says("yes").await.show.is_some());
    assert_eq!(chat.ran(), 0);
}

#[tokio::test]
async fn x09_edits_forwards_programs_and_others_never_count() {
    let chat = chat(CMS);
    let approval = chat.propose("create_contact", MARIA).await;
    for origin in [Origin::Edited, Origin::Forwarded, Origin::Program] {
        let mut message = chat.message("yes");
        message.origin = origin;
        let said = chat.conversations.hear(message).await.unwrap();
        assert!(said.read.is_none() && said.say.is_none());
    }
    let mut message = chat.message("yes");
    message.sender = mallory();
    chat.conversations.hear(message).await.unwrap();
    assert_eq!(now(&chat, &approval).await.state, State::Pending);
    // A repeated message counts once, even if another card is pending by then.
    let yes = chat.message("yes");
    let first = chat.conversations.hear(yes.clone()).await.unwrap();
    chat.propose("create_contact", MARIA).await;
    let said = chat.conversations.hear(yes).await.unwrap();
    assert!(!said.forward_to_agent && said.is_repeated);
    assert_eq!(said.say, first.say, "what came of it is said again");
    assert_eq!(chat.ran(), 1);
}

#[tokio::test]
async fn c9_a_question_may_come_first() {
    let chat = chat(&format!("[channel]\non_other = \"keep\"\n{CMS}"));
    let approval = chat
        .propose("delete_page", r#"{"name":"About","sections":2}"#)
        .await;
    let said = chat.says("which sections are these?").await;
    assert!(said.forward_to_agent && said.show.is_some());
    assert_eq!(now(&chat, &approval).await.state, State::Pending);
    chat.says("yes").await;
    assert_eq!(chat.ran(), 1);
}

#[tokio::test]
async fn what_a_channel_says_can_be_replaced() {
    let chat = chat(CMS);
    chat.propose("create_contact", MARIA).await;
    let sentences = Sentences {
        cancelled: "Na gut.".to_owned(),
        ..Sentences::english()
    };
    let conversations = chat.conversations.clone().with_sentences(sentences);
    let said = conversations.hear(chat.message("no")).await.unwrap();
    assert_eq!(said.say.as_deref(), Some("Na gut."));
}

#[tokio::test]
async fn b3_b4_every_call_ends_in_one_result_that_cannot_be_mistaken() {
    let chat = chat(CMS);
    let mut seen = Vec::new();
    let done = chat.propose("create_contact", MARIA).await;
    chat.says("yes").await;
    seen.push((now(&chat, &done).await, "succeeded", true));
    let denied = chat.propose("create_contact", MARIA).await;
    chat.says("no").await;
    seen.push((now(&chat, &denied).await, "denied", false));
    let left = chat.propose("create_contact", MARIA).await;
    chat.says("what is the weather like").await;
    seen.push((now(&chat, &left).await, "withdrawn", false));
    let old = chat.propose("create_contact", MARIA).await;
    let pending = chat.propose("create_contact", MARIA).await;
    seen.push((now(&chat, &old).await, "superseded", false));
    seen.push((now(&chat, &pending).await, "pending_confirmation", false));
    for (approval, status, ran) in seen {
        let exchanges = exchanges(&approval, &countersign::policy::Policy::empty());
        assert_eq!(exchanges.len(), approval.calls.len());
        let result = &exchanges[0].result;
        assert_eq!((result.status, result.ran), (status, ran));
        let is_harmless = matches!(status, "succeeded" | "pending_confirmation");
        assert_eq!(result.is_error, !is_harmless, "{status}");
        let content: serde_json::Value = serde_json::from_str(&result.content).unwrap();
        assert_eq!(content["ran"], ran);
        check_shapes(&exchanges);
    }
}

fn check_shapes(exchanges: &[countersign::transcript::Exchange]) {
    let text = anthropic(exchanges);
    assert!(text.contains(MARIA), "the arguments as they were: {text}");
    let messages: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (calls, results) = (&messages[0]["content"], &messages[1]["content"]);
    assert_eq!(calls.as_array().unwrap().len(), results.as_array().unwrap().len());
    assert_eq!(calls[0]["id"], results[0]["tool_use_id"]);
    let messages: serde_json::Value = serde_json::from_str(&openai(exchanges)).unwrap();
    assert_eq!(messages[0]["tool_calls"][0]["id"], messages[1]["tool_call_id"]);
    assert_eq!(messages[0]["tool_calls"][0]["function"]["arguments"], MARIA);
}

#[tokio::test]
async fn c1_c2_the_flag_is_never_believed() {
    let world = world();
    let flagged = r#"{"id":"c-1","confirmed":true}"#;
    let submit = |arguments: &str| submission(vec![call("delete_contact", arguments)]);
    // A call with the flag alone is held, and the answer says that a person is asked.
    let Flagged::Submitted(submitted) = world.gate.submit_flagged(submit(flagged)).await.unwrap() else {
        panic!("nobody approved that");
    };
    let answer: serde_json::Value =
        serde_json::from_str(&submitted.requires_confirmation().unwrap()).unwrap();
    assert_eq!(answer["requiresConfirmation"], true);
    // Without the flag it is held too. After approval, the flagged call runs the bytes that were shown, once.
    let held = world
        .gate
        .submit_flagged(submit(r#"{"id":"c-1"}"#))
        .await
        .unwrap();
    let Flagged::Submitted(held) = held else { panic!() };
    let approval = held.approval.unwrap();
    let approve = decision(&approval, alice(), countersign::decision::Verdict::Approve);
    world.gate.decide(approve).await.unwrap().accepted().unwrap();
    for other in [
        r#"{"id":"c-2","confirmed":true}"#,
        r#"{"id":"c-1"}"#,
        r#"{"id":"c-1","confirmed":"true"}"#,
    ] {
        let mut elsewhere = submit(other);
        elsewhere.channel = Some(Channel::new("chat-2").unwrap());
        let submitted = world.gate.submit_flagged(elsewhere).await.unwrap();
        assert!(matches!(submitted, Flagged::Submitted(_)), "{other}");
    }
    let Flagged::Confirmed(permit) = world.gate.submit_flagged(submit(flagged)).await.unwrap() else {
        panic!("a person approved exactly that");
    };
    assert_eq!(permit.arguments().as_bytes(), br#"{"id":"c-1"}"#);
    assert_eq!(world.now(&approval).await.calls[0].state, CallState::Running);
    let again = world.gate.submit_flagged(submit(flagged)).await.unwrap();
    assert!(matches!(again, Flagged::Submitted(_)), "once");
}

#[test]
fn c7_the_guide_tells_a_model_what_matters() {
    for word in [
        "pending_confirmation",
        "requiresConfirmation",
        "Silence is not a yes",
        "denied",
        "unknown",
        "confirmed",
    ] {
        assert!(GUIDE.contains(word), "{word}");
    }
}
