//! Starting several servers, hearing them all, and ending them.

use std::sync::{Arc, Mutex, OnceLock};

use futures_util::future::join_all;
use tokio::io::AsyncRead;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, Source};
use super::leg::{Leg, Nowhere};
use super::server::End;
use super::{Greeting, Spec, Switch, open};
use crate::failure::{Exit, Failure};
use crate::mcp::child::Child;
use crate::mcp::gateway::Gateway;
use crate::mcp::lines::Lines;
use crate::mcp::relay::{Back, Next, Relay, Who};
use crate::mcp::seen::Seen;
use crate::mcp::server::Server;
use crate::mcp::{between, next};

/// Servers that were started, or why they were not; by name.
pub type Connections = Vec<(String, Result<Connection, Failure>)>;

/// What goes on behind a switch.
pub struct Started {
    /// Between the client and all of them.
    pub switch: Arc<Switch>,
    sources: Vec<(usize, Source)>,
    children: Vec<Child>,
    closing: CancellationToken,
}

/// Begins to talk to all servers. One that cannot be reached is left out; it is an error when none can.
pub fn connect(specs: &[Spec]) -> Result<Connections, Failure> {
    let all: Connections = specs
        .iter()
        .map(|spec| (spec.name.clone(), spec.connect()))
        .collect();
    if all.iter().any(|(_, connection)| connection.is_ok()) {
        return Ok(all);
    }
    let reasons = all.into_iter().filter_map(|(name, connection)| {
        let failure = connection.err()?;
        Some(format!("`{name}`: {}", failure.message))
    });
    let reasons: Vec<String> = reasons.collect();
    let message = format!("none of the servers can be used: {}", reasons.join("; "));
    Err(Failure::error("no_server", message).hint("try whether each command starts an MCP server by itself"))
}

impl Started {
    /// A switch in front of these servers.
    pub fn new(gateway: &Arc<Gateway>, who: &Who, connections: Connections) -> Started {
        let seen = Seen::default();
        let (mut legs, mut sources, mut children) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (name, connection)) in connections.into_iter().enumerate() {
            let relay = |upstream| {
                let server = Arc::new(Server::new(name, upstream));
                let relay = Relay::new(gateway.clone(), server, who.clone());
                Leg::new(relay.with_seen(seen.beside()))
            };
            match connection {
                Ok(connection) => {
                    sources.push((number, connection.source));
                    children.extend(connection.child);
                    legs.push(Arc::new(relay(connection.upstream)));
                }
                Err(failure) => {
                    let leg = relay(Box::new(Nowhere));
                    leg.relay.server.gone();
                    leg.out(&failure.message);
                    legs.push(Arc::new(leg));
                }
            }
        }
        let switch = Switch {
            gateway: gateway.clone(),
            who: who.clone(),
            legs,
            routes: Mutex::default(),
            greeting: Mutex::new(Greeting::default()),
            subscriptions: Mutex::default(),
            to_client: OnceLock::new(),
            tasks: TaskTracker::new(),
        };
        Started {
            switch: Arc::new(switch),
            sources,
            children,
            closing: CancellationToken::new(),
        }
    }

    /// The servers that can take up what an earlier process left open.
    pub fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        let reached = self.switch.legs.iter().filter(|leg| !leg.is_out());
        reached.map(|leg| &leg.relay.server)
    }

    /// Hears all servers until the last of them has ended; and what ends them.
    pub fn hear(self, to_client: Back) -> (impl Future<Output = ()> + Send + 'static, Ends) {
        // Set once, before anybody says anything.
        let _ = self.switch.to_client.set(to_client.downgrade());
        let ends = Ends {
            switch: self.switch.clone(),
            children: self.children,
            closing: self.closing.clone(),
        };
        let (switch, closing) = (self.switch, self.closing);
        let hearing = self.sources.into_iter().map(move |(number, source)| {
            tokio::spawn(hear_one(
                switch.clone(),
                number,
                source,
                to_client.clone(),
                closing.clone(),
            ))
        });
        let hearing: Vec<_> = hearing.collect();
        (async { drop(join_all(hearing).await) }, ends)
    }
}

async fn hear_one(
    switch: Arc<Switch>,
    number: usize,
    mut source: Source,
    to_client: Back,
    closing: CancellationToken,
) {
    loop {
        let heard = tokio::select! {
            heard = source.next() => heard,
            // A process says its last words, and ends by itself.
            () = closing.cancelled(), if matches!(source, Source::Heard(_)) => None,
        };
        let Some(heard) = heard else { break };
        for message in switch.hear_server(number, heard) {
            // Nobody reads it any more; the server may still be needed.
            let _ = to_client.send(message).await;
        }
    }
    // That a server ends because we end it is no news.
    let end = match closing.is_cancelled() {
        true => End::Ours,
        false => End::Its,
    };
    for message in switch.gone(number, end) {
        let _ = to_client.send(message).await;
    }
}

/// Ends all servers.
pub struct Ends {
    switch: Arc<Switch>,
    children: Vec<Child>,
    closing: CancellationToken,
}

impl Ends {
    /// Ends them, all at once. How each of them ends is its own affair; that none was left is an error.
    pub async fn end(self) -> Exit {
        self.closing.cancel();
        let was_alone = self.switch.legs.iter().all(|leg| leg.is_out());
        join_all(self.children.into_iter().map(Child::end)).await;
        match was_alone {
            true => Exit::Error,
            false => Exit::Done,
        }
    }
}

/// Passes messages between our own standard input and output and several servers.
pub async fn run(gateway: Arc<Gateway>, who: &Who, connections: Connections) -> Result<Exit, Failure> {
    let started = Started::new(&gateway, who, connections);
    for server in started.servers() {
        gateway.resume(server).await?;
    }
    let switch = started.switch.clone();
    let clients = |lines, back| client(switch.clone(), lines, back);
    let ends = Mutex::new(None);
    let serve = |to_client| {
        let (hearing, all) = started.hear(to_client);
        *open(&ends) = Some(all);
        hearing
    };
    let end = async {
        let ends = open(&ends).take();
        match ends {
            Some(ends) => ends.end().await,
            None => Exit::Done,
        }
    };
    between(&gateway, clients, async || switch.left().await, serve, end).await
}

async fn client(switch: Arc<Switch>, mut lines: Lines<impl AsyncRead + Unpin>, back: Back) {
    while let Some(line) = next(&mut lines).await {
        match switch.hear_client(line, &back).await {
            Next::Send(routed) => routed.send(&back).await,
            Next::Done => {}
            later => switch.later(later, &back),
        }
    }
}
