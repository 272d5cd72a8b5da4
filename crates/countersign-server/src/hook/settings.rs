//! Settings files of coding agents: their paths, and the entries of this program's hook in them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{Dialect, GRACE};
use crate::failure::Failure;
use crate::output::shell_word;
use crate::regular;

/// Maximum size of a settings file in bytes.
pub const LARGEST: usize = 8 * 1024 * 1024;
/// Time by which the timeout in the coding agent's settings exceeds the time that the hook itself may take.
const MARGIN: Duration = Duration::from_secs(40);
/// Matcher for every tool, because a tool without a hook runs unchecked. The policy decides which calls pass.
const ALL_TOOLS: &str = "*";

/// One entry under an event in the settings.
#[derive(Serialize)]
pub struct Group {
    matcher: &'static str,
    hooks: [Handler; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Handler {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    #[serde(rename = "type")]
    kind: &'static str,
    command: String,
    timeout: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_failure: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<&'static str>,
}

impl Dialect {
    /// Path of the settings that apply to all projects of the person; `None` if there is no home folder.
    pub fn user_file(self) -> Option<PathBuf> {
        let named = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let home = |folder: &str| named("HOME").map(|home| home.join(folder));
        Some(match self {
            Dialect::ClaudeCode => named("CLAUDE_CONFIG_DIR")
                .or_else(|| home(".claude"))?
                .join("settings.json"),
            Dialect::Codex => named("CODEX_HOME").or_else(|| home(".codex"))?.join("hooks.json"),
            Dialect::Gemini => named("GEMINI_CLI_HOME")
                .map(|home| home.join(".gemini"))
                .or_else(|| home(".gemini"))?
                .join("settings.json"),
        })
    }

    /// Paths of the project settings, relative to the current folder.
    pub fn project_files(self) -> Vec<PathBuf> {
        let files: &[&str] = match self {
            Dialect::ClaudeCode => &[".claude/settings.json", ".claude/settings.local.json"],
            Dialect::Codex => &[".codex/hooks.json"],
            Dialect::Gemini => &[".gemini/settings.json"],
        };
        files.iter().map(PathBuf::from).collect()
    }

    /// Paths of the settings in the folders above the current one, up to the project's root: the folder with `.git`.
    /// They matter to a person who checks hooks in a folder below the one in which the coding agent is started.
    pub fn project_files_above(self) -> Vec<PathBuf> {
        let names = self.project_files();
        let own = self.user_file().and_then(|file| file.canonicalize().ok());
        let above = folders_above().into_iter();
        let files = above.flat_map(|folder| {
            names
                .iter()
                .map(move |name| folder.join(name))
                .collect::<Vec<_>>()
        });
        files
            .filter(|file| own.is_none() || file.canonicalize().ok() != own)
            .collect()
    }

    /// Returns the entry for each event. `command` is a shell command line, and `hold` is how long the command holds
    /// a call.
    pub fn groups(self, command: &str, hold: Duration) -> Vec<(&'static str, Group)> {
        let limit = hold + GRACE + MARGIN;
        let before = Handler {
            name: (self == Dialect::Gemini).then_some("countersign"),
            kind: "command",
            command: blocking(command),
            timeout: self.timeout(limit),
            on_failure: self.blocks_on_failure().then_some("block"),
            status_message: (self != Dialect::Gemini).then_some("Waiting for a countersignature"),
        };
        let after = || Handler {
            name: (self == Dialect::Gemini).then_some("countersign-after"),
            kind: "command",
            command: command.to_owned(),
            timeout: self.timeout(MARGIN + MARGIN),
            on_failure: None,
            status_message: None,
        };
        let group = |handler| Group {
            matcher: ALL_TOOLS,
            hooks: [handler],
        };
        let mut groups = vec![(self.before(), group(before))];
        groups.extend(self.after().iter().map(|event| (*event, group(after()))));
        groups
    }

    /// Returns true if a handler looks like this program's hook, in any spelling. `install` replaces such a handler,
    /// and `status` reports what is wrong with it.
    pub fn is_ours(self, handler: &Value) -> bool {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let command = text(handler.get("command"));
        let arguments = handler.get("args").and_then(Value::as_array);
        let arguments: Vec<String> = arguments
            .into_iter()
            .flatten()
            .map(|one| text(Some(one)))
            .collect();
        let line = format!("{command} {} ", arguments.join(" "));
        line.contains("countersign") && line.contains(" hook ")
    }
}

/// Returns the folders above the current one, up to the project's root; none outside of a project.
pub fn folders_above() -> Vec<PathBuf> {
    let Ok(here) = std::fs::canonicalize(".") else {
        return Vec::new();
    };
    let is_root = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    let Some(root) = here.ancestors().find(is_root) else {
        return Vec::new();
    };
    let above = here.ancestors().skip(1);
    above
        .take_while(|folder| folder.starts_with(root))
        .map(Path::to_owned)
        .collect()
}

/// Wraps a command so that it also blocks the call if the program is missing, crashes or is killed.
pub fn blocking(command: &str) -> String {
    format!("{command} || {{ echo 'countersign blocked this call' >&2; exit 2; }}")
}

/// Joins words into one shell command line, quoting each word where needed.
pub fn command(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

/// Reads a settings file; `None` if it does not exist.
pub fn read(file: &Path) -> Result<Option<String>, Failure> {
    let unreadable = |problem: &str| {
        Failure::error(
            "bad_settings",
            format!("cannot read `{}`: {problem}", file.display()),
        )
        .hint("name another file with `--settings`")
    };
    match regular::read_text(file, LARGEST as u64) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(|error| unreadable(&error.to_string())),
    }
}
