//! Store failures: the turn ends with an error, and nothing runs.

use std::sync::Arc;

use countersign::store::StoreError;
use countersign::store::memory::MemoryStore;
use countersign::store::suite::failing::{Breaks, FailingStore, Fault};

use crate::dialogue::{ASK, MARIA};
use crate::world::*;

async fn fails_at(call: usize, breaks: Breaks) -> (World, Arc<FailingStore<MemoryStore>>) {
    let error = StoreError::Unavailable("the disk is gone".to_owned());
    let fault = Fault { call, breaks, error };
    let store = Arc::new(FailingStore::new(MemoryStore::default(), vec![fault]));
    let world = World::over(store.clone(), Journal::default(), POLICY, config(AGENT, MARIA));
    (world, store)
}

#[tokio::test(start_paused = true)]
async fn a12_a_store_that_fails_anywhere_in_a_turn_runs_nothing() {
    let (whole, store) = fails_at(usize::MAX, Breaks::Before).await;
    whole.says(ASK).await;
    let calls = store.calls();
    assert!(calls > 8, "{calls}");
    let mut failed = 0;
    for call in 1..=calls {
        for breaks in [Breaks::Before, Breaks::After] {
            let (world, _) = fails_at(call, breaks).await;
            let (shown, result) = world.try_says(ASK).await;
            failed += usize::from(result.is_err());
            assert!(world.ran().is_empty(), "call {call} {breaks:?}: {shown}");
            if result.is_err() {
                assert!(
                    !shown.contains("to cancel.}"),
                    "call {call} {breaks:?}: a card without a session: {shown}"
                );
            }
            // The session can still be used.
            let shown = world.says("actually, show me my contacts").await;
            assert!(
                shown.ends_with("There is John Smith."),
                "call {call} {breaks:?}: {shown}"
            );
        }
    }
    assert!(failed > calls, "{failed} of {}", 2 * calls);
}

#[tokio::test(start_paused = true)]
async fn a12_a_store_that_fails_at_the_yes_runs_the_call_at_most_once() {
    let (whole, store) = fails_at(usize::MAX, Breaks::Before).await;
    whole.says(ASK).await;
    let asked = store.calls();
    whole.says("yes").await;
    for call in asked + 1..=store.calls() {
        for breaks in [Breaks::Before, Breaks::After] {
            let (world, _) = fails_at(call, breaks).await;
            world.says(ASK).await;
            let (first, _) = world.try_says("yes").await;
            let (second, _) = world.try_says("yes").await;
            let ran = world.ran().len();
            assert!(ran <= 1, "call {call} {breaks:?}: {first} / {second}");
            let session = world.agent.session(&tenant(), &channel()).await.unwrap();
            let told = format!("{:?}", session.messages());
            if session.open_approvals().is_empty() && ran == 1 {
                assert!(
                    told.contains("succeeded") || told.contains("unknown"),
                    "call {call} {breaks:?}: {told}"
                );
            }
        }
    }
}
