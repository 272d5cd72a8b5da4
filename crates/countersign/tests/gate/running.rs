use std::time::Duration;

use crate::world::*;
use countersign::call::RefusalReason;
use countersign::decision::Verdict;
use countersign::executor::Outcome;
use countersign::gate::SubmitError;
use countersign::id::{CallId, Person};
use countersign::state::{CallState, State};

async fn approve(world: &World, calls: Vec<countersign::gate::SubmittedCall>) -> countersign::gate::Resolved {
    let approval = world.hold(calls).await;
    world
        .gate
        .decide_and_run(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap()
}

fn states(resolved: &countersign::gate::Resolved) -> Vec<CallState> {
    resolved
        .approval
        .as_ref()
        .unwrap()
        .calls
        .iter()
        .map(|call| call.state)
        .collect()
}

#[tokio::test]
async fn a_failure_stops_the_rest_of_the_batch() {
    let world = world();
    let calls = vec![
        call("create_contact", MARIA),
        call("fail", "{}"),
        call("create_contact", MARIA),
    ];
    let resolved = approve(&world, calls).await;
    assert_eq!(
        states(&resolved),
        [CallState::Succeeded, CallState::Failed, CallState::Refused]
    );
    assert_eq!(
        resolved.approval.unwrap().calls[2].because,
        Some(RefusalReason::EarlierFailed)
    );
    assert_eq!(world.ran().len(), 2);
}

#[tokio::test]
async fn a_batch_goes_on_where_the_policy_says_so() {
    let world = world();
    let calls = vec![call("keep_going", r#"{"do":"fail"}"#), call("keep_going", "{}")];
    assert_eq!(
        states(&approve(&world, calls).await),
        [CallState::Failed, CallState::Succeeded]
    );
}

#[tokio::test(start_paused = true)]
async fn f18_a_hanging_tool_is_unknown_in_time_and_its_late_answer_is_added() {
    let world = world();
    let resolved = approve(&world, vec![call("sleep", "{}")]).await;
    assert_eq!(states(&resolved), [CallState::Unknown]);
    let approval = resolved.approval.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.now(&approval).await.calls[0].state, CallState::Succeeded);
    let history = world.history(&approval).await;
    assert_eq!(history, ["proposed", "approved", "started", "lost", "reconciled"]);
    assert_eq!(world.ran().len(), 1, "it ran once");
}

#[tokio::test]
async fn f18_a_panicking_tool_is_unknown() {
    let world = world();
    assert_eq!(
        states(&approve(&world, vec![call("panic", "{}")]).await),
        [CallState::Unknown]
    );
}

#[tokio::test]
async fn f18_an_oversized_result_is_recorded_as_having_happened() {
    let world = world();
    let approval = world.hold(vec![call("host_tool", "{}")]).await;
    world
        .gate
        .decide(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap()
        .accepted()
        .unwrap();
    let id = CallId {
        approval: approval.id,
        position: 1,
    };
    let permit = world.gate.start(&approval.tenant, id).await.unwrap().unwrap();
    let token = permit.token().unwrap().clone();
    let outcome = Outcome::succeeded(vec![b'x'; 2 << 20]);
    let after = world
        .gate
        .finish(&approval.tenant, id, &token, outcome)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(after.calls[0].state, CallState::Succeeded);
    let kept = String::from_utf8(after.calls[0].result.as_ref().unwrap().to_vec()).unwrap();
    assert!(kept.contains(r#""bytes":2097152"#), "{kept}");
}

#[tokio::test]
async fn x06_a_host_gets_one_permit_with_the_exact_bytes() {
    let world = world();
    let arguments = r#"{ "n": 9007199254740993 }"#;
    let approval = world.hold(vec![call("host_tool", arguments)]).await;
    let id = CallId {
        approval: approval.id,
        position: 1,
    };
    let tenant = &approval.tenant;
    assert_eq!(
        world.gate.start(tenant, id).await.unwrap().unwrap_err().code(),
        "wrong_state"
    );
    world
        .gate
        .decide(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap()
        .accepted()
        .unwrap();
    let permit = world.gate.start(tenant, id).await.unwrap().unwrap();
    assert_eq!(permit.arguments().as_bytes(), arguments.as_bytes());
    assert_eq!(
        world.gate.start(tenant, id).await.unwrap().unwrap_err().code(),
        "wrong_state"
    );
    let forged = countersign::executor::PermitToken::read(&"00".repeat(32)).unwrap();
    let refused = world
        .gate
        .finish(tenant, id, &forged, Outcome::succeeded("{}"))
        .await
        .unwrap();
    assert_eq!(refused.unwrap_err().code(), "not_your_permit");
    let token = permit.token().unwrap();
    let finish = || world.gate.finish(tenant, id, token, Outcome::succeeded("{}"));
    finish().await.unwrap().unwrap();
    finish().await.unwrap().expect("the same end twice is one end");
    assert_eq!(
        world.history(&approval).await,
        ["proposed", "approved", "started", "succeeded"]
    );
}

#[tokio::test]
async fn x12_a_lost_run_is_unknown_and_a_person_reconciles_it() {
    let world = world();
    let approval = world.hold(vec![call("host_tool", "{}")]).await;
    world
        .gate
        .decide(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap()
        .accepted()
        .unwrap();
    let id = CallId {
        approval: approval.id,
        position: 1,
    };
    world.gate.start(&approval.tenant, id).await.unwrap().unwrap();
    world.clock.advance(Duration::from_secs(61));
    assert_eq!(world.gate.expire_due().await.unwrap().unknown, 1);
    assert_eq!(
        world
            .gate
            .start(&approval.tenant, id)
            .await
            .unwrap()
            .unwrap_err()
            .code(),
        "wrong_state"
    );
    let alice = Person::new("alice").unwrap();
    let note = Some("it is in the outbox".to_owned());
    let after = world
        .gate
        .reconcile(&approval.tenant, id, alice, true, note)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(after.calls[0].state, CallState::Succeeded);
}

#[tokio::test]
async fn a_release_that_nobody_starts_in_time_is_refused() {
    let world = world();
    let approval = world.hold(vec![call("host_tool", "{}")]).await;
    world
        .gate
        .decide(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap()
        .accepted()
        .unwrap();
    world.clock.advance(Duration::from_secs(300));
    let id = CallId {
        approval: approval.id,
        position: 1,
    };
    let refusal = world.gate.start(&approval.tenant, id).await.unwrap().unwrap_err();
    assert_eq!(
        refusal.to_string(),
        format!("call `{id}` is refused: not started in time")
    );
}

#[tokio::test]
async fn a15_a_credential_reaches_the_tool_and_is_erased_with_the_call() {
    let world = world();
    let calls = vec![with_secret(
        call("log_in", r#"{"name":"ann","password":"p-canary"}"#),
        "key-canary",
    )];
    let approval = world.hold(calls).await;
    let sealed = approval.calls[0].sealed.clone().expect("kept while it is needed");
    assert!(!sealed.windows(6).any(|window| window == b"canary"));
    assert!(
        !approval.calls[0].terms.summary.contains("canary"),
        "{}",
        approval.calls[0].terms.summary
    );
    assert!(
        !format!("{approval:?}").contains("canary"),
        "nor does anything print it"
    );
    let resolved = world
        .gate
        .decide_and_run(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap();
    assert_eq!(*world.secrets.lock().unwrap(), [b"key-canary"]);
    assert_eq!(resolved.approval.unwrap().calls[0].sealed, None);

    let denied = world
        .hold(vec![with_secret(
            call("log_in", r#"{"name":"a","password":"b"}"#),
            "k",
        )])
        .await;
    world
        .gate
        .decide(decision(&denied, alice(), Verdict::Deny))
        .await
        .unwrap()
        .accepted()
        .unwrap();
    assert_eq!(world.now(&denied).await.calls[0].sealed, None);
}

#[tokio::test]
async fn a15_without_a_key_a_call_with_a_credential_is_not_taken() {
    let store = std::sync::Arc::new(countersign::store::memory::MemoryStore::default());
    let gate = countersign::gate::Gate::new(store, std::sync::Arc::new(countersign::policy::Policy::empty()));
    let calls = vec![with_secret(call("log_in", "{}"), "key")];
    assert!(matches!(
        gate.submit(submission(calls)).await.unwrap_err(),
        SubmitError::Seal(_)
    ));
}

#[tokio::test]
async fn a17_an_undo_is_shown_decided_and_run_once() {
    let world = world();
    let done = approve(&world, vec![call("create_contact", MARIA)])
        .await
        .approval
        .unwrap();
    let call_id = CallId {
        approval: done.id,
        position: 1,
    };
    let undo = world.gate.undo(submission(vec![]), call_id).await.unwrap();
    assert_eq!(undo.calls[0].terms.summary, "Delete contact c-1");
    assert_eq!(undo.calls[0].arguments.as_bytes(), br#"{"id":"c-1"}"#);
    assert_eq!(undo.state, State::Pending);
    let mut elsewhere = submission(vec![]);
    elsewhere.channel = None;
    let second = world.gate.undo(elsewhere, call_id).await.unwrap();
    world
        .gate
        .decide_and_run(decision(&undo, alice(), Verdict::Approve))
        .await
        .unwrap()
        .accepted()
        .unwrap();
    assert_eq!(world.now(&done).await.calls[0].state, CallState::Undone);
    let late = world
        .gate
        .decide_and_run(decision(&second, alice(), Verdict::Approve))
        .await
        .unwrap();
    assert!(late.ran.is_empty(), "what is undone is not undone again");
    assert_eq!(world.ran().len(), 2);
    assert!(matches!(
        world.gate.undo(submission(vec![]), call_id).await,
        Err(SubmitError::Refused(_))
    ));
}

#[tokio::test]
async fn a17_a_call_without_an_undo_says_so() {
    let world = world();
    let done = approve(&world, vec![call("delete_contact", r#"{"id":"c-1"}"#)])
        .await
        .approval
        .unwrap();
    let call_id = CallId {
        approval: done.id,
        position: 1,
    };
    assert!(matches!(
        world.gate.undo(submission(vec![]), call_id).await,
        Err(SubmitError::NoUndo(..))
    ));
}

/// A node sleeps between the recorded start and sending the call; by then others may have given the call up.
#[tokio::test]
async fn x84_what_is_past_its_deadline_is_not_sent() {
    use countersign::executor::{Outcome, Permit, Tools};
    use countersign::gate::{Gate, Ruled, Submission, SubmittedCall};
    use countersign::id::{Agent, Person, Tenant, ToolName};
    use countersign::policy::Policy;
    use countersign::store::Store;
    use countersign::store::memory::MemoryStore;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let tools = Tools::default().with(ToolName::new("pay").unwrap(), move |_: Permit| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Outcome::succeeded("{}") }
    });
    let policy = "[tools.pay]\neffect = \"external\"\nhold = \"false\"\ntimeout = \"1s\"\n";
    let store = Arc::new(MemoryStore::default());
    let gate =
        Gate::new(store.clone(), Arc::new(Policy::parse(policy).unwrap())).with_executor(Arc::new(tools));
    let tenant = Tenant::new("t").unwrap();
    let submit = async || {
        let call = SubmittedCall::new("pay", &b"{}"[..]);
        let agent = Agent::new("crm").unwrap();
        let submission =
            Submission::new(tenant.clone(), agent, Person::new("p").unwrap(), vec![call]).unwrap();
        match gate.submit(submission).await.unwrap().calls.pop() {
            Some(Ruled::Pass(permit)) => permit,
            other => panic!("{other:?}"),
        }
    };
    // Asleep past the deadline, without a sweep: the call is not sent, and is recorded as failed.
    let permit = submit().await;
    let id = permit.call().unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(permit.time_left(), None);
    let outcome = gate.run_passed(permit).await;
    assert!(matches!(&outcome, Outcome::NotSent(_)), "{outcome:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    let kept = store.approval(&tenant, id.approval).await.unwrap().unwrap();
    assert!(kept.calls[0].was_not_sent(), "{:?}", kept.calls[0]);
    assert_eq!(gate.outcome_of(&tenant, id).await, outcome);
    // Given up by the sweep and reconciled by a person: the call is not sent, and the person's word stands.
    let permit = submit().await;
    let id = permit.call().unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(gate.expire_due().await.unwrap().unknown, 1);
    let by = Person::new("ana").unwrap();
    gate.reconcile(&tenant, id, by, false, None)
        .await
        .unwrap()
        .unwrap();
    gate.run_passed(permit).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    // In time by its own clock but given up meanwhile, as after a clock jump: reading the record again prevents
    // sending.
    let permit = submit().await;
    let (id, token) = (permit.call().unwrap(), permit.token().cloned().unwrap());
    let lost = Outcome::Unknown("given up".to_owned());
    gate.finish(&tenant, id, &token, lost).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(permit.time_left().is_some());
    gate.run_passed(permit).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    // A call in time runs.
    gate.run_passed(submit().await).await;
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}
