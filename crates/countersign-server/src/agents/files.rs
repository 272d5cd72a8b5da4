//! An agent's files, and the world it acts in: read in one place, for a service as for a terminal.

use std::path::{Path, PathBuf};

use countersign_agent::file::AgentFile;
use countersign_examples::{Setup, World};

use crate::failure::Failure;
use crate::trust::{self, StorePlace};

/// What stands beside an agent's file.
const TOOLS: &str = "tools.json";
const SCRIPT: &str = "script.toml";

/// The agent of a world that is built in.
pub fn built_in(setup: &Setup) -> Result<AgentFile, String> {
    AgentFile::parse(setup.agent, setup.definitions, Some(setup.script))
        .map_err(|problem| problem.to_string())
}

/// The agent of an `agent.toml`, with its `tools.json` and perhaps a `script.toml` beside it.
pub fn read(path: &Path) -> Result<AgentFile, String> {
    let (agent, tools) = (text(path)?, text(&path.with_file_name(TOOLS))?);
    let script = path.with_file_name(SCRIPT);
    let script = match script.try_exists() {
        Ok(false) => None,
        _ => Some(text(&script)?),
    };
    AgentFile::parse(&agent, &tools, script.as_deref())
        .map_err(|problem| format!("`{}`: {problem}", path.display()))
}

/// A file as text, if the person stands for it.
pub fn text(path: &Path) -> Result<String, String> {
    let unreadable = |error| Failure::error("no_agent", format!("cannot read `{}`: {error}", path.display()));
    trust::read(path, unreadable).map_err(in_one_line)
}

/// A built-in world; its data is in `countersign-NAME.db` when nobody says where. One that has none yet is given some.
pub fn open_world(setup: &'static Setup, name: &str, data: Option<&Path>) -> Result<World, String> {
    let usual = || PathBuf::from(format!("countersign-{name}.db"));
    let data = data.map_or_else(usual, Path::to_path_buf);
    let place = StorePlace::find(&data).map_err(in_one_line)?;
    let world = World::open(setup, &place.path).map_err(|error| format!("`{}`: {error}", data.display()))?;
    place.remember();
    Ok(world)
}

/// A refusal with what to do about it.
fn in_one_line(failure: Failure) -> String {
    match failure.hint {
        Some(hint) => format!("{}; {hint}", failure.message),
        None => failure.message,
    }
}
