//! `serve`: starts the service, runs it, and shuts it down.
//!
//! Input: the command line, the environment and a configuration file. Output: a running service. When it shuts down,
//! the service starts nothing new and waits for running calls.

mod config;
mod first_run;
mod housekeeping;
mod log;
mod node;
mod outcomes;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign::executor::Executor;
use countersign::gate::Gate;
use countersign::store::StoreError;
use tokio::net::TcpListener;

pub use config::{Config, DEFAULT_FILE as CONFIG_FILE};
pub use log::LogFormat;

use node::Node;
use outcomes::OutcomeFile;

use crate::agents;
use crate::cli::{Global, Serve};
use crate::executors::Executors;
use crate::failure::{Exit, Failure};
use crate::http::router;
use crate::leave::WithLeave;
use crate::output::Output;
use crate::policy::record::Change;
use crate::service;
use crate::service::agents::{self as served, Agents, TalkSecret};
use crate::stop::Stop;
use crate::store::{Missing, Watch};
use crate::web::{self, AllowedHosts, App, listener, tls};
use crate::webhooks::Webhooks;
use crate::{access, backend, inbox, keys, pace, policy, store};

/// Maximum time that a shutdown waits for running calls.
const RUNS_END_WITHIN: Duration = Duration::from_secs(20);
/// Maximum time that a shutdown keeps trying to record outcomes that the store has not accepted.
const LAST_TRY: Duration = Duration::from_secs(3);

/// Runs the service until a signal stops it or the store fails.
pub async fn run(global: &Global, options: Serve, output: &mut Output) -> Result<Exit, Failure> {
    let config = Config::load(global, &options)?;
    log::start(config.log, output.has_colored_errors());
    let tls = config.tls.as_ref().map(tls::Acceptor::load).transpose()?;
    config.check_address(tls.is_some())?;
    if config.behind_proxy && config.trusted_proxies.is_empty() {
        tracing::warn!(
            "`behind_proxy` without `trusted_proxies`: limits per address treat all clients as one"
        );
    }
    store::check(&config.store)?;
    let sealer = keys::sealer(config.seal_key_file.as_deref())?;
    let echoes = config.echoes();
    let outcomes = match (&config.outcomes_file, store::is_postgres(&config.store)) {
        (Some(file), _) => Some(OutcomeFile::at(file.clone(), sealer.clone())),
        (None, false) => Some(OutcomeFile::next_to(Path::new(&config.store), sealer.clone())),
        (None, true) => None,
    };
    let unrecorded = outcomes.as_ref().map(OutcomeFile::read).transpose()?;
    let mut executors = Executors::new(&config.tools, &config.private_targets)?;
    let tenant = backend::tenant(global)?;
    let webhooks = Webhooks::new(&config.webhooks, &tenant, &config.private_targets)?;
    let ready = agents::load(&config.agents)?;
    for world in &ready.worlds {
        executors = executors.with_world(world)?;
    }
    let listener = bind(config.listen).await?;
    let address = listener.local_addr().unwrap_or(config.listen);
    let store = store::open(&config.store, Missing::Create, Watch::Others).await?;
    if let Some(file) = &outcomes
        && let Err(error) = file.reserve()
    {
        tracing::warn!(
            "cannot reserve disk space for `{}`: {error}",
            file.path().display()
        );
    }
    let change = Change::from_flag(options.policy_change);
    let mut rules = config.policy.policy;
    policy::protect(&mut rules, Path::new(&config.store));
    let policy = rules.hash();
    let mut gate = Gate::new(store, Arc::new(rules))
        .with_executor(Arc::new(WithLeave(Arc::new(executors))) as Arc<dyn Executor>);
    if let Some(sealer) = sealer {
        gate = gate.with_sealer(sealer);
    }
    let gate = pace::with_rate_limit(gate);
    gate.requeue_outcomes(unrecorded.unwrap_or_default());
    let joined = Node::join(gate.store(), &tenant, policy, change).await?;
    if joined.is_new_policy {
        output.notice(
            "policy",
            "the policy differs from that of the last service on this store",
        );
    }
    let base = base_url(&config.hosts, address, tls.is_some() || config.behind_proxy);
    let settings = service::Settings {
        tenant: tenant.clone(),
        longest_wait: config.longest_wait,
        decisions_per_second: config.decisions_per_second,
        limits: config.limits,
        page: Some(base.clone()),
    };
    let web = web::Settings {
        hosts: hosts(&config.hosts, address),
        is_secure: tls.is_some() || config.behind_proxy,
        trusted_proxies: config.trusted_proxies,
        origins: config.allowed_origins,
    };
    let secret = TalkSecret::load(gate.store(), &tenant).await?;
    let agents = Agents::new(&gate, tenant.clone(), secret, ready.agents, config.playground)
        .map_err(|problem| Failure::error("bad_config", problem.to_string()))?
        .leading_to(&base);
    let app = App::new(gate, settings, web, agents);
    access::address::note(app.store(), &app.settings.tenant, &base).await?;
    let start = first_run::Start {
        base,
        policy_file: config.policy.file,
        tryout: config.is_tryout.then_some(first_run::Tryout { echoes }),
    };
    let stop = Stop::listen()?;
    first_run::greet(&app, global, &start, output).await?;
    let service = Running {
        app,
        node: Arc::new(joined.node),
        outcomes: outcomes.map(Arc::new),
        webhooks,
    };
    let ended = service.serve(listener, tls, stop).await;
    match ended.store {
        stopped if !ended.lost.is_empty() => Err(outcomes_lost(&ended.lost, stopped.as_ref().err())),
        Ok(()) => {
            output.notice(
                "stopped",
                "stopped; everything that was acknowledged is in the store",
            );
            Ok(Exit::Done)
        }
        Err(error) => Err(store::store_stopped(&error)),
    }
}

/// Returns the failure of a service that knows the outcomes of some calls but could not save them anywhere.
fn outcomes_lost(calls: &[String], stopped: Option<&StoreError>) -> Failure {
    let calls = calls.join(" ");
    let because = stopped.map_or_else(String::new, |error| {
        format!("; nothing can be written any more: {error}")
    });
    let message = format!("stopped; the outcomes of these calls could not be saved: {calls}{because}");
    Failure::error("outcomes_lost", message).hint(
        "what they answered is lost: see what the tools did, then `countersign reconcile ID.N --succeeded` or `--failed` for \
         each; `outcomes_file` can name a file on another disk",
    )
}

/// Result of a shutdown.
struct Ended {
    /// The store's error, if the service ended because the store accepts no more writes.
    store: Result<(), StoreError>,
    /// Calls whose known outcomes could not be saved.
    lost: Vec<String>,
}

/// A service that is ready to run.
struct Running {
    app: App,
    node: Arc<Node>,
    outcomes: Option<Arc<OutcomeFile>>,
    webhooks: Webhooks,
}

impl Running {
    /// Serves until a stop signal, or until the store permanently accepts no more writes.
    async fn serve(mut self, listener: TcpListener, tls: Option<tls::Acceptor>, mut stop: Stop) -> Ended {
        let webhooks = std::mem::take(&mut self.webhooks);
        let app = &self.app;
        let routes = router(app.clone(), inbox::pages()).with_error_page(inbox::error_page);
        let keeping = housekeeping::run(app.clone(), self.node.clone(), self.outcomes.clone());
        let keeping = tokio::spawn(keeping);
        let following = tokio::spawn(served::follow(app.service().clone()));
        let telling = tokio::spawn(webhooks.run(app.service().clone()));
        let listening = app.clone();
        let serving = tokio::spawn(async move {
            let (limits, proxies) = (&listening.settings.limits, &listening.web().trusted_proxies);
            listener::serve(listener, tls, routes, limits, proxies, listening.stopping.clone()).await;
        });
        let ended = tokio::select! {
            () = stop.next_signal() => Ok(()),
            error = store::store_fails(app.store()) => Err(error),
        };
        match &ended {
            Ok(()) => tracing::info!("stopping: no new calls are started"),
            Err(error) => tracing::error!("stopping, because nothing can be written any more: {error}"),
        }
        app.stopping.cancel();
        // From here on this node decides and starts nothing, so a service with another policy may take over.
        if let Err(error) = self.node.leave(app.store()).await {
            tracing::warn!("this node could not release its lease: {error}");
        }
        app.runs.close();
        let ending = async {
            let _ = serving.await;
            app.runs.wait().await;
        };
        tokio::select! {
            ended = tokio::time::timeout(RUNS_END_WITHIN, ending) => if ended.is_err() {
                tracing::warn!("some calls are still running and will end as unknown");
            },
            () = stop.next_signal() => tracing::warn!("second signal: stopping at once"),
        }
        let lost = self.keep_outcomes().await;
        keeping.abort();
        following.abort();
        // Ends by itself when the service stops, but first stores how far it got.
        let _ = tokio::time::timeout(LAST_TRY, telling).await;
        Ended { store: ended, lost }
    }

    /// Tries again to record known outcomes, and writes the rest to the outcome file for the next start. Returns the
    /// calls whose outcomes could not be saved.
    async fn keep_outcomes(&self) -> Vec<String> {
        let rest = match (self.app.gate.unrecorded(), &self.outcomes) {
            (0, None) => return Vec::new(),
            (0, Some(_)) => Vec::new(),
            _ => self.app.gate.flush_unrecorded(LAST_TRY).await,
        };
        let calls: Vec<String> = rest.iter().map(|finish| finish.call.to_string()).collect();
        let problem = match &self.outcomes {
            None if rest.is_empty() => return Vec::new(),
            None => "`outcomes_file` is not configured".to_owned(),
            Some(file) => match file.write(self.app.store(), rest).await {
                Ok(0) => return Vec::new(),
                Ok(count) => {
                    tracing::warn!(
                        "the store did not record the outcomes of {count} calls; `{}` keeps them until the next start",
                        file.path().display()
                    );
                    return Vec::new();
                }
                Err(error) => error.to_string(),
            },
        };
        tracing::error!(
            calls = calls.join(" "),
            "the outcomes of these calls are known but could not be saved: {problem}"
        );
        calls
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let message = format!("cannot listen on {address}: {error}");
        Failure::error("cannot_listen", message).hint("choose another port with `--listen 127.0.0.1:PORT`")
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
    // Each configured host is allowed with and without the service's port, because a proxy in front may hide the port.
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
