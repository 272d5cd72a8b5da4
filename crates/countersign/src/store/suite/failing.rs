//! A store that breaks on demand: to prove that whatever a store does, nothing runs because of it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;

use crate::approval::SharedApproval;
use crate::command::{Answer, Command};
use crate::event::Event;
use crate::id::{ApprovalId, Channel, Tenant};
use crate::registry::{Entry, Kind};
use crate::store::{Cursor, FeedEvent, Filter, Released, Store, StoreError, Stored};
use crate::time::Time;
use crate::wake::Hub;

/// Where a call breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaks {
    /// Before it reaches the store: nothing is written.
    Before,
    /// After the store did it: the answer is lost.
    After,
}

/// A call that is to break.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which call, counted from 1 over all methods.
    pub call: usize,
    /// Where it breaks.
    pub breaks: Breaks,
    /// What the caller is told.
    pub error: StoreError,
}

/// Passes everything on to another store, but for the faults it was given.
pub struct FailingStore<S> {
    store: S,
    calls: AtomicUsize,
    faults: Mutex<Vec<Fault>>,
}

impl<S: Store> FailingStore<S> {
    /// Breaks as these say.
    pub fn new(store: S, faults: Vec<Fault>) -> FailingStore<S> {
        FailingStore {
            store,
            calls: AtomicUsize::new(0),
            faults: Mutex::new(faults),
        }
    }

    /// Every kind of error, each before and after: the faults one call can have.
    pub fn faults_of(call: usize) -> Vec<Fault> {
        let text = || "broken on demand".to_owned();
        let nothing_written = [
            StoreError::Unavailable(text()),
            StoreError::Busy(text()),
            StoreError::Full(text()),
        ];
        let before = Breaks::Before;
        // An error that says that nothing was written is only told when nothing was.
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

    /// Breaks as these say from now on; calls are counted from 1 again.
    pub fn set(&self, faults: Vec<Fault>) {
        *self.faults.lock().unwrap() = faults;
        self.calls.store(0, Ordering::SeqCst);
    }

    /// How many calls there were.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// The store behind it, which does not break.
    pub fn inner(&self) -> &S {
        &self.store
    }

    fn next_fault(&self) -> Option<Fault> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
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

    fn released<'a>(&'a self, tenant: &'a Tenant, after: Cursor) -> Stored<'a, Released> {
        self.pass_on(|| self.store.released(tenant, after))
    }

    // Those that write go through `write`.
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
