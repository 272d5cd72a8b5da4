//! Running tools from the service: each tool has one target, is a built-in world's, or is run by its host.

mod http;

use std::collections::{BTreeMap, HashMap};

use countersign::executor::{Executor, HostRuns, Outcome, Permit};
use countersign::id::ToolName;
use countersign_examples::World;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;

use http::HttpTool;

use crate::client::Allowed;
use crate::failure::Failure;

/// How the service runs a tool, as the configuration says it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
pub enum ToolTarget {
    /// The arguments are sent to an address.
    Http {
        /// Where the exact bytes are sent.
        url: String,
        /// The environment variable with the key that signs requests.
        key_env: String,
    },
    /// The arguments come back as the result: for trying out and for measuring.
    Echo {
        /// Says so.
        echo: bool,
    },
    /// Nothing is done, and the result is always the same: for trying out and for measuring.
    Answer {
        /// The result.
        answer: String,
    },
}

enum Tool {
    Http(HttpTool),
    Echo,
    Answer(String),
    /// One of a built-in world's.
    World(World),
}

/// All tools the service runs.
pub struct Executors(HashMap<ToolName, Tool>);

impl Executors {
    /// Makes them ready, or says what is wrong with one.
    pub fn new(tools: &BTreeMap<String, ToolTarget>, private: &[String]) -> Result<Executors, Failure> {
        let allowed = Allowed::new(private).map_err(|problem| {
            Failure::error("bad_config", problem.to_string()).hint("write `127.0.0.1:9000`")
        })?;
        let mut ready = HashMap::new();
        for (name, target) in tools {
            let bad = |problem: String| {
                Failure::error("bad_config", format!("tool `{name}`: {problem}"))
                    .hint("see docs/serve.md for how tools are run")
            };
            let tool = match target {
                ToolTarget::Echo { echo: true } => Tool::Echo,
                ToolTarget::Echo { echo: false } => {
                    return Err(bad("`echo = false` says nothing; leave the tool out".to_owned()));
                }
                ToolTarget::Answer { answer } => Tool::Answer(answer.clone()),
                ToolTarget::Http { url, key_env } => {
                    Tool::Http(HttpTool::new(url, key_env, allowed.clone()).map_err(bad)?)
                }
            };
            let name = ToolName::new(name.as_str()).map_err(|problem| bad(problem.to_string()))?;
            ready.insert(name, tool);
        }
        Ok(Executors(ready))
    }

    /// Adds the tools of a world. A tool that is run already is refused: a call must have one way to run.
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
                    "the world `{world}` has it, and something else runs it"
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
            None => HostRuns.run(permit),
        }
    }
}
