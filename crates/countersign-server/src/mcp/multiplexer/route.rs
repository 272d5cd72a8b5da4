//! Routing table: which server has which request of the client, and ids of servers' requests to the client.
//!
//! Request ids of the client are forwarded unchanged, since each request goes to one server, and a response counts only
//! from that server. Two servers may send requests with equal ids, so the client sees them as `SERVER:ID`, with the id
//! as the server wrote it, and the response gets the original id back byte for byte.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::Multiplexer;
use super::upstream::UpstreamRelay;
use crate::mcp::frame::{Id, quote};
use crate::mcp::lock;
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::Back;
use crate::mcp::wire;

/// Maximum number of progress tokens, and of tasks, that are remembered.
const MOST: usize = 4096;

/// Routing table: open requests, progress tokens and tasks, each with its server.
#[derive(Default)]
pub struct Routes {
    requests: HashMap<Id, Route>,
    tokens: Remembered,
    tasks: Remembered,
}

/// A request of the client without a response yet.
struct Route {
    upstream: usize,
    /// Whether the request was sent to the server; until then it waits for its ruling.
    is_sent: bool,
}

/// Maps strings to servers; only the newest `MOST` are kept.
#[derive(Default)]
struct Remembered {
    whose: HashMap<String, Vec<usize>>,
    order: VecDeque<String>,
}

impl Remembered {
    fn add(&mut self, word: &str, upstream: usize) {
        let whose = self.whose.entry(word.to_owned()).or_default();
        if whose.is_empty() {
            self.order.push_back(word.to_owned());
        }
        if !whose.contains(&upstream) {
            whose.push(upstream);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.whose.remove(&oldest);
        }
    }

    fn replace(&mut self, word: &str, upstream: usize) {
        self.add(word, upstream);
        self.whose.insert(word.to_owned(), vec![upstream]);
    }

    fn whose(&self, word: &str) -> &[usize] {
        self.whose.get(word).map_or(&[], Vec::as_slice)
    }
}

impl Routes {
    /// Registers a request to a server. Returns false if another request with this id is in flight.
    pub fn begin(&mut self, id: &Id, upstream: usize) -> bool {
        if self.requests.contains_key(id) {
            return false;
        }
        let route = Route {
            upstream,
            is_sent: false,
        };
        self.requests.insert(id.clone(), route);
        true
    }

    /// Removes a request that was answered or cancelled.
    pub fn end(&mut self, id: &Id) {
        self.requests.remove(id);
    }

    /// Marks a request as sent. Returns false if it was cancelled.
    pub fn sent(&mut self, id: &Id) -> bool {
        match self.requests.get_mut(id) {
            Some(route) => {
                route.is_sent = true;
                true
            }
            None => false,
        }
    }

    /// Returns the server that a request was routed to; `None` if no request with this id is open.
    pub fn upstream(&self, id: &Id) -> Option<usize> {
        self.requests.get(id).map(|route| route.upstream)
    }

    /// Removes a request that this server answers. Returns false if the request was not sent to this server.
    pub fn answered(&mut self, id: &Id, upstream: usize) -> bool {
        let is_its = self
            .requests
            .get(id)
            .is_some_and(|route| route.upstream == upstream && route.is_sent);
        is_its && self.requests.remove(id).is_some()
    }

    /// Removes and returns all requests that were sent to a server which will not answer.
    pub fn lost(&mut self, upstream: usize) -> Vec<Id> {
        let is_lost = |route: &Route| route.upstream == upstream && route.is_sent;
        let lost: Vec<Id> = self
            .requests
            .iter()
            .filter(|(_, route)| is_lost(route))
            .map(|(id, _)| id.clone())
            .collect();
        self.requests.retain(|_, route| !is_lost(route));
        lost
    }

    /// Registers the progress token, as JSON, of a request to this server.
    pub fn token(&mut self, token: &str, upstream: usize) {
        self.tokens.replace(token, upstream);
    }

    /// Returns true if a progress token is registered for other servers, but not for this one.
    pub fn is_of_another(&self, token: &str, upstream: usize) -> bool {
        let whose = self.tokens.whose(token);
        !whose.is_empty() && !whose.contains(&upstream)
    }

    /// Registers that a server has a task of this id.
    pub fn task(&mut self, task: &str, upstream: usize) {
        self.tasks.add(task, upstream);
    }

    /// Returns the servers that have a task of this id.
    pub fn tasks(&self, task: &str) -> Vec<usize> {
        self.tasks.whose(task).to_vec()
    }
}

/// Returns a server's id or progress token as the client sees it: `SERVER:ID`. `own` and the result are JSON.
pub fn foreign(server: &str, own: &str) -> String {
    quote(&format!("{server}:{own}"))
}

/// Splits `SERVER:ID` into the server's name and the id, as JSON, that the server used. `None` if `foreign` does not
/// have this form.
pub fn native(foreign: &RawValue) -> Option<(String, String)> {
    let text: String = serde_json::from_str(foreign.get()).ok()?;
    let (server, own) = text.split_once(':')?;
    // Only a valid id may be written into a message, whatever the client sent.
    Id::read(serde_json::from_str(own).ok()?)?;
    Some((server.to_owned(), own.to_owned()))
}

/// A request that is ready to be sent, to one server or to several.
pub struct Routed {
    switch: Arc<Multiplexer>,
    id: Id,
    to: Vec<(usize, Arc<UpstreamRelay>, OneLine)>,
    /// True if one server answers the request, false if several do.
    is_single: bool,
}

impl Routed {
    /// Creates a request to a single server, whose response is the response to the client.
    pub fn to_one(
        switch: Arc<Multiplexer>,
        id: Id,
        (number, upstream): (usize, Arc<UpstreamRelay>),
        line: OneLine,
    ) -> Routed {
        Routed {
            switch,
            id,
            to: vec![(number, upstream, line)],
            is_single: true,
        }
    }

    /// Creates a request to several servers, whose answers are merged elsewhere. A number without a server is skipped.
    pub fn to_several(switch: Arc<Multiplexer>, id: Id, to: Vec<(usize, OneLine)>) -> Routed {
        let to = to.into_iter();
        let to = to.filter_map(|(number, line)| Some((number, switch.upstreams.get(number)?, line)));
        let to = to.collect();
        Routed {
            switch,
            id,
            to,
            is_single: false,
        }
    }

    /// Sends the request, unless it was cancelled. If its only server is gone, the client gets an error.
    pub async fn send(self, back: &Back) {
        if self.is_single && !lock(&self.switch.routes).sent(&self.id) {
            return;
        }
        for (number, upstream, line) in self.to {
            if !self.is_single {
                upstream.relay.forwards(&self.id);
            }
            let is_gone = upstream.relay.server.send(line).await.is_err();
            if is_gone && lock(&self.switch.routes).answered(&self.id, number) {
                let problem = format!("the server `{}` is gone", upstream.name());
                let _ = back
                    .send(wire::error(Some(self.id.as_json()), wire::INTERNAL, &problem))
                    .await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> Id {
        Id::read(serde_json::from_str(&number.to_string()).unwrap()).unwrap()
    }

    #[test]
    fn x42_only_the_server_that_was_asked_answers() {
        let mut routes = Routes::default();
        assert!(routes.begin(&id(1), 0));
        assert!(!routes.begin(&id(1), 1), "an id that is under way");
        assert!(
            !routes.answered(&id(1), 0),
            "it waits here, and the server knows nothing of it"
        );
        assert!(routes.lost(0).is_empty());
        assert!(routes.sent(&id(1)));
        assert!(!routes.answered(&id(1), 1), "another server");
        assert!(routes.answered(&id(1), 0));
        assert!(!routes.answered(&id(1), 0), "once");
        assert!(routes.begin(&id(2), 1) && routes.sent(&id(2)));
        assert_eq!(routes.lost(1), [id(2)]);
        assert!(!routes.sent(&id(2)));
    }

    #[test]
    fn ids_of_servers_come_back_to_the_byte() {
        for own in ["1", "\"a\"", "\"\\u0061:b\"", "-9007199254740991"] {
            let raw: Box<RawValue> = serde_json::from_str(&foreign("files", own)).unwrap();
            assert_eq!(native(&raw), Some(("files".to_owned(), own.to_owned())));
        }
        for bad in [
            "1",
            "\"plain\"",
            "\"files:x y\"",
            "\"files:1,2\"",
            "\"files:{}\"",
            "\"files:\"",
            "\"files:1.0\"",
        ] {
            let raw: Box<RawValue> = serde_json::from_str(bad).unwrap();
            assert_eq!(native(&raw), None, "{bad}");
        }
    }

    #[test]
    fn tokens_and_tasks_are_somebodys() {
        let mut routes = Routes::default();
        assert!(!routes.is_of_another("1", 0));
        routes.token("1", 0);
        assert!(routes.is_of_another("1", 1) && !routes.is_of_another("1", 0));
        routes.token("1", 1);
        assert!(routes.is_of_another("1", 0));
        routes.task("t", 0);
        routes.task("t", 1);
        assert_eq!(routes.tasks("t"), [0, 1]);
        for number in 0..=MOST {
            routes.task(&number.to_string(), 0);
        }
        assert!(routes.tasks("t").is_empty(), "the oldest is forgotten");
    }
}
