//! Starts several servers, reads from all of them, and ends them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::future::join_all;
use tokio::io::AsyncRead;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, Source};
use super::server::End;
use super::upstream::{UnreachableUpstream, UpstreamRelay};
use super::{Greeting, Multiplexer, Spec, Upstreams};
use crate::failure::{Exit, Failure};
use crate::mcp::answer_history::Seen;
use crate::mcp::backoff::Backoff;
use crate::mcp::child::Child;
use crate::mcp::gateway::Gateway;
use crate::mcp::lines::Lines;
use crate::mcp::lock;
use crate::mcp::relay::{Back, Next, Relay, Who};
use crate::mcp::server::Server;
use crate::mcp::{between, next};

/// Each server with its connection, or with the reason why it could not be reached.
pub type Connections = Vec<(Spec, Result<Connection, Failure>)>;

/// A multiplexer whose servers are not yet read from.
pub struct Started {
    /// The multiplexer.
    pub switch: Arc<Multiplexer>,
    sources: Vec<(usize, Source)>,
}

/// Connects to all servers. A server that cannot be reached is left out. Fails if no server can be reached.
pub fn connect(specs: &[Spec]) -> Result<Connections, Failure> {
    let all: Connections = specs.iter().map(|spec| (spec.clone(), spec.connect())).collect();
    if all.iter().any(|(_, connection)| connection.is_ok()) {
        return Ok(all);
    }
    let reasons = all.into_iter().filter_map(|(spec, connection)| {
        let failure = connection.err()?;
        Some(format!("`{}`: {}", spec.name, failure.message))
    });
    let reasons: Vec<String> = reasons.collect();
    let message = format!("none of the servers can be used: {}", reasons.join("; "));
    Err(Failure::error("no_server", message).hint("try whether each command starts an MCP server by itself"))
}

impl Started {
    /// Creates a multiplexer in front of these servers.
    pub fn new(gateway: &Arc<Gateway>, who: &Who, connections: Connections) -> Started {
        let seen = Seen::default();
        let (mut upstreams, mut sources, mut children) = (Vec::new(), Vec::new(), HashMap::new());
        for (number, (spec, connection)) in connections.into_iter().enumerate() {
            let relay = |upstream| {
                let server = Arc::new(Server::new(spec.name.clone(), upstream));
                let relay = Relay::new(gateway.clone(), server, who.clone());
                UpstreamRelay::new(relay.with_seen(seen.for_another_server()))
            };
            match connection {
                Ok(connection) => {
                    sources.push((number, connection.source));
                    children.extend(connection.child.map(|child| (number, child)));
                    let upstream = relay(connection.upstream);
                    upstreams.push((spec, Mutex::new(Arc::new(upstream))));
                }
                Err(failure) => {
                    let upstream = relay(Box::new(UnreachableUpstream));
                    upstream.relay.server.gone();
                    upstream.out(&failure.message);
                    upstreams.push((spec, Mutex::new(Arc::new(upstream))));
                }
            }
        }
        let switch = Multiplexer {
            gateway: gateway.clone(),
            who: who.clone(),
            upstreams: Upstreams(upstreams),
            children: Mutex::new(children),
            backoff: Backoff::default(),
            closing: CancellationToken::new(),
            routes: Mutex::default(),
            greeting: Mutex::new(Greeting::default()),
            subscriptions: Mutex::default(),
            to_client: OnceLock::new(),
            tasks: TaskTracker::new(),
        };
        Started {
            switch: Arc::new(switch),
            sources,
        }
    }

    /// Returns the servers that could be reached. They may take over calls that an earlier gateway left open.
    pub fn servers(&self) -> Vec<Arc<Server>> {
        let mut reached = self.switch.upstreams.all();
        reached.retain(|upstream| !upstream.is_out());
        reached
            .iter()
            .map(|upstream| upstream.relay.server.clone())
            .collect()
    }

    /// Returns a future that reads from all servers until the last has ended, and a handle that ends them.
    pub fn hear(self, to_client: Back) -> (impl Future<Output = ()> + Send + 'static, Ends) {
        // Set once, before any message is sent.
        let _ = self.switch.to_client.set(to_client.downgrade());
        let ends = Ends {
            switch: self.switch.clone(),
        };
        let switch = self.switch;
        let hearing = self.sources.into_iter().map(move |(number, source)| {
            tokio::spawn(hear_all_of(switch.clone(), number, source, to_client.clone()))
        });
        let hearing: Vec<_> = hearing.collect();
        (async { drop(join_all(hearing).await) }, ends)
    }
}

/// Reads from a server, and from each process that replaces it after a restart.
async fn hear_all_of(switch: Arc<Multiplexer>, number: usize, mut source: Source, to_client: Back) {
    loop {
        hear_one(&switch, number, source, &to_client).await;
        source = match switch.start_again(number).await {
            Some(source) => source,
            None => break,
        };
    }
    for message in switch.gone_for_good(number) {
        let _ = to_client.send(message).await;
    }
}

async fn hear_one(switch: &Arc<Multiplexer>, number: usize, mut source: Source, to_client: &Back) {
    let closing = &switch.closing;
    loop {
        let heard = tokio::select! {
            heard = source.next() => heard,
            // Keep reading a process until it exits, to get its last messages.
            () = closing.cancelled(), if matches!(source, Source::Heard(_)) => None,
        };
        let Some(heard) = heard else { break };
        for message in switch.hear_server(number, heard) {
            // The client may be gone; the server may still be needed.
            let _ = to_client.send(message).await;
        }
    }
    // An end that the gateway caused is not reported to the client.
    let end = match closing.is_cancelled() {
        true => End::Ours,
        false => End::Its,
    };
    for message in switch.gone(number, end) {
        let _ = to_client.send(message).await;
    }
}

/// Handle that ends all servers.
pub struct Ends {
    switch: Arc<Multiplexer>,
}

impl Ends {
    /// Ends all servers at once. Returns an error exit if all of them had failed before.
    pub async fn end(self) -> Exit {
        self.switch.closing.cancel();
        let was_alone = self
            .switch
            .upstreams
            .all()
            .iter()
            .all(|upstream| upstream.is_out());
        let children = std::mem::take(&mut *lock(&self.switch.children));
        join_all(children.into_values().map(Child::end)).await;
        match was_alone {
            true => Exit::Error,
            false => Exit::Done,
        }
    }
}

/// Runs the gateway between standard input and output and several servers.
pub async fn run(gateway: Arc<Gateway>, who: &Who, connections: Connections) -> Result<Exit, Failure> {
    let started = Started::new(&gateway, who, connections);
    for server in started.servers() {
        gateway.resume(&server).await?;
    }
    let switch = started.switch.clone();
    let clients = |lines, back| client(switch.clone(), lines, back);
    let ends = Mutex::new(None);
    let serve = |to_client| {
        let (hearing, all) = started.hear(to_client);
        *lock(&ends) = Some(all);
        hearing
    };
    let end = async {
        let ends = lock(&ends).take();
        match ends {
            Some(ends) => ends.end().await,
            None => Exit::Done,
        }
    };
    between(&gateway, clients, async || switch.client_left().await, serve, end).await
}

async fn client(switch: Arc<Multiplexer>, mut lines: Lines<impl AsyncRead + Unpin>, back: Back) {
    while let Some(line) = next(&mut lines).await {
        match switch.hear_client(line, &back).await {
            Next::Send(routed) => routed.send(&back).await,
            Next::Done => {}
            later => switch.later(later, &back),
        }
    }
}
