//! The evaluator: skipped if and only if the turn left a card; fails open; retries are bounded.

use std::sync::Arc;

use countersign::store::memory::MemoryStore;
use countersign_agent::agent::{Evaluator, Role};
use countersign_agent::model::{AnswerPart, ModelError};

use crate::fake_model::*;
use crate::world::*;

type Answers = Vec<Vec<Result<AnswerPart, ModelError>>>;

const ANA: &str = r#"{"name":"Ana","email":"ana@acme.com"}"#;

fn evaluated(specialist: Answers, evaluator: Answers) -> (World, FakeModel) {
    evaluated_with_retries(specialist, evaluator, 2)
}

fn evaluated_with_retries(specialist: Answers, evaluator: Answers, retries: u32) -> (World, FakeModel) {
    let judge = FakeModel::new(evaluator);
    let mut config = config_with(Arc::new(FakeModel::new(specialist)));
    config.evaluator = Some(Evaluator {
        role: Role {
            prompt: "Judge.".to_owned(),
            model: Arc::new(judge.clone()),
        },
        retries,
    });
    let world = World::over(
        Arc::new(MemoryStore::default()),
        Journal::default(),
        POLICY,
        config,
    );
    (world, judge)
}

fn verdict(arguments: &str) -> Vec<Result<AnswerPart, ModelError>> {
    calls(&[("verdict", arguments)])
}

#[tokio::test]
async fn a11_a_turn_that_left_a_card_is_not_evaluated() {
    let fail = verdict(r#"{"pass":false,"reason":"nothing was created"}"#);
    let (world, judge) = evaluated(
        vec![calls(&[("create_contact", ANA)]), says("Please confirm.")],
        vec![fail],
    );
    let shown = world.says("Create Ana, ana@acme.com").await;
    assert!(shown.ends_with("to cancel.}"), "{shown}");
    assert!(judge.requests().is_empty());
    // The answer after the approval is judged as usual.
    world.says("yes").await;
    assert_eq!(judge.requests().len(), 3);
}

#[tokio::test]
async fn a11_a_rejected_answer_is_generated_again() {
    let answers = vec![says("No idea."), says("I cannot create it: there is no address.")];
    let verdicts = vec![
        verdict(r#"{"pass":false,"reason":"say why"}"#),
        verdict(r#"{"pass":true}"#),
    ];
    let (world, judge) = evaluated(answers, verdicts);
    let shown = world.says("Create Ana").await;
    assert_eq!(
        shown,
        "(again: say why)\nI cannot create it: there is no address."
    );
    assert_eq!(judge.requests().len(), 2);
    let session = world.agent.session(&tenant(), &channel()).await.unwrap();
    assert!(!format!("{:?}", session.messages()).contains("No idea."));
}

/// Attempts that may be rejected are held back until judged; the last attempt is streamed.
#[tokio::test]
async fn a11_only_the_last_attempt_is_streamed() {
    let gone = || vec![fails(ModelError::Unreachable("gone".to_owned()))];
    let (world, _) = evaluated_with_retries(vec![says("Hi.")], gone(), 1);
    let shown = world.says("Hello").await;
    assert!(
        shown.starts_with("(notice: ") && shown.ends_with("Hi."),
        "{shown}"
    );
    let (world, judge) = evaluated_with_retries(vec![says("Hi.")], gone(), 0);
    let shown = world.says("Hello").await;
    assert!(shown.starts_with("Hi.\n(notice: "), "{shown}");
    assert_eq!(judge.requests().len(), 1, "it is judged all the same");
}

#[tokio::test]
async fn a11_retries_are_bounded() {
    let (world, judge) = evaluated(vec![says("No.")], vec![verdict(r#"{"pass":false}"#)]);
    let shown = world.says("Help").await;
    assert!(shown.ends_with("No."), "{shown}");
    assert_eq!(judge.requests().len(), 3);
}

#[tokio::test]
async fn a11_a_failing_evaluator_accepts_the_answer() {
    for broken in [
        fails(ModelError::Unreachable("gone".to_owned())),
        says("looks fine to me"),
        verdict("{broken"),
        verdict(r#"{"pass":"no"}"#),
        vec![],
    ] {
        let (world, judge) = evaluated(vec![says("Hello.")], vec![broken]);
        let shown = world.says("Hi").await;
        assert!(
            shown.ends_with("Hello.") || shown.starts_with("(notice:"),
            "{shown}"
        );
        assert!(shown.contains("Hello."), "{shown}");
        assert_eq!(judge.requests().len(), 1);
    }
}
