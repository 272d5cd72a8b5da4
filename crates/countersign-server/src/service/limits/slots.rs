//! Concurrency limits by key: how many slots are open for each key at the same time.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hash};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts open slots per key, by the key's hash. Keys without an open slot take no memory.
#[derive(Clone)]
pub struct Slots {
    shared: Arc<Shared>,
    most: usize,
}

#[derive(Default)]
struct Shared {
    hasher: RandomState,
    open: Mutex<HashMap<u64, usize>>,
}

impl Slots {
    /// Creates a counter that allows at most `most` open slots per key.
    pub fn new(most: usize) -> Slots {
        Slots {
            shared: Arc::default(),
            most,
        }
    }

    /// Returns the maximum number of open slots per key.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Takes a slot for `key`; `None` if all slots of the key are taken.
    pub fn take(&self, key: impl Hash) -> Option<Slot> {
        let key = self.shared.hasher.hash_one(key);
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(key).or_default();
        if *count >= self.most {
            if *count == 0 {
                open.remove(&key);
            }
            return None;
        }
        *count += 1;
        drop(open);
        Some(Slot {
            shared: self.shared.clone(),
            key,
        })
    }
}

/// One taken slot, given back when dropped.
pub struct Slot {
    shared: Arc<Shared>,
    key: u64,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_makes_room_and_takes_no_memory() {
        let slots = Slots::new(2);
        let (one, _two) = (slots.take("a").unwrap(), slots.take("a").unwrap());
        assert!(slots.take("a").is_none());
        let other = slots.take("b");
        assert!(other.is_some());
        drop((one, other));
        assert!(slots.take("a").is_some());
        assert_eq!(slots.shared.open.lock().unwrap().len(), 1);
        assert!(Slots::new(0).take("a").is_none());
    }
}
