//! What went where: requests of the client by their ids, and questions of servers under ids that tell whose they are.
//!
//! A client's ids are its own, and each request goes to one server: they pass unchanged, and an answer counts only from
//! the server that was asked. Two servers may ask the client under equal ids: towards the client they become
//! `SERVER:ID`, with the id as it was written, so that it comes back to the byte.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Switch, open};
use crate::mcp::frame::{Id, quote};
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::Back;
use crate::mcp::wire;

/// So many tokens and tasks are remembered.
const MOST: usize = 4096;

/// What went where.
#[derive(Default)]
pub struct Routes {
    requests: HashMap<Id, Route>,
    tokens: Remembered,
    tasks: Remembered,
}

/// A request of the client that has no answer yet.
struct Route {
    leg: usize,
    /// Whether the server has it; until then it waits here.
    is_sent: bool,
}

/// Words and whose they are, the newest of them.
#[derive(Default)]
struct Remembered {
    whose: HashMap<String, Vec<usize>>,
    order: VecDeque<String>,
}

impl Remembered {
    fn add(&mut self, word: &str, leg: usize) {
        let whose = self.whose.entry(word.to_owned()).or_default();
        if whose.is_empty() {
            self.order.push_back(word.to_owned());
        }
        if !whose.contains(&leg) {
            whose.push(leg);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.whose.remove(&oldest);
        }
    }

    fn replace(&mut self, word: &str, leg: usize) {
        self.add(word, leg);
        self.whose.insert(word.to_owned(), vec![leg]);
    }

    fn whose(&self, word: &str) -> &[usize] {
        self.whose.get(word).map_or(&[], Vec::as_slice)
    }
}

impl Routes {
    /// A request goes to this server; false when one with this id is under way.
    pub fn begin(&mut self, id: &Id, leg: usize) -> bool {
        if self.requests.contains_key(id) {
            return false;
        }
        let route = Route { leg, is_sent: false };
        self.requests.insert(id.clone(), route);
        true
    }

    /// It is over.
    pub fn end(&mut self, id: &Id) {
        self.requests.remove(id);
    }

    /// The server gets it now; false when nobody wants it any more.
    pub fn sent(&mut self, id: &Id) -> bool {
        match self.requests.get_mut(id) {
            Some(route) => {
                route.is_sent = true;
                true
            }
            None => false,
        }
    }

    /// Where a request is.
    pub fn leg(&self, id: &Id) -> Option<usize> {
        self.requests.get(id).map(|route| route.leg)
    }

    /// Whether this server may answer this request; then it is over.
    pub fn answered(&mut self, id: &Id, leg: usize) -> bool {
        let is_its = self
            .requests
            .get(id)
            .is_some_and(|route| route.leg == leg && route.is_sent);
        is_its && self.requests.remove(id).is_some()
    }

    /// All requests that a server has and will not answer.
    pub fn lost(&mut self, leg: usize) -> Vec<Id> {
        let is_lost = |route: &Route| route.leg == leg && route.is_sent;
        let lost: Vec<Id> = self
            .requests
            .iter()
            .filter(|(_, route)| is_lost(route))
            .map(|(id, _)| id.clone())
            .collect();
        self.requests.retain(|_, route| !is_lost(route));
        lost
    }

    /// The client wants to hear under this token, as JSON, how far a request at this server is.
    pub fn token(&mut self, token: &str, leg: usize) {
        self.tokens.replace(token, leg);
    }

    /// Whether a token was given to another server.
    pub fn is_of_another(&self, token: &str, leg: usize) -> bool {
        let whose = self.tokens.whose(token);
        !whose.is_empty() && !whose.contains(&leg)
    }

    /// A server has a task of this id.
    pub fn task(&mut self, task: &str, leg: usize) {
        self.tasks.add(task, leg);
    }

    /// The servers that have a task of this id.
    pub fn tasks(&self, task: &str) -> Vec<usize> {
        self.tasks.whose(task).to_vec()
    }
}

/// What a server calls its own, as the client gets to see it; both are JSON.
pub fn foreign(server: &str, own: &str) -> String {
    quote(&format!("{server}:{own}"))
}

/// The server, and what that one calls it.
pub fn native(foreign: &RawValue) -> Option<(String, String)> {
    let text: String = serde_json::from_str(foreign.get()).ok()?;
    let (server, own) = text.split_once(':')?;
    // What is put into a message must be an id, whatever the client made of it.
    Id::read(serde_json::from_str(own).ok()?)?;
    Some((server.to_owned(), own.to_owned()))
}

/// A request on its way: to one server, or to all who are to hear it.
pub struct Routed {
    switch: Arc<Switch>,
    id: Id,
    to: Vec<(usize, OneLine)>,
    /// Whether one server answers it, or several do.
    is_single: bool,
}

impl Routed {
    /// To one server, which answers it.
    pub fn to_one(switch: Arc<Switch>, id: Id, leg: usize, line: OneLine) -> Routed {
        Routed {
            switch,
            id,
            to: vec![(leg, line)],
            is_single: true,
        }
    }

    /// To several servers; who answers when is looked after elsewhere.
    pub fn to_several(switch: Arc<Switch>, id: Id, to: Vec<(usize, OneLine)>) -> Routed {
        Routed {
            switch,
            id,
            to,
            is_single: false,
        }
    }

    /// Sends it. A server that is gone is an answer, too.
    pub async fn send(self, back: &Back) {
        if self.is_single && !open(&self.switch.routes).sent(&self.id) {
            return;
        }
        for (number, line) in self.to {
            let Some(leg) = self.switch.legs.get(number) else {
                continue;
            };
            if !self.is_single {
                leg.relay.forwards(&self.id);
            }
            let is_gone = leg.relay.server.send(line).await.is_err();
            if is_gone && open(&self.switch.routes).answered(&self.id, number) {
                let problem = format!("the server `{}` is gone", leg.name());
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
