//! The command line's grammar: what every command shares, and the list of commands.

mod access;
mod chat;
mod decide;
mod explain;
mod hook;
mod mcp;
mod policy;
mod propose;
mod serve;
mod trust;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use access::{KeyCommand, PersonCommand, TokenCommand};
pub use chat::Chat;
pub use decide::{Approve, Decision, Deny, List, Reconcile, Show, Watch};
pub use explain::{Read, Trace};
pub use hook::{HookCommand, HookInstall, HookRun, HookStatus};
pub use mcp::Mcp;
pub use policy::{PolicyCommand, PolicyInit};
pub use propose::{Propose, Undo, Wait, Withdraw};
pub use serve::{Backup, Doctor, Purge, Restore, Serve};
pub use trust::Trust;

use crate::bench::BenchArgs;
use crate::store;

/// An AI agent proposes tool calls; only your recorded decision on those exact bytes lets them run, at most once.
#[derive(Debug, Parser)]
#[command(name = "countersign", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  countersign propose send_mail '{\"to\":\"maria@acme.com\"}'   an agent asks
  countersign list                                          you look
  countersign show 4f1c                                     you look closer
  countersign approve 4f1c                                  you sign
  countersign wait 4f1c --exec ./send-mail                  it runs, once

Exit codes:
  0 done   1 error   2 wrong usage   3 forbidden by the policy   4 refused by the gate
  5 not approved   6 timed out   7 a call failed, or nobody knows   130 interrupted

Whoever can open the store can decide: run agents under another account.")]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The store: the full path of a file, or a `postgres://` URL; `countersign.db` in this folder if you do not say
    #[arg(
        long,
        global = true,
        value_name = "PATH|URL",
        env = "COUNTERSIGN_STORE",
        hide_env_values = true
    )]
    pub store: Option<String>,
    /// A server to work at instead of a store, as https://countersign.example.com
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "COUNTERSIGN_SERVER",
        hide_env_values = true
    )]
    pub server: Option<String>,
    /// The token to show the server; better put it into the environment, where others cannot see it
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "COUNTERSIGN_TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,
    /// A file with the token to show the server
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "COUNTERSIGN_TOKEN_FILE",
        hide_env_values = true
    )]
    pub token_file: Option<PathBuf>,
    /// The full path of the policy; `countersign.toml` in this folder if you have trusted it; without one everything is held
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "COUNTERSIGN_POLICY",
        hide_env_values = true
    )]
    pub policy: Option<PathBuf>,
    /// Whose world
    #[arg(long, global = true, value_name = "NAME", default_value = "main")]
    pub tenant: String,
    /// Who you are; the account's name if you do not say
    #[arg(long = "as", global = true, value_name = "NAME")]
    pub name: Option<String>,
    /// A group you are in, besides `approvers`; may be given several times
    #[arg(long, global = true, value_name = "NAME")]
    pub group: Vec<String>,
    /// The key for secrets that calls come with; or `COUNTERSIGN_SEAL_KEY`
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "COUNTERSIGN_SEAL_KEY_FILE",
        hide_env_values = true
    )]
    pub seal_key_file: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// When to use colours
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    pub color: Color,
}

impl Global {
    /// Where the store is.
    pub fn store(&self) -> &str {
        self.store.as_deref().unwrap_or(store::DEFAULT)
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service: the API and the inbox page
    #[command(after_help = "\
Without any settings it listens on 127.0.0.1:8787, keeps everything in `countersign.db` here, and prints a link
to sign in with. Settings come from flags, the environment and `countersign-serve.toml`, in this order. What lies in
this folder already is used only if you have trusted it (`countersign trust`).

Examples:
  countersign serve
  countersign serve --listen 127.0.0.1:9000 --policy ~/policy.toml
  countersign serve --config /etc/countersign/serve.toml --store postgres://countersign@db/countersign")]
    Serve(Serve),
    /// Talk to an agent: what it wants to change is put to you as a card
    Chat(Chat),
    /// Stand between an MCP client and a server: a person signs what is not a read
    Mcp(Mcp),
    /// Stand between a coding agent and its tools: Claude Code, Codex, Gemini CLI
    #[command(subcommand)]
    Hook(HookCommand),
    /// Tokens: credentials for agents and other programs
    #[command(subcommand)]
    Token(TokenCommand),
    /// People who sign in and decide
    #[command(subcommand)]
    Person(PersonCommand),
    /// Propose tool calls, as an agent does
    Propose(Propose),
    /// List what waits for a decision
    List(List),
    /// Show an approval: what would run, who asks, what became of it
    Show(Show),
    /// Let calls run, with exactly the arguments shown
    Approve(Approve),
    /// Say no
    Deny(Deny),
    /// Wait until an approval is decided, and run what it releases
    Wait(Wait),
    /// Open the inbox on this terminal: look and decide, full screen
    #[cfg(feature = "tui")]
    Inbox,
    /// Follow what happens, live
    Watch(Watch),
    /// Propose to undo a call that succeeded
    Undo(Undo),
    /// Take a pending approval back
    Withdraw(Withdraw),
    /// Say how a call ended whose outcome is unknown
    Reconcile(Reconcile),
    /// End everything whose time is up, now
    Expire,
    /// Show where each value of a call came from
    Trace(Trace),
    /// Say what a reply means: yes, no or something else, and which words decided
    Read(Read),
    /// Check a policy, try a call against it, or write a first one
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Keys for secrets that calls come with
    #[command(subcommand)]
    Key(KeyCommand),
    /// Trust files, stores and servers that a folder or settings brought along
    Trust(Trust),
    /// Look whether everything is as it should be
    Doctor(Doctor),
    /// Copy the whole store to a file, while it is in use
    Backup(Backup),
    /// Begin anew from a backup; everything open in it is voided
    Restore(Restore),
    /// Erase the content of what is long over
    Purge(Purge),
    /// Measure how fast the gate is on this machine
    #[command(after_help = "\
Figures of one run compare; figures of two runs on a busy machine do not.

Examples:
  countersign bench                                  in a directory of its own, here
  countersign bench cycle --callers 16 --seconds 5
  countersign bench cycle --on postgres://postgres@127.0.0.1/bench")]
    Bench(BenchArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }
}
