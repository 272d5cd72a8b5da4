//! Sessions that a server at a URL created, each with the relay of the client it belongs to.
//!
//! Beyond [`MOST_SESSIONS`], the least recently used session is forgotten. A session in which a call waits for a person
//! is forgotten only if all others have such a call, too. Callers of this module check whether a client may use a
//! session.

use std::collections::HashMap;
use std::sync::Arc;

use crate::mcp::relay::Relay;

/// Maximum number of sessions at a time.
pub const MOST_SESSIONS: usize = 1000;

/// Known sessions by name.
#[derive(Default)]
pub struct Sessions {
    known: HashMap<String, Session>,
    /// Number of uses so far, which orders the sessions by their last use.
    uses: u64,
}

struct Session {
    relay: Arc<Relay>,
    last_use: u64,
}

impl Sessions {
    /// Returns the relay of a session, which does not count as a use; `None` if the session is unknown.
    pub fn get(&self, name: &str) -> Option<&Arc<Relay>> {
        self.known.get(name).map(|session| &session.relay)
    }

    /// Marks a session as the one that was used last.
    pub fn touch(&mut self, name: &str) {
        self.uses += 1;
        if let Some(session) = self.known.get_mut(name) {
            session.last_use = self.uses;
        }
    }

    /// Adds a session that was used just now.
    pub fn add(&mut self, name: String, relay: Arc<Relay>) {
        if self.known.len() >= MOST_SESSIONS && !self.known.contains_key(&name) {
            self.forget_one();
        }
        self.uses += 1;
        let last_use = self.uses;
        self.known.insert(name, Session { relay, last_use });
    }

    /// Removes a session, if there is one of this name.
    pub fn remove(&mut self, name: &str) {
        self.known.remove(name);
    }

    fn forget_one(&mut self) {
        let mut by_use: Vec<(&String, &Session)> = self.known.iter().collect();
        by_use.sort_unstable_by_key(|(_, session)| session.last_use);
        let has_no_calls = |(_, session): &&(&String, &Session)| {
            !session
                .relay
                .gateway
                .upstreams
                .has_open_calls(&session.relay.server)
        };
        let found = by_use.iter().find(has_no_calls).or(by_use.first());
        if let Some(name) = found.map(|(name, _)| String::clone(name)) {
            self.known.remove(&name);
        }
    }
}
