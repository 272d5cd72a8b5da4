//! Agent files: specialists with their prompts, tools and models.
//!
//! Input: the texts of `agent.toml`, `tools.json` and optionally `script.toml`. Output: an [`AgentConfig`] for one
//! [`Provider`]. The caller reads the files and finds the API keys.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use countersign::id::{self, Person};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::agent::{AfterDecision, AgentConfig, Evaluator, Limits, Role, Specialist};
use crate::gated::{GatedTools, REQUEST_APPROVAL};
use crate::model::{Anthropic, ApiKey, BadScript, Endpoint, Model, OpenAi, Proxy, RetryPolicy, Script};
use crate::tool::{BadTools, Tool};

/// Base URL of Anthropic's API.
pub const ANTHROPIC: &str = "https://api.anthropic.com";
/// Base URL of OpenAI's API.
pub const OPENAI: &str = "https://api.openai.com/v1";

/// Provider of the models.
#[derive(Clone, Debug)]
pub enum Provider {
    /// The agent's own script, without a model.
    Script,
    /// Anthropic's Messages API.
    Anthropic(ProviderSettings),
    /// OpenAI's chat completions API.
    OpenAi(ProviderSettings),
}

/// Address and credentials of a provider.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// Base URL of the API.
    pub url: String,
    /// API key, if the provider needs one.
    pub key: Option<ApiKey>,
    /// Model to use for all roles; `None` for those that the file names.
    pub model: Option<String>,
    /// Proxy through which the provider is reached, if any.
    pub proxy: Option<Proxy>,
}

/// Error in an agent's files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAgent {
    /// `agent.toml` is not valid TOML or has unknown or missing fields; with the parser's message.
    #[error("the agent cannot be read: {0}")]
    Unreadable(String),
    /// `tools.json` is invalid.
    #[error(transparent)]
    Tools(#[from] BadTools),
    /// `script.toml` is invalid.
    #[error(transparent)]
    Script(#[from] BadScript),
    /// The agent's name is not allowed; with the reason.
    #[error("{0}")]
    Name(String),
    /// A specialist, the orchestrator or the evaluator is invalid; with its name and the problem.
    #[error("`{0}`: {1}")]
    Role(String, String),
    /// A model has no name at the provider, or the provider's address is invalid; with the model and the problem.
    #[error("model `{0}`: {1}")]
    Model(String, String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentToml {
    name: String,
    language: Option<String>,
    #[serde(default)]
    after_decision: AfterDecisionSetting,
    #[serde(default)]
    on_other: OnOtherSetting,
    #[serde(default)]
    outside: HashSet<String>,
    #[serde(default)]
    models: BTreeMap<String, ProviderModelNames>,
    orchestrator: Option<RoleSection>,
    #[serde(default)]
    specialist: Vec<SpecialistSection>,
    evaluator: Option<EvaluatorSection>,
    #[serde(default)]
    limits: LimitsSection,
    #[serde(default)]
    credentials: BTreeMap<String, CredentialSection>,
}

/// Credential of a tool in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum CredentialSection {
    Source(CredentialSource),
    /// Anything else, such as the credential itself, which is refused without being repeated.
    Other(IgnoredAny),
}

/// Place of the credential that calls of a tool run with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CredentialSource {
    /// Environment variable with the credential.
    Env(String),
    /// File with the credential.
    File(PathBuf),
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AfterDecisionSetting {
    #[default]
    GoOn,
    Stop,
}

/// Setting for what happens to a pending card when a message is about something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnOtherSetting {
    /// The policy's `on_other` decides.
    #[default]
    Policy,
    /// The card stays pending.
    Keep,
}

/// Names of one model at the different providers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderModelNames {
    anthropic: Option<String>,
    openai: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleSection {
    prompt: String,
    model: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecialistSection {
    name: String,
    about: String,
    prompt: String,
    model: String,
    tools: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvaluatorSection {
    prompt: String,
    model: String,
    #[serde(default = "default_retries")]
    retries: u32,
}

fn default_retries() -> u32 {
    1
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsSection {
    steps: Option<u32>,
    repeats: Option<u32>,
    tokens: Option<u32>,
    conversation: Option<usize>,
    result: Option<usize>,
}

/// Least value of `[limits] conversation`, in bytes.
const LEAST_CONVERSATION: usize = 2 * 1024;
/// Default maximum bytes of conversation for providers whose models all have a large context.
const LARGE_CONVERSATION: usize = 384 * 1024;

/// Returns the default maximum bytes of conversation for the provider's models. Models of other services may have a
/// small context, and some services silently cut off the beginning of a longer request.
fn usual_conversation(provider: &Provider) -> usize {
    match provider {
        Provider::Script => LARGE_CONVERSATION,
        Provider::Anthropic(settings) if settings.url == ANTHROPIC => LARGE_CONVERSATION,
        Provider::OpenAi(settings) if settings.url == OPENAI => LARGE_CONVERSATION,
        Provider::Anthropic(_) | Provider::OpenAi(_) => Limits::default().conversation,
    }
}

/// An agent's files, parsed and validated.
#[derive(Debug)]
pub struct AgentFile {
    file: AgentToml,
    tools: Vec<Arc<Tool>>,
    script: Option<Script>,
}

impl AgentFile {
    /// Parses and validates an agent's files.
    pub fn parse(agent: &str, tools: &str, script: Option<&str>) -> Result<AgentFile, BadAgent> {
        let file: AgentToml =
            toml::from_str(agent).map_err(|error| BadAgent::Unreadable(error.to_string()))?;
        let mut tools = Tool::read_all(tools)?;
        // `requestApproval` is built in: a specialist only has to list it.
        let lists_it = |name: &String| name == REQUEST_APPROVAL;
        let mut specialists = file.specialist.iter();
        let is_listed = specialists.any(|specialist| specialist.tools.iter().any(lists_it));
        if is_listed && !tools.iter().any(|tool| tool.name.as_str() == REQUEST_APPROVAL) {
            let bad = |problem| BadTools::Tool(REQUEST_APPROVAL.to_owned(), problem);
            tools.push(Arc::new(GatedTools::request_approval_tool().map_err(bad)?));
        }
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

    /// Returns the agent's name.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Returns all tools that the agent's specialists can refer to.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// Returns the tools whose calls run with a credential, and where it is found. Reading it is up to the program.
    pub fn credentials(&self) -> impl Iterator<Item = (&str, &CredentialSource)> {
        let sections = self.file.credentials.iter();
        sections.filter_map(|(tool, section)| match section {
            CredentialSection::Source(source) => Some((tool.as_str(), source)),
            CredentialSection::Other(_) => None,
        })
    }

    /// Returns true if the agent has a script and can run without a model.
    pub fn has_script(&self) -> bool {
        self.script.is_some()
    }

    /// Builds the agent's configuration with models of this provider. Fails if a model has no name at the provider,
    /// or if the provider is [`Provider::Script`] and the agent has no script.
    pub fn config(&self, provider: &Provider) -> Result<AgentConfig, BadAgent> {
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
        let defaults = Limits::default();
        Ok(AgentConfig {
            name: id::Agent::new(file.name.as_str()).map_err(name)?,
            requester: Person::new(format!("agent:{}", file.name)).map_err(name)?,
            language: file.language.clone(),
            orchestrator: orchestrator.transpose()?,
            specialists: specialists.collect::<Result<_, BadAgent>>()?,
            evaluator: evaluator.transpose()?,
            after_decision: match file.after_decision {
                AfterDecisionSetting::GoOn => AfterDecision::Continue,
                AfterDecisionSetting::Stop => AfterDecision::Stop,
            },
            keeps_cards: file.on_other == OnOtherSetting::Keep,
            credentials: None,
            outside_tools: file.outside.clone(),
            limits: Limits {
                steps: file.limits.steps.unwrap_or(defaults.steps),
                repeats: file.limits.repeats.unwrap_or(defaults.repeats),
                tokens: file.limits.tokens.unwrap_or(defaults.tokens),
                conversation: file
                    .limits
                    .conversation
                    .unwrap_or_else(|| usual_conversation(provider)),
                result: file.limits.result.unwrap_or(defaults.result),
            },
        })
    }

    fn check(&self) -> Result<(), BadAgent> {
        let invalid = |role_name: &str, problem: String| Err(BadAgent::Role(role_name.to_owned(), problem));
        let mut names = HashSet::new();
        for specialist in &self.file.specialist {
            if matches!(specialist.name.as_str(), "" | "orchestrator" | "evaluator") {
                return invalid(&specialist.name, "no specialist can be called that".to_owned());
            }
            if !names.insert(specialist.name.as_str()) {
                return invalid(&specialist.name, "there are two of that name".to_owned());
            }
            let is_known = |name: &&String| self.tools.iter().any(|tool| tool.name.as_str() == *name);
            if let Some(unknown) = specialist.tools.iter().find(|name| !is_known(name)) {
                return invalid(&specialist.name, format!("there is no tool `{unknown}`"));
            }
        }
        for (tool, section) in &self.file.credentials {
            let is_known = self.tools.iter().any(|known| known.name.as_str() == tool);
            let problem = match section {
                _ if !is_known => format!("there is no tool `{tool}`"),
                CredentialSection::Source(_) => continue,
                CredentialSection::Other(_) => format!(
                    "the credential of `{tool}` is named by `{{ env = \"VARIABLE\" }}` or `{{ file = \"/full/path\" }}`, and never written here"
                ),
            };
            return invalid("credentials", problem);
        }
        if self.file.specialist.len() > 1 && self.file.orchestrator.is_none() {
            let problem = "several specialists need an `[orchestrator]` that picks one".to_owned();
            return invalid(&self.file.name, problem);
        }
        if self
            .file
            .limits
            .conversation
            .is_some_and(|most| most < LEAST_CONVERSATION)
        {
            let problem = format!("`conversation` is at least {LEAST_CONVERSATION} bytes");
            return invalid(&self.file.name, problem);
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
        for (role_name, model) in specialists.chain(evaluator).chain(orchestrator) {
            if !self.file.models.contains_key(model) {
                return invalid(role_name, format!("there is no `[models.{model}]`"));
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

    fn model(&self, model: &str, provider: &Provider) -> Result<Arc<dyn Model>, BadAgent> {
        let invalid = |problem: String| BadAgent::Model(model.to_owned(), problem);
        let names = self.file.models.get(model);
        let missing =
            |provider: &str| invalid(format!("the file does not say what it is called at {provider}"));
        let endpoint = |settings: &ProviderSettings| {
            let endpoint = Endpoint::new(&settings.url, settings.key.clone(), RetryPolicy::default());
            endpoint
                .map(|endpoint| endpoint.with_proxy(settings.proxy.clone()))
                .map_err(invalid)
        };
        match provider {
            Provider::Script => {
                let script = self.script.clone();
                let script = script.ok_or_else(|| invalid("the agent has no script".to_owned()))?;
                Ok(Arc::new(script))
            }
            Provider::Anthropic(settings) => {
                let name = settings.model.as_ref();
                let name = name.or(names.and_then(|names| names.anthropic.as_ref()));
                let name = name.ok_or_else(|| missing("Anthropic"))?;
                Ok(Arc::new(Anthropic::new(endpoint(settings)?, name)))
            }
            Provider::OpenAi(settings) => {
                let name = settings.model.as_ref();
                let name = name.or(names.and_then(|names| names.openai.as_ref()));
                let name = name.ok_or_else(|| missing("OpenAI"))?;
                Ok(Arc::new(OpenAi::new(endpoint(settings)?, name)))
            }
        }
    }
}
