//! Routing: each message goes to one specialist, with its own tools and model.

use std::sync::Arc;

use countersign::store::memory::MemoryStore;
use countersign_agent::agent::Role;

use crate::fake_model::*;
use crate::world::*;

const TWO: &str = r#"
name = "crm"
[models.any]
anthropic = "a"
[orchestrator]
prompt = "Pick."
model = "any"
[[specialist]]
name = "readers"
about = "Finds"
prompt = "You find."
model = "any"
tools = ["search_contacts"]
[[specialist]]
name = "writers"
about = "Creates"
prompt = "You create."
model = "any"
tools = ["create_contact"]
"#;

fn routed(orchestrator: &FakeModel, readers: &FakeModel, writers: &FakeModel) -> World {
    let mut config = config(TWO, "");
    config.orchestrator = Some(Role {
        prompt: "Pick.".to_owned(),
        model: Arc::new(orchestrator.clone()),
    });
    config.specialists[0].role.model = Arc::new(readers.clone());
    config.specialists[1].role.model = Arc::new(writers.clone());
    World::over(
        Arc::new(MemoryStore::default()),
        Journal::default(),
        POLICY,
        config,
    )
}

const ANA: &str = r#"{"name":"Ana","email":"ana@acme.com"}"#;

#[tokio::test]
async fn a14_a_message_goes_to_its_specialist() {
    let orchestrator = FakeModel::new([
        calls(&[("route", r#"{"specialist":"writers"}"#)]),
        calls(&[("route", r#"{"specialist":"readers"}"#)]),
    ]);
    let readers = FakeModel::new([says("Found nobody.")]);
    let writers = FakeModel::new([
        calls(&[("create_contact", ANA)]),
        says("Shall I?"),
        says("Created."),
    ]);
    let world = routed(&orchestrator, &readers, &writers);
    let shown = world.says("Create Ana, ana@acme.com").await;
    assert!(shown.starts_with("(to writers)"), "{shown}");
    // A reply to the card is not routed again.
    let shown = world.says("yes").await;
    assert!(shown.ends_with("Created."), "{shown}");
    assert_eq!(orchestrator.requests().len(), 1);
    assert_eq!(world.says("Find Ben").await, "(to readers)\nFound nobody.");
    let asked = writers.requests();
    assert_eq!(asked[0].tools.len(), 1);
    assert_eq!(asked[0].tools[0].name.as_str(), "create_contact");
    assert!(asked[0].system.starts_with("You create."));
}

#[tokio::test]
async fn x06_a_specialist_cannot_use_the_tools_of_another() {
    let orchestrator = FakeModel::new([calls(&[("route", r#"{"specialist":"readers"}"#)])]);
    let readers = FakeModel::new([calls(&[("create_contact", ANA)]), says("I cannot.")]);
    let world = routed(&orchestrator, &readers, &FakeModel::default());
    let shown = world.says("Find Ana").await;
    assert_eq!(shown, "(to readers)\n\n<create_contact: unknown_tool>\nI cannot.");
    assert!(world.ran().is_empty());
}

#[tokio::test]
async fn a14_an_orchestrator_that_picks_none_or_answers_itself() {
    let lost = FakeModel::new([calls(&[("route", r#"{"specialist":"nobody"}"#)])]);
    let readers = FakeModel::new([says("I take it.")]);
    let world = routed(&lost, &readers, &FakeModel::default());
    assert_eq!(world.says("Hm").await, "(to readers)\nI take it.");
    assert_eq!(lost.requests().len(), 2);
    let chatty = FakeModel::new([says("Hello!")]);
    let world = routed(&chatty, &readers, &FakeModel::default());
    assert_eq!(world.says("Hi").await, "Hello!");
}
