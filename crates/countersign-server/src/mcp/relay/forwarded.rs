//! Requests of one side that the other side has not answered, by request id.
//!
//! A response is accepted once, and only if its id is exactly that of a request.

use std::collections::{HashMap, VecDeque};

use crate::mcp::frame::Id;

/// Number of unanswered requests that are always remembered; at twice as many, the oldest are forgotten.
const MOST: usize = 16 * 1024;

/// Requests that may still be answered.
#[derive(Default)]
pub struct Forwarded {
    /// Number of requests per id: clients that share a server may use the same ids.
    open: HashMap<Id, usize>,
    order: VecDeque<Id>,
}

impl Forwarded {
    /// Registers a request that goes to the other side.
    pub fn add(&mut self, id: &Id) {
        *self.open.entry(id.clone()).or_default() += 1;
        self.order.push_back(id.clone());
        if self.order.len() < 2 * MOST {
            return;
        }
        // Rare, so the amortized cost per request is small.
        self.order.retain(|id| self.open.contains_key(id));
        while self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.take(&oldest);
        }
    }

    /// Forgets all requests and returns their ids.
    pub fn take_all(&mut self) -> Vec<Id> {
        self.order.clear();
        std::mem::take(&mut self.open).into_keys().collect()
    }

    /// Removes one request with this id. Returns false if there was no such request.
    pub fn take(&mut self, id: &Id) -> bool {
        self.take_one(id).is_some()
    }

    /// Removes one request with this id. Returns how many requests with the same id are left, or `None` if there was no
    /// such request.
    pub fn take_one(&mut self, id: &Id) -> Option<usize> {
        let count = self.open.get_mut(id)?;
        *count -= 1;
        let left = *count;
        if left == 0 {
            self.open.remove(id);
        }
        // Most requests are answered in the order in which they were sent.
        while self.order.front().is_some_and(|id| !self.open.contains_key(id)) {
            self.order.pop_front();
        }
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x79_an_answer_counts_once_and_under_its_own_id() {
        let id = |text: &str| Id::read(serde_json::from_str(text).unwrap()).unwrap();
        let mut forwarded = Forwarded::default();
        forwarded.add(&id("1"));
        assert!(!forwarded.take(&id("\"1\"")));
        assert!(forwarded.take(&id("1")) && !forwarded.take(&id("1")));
        forwarded.add(&id("2"));
        forwarded.add(&id("2"));
        assert!(forwarded.take(&id("2")) && forwarded.take(&id("2")) && !forwarded.take(&id("2")));
        for number in 0..MOST * 3 {
            forwarded.add(&id(&number.to_string()));
        }
        assert!(forwarded.open.len() < 2 * MOST && forwarded.order.len() < 2 * MOST);
        assert!(!forwarded.take(&id("0")) && forwarded.take(&id(&(MOST * 3 - 1).to_string())));
    }
}
