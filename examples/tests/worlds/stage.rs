//! A world behind a gate, and a person who decides.

use std::path::Path;
use std::sync::Arc;

use countersign::approval::SharedApproval;
use countersign::decision::{Decider, Decision, Surface, Verdict};
use countersign::executor::Outcome;
use countersign::gate::{Gate, Ruled, Submission, SubmitError, SubmittedCall};
use countersign::id::{Agent, CallId, Channel, Person, Tenant};
use countersign::policy::Policy;
use countersign::state::CallState;
use countersign::store::Store;
use countersign::store::memory::MemoryStore;
use countersign_examples::{Setup, World};
use countersign_store::sqlite::{SqliteOptions, SqliteStore};
use serde_json::Value;

pub struct Stage {
    pub gate: Gate,
    pub world: World,
}

/// Runs a test with both stores, each in a new world.
pub async fn each(setup: &'static Setup, test: impl AsyncFn(&Stage)) {
    let stage = over(
        setup,
        Arc::new(MemoryStore::default()),
        World::in_memory(setup).unwrap(),
    );
    test(&stage).await;
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(setup, folder.path().join("world.db")).unwrap();
    let store = sqlite(&folder.path().join("store.db"));
    test(&over(setup, store.clone(), world)).await;
    store.close().await;
}

pub fn over(setup: &'static Setup, store: Arc<dyn Store>, world: World) -> Stage {
    let policy = Policy::parse(setup.policy).unwrap_or_else(|problems| panic!("{problems}"));
    let gate = Gate::new(store, Arc::new(policy)).with_executor(Arc::new(world.clone()));
    Stage { gate, world }
}

pub fn sqlite(path: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(path, SqliteOptions::default()).unwrap())
}

pub fn submission(calls: Vec<SubmittedCall>) -> Submission {
    Submission {
        tenant: Tenant::single(),
        agent: Agent::new("example").unwrap(),
        requester: Person::new("example-token").unwrap(),
        on_behalf_of: None,
        channel: Some(Channel::new("chat").unwrap()),
        run: None,
        session: None,
        claim: None,
        key: None,
        conversation: None,
        options: Default::default(),
        calls,
    }
}

pub fn call(tool: &str, arguments: &str) -> SubmittedCall {
    SubmittedCall::new(tool, arguments.as_bytes())
}

pub fn decision(approval: &SharedApproval, verdict: Verdict) -> Decision {
    Decision::on(
        approval.tenant.clone(),
        countersign::card::WholeCard::shown(approval),
        Decider::new(
            Person::new("alice").unwrap(),
            vec!["approvers".to_owned()],
            Surface::Page,
        ),
        verdict,
    )
}

pub fn first(approval: &SharedApproval) -> CallId {
    CallId {
        approval: approval.id,
        position: 1,
    }
}

pub fn summary(approval: &SharedApproval) -> &str {
    &approval.calls[0].terms.summary
}

/// Returns the result of a call that succeeded.
pub fn result(approval: &SharedApproval) -> Value {
    let call = &approval.calls[0];
    let text = String::from_utf8_lossy(call.result.as_deref().unwrap_or_default()).into_owned();
    assert_eq!(call.state, CallState::Succeeded, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Returns the reason of a call that failed.
pub fn reason(approval: &SharedApproval) -> String {
    let call = &approval.calls[0];
    assert_eq!(call.state, CallState::Failed);
    String::from_utf8_lossy(call.result.as_deref().unwrap_or_default()).into_owned()
}

impl Stage {
    pub fn hash(&self) -> String {
        self.world.hash().unwrap().to_string()
    }

    /// Runs a call that passes, and returns its result.
    pub async fn read(&self, tool: &str, arguments: &str) -> Value {
        let mut submitted = self
            .gate
            .submit(submission(vec![call(tool, arguments)]))
            .await
            .unwrap();
        assert!(submitted.approval.is_none(), "`{tool}` is held");
        match submitted.calls.pop() {
            Some(Ruled::Pass(permit)) => match self.gate.run_passed(permit).await {
                Outcome::Succeeded(result) => serde_json::from_slice(&result).unwrap(),
                Outcome::Failed(reason) => panic!("`{tool}`: {}", String::from_utf8_lossy(&reason)),
                Outcome::NotSent(reason) | Outcome::Unknown(reason) => panic!("`{tool}`: {reason}"),
            },
            other => panic!("`{tool}`: {other:?}"),
        }
    }

    /// Proposes a call that is held, and checks that nothing changes.
    pub async fn hold(&self, tool: &str, arguments: &str) -> SharedApproval {
        let before = self.hash();
        let submitted = self
            .gate
            .submit(submission(vec![call(tool, arguments)]))
            .await
            .unwrap();
        assert!(
            matches!(submitted.calls[0], Ruled::Held(_)),
            "`{tool}`: {:?}",
            submitted.calls[0]
        );
        assert_eq!(self.hash(), before, "`{tool}` acted before it was approved");
        submitted.approval.unwrap()
    }

    /// Proposes a call that is forbidden, and returns the reason.
    pub async fn forbidden(&self, tool: &str, arguments: &str) -> String {
        let before = self.hash();
        let submitted = self
            .gate
            .submit(submission(vec![call(tool, arguments)]))
            .await
            .unwrap();
        assert_eq!(self.hash(), before);
        match &submitted.calls[0] {
            Ruled::Forbidden { reason } | Ruled::Malformed { reason } => reason.clone(),
            other => panic!("`{tool}` {arguments}: {other:?}"),
        }
    }

    pub async fn approve(&self, approval: &SharedApproval) -> SharedApproval {
        let resolved = self
            .gate
            .decide_and_run(decision(approval, Verdict::Approve))
            .await
            .unwrap();
        assert_eq!(resolved.refusal, None);
        resolved.approval.unwrap()
    }

    /// Proposes a call and approves it.
    pub async fn run(&self, tool: &str, arguments: &str) -> SharedApproval {
        let approval = self.hold(tool, arguments).await;
        self.approve(&approval).await
    }

    pub async fn undo(&self, done: &SharedApproval) -> Result<SharedApproval, SubmitError> {
        let before = self.hash();
        let undo = self.gate.undo(submission(Vec::new()), first(done)).await;
        assert_eq!(self.hash(), before, "an undo acted before it was approved");
        undo
    }

    /// Takes a changing call through its life: held, denied, held again, approved once, undone.
    pub async fn there_and_back(&self, tool: &str, arguments: &str, said: &str, undo_said: &str) {
        let before = self.hash();
        let denied = self.hold(tool, arguments).await;
        self.gate
            .decide_and_run(decision(&denied, Verdict::Deny))
            .await
            .unwrap()
            .accepted()
            .unwrap();
        assert_eq!(self.hash(), before, "`{tool}` acted although it was denied");

        let held = self.hold(tool, arguments).await;
        assert_eq!(summary(&held), said);
        let done = self.approve(&held).await;
        result(&done);
        let after = self.hash();
        assert_ne!(after, before, "`{tool}` changed nothing");
        let again = self
            .gate
            .decide_and_run(decision(&held, Verdict::Approve))
            .await
            .unwrap();
        assert!(
            again.ran.is_empty() && again.refusal.is_some(),
            "a second yes ran something"
        );
        assert_eq!(self.hash(), after);

        let undo = self.undo(&done).await.unwrap();
        assert_eq!(summary(&undo), undo_said);
        result(&self.approve(&undo).await);
        assert_eq!(self.hash(), before, "the undo of `{tool}` left something behind");
    }
}
