//! Finds settings of a coding agent that turn hooks off, so that an installed hook never runs.
//!
//! Every settings layer that this person's coding agent reads is examined as data, for a key that turns hooks off. A
//! setting counts even if a stronger layer may override it, or if its value is neither a plain yes nor a plain no: a
//! false alarm costs one look, but a missed switch goes unnoticed. Based on Claude Code's documentation and the source
//! of Gemini CLI and Codex as of August 2026.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Dialect, settings};

/// Environment variables that make Claude Code start without hooks. A settings file can set them.
const WITHOUT_HOOKS: [&str; 2] = ["CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE"];
/// Name of Codex's feature switch for hooks, and its former name.
const CODEX_SWITCHES: [&str; 2] = ["hooks", "codex_hooks"];

/// Environment variables with which a project's settings would change what an installed hook runs, or which files it
/// uses. A name that ends in `*` stands for all names with that prefix.
const CHANGES_HOOKS: [&str; 19] = [
    "PATH",
    "HOME",
    "XDG_*",
    "LD_*",
    "DYLD_*",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "LOCPATH",
    "SHELL",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "BASH_ENV",
    "BASH_FUNC_*",
    "ENV",
    "IFS",
    "COUNTERSIGN_*",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_SHELL*",
];

/// A setting that turns hooks off, or that changes the environment in which they run.
#[derive(Debug, PartialEq, Eq)]
pub struct Switch {
    pub file: PathBuf,
    /// Path of the key within the file.
    pub key: String,
    /// Hooks that are affected.
    pub reach: Reach,
}

/// Hooks that a setting turns off or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Every hook except those of the machine's administrator.
    All,
    /// The hook with this name, or with this command if it has no name.
    Named(String),
    /// Every hook, if the coding agent is started with this profile.
    Profile(String),
    /// Hooks run, but with an environment that the project chooses.
    Environment,
}

/// Switches found in one settings layer, or the reason it cannot be read.
pub type Layer = Result<Vec<Switch>, String>;

/// Examines all settings layers, and the files in `more`, which the person named. Files that do not exist are left out.
pub fn read_layers(dialect: Dialect, more: &[PathBuf]) -> Vec<(PathBuf, Layer)> {
    let mut files = files(dialect);
    // Codex has a separate file for hooks, which contains no switches.
    for file in more.iter().filter(|_| dialect != Dialect::Codex) {
        if !files.contains(file) {
            files.push(file.clone());
        }
    }
    let layers = files.into_iter().filter_map(|file| {
        let text = match settings::read(&file) {
            Ok(text) => text?,
            Err(failure) => return Some((file, Err(failure.message))),
        };
        let layer = read(dialect, &file, &text);
        Some((file, layer))
    });
    layers.collect()
}

/// Paths of all files that can turn off a coding agent's hooks.
fn files(dialect: Dialect) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = dialect.user_file().into_iter().collect();
    match dialect {
        Dialect::ClaudeCode => {
            files.extend(dialect.project_files());
            files.extend(dialect.project_files_above());
            for folder in ["/etc/claude-code", "/Library/Application Support/ClaudeCode"] {
                let folder = Path::new(folder);
                files.push(folder.join("managed-settings.json"));
                let more = folder.join("managed-settings.d").read_dir();
                files.extend(more.into_iter().flatten().flatten().map(|entry| entry.path()));
            }
        }
        Dialect::Gemini => {
            files.extend(dialect.project_files());
            files.extend(dialect.project_files_above());
            let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
            for folder in ["/etc/gemini-cli", "/Library/Application Support/GeminiCli"] {
                files.push(Path::new(folder).join("settings.json"));
                files.push(Path::new(folder).join("system-defaults.json"));
            }
            files.extend(named("GEMINI_CLI_SYSTEM_SETTINGS_PATH"));
            files.extend(named("GEMINI_CLI_SYSTEM_DEFAULTS_PATH"));
        }
        Dialect::Codex => {
            files = files
                .iter()
                .map(|file| file.with_file_name("config.toml"))
                .collect();
            files.extend(codex_project_files());
            for name in ["config.toml", "managed_config.toml", "requirements.toml"] {
                files.push(Path::new("/etc/codex").join(name));
            }
        }
    }
    files
}

/// Paths of the Codex configuration in every folder from the project's root to the current one.
fn codex_project_files() -> Vec<PathBuf> {
    let above = settings::folders_above().into_iter();
    let above = above.map(|above| above.join(".codex/config.toml"));
    std::iter::once(PathBuf::from(".codex/config.toml"))
        .chain(above)
        .collect()
}

/// Finds the switches in one settings layer.
fn read(dialect: Dialect, file: &Path, text: &str) -> Layer {
    let found = match dialect {
        Dialect::Codex => {
            let root: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
            codex(&root)
        }
        Dialect::ClaudeCode => {
            let root = json(text)?;
            let mut found = claude_code(&root);
            // Only a project's settings are suspicious: in their own settings, people choose the environment
            // themselves.
            if is_of_project(dialect, file) {
                found.extend(environment(&root));
            }
            found
        }
        Dialect::Gemini => gemini(&json(text)?),
    };
    let switch = |(key, reach)| Switch {
        file: file.to_owned(),
        key,
        reach,
    };
    Ok(found.into_iter().map(switch).collect())
}

fn json(text: &str) -> Result<Value, String> {
    match text.trim().is_empty() {
        // An empty file means no settings.
        true => Ok(Value::Null),
        false => serde_json::from_str(text).map_err(|error| error.to_string()),
    }
}

fn claude_code(root: &Value) -> Vec<(String, Reach)> {
    let mut found = Vec::new();
    for key in ["disableAllHooks", "allowManagedHooksOnly"] {
        if is_set(root.get(key)) {
            found.push((key.to_owned(), Reach::All));
        }
    }
    let only_plugins = root.get("strictPluginOnlyCustomization");
    let names_hooks = match only_plugins {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "hooks"),
        value => is_set(value),
    };
    if names_hooks {
        found.push(("strictPluginOnlyCustomization".to_owned(), Reach::All));
    }
    for name in WITHOUT_HOOKS {
        let value = root.get("env").and_then(|env| env.get(name));
        let is_no = |text: &str| {
            matches!(
                text.to_ascii_lowercase().as_str(),
                "" | "0" | "false" | "no" | "off"
            )
        };
        let is_set = match value {
            Some(Value::String(text)) => !is_no(text.trim()),
            value => is_set(value),
        };
        if is_set {
            found.push((format!("env.{name}"), Reach::All));
        }
    }
    found
}

/// Returns true for settings of a project. The person's own settings do not count, although in the home folder both
/// have the same path.
fn is_of_project(dialect: Dialect, file: &Path) -> bool {
    let own = dialect.user_file().and_then(|own| own.canonicalize().ok());
    let is_own = own.is_some() && file.canonicalize().ok() == own;
    let mut files = dialect.project_files();
    files.extend(dialect.project_files_above());
    !is_own && files.iter().any(|project| project == file)
}

/// Returns the variables that settings set and that change how a hook runs.
fn environment(root: &Value) -> Vec<(String, Reach)> {
    let names = root.get("env").and_then(Value::as_object).into_iter().flatten();
    let changes = |name: &str| {
        CHANGES_HOOKS.iter().any(|known| match known.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == *known,
        })
    };
    let found = names.filter(|(name, _)| changes(name));
    found
        .map(|(name, _)| (format!("env.{name}"), Reach::Environment))
        .collect()
}

fn gemini(root: &Value) -> Vec<(String, Reach)> {
    let mut found = Vec::new();
    // A stronger layer in which `hooks` is not an object replaces the hooks of all other layers.
    if root.get("hooks").is_some_and(|hooks| !hooks.is_object()) {
        found.push(("hooks".to_owned(), Reach::All));
    }
    // The last two keys were used by versions before 2026.
    for (place, enabled) in [
        ("hooksConfig", "enabled"),
        ("hooks", "enabled"),
        ("tools", "enableHooks"),
    ] {
        let value = root.get(place).and_then(|config| config.get(enabled));
        if value.is_some_and(|value| *value != Value::Bool(true)) {
            found.push((format!("{place}.{enabled}"), Reach::All));
        }
    }
    for place in ["hooksConfig", "hooks"] {
        let names = root.get(place).and_then(|config| config.get("disabled"));
        let names: Vec<&Value> = match names {
            Some(Value::Array(names)) => names.iter().collect(),
            name => name.into_iter().collect(),
        };
        let names = names.into_iter().filter_map(Value::as_str);
        found.extend(names.map(|name| (format!("{place}.disabled"), Reach::Named(name.to_owned()))));
    }
    found
}

fn codex(root: &toml::Table) -> Vec<(String, Reach)> {
    let mut found = Vec::new();
    let off = |table: Option<&toml::Value>| {
        let features = table.and_then(|table| table.get("features"));
        let is_off = |name: &&str| {
            let value = features.and_then(|features| features.get(*name));
            value.is_some_and(|value| value.as_bool() != Some(true))
        };
        CODEX_SWITCHES.into_iter().filter(is_off).collect::<Vec<_>>()
    };
    let whole = toml::Value::Table(root.clone());
    for name in off(Some(&whole)) {
        found.push((format!("features.{name}"), Reach::All));
    }
    let only_managed = root.get("allow_managed_hooks_only");
    if only_managed.is_some_and(|value| value.as_bool() != Some(false)) {
        found.push(("allow_managed_hooks_only".to_owned(), Reach::All));
    }
    let selected = root.get("profile").and_then(toml::Value::as_str);
    let profiles = root.get("profiles").and_then(toml::Value::as_table);
    for (profile, table) in profiles.into_iter().flatten() {
        for name in off(Some(table)) {
            let reach = match selected == Some(profile.as_str()) {
                true => Reach::All,
                false => Reach::Profile(profile.clone()),
            };
            found.push((format!("profiles.{profile}.features.{name}"), reach));
        }
    }
    found
}

/// Returns true if a switch is present and not clearly off.
fn is_set(value: Option<&Value>) -> bool {
    !matches!(value, None | Some(Value::Null | Value::Bool(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(dialect: Dialect, text: &str, expected: &[&str]) {
        let found = read(dialect, Path::new("f"), text).unwrap();
        let keys: Vec<&str> = found.iter().map(|switch| switch.key.as_str()).collect();
        assert_eq!(keys, expected, "{text}");
    }

    #[test]
    fn x21_each_way_to_turn_hooks_off_is_known() {
        let claude = |text: &str, expected: &[&str]| check(Dialect::ClaudeCode, text, expected);
        claude("{}", &[]);
        claude(" \n", &[]);
        claude(
            r#"{"disableAllHooks":false,"env":{"CLAUDE_CODE_SIMPLE":"0"}}"#,
            &[],
        );
        claude(r#"{"disableAllHooks":true}"#, &["disableAllHooks"]);
        claude(r#"{"disableAllHooks":"true"}"#, &["disableAllHooks"]);
        claude(r#"{"allowManagedHooksOnly":true}"#, &["allowManagedHooksOnly"]);
        claude(r#"{"strictPluginOnlyCustomization":["skills"]}"#, &[]);
        claude(
            r#"{"strictPluginOnlyCustomization":["hooks"],"env":{"CLAUDE_CODE_SIMPLE":"1"}}"#,
            &["strictPluginOnlyCustomization", "env.CLAUDE_CODE_SIMPLE"],
        );
        let gemini = |text: &str, expected: &[&str]| check(Dialect::Gemini, text, expected);
        gemini(
            r#"{"hooksConfig":{"enabled":true},"hooks":{"BeforeTool":[]}}"#,
            &[],
        );
        gemini(r#"{"hooksConfig":{"enabled":false}}"#, &["hooksConfig.enabled"]);
        gemini(r#"{"hooksConfig":{"enabled":0}}"#, &["hooksConfig.enabled"]);
        gemini(r#"{"hooksConfig":{"disabled":"x"}}"#, &["hooksConfig.disabled"]);
        gemini(r#"{"hooks":[]}"#, &["hooks"]);
        gemini(
            r#"{"hooks":{"enabled":false,"disabled":["x"]},"tools":{"enableHooks":false}}"#,
            &["hooks.enabled", "tools.enableHooks", "hooks.disabled"],
        );
        let codex = |text: &str, expected: &[&str]| check(Dialect::Codex, text, expected);
        codex("[features]\nhooks = true\n", &[]);
        codex("[features]\nhooks = false\n", &["features.hooks"]);
        codex("features.codex_hooks = false\n", &["features.codex_hooks"]);
        codex("allow_managed_hooks_only = true\n", &["allow_managed_hooks_only"]);
        codex(
            "profile = \"a\"\n[profiles.a.features]\nhooks = false\n",
            &["profiles.a.features.hooks"],
        );
        let other = read(
            Dialect::Codex,
            Path::new("f"),
            "[profiles.b.features]\nhooks = false\n",
        )
        .unwrap();
        assert_eq!(other[0].reach, Reach::Profile("b".to_owned()));
    }

    #[test]
    fn x21_a_layer_that_cannot_be_read_is_told() {
        for (dialect, text) in [(Dialect::ClaudeCode, "{,"), (Dialect::Codex, "= 1")] {
            assert!(read(dialect, Path::new("f"), text).is_err());
        }
    }
}
