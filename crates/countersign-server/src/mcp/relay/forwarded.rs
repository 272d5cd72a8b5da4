//! Requests of the client that the server has, by their ids.
//!
//! An answer counts once, and only under the id that a request has, to the letter.

use std::collections::{HashMap, VecDeque};

use crate::mcp::frame::Id;

/// At least so many requests without an answer are remembered; of twice as many the oldest are forgotten.
const MOST: usize = 16 * 1024;

/// Requests that the server may answer.
#[derive(Default)]
pub struct Forwarded {
    /// How many requests go by one id: clients that share a server may number theirs alike.
    open: HashMap<Id, usize>,
    order: VecDeque<Id>,
}

impl Forwarded {
    /// A request goes to the server.
    pub fn add(&mut self, id: &Id) {
        *self.open.entry(id.clone()).or_default() += 1;
        self.order.push_back(id.clone());
        if self.order.len() < 2 * MOST {
            return;
        }
        // Seldom, so that it costs little for each request.
        self.order.retain(|id| self.open.contains_key(id));
        while self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.take(&oldest);
        }
    }

    /// Forgets all of them, and gives their ids.
    pub fn take_all(&mut self) -> Vec<Id> {
        self.order.clear();
        std::mem::take(&mut self.open).into_keys().collect()
    }

    /// True when there is a request of this id; then there is one less.
    pub fn take(&mut self, id: &Id) -> bool {
        let Some(count) = self.open.get_mut(id) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.open.remove(id);
        }
        // Most are answered in the order in which they were asked.
        while self.order.front().is_some_and(|id| !self.open.contains_key(id)) {
            self.order.pop_front();
        }
        true
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
