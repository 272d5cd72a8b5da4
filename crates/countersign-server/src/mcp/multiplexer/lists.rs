//! Merges the lists of all servers into one page, because many clients ask for no second one.
//!
//! Every definition stays as its server wrote it, except for the prefix of its name. The built-in tools follow the
//! tools, and this client's held calls follow the tasks.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::client::ClientRequest;
use super::greet::own_meta;
use super::owner::texts;
use super::upstream::UpstreamRelay;
use super::{Multiplexer, Routed, merge, names};
use crate::mcp::answer::is_our_task;
use crate::mcp::call::{Says, without};
use crate::mcp::frame::{members, pick, quote, span};
use crate::mcp::lock;
use crate::mcp::server::Pages;
use crate::mcp::tools::definition;
use crate::mcp::{builtin_tools, wire};

/// Time limit for one server's listing.
pub const WITHIN: Duration = Duration::from_secs(10);

/// A kind of list that servers offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    method: &'static str,
    /// Member of the result that holds the items.
    member: &'static str,
    /// Capability of servers that offer this list.
    capability: &'static str,
    /// Whether items have names that need the server's prefix.
    is_named: bool,
}

const TOOLS: List = List {
    method: "tools/list",
    member: "tools",
    capability: "tools",
    is_named: true,
};

const TASKS: List = List {
    method: "tasks/list",
    member: "tasks",
    capability: "tasks",
    is_named: false,
};

const LISTS: [List; 5] = [
    TOOLS,
    List {
        method: "prompts/list",
        member: "prompts",
        capability: "prompts",
        is_named: true,
    },
    List {
        method: "resources/list",
        member: "resources",
        capability: "resources",
        is_named: false,
    },
    List {
        method: "resources/templates/list",
        member: "resourceTemplates",
        capability: "resources",
        is_named: false,
    },
    TASKS,
];

impl List {
    /// Returns the list that a method asks for; `None` if it asks for no list.
    pub fn of(method: &str) -> Option<List> {
        LISTS.into_iter().find(|list| list.method == method)
    }
}

impl Multiplexer {
    /// Answers a list request with the items of all servers. Returns `None`, because there is nothing left to route.
    pub(super) async fn list(self: Arc<Self>, asked: ClientRequest, list: List) -> Option<Routed> {
        let [cursor] = pick(asked.params(), ["cursor"]).unwrap_or([None]);
        if cursor.is_some_and(|cursor| cursor.get() != "null") {
            asked
                .refuse(
                    wire::INVALID_PARAMS,
                    "the gateway gave out no such cursor: its lists have one page",
                )
                .await;
            return None;
        }
        let base = base(asked.params());
        let mut upstreams = self.upstreams.all();
        upstreams.retain(|upstream| upstream.can(list.capability));
        let pages =
            futures_util::future::join_all(upstreams.iter().map(|upstream| pages(upstream, list, &base)))
                .await;
        let is_modern = Says::read(asked.params()).is_modern();
        let (mut items, mut rest) = (Vec::new(), Vec::new());
        rest.extend(is_modern.then(own_meta));
        for (upstream, pages) in upstreams.iter().zip(pages) {
            let Some(pages) = pages else { continue };
            remember(upstream, list, &pages);
            let items_of = pages.items.iter().filter_map(|item| {
                let shown = match list {
                    TOOLS => shown(upstream, item)?,
                    TASKS if is_our_task(item.get().as_bytes()) => return None,
                    _ => item.get().into(),
                };
                written(upstream.name(), &shown, list.is_named)
            });
            items.extend(items_of);
            rest.push(pages.rest);
        }
        // Protocol versions from 2026-07-28 on have no `tasks/list`.
        if list == TASKS
            && !is_modern
            && let Some(upstream) = self.upstreams.get(0)
        {
            // The relays of one client know the same held calls, whatever server these are for.
            items.extend(upstream.relay.open_tasks().await);
        }
        if list == TOOLS {
            items.push(builtin_tools::definitions(
                self.gateway.settings.permission_prompt,
            ));
        }
        let result = result(list.member, &items, &rest, is_modern);
        asked.answer(wire::result(&asked.raw_id(), &result)).await;
        None
    }

    /// Sets the log level of all servers that log, and answers the client. Returns `None`, because there is nothing
    /// left to route.
    pub(super) async fn set_level(self: Arc<Self>, asked: ClientRequest) -> Option<Routed> {
        let params = String::from_utf8_lossy(asked.params()).into_owned();
        let mut upstreams = self.upstreams.all();
        upstreams.retain(|upstream| upstream.can("logging"));
        let set = upstreams.iter().map(|upstream| {
            let set = upstream.relay.server.request("logging/setLevel", &params);
            // Each server has its own time, so that a silent one does not hide the others' answers.
            tokio::time::timeout(WITHIN, set)
        });
        let set = futures_util::future::join_all(set).await;
        let mut answers = set.iter().flatten().flatten();
        let is_set = answers.clone().any(|answer| answer.result.is_some());
        let refused = answers.find_map(|answer| answer.part(&answer.error));
        let answer = match (is_set, refused) {
            (true, _) => wire::result(&asked.raw_id(), "{}"),
            (false, Some(error)) => wire::raw_error(&asked.raw_id(), error),
            (false, None) => wire::error(
                Some(&asked.raw_id()),
                wire::METHOD_NOT_FOUND,
                "none of the servers logs",
            ),
        };
        asked.answer(answer).await;
        None
    }
}

/// Returns the client's parameters to send to each server. Cursor and progress token are left out, because the merged
/// list is one page.
fn base(params: &[u8]) -> Vec<(String, String)> {
    let all = members(params).unwrap_or_default();
    let kept = all.into_iter().filter(|(name, _)| name != "cursor");
    let written = kept.map(|(name, value)| {
        let text = match name.as_str() {
            "_meta" => without(value, &["progressToken"]).unwrap_or_else(|| value.get().to_owned()),
            _ => value.get().to_owned(),
        };
        (name, text)
    });
    written.collect()
}

async fn pages(upstream: &UpstreamRelay, list: List, base: &[(String, String)]) -> Option<Pages> {
    let params = |cursor: Option<&str>| {
        let members = base.iter().map(|(name, text)| format!("{}:{text}", quote(name)));
        let cursor = cursor.map(|cursor| format!("\"cursor\":{cursor}"));
        format!("{{{}}}", members.chain(cursor).collect::<Vec<_>>().join(","))
    };
    let server = &upstream.relay.server;
    if list == TOOLS {
        return upstream.list_tools(&params).await.ok();
    }
    let pages = server.pages(list.method, list.member, &params);
    tokio::time::timeout(WITHIN, pages).await.ok()?.ok()
}

/// Caches a list of resources, so that it need not be fetched again to find the server of a resource.
fn remember(upstream: &UpstreamRelay, list: List, pages: &Pages) {
    match list.member {
        "resources" => lock(&upstream.offered).listed = Some(texts(pages, "uri").collect()),
        "resourceTemplates" => {
            lock(&upstream.offered).templates = Some(texts(pages, "uriTemplate").collect())
        }
        _ => {}
    }
}

/// Returns a tool as the policy lets the client see it; `None` if the tool is left out or cannot be parsed.
fn shown<'t>(upstream: &UpstreamRelay, item: &'t RawValue) -> Option<Cow<'t, str>> {
    let (name, listed) = definition(item)?;
    upstream.relay.shown(item, &name, listed.definition)
}

/// Returns one item as the client gets it, with the server's prefix in its name if `is_named`; `None` if that name is
/// missing.
fn written(server: &str, text: &str, is_named: bool) -> Option<String> {
    if !is_named {
        return Some(text.to_owned());
    }
    let [name] = pick(text.as_bytes(), ["name"]).ok()?;
    let place = span(text.as_bytes(), name?.get());
    let name: String = serde_json::from_str(name?.get()).ok()?;
    let (before, behind) = (text.get(..place.start)?, text.get(place.end..)?);
    Some(format!(
        "{before}{}{behind}",
        quote(&names::qualified(server, &name))
    ))
}

fn result(member: &str, items: &[String], rest: &[Vec<(String, Box<RawValue>)>], is_modern: bool) -> String {
    let mut written = vec![format!("\"{member}\":[{}]", items.join(","))];
    let mut beside = merge::merge_other_members(rest);
    // Defaults for required members that no server sent.
    let ours = [
        ("resultType", "\"complete\""),
        ("ttlMs", "0"),
        ("cacheScope", "\"private\""),
    ];
    for (name, text) in ours.iter().filter(|_| is_modern) {
        if !beside.iter().any(|(known, _)| known == name) {
            beside.push(((*name).to_owned(), (*text).to_owned()));
        }
    }
    written.extend(
        beside
            .iter()
            .map(|(name, text)| format!("{}:{text}", quote(name))),
    );
    format!("{{{}}}", written.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_name_is_changed() {
        let item = r#"{ "x-new":12345678901234567890123, "name" : "s\u0065nd" ,"_meta":{"name":"y"},"inputSchema":{"name":1e2}}"#;
        assert_eq!(
            written("mail", item, true).unwrap(),
            r#"{ "x-new":12345678901234567890123, "name" : "mail__send" ,"_meta":{"name":"y"},"inputSchema":{"name":1e2}}"#
        );
        assert_eq!(written("mail", item, false).unwrap(), item);
        assert_eq!(written("mail", "{}", true), None);
    }

    #[test]
    fn the_clients_parameters_reach_every_server() {
        let base = base(br#"{"_meta":{"progressToken":1,"trace":"x"},"new":1e2,"cursor":null}"#);
        let expected = [("_meta", r#"{"trace":"x"}"#), ("new", "1e2")];
        let base: Vec<(&str, &str)> = base
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        assert_eq!(base, expected);
    }

    #[test]
    fn a_list_of_the_later_kind_says_what_it_is() {
        let list = result("tools", &["{}".to_owned()], &[], true);
        assert_eq!(
            list,
            r#"{"tools":[{}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#
        );
        assert_eq!(result("tools", &[], &[], false), r#"{"tools":[]}"#);
    }
}
