//! Reads an agent's files and opens the data of built-in example agents, for the service and for `chat`.

use std::path::{Path, PathBuf};

use countersign_agent::file::AgentFile;

use crate::failure::Failure;
use crate::trust::{self, StorePlace};
use crate::worlds::{Setup, World};

/// Names of the files next to `agent.toml`.
const TOOLS: &str = "tools.json";
const SCRIPT: &str = "script.toml";

/// Parses the files of a built-in example agent.
pub fn built_in(setup: &Setup) -> Result<AgentFile, String> {
    AgentFile::parse(setup.agent, setup.definitions, Some(setup.script))
        .map_err(|problem| problem.to_string())
}

/// Reads an `agent.toml` with the `tools.json` and the optional `script.toml` next to it.
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

/// Reads a file as text. Fails if the file is neither trusted by the person nor named by its full path.
pub fn text(path: &Path) -> Result<String, String> {
    let unreadable = |error| Failure::error("no_agent", format!("cannot read `{}`: {error}", path.display()));
    trust::read(path, unreadable).map_err(in_one_line)
}

/// Opens the SQLite data of a built-in example agent. Without `data`, the file is `countersign-NAME.db` in the current
/// folder. A new file is filled with sample data.
pub fn open_world(setup: &'static Setup, name: &str, data: Option<&Path>) -> Result<World, String> {
    let usual = || PathBuf::from(format!("countersign-{name}.db"));
    let data = data.map_or_else(usual, Path::to_path_buf);
    let place = StorePlace::find(&data).map_err(in_one_line)?;
    let world = World::open(setup, &place.path).map_err(|error| format!("`{}`: {error}", data.display()))?;
    place.remember();
    Ok(world)
}

/// Formats a failure and its hint as one line of text.
fn in_one_line(failure: Failure) -> String {
    match failure.hint {
        Some(hint) => format!("{}; {hint}", failure.message),
        None => failure.message,
    }
}
