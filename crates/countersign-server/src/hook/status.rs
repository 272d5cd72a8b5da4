//! Checks whether a hook is installed correctly and really blocks.
//!
//! The result is a list of sentences that say what is wrong with a coding agent's settings. Nothing is changed, and the
//! self-test proposes nothing.
//! INVARIANT: settings are only data, because a repository may contain them, so no command from them is run. A hook
//! counts as this program's only if its command is byte for byte one that this person's `hook install` wrote. The
//! self-test then runs this program itself, without a shell, with the arguments that `install` saved.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

pub use super::codex::Review;
use super::{Dialect, GRACE, SELF_TEST, codex, settings};
use crate::duration;

/// Timeout of the self-test.
const TEST_WITHIN: Duration = Duration::from_secs(20);
/// Tool name that no policy lists, so a call to it is held.
const UNLISTED: &str = "countersign_self_test";
/// Default time that a hook holds a call.
const HOLD: Duration = Duration::from_secs(540);
/// Message for a command that `hook install` did not write.
const NOT_OURS: &str =
    "its command is not one that `countersign hook install` has made for you, so it was not tried";
/// Handler members that are not reported as unknown. `async`, `once` and `if` are checked separately.
const KNOWN: [&str; 9] = [
    "name",
    "type",
    "command",
    "timeout",
    "onFailure",
    "statusMessage",
    "async",
    "once",
    "if",
];

/// A hook in the settings, and what is wrong with it.
pub struct Installed {
    /// Command line that `install` saved for this hook; `None` if `install` did not write the hook.
    pub words: Option<Vec<String>>,
    /// How long the hook holds a call.
    pub hold: Duration,
    /// Result of the person's review in Codex, which skips hooks that have not been reviewed.
    pub review: Review,
    /// Name or command by which the coding agent identifies the hook before tool calls.
    pub name: String,
    /// Names or commands by which the coding agent identifies the hooks after tool calls.
    pub names_after: Vec<String>,
    /// Faults that make the hook ineffective.
    pub problems: Vec<String>,
    /// Faults that make the hook weaker.
    pub warnings: Vec<String>,
}

/// Finds this program's hook in a settings file; `None` if it is not installed. `made` contains the command lines that
/// `install` saved. Fails if the settings cannot be read or contain only the hooks after tool calls.
pub fn find_hook<'m>(
    file: &Path,
    text: &str,
    dialect: Dialect,
    made: impl IntoIterator<Item = &'m Vec<String>>,
) -> Result<Option<Installed>, String> {
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
    let words = made_of(handler, dialect, made);
    let hold = words.as_deref().map_or(HOLD, hold);
    let mut problems = Vec::new();
    let mut warnings = Vec::new();
    let flag = |value: Option<&Value>| value.and_then(Value::as_bool);
    match &words {
        None => problems.push(NOT_OURS.to_owned()),
        Some(words) => {
            let command = Some(settings::command(words));
            let after = dialect.after().iter().flat_map(|event| ours(event));
            let is_other = |(_, handler): (&Value, &Value)| text_of(handler, "command") != command.as_deref();
            if after.into_iter().any(is_other) {
                problems.push("the command after tool calls is another one than before them".to_owned());
            }
        }
    }
    for (group, handler) in dialect.events().flat_map(ours) {
        problems.extend(unknown(group, &["matcher", "hooks"]));
        problems.extend(unknown(handler, &KNOWN));
    }
    if before.len() > 1 {
        problems.push("it is there twice, so one of the two denies what the other allows".to_owned());
    }
    if dialect.blocks_on_failure() && text_of(handler, "onFailure") != Some("block") {
        problems.push(
            "it has no `\"onFailure\": \"block\"`: when it cannot start or is too slow, the tool runs"
                .to_owned(),
        );
    }
    if dialect.limit(handler.get("timeout").and_then(Value::as_u64)) <= hold.saturating_add(GRACE) {
        problems.push(
            "its time-out is not above the time it holds a call: the coding agent gives up first".to_owned(),
        );
    }
    if flag(handler.get("async")) == Some(true) || flag(handler.get("once")) == Some(true) {
        problems.push("it is `async` or runs `once`, so it does not hold every call".to_owned());
    }
    let review = match dialect {
        Dialect::Codex => codex::review(file, &root, dialect),
        Dialect::ClaudeCode | Dialect::Gemini => Review::Trusted,
    };
    // The coding agent identifies a hook by its name, or by its command if it has no name.
    let name_of = |handler: &Value| {
        let name = text_of(handler, "name").filter(|name| !name.is_empty());
        name.or_else(|| text_of(handler, "command"))
            .unwrap_or_default()
            .to_owned()
    };
    let name = name_of(handler);
    let after = dialect.after().iter().flat_map(|event| ours(event));
    let names_after = after.map(|(_, handler)| name_of(handler)).collect();
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
    Ok(Some(Installed {
        words,
        hold,
        review,
        name,
        names_after,
        problems,
        warnings,
    }))
}

/// Runs the self-test: starts this program with the saved arguments, sends a call that no policy lists, and checks that
/// the call is denied. Fails with what is wrong.
pub async fn test(dialect: Dialect, words: &[String]) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let (program, arguments) = words.split_first().ok_or("it has no command")?;
    if Path::new(program) != own {
        return Err(format!(
            "it starts `{program}`, and this program is `{}`",
            own.display()
        ));
    }
    let event = serde_json::json!({
        "session_id": "self-test", "hook_event_name": dialect.before(), "tool_name": UNLISTED, "tool_input": {},
        "tool_use_id": "self-test", "cwd": "/", "transcript_path": "", "permission_mode": "default", "timestamp": "",
    });
    let mut child = tokio::process::Command::new(own)
        .args(arguments)
        .env(SELF_TEST, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Ignore a write error: a command that does not read its input shows that in its answer.
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

/// Returns the folder in which the coding agent has to be started to read this file, if that is a folder above the
/// current one; otherwise `None`. Always `None` for Codex, which reads the files of all folders above.
pub fn counts_in(dialect: Dialect, file: &Path) -> Option<std::path::PathBuf> {
    let is_above =
        dialect != Dialect::Codex && dialect.project_files_above().iter().any(|above| above == file);
    let folder = file.parent().and_then(Path::parent);
    folder.filter(|_| is_above).map(Path::to_owned)
}

/// Describes a working hook in one sentence.
pub fn sentence(file: &Path, installed: &Installed) -> String {
    format!(
        "active in `{}`: holds a call {}, and blocked the self-test",
        file.display(),
        duration::show(installed.hold)
    )
}

/// Paths of all settings files of a coding agent that may contain a hook. The person's own file is listed once,
/// although it is also the project's file if the current folder is the home folder.
pub fn files(dialect: Dialect) -> Vec<std::path::PathBuf> {
    let own = dialect.user_file();
    let place = own.as_ref().and_then(|file| file.canonicalize().ok());
    let is_own = |file: &std::path::PathBuf| place.is_some() && file.canonicalize().ok() == place;
    let mut files: Vec<_> = dialect.project_files();
    files.retain(|file| !is_own(file));
    files.extend(dialect.project_files_above());
    own.into_iter().chain(files).collect()
}

/// Reads a settings file; `None` if it does not exist.
pub fn read(file: &Path) -> Result<Option<String>, String> {
    settings::read(file).map_err(|failure| failure.message)
}

/// Returns the saved command line that this handler was made from, or `None` if `install` did not write it.
fn made_of<'m>(
    handler: &Value,
    dialect: Dialect,
    made: impl IntoIterator<Item = &'m Vec<String>>,
) -> Option<Vec<String>> {
    let command = text_of(handler, "command")?;
    let is_plain = text_of(handler, "type") == Some("command") && handler.get("args").is_none();
    let is_made = |words: &&Vec<String>| {
        words
            .get(1..3)
            .is_some_and(|named| named == ["hook", dialect.as_str()])
            && settings::blocking(&settings::command(words)) == command
    };
    made.into_iter().find(is_made).filter(|_| is_plain).cloned()
}

/// Reports members that `install` never writes, because they could change what a handler does.
fn unknown(object: &Value, known: &[&str]) -> Vec<String> {
    let members = object.as_object().into_iter().flatten();
    let unknown = members.filter(|(name, _)| !known.contains(&name.as_str()));
    unknown
        .map(|(name, _)| format!("it has `{name}`, which `hook install` does not write"))
        .collect()
}

fn text_of<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    object.get(name).and_then(Value::as_str)
}

/// Returns how long a command holds a call: the value of `--hold`, or the default.
fn hold(words: &[String]) -> Duration {
    let mut words = words.iter().skip_while(|word| *word != "--hold").skip(1);
    let hold = words.next().and_then(|text| duration::parse(text).ok());
    hold.unwrap_or(HOLD)
}
