//! Arguments of `hook`, for coding agents.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::duration;
use crate::hook::Dialect;

#[derive(Debug, Subcommand)]
pub enum HookCommand {
    /// Handle one event of Claude Code (standard input to standard output)
    #[command(after_help = "\
Claude Code runs this itself; `hook install` writes the command into its settings. A hook that names `--store` or `--server`
takes no setting from the environment.

Examples:
  countersign hook claude-code --store ~/countersign.db --policy ~/policy.toml < event.json")]
    ClaudeCode(HookRun),
    /// Handle one event of Codex (standard input to standard output)
    #[command(after_help = "\
Codex runs this itself; `hook install` writes the command into its settings. A hook that names `--store` or `--server` takes
no setting from the environment.

Examples:
  countersign hook codex --store ~/countersign.db --policy ~/policy.toml < event.json")]
    Codex(HookRun),
    /// Handle one event of Gemini CLI (standard input to standard output)
    #[command(after_help = "\
Gemini CLI runs this itself; `hook install` writes the command into its settings. A hook that names `--store` or `--server`
takes no setting from the environment.

Examples:
  countersign hook gemini --store ~/countersign.db --policy ~/policy.toml < event.json")]
    Gemini(HookRun),
    /// Add the hook to a coding agent's settings
    #[command(after_help = "\
The rest of the settings file stays unchanged, byte for byte, and a backup is written beside it. The hook's command names
the store and the policy by full paths, or the server. Without --policy, a policy is written to
~/.config/countersign/coding-agents.toml. Without --store, --user uses ~/.local/state/countersign/countersign.db, and
--project a store in this folder.

Examples:
  countersign hook install claude-code --user
  countersign hook install claude-code --project --policy ~/policy.toml
  countersign hook install codex --user --server https://countersign.example.com \
    --token-file ~/.countersign/agent --execute-token-file ~/.countersign/host
  countersign hook install gemini --user --dry-run
  countersign hook install claude-code --user --policy-change    after you have changed the policy")]
    Install(HookInstall),
    /// Check that hooks are installed and really hold a call
    #[command(after_help = "\
Examples:
  countersign hook status
  countersign hook status claude-code")]
    Status(HookStatus),
    /// Print a policy for coding agents: reads pass, everything else is held
    #[command(after_help = "\
Examples:
  countersign hook policy
  countersign hook policy > ~/policy.toml           to change it, then `hook install … --policy ~/policy.toml`")]
    Policy,
}

impl HookCommand {
    /// Returns the coding agent whose events the command answers; `None` for the commands that people run.
    pub fn answers(&self) -> Option<Dialect> {
        match self {
            HookCommand::ClaudeCode(_) => Some(Dialect::ClaudeCode),
            HookCommand::Codex(_) => Some(Dialect::Codex),
            HookCommand::Gemini(_) => Some(Dialect::Gemini),
            HookCommand::Install(_) | HookCommand::Status(_) | HookCommand::Policy => None,
        }
    }
}

/// How long a hook waits, and where it keeps its state.
#[derive(Clone, Debug, Args)]
pub struct HookRun {
    /// How long to wait for a decision; must be shorter than the hook's time-out in the settings
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "9m")]
    pub hold: Duration,
    /// If nobody is at the terminal, stop the run so that it can be resumed, instead of denying (Claude Code only)
    #[arg(long)]
    pub defer: bool,
    /// With --server: file with the token that starts and finishes calls (scope `execute`)
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTERSIGN_EXECUTE_TOKEN_FILE",
        hide_env_values = true
    )]
    pub execute_token_file: Option<PathBuf>,
    /// Folder for the permits of running calls [default: in XDG_STATE_HOME]
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true))]
pub struct HookInstall {
    /// Coding agent
    #[arg(value_enum, value_name = "AGENT")]
    pub dialect: Dialect,
    /// Install for all your projects
    #[arg(long, group = "where")]
    pub user: bool,
    /// Install for the project in this folder
    #[arg(long, group = "where")]
    pub project: bool,
    /// Install into this settings file
    #[arg(long, group = "where", value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Only print what to add by hand
    #[arg(long, group = "where")]
    pub print: bool,
    /// Print the new settings without writing them
    #[arg(long, conflicts_with = "print")]
    pub dry_run: bool,
    /// Replace the policy that hooks of this agent used with this store before
    #[arg(long)]
    pub policy_change: bool,
    #[command(flatten)]
    pub run: HookRun,
}

#[derive(Debug, Args)]
pub struct HookStatus {
    /// Also check this settings file
    #[arg(long, value_name = "FILE", requires = "dialect")]
    pub settings: Option<PathBuf>,
    /// Check only this coding agent
    #[arg(value_enum, value_name = "AGENT")]
    pub dialect: Option<Dialect>,
}
