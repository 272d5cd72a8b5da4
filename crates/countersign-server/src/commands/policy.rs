//! `policy check`, `policy try` and `policy init`: validates a policy, tries a call, writes a first policy.

use std::path::{Path, PathBuf};

use countersign::policy::{CallRequest, Definition, Policy, Problem, Ruling, Undoable};
use serde::Serialize;
use serde_json::json;

use super::input;
use crate::cli::{Global, PolicyCommand};
use crate::failure::{Exit, Failure};
use crate::output::{Output, catalogue};
use crate::policy::{self, DEFAULT_FILE};

pub async fn run(global: &Global, command: PolicyCommand, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        PolicyCommand::Check { file } => {
            let file = file.or_else(|| global.policy.clone());
            check(&file.unwrap_or_else(|| PathBuf::from(DEFAULT_FILE)), output)
        }
        PolicyCommand::Init(options) => crate::mcp::init(options, output).await,
        PolicyCommand::Try { tool, arguments } => try_call(global, &tool, arguments.as_deref(), output),
    }
}

#[derive(Serialize)]
struct ProblemView<'a> {
    line: usize,
    column: usize,
    message: &'a str,
    hint: Option<&'a str>,
}

fn views(problems: &[Problem]) -> Vec<ProblemView<'_>> {
    let views = problems.iter().map(|problem| ProblemView {
        line: problem.line,
        column: problem.column,
        message: &problem.message,
        hint: problem.hint.as_deref(),
    });
    views.collect()
}

fn check(file: &Path, output: &mut Output) -> Result<Exit, Failure> {
    let text = policy::read(file)?;
    let parsed = Policy::parse(&text);
    let (problems, notices) = match &parsed {
        Ok(policy) => (&[][..], policy.notices()),
        Err(problems) => (problems.0.as_slice(), &[][..]),
    };
    let exit = if problems.is_empty() {
        Exit::Done
    } else {
        Exit::Error
    };
    if output.is_json {
        let tools = parsed
            .as_ref()
            .map(|policy| catalogue::view(&policy.catalogue()))
            .unwrap_or_default();
        output.json(&json!({
            "file": file.display().to_string(),
            "problems": views(problems),
            "notices": views(notices),
            "tools": tools,
        }))?;
        return Ok(exit);
    }
    output.text(&catalogue::problems(file, problems, notices));
    match &parsed {
        Ok(policy) => output.text(&catalogue::table(&policy.catalogue(), output.width())),
        Err(problems) => {
            let count = problems.0.len();
            let noun = if count == 1 { "problem" } else { "problems" };
            output.error_line(&format!(
                "{count} {noun}; nothing runs under this policy until they are corrected"
            ));
        }
    }
    Ok(exit)
}

/// Returns true if `other` holds a call that `ruling` passes, or holds it with a different effect or risk.
fn differs(other: &Ruling, ruling: &Ruling) -> bool {
    match (other, ruling) {
        (Ruling::Hold(_), Ruling::Pass(_)) => true,
        (Ruling::Hold(other), Ruling::Hold(terms)) => {
            (other.effect, other.risk()) != (terms.effect, terms.risk())
        }
        _ => false,
    }
}

fn try_call(
    global: &Global,
    tool: &str,
    arguments: Option<&str>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let loaded = policy::look_at(global.policy.as_deref(), output)?;
    let call = input::single(tool, arguments)?;
    if loaded.file.is_none() {
        output.notice(
            "no_policy",
            "there is no policy: every call is held as destructive",
        );
    }
    let asked = CallRequest {
        tool: call.tool.as_str(),
        arguments: call.arguments.as_bytes(),
        // No server is asked for the tool's definition, so it counts as the one that the policy pins.
        definition: Definition::read(loaded.policy.pin(call.tool.as_str())),
        salt: &[],
        before: None,
        working_folder: None,
    };
    let ruling = loaded.policy.rule(asked);
    let changed = loaded.policy.rule(CallRequest {
        definition: Definition::Unknown,
        ..asked
    });
    if differs(&changed, &ruling) {
        output.notice(
            "pinned",
            "this is the ruling while the tool's definition is the pinned one; with another one, the call is held as \
             destructive or external, at high risk or above",
        );
    }
    if loaded.policy.compares_places(asked.tool) {
        output.notice(
            "not_followed",
            "the working folder of a call is not known here, and links are not followed: a hook or a gateway may hold a \
             call that passes here",
        );
    }
    let exit = match &ruling {
        Ruling::Forbid { .. } => Exit::Forbidden,
        Ruling::Pass(_) | Ruling::Hold(_) => Exit::Done,
    };
    match (&ruling, output.is_json) {
        (ruling, false) => {
            let rows = loaded.policy.table(asked.tool, asked.arguments, asked.salt);
            let deny = loaded.policy.deny_condition(asked.tool);
            output.text(&catalogue::tried(asked.tool, ruling, &rows, deny));
        }
        (Ruling::Pass(pass), true) => output.json(&json!({ "ruling": "pass", "effect": pass.effect }))?,
        (Ruling::Forbid { reason }, true) => {
            let deny = loaded.policy.deny_condition(asked.tool);
            output.json(&json!({ "ruling": "forbidden", "reason": reason, "deny": deny }))?
        }
        (Ruling::Hold(terms), true) => output.json(&json!({
            "ruling": "held",
            "effect": terms.effect,
            "risk": terms.risk(),
            "summary": terms.summary,
            "notes": terms.notes,
            "approvers": terms.approvers,
            "ttlSeconds": terms.ttl.as_secs(),
            "undoable": terms.undo == Undoable::Yes,
        }))?,
    }
    Ok(exit)
}
