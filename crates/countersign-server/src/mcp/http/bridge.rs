//! Streamable HTTP in front of a command or several servers: each session gets its own servers.
//!
//! Responses are matched by request id; a server's other messages go to the client that listens. Protocol versions from
//! 2026-07-28 on have no sessions: all such requests of one caller share a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use countersign::hash::Hash;

use super::endpoint::{Endpoint, message, mismatch, refused};
use super::exchange::{Conversation, SharedLifecycle, caller};
use super::headers::are_modern;
use super::sessions::MOST_SESSIONS;
use super::target::SESSION;
use crate::duration;
use crate::mcp::call::Says;
use crate::mcp::child::Launch;
use crate::mcp::frame::Kind;
use crate::mcp::lines::Read;
use crate::mcp::lock;
use crate::mcp::multiplexer::Spec;
use crate::mcp::relay::{self, Who};
use crate::mcp::wire;

/// HTTP sessions of clients, each with servers of its own.
pub struct Bridge {
    servers: Servers,
    conversations: Mutex<HashMap<String, Arc<Conversation>>>,
    life: SharedLifecycle,
}

/// Servers that are started or connected to for each session.
pub enum Servers {
    /// One command, started for each session.
    One(Launch),
    /// Several servers, each a command or a URL.
    Several(Vec<Spec>),
}

impl Bridge {
    /// Creates a bridge to these servers.
    pub fn new(servers: Servers) -> Bridge {
        Bridge {
            servers,
            conversations: Mutex::default(),
            life: SharedLifecycle::default(),
        }
    }

    /// Ends sessions that have been idle for `limit`, and forgets those whose servers have ended.
    pub(super) fn end_idle(&self, limit: Duration) {
        // Keep the lock until the end, because a request that finds a session marks it as used.
        let mut conversations = lock(&self.conversations);
        conversations.retain(|_, conversation| {
            if !conversation.is_over() && conversation.is_idle(limit) {
                conversation.end();
            }
            !conversation.is_over()
        });
    }

    /// Ends all sessions and waits until their servers have ended.
    pub(super) async fn end(&self) {
        for (_, conversation) in lock(&self.conversations).drain() {
            conversation.end();
        }
        self.life.ending.close();
        self.life.ending.wait().await;
    }

    pub(super) async fn answer(
        &self,
        endpoint: &Arc<Endpoint>,
        who: Who,
        method: Method,
        headers: HeaderMap,
        read: Read,
    ) -> Response {
        let named = headers.get(SESSION).and_then(|name| name.to_str().ok());
        match method {
            Method::POST => self.posted(endpoint, who, &headers, read).await,
            Method::GET => match named.and_then(|name| self.find(name, &who)) {
                Some(conversation) => conversation.listen(),
                None => StatusCode::METHOD_NOT_ALLOWED.into_response(),
            },
            Method::DELETE => match named.and_then(|name| self.find(name, &who).map(|_| name)) {
                Some(name) => {
                    let ended = lock(&self.conversations).remove(name);
                    if let Some(ended) = ended {
                        ended.end();
                        ended.end_calls().await;
                    }
                    StatusCode::NO_CONTENT.into_response()
                }
                None => refused(StatusCode::NOT_FOUND, "there is no such session"),
            },
            _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        }
    }

    async fn posted(&self, endpoint: &Arc<Endpoint>, who: Who, headers: &HeaderMap, read: Read) -> Response {
        let frame = match read {
            Ok(frame) => frame,
            Err(bad) => return message(StatusCode::BAD_REQUEST, relay::refused(&bad)),
        };
        if let Some(refusal) = relay::refusal(&frame) {
            return message(StatusCode::BAD_REQUEST, refusal);
        }
        let named = headers.get(SESSION).and_then(|name| name.to_str().ok());
        let says = Says::read(frame.part(&frame.params).unwrap_or_default());
        let is_modern = says.is_modern();
        let greets = matches!(&frame.kind, Kind::Request { method, .. } if method == "initialize");
        let is_greeting = greets && !is_modern;
        let is_silent = match is_modern {
            true => says.capabilities.is_none(),
            false => named.is_none() && !greets && are_modern(headers),
        };
        if is_silent {
            let problem = "`_meta` does not say which protocol the client speaks and what it can do";
            let id = frame.part(&frame.id).map(String::from_utf8_lossy);
            let answer = wire::error(id.as_deref(), wire::INVALID_PARAMS, problem);
            return message(StatusCode::BAD_REQUEST, answer);
        }
        let (conversation, name) = match named {
            Some(name) => match self.find(name, &who) {
                Some(conversation) => (conversation, None),
                None => return refused(StatusCode::NOT_FOUND, "there is no such session"),
            },
            None if is_greeting || is_modern => match self.begin(endpoint, who, is_greeting) {
                Ok(begun) => begun,
                Err(answer) => return *answer,
            },
            None => return refused(StatusCode::BAD_REQUEST, "name the session in `Mcp-Session-Id`"),
        };
        if is_modern && let Err(problem) = conversation.check(&frame, headers).await {
            return mismatch(&frame, &problem);
        }
        let mut answer = conversation.exchange(&frame, is_modern).await;
        if let Some(name) = name.and_then(|name| HeaderValue::from_str(&name).ok()) {
            answer.headers_mut().insert(SESSION, name);
        }
        answer
    }

    fn find(&self, name: &str, who: &Who) -> Option<Arc<Conversation>> {
        let conversations = lock(&self.conversations);
        let found = conversations.get(name)?;
        let is_good = found.is_of(who) && !found.is_over();
        is_good.then(|| {
            found.touch();
            found.clone()
        })
    }

    /// If `is_greeting`, starts a session with a random name and returns that name, too, for the `Mcp-Session-Id`
    /// header. Otherwise returns the caller's shared session, which serves its requests that name none, and starts it
    /// if needed.
    fn begin(
        &self,
        endpoint: &Arc<Endpoint>,
        who: Who,
        is_greeting: bool,
    ) -> Result<(Arc<Conversation>, Option<String>), Box<Response>> {
        let name = match is_greeting {
            true => random(),
            false => Some(format!("shared {}", caller(&who))),
        };
        let Some(name) = name else {
            return Err(Box::new(refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "the operating system returned no random bytes",
            )));
        };
        if let Some(shared) = self.find(&name, &who).filter(|_| !is_greeting) {
            return Ok((shared, None));
        }
        if lock(&self.conversations).len() >= MOST_SESSIONS {
            return Err(Box::new(refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "there are too many sessions",
            )));
        }
        if let Some(wait) = self.life.backoff.wait(&caller(&who)) {
            let wait = duration::show(wait);
            let problem = format!("the server keeps ending; it can be started again in {wait}");
            return Err(Box::new(refused(StatusCode::SERVICE_UNAVAILABLE, &problem)));
        }
        let life = self.life.clone();
        let started = match &self.servers {
            Servers::One(launch) => Conversation::start(endpoint, launch, who, life),
            Servers::Several(specs) => Conversation::start_several(endpoint, specs, &who, life),
        };
        let conversation = started.map_err(|problem| Box::new(refused(StatusCode::BAD_GATEWAY, &problem)))?;
        lock(&self.conversations).insert(name.clone(), conversation.clone());
        Ok((conversation, is_greeting.then_some(name)))
    }
}

fn random() -> Option<String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).ok()?;
    Some(Hash(random).to_string())
}
