//! Tests of coding agents' hooks: the real binary, fed with the agents' events, with a real store and a real service.

mod answers;
mod changed;
mod closed;
mod environment;
mod filters;
mod folder;
mod harmless;
mod hostile;
mod install;
mod life;
mod policy;
mod record;
mod search;
mod words;

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::test_folder::{Left, TestFolder};

const POLICY: &str = include_str!("../../../policies/coding-agents.toml");
/// Arguments in a form that no serializer would produce: spaces, key order, an escape, a number too large for a double.
const LS: &str = r#"{"command" : "ls \u00e9",  "z":1.50, "a":12345678901234567890123}"#;

fn agents() -> TestFolder {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", POLICY);
    place
}

/// Prepares a hook command in this folder.
fn hook(place: &TestFolder, arguments: &[&str]) -> Command {
    let mut command = place.command(&["hook"]);
    command
        .args(arguments)
        .env_remove("CLAUDE_CODE_ENTRYPOINT")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn fed(mut command: Command, event: &[u8]) -> Child {
    let mut child = command.spawn().unwrap();
    // The hook may exit without reading everything.
    let _ = child.stdin.take().unwrap().write_all(event);
    child
}

fn ask(place: &TestFolder, arguments: &[&str], event: &[u8]) -> Left {
    Left::of(fed(hook(place, arguments), event).wait_with_output().unwrap())
}

/// Returns an event before a call, in the format of Claude Code and Codex.
fn before(id: &str, tool: &str, input: &str) -> String {
    format!(
        r#"{{"session_id":"s1","transcript_path":"t","cwd":"/","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"{tool}","tool_input":{input},"tool_use_id":"{id}"}}"#
    )
}

fn after(event: &str, id: &str, rest: &str) -> String {
    format!(
        r#"{{"session_id":"s1","hook_event_name":"{event}","tool_name":"Bash","tool_input":{LS},"tool_use_id":"{id}",{rest}}}"#
    )
}

/// Returns an event in the format of Gemini CLI.
fn gemini(event: &str, tool: &str, input: &str, rest: &str) -> String {
    format!(
        r#"{{"session_id":"s1","transcript_path":"t","cwd":"/","hook_event_name":"{event}","timestamp":"2026-11-16T03:00:00.000Z","tool_name":"{tool}","tool_input":{input}{rest}}}"#
    )
}

/// Waits until an approval is pending and returns its id.
#[track_caller]
fn pending(place: &TestFolder) -> String {
    let give_up_at = Instant::now() + Duration::from_secs(20);
    while Instant::now() < give_up_at {
        if place.path().join("countersign.db").exists() {
            let list = place.run(&["list", "--json"]);
            let list: Value = serde_json::from_str(&list.stdout).unwrap_or_default();
            if let Some(id) = list["approvals"][0]["id"].as_str() {
                return id.to_owned();
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing is pending");
}

#[track_caller]
fn state(place: &TestFolder, id: &str) -> String {
    place.json(&["show", id])["calls"][0]["state"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Checks that standard output is exactly one JSON object, and parses it.
#[track_caller]
fn one(left: &Left) -> Value {
    assert!(
        left.stdout.ends_with('\n') && left.stdout.trim().starts_with('{'),
        "{left:?}"
    );
    serde_json::from_str(&left.stdout).unwrap_or_else(|_| panic!("{left:?}"))
}

/// Returns true if an answer blocks the call, by the rules in each coding agent's code.
fn blocks(dialect: &str, left: &Left) -> bool {
    let answer: Value = serde_json::from_str(&left.stdout).unwrap_or_default();
    let specific = &answer["hookSpecificOutput"];
    let has_reason = |reason: &Value| reason.as_str().is_some_and(|reason| !reason.trim().is_empty());
    let denies =
        specific["permissionDecision"] == "deny" && has_reason(&specific["permissionDecisionReason"]);
    match dialect {
        "claude-code" => left.code == 2 || (left.code == 0 && denies),
        "codex" => match left.code {
            2 => !left.stderr.trim().is_empty(),
            code => code == 0 && denies,
        },
        // Gemini CLI reads standard output regardless of the exit code, and standard error only if standard output is
        // empty.
        _ => match left.stdout.trim().is_empty() {
            true => left.code > 1 && serde_json::from_str::<Value>(left.stderr.trim()).is_err(),
            false => answer["decision"] == "deny" && has_reason(&answer["reason"]),
        },
    }
}
