//! The MCP gateway between one client and the MCP servers it uses.
//!
//! Messages of both sides are read as bytes and forwarded as the same bytes. They are not converted to typed messages,
//! which would drop members they do not know. A tool call is forwarded at once or waits for a person; an approved call
//! is sent by the gateway, once, with the argument bytes from the store.
//!
//! `frame` parses every message strictly and rejects what it cannot parse. `one_line` is the only type that can be
//! sent. `relay` forwards messages, `gateway` proposes calls to the gate, `hold` waits for a decision, `upstreams` runs
//! approved calls.

mod abandoned;
mod answer;
mod answer_history;
mod ask;
mod backoff;
mod bad;
mod builtin_tools;
mod call;
mod child;
mod continuation;
mod frame;
mod gateway;
#[cfg(test)]
#[path = "../../tests/mcp/generator.rs"]
mod generator;
mod hold;
mod http;
mod init;
mod lease;
mod lines;
mod listen;
mod multiplexer;
mod name;
mod one_line;
mod params;
mod pinned;
mod relay;
mod restart;
mod round;
mod server;
mod server_task;
mod settings;
mod startup;
mod stdio;
mod task;
mod tools;
mod upstreams;
mod wire;

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign::decision::{Decider, Surface};
use countersign::gate::Gate;
use countersign::id::{Agent, BadName};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

pub use init::run as init;
pub use settings::{AskClient, HOLD, OnCancel, SESSION_IDLE, Settings};

use crate::cli::{Global, Mcp};
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};
use crate::policy::record::Change;
use crate::stop::Stop;
use crate::store::{Missing, Watch};
use crate::{backend, environment, identity, links, policy, store};
use gateway::Gateway;
use http::{Callers, Heard, HttpTarget, HttpUpstream};
use lease::{LEASE, Lease};
use lines::{Lines, Read};
use relay::{Back, Next, Relay, Who};
use restart::Restarting;
use server::Server;
use startup::StartedServers;
use tokio_util::sync::CancellationToken;
use upstreams::Upstreams;

/// How long the client has to read the last messages before the process exits.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How often to check for open approvals after the client has disconnected.
const LOOKS: Duration = Duration::from_millis(50);
/// Agent name when `--agent` is not given.
const AGENT: &str = "mcp";

/// Runs the gateway: on standard input and output until the client or the server ends, or with `--listen` until a
/// signal arrives.
pub async fn run(global: &Global, options: Mcp, output: &mut Output) -> Result<Exit, Failure> {
    if global.server.is_some() {
        return Err(Failure::usage("the gateway works at a store, not at a server")
            .hint("give the server's own store with `--store`, a file or a `postgres://` URL"));
    }
    let who = who(global, &options)?;
    let specs = startup::specs(&options)?;
    let tenant = backend::tenant(global)?;
    let mut loaded = policy::load(global.policy.as_deref())?;
    policy::protect(&mut loaded.policy, Path::new(global.store()));
    if loaded.file.is_none() {
        let message = "there is no policy: every tool call is held; make one with `countersign policy init`";
        output.notice("no_policy", message);
    }
    store::check(global.store())?;
    let listener = match options.listen {
        Some(address) => Some(listen::bind(address).await?),
        None => None,
    };
    // Start servers while the store opens.
    let begun = match &listener {
        None => Some(startup::begin(&specs)?),
        Some(_) => None,
    };
    let store = store::open(global.store(), Missing::Create, Watch::Others).await?;
    let names: Vec<String> = specs.iter().map(|spec| spec.name.clone()).collect();
    let upstreams = Arc::new(Upstreams::new(names.clone()));
    let hash = loaded.policy.hash();
    let gate = Gate::new(store, Arc::new(loaded.policy)).with_executor(upstreams.clone());
    let gate = crate::pace::with_rate_limit(gate);
    let runs = startup::runs(&specs)?;
    let gateway = Gateway::new(
        gate,
        upstreams,
        tenant,
        startup::run_of_all(&specs)?,
        Settings {
            place_words: place_words(global),
            // A client starts its servers in its own folder.
            client_folder: match listener {
                None if options.permission_prompt => Some(links::current_folder()?),
                _ => None,
            },
            ..options.settings()
        },
        Lease::new(options.lease.unwrap_or(LEASE), hash, names)?,
    );
    let resumed = specs.iter().filter(|spec| spec.resume);
    let resumed = resumed.map(|spec| spec.name.clone()).collect();
    let gateway = Arc::new(gateway.with_runs(runs, resumed));
    // Take the lease before any call can be proposed under it.
    let change = Change::from_flag(options.policy_change);
    let (store, tenant) = (gateway.gate.store(), &gateway.tenant);
    gateway.lease.take(store, tenant, change).await?;
    tokio::spawn(gateway.clone().keep_lease());
    match (listener, begun) {
        (Some(listener), _) => {
            let callers = match options.no_token {
                true => Callers::Anybody(Box::new(who)),
                false => Callers::Tokens,
            };
            let (name, behind) = startup::endpoint_servers(specs)?;
            listen::run(listener, gateway, name, callers, behind, output).await
        }
        (None, Some(StartedServers::Command(name, launch, started))) => {
            let (server, incarnations) = Restarting::new(gateway.clone(), who, name, launch, started).await?;
            let serve = |to_client| server.clone().hear(incarnations, to_client);
            let clients = |lines, back| server.client(lines, back);
            between(
                &gateway,
                clients,
                async || server.client_left().await,
                serve,
                server.end(),
            )
            .await
        }
        (None, Some(StartedServers::Address(name, way))) => remote(gateway, name, who, way).await,
        (None, Some(StartedServers::Several(connections))) => {
            multiplexer::run(gateway, &who, connections).await
        }
        (None, None) => Err(Failure::usage("there is no server").hint("write its command behind `--`")),
    }
}

/// Forwards messages between standard input and output and the servers, until either side ends or a signal arrives.
/// After the client disconnects, open approvals are waited for. Returns an error if the store failed.
async fn between<C, S>(
    gateway: &Gateway,
    clients: impl FnOnce(Lines<Pin<Box<dyn AsyncRead + Send>>>, Back) -> C,
    left: impl AsyncFn(),
    serve: impl FnOnce(Back) -> S,
    end: impl Future<Output = Exit>,
) -> Result<Exit, Failure>
where
    C: Future<Output = ()>,
    S: Future<Output = ()> + Send + 'static,
{
    let no_pipes = |error: std::io::Error| {
        let message = format!("standard input or output cannot be used: {error}");
        Failure::error("no_pipes", message)
    };
    let (input, output) = (
        stdio::input().map_err(no_pipes)?,
        stdio::output().map_err(no_pipes)?,
    );
    let mut stop = Stop::listen()?;
    let (to_client, messages) = mpsc::channel(lines::QUEUE);
    let writing = tokio::spawn(lines::write_all(messages, output));
    let mut serving = tokio::spawn(serve(to_client.clone()));
    let clients = clients(Lines::new(input), to_client);
    let mut lost = None;
    let gone = async {
        clients.await;
        left().await;
        // Calls approved after the client disconnects still run, unless a signal arrives or the server ends.
        wait_until_no_approval_is_open(gateway).await;
    };
    tokio::select! {
        () = gone => {}
        _ = &mut serving => {}
        () = stop.next_signal() => {}
        error = gateway.store_fails() => lost = Some(error),
    }
    gateway.stop().await;
    let exit = end.await;
    // Deliver what the server sent before it ended, if the client still reads.
    if !serving.is_finished() {
        let _ = tokio::time::timeout(LAST_WORDS, &mut serving).await;
    }
    let last_words = async {
        left().await;
        writing.await
    };
    let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
    gateway.name_unrecorded().await;
    match lost {
        Some(error) => Err(store::store_stopped(&error)),
        None => Ok(exit),
    }
}

/// Runs the gateway between standard input and output and a server over streamable HTTP.
async fn remote(gateway: Arc<Gateway>, name: String, who: Who, way: HttpTarget) -> Result<Exit, Failure> {
    let (heard, messages) = mpsc::channel(lines::QUEUE);
    let upstream = HttpUpstream::new(way, heard, Arc::default());
    let server = Arc::new(Server::new(name, Box::new(upstream)));
    gateway.resume(&server).await?;
    let relay = Arc::new(Relay::new(gateway.clone(), server, who));
    let closing = CancellationToken::new();
    let serve = |to_client| serve_heard(relay.clone(), messages, to_client, closing.clone());
    let end = async {
        closing.cancel();
        Exit::Done
    };
    let clients = |lines, back| client(relay.clone(), lines, back);
    between(&gateway, clients, async || relay.client_left().await, serve, end).await
}

async fn client(relay: Arc<Relay>, mut lines: Lines<impl AsyncRead + Unpin>, back: Back) {
    while let Some(line) = next(&mut lines).await {
        match relay.hear_client(line, &back).await {
            Next::Send(line) => {
                if relay.server.send(line).await.is_err() {
                    return;
                }
            }
            Next::Later(ruling) => relay.later(ruling, &back),
            Next::Done => {}
        }
    }
}

/// Logs a hint about why a server may have ended before it accepted any request.
fn ended_at_once(server: &str) {
    let hint = environment::HINT;
    output::print_to_stderr(&format!(
        "countersign: the server `{server}` ended before it was ready; {hint}"
    ));
}

async fn serve_heard(
    relay: Arc<Relay>,
    mut messages: mpsc::Receiver<Heard>,
    to_client: Back,
    closing: CancellationToken,
) {
    loop {
        let heard = tokio::select! {
            heard = messages.recv() => heard,
            () = closing.cancelled() => None,
        };
        let line = match heard {
            Some(Heard::Message(read)) => relay.hear_server(read),
            Some(Heard::Lost(id, why)) if server::is_own(&id) => {
                relay.server.lost(&id, why);
                None
            }
            Some(Heard::Lost(id, lost)) => Some(wire::error(Some(id.as_json()), wire::INTERNAL, &lost.why())),
            None => break,
        };
        if let Some(line) = line {
            let _ = to_client.send(line).await;
        }
    }
    relay.server.gone();
}

async fn next(lines: &mut Lines<impl AsyncRead + Unpin>) -> Option<Read> {
    lines.next().await.unwrap_or_else(|error| {
        crate::output::print_to_stderr(&format!("countersign: {error}"));
        None
    })
}

/// Returns once no approval is open.
async fn wait_until_no_approval_is_open(gateway: &Gateway) {
    while gateway.open_calls() > 0 {
        tokio::time::sleep(LOOKS).await;
    }
}

fn who(global: &Global, options: &Mcp) -> Result<Who, Failure> {
    let named = options.agent.as_deref();
    let requester = identity::person(global.name.as_deref())?;
    // The person who started this process decides as if by text in a chat.
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

fn bad_name(problem: BadName) -> Failure {
    Failure::error("bad_name", problem.to_string())
}

/// Returns the command-line option that names the gateway's store. A file is named by its full path, because clients
/// start servers in any folder.
fn place_words(global: &Global) -> String {
    let store = global.store();
    let full = std::path::absolute(store)
        .ok()
        .filter(|_| !store::is_postgres(store));
    let full = full.and_then(|full| full.to_str().map(str::to_owned));
    let named = Global {
        store: Some(full.unwrap_or_else(|| store.to_owned())),
        server: None,
        ..global.clone()
    };
    named.place_words()
}

/// Locks a mutex, even if a thread has panicked while holding it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
