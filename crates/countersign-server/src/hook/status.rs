//! Whether a hook is really there: read from the settings, and tried.
//!
//! Enters: a coding agent's settings. Leaves: what is wrong with them, in sentences. It changes nothing: the self-test
//! proposes nothing.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use super::{Dialect, GRACE, SELF_TEST, settings, trust};
use crate::duration;

/// How long the self-test may take.
const TEST_WITHIN: Duration = Duration::from_secs(20);
/// Nobody lists a tool of this name, so it is held.
const UNLISTED: &str = "countersign_self_test";

/// A hook as the settings have it, and what is wrong with it.
pub struct Installed {
    /// What it is told to do.
    pub command: String,
    /// How long it holds a call.
    pub hold: Duration,
    /// Whether the coding agent runs it at all: Codex skips what its person has not reviewed.
    pub is_trusted: bool,
    /// What makes it useless.
    pub problems: Vec<&'static str>,
    /// What makes it weaker than it could be.
    pub warnings: Vec<String>,
}

/// Looks for our hook in a settings file; nothing when it is not there.
pub fn look(file: &Path, text: &str, dialect: Dialect) -> Result<Option<Installed>, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let under = |event: &str| {
        let groups = root.get("hooks").and_then(|hooks| hooks.get(event));
        let groups = groups.and_then(Value::as_array).into_iter().flatten();
        groups.flat_map(|group| {
            let handlers = group.get("hooks").and_then(Value::as_array).into_iter().flatten();
            handlers.map(move |handler| (group, handler))
        })
    };
    let ours = |event: &str| {
        under(event)
            .filter(|(_, handler)| dialect.is_ours(handler))
            .collect::<Vec<_>>()
    };
    let before = ours(dialect.before());
    let missing: Vec<_> = dialect
        .after()
        .iter()
        .filter(|event| ours(event).is_empty())
        .collect();
    let Some((group, handler)) = before.first() else {
        return match missing.len() == dialect.after().len() {
            true => Ok(None),
            false => Err(format!(
                "the hook is there after tool calls, but not under `{}`",
                dialect.before()
            )),
        };
    };
    let command = command(handler);
    let hold = hold(&command);
    let mut problems = Vec::new();
    let mut warnings = Vec::new();
    let flag = |value: Option<&Value>| value.and_then(Value::as_bool);
    if before.len() > 1 {
        problems.push("it is there twice, so one of the two denies what the other allows");
    }
    if dialect.blocks_on_failure() && handler.get("onFailure").and_then(Value::as_str) != Some("block") {
        problems
            .push("it has no `\"onFailure\": \"block\"`: when it cannot start or is too slow, the tool runs");
    }
    if dialect.limit(handler.get("timeout").and_then(Value::as_u64)) <= hold.saturating_add(GRACE) {
        problems.push("its time-out is not above the time it holds a call: the coding agent gives up first");
    }
    if flag(handler.get("async")) == Some(true) || flag(handler.get("once")) == Some(true) {
        problems.push("it is `async` or runs `once`, so it does not hold every call");
    }
    let is_trusted = dialect != Dialect::Codex || trust::is_trusted(file, &root, dialect);
    if flag(root.get("disableAllHooks")) == Some(true) {
        problems.push("`disableAllHooks` is set");
    }
    let gemini = root.get("hooksConfig");
    let disabled = gemini
        .and_then(|config| config.get("disabled"))
        .and_then(Value::as_array);
    let is_disabled = disabled
        .into_iter()
        .flatten()
        .any(|name| name.as_str() == Some("countersign"));
    if is_disabled || flag(gemini.and_then(|config| config.get("enabled"))) == Some(false) {
        problems.push("`hooksConfig` turns it off");
    }
    let matcher = group.get("matcher").and_then(Value::as_str).unwrap_or_default();
    if !matches!(matcher, "" | "*" | ".*") {
        warnings.push(format!(
            "only tools that match `{matcher}` are asked about; the others run without it"
        ));
    }
    if handler.get("if").is_some() {
        warnings.push("it has an `if`: calls that do not match it run without it".to_owned());
    }
    for event in missing {
        warnings.push(format!(
            "it is not under `{event}`, so how calls end becomes unknown"
        ));
    }
    if !dialect.blocks_on_failure() && !command.contains("exit 2") {
        warnings
            .push("its command does not end in `|| exit 2`: if it cannot start, the tool runs".to_owned());
    }
    Ok(Some(Installed {
        command,
        hold,
        is_trusted,
        problems,
        warnings,
    }))
}

/// Gives the installed command a call that no policy lists, and looks whether it comes back blocked.
pub async fn test(dialect: Dialect, command: &str) -> Result<(), String> {
    let event = serde_json::json!({
        "session_id": "self-test", "hook_event_name": dialect.before(), "tool_name": UNLISTED, "tool_input": {},
        "tool_use_id": "self-test", "cwd": "", "transcript_path": "", "permission_mode": "default", "timestamp": "",
    });
    let mut child = tokio::process::Command::new("sh")
        .args(["-c", command])
        .env(SELF_TEST, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read shows itself by its answer.
        let _ = stdin.write_all(event.to_string().as_bytes()).await;
    }
    let left = match tokio::time::timeout(TEST_WITHIN, child.wait_with_output()).await {
        Err(_) => {
            return Err(format!(
                "it did not answer within {}",
                duration::show(TEST_WITHIN)
            ));
        }
        Ok(left) => left.map_err(|error| error.to_string())?,
    };
    let complaint = String::from_utf8_lossy(&left.stderr).trim().to_owned();
    let Ok(answer) = serde_json::from_slice::<Value>(&left.stdout) else {
        return Err(match complaint.is_empty() {
            true => "it did not answer with one JSON object".to_owned(),
            false => complaint.lines().collect::<Vec<_>>().join("; "),
        });
    };
    let specific = answer.get("hookSpecificOutput");
    let said = match dialect {
        Dialect::ClaudeCode | Dialect::Codex => [
            specific.and_then(|specific| specific.get("permissionDecision")),
            specific.and_then(|specific| specific.get("permissionDecisionReason")),
        ],
        Dialect::Gemini => [answer.get("decision"), answer.get("reason")],
    };
    match said.map(|value| value.and_then(Value::as_str)) {
        [Some("deny"), Some("self-test: held")] => Ok(()),
        [Some("deny"), Some(reason)] => Err(reason.to_owned()),
        _ => Err("a call that no policy lists came back without a denial".to_owned()),
    }
}

/// The file's hook in one sentence, where it is good.
pub fn sentence(file: &Path, installed: &Installed) -> String {
    format!(
        "active in `{}`: holds a call {}, and blocked the self-test",
        file.display(),
        duration::show(installed.hold)
    )
}

/// The settings files of a coding agent that may hold a hook.
pub fn files(dialect: Dialect) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = dialect.user_file().into_iter().collect();
    files.extend(dialect.project_files());
    files
}

/// Reads one of them.
pub fn read(file: &Path) -> Result<Option<String>, String> {
    settings::read(file).map_err(|failure| failure.message)
}

fn command(handler: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let command = handler.get("command").map(text).unwrap_or_default();
    match handler.get("args").and_then(Value::as_array) {
        None => command,
        Some(arguments) => {
            let words = std::iter::once(command).chain(arguments.iter().map(text));
            words.map(|word| shell_word(&word)).collect::<Vec<_>>().join(" ")
        }
    }
}

/// How long a command holds a call.
fn hold(command: &str) -> Duration {
    let mut words = command.split_whitespace();
    let named = words.find_map(|word| match word {
        "--hold" => Some(None),
        word => word.strip_prefix("--hold=").map(Some),
    });
    let text = named.map(|inline| inline.or_else(|| words.next()).unwrap_or_default());
    let text = text.map(|text| text.trim_matches('\''));
    text.and_then(|text| duration::parse(text).ok())
        .unwrap_or(Duration::from_secs(540))
}

/// A word as a shell takes it for one.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
