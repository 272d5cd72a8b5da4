//! Whole dialogues, from the person's words to the calls that ran.

use crate::world::*;

pub const MARIA: &str = r#"
[[rule]]
person = "create a contact for {name} at {company}, {email}"
[[rule.call]]
tool = "create_contact"
arguments = '{"name":{{ name|json }}, "email":{{ email|json }},"company":{{ company|json }}}'

[[rule]]
person = "create a contact for {name} at {company}, {email}"
after = "create_contact"
status = "pending_confirmation"
say = """
I'll create a new contact with these details:
- Name: {{ name }}
- Email: {{ email }}
- Company: {{ company }}
"""

[[rule]]
after = "create_contact"
status = "succeeded"
say = "The contact is {{ result.id }}."

[[rule]]
after = "create_contact"
status = "denied"
say = "Okay, I won't."

[[rule]]
person = "actually, show me *"
[[rule.call]]
tool = "search_contacts"
arguments = '{"query":""}'

[[rule]]
after = "search_contacts"
say = "There is {{ result.contacts[0].name }}."

[[rule]]
after = "delete_contact"
say = "It is {{ status }}."
"#;

pub const ASK: &str = "Create a contact for Maria Garcia at Acme Corp, maria@acme.com";
const CARD: &str = "{Create contact Maria Garcia, maria@acme.com, Acme Corp\nall 3 values were given by you\n-- reply \"yes\" to confirm or \"no\" to cancel.}";

#[tokio::test]
async fn a7_yes_runs_once_and_the_model_is_told() {
    let world = world(MARIA);
    let shown = world.says(ASK).await;
    assert_eq!(
        shown,
        format!(
            "<create_contact: pending_confirmation>\nI'll create a new contact with these details:\n- Name: Maria \
             Garcia\n- Email: maria@acme.com\n- Company: Acme Corp\n{CARD}"
        )
    );
    assert!(world.ran().is_empty());
    let shown = world.says("yes").await;
    assert_eq!(
        shown,
        "[Done! Create contact Maria Garcia, maria@acme.com, Acme Corp]The contact is c-1."
    );
    // The exact bytes that the model wrote, including the space.
    let arguments =
        r#"create_contact {"name":"Maria Garcia", "email":"maria@acme.com","company":"Acme Corp"}"#;
    assert_eq!(world.ran(), [arguments]);
}

#[tokio::test]
async fn a7_no_cancels_and_the_model_answers_normally() {
    let world = world(MARIA);
    world.says(ASK).await;
    assert_eq!(world.says("no").await, "[Cancelled.]Okay, I won't.");
    assert!(world.ran().is_empty());
}

#[tokio::test]
async fn a7_anything_else_cancels_and_is_answered() {
    let world = world(MARIA);
    world.says(ASK).await;
    assert_eq!(
        world.says("actually, show me my contacts").await,
        "[Cancelled, because you changed the subject: Create contact Maria Garcia, maria@acme.com, Acme \
         Corp]\n<search_contacts: ok>\nThere is John Smith."
    );
    assert_eq!(world.ran(), [r#"search_contacts {"query":""}"#]);
    // A late "yes" to the cancelled card decides nothing.
    let (shown, error) = world.try_says("yes").await;
    assert_eq!(shown, "");
    assert_eq!(error.unwrap_err().to_string(), "the script has no rule for this");
    assert_eq!(world.ran().len(), 1);
}

#[tokio::test]
async fn a13_a_button_decides_like_a_reply() {
    let world = world(MARIA);
    world.says(ASK).await;
    let shown = world.presses(true).await;
    assert_eq!(
        shown,
        "[Done! Create contact Maria Garcia, maria@acme.com, Acme Corp]The contact is c-1."
    );
    assert_eq!(world.ran().len(), 1);
    let shown = world.presses(true).await;
    assert!(shown.starts_with("[Nothing was done: approval"), "{shown}");
    assert_eq!(world.ran().len(), 1);
}

#[tokio::test]
async fn a6_a10_a_card_can_be_approved_after_a_restart() {
    let world = world(MARIA);
    world.says(ASK).await;
    let world = world.restarted(config(AGENT, MARIA));
    assert_eq!(world.shows_pending_card().await, CARD);
    let shown = world.says("yes").await;
    assert!(shown.ends_with("The contact is c-1."), "{shown}");
    assert_eq!(world.ran().len(), 1);
    // After another restart, the next turn knows the outcome.
    let world = world.restarted(config(AGENT, MARIA));
    assert_eq!(world.shows_pending_card().await, "");
    let session = world.agent.session(&tenant(), &channel()).await.unwrap();
    let told = format!("{:?}", session.messages());
    assert!(
        told.contains(r#"\"status\":\"succeeded\",\"ran\":true"#),
        "{told}"
    );
    assert!(session.open_approvals().is_empty());
}

#[tokio::test]
async fn b2_the_turn_continues_after_a_decision_elsewhere() {
    let world = world(MARIA);
    world.says(ASK).await;
    assert_eq!(world.resumes().await, "", "nothing was decided");
    let pending = world
        .store
        .pending_in(&tenant(), &channel())
        .await
        .unwrap()
        .unwrap();
    let decision = countersign::decision::Decision::on(
        tenant(),
        countersign::card::WholeCard::shown(&pending),
        alice(),
        countersign::decision::Verdict::Approve,
    );
    // Another gate without an executor.
    let policy = countersign::policy::Policy::parse(POLICY).unwrap();
    let page = countersign::gate::Gate::new(world.store.clone(), std::sync::Arc::new(policy));
    page.decide(decision).await.unwrap().accepted().unwrap();
    assert_eq!(
        world.resumes().await,
        "[Done! Create contact Maria Garcia, maria@acme.com, Acme Corp]The contact is c-1."
    );
    assert_eq!(world.resumes().await, "");
    assert_eq!(world.ran().len(), 1);
}

const FIVE: &str = r#"
[[rule]]
person = "create contacts for {people}"
[[rule.call]]
tool = "create_contact"
each = "people|replace(' and ', ', ')|split(', ')|list"
arguments = '{"name":{{ item|json }},"email":{{ (item|lower ~ "@acme.com")|json }}}'

[[rule]]
after = "create_contact"
status = "pending_confirmation"
say = "These {{ results|length }}:"

[[rule]]
after = "create_contact"
say = "{% for status in statuses %}{{ status }} {% endfor %}"

[[rule]]
after = "delete_contact"
say = "It is {{ status }}."
"#;

#[tokio::test]
async fn a16_five_calls_are_one_card_approved_in_part() {
    let world = world(FIVE);
    let shown = world
        .says("Create contacts for Ana, Ben, Cleo, Dan and Eva")
        .await;
    assert!(
        shown.contains(
            "These 5:\n{5 actions:\n1. Create contact Ana, ana@acme.com\n   [NOT FROM YOU] /email: ana@acme.com\n\
             2. Create contact Ben, ben@acme.com\n   [NOT FROM YOU] /email: ben@acme.com\n3. Create contact Cleo, "
        ) && shown.contains("each of them: 1 of 2 values was not given by you: 1 invented\n"),
        "{shown}"
    );
    assert_eq!(
        world.says("all but the third").await,
        "[Done! Create contact Ana, ana@acme.com\nDone! Create contact Ben, ben@acme.com\nLeft out: Create contact \
         Cleo, cleo@acme.com\nDone! Create contact Dan, dan@acme.com\nDone! Create contact Eva, eva@acme.com]succeeded \
         succeeded denied succeeded succeeded"
    );
    let ran = world.ran();
    assert_eq!(ran.len(), 4);
    assert!(!ran.iter().any(|call| call.contains("Cleo")));
}

#[tokio::test]
async fn a16_five_calls_need_one_yes() {
    let world = world(FIVE);
    world
        .says("Create contacts for Ana, Ben, Cleo, Dan and Eva")
        .await;
    world.says("yes").await;
    assert_eq!(world.ran().len(), 5);
    // One card undoes all five, last call first.
    let shown = world.says("undo that").await;
    assert_eq!(
        shown,
        "{5 actions:\n1. Delete contact c-5\n   [from a tool] /id: c-5\n2. Delete contact c-4\n   [from a tool] /id: c-4\n\
         3. Delete contact c-3\n   [from a tool] /id: c-3\n4. Delete contact c-2\n   [from a tool] /id: c-2\n\
         5. Delete contact c-1\n   [from a tool] /id: c-1\n\
         each of them: 1 of 1 value was not given by you: 1 from tools\n-- reply \"yes\" to confirm or \"no\" to cancel.}"
    );
    assert_eq!(world.ran().len(), 5, "nothing before the yes");
    // A reply can select some of the calls, like a button. A bare "1" may also mean the contact c-1.
    world.says("only actions 1 and 3").await;
    let ran = world.ran();
    assert_eq!(
        ran[5..],
        [
            r#"delete_contact {"id":"c-5"}"#.to_owned(),
            r#"delete_contact {"id":"c-3"}"#.to_owned()
        ]
    );
    // The rest can still be undone; after that, nothing is left.
    let shown = world.says("undo that").await;
    assert!(
        shown.starts_with(
            "{3 actions:\n1. Delete contact c-4\n   [from a tool] /id: c-4\n2. Delete contact c-2\n"
        ),
        "{shown}"
    );
    world.says("yes").await;
    assert_eq!(world.ran().len(), 10);
    assert_eq!(world.says("undo that").await, "[There is nothing here to undo.]");
}

#[tokio::test]
async fn a16_a_button_approves_some_of_five_calls() {
    let world = world(FIVE);
    world
        .says("Create contacts for Ana, Ben, Cleo, Dan and Eva")
        .await;
    let shown = world.presses_only(&[6]).await;
    assert!(shown.starts_with("[Nothing was done: "), "{shown}");
    assert!(
        world.ran().is_empty(),
        "a choice of what is not there is no choice"
    );
    let shown = world.presses_only(&[2, 5]).await;
    assert!(
        shown.starts_with("[Left out: Create contact Ana, ana@acme.com\nDone! Create contact Ben"),
        "{shown}"
    );
    let ran = world.ran();
    assert!(
        ran.len() == 2 && ran[0].contains("Ben") && ran[1].contains("Eva"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn a17_calls_of_a_batch_without_undo_are_named() {
    let script = "[[rule]]\nperson = \"go\"\n[[rule.call]]\ntool = \"create_contact\"\n\
        arguments = '{\"name\":\"Ana\",\"email\":\"a@x\"}'\n[[rule.call]]\ntool = \"delete_contact\"\n\
        arguments = '{\"id\":\"c-7\"}'\n[[rule]]\nafter = \"delete_contact\"\nsay = \"done\"\n";
    let world = world(script);
    world.says("go").await;
    world.says("yes").await;
    assert_eq!(world.ran().len(), 2);
    let shown = world.says("undo that").await;
    assert_eq!(
        shown,
        "[This cannot be undone: Delete contact c-7 (there is no way back)]\n{Delete contact c-1\n\
         1 of 1 value was not given by you: 1 from tools\n[from a tool] /id: c-1\n\
         -- reply \"yes\" to confirm or \"no\" to cancel.}"
    );
    world.says("yes").await;
    // The call that cannot be undone is still the latest one; no earlier card is undone instead.
    assert_eq!(
        world.says("undo that").await,
        "[This cannot be undone: Delete contact c-7 (there is no way back)]"
    );
    assert_eq!(world.ran().len(), 3);
}

#[tokio::test]
async fn a17_an_undo_that_came_too_late_says_why() {
    let world = world(MARIA);
    world.says(ASK).await;
    world.says("yes").await;
    world.says("undo that").await;
    // Another approval undoes the call first.
    let done = world.latest_done().await;
    let gate = world.agent.gate();
    let submission =
        countersign::gate::Submission::new(tenant(), world.agent.name().clone(), alice().person, Vec::new())
            .unwrap();
    let other = gate.undo(submission, done).await.unwrap();
    let decision = countersign::decision::Decision::on(
        tenant(),
        countersign::card::WholeCard::shown(&other),
        alice(),
        countersign::decision::Verdict::Approve,
    );
    gate.decide_and_run(decision).await.unwrap().accepted().unwrap();
    assert_eq!(world.ran().len(), 2);
    let shown = world.says("yes").await;
    assert!(
        shown.starts_with("[Nothing was done: it was undone already, or is being undone.]"),
        "{shown}"
    );
    assert_eq!(world.ran().len(), 2, "nothing is undone twice");
    let context = world.context();
    let (shown, _) = world
        .watch(|agent, listener| async move { agent.undo(context, done, &listener).await })
        .await;
    assert_eq!(shown, "[That cannot be undone: it is undone.]");
}

#[tokio::test]
async fn a17_an_undo_is_shown_and_confirmed_or_refused_with_the_reason() {
    let script =
        format!("{MARIA}\n[[rule]]\nafter = \"delete_contact\"\nsay = \"It is {{{{ status }}}}.\"\n");
    let world = world(&script);
    assert_eq!(world.says("undo that").await, "[There is nothing here to undo.]");
    world.says(ASK).await;
    world.says("yes").await;
    let shown = world.says("Undo that, please").await;
    assert_eq!(
        shown,
        "{Delete contact c-1\n1 of 1 value was not given by you: 1 from tools\n[from a tool] /id: c-1\n-- reply \"yes\" to confirm or \"no\" to cancel.}"
    );
    assert_eq!(world.ran().len(), 1, "nothing before the yes");
    assert_eq!(
        world.says("yes").await,
        "[Done! Delete contact c-1]It is succeeded."
    );
    assert_eq!(world.ran()[1], r#"delete_contact {"id":"c-1"}"#);
    assert_eq!(world.says("undo that").await, "[There is nothing here to undo.]");
}

#[tokio::test]
async fn a17_a_call_without_undo_says_so() {
    let policy = POLICY.replace(
        "undo = { tool = \"delete_contact\", arguments = { id = \"{{ result.id }}\" } }\n",
        "",
    );
    let store = std::sync::Arc::new(countersign::store::memory::MemoryStore::default());
    let world = World::over(store, Journal::default(), &policy, config(AGENT, MARIA));
    world.says(ASK).await;
    world.says("yes").await;
    let shown = world.says("undo that").await;
    assert_eq!(shown, "[That cannot be undone: there is no way back.]");
    assert_eq!(world.ran().len(), 1);
}

#[tokio::test]
async fn c9_a_question_before_the_decision_keeps_the_card() {
    let policy = format!("[channel]\non_other = \"keep\"\n{POLICY}");
    let store = std::sync::Arc::new(countersign::store::memory::MemoryStore::default());
    let world = World::over(store, Journal::default(), &policy, config(AGENT, MARIA));
    world.says(ASK).await;
    let shown = world.says("actually, show me my contacts").await;
    assert_eq!(
        shown,
        format!("<search_contacts: ok>\nThere is John Smith.\n[Still waiting for your answer.]\n{CARD}")
    );
    let shown = world.says("yes").await;
    assert!(shown.ends_with("The contact is c-2."), "{shown}");
}

const ABOUT: &str = r#"
[[rule]]
person = "*email is {email}"
if = "pending|length == 1"
[[rule.call]]
tool = "create_contact"
arguments = '{"name":{{ pending[0].arguments.name|json }},"email":{{ email|json }}}'

[[rule]]
person = ["why", "which ones", "wait, what will be *"]
if = "pending|length > 0"
say = "{{ pending[0].message }}"

[[rule]]
person = "break"
fail = "it is down"

[[rule]]
person = "*delete {id}"
[[rule.call]]
tool = "delete_contact"
arguments = '{"id":{{ id|json }}}'
"#;

const ANSWER: &str = "This action requires confirmation: Create contact Maria Garcia, maria@acme.com, Acme Corp. A person \
                      has been asked. It has not run.";

#[tokio::test]
async fn e1_a_question_about_the_card_is_answered_and_the_card_stays() {
    let world = world(&format!("{ABOUT}{MARIA}"));
    world.says(ASK).await;
    for question in ["wait, what will be created?", "which ones?", "why?"] {
        assert_eq!(
            world.says(question).await,
            format!("{ANSWER}\n[Still waiting for your answer.]\n{CARD}"),
            "{question}"
        );
    }
    assert!(world.ran().is_empty());
    world.says("yes").await;
    assert_eq!(world.ran().len(), 1, "the card was there all the time");
}

#[tokio::test]
async fn e1_a_correction_leads_to_a_new_card_that_names_the_difference() {
    let world = world(&format!("{ABOUT}{MARIA}"));
    world.says(ASK).await;
    let shown = world.says("yes, but her email is zoe@x.com").await;
    assert!(
        shown.contains("look twice: changed since the last card: /email: `maria@acme.com` → `zoe@x.com`")
            && shown.contains("/company is gone: `Acme Corp`"),
        "{shown}"
    );
    assert!(!shown.contains("Cancelled"), "{shown}");
    assert!(world.ran().is_empty(), "the yes was not for the old card");
    world.says("yes").await;
    assert_eq!(
        world.ran(),
        [r#"create_contact {"name":"Maria Garcia","email":"zoe@x.com"}"#]
    );
}

#[tokio::test]
async fn a7_a_destructive_card_survives_one_message_about_something_else() {
    let world = world(&format!("{ABOUT}{MARIA}"));
    world.says("please delete c-7").await;
    let shown = world.says("actually, show me my contacts").await;
    assert!(
        shown.contains("There is John Smith.\n[Still waiting for your answer.]\n{Delete contact c-7"),
        "{shown}"
    );
    let shown = world.says("actually, show me my contacts").await;
    assert!(
        shown.starts_with("[Cancelled, because you changed the subject: Delete contact c-7]"),
        "{shown}"
    );
    let deleted = world
        .ran()
        .iter()
        .filter(|call| call.starts_with("delete"))
        .count();
    assert_eq!(deleted, 0);
    // A no is a no, whatever follows it.
    world.says("please delete c-7").await;
    let (shown, _) = world.try_says("no, show me my contacts").await;
    assert!(shown.starts_with("[Cancelled.]"), "{shown}");
}

#[tokio::test]
async fn c9_a_kept_card_is_shown_again_even_if_the_model_fails() {
    let policy = format!("[channel]\non_other = \"keep\"\n{POLICY}");
    let store = std::sync::Arc::new(countersign::store::memory::MemoryStore::default());
    let script = format!("{ABOUT}{MARIA}");
    let world = World::over(store, Journal::default(), &policy, config(AGENT, &script));
    world.says(ASK).await;
    let (shown, error) = world.try_says("break").await;
    assert!(error.unwrap_err().to_string().contains("it is down"));
    assert_eq!(shown, format!("[Still waiting for your answer.]\n{CARD}"));
    world.says("yes").await;
    assert_eq!(world.ran().len(), 1);
}

#[tokio::test]
async fn c9_an_agents_file_keeps_cards_where_the_policy_cancels_them() {
    let agent = AGENT.replace("name = \"crm\"", "name = \"crm\"\non_other = \"keep\"");
    let store = std::sync::Arc::new(countersign::store::memory::MemoryStore::default());
    let world = World::over(store, Journal::default(), POLICY, config(&agent, MARIA));
    world.says(ASK).await;
    let shown = world.says("actually, show me my contacts").await;
    assert!(shown.ends_with(CARD), "{shown}");
}

#[tokio::test]
async fn a7_the_cancellation_comes_after_the_message_that_caused_it() {
    use countersign_agent::message::Message;
    let world = world(MARIA);
    world.says(ASK).await;
    world.says("actually, show me my contacts").await;
    let session = world.agent.session(&tenant(), &channel()).await.unwrap();
    let position = |wanted: &dyn Fn(&Message) -> bool| session.messages().iter().position(wanted).unwrap();
    let said =
        position(&|message| matches!(message, Message::Person { text, .. } if text.starts_with("actually")));
    let cancelled =
        position(&|message| matches!(message, Message::Channel { text } if text.starts_with("Cancelled")));
    assert_eq!(cancelled, said + 1);
}

#[tokio::test]
async fn c4_an_ok_to_something_destructive_is_asked_again_and_not_told_to_the_model() {
    let world = world(MARIA);
    world.says(ASK).await;
    world.says("yes").await;
    world.says("undo that").await;
    let shown = world.says("ok").await;
    assert!(shown.starts_with("[This cannot be undone."), "{shown}");
    assert_eq!(world.ran().len(), 1);
    let session = world.agent.session(&tenant(), &channel()).await.unwrap();
    assert!(!format!("{:?}", session.messages()).contains("\"ok\""));
    world.says("yes").await;
    assert_eq!(world.ran().len(), 2);
}

#[tokio::test]
async fn a15_a_call_runs_with_the_credential_of_its_person_which_nobody_sees() {
    use countersign::seal::Secret;
    use countersign_agent::agent::TurnContext;
    let mut config = config(AGENT, MARIA);
    let key = |context: &TurnContext, tool: &str| {
        (tool == "create_contact").then(|| Secret::new(format!("key-of-{}", context.person.as_str())))
    };
    config.credentials = Some(std::sync::Arc::new(key));
    let store = std::sync::Arc::new(countersign::store::memory::MemoryStore::default());
    let world = World::over(store, Journal::default(), POLICY, config);
    let shown = world.says(ASK).await;
    assert!(shown.contains("note: ") && !shown.contains("key-of"), "{shown}");
    world.says("yes").await;
    let ran = world.ran();
    assert!(ran[0].ends_with(" with key-of-alice"), "{ran:?}");
    world.says("actually, show me my contacts").await;
    assert_eq!(
        world.ran()[1],
        r#"search_contacts {"query":""}"#,
        "a read needs none"
    );
    let session = world.agent.session(&tenant(), &channel()).await.unwrap();
    assert!(!format!("{:?}", session.messages()).contains("key-of"));
    let done = world.latest_done().await;
    let approval = world
        .store
        .approval(&tenant(), done.approval)
        .await
        .unwrap()
        .unwrap();
    assert!(
        approval.calls[0].sealed.is_none(),
        "erased with the end of the call"
    );
}
