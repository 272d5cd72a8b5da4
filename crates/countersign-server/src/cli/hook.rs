//! Hooks of coding agents.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::duration;
use crate::hook::Dialect;

#[derive(Debug, Subcommand)]
pub enum HookCommand {
    /// Answer Claude Code: an event on standard input, one JSON object on standard output
    ClaudeCode(HookRun),
    /// Answer Codex
    Codex(HookRun),
    /// Answer Gemini CLI
    Gemini(HookRun),
    /// Put the hook into a coding agent's settings
    #[command(after_help = "\
Everything else in the settings stays as it is, to the byte; the file as it was stands beside it afterwards. The
hook is told by full paths where the store and the policy are, or which server to ask. Without a policy, one is written to
~/.config/countersign/coding-agents.toml.

Examples:
  countersign hook install claude-code --user
  countersign hook install claude-code --project --policy ~/policy.toml
  countersign hook install codex --user --server https://countersign.example.com \
    --token-file ~/.countersign/agent --execute-token-file ~/.countersign/host
  countersign hook install gemini --user --dry-run")]
    Install(HookInstall),
    /// Look whether hooks are installed and really hold a call
    Status(HookStatus),
    /// Print a policy for coding agents: reading passes, the rest waits for a person
    Policy,
}

/// How long a hook waits, and where it keeps things meanwhile.
#[derive(Clone, Debug, Args)]
pub struct HookRun {
    /// Wait so long for a decision; shorter than the hook's time-out in the settings
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "9m")]
    pub hold: Duration,
    /// In a run without a person, let it stop and be resumed instead of denying; Claude Code only
    #[arg(long)]
    pub defer: bool,
    /// At a server: a file with the token that starts and finishes calls, of scope `execute`
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTERSIGN_EXECUTE_TOKEN_FILE",
        hide_env_values = true
    )]
    pub execute_token_file: Option<PathBuf>,
    /// Where permits of running calls are kept; below XDG_STATE_HOME if you do not say
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true))]
pub struct HookInstall {
    /// Which coding agent
    #[arg(value_enum, value_name = "AGENT")]
    pub dialect: Dialect,
    /// For all your projects
    #[arg(long, group = "where")]
    pub user: bool,
    /// For the project in this folder
    #[arg(long, group = "where")]
    pub project: bool,
    /// Into this file
    #[arg(long, group = "where", value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Only print what would be added, to be put in by hand
    #[arg(long, group = "where")]
    pub print: bool,
    /// Print the settings as they would be, and change nothing
    #[arg(long, conflicts_with = "print")]
    pub dry_run: bool,
    #[command(flatten)]
    pub run: HookRun,
}

#[derive(Debug, Args)]
pub struct HookStatus {
    /// Look into this file too
    #[arg(long, value_name = "FILE", requires = "dialect")]
    pub settings: Option<PathBuf>,
    /// Only this coding agent
    #[arg(value_enum, value_name = "AGENT")]
    pub dialect: Option<Dialect>,
}
