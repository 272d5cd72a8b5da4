//! Rate limits by key, in a table of fixed size.
//!
//! Keys are addresses or names, for example. Only their hashes are stored, with a random seed per process, so that
//! neither long nor chosen keys cost memory.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hash};
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of slots in a row, which share a lock.
const WAYS: usize = 8;
/// Number of rows: 1024 rows of 8 slots of 16 bytes take 128 KiB.
const ROWS: usize = 1024;

/// A leaky bucket for each key. A key's debt grows with each event and shrinks with time.
///
/// INVARIANT: a caller cannot lift the limit on one key by using other keys. When a row is full, the key with the least
/// debt is evicted, and the new key takes over its debt. To evict a key with a large debt, seven others need a debt as
/// large.
pub struct RateTable {
    hasher: RandomState,
    rows: Box<[Mutex<[Slot; WAYS]>]>,
    began: Instant,
    /// Debt that one event adds to its key, in nanoseconds.
    each: u64,
    /// Maximum debt of a key, in nanoseconds.
    burst: u64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    key: u64,
    /// Time at which the key's debt is paid off, in nanoseconds since `began`.
    free_at: u64,
}

impl RateTable {
    /// Creates a table that allows `count` events per `span` for each key, and up to `burst` of them at once.
    pub fn new(count: NonZeroU32, span: Duration, burst: u32) -> RateTable {
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let each = (span / u64::from(count.get())).max(1);
        RateTable {
            hasher: RandomState::new(),
            rows: (0..ROWS).map(|_| Mutex::default()).collect(),
            began: Instant::now(),
            each,
            burst: each.saturating_mul(u64::from(burst.max(1))),
        }
    }

    /// Counts an event of this key. If the key is over its limit, fails with the time to wait, and the event is not
    /// counted.
    pub fn take(&self, key: impl Hash) -> Result<(), Duration> {
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.take_at(self.hasher.hash_one(key), now)
    }

    fn take_at(&self, key: u64, now: u64) -> Result<(), Duration> {
        let index = usize::try_from(key).unwrap_or_default() % ROWS;
        let Some(row) = self.rows.get(index) else {
            return Err(Duration::from_secs(1));
        };
        let mut row = row.lock().unwrap_or_else(PoisonError::into_inner);
        let known = row.iter_mut().position(|slot| slot.key == key);
        let least = || {
            let slots = row.iter().enumerate();
            slots.min_by_key(|(_, slot)| slot.free_at).map(|(at, _)| at)
        };
        let at = known.or_else(least).unwrap_or_default();
        let Some(slot) = row.get_mut(at) else {
            return Err(Duration::from_secs(1));
        };
        let free_at = slot.free_at.max(now).saturating_add(self.each);
        let latest = now.saturating_add(self.burst);
        if free_at > latest {
            return Err(Duration::from_nanos(free_at - latest));
        }
        *slot = Slot { key, free_at };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn five_a_minute() -> RateTable {
        RateTable::new(NonZeroU32::new(5).unwrap(), Duration::from_secs(60), 5)
    }

    #[test]
    fn x61_a_key_waits_and_is_free_again() {
        let table = five_a_minute();
        for _ in 0..5 {
            assert_eq!(table.take_at(7, 0), Ok(()));
        }
        assert_eq!(table.take_at(7, 0), Err(Duration::from_secs(12)));
        assert_eq!(table.take_at(8, 0), Ok(()), "others do not wait");
        assert_eq!(table.take_at(7, 12 * SECOND), Ok(()));
        assert!(table.take_at(7, 12 * SECOND).is_err());
        assert_eq!(table.take_at(7, 100 * SECOND), Ok(()));
    }

    #[test]
    fn x61_strangers_do_not_set_a_key_free() {
        let table = five_a_minute();
        let rows = u64::try_from(ROWS).unwrap();
        while table.take_at(7, 0).is_ok() {}
        // All keys fall into the same row, and each has one event.
        for stranger in 1..=10_000 {
            let _ = table.take_at(7 + stranger * rows, 0);
        }
        assert!(table.take_at(7, 0).is_err());
    }

    #[test]
    fn x61_who_comes_new_into_a_crowded_table_is_let_in() {
        let table = five_a_minute();
        let rows = u64::try_from(ROWS).unwrap();
        // Seven keys of one row, each at its limit.
        for busy in 1..=7 {
            while table.take_at(7 + busy * rows, 0).is_ok() {}
        }
        assert_eq!(table.take_at(7, 0), Ok(()));
    }
}
