//! Runs the tools that the service itself executes: over HTTP, on an example's data, or as a stub. All other tools are
//! left to the host.

mod http;

use std::collections::{BTreeMap, HashMap};

use countersign::executor::{Executor, NoExecutor, Outcome, Permit};
use countersign::id::ToolName;
use countersign_http_client::{AllowedTargets, Proxy};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;

use http::HttpTool;

use crate::failure::Failure;
use crate::worlds::World;

/// How the service runs a tool, according to the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
pub enum ToolTarget {
    /// Sends the arguments to a URL.
    Http {
        /// URL to which the exact bytes are sent.
        url: String,
        /// Environment variable with the key that signs requests.
        key_env: String,
    },
    /// Returns the arguments as the result, for trials and benchmarks.
    Echo {
        /// Always true; the setting only selects this kind of tool. `false` is a configuration error.
        echo: bool,
    },
    /// Does nothing and always returns the same result, for trials and benchmarks.
    Answer {
        /// Result to return.
        answer: String,
    },
}

enum Tool {
    Http(HttpTool),
    Echo,
    Answer(String),
    /// A tool that works on an example's data.
    World(World),
}

/// All tools that the service runs.
pub struct Executors(HashMap<ToolName, Tool>);

impl Executors {
    /// Creates the executors of the configured tools. `private` lists private addresses that tools may be called at,
    /// such as `127.0.0.1:9000`. Fails at the first invalid tool.
    pub fn new(tools: &BTreeMap<String, ToolTarget>, private: &[String]) -> Result<Executors, Failure> {
        let allowed = AllowedTargets::new(private).map_err(|problem| {
            Failure::error("bad_config", problem.to_string()).hint("write `127.0.0.1:9000`")
        })?;
        let is_over_http = |target: &ToolTarget| matches!(target, ToolTarget::Http { .. });
        let proxy = match tools.values().any(is_over_http) {
            true => Proxy::from_environment(|name| std::env::var(name).ok()).map_err(|problem| {
                Failure::error("bad_config", problem)
                    .hint("set `HTTPS_PROXY` to `http://HOST:PORT`, or unset it")
            })?,
            false => None,
        };
        let mut ready = HashMap::new();
        for (name, target) in tools {
            let bad = |problem: String| {
                Failure::error("bad_config", format!("tool `{name}`: {problem}"))
                    .hint("see docs/serve.md for how tools are run")
            };
            let tool = match target {
                ToolTarget::Echo { echo: true } => Tool::Echo,
                ToolTarget::Echo { echo: false } => {
                    return Err(bad("`echo = false` has no effect; remove the tool".to_owned()));
                }
                ToolTarget::Answer { answer } => Tool::Answer(answer.clone()),
                ToolTarget::Http { url, key_env } => {
                    Tool::Http(HttpTool::new(url, key_env, allowed.clone(), proxy.clone()).map_err(bad)?)
                }
            };
            let name = ToolName::new(name.as_str()).map_err(|problem| bad(problem.to_string()))?;
            ready.insert(name, tool);
        }
        Ok(Executors(ready))
    }

    /// Adds the tools of an example. Fails if one of them already has an executor, because it would be unclear which
    /// one runs a call.
    pub fn with_world(mut self, world: &World) -> Result<Executors, Failure> {
        for name in world.setup().tools() {
            let bad = |problem: String| {
                Failure::error("bad_config", format!("tool `{name}`: {problem}"))
                    .hint("leave one of them out of the configuration")
            };
            let tool = ToolName::new(name).map_err(|problem| bad(problem.to_string()))?;
            if self.0.insert(tool, Tool::World(world.clone())).is_some() {
                let world = world.setup().name;
                return Err(bad(format!(
                    "the example `{world}` contains it, but something else is configured to run it"
                )));
            }
        }
        Ok(self)
    }
}

impl Executor for Executors {
    fn runs(&self, tool: &ToolName) -> bool {
        self.0.contains_key(tool)
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
        match self.0.get(permit.tool()) {
            Some(Tool::Http(tool)) => tool.clone().run(permit).boxed(),
            Some(Tool::Echo) => {
                let outcome = Outcome::succeeded(permit.arguments().as_bytes());
                std::future::ready(outcome).boxed()
            }
            Some(Tool::Answer(answer)) => std::future::ready(Outcome::succeeded(answer.as_bytes())).boxed(),
            Some(Tool::World(world)) => world.run(permit),
            None => NoExecutor.run(permit),
        }
    }
}
