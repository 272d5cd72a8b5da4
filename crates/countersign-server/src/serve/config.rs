//! Settings of the service. Flags take precedence over the environment, the configuration file and defaults, in this
//! order. Unknown keys are refused, because a misspelt setting must not silently have no effect.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign::policy::Policy;
use serde::Deserialize;

use super::log::LogFormat;
use crate::agents::{self, AgentSource};
use crate::cli::{Global, Serve};
use crate::duration;
use crate::executors::ToolTarget;
use crate::failure::Failure;
use crate::policy::{self, Loaded};
use crate::service::{DECISIONS_PER_SECOND, LimitSettings};
use crate::trust;
use crate::web::tls::Files;
use crate::web::{AllowedOrigins, TrustedProxies};
use crate::webhooks::WebhookSettings;

/// Configuration file that is read from the current folder if none is given. It may have come with the folder, so a
/// person must have trusted it.
pub const DEFAULT_FILE: &str = "countersign-serve.toml";
const DEFAULT_PORT: u16 = 8787;
/// Default for [`Config::longest_wait`].
const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);

/// Settings of the service, merged from flags, environment, configuration file and defaults.
pub struct Config {
    /// True if there is neither a configuration nor a policy: the service then runs example agents with their policies.
    pub is_tryout: bool,
    /// Address to listen on; by default 127.0.0.1:8787.
    pub listen: SocketAddr,
    /// Host names under which clients reach the service, in addition to its address.
    pub hosts: Vec<String>,
    /// TLS certificate and key files; `None` if the service does not terminate TLS itself.
    pub tls: Option<Files>,
    /// True if a proxy in front of the service terminates TLS.
    pub behind_proxy: bool,
    pub log: LogFormat,
    /// Path of a SQLite file, or URL of a PostgreSQL database.
    pub store: String,
    /// The policy in force, with its source.
    pub policy: Loaded,
    /// File with the key that encrypts the credentials of calls. If unset, the key is taken from
    /// `COUNTERSIGN_SEAL_KEY`; without a key, no credentials are accepted.
    pub seal_key_file: Option<PathBuf>,
    /// File for outcomes that the store has not accepted when the service ends. If unset, the file is next to the
    /// store, provided that the store is a file.
    pub outcomes_file: Option<PathBuf>,
    /// Maximum time that a request may wait for a decision (long poll); by default 5 minutes.
    pub longest_wait: Duration,
    /// Maximum number of decisions per person and second; by default 10.
    pub decisions_per_second: NonZeroU32,
    /// Further limits, from the `[limits]` table.
    pub limits: LimitSettings,
    /// Proxies whose `X-Forwarded-For` header determines the client's address. A client's own header is ignored.
    pub trusted_proxies: TrustedProxies,
    /// Origins of other web sites whose pages may call the API.
    pub allowed_origins: AllowedOrigins,
    /// Tools that the service runs itself, by name.
    pub tools: BTreeMap<String, ToolTarget>,
    /// Webhooks that are told about decisions and ends, by name.
    pub webhooks: BTreeMap<String, WebhookSettings>,
    /// Targets in private networks at which tools and webhooks may be called, as `HOST:PORT`.
    pub private_targets: Vec<String>,
    /// Agents that people can talk to, by name.
    pub agents: BTreeMap<String, AgentSource>,
    /// True if the playground, a page on which people talk to agents, is served.
    pub playground: bool,
}

/// Contents of the configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<SocketAddr>,
    #[serde(default)]
    hosts: Vec<String>,
    tls: Option<Files>,
    #[serde(default)]
    behind_proxy: bool,
    log: Option<LogFormat>,
    store: Option<String>,
    policy: Option<PathBuf>,
    seal_key_file: Option<PathBuf>,
    outcomes_file: Option<PathBuf>,
    longest_wait: Option<String>,
    decisions_per_second: Option<NonZeroU32>,
    #[serde(default)]
    limits: LimitSettings,
    #[serde(default)]
    trusted_proxies: Vec<String>,
    #[serde(default)]
    allowed_origins: Vec<String>,
    #[serde(default)]
    tools: BTreeMap<String, ToolTarget>,
    #[serde(default)]
    webhooks: BTreeMap<String, WebhookSettings>,
    #[serde(default)]
    private_targets: Vec<String>,
    #[serde(default)]
    agents: BTreeMap<String, AgentSource>,
    #[serde(default)]
    playground: bool,
}

impl Config {
    /// Merges flags, environment, file and defaults.
    pub fn load(global: &Global, options: &Serve) -> Result<Config, Failure> {
        let path = find(options.config.as_deref())?;
        let file = path.as_deref().map(read).transpose()?.unwrap_or_default();
        let named_policy = global.policy.as_deref().or(file.policy.as_deref());
        let mut policy = policy::load(named_policy)?;
        let is_tryout = path.is_none() && policy.file.is_none();
        let (mut tools, mut agents) = (file.tools, file.agents);
        if is_tryout {
            agents = AgentSource::tryout();
            policy.text = tryout_policy(&agents).map_err(|problem| bad(None, &problem))?;
        }
        join_worlds(&mut policy, &agents).map_err(|problem| bad(path.as_deref(), &problem))?;
        if is_tryout {
            tools = echoes(&policy.policy, &agents);
        }
        let tls = match (&options.tls_certificate, &options.tls_key) {
            (Some(certificate), Some(key)) => Some(Files {
                certificate: certificate.clone(),
                key: key.clone(),
            }),
            _ => file.tls,
        };
        let longest_wait = file.longest_wait.as_deref().map(duration::parse).transpose();
        let longest_wait = longest_wait.map_err(|problem| bad(path.as_deref(), &problem))?;
        let trusted_proxies = TrustedProxies::parse(&file.trusted_proxies);
        let trusted_proxies = trusted_proxies.map_err(|problem| bad(path.as_deref(), &problem))?;
        let allowed_origins = AllowedOrigins::parse(&file.allowed_origins);
        let allowed_origins = allowed_origins.map_err(|problem| bad(path.as_deref(), &problem))?;
        let mut hosts = options.host.clone();
        hosts.extend(file.hosts);
        let default = SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT));
        Ok(Config {
            is_tryout,
            listen: options.listen.or(file.listen).unwrap_or(default),
            hosts,
            tls,
            behind_proxy: options.behind_proxy || file.behind_proxy,
            log: options.log.or(file.log).unwrap_or_default(),
            store: global
                .store
                .clone()
                .or(file.store)
                .unwrap_or_else(|| crate::store::DEFAULT.to_owned()),
            policy,
            seal_key_file: global.seal_key_file.clone().or(file.seal_key_file),
            outcomes_file: file.outcomes_file,
            longest_wait: longest_wait.unwrap_or(LONGEST_WAIT),
            decisions_per_second: file.decisions_per_second.unwrap_or(DECISIONS_PER_SECOND),
            limits: file.limits,
            trusted_proxies,
            allowed_origins,
            tools,
            webhooks: file.webhooks,
            private_targets: file.private_targets,
            agents,
            playground: is_tryout || file.playground,
        })
    }

    /// Checks that the configuration file can be parsed. Returns the file's path, if there is a file, and the store
    /// that the service would use.
    pub fn check(global: &Global, named: Option<&Path>) -> Result<(Option<PathBuf>, String), Failure> {
        let path = find(named)?;
        let file = path.as_deref().map(read).transpose()?.unwrap_or_default();
        let longest_wait = file.longest_wait.as_deref().map(duration::parse).transpose();
        longest_wait.map_err(|problem| bad(path.as_deref(), &problem))?;
        let proxies = TrustedProxies::parse(&file.trusted_proxies);
        proxies.map_err(|problem| bad(path.as_deref(), &problem))?;
        let origins = AllowedOrigins::parse(&file.allowed_origins);
        origins.map_err(|problem| bad(path.as_deref(), &problem))?;
        let store = global.store.clone().or(file.store);
        Ok((path, store.unwrap_or_else(|| crate::store::DEFAULT.to_owned())))
    }

    /// Returns the names of the echo tools, which only return their arguments.
    pub fn echoes(&self) -> Vec<String> {
        let is_echo = |target: &ToolTarget| matches!(target, ToolTarget::Echo { .. });
        let echoes = self.tools.iter().filter(|(_, target)| is_echo(target));
        echoes.map(|(name, _)| name.clone()).collect()
    }

    /// Refuses to listen on an address that other machines can reach without TLS, where credentials and decisions would
    /// be sent unencrypted (H02).
    pub fn check_address(&self, has_tls: bool) -> Result<(), Failure> {
        if self.listen.ip().is_loopback() || has_tls || self.behind_proxy {
            return Ok(());
        }
        let message = format!(
            "{} is reachable from other machines without TLS: tokens and decisions would be sent unencrypted",
            self.listen
        );
        Err(Failure::error("not_secure", message).hint(
            "listen on 127.0.0.1, add `--tls-certificate` and `--tls-key`, or add `--behind-proxy` if a proxy terminates TLS",
        ))
    }
}

/// Returns the example policy for a service without configuration. The tools of the example agents are left out,
/// because the examples have policies of their own.
fn tryout_policy(agents: &BTreeMap<String, AgentSource>) -> Result<String, String> {
    let text = crate::worlds::POLICY;
    agents::without(text, &world_tools(agents))
}

/// Merges the policies of the served example agents into the service's policy.
fn join_worlds(policy: &mut Loaded, agents: &BTreeMap<String, AgentSource>) -> Result<(), String> {
    let worlds = agents.values().filter_map(AgentSource::setup);
    let worlds: Vec<(String, &str)> = worlds
        .map(|setup| (format!("the world `{}`", setup.name), setup.policy))
        .collect();
    if worlds.is_empty() {
        return Ok(());
    }
    let worlds: Vec<(&str, &str)> = worlds.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    policy.text = agents::join(&policy.text, &worlds)?;
    policy.policy = Policy::parse(&policy.text).map_err(|problems| problems.to_string())?;
    if let Some(file) = &policy.file {
        policy::protect(&mut policy.policy, file);
    }
    Ok(())
}

/// Returns an echo, a tool that only returns its arguments, for every tool in the policy that no example implements.
fn echoes(policy: &Policy, agents: &BTreeMap<String, AgentSource>) -> BTreeMap<String, ToolTarget> {
    let theirs = world_tools(agents);
    let listed = policy.catalogue();
    let names = listed
        .iter()
        .map(|listed| listed.tool)
        .filter(|name| !theirs.contains(name));
    names
        .map(|name| (name.to_owned(), ToolTarget::Echo { echo: true }))
        .collect()
}

fn world_tools(agents: &BTreeMap<String, AgentSource>) -> Vec<&'static str> {
    let worlds = agents.values().filter_map(AgentSource::setup);
    worlds.flat_map(|setup| setup.tools()).collect()
}

fn find(named: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    if let Some(named) = named {
        return Ok(Some(named.to_owned()));
    }
    let is_there = Path::new(DEFAULT_FILE).symlink_metadata().is_ok();
    Ok(is_there.then(|| PathBuf::from(DEFAULT_FILE)))
}

fn read(path: &Path) -> Result<File, Failure> {
    let text = trust::read(path, |error| {
        let message = format!("cannot read the configuration `{}`: {error}", path.display());
        Failure::error("config_unreadable", message).hint("name another one with `--config FILE`")
    })?;
    toml::from_str(&text).map_err(|error| bad(Some(path), error.to_string().trim_end()))
}

fn bad(path: Option<&Path>, problem: &str) -> Failure {
    let place = path.map(|path| format!("`{}`", path.display()));
    let message = format!(
        "the configuration {} is not valid: {problem}",
        place.unwrap_or_default()
    );
    Failure::error("bad_config", message).hint("see docs/serve.md for all settings")
}
