//! The evaluator: skipped when and only when this turn left a card, fail-open, bounded.

use std::sync::Arc;

use countersign::store::memory::MemoryStore;
use countersign_agent::agent::{Evaluator, Role};
use countersign_agent::model::{ModelError, Part};

use crate::puppet::*;
use crate::world::*;

type Answers = Vec<Vec<Result<Part, ModelError>>>;

const ANA: &str = r#"{"name":"Ana","email":"ana@acme.com"}"#;

fn judged(specialist: Answers, evaluator: Answers) -> (World, Puppet) {
    judged_again(specialist, evaluator, 2)
}

fn judged_again(specialist: Answers, evaluator: Answers, retries: u32) -> (World, Puppet) {
    let judge = Puppet::new(evaluator);
    let mut plan = plan_of(Arc::new(Puppet::new(specialist)));
    plan.evaluator = Some(Evaluator {
        role: Role {
            prompt: "Judge.".to_owned(),
            model: Arc::new(judge.clone()),
        },
        retries,
    });
    let world = World::over(Arc::new(MemoryStore::default()), Journal::default(), POLICY, plan);
    (world, judge)
}

fn verdict(arguments: &str) -> Vec<Result<Part, ModelError>> {
    calls(&[("verdict", arguments)])
}

#[tokio::test]
async fn a11_a_turn_that_left_a_card_is_not_judged() {
    let fail = verdict(r#"{"pass":false,"reason":"nothing was created"}"#);
    let (world, judge) = judged(
        vec![calls(&[("create_contact", ANA)]), says("Please confirm.")],
        vec![fail],
    );
    let shown = world.says("Create Ana, ana@acme.com").await;
    assert!(shown.ends_with("to cancel.}"), "{shown}");
    assert!(judge.asked().is_empty());
    // What comes after the yes is an answer like any other.
    world.says("yes").await;
    assert_eq!(judge.asked().len(), 3);
}

#[tokio::test]
async fn a11_an_answer_without_a_card_is_judged_and_given_again() {
    let answers = vec![says("No idea."), says("I cannot create it: there is no address.")];
    let verdicts = vec![
        verdict(r#"{"pass":false,"reason":"say why"}"#),
        verdict(r#"{"pass":true}"#),
    ];
    let (world, judge) = judged(answers, verdicts);
    let shown = world.says("Create Ana").await;
    assert_eq!(
        shown,
        "(again: say why)\nI cannot create it: there is no address."
    );
    assert_eq!(judge.asked().len(), 2);
    let session = world.agent.session(&tenant(), &channel()).await.unwrap();
    assert!(!format!("{:?}", session.messages()).contains("No idea."));
}

/// What could be taken back is not heard before it is judged; what stands anyway is heard as it comes.
#[tokio::test]
async fn a11_only_an_answer_that_stands_is_heard_before_it_is_judged() {
    let gone = || vec![fails(ModelError::Unreachable("gone".to_owned()))];
    let (world, _) = judged_again(vec![says("Hi.")], gone(), 1);
    let shown = world.says("Hello").await;
    assert!(
        shown.starts_with("(notice: ") && shown.ends_with("Hi."),
        "{shown}"
    );
    let (world, judge) = judged_again(vec![says("Hi.")], gone(), 0);
    let shown = world.says("Hello").await;
    assert!(shown.starts_with("Hi.\n(notice: "), "{shown}");
    assert_eq!(judge.asked().len(), 1, "it is judged all the same");
}

#[tokio::test]
async fn a11_retries_are_bounded() {
    let (world, judge) = judged(vec![says("No.")], vec![verdict(r#"{"pass":false}"#)]);
    let shown = world.says("Help").await;
    assert!(shown.ends_with("No."), "{shown}");
    assert_eq!(judge.asked().len(), 3);
}

#[tokio::test]
async fn a11_an_evaluator_that_breaks_lets_the_answer_through() {
    for broken in [
        fails(ModelError::Unreachable("gone".to_owned())),
        says("looks fine to me"),
        verdict("{broken"),
        verdict(r#"{"pass":"no"}"#),
        vec![],
    ] {
        let (world, judge) = judged(vec![says("Hello.")], vec![broken]);
        let shown = world.says("Hi").await;
        assert!(
            shown.ends_with("Hello.") || shown.starts_with("(notice:"),
            "{shown}"
        );
        assert!(shown.contains("Hello."), "{shown}");
        assert_eq!(judge.asked().len(), 1);
    }
}
