//! `serve`: from settings to a running service, and to its end.
//!
//! Enters: the command line, the environment and a configuration file. Leaves: nothing, until it is told to stop;
//! then what runs is waited for, and nothing new is started.

mod body;
mod config;
mod first;
mod housekeeping;
mod listener;
mod log;
mod node;
mod stream;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use countersign::executor::Executor;
use countersign::gate::Gate;
use tokio::net::TcpListener;

pub use config::{Config, DEFAULT_FILE as CONFIG_FILE};
pub use log::LogFormat;

use node::{Change, Node};

use crate::agents::{self, Agents, TalkSecret};
use crate::cli::{Global, Serve};
use crate::executors::Executors;
use crate::failure::{Exit, Failure};
use crate::http::{AllowedHosts, App, LimitSettings, Settings, router};
use crate::output::Output;
use crate::stop::Stop;
use crate::store::{Missing, Watch};
use crate::{access, desk, inbox, keys, pace, store};

/// How long a stop waits for calls that run.
const RUNS_END_WITHIN: Duration = Duration::from_secs(20);

/// Runs the service until it is told to stop.
pub async fn run(global: &Global, options: Serve, output: &mut Output) -> Result<Exit, Failure> {
    let config = Config::load(global, &options)?;
    log::start(config.log, output.has_colored_errors());
    let tls = config.tls.as_ref().map(tls::Acceptor::load).transpose()?;
    config.check_address(tls.is_some())?;
    if config.behind_proxy && config.limits.trusted_proxies.is_empty() {
        tracing::warn!(
            "`behind_proxy` without `trusted_proxies`: everybody counts as one address where limits are per address"
        );
    }
    store::check(&config.store)?;
    let sealer = keys::sealer(config.seal_key_file.as_deref())?;
    let mut executors = Executors::new(&config.tools, &config.private_targets)?;
    let ready = agents::load(&config.agents)?;
    for world in &ready.worlds {
        executors = executors.with_world(world)?;
    }
    let listener = bind(config.listen).await?;
    let address = listener.local_addr().unwrap_or(config.listen);
    let store = store::open(&config.store, Missing::Create, Watch::Others).await?;
    let change = match options.policy_change {
        true => Change::Rolling,
        false => Change::Refuse,
    };
    let policy = config.policy.policy.hash();
    let mut gate = Gate::new(store, Arc::new(config.policy.policy))
        .with_executor(Arc::new(executors) as Arc<dyn Executor>);
    if let Some(sealer) = sealer {
        gate = gate.with_sealer(sealer);
    }
    let gate = pace::paced(gate);
    let tenant = desk::tenant(global)?;
    let joined = Node::join(gate.store(), &tenant, policy, change).await?;
    if joined.is_new_policy {
        output.notice(
            "policy",
            "the policy is another one than the last service on this store had",
        );
    }
    let base = base_url(&config.hosts, address, tls.is_some() || config.behind_proxy);
    let settings = Settings {
        tenant: tenant.clone(),
        hosts: hosts(&config.hosts, address),
        longest_wait: config.longest_wait,
        decisions_per_second: config.decisions_per_second,
        limits: config.limits,
        is_secure: tls.is_some() || config.behind_proxy,
        page: Some(base.clone()),
    };
    let secret = TalkSecret::load(gate.store(), &tenant).await?;
    let agents = Agents::new(&gate, tenant.clone(), secret, ready.agents, config.playground)
        .map_err(|problem| Failure::error("bad_config", problem.to_string()))?
        .leading_to(&base);
    let app = App::serving(gate, settings, agents);
    access::address::note(app.store(), &app.settings.tenant, &base).await?;
    let start = first::Start {
        base,
        policy_file: config.policy.file,
        is_tryout: config.is_tryout,
    };
    let stop = Stop::listen()?;
    first::greet(&app, global, &start, output).await?;
    serve(app, listener, tls, stop, joined.node).await;
    output.notice(
        "stopped",
        "stopped; everything that was acknowledged is in the store",
    );
    Ok(Exit::Done)
}

/// Serves routes without TLS, for an address of this machine alone.
pub async fn listen(
    listener: TcpListener,
    routes: axum::Router,
    stopping: tokio_util::sync::CancellationToken,
) {
    let settings = LimitSettings::default();
    listener::serve(listener, None, routes, &settings, stopping).await;
}

async fn serve(app: App, listener: TcpListener, tls: Option<tls::Acceptor>, mut stop: Stop, node: Node) {
    let routes = router(app.clone(), inbox::pages());
    let node = Arc::new(node);
    let keeping = tokio::spawn(housekeeping::run(app.clone(), node.clone()));
    let following = tokio::spawn(agents::follow(app.clone()));
    let listening = app.clone();
    let serving = tokio::spawn(async move {
        let (settings, stopping) = (&listening.settings.limits, listening.stopping.clone());
        listener::serve(listener, tls, routes, settings, stopping).await;
    });
    stop.told().await;
    tracing::info!("stopping: no new calls are started");
    app.stopping.cancel();
    // From here on it decides and starts nothing: a service with another policy may take over.
    if let Err(error) = node.leave(app.store()).await {
        tracing::warn!("this node could not say that it is gone: {error}");
    }
    app.runs.close();
    let ending = async {
        let _ = serving.await;
        app.runs.wait().await;
    };
    tokio::select! {
        ended = tokio::time::timeout(RUNS_END_WITHIN, ending) => if ended.is_err() {
            tracing::warn!("some calls still run; they will be shown as unknown");
        },
        () = stop.told() => tracing::warn!("told twice: stopping at once"),
    }
    keeping.abort();
    following.abort();
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let message = format!("cannot listen on {address}: {error}");
        Failure::error("cannot_listen", message).hint("choose another address with `--listen 127.0.0.1:PORT`")
    })
}

fn hosts(named: &[String], address: SocketAddr) -> AllowedHosts {
    let port = address.port();
    let own = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
        address.to_string(),
    ];
    // Who names a host means it with and without the port: a proxy in front hides ours.
    let named = named
        .iter()
        .flat_map(|name| [name.clone(), format!("{name}:{port}")]);
    AllowedHosts::new(own.into_iter().chain(named))
}

fn base_url(named: &[String], address: SocketAddr, is_secure: bool) -> String {
    let scheme = if is_secure { "https" } else { "http" };
    match named.first() {
        Some(name) => format!("{scheme}://{name}"),
        None if address.ip().is_loopback() => format!("{scheme}://localhost:{}", address.port()),
        None => format!("{scheme}://{address}"),
    }
}
