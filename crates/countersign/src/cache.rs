//! In-memory cache of recently used values.
//!
//! Values are returned as long as they fit into the cache. The caller checks whether a cached value is still current.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A cache with an approximate byte limit. Entries are kept in two generations: when the young one is full, it becomes
/// the old one, and the previous old one is dropped.
#[derive(Debug)]
pub struct GenerationalCache<K, V> {
    generations: Mutex<Generations<K, V>>,
    most_bytes: usize,
}

#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    bytes: usize,
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Generations {
            young: HashMap::new(),
            old: HashMap::new(),
            bytes: 0,
        }
    }
}

impl<K: Eq + Hash, V: Clone> GenerationalCache<K, V> {
    /// Creates a cache for about this many bytes.
    pub fn new(most_bytes: usize) -> GenerationalCache<K, V> {
        GenerationalCache {
            generations: Mutex::default(),
            most_bytes,
        }
    }

    /// Returns a copy of the cached value; `None` if there is none or `is_current` returns false for it.
    pub fn get(&self, name: &K, is_current: impl FnOnce(&V) -> bool) -> Option<V> {
        let generations = self.lock();
        let kept = generations
            .young
            .get(name)
            .or_else(|| generations.old.get(name))?;
        is_current(kept).then(|| kept.clone())
    }

    /// Inserts a value of about `bytes` bytes, replacing any earlier value with the same key.
    pub fn insert(&self, name: K, value: V, bytes: usize) {
        let mut generations = self.lock();
        generations.bytes += bytes;
        let mut gone = HashMap::new();
        if generations.bytes > self.most_bytes / 2 {
            let young = std::mem::take(&mut generations.young);
            gone = std::mem::replace(&mut generations.old, young);
            generations.bytes = bytes;
        }
        let old = generations.old.remove(&name);
        let before = generations.young.insert(name, value);
        // Free memory after releasing the lock.
        drop(generations);
        drop((gone, old, before));
    }

    /// Removes all entries.
    pub fn clear(&self) {
        let cleared = std::mem::take(&mut *self.lock());
        drop(cleared);
    }

    fn lock(&self) -> MutexGuard<'_, Generations<K, V>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_given_while_it_is_true() {
        let cache = GenerationalCache::new(100);
        cache.insert("a", 1, 10);
        assert_eq!(cache.get(&"a", |kept| *kept == 1), Some(1));
        assert_eq!(cache.get(&"a", |kept| *kept == 2), None);
        cache.insert("a", 2, 10);
        assert_eq!(cache.get(&"a", |_| true), Some(2));
        cache.clear();
        assert_eq!(cache.get(&"a", |_| true), None);
    }

    #[test]
    fn what_is_kept_has_an_end() {
        let cache = GenerationalCache::new(100);
        for number in 0..1_000 {
            cache.insert(number, (), 10);
            let generations = cache.lock();
            assert!(generations.young.len() + generations.old.len() <= 10);
        }
        assert!(cache.get(&999, |()| true).is_some());
        assert!(cache.get(&900, |()| true).is_none());
    }

    /// A replaced value is removed from both generations at once: it may contain a secret.
    #[test]
    fn a15_a_value_that_was_replaced_is_nowhere() {
        let cache = GenerationalCache::new(40);
        cache.insert("a", 1, 20);
        cache.insert("b", 1, 20);
        cache.insert("a", 2, 5);
        let generations = cache.lock();
        let of_a = [&generations.young, &generations.old].map(|values| values.get("a"));
        assert_eq!(of_a.into_iter().flatten().collect::<Vec<_>>(), [&2]);
    }
}
