//! Loads the configured agents: built-in example agents with their data ("worlds"), or an agent's own files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use countersign::id::{Agent, Person};
use countersign_agent::file::{AgentFile, Provider};
use serde::Deserialize;

use super::credentials::credentials;
use super::files::{built_in, open_world, read};
use super::provider::{Choice, provider};
use crate::failure::Failure;
use crate::service::agents::Loaded;
use crate::worlds::{self, Setup, WORLDS, World};

/// Configuration of `[agents.NAME]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSource {
    /// Path of an `agent.toml`, with `tools.json` and optionally `script.toml` next to it. Exactly one of `file` and
    /// `world` has to be set.
    file: Option<PathBuf>,
    /// Name of a built-in example agent with its data: `crm`, `cms` or `ranch`.
    world: Option<String>,
    /// Path of the example agent's data. By default, `countersign-NAME.db` in the current folder.
    data: Option<PathBuf>,
    /// Provider of the models.
    #[serde(default)]
    model: Choice,
    /// Model to use for all roles, instead of those that the agent's file names.
    model_name: Option<String>,
}

/// All agents, and the data that their tools work on.
pub struct Ready {
    /// Agents to serve.
    pub agents: Vec<Loaded>,
    /// Data of the built-in example agents, whose tools the service has to run.
    pub worlds: Vec<World>,
}

impl AgentSource {
    /// Returns the sources of the built-in example agents, which are served if nothing is configured.
    pub fn tryout() -> BTreeMap<String, AgentSource> {
        let source = |setup: &&Setup| {
            let world = Some(setup.name.to_owned());
            (
                setup.name.to_owned(),
                AgentSource {
                    world,
                    ..AgentSource::default()
                },
            )
        };
        WORLDS.iter().map(source).collect()
    }

    /// Returns the built-in example that the agent belongs to; `None` for an agent with its own files.
    pub fn setup(&self) -> Option<&'static Setup> {
        worlds::named(self.world.as_deref()?)
    }
}

/// Loads all agents. Fails at the first error. New data files of example agents are filled with sample data.
pub fn load(sources: &BTreeMap<String, AgentSource>) -> Result<Ready, Failure> {
    let mut ready = Ready {
        agents: Vec::new(),
        worlds: Vec::new(),
    };
    for (name, source) in sources {
        let bad = |problem: String| {
            Failure::error("bad_config", format!("agent `{name}`: {problem}"))
                .hint("see docs/agents-over-http.md for how agents are served")
        };
        check_name(name).map_err(bad)?;
        let (file, openings) = match (&source.file, &source.world) {
            (Some(path), None) if source.data.is_none() => (read(path).map_err(bad)?, Vec::new()),
            (Some(_), None) => return Err(bad("`data` belongs to a `world`".to_owned())),
            (None, Some(world)) => {
                let setup = source.setup().ok_or_else(|| {
                    bad(format!(
                        "there is no world `{world}`; the worlds are crm, cms and ranch"
                    ))
                })?;
                let world = open_world(setup, name, source.data.as_deref());
                ready.worlds.push(world.map_err(bad)?);
                (built_in(setup).map_err(bad)?, openings(setup))
            }
            _ => return Err(bad("it needs either `file` or `world`".to_owned())),
        };
        ready
            .agents
            .push(loaded(name, source, &file, openings).map_err(bad)?);
    }
    Ok(ready)
}

fn loaded(
    name: &str,
    source: &AgentSource,
    file: &AgentFile,
    openings: Vec<String>,
) -> Result<Loaded, String> {
    let provider = provider(source.model, source.model_name.clone(), |name| {
        std::env::var(name).ok()
    })?;
    let is_scripted = matches!(provider, Provider::Script);
    let mut plan = file
        .config(&provider)
        .map_err(|problem| match is_scripted && !file.has_script() {
            true => "there is neither a key for a model nor a `script.toml`".to_owned(),
            false => problem.to_string(),
        })?;
    // Two agents may use the same file, so the configured name replaces the file's.
    plan.name = Agent::new(name).map_err(|problem| problem.to_string())?;
    plan.requester = Person::new(format!("agent:{name}")).map_err(|problem| problem.to_string())?;
    plan.credentials = credentials(file, |name| std::env::var(name).ok())?;
    Ok(Loaded {
        plan,
        is_scripted,
        openings,
    })
}

/// Checks a name, which becomes part of URLs and channel names.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    match !name.is_empty() && name.len() <= 64 && name.bytes().all(is_plain) {
        true => Ok(()),
        false => Err("a name has only a-z, digits, `-` and `_`, at most 64".to_owned()),
    }
}

fn openings(setup: &Setup) -> Vec<String> {
    let said: &[&str] = match setup.name {
        "crm" => &[
            "Create a contact for Maria Garcia at Acme Corp, maria@acme.com",
            "Create contacts for Ana, Ben, Cleo, Dan and Eva",
            "Create a contact for Maria",
            "show me my pipeline",
        ],
        "cms" => &[
            "show me the pages",
            "Delete the about page",
            "Publish the winter hours post",
            "Clean up the site",
        ],
        "ranch" => &[
            "¿Qué potreros hay?",
            "Borrá todos los potreros que empiezan con Padrón",
            "¿Cuántos animales hay en La Laguna?",
        ],
        _ => &[],
    };
    said.iter().map(|said| (*said).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const AGENT: &str = "name = \"any\"\n[models.m]\n[[specialist]]\nname = \"s\"\nabout = \"a\"\nprompt = \"p\"\nmodel = \"m\"\ntools = [\"note\"]\n";
    const TOOLS: &str = r#"[{"name":"note","description":"n","input_schema":{"type":"object"}}]"#;

    fn sources(text: &str) -> BTreeMap<String, AgentSource> {
        toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Loads the configuration in `text`, in which `DIR` stands for `folder`. Returns the error message, or an empty
    /// string if there was none.
    fn problem(folder: &Path, text: &str) -> String {
        let text = text.replace("DIR", &folder.display().to_string());
        match load(&sources(&text)) {
            Ok(_) => String::new(),
            Err(failure) => failure.message.replace(&folder.display().to_string(), "DIR"),
        }
    }

    #[test]
    fn what_is_wrong_with_an_agent_is_said_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["whole", "dumb"] {
            let place = folder.path().join(name);
            std::fs::create_dir(&place).unwrap();
            std::fs::write(place.join("agent.toml"), AGENT).unwrap();
            std::fs::write(place.join("tools.json"), TOOLS).unwrap();
        }
        std::fs::write(folder.path().join("whole/script.toml"), "").unwrap();
        std::fs::write(
            folder.path().join("text"),
            "not a database, for sure: too long to be an empty one",
        )
        .unwrap();
        let check = |text: &str, expected: &str| {
            let found = problem(folder.path(), text);
            assert!(
                found.starts_with(expected) && found.is_empty() == expected.is_empty(),
                "{text}: {found}"
            );
        };
        check("[own]\nfile = 'DIR/whole/agent.toml'\nmodel = 'script'", "");
        check("[crm]\nworld = 'crm'\ndata = 'DIR/crm.db'\nmodel = 'script'", "");
        // A data file can be opened again, but not as the data of another world.
        check("[crm]\nworld = 'crm'\ndata = 'DIR/crm.db'\nmodel = 'script'", "");
        check(
            "[cms]\nworld = 'cms'\ndata = 'DIR/crm.db'",
            "agent `cms`: `DIR/crm.db`: this file is not a `cms` world",
        );
        check(
            "[cms]\nworld = 'cms'\ndata = 'DIR/text'",
            "agent `cms`: `DIR/text`: ",
        );
        check(
            "[own]\nfile = 'DIR/dumb/agent.toml'\nmodel = 'script'",
            "agent `own`: there is neither a key for a model nor a `script.toml`",
        );
        check(
            "[own]\nfile = 'DIR/none/agent.toml'",
            "agent `own`: cannot read `DIR/none/agent.toml`",
        );
        check(
            "[own]\nfile = 'DIR/whole/agent.toml'\ndata = 'x'",
            "agent `own`: `data` belongs to a `world`",
        );
        check("[own]\nworld = 'moon'", "agent `own`: there is no world `moon`");
        check("[own]\n", "agent `own`: it needs either `file` or `world`");
        check(
            "[own]\nfile = 'a'\nworld = 'crm'",
            "agent `own`: it needs either `file` or `world`",
        );
        check(
            "['Own Agent']\nworld = 'crm'",
            "agent `Own Agent`: a name has only",
        );
    }

    #[test]
    fn an_agent_is_called_what_the_configuration_calls_it() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.db");
        let text = format!(
            "[sales]\nworld = 'crm'\ndata = '{}'\nmodel = 'script'",
            data.display()
        );
        let ready = load(&sources(&text)).unwrap_or_else(|failure| panic!("{}", failure.message));
        let plan = &ready.agents[0].plan;
        assert_eq!(
            (plan.name.as_str(), plan.requester.as_str()),
            ("sales", "agent:sales")
        );
        assert!(ready.agents[0].is_scripted);
    }
}
