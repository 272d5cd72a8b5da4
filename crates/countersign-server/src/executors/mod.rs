//! Running tools from the service: each tool has a target, or its host runs it.

mod http;

use std::collections::{BTreeMap, HashMap};

use countersign::executor::{Executor, HostRuns, Outcome, Permit};
use countersign::id::ToolName;
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
}

enum Tool {
    Http(HttpTool),
    Echo,
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
                ToolTarget::Http { url, key_env } => {
                    Tool::Http(HttpTool::new(url, key_env, allowed.clone()).map_err(bad)?)
                }
            };
            let name = ToolName::new(name.as_str()).map_err(|problem| bad(problem.to_string()))?;
            ready.insert(name, tool);
        }
        Ok(Executors(ready))
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
            None => HostRuns.run(permit),
        }
    }
}
