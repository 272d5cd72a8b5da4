//! What was read or written lately, kept at hand.
//!
//! Enters: values with their names and weights. Leaves: the same, while there is room for them.
//! Deliberately absent: whether a value is still true. Whoever asks finds that out first.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values by name, about so many bytes of them. What was kept longest ago goes first, in two generations: what is young,
/// and what was young before.
#[derive(Debug)]
pub struct Recent<K, V> {
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

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    /// With room for so many bytes.
    pub fn new(most_bytes: usize) -> Recent<K, V> {
        Recent {
            generations: Mutex::default(),
            most_bytes,
        }
    }

    /// The value of this name, if `is_true` says that it still is.
    pub fn get(&self, name: &K, is_true: impl FnOnce(&V) -> bool) -> Option<V> {
        let generations = self.open();
        let kept = generations
            .young
            .get(name)
            .or_else(|| generations.old.get(name))?;
        is_true(kept).then(|| kept.clone())
    }

    /// Keeps a value that weighs about so much, instead of an earlier one of its name.
    pub fn keep(&self, name: K, value: V, bytes: usize) {
        let mut generations = self.open();
        generations.bytes += bytes;
        let mut gone = HashMap::new();
        if generations.bytes > self.most_bytes / 2 {
            let young = std::mem::take(&mut generations.young);
            gone = std::mem::replace(&mut generations.old, young);
            generations.bytes = bytes;
        }
        let old = generations.old.remove(&name);
        let before = generations.young.insert(name, value);
        // Freeing takes a while; nobody has to wait for it.
        drop(generations);
        drop((gone, old, before));
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let cleared = std::mem::take(&mut *self.open());
        drop(cleared);
    }

    fn open(&self) -> MutexGuard<'_, Generations<K, V>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_given_while_it_is_true() {
        let recent = Recent::new(100);
        recent.keep("a", 1, 10);
        assert_eq!(recent.get(&"a", |kept| *kept == 1), Some(1));
        assert_eq!(recent.get(&"a", |kept| *kept == 2), None);
        recent.keep("a", 2, 10);
        assert_eq!(recent.get(&"a", |_| true), Some(2));
        recent.clear();
        assert_eq!(recent.get(&"a", |_| true), None);
    }

    #[test]
    fn what_is_kept_has_an_end() {
        let recent = Recent::new(100);
        for number in 0..1_000 {
            recent.keep(number, (), 10);
            let generations = recent.open();
            assert!(generations.young.len() + generations.old.len() <= 10);
        }
        assert!(recent.get(&999, |()| true).is_some());
        assert!(recent.get(&900, |()| true).is_none());
    }

    /// What is replaced is gone at once, wherever it stood: it may have held a secret.
    #[test]
    fn a15_a_value_that_was_replaced_is_nowhere() {
        let recent = Recent::new(40);
        recent.keep("a", 1, 20);
        recent.keep("b", 1, 20);
        recent.keep("a", 2, 5);
        let generations = recent.open();
        let of_a = [&generations.young, &generations.old].map(|values| values.get("a"));
        assert_eq!(of_a.into_iter().flatten().collect::<Vec<_>>(), [&2]);
    }
}
