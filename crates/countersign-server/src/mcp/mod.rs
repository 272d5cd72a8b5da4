//! The MCP gateway: between a client and the servers it uses.
//!
//! Enters: JSON-RPC messages from both sides, as bytes. Leaves: the same bytes on the other side. A tool call passes,
//! or waits for a person; what a person approves is sent from here, once, with the stored argument bytes.
//! Deliberately absent: typed messages on the way through. They would lose what they do not know.
//!
//! `frame` looks at messages, `relay` passes them on, `gateway` puts calls to the gate, `hold` waits for people,
//! `upstreams` runs what they approve.

mod answer;
mod ask;
mod call;
mod child;
mod frame;
mod gateway;
mod hold;
mod init;
mod lines;
mod name;
mod own;
mod relay;
mod server;
mod settings;
mod stdio;
mod tools;
mod upstreams;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use countersign::decision::{Decider, Surface};
use countersign::gate::Gate;
use countersign::hash::Hash;
use countersign::id::{Agent, BadName, Run};
use tokio::io::AsyncRead;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

pub use init::run as init;
pub use settings::{AskClient, HOLD, OnCancel, Settings};

use crate::cli::{Global, Mcp};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::{Missing, Watch};
use crate::{desk, identity, policy, store};
use child::Child;
use gateway::Gateway;
use lines::Lines;
use relay::{Back, Relay, Who};
use server::Server;
use upstreams::Upstreams;

/// How long the end waits for calls that run.
const RUNS_END_WITHIN: Duration = Duration::from_secs(20);
/// How long the client has to take what was said last.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// So often it is looked whether anything is still open, once the client is gone.
const LOOKS: Duration = Duration::from_millis(50);
/// What the agent is called when nobody says.
const AGENT: &str = "mcp";

/// Runs the gateway until the client or the server ends.
pub async fn run(global: &Global, options: Mcp, output: &mut Output) -> Result<Exit, Failure> {
    if global.server.is_some() {
        return Err(Failure::usage("the gateway works at a store, not at a server")
            .hint("give the server's own store with `--store`, a file or a `postgres://` URL"));
    }
    let settings = options.settings();
    let who = who(global, &options)?;
    let name = name::of(options.server_name.as_deref(), &options.command)?;
    let tenant = desk::tenant(global)?;
    let loaded = policy::load(global.policy.as_deref())?;
    if loaded.file.is_none() {
        let message = "there is no policy: every tool call is held; make one with `countersign policy init`";
        output.notice("no_policy", message);
    }
    // The server gets going while the store is opened.
    let (child, way, lines) = Child::start(&options.command)?;
    let store = store::open(global.store(), Missing::Create, Watch::Others).await?;
    let upstreams = Arc::new(Upstreams::new(vec![name.clone()]));
    let gate = Gate::new(store, Arc::new(loaded.policy)).with_executor(upstreams.clone());
    let run = run_name(&name, &options.command)?;
    let gateway = Arc::new(Gateway::new(gate, upstreams, tenant, run, settings));
    let server = Arc::new(Server::new(name, way));
    gateway.resume(&server).await?;
    let relay = Arc::new(Relay::new(gateway, server, who));
    between(relay, child, lines).await
}

/// Passes messages between our own standard input and output and a server.
async fn between(
    relay: Arc<Relay>,
    child: Child,
    from_server: Lines<impl AsyncRead + Unpin + Send + 'static>,
) -> Result<Exit, Failure> {
    let no_pipes = |error: std::io::Error| {
        Failure::error(
            "no_pipes",
            format!("standard input or output cannot be used: {error}"),
        )
    };
    let (input, output) = (
        stdio::input().map_err(no_pipes)?,
        stdio::output().map_err(no_pipes)?,
    );
    let (to_client, messages) = mpsc::channel(lines::QUEUE);
    let writing = tokio::spawn(lines::write_all(messages, output));
    let mut serving = tokio::spawn(serve(relay.clone(), from_server, to_client.clone()));
    let clients = client(relay.clone(), Lines::new(input), to_client);
    tokio::select! {
        () = clients => {
            relay.left().await;
            // What a person approves now still runs, unless we are told to end or the server does.
            tokio::select! {
                () = settled(&relay.gateway) => {}
                _ = &mut serving => {}
                () = told_to_stop() => {}
            }
        }
        _ = &mut serving => {}
        () = told_to_stop() => {}
    }
    let gateway = &relay.gateway;
    gateway.stopping.cancel();
    gateway.tasks.close();
    let _ = tokio::time::timeout(RUNS_END_WITHIN, gateway.tasks.wait()).await;
    let exit = child.end().await;
    // Whatever the server said before it ended is for the client, if that still listens.
    if !serving.is_finished() {
        let _ = tokio::time::timeout(LAST_WORDS, &mut serving).await;
    }
    let _ = tokio::time::timeout(LAST_WORDS, async {
        relay.left().await;
        writing.await
    })
    .await;
    Ok(exit)
}

async fn client(relay: Arc<Relay>, mut lines: Lines<impl AsyncRead + Unpin>, back: Back) {
    while let Some(line) = next(&mut lines).await {
        if let Some(line) = relay.from_client(line, &back).await
            && relay.server.send(line).await.is_err()
        {
            return;
        }
    }
}

async fn serve(relay: Arc<Relay>, mut lines: Lines<impl AsyncRead + Unpin>, to_client: Back) {
    while let Some(line) = next(&mut lines).await {
        if let Some(line) = relay.from_server(line) {
            // Nobody reads it any more; the server may still be needed.
            let _ = to_client.send(line).await;
        }
    }
    relay.server.gone();
}

async fn next(lines: &mut Lines<impl AsyncRead + Unpin>) -> Option<Bytes> {
    lines.next().await.unwrap_or_else(|error| {
        crate::output::beside(&format!("countersign: {error}"));
        None
    })
}

/// Ends once no approval is open any more.
async fn settled(gateway: &Gateway) {
    while gateway.open_calls() > 0 {
        tokio::time::sleep(LOOKS).await;
    }
}

async fn told_to_stop() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

fn who(global: &Global, options: &Mcp) -> Result<Who, Failure> {
    let named = options.agent.as_deref();
    let requester = identity::person(global.name.as_deref())?;
    // Whoever started us, as one who says a word in a conversation.
    let decider = Decider {
        surface: Surface::Text,
        ..identity::decider(requester.clone(), &global.group)
    };
    Ok(Who {
        agent: Agent::new(named.unwrap_or(AGENT)).map_err(bad_name)?,
        is_named: named.is_some(),
        requester,
        on_behalf_of: None,
        decider: Some(decider),
        session: None,
    })
}

/// The same server, started the same way at the same place, is the same: it goes on with what it left open, and no
/// other one does, whatever its tools are called.
fn run_name(name: &str, command: &[String]) -> Result<Run, Failure> {
    let place = std::env::current_dir().unwrap_or_default();
    let mut words = place.as_os_str().as_encoded_bytes().to_vec();
    for word in command {
        // No word of a command line holds a zero.
        words.push(0);
        words.extend_from_slice(word.as_bytes());
    }
    Run::new(format!("mcp:{name}:{}", Hash::of(&words).short())).map_err(bad_name)
}

fn bad_name(problem: BadName) -> Failure {
    Failure::error("bad_name", problem.to_string())
}
