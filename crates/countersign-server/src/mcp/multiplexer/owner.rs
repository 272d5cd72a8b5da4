//! Finds the server of a resource, template, prompt or task.
//!
//! A resource or task that two servers offer is refused, because it is not clear which of them the client means (X42).

use std::sync::Arc;

use serde_json::value::RawValue;

use super::client::ClientRequest;
use super::upstream::UpstreamRelay;
use super::{Multiplexer, Routed};
use crate::mcp::frame::{Frame, Kind, pick, quote};
use crate::mcp::lock;
use crate::mcp::server::{OWN, Pages, Params};
use crate::mcp::wire;

impl Multiplexer {
    /// Passes a request about a resource to the server that offers it, or refuses the request. Returns the message to
    /// send, if any.
    pub(super) async fn resource(self: Arc<Self>, asked: ClientRequest) -> Option<Routed> {
        let Some((uri, _)) = asked.text("uri") else {
            asked.refuse(wire::INVALID_PARAMS, "it names no resource").await;
            return None;
        };
        self.to_owner(&uri, asked).await
    }

    async fn to_owner(self: Arc<Self>, uri: &str, asked: ClientRequest) -> Option<Routed> {
        match self.owner(uri).await {
            Ok(upstream) => {
                let bytes = asked.frame.line.clone();
                self.route_now(upstream, bytes, asked).await
            }
            Err(problem) => {
                asked.refuse(wire::INVALID_PARAMS, &problem).await;
                None
            }
        }
    }

    /// Returns the number of the one server that offers a URI. If only one server has resources, that server is
    /// returned in any case. Fails with the reason if no server or more than one offers the URI.
    pub(super) async fn owner(&self, uri: &str) -> Result<usize, String> {
        let upstreams = self.upstreams.all();
        let with_resources = upstreams
            .iter()
            .enumerate()
            .filter(|(_, upstream)| upstream.can("resources"));
        let with_resources: Vec<_> = with_resources.collect();
        futures_util::future::join_all(with_resources.iter().map(|(_, upstream)| look(upstream))).await;
        let has = |(_, upstream): &&(usize, &Arc<UpstreamRelay>)| lock(&upstream.offered).has(uri);
        let owners: Vec<_> = with_resources.iter().filter(has).collect();
        match (owners.as_slice(), with_resources.as_slice()) {
            ([(upstream, _)], _) => Ok(*upstream),
            // With only one candidate there is nothing to guess.
            ([], [(upstream, _)]) => Ok(*upstream),
            ([], _) => Err(format!("none of the servers offers `{uri}`")),
            (owners, _) => {
                let names: Vec<String> = owners
                    .iter()
                    .map(|(_, upstream)| format!("`{}`", upstream.name()))
                    .collect();
                Err(format!(
                    "`{uri}` is offered by {}, so it is not clear which is meant",
                    names.join(" and ")
                ))
            }
        }
    }

    /// Passes a completion request, for an argument of a prompt or of a URI template, to the server that offers it, or
    /// refuses the request. Returns the message to send, if any.
    pub(super) async fn complete(self: Arc<Self>, asked: ClientRequest) -> Option<Routed> {
        let reference = pick(asked.params(), ["ref"])
            .ok()
            .and_then(|[reference]| reference);
        let named = reference.and_then(|reference| pick(reference.get().as_bytes(), ["name", "uri"]).ok());
        let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
        match named {
            Some([Some(place), None]) => {
                let name = text(place).unwrap_or_default();
                let Some((upstream, own)) = self.named(&name) else {
                    asked
                        .refuse(wire::INVALID_PARAMS, &format!("there is no prompt `{name}`"))
                        .await;
                    return None;
                };
                let bytes = asked.with(place, own);
                self.route_now(upstream, bytes, asked).await
            }
            Some([None, Some(uri)]) => {
                let uri = text(uri).unwrap_or_default();
                self.to_owner(&uri, asked).await
            }
            _ => {
                asked
                    .refuse(wire::INVALID_PARAMS, "it names neither a prompt nor a resource")
                    .await;
                None
            }
        }
    }

    /// Passes a request about a task to the server that has the task, or refuses the request. Requests about the
    /// gateway's own tasks go to the first relay, which answers them. Returns the message to send, if any.
    pub(super) async fn task(self: Arc<Self>, asked: ClientRequest) -> Option<Routed> {
        let Some((task, _)) = asked.text("taskId") else {
            asked.refuse(wire::INVALID_PARAMS, "it names no task").await;
            return None;
        };
        let known = lock(&self.routes).tasks(&task);
        let owners = match known.is_empty() {
            _ if task.starts_with(OWN) => vec![0],
            true => self.who_has_task(&task).await,
            false => known,
        };
        match owners.as_slice() {
            [upstream] => {
                let bytes = asked.frame.line.clone();
                self.route_now(*upstream, bytes, asked).await
            }
            [] => {
                asked.refuse(wire::INVALID_PARAMS, "there is no such task").await;
                None
            }
            _ => {
                let problem = "several servers have a task of this id, so it is not clear which is meant";
                asked.refuse(wire::INVALID_PARAMS, problem).await;
                None
            }
        }
    }

    /// Asks all servers for a task that was not created through this gateway. Returns the servers that have it, and
    /// remembers them.
    async fn who_has_task(&self, task: &str) -> Vec<usize> {
        let ask = async |(number, upstream): (usize, &Arc<UpstreamRelay>)| {
            let server = &upstream.relay.server;
            let meta = server.meta().map(|meta| format!(",\"_meta\":{{{meta}}}"));
            let params = format!("{{\"taskId\":{}{}}}", quote(task), meta.unwrap_or_default());
            // Each server has its own time, so that a silent one does not hide the others' answers.
            let answer = tokio::time::timeout(super::lists::WITHIN, server.request("tasks/get", &params));
            let has_task = matches!(answer.await, Ok(Ok(answer)) if answer.result.is_some());
            has_task.then_some(number)
        };
        let upstreams = self.upstreams.all();
        let with_tasks = upstreams
            .iter()
            .enumerate()
            .filter(|(_, upstream)| upstream.is_ready());
        let found = futures_util::future::join_all(with_tasks.map(ask)).await;
        let found: Vec<usize> = found.into_iter().flatten().collect();
        for upstream in &found {
            lock(&self.routes).task(task, *upstream);
        }
        found
    }

    /// Remembers resource links and task ids in a server's response, which the client may use later.
    pub(super) fn learn_from(&self, number: usize, upstream: &UpstreamRelay, frame: &Frame) {
        let (Kind::Response { .. }, Some(result)) = (&frame.kind, frame.part(&frame.result)) else {
            return;
        };
        lock(&upstream.offered).learn(result);
        let Ok([task, own]) = pick(result, ["task", "taskId"]) else {
            return;
        };
        let inner = task.and_then(|task| pick(task.get().as_bytes(), ["taskId"]).ok().and_then(|[id]| id));
        let id = own
            .or(inner)
            .and_then(|id| serde_json::from_str::<String>(id.get()).ok());
        if let Some(id) = id {
            lock(&self.routes).task(&id, number);
        }
    }
}

/// Fetches a server's resources and templates, if they are not known.
async fn look(upstream: &UpstreamRelay) {
    let (knows_listed, knows_templates) = {
        let offered = lock(&upstream.offered);
        (offered.listed.is_some(), offered.templates.is_some())
    };
    let server = &upstream.relay.server;
    let params: &Params<'_> = &|cursor| server.listing(cursor);
    if !knows_listed && let Some(pages) = read_pages(upstream, "resources/list", "resources", params).await {
        lock(&upstream.offered).listed = Some(texts(&pages, "uri").collect());
    }
    if !knows_templates
        && let Some(pages) =
            read_pages(upstream, "resources/templates/list", "resourceTemplates", params).await
    {
        lock(&upstream.offered).templates = Some(texts(&pages, "uriTemplate").collect());
    }
}

async fn read_pages(
    upstream: &UpstreamRelay,
    method: &str,
    member: &str,
    params: &Params<'_>,
) -> Option<Pages> {
    let pages = upstream.relay.server.pages(method, member, params);
    tokio::time::timeout(super::lists::WITHIN, pages).await.ok()?.ok()
}

/// Returns the string `member` of each listed item that has one.
pub fn texts<'p>(pages: &'p Pages, member: &'p str) -> impl Iterator<Item = String> + 'p {
    pages.items.iter().filter_map(move |item| {
        let [text] = pick(item.get().as_bytes(), [member]).ok()?;
        serde_json::from_str(text?.get()).ok()
    })
}
