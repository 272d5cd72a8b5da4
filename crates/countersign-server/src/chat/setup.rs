//! Whom to talk to: one of the agents that come along, or a folder of somebody's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign::executor::{Executor, HostRuns};
use countersign::policy::Policy;
use countersign_agent::file::{AgentFile, BadAgent};
use countersign_examples::World;

use crate::cli::{Chat, Global};
use crate::exec::CommandExecutor;
use crate::failure::Failure;
use crate::policy;

/// An agent, the policy over it, and what runs its tools.
pub struct Setup {
    pub file: AgentFile,
    pub policy: Arc<Policy>,
    pub executor: Arc<dyn Executor>,
}

impl Setup {
    /// Reads it all, before the store is touched.
    pub fn read(global: &Global, options: &Chat) -> Result<Setup, Failure> {
        match countersign_examples::named(&options.agent) {
            Some(setup) => {
                let data = options.data.clone();
                let data = data.unwrap_or_else(|| PathBuf::from(format!("countersign-{}.db", setup.name)));
                let world = World::open(setup, &data)
                    .map_err(|error| Failure::error("no_world", format!("`{}`: {error}", data.display())))?;
                let file = AgentFile::parse(setup.agent, setup.definitions, Some(setup.script));
                Ok(Setup {
                    file: file.map_err(bad_agent)?,
                    policy: chosen_policy(global, || Ok(setup.policy.to_owned()), "policy.toml")?,
                    executor: Arc::new(world),
                })
            }
            None => Setup::of_folder(global, options),
        }
    }

    fn of_folder(global: &Global, options: &Chat) -> Result<Setup, Failure> {
        let named = Path::new(&options.agent);
        let folder = match named.is_dir() {
            true => named,
            // The file itself may be named, too.
            false => named
                .parent()
                .filter(|_| named.ends_with("agent.toml"))
                .ok_or_else(|| {
                    Failure::error("no_agent", format!("there is no agent `{}`", options.agent))
                        .hint("there are `crm`, `cms` and `ranch`, or name a folder with an `agent.toml`")
                })?,
        };
        let read = |name: &str| {
            let file = folder.join(name);
            std::fs::read_to_string(&file).map_err(|error| {
                Failure::error("no_agent", format!("cannot read `{}`: {error}", file.display()))
                    .hint("an agent is a folder with `agent.toml`, `tools.json` and `policy.toml`")
            })
        };
        let script = match folder.join("script.toml").exists() {
            true => Some(read("script.toml")?),
            false => None,
        };
        let file = AgentFile::parse(&read("agent.toml")?, &read("tools.json")?, script.as_deref());
        let executor: Arc<dyn Executor> = match options.exec.is_empty() {
            true => Arc::new(HostRuns),
            false => Arc::new(CommandExecutor::new(&options.exec)?),
        };
        Ok(Setup {
            file: file.map_err(bad_agent)?,
            policy: chosen_policy(global, || read("policy.toml"), "policy.toml")?,
            executor,
        })
    }
}

/// The policy that was named, else the agent's own.
fn chosen_policy(
    global: &Global,
    own: impl FnOnce() -> Result<String, Failure>,
    name: &str,
) -> Result<Arc<Policy>, Failure> {
    if global.policy.is_some() {
        return Ok(Arc::new(policy::load(global.policy.as_deref())?.policy));
    }
    let policy = Policy::parse(&own()?);
    policy
        .map(Arc::new)
        .map_err(|problems| policy::not_good(Path::new(name), &problems.0))
}

/// What is wrong with an agent, as a failure.
pub fn bad_agent(problem: BadAgent) -> Failure {
    Failure::error("bad_agent", problem.to_string()).hint("see docs/agent.md for what an agent's files say")
}
