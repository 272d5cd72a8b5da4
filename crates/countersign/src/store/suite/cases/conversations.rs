//! Conversations: replies in a channel, with their state in the store.

use std::sync::Arc;

use super::super::Fixture;
use crate::conversation::{Conversations, Message, MessageResponse, Origin};
use crate::decision::{Decider, Surface};
use crate::executor::{Outcome, Tools};
use crate::gate::{Gate, Submission, SubmittedCall};
use crate::id::{Agent, Channel, Key, Person, Tenant, ToolName};
use crate::policy::Policy;
use crate::prompt::Prompt;
use crate::state::{CallState, State};

const POLICY: &str = r#"
[tools.delete_potreros]
effect = "destructive"
summary = "Borrar {{ ids|length }} potreros"
yes = "Sí, borrar"
no = "No, dejar"
"#;

const PADDOCKS: &str = r#"{"ids":[101,102,103,104,105,106,107,108,109,110,111,112,113]}"#;

fn conversations(fixture: &Fixture) -> Conversations {
    let tools = Tools::default().with(ToolName::new("delete_potreros").unwrap(), |permit| async move {
        Outcome::succeeded(permit.arguments().as_bytes())
    });
    let gate = Gate::new(fixture.store.clone(), Arc::new(Policy::parse(POLICY).unwrap()));
    Conversations::new(gate.with_executor(Arc::new(tools)))
}

fn channel() -> Channel {
    Channel::new("chat-paddocks").unwrap()
}

async fn propose(conversations: &Conversations, shown_as: &str) -> Prompt {
    let submission = Submission {
        tenant: Tenant::single(),
        agent: Agent::new("menta").unwrap(),
        requester: Person::new("menta-token").unwrap(),
        on_behalf_of: None,
        channel: Some(channel()),
        run: None,
        session: None,
        claim: None,
        conversation: None,
        key: None,
        options: Default::default(),
        calls: vec![SubmittedCall::new("delete_potreros", PADDOCKS.as_bytes())],
    };
    let submitted = conversations.gate().submit(submission).await.unwrap();
    let prompt = conversations
        .prompt(&submitted.approval.unwrap(), Some("es"))
        .await
        .unwrap();
    let shown_as = Key::new(shown_as).unwrap();
    conversations
        .shown(&Tenant::single(), &channel(), &prompt, shown_as)
        .await
        .unwrap();
    prompt
}

async fn says(conversations: &Conversations, id: &str, after: &str, text: &str) -> MessageResponse {
    let message = Message {
        tenant: Tenant::single(),
        channel: channel(),
        sender: Decider::new(
            Person::new("alice").unwrap(),
            vec!["approvers".to_owned()],
            Surface::Text,
        ),
        text: text.to_owned(),
        language: Some("es".to_owned()),
        id: Key::new(id).unwrap(),
        origin: Origin::Written,
        after: Some(Key::new(after).unwrap()),
    };
    conversations.hear(message).await.unwrap()
}

pub async fn b10_thirteen_paddocks_are_deleted_by_typing_the_label(fixture: Fixture) {
    let conversations = conversations(&fixture);
    let prompt = propose(&conversations, "card-1").await;
    let said = says(&conversations, "m-1", "card-1", "Sí, borrar").await;
    assert_eq!(said.say.as_deref(), Some("¡Listo! Borrar 13 potreros"));
    let approval = fixture.find(&Tenant::single(), prompt.approval).await.unwrap();
    assert_eq!(approval.calls[0].state, CallState::Succeeded);
    assert_eq!(approval.calls[0].result.as_deref(), Some(PADDOCKS.as_bytes()));
    fixture.check(&Tenant::single(), prompt.approval).await;
}

pub async fn a6_a_restart_between_the_card_and_the_yes_changes_nothing(fixture: Fixture) {
    let prompt = propose(&conversations(&fixture), "card-1").await;
    // A new `Conversations` shares only the store with the one that showed the card.
    let said = says(&conversations(&fixture), "m-1", "card-1", "sí").await;
    assert_eq!(said.say.as_deref(), Some("¡Listo! Borrar 13 potreros"));
    let approval = fixture.find(&Tenant::single(), prompt.approval).await.unwrap();
    assert_eq!(approval.calls[0].state, CallState::Succeeded);
}

pub async fn x13_a_message_that_comes_to_two_nodes_counts_once(fixture: Fixture) {
    let (here, there) = (conversations(&fixture), conversations(&fixture));
    propose(&here, "card-1").await;
    let (one, other) = tokio::join!(
        says(&here, "m-1", "card-1", "mejor no sé"),
        says(&there, "m-1", "card-1", "mejor no sé"),
    );
    assert_ne!(
        one.forward_to_agent, other.forward_to_agent,
        "the agent gets it once"
    );
    let new = propose(&here, "card-2").await;
    let said = says(&there, "m-1", "card-2", "mejor no sé").await;
    assert!(!said.forward_to_agent && said.say.is_none());
    let approval = fixture.find(&Tenant::single(), new.approval).await.unwrap();
    assert_eq!(approval.state, State::Pending, "an old message ends nothing new");
}

pub async fn x03_a_yes_to_the_replaced_card_decides_nothing(fixture: Fixture) {
    let conversations = conversations(&fixture);
    propose(&conversations, "card-1").await;
    let new = propose(&conversations, "card-2").await;
    let said = says(&conversations, "m-1", "card-1", "sí").await;
    assert_eq!(said.show.map(|prompt| prompt.approval), Some(new.approval));
    let approval = fixture.find(&Tenant::single(), new.approval).await.unwrap();
    assert_eq!(approval.state, State::Pending);
}

pub async fn a7_no_and_other_messages_end_the_question(fixture: Fixture) {
    let conversations = conversations(&fixture);
    let denied = propose(&conversations, "card-1").await;
    let said = says(&conversations, "m-1", "card-1", "no, gracias").await;
    assert!(!said.forward_to_agent);
    let approval = fixture.find(&Tenant::single(), denied.approval).await.unwrap();
    assert_eq!(approval.state, State::Denied);
    // A destructive card survives the first message about something else, not the second.
    let other = propose(&conversations, "card-2").await;
    for (id, state) in [("m-2", State::Pending), ("m-3", State::Withdrawn)] {
        let said = says(&conversations, id, "card-2", "enséñame la lista").await;
        assert!(said.forward_to_agent, "{id}");
        let approval = fixture.find(&Tenant::single(), other.approval).await.unwrap();
        assert_eq!(approval.state, state, "{id}");
    }
}

pub async fn a5_an_expired_question_hears_nothing(fixture: Fixture) {
    let conversations = conversations(&fixture);
    let prompt = propose(&conversations, "card-1").await;
    fixture.advance(std::time::Duration::from_secs(300));
    let said = says(&conversations, "m-1", "card-1", "Sí, borrar").await;
    assert!(said.forward_to_agent && said.say.is_none());
    let approval = fixture.find(&Tenant::single(), prompt.approval).await.unwrap();
    assert!(approval.calls[0].execution.is_none());
}
