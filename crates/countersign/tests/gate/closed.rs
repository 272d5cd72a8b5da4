//! Fail closed: whatever the store does, nothing runs that was not recorded as started.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::world::*;
use countersign::approval::SharedApproval;
use countersign::command::{Answer, Command};
use countersign::decision::Verdict;
use countersign::event::Event;
use countersign::gate::{Reading, Reply, SubmitError};
use countersign::id::{ApprovalId, Channel, Tenant};
use countersign::store::memory::MemoryStore;
use countersign::store::{Cursor, FeedEvent, Filter, Store, StoreError, Stored};
use countersign::time::{ManualClock, Time};
use countersign::wake::Hub;

/// Fails the `fail_at`-th call, before or after it reached the store underneath.
struct Failing {
    inner: Arc<MemoryStore>,
    calls: AtomicUsize,
    fail_at: usize,
    after: bool,
}

impl Failing {
    /// Runs `call`, unless it is the one that fails.
    async fn pass<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let failure = match number % 3 {
            0 => StoreError::Unavailable("down".into()),
            1 => StoreError::Busy("locked".into()),
            _ => StoreError::InDoubt("cut".into()),
        };
        match (number == self.fail_at, self.after) {
            (true, false) => Err(failure),
            (true, true) => call.await.and(Err(failure)),
            (false, _) => call.await,
        }
    }
}

impl Store for Failing {
    fn write(&self, command: Command) -> Stored<'_, Answer> {
        Box::pin(self.pass(self.inner.write(command)))
    }
    fn approval<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Option<SharedApproval>> {
        Box::pin(self.pass(self.inner.approval(tenant, id)))
    }
    fn pending_in<'a>(
        &'a self,
        tenant: &'a Tenant,
        channel: &'a Channel,
    ) -> Stored<'a, Option<SharedApproval>> {
        Box::pin(self.pass(self.inner.pending_in(tenant, channel)))
    }
    fn list<'a>(&'a self, tenant: &'a Tenant, filter: &'a Filter) -> Stored<'a, Vec<SharedApproval>> {
        Box::pin(self.pass(self.inner.list(tenant, filter)))
    }
    fn events<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Vec<Event>> {
        Box::pin(self.pass(self.inner.events(tenant, id)))
    }
    fn feed<'a>(&'a self, tenant: &'a Tenant, after: Cursor, limit: usize) -> Stored<'a, Vec<FeedEvent>> {
        Box::pin(self.pass(self.inner.feed(tenant, after, limit)))
    }
    fn now(&self) -> Stored<'_, Time> {
        Box::pin(self.pass(self.inner.now()))
    }
    fn hub(&self) -> &Hub {
        self.inner.hub()
    }
}

fn failing(fail_at: usize, after: bool) -> (World, Arc<MemoryStore>) {
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_794_000_000_000_000)));
    let inner = Arc::new(MemoryStore::with_clock(clock.clone()));
    let store = Arc::new(Failing {
        inner: inner.clone(),
        calls: AtomicUsize::new(0),
        fail_at,
        after,
    });
    (world_over(store, clock, POLICY), inner)
}

#[tokio::test]
async fn a12_when_saving_fails_the_turn_aborts_and_nothing_runs() {
    for after in [false, true] {
        let (world, _) = failing(0, after);
        let calls = vec![call("search_contacts", "{}"), call("create_contact", MARIA)];
        let error = world.gate.submit(submission(calls)).await.unwrap_err();
        assert!(matches!(error, SubmitError::Store(_)), "{error}");
        assert!(
            world.ran().is_empty(),
            "not even the read: its permit was never given out"
        );
    }
}

/// One whole conversation; true when it got through.
async fn whole_life(world: &World) -> Result<(), StoreError> {
    let submitted = world
        .gate
        .submit(submission(vec![call("create_contact", MARIA)]))
        .await;
    let Ok(submitted) = submitted else {
        return Err(StoreError::Unavailable("submit".into()));
    };
    let approval = submitted.approval.unwrap();
    let yes = Reply {
        tenant: approval.tenant.clone(),
        channel: Channel::new("chat-1").unwrap(),
        sender: alice(),
        reading: Reading::Yes,
        seen: Some(approval.digest),
        message: None,
    };
    world.gate.hear(yes).await.map(|_| ())
}

#[tokio::test(start_paused = true)]
async fn i11_no_failing_store_call_ever_lets_an_unrecorded_run_happen() {
    let mut interrupted = 0;
    for after in [false, true] {
        for fail_at in 0..12 {
            let (world, inner) = failing(fail_at, after);
            let through = whole_life(&world).await;
            interrupted += usize::from(through.is_err());
            // Whatever ran has its start on record, once, behind an approval.
            let filter = Filter::default();
            let approvals = inner.list(&Tenant::single(), &filter).await.unwrap();
            let mut starts = 0;
            for approval in approvals {
                let events = inner.events(&approval.tenant, approval.id).await.unwrap();
                let words: Vec<_> = events.iter().map(|event| event.what.as_str()).collect();
                let started = words.iter().filter(|word| **word == "started").count();
                assert!(
                    started == 0 || words.contains(&"approved"),
                    "fail_at {fail_at}: {words:?}"
                );
                starts += started;
            }
            let ran = world.ran().len();
            assert!(
                ran <= starts && starts <= 1,
                "fail_at {fail_at} after {after}: ran {ran}, started {starts}"
            );
            if through.is_err() && !after && fail_at < 3 {
                assert_eq!(
                    ran, 0,
                    "fail_at {fail_at}: an error before the start means nothing ran"
                );
            }
        }
    }
    assert!(interrupted >= 6, "the failures did hit: {interrupted}");
}

#[tokio::test(start_paused = true)]
async fn i11_a_lost_answer_to_the_decision_runs_nothing_and_ends_as_unknown() {
    // Calls: 0 propose, 1 read, 2 decide with start: committed, but the answer is lost.
    let (world, inner) = failing(2, true);
    let approval = world.hold(vec![call("create_contact", MARIA)]).await;
    world
        .gate
        .decide_and_run(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap_err();
    assert!(world.ran().is_empty());
    world.clock.advance(std::time::Duration::from_secs(61));
    world.gate.expire_due().await.unwrap();
    let after = inner
        .approval(&approval.tenant, approval.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(after.calls[0].state, countersign::state::CallState::Unknown);
}
