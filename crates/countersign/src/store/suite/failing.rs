//! A store with injected faults, to prove that no store error makes a call run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;

use crate::approval::SharedApproval;
use crate::command::{Answer, Command};
use crate::event::Event;
use crate::id::{ApprovalId, Channel, Tenant};
use crate::log::{Checkpoint, LogEntry};
use crate::registry::{Entry, Kind};
use crate::store::{
    Audit, AuditProgress, Audited, Cursor, FeedEvent, Filter, Released, Store, StoreError, Stored,
};
use crate::time::Time;
use crate::wake::Hub;

/// Point at which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaks {
    /// Before the call reaches the store: nothing is written.
    Before,
    /// After the store has run the call: only the answer is lost.
    After,
}

/// An injected fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Number of the call that fails, counted from 1 over all methods.
    pub call: usize,
    /// Point at which the call fails.
    pub breaks: Breaks,
    /// Error returned to the caller.
    pub error: StoreError,
}

/// Wraps another store and injects the given faults.
pub struct FailingStore<S> {
    store: S,
    calls: AtomicUsize,
    faults: Mutex<Vec<Fault>>,
    /// State of the random generator, if faults are random.
    chance: Option<Mutex<u64>>,
}

impl<S: Store> FailingStore<S> {
    /// Creates a store that forwards to `store` and fails with these faults.
    pub fn new(store: S, faults: Vec<Fault>) -> FailingStore<S> {
        FailingStore {
            store,
            calls: AtomicUsize::new(0),
            faults: Mutex::new(faults),
            chance: None,
        }
    }

    /// Wraps a store so that a quarter of all calls fail before the store has run them and a quarter after, always with
    /// `InDoubt`. The seed determines which calls fail.
    pub fn by_chance(store: S, seed: u64) -> FailingStore<S> {
        FailingStore {
            chance: Some(Mutex::new(seed)),
            ..FailingStore::new(store, Vec::new())
        }
    }

    /// Returns all faults that one call can have: every kind of error, before and after the store has run the call.
    pub fn faults_of(call: usize) -> Vec<Fault> {
        let text = || "broken on demand".to_owned();
        let nothing_written = [
            StoreError::Unavailable(text()),
            StoreError::Busy(text()),
            StoreError::Full(text()),
        ];
        let before = Breaks::Before;
        // Errors that promise that nothing was written occur only before the store has run the call.
        let told_the_truth = nothing_written.into_iter().map(|error| (before, error));
        let in_doubt = [
            StoreError::InDoubt(text()),
            StoreError::Stopped(text()),
            StoreError::Impossible(text()),
        ];
        let either = in_doubt
            .into_iter()
            .flat_map(|error| [(Breaks::Before, error.clone()), (Breaks::After, error)]);
        told_the_truth
            .chain(either)
            .map(|(breaks, error)| Fault { call, breaks, error })
            .collect()
    }

    /// Replaces the faults and restarts the count of calls at 1.
    pub fn set(&self, faults: Vec<Fault>) {
        *self.faults.lock().unwrap() = faults;
        self.calls.store(0, Ordering::SeqCst);
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Returns the wrapped store, which does not fail.
    pub fn inner(&self) -> &S {
        &self.store
    }

    fn next_fault(&self) -> Option<Fault> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(chance) = &self.chance {
            let breaks = match random(&mut chance.lock().unwrap()) % 4 {
                0 => Breaks::Before,
                1 => Breaks::After,
                _ => return None,
            };
            let error = StoreError::InDoubt("broken by chance".to_owned());
            return Some(Fault { call, breaks, error });
        }
        let faults = self.faults.lock().unwrap();
        faults.iter().find(|fault| fault.call == call).cloned()
    }

    fn pass_on<'a, T: Send + 'a>(&'a self, call: impl FnOnce() -> Stored<'a, T>) -> Stored<'a, T> {
        match self.next_fault() {
            None => call(),
            Some(fault) if fault.breaks == Breaks::Before => async move { Err(fault.error) }.boxed(),
            Some(fault) => {
                let done = call();
                async move {
                    done.await?;
                    Err(fault.error)
                }
                .boxed()
            }
        }
    }
}

/// Returns the next number of a splitmix64 generator.
pub(super) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl<S: Store> Store for FailingStore<S> {
    fn write(&self, command: Command) -> Stored<'_, Answer> {
        self.pass_on(|| self.store.write(command))
    }

    fn approval<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Option<SharedApproval>> {
        self.pass_on(|| self.store.approval(tenant, id))
    }

    fn pending_in<'a>(
        &'a self,
        tenant: &'a Tenant,
        channel: &'a Channel,
    ) -> Stored<'a, Option<SharedApproval>> {
        self.pass_on(|| self.store.pending_in(tenant, channel))
    }

    fn list<'a>(&'a self, tenant: &'a Tenant, filter: &'a Filter) -> Stored<'a, Vec<SharedApproval>> {
        self.pass_on(|| self.store.list(tenant, filter))
    }

    fn events<'a>(&'a self, tenant: &'a Tenant, id: ApprovalId) -> Stored<'a, Vec<Event>> {
        self.pass_on(|| self.store.events(tenant, id))
    }

    fn feed<'a>(&'a self, tenant: &'a Tenant, after: Cursor, limit: usize) -> Stored<'a, Vec<FeedEvent>> {
        self.pass_on(|| self.store.feed(tenant, after, limit))
    }

    fn feed_end<'a>(&'a self, tenant: &'a Tenant) -> Stored<'a, Cursor> {
        self.pass_on(|| self.store.feed_end(tenant))
    }

    fn log_head(&self) -> Stored<'_, Checkpoint> {
        self.pass_on(|| self.store.log_head())
    }

    fn log(&self, from: u64, limit: usize) -> Stored<'_, Vec<LogEntry>> {
        self.pass_on(|| self.store.log(from, limit))
    }

    fn audit<'a>(
        &'a self,
        audit: &'a Audit,
        progress: &'a (dyn Fn(AuditProgress) + Send + Sync),
    ) -> Stored<'a, Audited> {
        self.pass_on(|| self.store.audit(audit, progress))
    }

    fn released<'a>(&'a self, tenant: &'a Tenant, after: Cursor) -> Stored<'a, Released> {
        self.pass_on(|| self.store.released(tenant, after))
    }

    fn health(&self) -> Result<(), StoreError> {
        self.store.health()
    }

    // `put_entry` and `take_entry` go through `write`.
    fn entry<'a>(&'a self, kind: Kind, key: &'a str) -> Stored<'a, Option<Entry>> {
        self.pass_on(|| self.store.entry(kind, key))
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a Tenant,
        kind: Kind,
        after: Option<&'a str>,
        limit: usize,
    ) -> Stored<'a, Vec<Entry>> {
        self.pass_on(|| self.store.entries(tenant, kind, after, limit))
    }

    fn now(&self) -> Stored<'_, Time> {
        self.pass_on(|| self.store.now())
    }

    fn hub(&self) -> &Hub {
        self.store.hub()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;
    use crate::store::memory::MemoryStore;
    use crate::store::suite::sample;

    #[tokio::test]
    async fn f24_breaks_before_or_after_the_store_did_it() {
        for breaks in [Breaks::Before, Breaks::After] {
            let error = StoreError::InDoubt("?".to_owned());
            let fault = Fault {
                call: 2,
                breaks,
                error: error.clone(),
            };
            let store = FailingStore::new(MemoryStore::default(), vec![fault]);
            let propose = |n| Command::Propose(Box::new(sample::propose(n)));
            assert!(store.write(propose(1)).await.is_ok());
            assert_eq!(store.write(propose(2)).await.err(), Some(error));
            assert!(store.write(propose(3)).await.is_ok());
            assert_eq!(store.calls(), 3);
            let written = store
                .inner()
                .approval(&sample::tenant(), sample::id(2))
                .await
                .unwrap();
            assert_eq!(written.is_some(), breaks == Breaks::After);
            let first = store
                .approval(&sample::tenant(), sample::id(1))
                .await
                .unwrap()
                .unwrap();
            assert_eq!(first.state, State::Pending);
        }
        assert_eq!(FailingStore::<MemoryStore>::faults_of(1).len(), 9);
    }
}
