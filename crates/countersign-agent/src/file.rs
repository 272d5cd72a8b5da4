//! An agent as a file: who answers, with which prompts, tools and models.
//!
//! Enters: the texts of `agent.toml`, `tools.json` and perhaps `script.toml`. Leaves: a [`Plan`] for one [`Provider`].
//! Deliberately absent: paths and the environment; whoever starts an agent knows where its files and keys are.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use countersign::id::{self, Person};
use serde::Deserialize;

use crate::agent::{AfterDecision, Evaluator, Limits, Plan, Role, Specialist};
use crate::model::{Anthropic, ApiKey, BadScript, Endpoint, Model, OpenAi, Patience, Script};
use crate::tool::{BadTools, Tool};

/// Where Anthropic's own models are.
pub const ANTHROPIC: &str = "https://api.anthropic.com";
/// Where OpenAI's own models are.
pub const OPENAI: &str = "https://api.openai.com/v1";

/// Who provides the models.
#[derive(Clone, Debug)]
pub enum Provider {
    /// The agent's own script.
    Script,
    /// Anthropic's Messages API.
    Anthropic(Service),
    /// Chat completions.
    OpenAi(Service),
}

/// Where a provider is.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its address.
    pub url: String,
    /// The key it wants.
    pub key: Option<ApiKey>,
    /// One model for everybody, instead of those the file names.
    pub model: Option<String>,
}

/// What is wrong with an agent's files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAgent {
    /// It is not the TOML it should be.
    #[error("the agent cannot be read: {0}")]
    Unreadable(String),
    /// Its tools are wrong.
    #[error(transparent)]
    Tools(#[from] BadTools),
    /// Its script is wrong.
    #[error(transparent)]
    Script(#[from] BadScript),
    /// It wants to be called what nobody can be called.
    #[error("{0}")]
    Name(String),
    /// A specialist, the orchestrator or the evaluator is wrong.
    #[error("`{0}`: {1}")]
    Role(String, String),
    /// A model cannot be used.
    #[error("model `{0}`: {1}")]
    Model(String, String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    language: Option<String>,
    #[serde(default)]
    after_decision: After,
    #[serde(default)]
    outside: HashSet<String>,
    #[serde(default)]
    models: BTreeMap<String, Named>,
    orchestrator: Option<WrittenRole>,
    #[serde(default)]
    specialist: Vec<WrittenSpecialist>,
    evaluator: Option<WrittenEvaluator>,
    #[serde(default)]
    limits: WrittenLimits,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum After {
    #[default]
    GoOn,
    Stop,
}

/// A model by the names its providers give it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    anthropic: Option<String>,
    openai: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRole {
    prompt: String,
    model: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSpecialist {
    name: String,
    about: String,
    prompt: String,
    model: String,
    tools: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenEvaluator {
    prompt: String,
    model: String,
    #[serde(default = "once")]
    retries: u32,
}

fn once() -> u32 {
    1
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLimits {
    steps: Option<u32>,
    repeats: Option<u32>,
    tokens: Option<u32>,
}

/// An agent's files, read and checked.
#[derive(Debug)]
pub struct AgentFile {
    file: File,
    tools: Vec<Arc<Tool>>,
    script: Option<Script>,
}

impl AgentFile {
    /// Reads an agent, or says what is wrong with it.
    pub fn parse(agent: &str, tools: &str, script: Option<&str>) -> Result<AgentFile, BadAgent> {
        let file: File = toml::from_str(agent).map_err(|error| BadAgent::Unreadable(error.to_string()))?;
        let tools = Tool::read_all(tools)?;
        let script = script.map(Script::parse).transpose()?;
        id::Agent::new(file.name.as_str()).map_err(|problem| BadAgent::Name(problem.to_string()))?;
        if file.specialist.is_empty() {
            let problem = "there is no `[[specialist]]`".to_owned();
            return Err(BadAgent::Role(file.name, problem));
        }
        let agent = AgentFile { file, tools, script };
        agent.check()?;
        Ok(agent)
    }

    /// The agent's name.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// The tools it knows.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// True when it can do without a real model.
    pub fn has_script(&self) -> bool {
        self.script.is_some()
    }

    /// What the agent is made of, with this provider's models.
    pub fn plan(&self, provider: &Provider) -> Result<Plan, BadAgent> {
        let file = &self.file;
        let name = |problem: id::BadName| BadAgent::Name(problem.to_string());
        let orchestrator = file.orchestrator.as_ref();
        let orchestrator = orchestrator.map(|role| self.role(&role.prompt, &role.model, provider));
        let specialists = file.specialist.iter().map(|specialist| {
            let known = |name: &String| self.tools.iter().find(|tool| tool.name.as_str() == name);
            Ok(Specialist {
                name: specialist.name.clone(),
                about: specialist.about.clone(),
                role: self.role(&specialist.prompt, &specialist.model, provider)?,
                tools: specialist.tools.iter().filter_map(known).cloned().collect(),
            })
        });
        let evaluator = file.evaluator.as_ref().map(|evaluator| {
            Ok::<_, BadAgent>(Evaluator {
                role: self.role(&evaluator.prompt, &evaluator.model, provider)?,
                retries: evaluator.retries,
            })
        });
        let usual = Limits::default();
        Ok(Plan {
            name: id::Agent::new(file.name.as_str()).map_err(name)?,
            requester: Person::new(format!("agent:{}", file.name)).map_err(name)?,
            language: file.language.clone(),
            orchestrator: orchestrator.transpose()?,
            specialists: specialists.collect::<Result<_, BadAgent>>()?,
            evaluator: evaluator.transpose()?,
            after_decision: match file.after_decision {
                After::GoOn => AfterDecision::GoOn,
                After::Stop => AfterDecision::Stop,
            },
            outside: file.outside.clone(),
            limits: Limits {
                steps: file.limits.steps.unwrap_or(usual.steps),
                repeats: file.limits.repeats.unwrap_or(usual.repeats),
                tokens: file.limits.tokens.unwrap_or(usual.tokens),
                ..usual
            },
        })
    }

    fn check(&self) -> Result<(), BadAgent> {
        let bad = |who: &str, problem: String| Err(BadAgent::Role(who.to_owned(), problem));
        let mut names = HashSet::new();
        for specialist in &self.file.specialist {
            if matches!(specialist.name.as_str(), "" | "orchestrator" | "evaluator") {
                return bad(&specialist.name, "no specialist can be called that".to_owned());
            }
            if !names.insert(specialist.name.as_str()) {
                return bad(&specialist.name, "there are two of that name".to_owned());
            }
            let is_known = |name: &&String| self.tools.iter().any(|tool| tool.name.as_str() == *name);
            if let Some(unknown) = specialist.tools.iter().find(|name| !is_known(name)) {
                return bad(&specialist.name, format!("there is no tool `{unknown}`"));
            }
        }
        if self.file.specialist.len() > 1 && self.file.orchestrator.is_none() {
            let problem = "several specialists need an `[orchestrator]` who picks one".to_owned();
            return bad(&self.file.name, problem);
        }
        let specialists = self.file.specialist.iter().map(|role| (&role.name, &role.model));
        let evaluator = self
            .file
            .evaluator
            .iter()
            .map(|role| (&self.file.name, &role.model));
        let orchestrator = self
            .file
            .orchestrator
            .iter()
            .map(|role| (&self.file.name, &role.model));
        for (who, model) in specialists.chain(evaluator).chain(orchestrator) {
            if !self.file.models.contains_key(model) {
                return bad(who, format!("there is no `[models.{model}]`"));
            }
        }
        Ok(())
    }

    fn role(&self, prompt: &str, model: &str, provider: &Provider) -> Result<Role, BadAgent> {
        Ok(Role {
            prompt: prompt.trim().to_owned(),
            model: self.model(model, provider)?,
        })
    }

    fn model(&self, named: &str, provider: &Provider) -> Result<Arc<dyn Model>, BadAgent> {
        let bad = |problem: String| BadAgent::Model(named.to_owned(), problem);
        let names = self.file.models.get(named);
        let missing = |provider: &str| bad(format!("the file does not say what it is called at {provider}"));
        let endpoint = |service: &Service| {
            Endpoint::new(&service.url, service.key.clone(), Patience::default()).map_err(bad)
        };
        match provider {
            Provider::Script => {
                let script = self.script.clone();
                let script = script.ok_or_else(|| bad("the agent has no script".to_owned()))?;
                Ok(Arc::new(script))
            }
            Provider::Anthropic(service) => {
                let name = service.model.as_ref();
                let name = name.or(names.and_then(|names| names.anthropic.as_ref()));
                let name = name.ok_or_else(|| missing("Anthropic"))?;
                Ok(Arc::new(Anthropic::new(endpoint(service)?, name)))
            }
            Provider::OpenAi(service) => {
                let name = service.model.as_ref();
                let name = name.or(names.and_then(|names| names.openai.as_ref()));
                let name = name.ok_or_else(|| missing("OpenAI"))?;
                Ok(Arc::new(OpenAi::new(endpoint(service)?, name)))
            }
        }
    }
}
