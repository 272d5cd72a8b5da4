//! `hook`: answers a coding agent, installs the hook into its settings, and checks whether the hook works.

mod install;
mod look;

use crate::cli::{Global, HookCommand};
use crate::failure::{Exit, Failure};
use crate::hook::{self, Answer, Dialect, Hook};
use crate::output::Output;
pub use look::look_at_all;

/// Policy printed by `hook policy`.
const POLICY: &str = include_str!("../../../policies/coding-agents.toml");

pub async fn run(global: &Global, command: HookCommand, output: &mut Output) -> Result<Exit, Failure> {
    let (dialect, options) = match command {
        HookCommand::ClaudeCode(options) => (Dialect::ClaudeCode, options),
        HookCommand::Codex(options) => (Dialect::Codex, options),
        HookCommand::Gemini(options) => (Dialect::Gemini, options),
        HookCommand::Install(options) => return install::run(global, &options, output).await,
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
