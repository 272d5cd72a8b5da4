//! Passed calls that are more than reads: recorded once, whatever the policy says later.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::approval::SharedApproval;
use countersign::executor::{Executor, Outcome, Permit};
use countersign::gate::{Gate, Ruled, Submission, SubmitError, SubmittedCall};
use countersign::id::{Agent, Key, Person, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::state::{CallState, State};
use countersign::store::memory::MemoryStore;
use countersign::store::{Filter, Store};
use futures_util::future::BoxFuture;

/// Executor that records its calls; a call of `hang` never ends.
#[derive(Default)]
struct Recording(Mutex<Vec<String>>);

impl Executor for Recording {
    fn runs(&self, _tool: &ToolName) -> bool {
        true
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
        let id = permit.call().map(|call| call.to_string()).unwrap_or_default();
        self.0.lock().unwrap().push(id);
        let hangs = permit.tool().as_str() == "hang";
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            Outcome::succeeded("{}")
        })
    }
}

const PASSES: &str = r#"
[tools.pay]
effect = "external"
hold = "args.amount > 100"
[tools.hang]
effect = "write"
hold = "false"
timeout = "1s"
"#;
const HOLDS: &str = "[tools.pay]\neffect = \"external\"\n";

struct Setting {
    store: Arc<MemoryStore>,
    ran: Arc<Recording>,
}

impl Setting {
    fn new() -> Setting {
        Setting {
            store: Arc::new(MemoryStore::default()),
            ran: Arc::default(),
        }
    }

    fn gate(&self, policy: &str) -> Gate {
        let policy = Arc::new(Policy::parse(policy).unwrap());
        Gate::new(self.store.clone(), policy).with_executor(self.ran.clone())
    }

    fn runs(&self) -> usize {
        self.ran.0.lock().unwrap().len()
    }

    async fn all(&self) -> Vec<SharedApproval> {
        let all = self.store.list(&tenant(), &Filter::default()).await;
        all.unwrap()
    }
}

fn tenant() -> Tenant {
    Tenant::new("t").unwrap()
}

fn turn(amounts: &[u32], key: Option<&str>) -> Submission {
    let call = |amount: &u32| SubmittedCall::new("pay", format!("{{\"amount\":{amount}}}").into_bytes());
    Submission {
        key: key.map(|key| Key::new(key).unwrap()),
        ..Submission::new(
            tenant(),
            Agent::new("crm").unwrap(),
            Person::new("token").unwrap(),
            amounts.iter().map(call).collect(),
        )
        .unwrap()
    }
}

async fn run_all(gate: &Gate, ruled: Vec<Ruled>) {
    for ruled in ruled {
        if let Ruled::Pass(permit) = ruled {
            gate.run_passed(permit).await;
        }
    }
}

#[tokio::test]
async fn x58_a_retry_under_another_policy_runs_nothing_twice() {
    let setting = Setting::new();
    let (passing, holding) = (setting.gate(PASSES), setting.gate(HOLDS));
    // The call passed and ran, and the policy now holds it: the retry refers to the run.
    let submitted = passing.submit(turn(&[5], Some("a"))).await.unwrap();
    run_all(&passing, submitted.calls).await;
    assert_eq!(setting.runs(), 1);
    let again = holding.submit(turn(&[5], Some("a"))).await.unwrap();
    assert!(matches!(again.calls[0], Ruled::PassedBefore(_)), "{again:?}");
    assert!(again.approval.is_none());
    // The call is held, and the policy now passes it: the pending question stands.
    let held = holding.submit(turn(&[6], Some("b"))).await.unwrap();
    let asked = held.approval.unwrap();
    let again = passing.submit(turn(&[6], Some("b"))).await.unwrap();
    let [Ruled::Held(call)] = again.calls.as_slice() else {
        panic!("{again:?}")
    };
    assert_eq!((call.approval, again.approval.unwrap().id), (asked.id, asked.id));
    // With several calls the old and new rulings cannot be matched: refused, and nothing runs.
    let held = holding.submit(turn(&[7, 8], Some("c"))).await.unwrap();
    assert!(held.approval.is_some());
    let again = passing.submit(turn(&[7, 8], Some("c"))).await;
    assert!(matches!(again, Err(SubmitError::Refused(_))), "{again:?}");
    let submitted = passing.submit(turn(&[9, 10], Some("d"))).await.unwrap();
    run_all(&passing, submitted.calls).await;
    assert_eq!(setting.runs(), 3);
    let again = holding.submit(turn(&[9, 10], Some("d"))).await;
    assert!(matches!(again, Err(SubmitError::Refused(_))), "{again:?}");
    let half = passing.submit(turn(&[11, 500], Some("e"))).await.unwrap();
    run_all(&passing, half.calls).await;
    assert_eq!(setting.runs(), 4);
    let again = holding.submit(turn(&[11, 500], Some("e"))).await;
    assert!(matches!(again, Err(SubmitError::Refused(_))), "{again:?}");
    assert_eq!(setting.runs(), 4);
}

#[tokio::test(start_paused = true)]
async fn x58_a_passed_call_that_hangs_is_unknown_and_not_run_again() {
    let setting = Setting::new();
    let gate = setting.gate(PASSES);
    let hang = || Submission {
        calls: vec![SubmittedCall::new("hang", &b"{}"[..])],
        ..turn(&[], Some("h"))
    };
    let Some(Ruled::Pass(permit)) = gate.submit(hang()).await.unwrap().calls.pop() else {
        panic!("it passes")
    };
    let outcome = gate.run_passed(permit).await;
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    let all = setting.all().await;
    assert_eq!(all.len(), 1);
    assert_eq!(
        (all[0].state, all[0].calls[0].state),
        (State::Passed, CallState::Unknown)
    );
    let Some(Ruled::PassedBefore(call)) = gate.submit(hang()).await.unwrap().calls.pop() else {
        panic!("it was started")
    };
    assert!(matches!(
        gate.outcome_of(&tenant(), call).await,
        Outcome::Unknown(_)
    ));
    assert_eq!(setting.runs(), 1);
}

#[tokio::test]
async fn x58_a_permit_that_nobody_uses_ends_as_unknown() {
    let setting = Setting::new();
    let gate = setting.gate(PASSES);
    let submitted = gate.submit(turn(&[5], None)).await.unwrap();
    drop(submitted);
    let all = setting.all().await;
    assert_eq!(all[0].calls[0].state, CallState::Running);
    let deadline = all[0].calls[0].execution.as_ref().unwrap().deadline;
    assert_eq!(all[0].due_at(), Some(deadline), "the sweep will end it");
    assert!(deadline > all[0].created_at.plus(Duration::from_secs(1)));
}
