//! Messages from the client: finds the server that each one is for.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::value::RawValue;

use super::lists::List;
use super::route::native;
use super::{Multiplexer, Routed, names};
use crate::mcp::answer::Form;
use crate::mcp::call::Says;
use crate::mcp::frame::{Frame, Id, Kind, pick, pick_meta, quote, span};
use crate::mcp::lines::Read;
use crate::mcp::lock;
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::{self, Back, Next};
use crate::mcp::restart::STARTED_AGAIN;
use crate::mcp::server::{OWN, is_own};
use crate::mcp::{builtin_tools, wire};
use crate::output;

/// A request of the client, and the channel for its answer.
pub struct ClientRequest {
    /// The whole message.
    pub frame: Frame,
    /// The request id in normal form.
    pub id: Id,
    /// Channel for the answer.
    pub back: Back,
}

impl ClientRequest {
    /// Returns the parameters of the request as JSON; an empty object if it has none.
    pub fn params(&self) -> &[u8] {
        self.frame.part(&self.frame.params).unwrap_or(b"{}")
    }

    /// Returns the request id as the client wrote it.
    pub fn raw_id(&self) -> String {
        let raw = self.frame.part(&self.frame.id).unwrap_or(b"null");
        String::from_utf8_lossy(raw).into_owned()
    }

    pub async fn answer(&self, line: OneLine) {
        let _ = self.back.send(line).await;
    }

    /// Answers with a JSON-RPC error.
    pub async fn refuse(&self, code: i32, problem: &str) {
        self.answer(wire::error(Some(&self.raw_id()), code, problem))
            .await;
    }

    /// Answers a tool call with a failure that the model can read.
    async fn fail(&self, problem: &str) {
        let form = Form {
            id: self.raw_id(),
            is_modern: Says::read(self.params()).is_modern(),
            has_schema: false,
        };
        self.answer(form.failure(problem)).await;
    }

    /// Returns the string parameter `name`, parsed and as raw JSON; `None` if it is missing or not a string.
    pub fn text(&self, name: &str) -> Option<(String, &RawValue)> {
        let [raw] = pick(self.params(), [name]).ok()?;
        Some((serde_json::from_str(raw?.get()).ok()?, raw?))
    }

    /// Returns the message with the raw value `place`, a part of the message, replaced with a string.
    pub fn with(&self, place: &RawValue, text: &str) -> OneLine {
        let place = span(&self.frame.line, place.get());
        self.frame.line.splice(place, quote(text).as_bytes())
    }
}

impl Multiplexer {
    /// Handles a message from the client. Returns what to send and to which server. Answers of the gateway go to
    /// `back`.
    pub async fn hear_client(self: &Arc<Self>, read: Read, back: &Back) -> Next<Routed> {
        let frame = match read {
            Ok(frame) => frame,
            Err(bad) => {
                let _ = back.send(relay::refused(&bad)).await;
                return Next::Done;
            }
        };
        if let Some(refusal) = relay::refusal(&frame) {
            let _ = back.send(refusal).await;
            return Next::Done;
        }
        match frame.kind.clone() {
            Kind::Response { id } if is_own(&id) => {
                // Offer the response to every relay; only the one that asked knows the id.
                for upstream in self.upstreams.all() {
                    upstream.relay.hear_client(Ok(frame.clone()), back).await;
                }
                Next::Done
            }
            Kind::Response { .. } => {
                self.forward_response(&frame, back).await;
                Next::Done
            }
            Kind::Notification { method } => {
                self.handle_notification(&frame, &method, back).await;
                Next::Done
            }
            Kind::Request { id, method } => {
                let back = back.clone();
                self.handle_request(ClientRequest { frame, id, back }, &method)
                    .await
            }
        }
    }

    /// Forwards the client's response to the server that asked, under that server's original id.
    async fn forward_response(&self, frame: &Frame, back: &Back) {
        let raw = frame
            .part(&frame.id)
            .and_then(|raw| serde_json::from_slice(raw).ok());
        let whose = raw.and_then(native);
        let upstream = whose.and_then(|(server, own)| Some((self.upstream(&server)?.0, own)));
        if let (Some((upstream, own)), Some(place)) = (upstream, frame.id.clone()) {
            self.pass(upstream, frame.line.splice(place, own.as_bytes()), back)
                .await;
        }
    }

    async fn handle_notification(self: &Arc<Self>, frame: &Frame, method: &str, back: &Back) {
        match method {
            "notifications/initialized" => self.initialized(frame.line.clone()).await,
            "notifications/cancelled" => self.forward_cancellation(frame, back).await,
            "notifications/progress" => {
                let params = frame.part(&frame.params).unwrap_or_default();
                let token = pick(params, ["progressToken"]).ok().and_then(|[token]| token);
                let whose = token.and_then(|token| Some((token, native(token)?)));
                if let Some((token, (server, own))) = whose
                    && let Some((upstream, _)) = self.upstream(&server)
                {
                    let place = span(&frame.line, token.get());
                    self.pass(upstream, frame.line.splice(place, own.as_bytes()), back)
                        .await;
                }
            }
            "notifications/roots/list_changed" => {
                for upstream in 0..self.upstreams.len() {
                    self.pass(upstream, frame.line.clone(), back).await;
                }
            }
            // A notification for one server must not reach the others.
            _ => output::print_to_stderr(&format!(
                "countersign: `{}` of the client is for none of several servers, and was not passed on",
                method.escape_default()
            )),
        }
    }

    /// Forwards a cancellation to the server that has the request.
    async fn forward_cancellation(&self, frame: &Frame, back: &Back) {
        let params = frame.part(&frame.params).unwrap_or_default();
        let request = pick(params, ["requestId"]).ok().and_then(|[request]| request);
        let Some(id) = request.and_then(Id::read) else {
            return;
        };
        if self.unsubscribe(&id, &frame.line, back).await {
            return;
        }
        let upstream = lock(&self.routes).upstream(&id);
        if let Some(upstream) = upstream {
            self.pass(upstream, frame.line.clone(), back).await;
            lock(&self.routes).end(&id);
        }
    }

    /// Forwards a message that wants no response. The relay gets the message even if its server is not ready, because
    /// calls may be waiting in the relay.
    pub(super) async fn pass(&self, upstream: usize, line: OneLine, back: &Back) {
        let Some(upstream) = self.upstreams.get(upstream) else {
            return;
        };
        if let Next::Send(line) = upstream.relay.hear_client(Frame::read_line(line), back).await
            && upstream.is_ready()
        {
            // Ignore the error: a server that is gone needs no notification.
            let _ = upstream.relay.server.send(line).await;
        }
    }

    async fn handle_request(self: &Arc<Self>, asked: ClientRequest, method: &str) -> Next<Routed> {
        if method != "server/discover" {
            self.learn(&asked.frame);
        }
        let switch = self.clone();
        match method {
            "initialize" => Next::Later(switch.greet(asked).boxed()),
            "server/discover" => Next::Later(switch.discover(asked).boxed()),
            "ping" => {
                asked.answer(wire::result(&asked.raw_id(), "{}")).await;
                Next::Done
            }
            "tools/call" => self.call(asked).await,
            "prompts/get" => match asked.text("name") {
                Some((name, place)) => match self.named(&name) {
                    Some((upstream, own)) => {
                        let bytes = asked.with(place, own);
                        self.route(upstream, bytes, asked).await
                    }
                    None => {
                        refuse(
                            asked,
                            wire::INVALID_PARAMS,
                            format!("there is no prompt `{name}`"),
                        )
                        .await
                    }
                },
                None => refuse(asked, wire::INVALID_PARAMS, "it names no prompt".to_owned()).await,
            },
            "completion/complete" => Next::Later(switch.complete(asked).boxed()),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                Next::Later(switch.resource(asked).boxed())
            }
            "tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/update" => {
                Next::Later(switch.task(asked).boxed())
            }
            "subscriptions/listen" => Next::Later(switch.subscribe(asked).boxed()),
            "logging/setLevel" => Next::Later(switch.set_level(asked).boxed()),
            method => match List::of(method) {
                Some(list) => Next::Later(switch.list(asked, list).boxed()),
                None => {
                    let problem = format!("`{method}` does not say which of several servers it is for");
                    refuse(asked, wire::METHOD_NOT_FOUND, problem).await
                }
            },
        }
    }

    /// Marks servers as ready on the first request of a client whose protocol version has no `initialize`.
    fn learn(&self, frame: &Frame) {
        let params = frame.part(&frame.params).unwrap_or_default();
        if !Says::read(params).is_modern() {
            return;
        }
        for upstream in self.upstreams.all() {
            upstream.relay.heard(frame);
            if upstream.is_new() {
                upstream.ready(None);
            }
        }
    }

    async fn call(self: &Arc<Self>, asked: ClientRequest) -> Next<Routed> {
        let Some((name, place)) = asked.text("name") else {
            let problem = "the call cannot be read: it names no tool".to_owned();
            return refuse(asked, wire::INVALID_PARAMS, problem).await;
        };
        if builtin_tools::is_own(&name) {
            // Built-in tools are the same at every server, so the first one's relay answers.
            let bytes = asked.frame.line.clone();
            return self.route(0, bytes, asked).await;
        }
        let found = self.named(&name).filter(|(_, tool)| !builtin_tools::is_own(tool));
        let Some((upstream, tool)) = found else {
            let problem = format!("there is no tool `{name}`; tools are called `SERVER__TOOL` here");
            return refuse(asked, wire::INVALID_PARAMS, problem).await;
        };
        let bytes = asked.with(place, tool);
        let Some(found) = self.upstreams.get(upstream) else {
            return Next::Done;
        };
        if let Some(absence) = found.absence() {
            asked.fail(&format!("nothing was run: {absence}")).await;
            return Next::Done;
        }
        if found.takes_notice() {
            return refuse(asked, wire::INTERNAL, STARTED_AGAIN.to_owned()).await;
        }
        if found.is_registered() && found.refusal().await.is_none() {
            return self.route(upstream, bytes, asked).await;
        }
        let switch = self.clone();
        let checked = async move {
            if let Some(reason) = found.refusal().await {
                let problem = format!(
                    "nothing was run: no tool of `{}` is offered: {reason}",
                    found.name()
                );
                asked.fail(&problem).await;
                return None;
            }
            switch.route_now(upstream, bytes, asked).await
        };
        Next::Later(checked.boxed())
    }

    /// Splits `SERVER__NAME` into the number of the server and the server's own name for the tool or prompt. `None` if
    /// there is no such server.
    pub(super) fn named<'n>(&self, name: &'n str) -> Option<(usize, &'n str)> {
        let (server, own) = names::split(name)?;
        Some((self.upstream(server)?.0, own))
    }

    /// Passes a request to the relay of one server. Returns the message to send, or a future if the ruling is not known
    /// yet.
    pub(super) async fn route(
        self: &Arc<Self>,
        upstream: usize,
        line: OneLine,
        asked: ClientRequest,
    ) -> Next<Routed> {
        let Some(found) = self.upstreams.get(upstream) else {
            return Next::Done;
        };
        let is_ours = is_for_us(&asked);
        if let (Some(absence), false) = (found.absence(), is_ours) {
            return refuse(asked, wire::INTERNAL, absence).await;
        }
        if !lock(&self.routes).begin(&asked.id, upstream) {
            let problem = "a request with this id is under way".to_owned();
            return refuse(asked, wire::INVALID_REQUEST, problem).await;
        }
        if let Some(token) = pick_meta(asked.params(), "progressToken") {
            lock(&self.routes).token(token.get(), upstream);
        }
        let next = found.relay.hear_client(Frame::read_line(line), &asked.back).await;
        let (switch, id) = (self.clone(), asked.id);
        // Bind the server process now: a ruling is valid for the process that the call was meant for, and for no other.
        let routed = move |line: Option<OneLine>| match line {
            Some(line) => Some(Routed::to_one(switch, id, (upstream, found), line)),
            None => {
                lock(&switch.routes).end(&id);
                None
            }
        };
        match next {
            Next::Send(bytes) => routed(Some(bytes)).map_or(Next::Done, Next::Send),
            Next::Done => routed(None).map_or(Next::Done, Next::Send),
            Next::Later(ruling) => Next::Later(ruling.map(routed).boxed()),
        }
    }

    /// Passes a request to the relay of one server and awaits the ruling. Returns the message to send, if any.
    pub(super) async fn route_now(
        self: &Arc<Self>,
        upstream: usize,
        line: OneLine,
        asked: ClientRequest,
    ) -> Option<Routed> {
        match self.route(upstream, line, asked).await {
            Next::Send(routed) => Some(routed),
            Next::Done => None,
            Next::Later(routed) => routed.await,
        }
    }
}

/// Answers a request with an error, so that nothing is sent to a server.
pub async fn refuse(asked: ClientRequest, code: i32, problem: String) -> Next<Routed> {
    asked.refuse(code, &problem).await;
    Next::Done
}

/// Returns true if a request is about a built-in tool or a task of the gateway, which need no server.
fn is_for_us(asked: &ClientRequest) -> bool {
    let is_tool = asked
        .text("name")
        .is_some_and(|(name, _)| builtin_tools::is_own(&name));
    is_tool
        || asked
            .text("taskId")
            .is_some_and(|(task, _)| task.starts_with(OWN))
}
