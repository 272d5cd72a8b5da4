//! Multiplexer: several upstream servers behind one gateway. Each server has its own relay, and [`Multiplexer`] stands
//! between these relays and the client.
//!
//! Each message of the client goes to the one server that it concerns, with only the name's prefix removed. Lists and
//! handshakes are merged. Requests of servers reach the client under ids that name the server. A message whose server
//! is ambiguous is refused (X42). Ruling on calls and waiting for decisions is left to the relay of each server, which
//! works as if its server were the only one.
//!
//! `servers` reads the file, `upstream` is one server, `client` and `server` handle the two directions, `greet` and
//! `lists` ask all servers, `subscribe` subscribes at all of them, `route` remembers which request went where,
//! `restart` restarts a server.

mod client;
mod connection;
mod greet;
mod lists;
mod merge;
mod names;
mod offered;
mod owner;
mod restart;
mod route;
mod server;
mod servers;
mod start;
mod subscribe;
mod upstream;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use connection::Connection;
pub use route::Routed;
pub use servers::{At, Spec, read, way};
pub use start::{Connections, Ends, Started, connect, run};
pub use subscribe::subscription_of;
pub use upstream::{collision, listed_twice};

use super::backoff::Backoff;
use super::child::Child;
use super::frame::Id;
use super::gateway::Gateway;
use super::one_line::OneLine;
use super::relay::{Back, Next, Who};
use super::server::Server;
use crate::mcp::lock;
use route::Routes;
use subscribe::Subscription;
use upstream::UpstreamRelay;

/// Time limit for remaining background work after the client has disconnected.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// The multiplexer between one client and several servers.
pub struct Multiplexer {
    /// State shared with other clients.
    pub gateway: Arc<Gateway>,
    /// Identity of the client.
    pub who: Who,
    upstreams: Upstreams,
    /// Processes of servers, by the server's number.
    children: Mutex<HashMap<usize, Child>>,
    /// Delays restarts of servers that ended by themselves.
    backoff: Backoff,
    /// Cancelled when the servers are to end; none is restarted after that.
    closing: CancellationToken,
    routes: Mutex<Routes>,
    greeting: Mutex<Greeting>,
    subscriptions: Mutex<HashMap<Id, Subscription>>,
    /// Channel to the client; weak, so that it closes when the client has disconnected.
    to_client: OnceLock<mpsc::WeakSender<OneLine>>,
    /// Background tasks, such as pending rulings.
    tasks: TaskTracker,
}

/// All upstreams by number. A restarted server keeps its number.
struct Upstreams(Vec<(Spec, Mutex<Arc<UpstreamRelay>>)>);

impl Upstreams {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn all(&self) -> Vec<Arc<UpstreamRelay>> {
        self.0
            .iter()
            .map(|(_, upstream)| lock(upstream).clone())
            .collect()
    }

    fn get(&self, number: usize) -> Option<Arc<UpstreamRelay>> {
        self.0.get(number).map(|(_, upstream)| lock(upstream).clone())
    }

    /// Returns how to connect to a server; `None` if no server has this number.
    fn spec(&self, number: usize) -> Option<&Spec> {
        self.0.get(number).map(|(spec, _)| spec)
    }

    /// Replaces the upstream of a server that ended with that of its new process.
    fn replace(&self, number: usize, upstream: Arc<UpstreamRelay>) {
        if let Some((_, place)) = self.0.get(number) {
            *lock(place) = upstream;
        }
    }
}

/// Progress of the client's handshake.
#[derive(Default)]
struct Greeting {
    /// Whether the client has sent `initialize`.
    has_begun: bool,
    /// The client's `notifications/initialized`; `None` until the client has sent it.
    initialized: Option<OneLine>,
}

impl Multiplexer {
    /// If the ruling on a message is still awaited, awaits it in the background and then sends the message; otherwise
    /// does nothing. Errors go to `back`.
    pub fn later(self: &Arc<Self>, next: Next<Routed>, back: &Back) {
        let Next::Later(routed) = next else {
            return;
        };
        let back = back.clone();
        self.tasks.spawn(async move {
            if let Some(routed) = routed.await {
                routed.send(&back).await;
            }
        });
    }

    /// Returns the current servers.
    pub fn servers(&self) -> Vec<Arc<Server>> {
        let upstreams = self.upstreams.all();
        upstreams
            .iter()
            .map(|upstream| upstream.relay.server.clone())
            .collect()
    }

    /// Handles the client's disconnection: its calls stay open. Returns once all answers have been sent, or after
    /// `LAST_ANSWERS`.
    pub async fn client_left(&self) {
        for upstream in self.upstreams.all() {
            upstream.relay.client_left().await;
        }
        self.tasks.close();
        // Do not wait long for a server that is slow to initialize.
        let _ = tokio::time::timeout(LAST_ANSWERS, self.tasks.wait()).await;
    }

    fn upstream(&self, name: &str) -> Option<(usize, Arc<UpstreamRelay>)> {
        let upstreams = self.upstreams.all().into_iter().enumerate();
        upstreams
            .into_iter()
            .find(|(_, upstream)| upstream.name() == name)
    }
}
