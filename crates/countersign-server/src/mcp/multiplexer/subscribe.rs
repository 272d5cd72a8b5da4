//! `subscriptions/listen` for several servers: the client subscribes once and gets notifications of all.
//!
//! The client's request goes to every server under the client's own id; resource URIs go only to the server that offers
//! them. The client gets one merged acknowledgement, then the servers' notifications. The subscription ends when the
//! last server ends it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::client::ClientRequest;
use super::merge::merged;
use super::upstream::UpstreamRelay;
use super::{Multiplexer, Routed};
use crate::mcp::frame::{Frame, Id, Kind, pick, pick_meta, quote, span};
use crate::mcp::lock;
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::Back;
use crate::mcp::wire;

/// Key in `_meta` that names a message's subscription.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// How long to wait for the servers' acknowledgements before the client gets the merged one.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of notifications buffered until a subscription is acknowledged.
const MOST_KEPT: usize = 100;
/// Maximum number of subscriptions per client.
const MOST: usize = 100;
/// Filters of list changes, each with its list. For these the gateway itself notifies the client when a server comes or
/// goes.
const LISTS: [(&str, &str); 3] = [
    ("toolsListChanged", "tools"),
    ("promptsListChanged", "prompts"),
    ("resourcesListChanged", "resources"),
];

/// A client's subscription at all servers.
pub struct Subscription {
    /// The request id as the client wrote it.
    raw_id: String,
    /// Lists for which the gateway itself notifies the client when a server comes or goes.
    wants: Vec<&'static str>,
    /// Servers that have not acknowledged the subscription yet.
    unclear: HashSet<usize>,
    /// Servers that have not ended the subscription.
    open: HashSet<usize>,
    /// Request to each server, to be repeated after a restart.
    requests: Vec<(usize, OneLine)>,
    /// Notifications that each server agreed to send.
    honoured: BTreeMap<usize, Box<RawValue>>,
    /// Notifications that came before the client got the acknowledgement.
    kept: Vec<OneLine>,
    is_acknowledged: bool,
}

impl Multiplexer {
    /// Starts a subscription. Returns the requests to the servers, or `None` if the subscription was refused.
    pub(super) async fn subscribe(self: Arc<Self>, asked: ClientRequest) -> Option<Routed> {
        let filter = pick(asked.params(), ["notifications"])
            .ok()
            .and_then(|[filter]| filter);
        let filter = filter.map_or("{}", RawValue::get);
        let is_wanted = |name: &str| matches!(pick(filter.as_bytes(), [name]), Ok([Some(wanted)]) if wanted.get() == "true");
        let wants = LISTS
            .iter()
            .filter(|(name, _)| is_wanted(name))
            .map(|(_, list)| *list);
        let resources = pick(filter.as_bytes(), ["resourceSubscriptions"])
            .ok()
            .and_then(|[all]| all);
        let to = self.addressed(&asked.frame, resources).await;
        let upstreams: HashSet<usize> = to.iter().map(|(upstream, _)| *upstream).collect();
        let subscription = Subscription {
            raw_id: asked.raw_id(),
            wants: wants.collect(),
            unclear: upstreams.clone(),
            open: upstreams,
            requests: to.clone(),
            honoured: BTreeMap::new(),
            kept: Vec::new(),
            is_acknowledged: false,
        };
        let is_new = {
            let mut all = lock(&self.subscriptions);
            let is_new = !all.contains_key(&asked.id) && all.len() < MOST;
            if is_new {
                all.insert(asked.id.clone(), subscription);
            }
            is_new
        };
        if !is_new {
            let problem = "there is a subscription of this id, or there are too many";
            asked.refuse(wire::INVALID_REQUEST, problem).await;
            return None;
        }
        let (switch, id) = (self.clone(), asked.id.clone());
        tokio::spawn(async move {
            tokio::time::sleep(ACKNOWLEDGED_WITHIN).await;
            let said = switch.acknowledge(&id, true);
            switch.say(said).await;
        });
        Some(Routed::to_several(self, asked.id, to))
    }

    /// Returns the request for each server; resource URIs go only to the server that offers them.
    async fn addressed(&self, frame: &Frame, resources: Option<&RawValue>) -> Vec<(usize, OneLine)> {
        let uris: Vec<&RawValue> = resources
            .and_then(|all| serde_json::from_str(all.get()).ok())
            .unwrap_or_default();
        let mut owned: Vec<(usize, &str)> = Vec::new();
        for uri in uris {
            let text = serde_json::from_str::<String>(uri.get()).unwrap_or_default();
            if let Ok(upstream) = self.owner(&text).await {
                owned.push((upstream, uri.get()));
            }
        }
        let upstreams = self.upstreams.all();
        let ready = upstreams
            .iter()
            .enumerate()
            .filter(|(_, upstream)| upstream.is_ready());
        let request = |(number, _)| {
            let Some(all) = resources else {
                return (number, frame.line.clone());
            };
            let its = owned
                .iter()
                .filter(|(upstream, _)| *upstream == number)
                .map(|(_, uri)| *uri);
            let its = format!("[{}]", its.collect::<Vec<_>>().join(","));
            let place = span(&frame.line, all.get());
            (number, frame.line.splice(place, its.as_bytes()))
        };
        ready.map(request).collect()
    }

    /// Handles a server's message that belongs to a subscription. Returns the messages that the client gets now, or
    /// `None` if the message belongs to no subscription.
    pub(super) fn on_subscription(&self, number: usize, frame: &Frame) -> Option<Vec<OneLine>> {
        let id = match &frame.kind {
            Kind::Response { id } => Some(id.clone()),
            Kind::Notification { .. } => subscription_of(frame),
            _ => None,
        };
        let id = id.filter(|id| lock(&self.subscriptions).contains_key(id))?;
        match &frame.kind {
            Kind::Notification { method } if method == "notifications/subscriptions/acknowledged" => {
                let params = frame.part(&frame.params).unwrap_or_default();
                let honoured = pick(params, ["notifications"])
                    .ok()
                    .and_then(|[honoured]| honoured);
                if let Some(subscription) = lock(&self.subscriptions).get_mut(&id) {
                    subscription
                        .honoured
                        .extend(honoured.map(|honoured| (number, honoured.to_owned())));
                    subscription.unclear.remove(&number);
                }
                Some(self.acknowledge(&id, false))
            }
            Kind::Response { .. } => Some(self.ended(&id, number, Some(frame.line.clone()))),
            _ => {
                let mut all = lock(&self.subscriptions);
                match all.get_mut(&id) {
                    Some(subscription) if !subscription.open.contains(&number) => Some(Vec::new()),
                    Some(subscription) if !subscription.is_acknowledged => {
                        if subscription.kept.len() < MOST_KEPT {
                            subscription.kept.push(frame.line.clone());
                        }
                        Some(Vec::new())
                    }
                    _ => Some(vec![frame.line.clone()]),
                }
            }
        }
    }

    /// Returns the merged acknowledgement and the notifications buffered until then, once all servers have
    /// acknowledged. If `is_late`, does not wait for the remaining servers.
    fn acknowledge(&self, id: &Id, is_late: bool) -> Vec<OneLine> {
        let mut all = lock(&self.subscriptions);
        let Some(subscription) = all.get_mut(id) else {
            return Vec::new();
        };
        if subscription.is_acknowledged || !(is_late || subscription.unclear.is_empty()) {
            return Vec::new();
        }
        subscription.is_acknowledged = true;
        let ours = LISTS.iter().filter(|(_, list)| subscription.wants.contains(list));
        let ours: Vec<String> = ours.map(|(name, _)| format!("\"{name}\":true")).collect();
        let ours = RawValue::from_string(format!("{{{}}}", ours.join(",")));
        let honoured: Vec<&RawValue> = subscription
            .honoured
            .values()
            .chain(ours.iter())
            .map(AsRef::as_ref)
            .collect();
        let params = format!(
            "{{{},\"notifications\":{}}}",
            subscription.meta(),
            merged(&honoured)
        );
        let mut said = vec![wire::notification(
            "notifications/subscriptions/acknowledged",
            &params,
        )];
        said.append(&mut subscription.kept);
        said
    }

    /// Ends a subscription at one server, because the server responded or is gone. Returns the messages for the client;
    /// once the last server has ended the subscription, that is the response.
    fn ended(&self, id: &Id, number: usize, answer: Option<OneLine>) -> Vec<OneLine> {
        {
            let mut all = lock(&self.subscriptions);
            let Some(subscription) = all.get_mut(id) else {
                return Vec::new();
            };
            if !subscription.open.remove(&number) {
                return Vec::new();
            }
            subscription.unclear.remove(&number);
            if subscription.open.is_empty() {
                let problem = "the last of the servers has ended";
                let raw_id = subscription.raw_id.clone();
                all.remove(id);
                return vec![answer.unwrap_or_else(|| wire::error(Some(&raw_id), wire::INTERNAL, problem))];
            }
        }
        self.acknowledge(id, false)
    }

    /// Cancels a subscription at all servers. Returns false if there is none of this id.
    pub(super) async fn unsubscribe(&self, id: &Id, cancelled: &OneLine, back: &Back) -> bool {
        let ended = lock(&self.subscriptions).remove(id);
        let Some(subscription) = ended else {
            return false;
        };
        for upstream in subscription.open {
            self.pass(upstream, cancelled.clone(), back).await;
        }
        true
    }

    /// Cancels the subscription of a client that disconnected without cancelling it.
    pub async fn listener_left(&self, id: &Id) {
        let params = format!("{{\"requestId\":{}}}", id.as_json());
        let cancelled = wire::notification("notifications/cancelled", &params);
        if let Some(back) = self.back() {
            self.unsubscribe(id, &cancelled, &back).await;
        }
    }

    /// Repeats the open subscriptions at a restarted server.
    pub(super) async fn subscribe_again(&self, number: usize, upstream: &UpstreamRelay) {
        let requests: Vec<(Id, OneLine)> = {
            let all = lock(&self.subscriptions);
            let open = all
                .iter()
                .filter(|(_, subscription)| subscription.open.contains(&number));
            let asked = open.flat_map(|(id, subscription)| {
                let its = subscription
                    .requests
                    .iter()
                    .filter(|(upstream, _)| *upstream == number);
                its.map(|(_, line)| (id.clone(), line.clone()))
            });
            asked.collect()
        };
        for (id, line) in requests {
            upstream.relay.forwards(&id);
            let _ = upstream.relay.server.send(line).await;
        }
    }

    /// Returns the notifications for subscribers that these lists have changed, because a server came or went. If
    /// `is_gone`, also ends each subscription at this server.
    pub(super) fn tell_listeners(&self, number: usize, lists: &[&str], is_gone: bool) -> Vec<OneLine> {
        let ids: Vec<Id> = lock(&self.subscriptions).keys().cloned().collect();
        let mut said = Vec::new();
        for id in ids {
            if let Some(subscription) = lock(&self.subscriptions).get(&id) {
                let told = lists.iter().filter(|list| subscription.wants.contains(list));
                said.extend(told.map(|list| {
                    let method = format!("notifications/{list}/list_changed");
                    wire::notification(&method, &format!("{{{}}}", subscription.meta()))
                }));
            }
            if is_gone {
                said.extend(self.ended(&id, number, None));
            }
        }
        said
    }
}

impl Subscription {
    /// Returns the `_meta` of messages that belong to this subscription.
    fn meta(&self) -> String {
        format!("\"_meta\":{{{}:{}}}", quote(SUBSCRIPTION), self.raw_id)
    }
}

/// Returns the id of the subscription that a notification belongs to; `None` if it belongs to none.
pub fn subscription_of(frame: &Frame) -> Option<Id> {
    Id::read(pick_meta(frame.part(&frame.params)?, SUBSCRIPTION)?)
}
