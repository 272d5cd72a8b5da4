//! Health of this node's writes to its store.

use std::sync::{Mutex, PoisonError};

use countersign::store::{Store, StoreError};

/// Result of the last write that the node made on its own, such as a heartbeat, and not for a request.
#[derive(Default)]
pub struct Writable(Mutex<Option<StoreError>>);

impl Writable {
    /// Records the result of a write that the node made on its own.
    pub fn note(&self, written: Result<(), StoreError>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = written.err();
    }

    /// Fails if the last write failed, or if the store reports that it can no longer write.
    pub fn check(&self, store: &dyn Store) -> Result<(), StoreError> {
        store.health()?;
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone().map_or(Ok(()), Err)
    }
}
