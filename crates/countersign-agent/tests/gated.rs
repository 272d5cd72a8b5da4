//! Tools behind the gate in an agent loop of another framework.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what they expect"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::decision::{Decider, Decision, Surface, Verdict};
use countersign::effect::Risk;
use countersign::executor::{Outcome, Tools};
use countersign::gate::Gate;
use countersign::id::{Person, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::state::{CallState, State};
use countersign::store::memory::MemoryStore;
use countersign::store::{Filter, Store};
use countersign_agent::gated::{CallError, GatedTools, RejectionReason};

const POLICY: &str = r#"
[tools.search]
effect = "read"
[tools.send_mail]
effect = "external"
[tools.refund]
effect = "external"
deny = "args.amount > 100.0"
"#;

struct World {
    gate: Gate,
    store: Arc<MemoryStore>,
    ran: Arc<Mutex<Vec<String>>>,
}

fn world() -> World {
    let ran = Arc::<Mutex<Vec<String>>>::default();
    let mut tools = Tools::default();
    for name in ["search", "send_mail", "refund"] {
        let ran = ran.clone();
        tools = tools.with(ToolName::new(name).unwrap(), move |permit| {
            let arguments = String::from_utf8_lossy(permit.arguments().as_bytes()).into_owned();
            ran.lock().unwrap().push(format!("{name} {arguments}"));
            async move {
                match arguments.contains("fail") {
                    true => Outcome::failed("no such address"),
                    false if arguments.contains("unreachable") => {
                        Outcome::NotSent("no connection".to_owned())
                    }
                    false => Outcome::succeeded("ok"),
                }
            }
        });
    }
    let store = Arc::new(MemoryStore::default());
    let policy = Arc::new(Policy::parse(POLICY).unwrap());
    let gate = Gate::new(store.clone(), policy).with_executor(Arc::new(tools));
    World { gate, store, ran }
}

impl World {
    fn gated(&self) -> GatedTools {
        GatedTools::new(self.gate.clone(), "support")
            .unwrap()
            .with_wait_limit(Duration::from_secs(10))
    }

    /// Decides the only pending approval as `alice`.
    async fn decide(&self, gate: &Gate, verdict: Verdict, comment: Option<&str>) {
        let pending = loop {
            let pending = self
                .store
                .list(&Tenant::single(), &Filter::pending())
                .await
                .unwrap();
            if let [pending] = pending.as_slice() {
                break pending.clone();
            }
            tokio::task::yield_now().await;
        };
        let decision = {
            let mut decision = Decision::on(
                Tenant::single(),
                countersign::card::WholeCard::shown(&pending),
                Decider::new(
                    Person::new("alice").unwrap(),
                    vec!["approvers".to_owned()],
                    Surface::Page,
                ),
                verdict,
            );
            decision.comment = comment.map(str::to_owned);
            decision
        };
        gate.decide_and_run(decision).await.unwrap().accepted().unwrap();
    }

    fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a1_a_read_runs_at_once_and_a_write_after_a_yes() {
    let world = world();
    let gated = world.gated();
    assert_eq!(gated.call("search", "{}").await, Ok("ok".to_owned()));
    let mail = r#"{"to": "maria@acme.com"}"#;
    let (sent, ()) = tokio::join!(
        gated.call("send_mail", mail),
        world.decide(&world.gate, Verdict::Approve, None)
    );
    assert_eq!(sent, Ok("ok".to_owned()));
    assert_eq!(world.ran(), ["search {}".to_owned(), format!("send_mail {mail}")]);
}

#[tokio::test]
async fn d5_a_rejection_is_an_error_with_tool_and_comment() {
    let world = world();
    let gated = world.gated();
    let no = world.decide(&world.gate, Verdict::Deny, Some("do not contact this customer"));
    let (sent, ()) = tokio::join!(gated.call("send_mail", "{}"), no);
    let Err(CallError::Rejected(rejected)) = sent else {
        panic!("{sent:?}")
    };
    assert_eq!(
        (
            rejected.tool.as_str(),
            rejected.reason,
            rejected.comment.as_deref()
        ),
        (
            "send_mail",
            RejectionReason::Denied,
            Some("do not contact this customer")
        )
    );
    assert_eq!(
        rejected.to_string(),
        "`send_mail` was denied by `alice`: do not contact this customer"
    );
    assert!(world.ran().is_empty());
}

#[tokio::test]
async fn d5_an_approval_is_withdrawn_when_the_wait_ends() {
    let world = world();
    let gated = world.gated().with_wait_limit(Duration::from_millis(20));
    let sent = gated.call("send_mail", "{}").await;
    let Err(CallError::Rejected(rejected)) = sent else {
        panic!("{sent:?}")
    };
    assert_eq!(rejected.reason, RejectionReason::TimedOut);
    let approval = world
        .store
        .approval(&Tenant::single(), rejected.approval)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(approval.state, State::Withdrawn);
    assert!(world.ran().is_empty());
}

#[tokio::test]
async fn a_call_approved_in_another_process_runs_here() {
    let world = world();
    let policy = Arc::new(Policy::parse(POLICY).unwrap());
    let page = Gate::new(world.store.clone(), policy);
    let gated = world.gated();
    let (sent, ()) = tokio::join!(
        gated.call("send_mail", "{}"),
        world.decide(&page, Verdict::Approve, None)
    );
    assert_eq!(sent, Ok("ok".to_owned()));
    assert_eq!(world.ran().len(), 1);
}

#[tokio::test]
async fn failed_and_forbidden_calls_are_distinct_errors() {
    let world = world();
    let gated = world.gated();
    let (sent, ()) = tokio::join!(
        gated.call("send_mail", r#"{"to":"fail"}"#),
        world.decide(&world.gate, Verdict::Approve, None)
    );
    assert!(matches!(sent, Err(CallError::Failed { reason, .. }) if reason == "no such address"));
    let (held, ()) = tokio::join!(
        gated.call("send_mail", r#"{"to":"unreachable"}"#),
        world.decide(&world.gate, Verdict::Approve, None)
    );
    let passed = gated.call("search", r#"{"q":"unreachable"}"#).await;
    for not_sent in [held, passed] {
        let told = not_sent.unwrap_err();
        assert!(
            matches!(&told, CallError::NotSent { reason, .. } if reason == "no connection"),
            "{told}"
        );
        assert!(told.to_string().contains("nothing ran"), "{told}");
    }
    let refund = gated.call("refund", r#"{"amount": 500.0}"#).await;
    assert!(matches!(refund, Err(CallError::Forbidden { .. })), "{refund:?}");
    let broken = gated.call("send_mail", "{broken").await;
    assert!(matches!(broken, Err(CallError::Forbidden { .. })), "{broken:?}");
}

#[tokio::test]
async fn d4_an_agent_requests_approval_by_itself() {
    let world = world();
    let gated = world.gated();
    let tool = GatedTools::request_approval_tool().unwrap();
    let request = r#"{"toolName":"send_mail","description":"a welcome mail","riskLevel":"high"}"#;
    assert_eq!(tool.check(request.as_bytes()), Ok(()));
    let yes = world.decide(&world.gate, Verdict::Approve, Some("fine"));
    let (granted, ()) = tokio::join!(gated.request_approval(request), yes);
    let granted = granted.unwrap();
    assert_eq!(granted.comment.as_deref(), Some("fine"));
    let approval = world
        .store
        .approval(&Tenant::single(), granted.approval)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(approval.calls[0].terms.risk(), Risk::High);
    assert_eq!(approval.calls[0].tool.as_str(), "requestApproval");
    assert_eq!(approval.calls[0].state, CallState::Succeeded);
    // The approval released no tool: the mail itself still needs a decision.
    assert!(world.ran().is_empty());
    let no = world.decide(&world.gate, Verdict::Deny, None);
    let (refused, ()) = tokio::join!(gated.request_approval(request), no);
    assert!(matches!(refused, Err(CallError::Rejected(_))), "{refused:?}");
    assert!(matches!(
        gated.request_approval("{}").await,
        Err(CallError::BadRequest(_))
    ));
}
