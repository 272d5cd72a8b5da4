//! `hook`: answer a coding agent, put the hook into its settings, look whether it works.

mod install;
mod look;

use crate::cli::{Global, HookCommand};
use crate::failure::{Exit, Failure};
use crate::hook::{self, Answer, Dialect, Hook};
use crate::output::Output;
pub use look::look_at_all;

/// The policy that `hook policy` prints.
const POLICY: &str = include_str!("../../../../../examples/coding-agents.toml");

pub async fn run(global: &Global, command: HookCommand, output: &mut Output) -> Result<Exit, Failure> {
    let (dialect, options) = match command {
        HookCommand::ClaudeCode(options) => (Dialect::ClaudeCode, options),
        HookCommand::Codex(options) => (Dialect::Codex, options),
        HookCommand::Gemini(options) => (Dialect::Gemini, options),
        HookCommand::Install(options) => return install::run(global, &options, output),
        HookCommand::Status(options) => return look::run(&options, output).await,
        HookCommand::Policy => {
            output.raw(POLICY.as_bytes())?;
            return Ok(Exit::Done);
        }
    };
    let hook = Hook {
        dialect,
        global,
        options: &options,
    };
    Ok(match hook::run(hook, output).await {
        0 => Exit::Done,
        Answer::BLOCKS => Exit::Usage,
        _ => Exit::Error,
    })
}

/// Which coding agent a command answers, if it answers one.
pub fn answers(command: &HookCommand) -> Option<Dialect> {
    match command {
        HookCommand::ClaudeCode(_) => Some(Dialect::ClaudeCode),
        HookCommand::Codex(_) => Some(Dialect::Codex),
        HookCommand::Gemini(_) => Some(Dialect::Gemini),
        _ => None,
    }
}
