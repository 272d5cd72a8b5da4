//! A store under test with a manual clock. Checks the stored approvals after every write.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::sample;
use crate::approval::{Approval, SharedApproval};
use crate::command::{
    Answer, Command, Decide, DecideAnswer, ExecuteRefusal, Finish, Finished, Propose, ProposeRefusal,
    Proposed, Reconcile, Start, Started, Sweep, Swept, Withdraw,
};
use crate::event::{Event, verify};
use crate::id::{ApprovalId, Channel, Tenant};
use crate::log::{Checkpoint, LogEntry};
use crate::store::{Audit, Audited, Cursor, FeedEvent, Store, StoreError};
use crate::time::ManualClock;

/// Opens a new store on the same data.
pub type Reopen = Box<dyn Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync>;

/// A fresh store and its clock.
pub struct Fixture {
    /// The store under test.
    pub store: Arc<dyn Store>,
    /// Clock of the store.
    pub clock: Arc<ManualClock>,
    reopen: Option<Reopen>,
    // Value that must outlive the store, such as its temporary directory.
    _kept: Option<Box<dyn Any + Send + Sync>>,
    known: Mutex<BTreeSet<(Tenant, ApprovalId)>>,
    programs: AtomicU64,
}

impl Fixture {
    /// Creates a fixture for a store without persistence.
    pub fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Fixture {
        Fixture {
            store,
            clock,
            reopen: None,
            _kept: None,
            known: Mutex::default(),
            programs: AtomicU64::new(0),
        }
    }

    /// Creates a clock at [`sample::BEGINNING`].
    pub fn clock() -> Arc<ManualClock> {
        Arc::new(ManualClock::at(sample::BEGINNING))
    }

    /// Sets the function that reopens the same data with the same clock. Required for durable stores.
    pub fn with_reopen(self, reopen: Reopen) -> Fixture {
        Fixture {
            reopen: Some(reopen),
            ..self
        }
    }

    /// Keeps a value alive as long as the fixture.
    pub fn keeping(self, kept: impl Any + Send + Sync) -> Fixture {
        Fixture {
            _kept: Some(Box::new(kept)),
            ..self
        }
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Returns the number that the next random program on this store will get.
    pub(super) fn next_program(&self) -> u64 {
        self.programs.load(Ordering::SeqCst) + 1
    }

    /// Marks a program's number as taken.
    pub(super) fn begin_program(&self, serial: u64) {
        self.programs.store(serial, Ordering::SeqCst);
    }

    /// Closes the store and reopens its data; `None` if the store is not durable.
    pub async fn restarted(self) -> Option<Fixture> {
        let Fixture {
            store,
            clock,
            reopen,
            _kept,
            known,
            programs,
        } = self;
        drop(store);
        let reopen = reopen?;
        let store = reopen().await;
        Some(Fixture {
            store,
            clock,
            reopen: Some(reopen),
            _kept,
            known,
            programs,
        })
    }

    /// Runs a command, then checks that the stored approvals match the answer and their events.
    pub async fn try_write(&self, command: Command) -> Result<Answer, StoreError> {
        let swept = matches!(command, Command::Sweep(_) | Command::Erase(_) | Command::Void(_));
        let answer = self.store.write(command).await?;
        if swept {
            self.check_all().await;
        }
        if let Some(approval) = answered(&answer) {
            let stored = self.get(approval).await;
            assert_eq!(stored, *approval, "what is stored is what was answered");
            let others = [approval.replaces, approval.undoes.map(|call| call.approval)];
            for id in others.into_iter().flatten().chain([approval.id]) {
                self.known.lock().unwrap().insert((approval.tenant.clone(), id));
                self.check(&approval.tenant, id).await;
            }
        }
        Ok(answer)
    }

    /// Runs a command and panics on a store error.
    pub async fn write(&self, command: Command) -> Answer {
        self.try_write(command).await.expect("the store answers")
    }

    /// Verifies one approval against its events.
    pub async fn check(&self, tenant: &Tenant, id: ApprovalId) {
        let approval = self.find(tenant, id).await.expect("a known approval is there");
        let events = self.store.events(tenant, id).await.unwrap();
        assert_eq!(verify(&approval, &events), Ok(()), "approval {id}");
    }

    /// Verifies all approvals that this fixture has seen.
    pub async fn check_all(&self) {
        let known = self.known.lock().unwrap().clone();
        for (tenant, id) in &known {
            self.check(tenant, *id).await;
        }
    }

    /// Proposes and returns the approval. Panics if the proposal is refused or is not new.
    pub async fn propose(&self, propose: Propose) -> SharedApproval {
        let proposed = self.try_propose(propose).await.expect("the proposal is accepted");
        assert!(!proposed.repeated, "the proposal is new");
        proposed.approval
    }

    /// Sends a proposal and returns the answer.
    pub async fn try_propose(&self, propose: Propose) -> Result<Proposed, ProposeRefusal> {
        match self.write(Command::Propose(Box::new(propose))).await {
            Answer::Propose(answer) => answer,
            other => panic!("not the answer to a proposal: {other:?}"),
        }
    }

    /// Sends a decision and returns the answer.
    pub async fn decide(&self, decide: Decide) -> DecideAnswer {
        match self.write(Command::Decide(Box::new(decide))).await {
            Answer::Decide(answer) => answer,
            other => panic!("not the answer to a decision: {other:?}"),
        }
    }

    /// Decides and returns the approval. Panics if the decision is refused.
    pub async fn accept(&self, decide: Decide) -> SharedApproval {
        let answer = self.decide(decide).await;
        assert_eq!(answer.refusal, None);
        answer.approval.unwrap()
    }

    /// Proposes and approves, and returns the approval.
    pub async fn approved(&self, propose: Propose) -> SharedApproval {
        let pending = self.propose(propose).await;
        self.accept(sample::approve(&pending)).await
    }

    /// Proposes, approves and starts the first call, with the permit number 1.
    pub async fn running(&self, propose: Propose) -> SharedApproval {
        let approved = self.approved(propose).await;
        self.start(sample::start(&approved, 1, 1)).await.unwrap().approval
    }

    /// Sends a withdrawal and returns the answer.
    pub async fn withdraw(&self, withdraw: Withdraw) -> DecideAnswer {
        match self.write(Command::Withdraw(withdraw)).await {
            Answer::Withdraw(answer) => answer,
            other => panic!("not the answer to a withdrawal: {other:?}"),
        }
    }

    /// Sends a start and returns the answer.
    pub async fn start(&self, start: Start) -> Result<Started, ExecuteRefusal> {
        match self.write(Command::Start(start)).await {
            Answer::Start(answer) => answer,
            other => panic!("not the answer to a start: {other:?}"),
        }
    }

    /// Sends a finish and returns the answer.
    pub async fn finish(&self, finish: Finish) -> Result<Finished, ExecuteRefusal> {
        match self.write(Command::Finish(finish)).await {
            Answer::Finish(answer) => answer,
            other => panic!("not the answer to a finish: {other:?}"),
        }
    }

    /// Sends a reconciliation and returns the answer.
    pub async fn reconcile(&self, reconcile: Reconcile) -> Result<SharedApproval, ExecuteRefusal> {
        match self.write(Command::Reconcile(reconcile)).await {
            Answer::Reconcile(answer) => answer,
            other => panic!("not the answer to a reconciliation: {other:?}"),
        }
    }

    /// Sends a sweep and returns its counts.
    pub async fn sweep(&self, sweep: Sweep) -> Swept {
        match self.write(Command::Sweep(sweep)).await {
            Answer::Sweep(swept) => swept,
            other => panic!("not the answer to a sweep: {other:?}"),
        }
    }

    /// Returns an approval; `None` if the tenant has none with this id.
    pub async fn find(&self, tenant: &Tenant, id: ApprovalId) -> Option<SharedApproval> {
        self.store.approval(tenant, id).await.unwrap()
    }

    /// Returns the current state of an approval, which must exist.
    pub async fn get(&self, approval: &Approval) -> SharedApproval {
        self.find(&approval.tenant, approval.id)
            .await
            .expect("it is there")
    }

    /// Returns the history of an approval.
    pub async fn events(&self, approval: &Approval) -> Vec<Event> {
        self.store.events(&approval.tenant, approval.id).await.unwrap()
    }

    /// Returns the history of an approval as one word per event.
    pub async fn words(&self, approval: &Approval) -> Vec<&'static str> {
        let events = self.events(approval).await;
        events.iter().map(|event| event.what.as_str()).collect()
    }

    /// Waits until at least `count` events follow a cursor, and returns them. A feed may lag: PostgreSQL shows an event
    /// only once no earlier one can still commit, and other tests use the same server.
    pub async fn feed(&self, tenant: &Tenant, after: Cursor, count: usize) -> Vec<FeedEvent> {
        for _ in 0..2_000 {
            let feed = self.store.feed(tenant, after, 10_000).await.unwrap();
            if feed.len() >= count {
                return feed;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the feed does not reach {count} events");
    }

    /// Waits until the log has at least `count` events, and returns all of it. Sweeps while waiting, because in
    /// PostgreSQL the sweep adds events to the log.
    pub async fn log(&self, count: usize) -> (Checkpoint, Vec<LogEntry>) {
        for _ in 0..2_000 {
            let head = self.store.log_head().await.unwrap();
            if head.size >= count as u64 {
                let mut entries = Vec::new();
                loop {
                    let page = self.store.log(entries.len() as u64, 100).await.unwrap();
                    if page.is_empty() {
                        return (head, entries);
                    }
                    entries.extend(page);
                }
            }
            self.sweep(sample::sweep(1)).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the log does not reach {count} events");
    }

    /// Audits the whole store.
    pub async fn audit(&self) -> Audited {
        self.store.audit(&Audit::default(), &|_| ()).await.unwrap()
    }

    /// Returns the id of the approval pending in a channel of the sample tenant; `None` if there is none.
    pub async fn pending_in(&self, channel: &Channel) -> Option<ApprovalId> {
        let pending = self.store.pending_in(&sample::tenant(), channel).await.unwrap();
        pending.map(|approval| approval.id)
    }
}

/// Returns the approval contained in an answer; `None` if it contains none.
pub(super) fn answered(answer: &Answer) -> Option<&SharedApproval> {
    match answer {
        Answer::Propose(Ok(proposed)) => Some(&proposed.approval),
        Answer::Decide(answer) | Answer::Withdraw(answer) => answer.approval.as_ref(),
        Answer::Start(Ok(started)) => Some(&started.approval),
        Answer::Finish(Ok(finished)) => Some(&finished.approval),
        Answer::Reconcile(Ok(approval)) => Some(approval),
        Answer::Attempt(approval) => approval.as_ref(),
        Answer::Propose(Err(_))
        | Answer::Start(Err(_))
        | Answer::Finish(Err(_))
        | Answer::Reconcile(Err(_))
        | Answer::Sweep(_)
        | Answer::PutEntry(_)
        | Answer::TakeEntry(_)
        | Answer::Erase(_)
        | Answer::Void(_) => None,
    }
}
