//! Serves MCP clients over streamable HTTP on the loopback interface.
//!
//! TLS and remote clients are not supported here; `countersign serve` supports both.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::child::Launch;
use super::gateway::Gateway;
use super::http::{Callers, Endpoint, HttpTarget};
use super::multiplexer::Spec;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::stop::Stop;
use crate::store;
use crate::web::{AllowedHosts, listener};

/// Path of the endpoint.
const PATH: &str = "/mcp";

/// The upstream servers of an endpoint.
pub enum Servers {
    /// A server over streamable HTTP.
    Address(HttpTarget),
    /// A command, started for each session.
    Command(Launch),
    /// Several servers, connected to separately for each session.
    Several(Vec<Spec>),
}

impl Servers {
    /// Creates the endpoint in front of these servers.
    pub fn endpoint(
        self,
        gateway: Arc<Gateway>,
        name: String,
        hosts: AllowedHosts,
        callers: Callers,
    ) -> Endpoint {
        match self {
            Servers::Address(way) => Endpoint::at_address(gateway, name, hosts, callers, way),
            Servers::Command(launch) => Endpoint::for_command(gateway, name, hosts, callers, launch),
            Servers::Several(specs) => Endpoint::for_several(gateway, name, hosts, callers, specs),
        }
    }
}

/// Binds the address, which must be a loopback address so that tokens do not travel unencrypted (H02).
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    if !address.ip().is_loopback() {
        let message = format!("{address} can be reached by others, and the gateway speaks no TLS");
        return Err(Failure::error("not_secure", message)
            .hint("listen on 127.0.0.1, or let `countersign serve` offer the server; see docs/mcp.md"));
    }
    TcpListener::bind(address).await.map_err(|error| {
        let message = format!("cannot listen on {address}: {error}");
        Failure::error("cannot_listen", message).hint("choose another port with `--listen 127.0.0.1:PORT`")
    })
}

/// Serves clients until a signal arrives, or until the store permanently refuses writes, which is an error.
pub async fn run(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    name: String,
    callers: Callers,
    behind: Servers,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let address = listener
        .local_addr()
        .map_err(|error| Failure::error("cannot_listen", format!("the address is not known: {error}")))?;
    let hosts = AllowedHosts::loopback(address.port());
    let endpoint = behind.endpoint(gateway.clone(), name, hosts, callers);
    let mut stop = Stop::listen()?;
    output.line(&format!("listening at http://{address}{PATH}"));
    let endpoint = Arc::new(endpoint);
    let routes = endpoint.clone().routes(PATH);
    let serving = tokio::spawn(listener::listen(listener, routes, gateway.stopping.clone()));
    let mut lost = None;
    tokio::select! {
        () = stop.next_signal() => {}
        () = endpoint.end_idle_sessions() => {}
        error = gateway.store_fails() => lost = Some(error),
    }
    gateway.stop().await;
    endpoint.end().await;
    let _ = serving.await;
    gateway.name_unrecorded().await;
    match lost {
        Some(error) => Err(store::store_stopped(&error)),
        None => Ok(Exit::Done),
    }
}
