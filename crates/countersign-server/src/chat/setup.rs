//! Finds the agent to talk to: a built-in one, or a folder with an agent's files.

use std::path::Path;
use std::sync::Arc;

use countersign::executor::{Executor, NoExecutor};
use countersign::policy::Policy;
use countersign_agent::file::AgentFile;

use crate::agents;
use crate::cli::{Chat, Global};
use crate::exec::CommandExecutor;
use crate::failure::Failure;
use crate::policy;

/// An agent, its policy and the executor of its tools.
pub struct Setup {
    pub file: AgentFile,
    pub policy: Arc<Policy>,
    pub executor: Arc<dyn Executor>,
}

impl Setup {
    /// Reads the agent's files and its policy.
    pub fn read(global: &Global, options: &Chat) -> Result<Setup, Failure> {
        match crate::worlds::named(&options.agent) {
            Some(setup) => {
                let world = agents::open_world(setup, setup.name, options.data.as_deref());
                let world = world.map_err(|problem| Failure::error("no_world", problem))?;
                Ok(Setup {
                    file: agents::built_in(setup).map_err(bad_agent)?,
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
            // The path of the file itself is accepted too.
            false => named
                .parent()
                .filter(|_| named.ends_with("agent.toml"))
                .ok_or_else(|| {
                    Failure::error("no_agent", format!("there is no agent `{}`", options.agent))
                        .hint("there are `crm`, `cms` and `ranch`, or name a folder with an `agent.toml`")
                })?,
        };
        let unreadable = |problem: String| {
            Failure::error("no_agent", problem)
                .hint("an agent is a folder that contains `agent.toml`, `tools.json` and `policy.toml`")
        };
        let file = agents::read(&folder.join("agent.toml")).map_err(unreadable)?;
        let executor: Arc<dyn Executor> = match options.exec.is_empty() {
            true => Arc::new(NoExecutor),
            false => Arc::new(CommandExecutor::new(&options.exec, &options.pass_env)?),
        };
        Ok(Setup {
            file,
            policy: chosen_policy(
                global,
                || agents::text(&folder.join("policy.toml")).map_err(unreadable),
                "policy.toml",
            )?,
            executor,
        })
    }
}

/// Returns the policy named on the command line, or else the agent's own.
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

/// Converts an error in an agent's files to a failure with a hint about their format.
pub fn bad_agent(problem: impl std::fmt::Display) -> Failure {
    Failure::error("bad_agent", problem.to_string()).hint("see docs/agent.md for what an agent's files say")
}
