//! Embedding the gate in a program: typed tools, streams, background work, and runtimes without timers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use countersign::decision::{Refusal, Verdict};
use countersign::executor::{Outcome, Tools};
use countersign::gate::{Gate, Until, Waited};
use countersign::id::Tenant;
use countersign::policy::Policy;
use countersign::state::CallState;
use countersign::store::StoreError;
use countersign::store::memory::MemoryStore;
use futures_util::StreamExt;

use crate::world::{MARIA, alice, call, decision, mallory, submission, world};

const PAY: &str = "[tools.pay]\neffect = \"external\"\n";

#[derive(serde::Deserialize)]
struct Payment {
    amount: u64,
}

/// Creates a gate with a paying tool, without an explicit `Arc`. Also returns the counter of its payments.
fn paying() -> (Gate, Arc<AtomicUsize>) {
    let paid = Arc::new(AtomicUsize::new(0));
    let count = paid.clone();
    let tools = Tools::default()
        .typed("pay", move |payment: Payment| {
            let count = count.clone();
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                match payment.amount {
                    0 => Err("nothing to pay"),
                    amount => Ok(serde_json::json!({ "paid": amount })),
                }
            }
        })
        .unwrap();
    let gate = Gate::new(MemoryStore::default(), Policy::parse(PAY).unwrap()).with_executor(tools);
    (gate, paid)
}

#[tokio::test]
async fn a_typed_tool_gets_its_own_type_and_answers_in_json() {
    let (gate, paid) = paying();
    let approve = async |arguments: &str| {
        let submitted = gate
            .submit(submission(vec![call("pay", arguments)]))
            .await
            .unwrap();
        let approval = submitted.approval.unwrap();
        let resolved = gate
            .decide_and_run(decision(&approval, alice(), Verdict::Approve))
            .await;
        resolved
            .unwrap()
            .accepted()
            .unwrap()
            .pop()
            .expect("one call ran")
            .outcome
    };
    assert_eq!(
        approve(r#"{"amount":5}"#).await,
        Outcome::succeeded(r#"{"paid":5}"#)
    );
    assert_eq!(
        approve(r#"{"amount":0}"#).await,
        Outcome::failed("nothing to pay")
    );
    assert_eq!(paid.load(Ordering::SeqCst), 2);
    let Outcome::Failed(reason) = approve(r#"{"amount":"5"}"#).await else {
        panic!("arguments of another type were taken");
    };
    assert!(
        reason.starts_with(b"not run: "),
        "{}",
        String::from_utf8_lossy(&reason)
    );
    assert_eq!(paid.load(Ordering::SeqCst), 2, "the tool did not run");
}

#[tokio::test]
async fn a_refused_decision_is_an_error_to_whoever_asks() {
    let world = world();
    let approval = world.hold(vec![call("create_contact", MARIA)]).await;
    let refused = world
        .gate
        .decide(decision(&approval, mallory(), Verdict::Approve))
        .await
        .unwrap();
    assert!(matches!(refused.accepted(), Err(Refusal::NotAllowed { .. })));
    assert_eq!(world.ran(), [""; 0]);
}

/// The tool ran on such a runtime, and its outcome was lost.
#[test]
fn without_timers_nothing_starts() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (gate, paid) = paying();
    runtime.block_on(async {
        let submitted = gate
            .submit(submission(vec![call("pay", r#"{"amount":5}"#)]))
            .await
            .unwrap();
        let approval = submitted.approval.unwrap();
        let error = gate
            .decide_and_run(decision(&approval, alice(), Verdict::Approve))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, StoreError::Unavailable(why) if why.contains("enable_time")),
            "{error}"
        );
        let kept = gate
            .store()
            .approval(&approval.tenant, approval.id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(kept.calls[0].state, CallState::Held, "nothing was decided");
    });
    assert_eq!(paid.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn d2_pending_approvals_are_streamed_as_they_come() {
    let (gate, _) = paying();
    let tenant = Tenant::single();
    let propose = async |amount: u32| {
        let mut submission = submission(vec![call("pay", &format!("{{\"amount\":{amount}}}"))]);
        submission.channel = None;
        gate.submit(submission).await.unwrap().approval.unwrap().id
    };
    let first = propose(1).await;
    let mut pending = std::pin::pin!(gate.pending(&tenant));
    assert_eq!(pending.next().await.unwrap().unwrap().id, first);
    let (second, next) = tokio::join!(propose(2), pending.next());
    assert_eq!(next.unwrap().unwrap().id, second);
    let third = propose(3).await;
    assert_eq!(
        pending.next().await.unwrap().unwrap().id,
        third,
        "none comes twice"
    );
}

/// A decision by another program that shares the store, or before this process started.
#[tokio::test]
async fn x89_maintain_runs_what_was_released_elsewhere() {
    let (gate, paid) = paying();
    let tenant = Tenant::single();
    let propose = async |amount: u32| {
        let mut submission = submission(vec![call("pay", &format!("{{\"amount\":{amount}}}"))]);
        submission.channel = None;
        gate.submit(submission).await.unwrap().approval.unwrap()
    };
    // `decide` only records; this gate does not run what it releases.
    let release = async |amount: u32| {
        let approval = propose(amount).await;
        let decided = gate.decide(decision(&approval, alice(), Verdict::Approve)).await;
        decided.unwrap().accepted().unwrap();
        approval.id
    };
    let before = release(1).await;
    let upkeep = tokio::spawn({
        let (gate, tenant) = (gate.clone(), tenant.clone());
        async move { gate.maintain(&tenant).await }
    });
    let finished = async |id| {
        let waited = gate
            .wait(&tenant, id, Until::Finished, Duration::from_secs(10))
            .await;
        assert!(matches!(waited.unwrap(), Waited::Done(_)));
    };
    finished(before).await;
    finished(release(2).await).await;
    assert_eq!(paid.load(Ordering::SeqCst), 2);
    upkeep.abort();
}
