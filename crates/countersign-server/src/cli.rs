//! Grammar of the command line: global options and the list of commands.

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
mod verify;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

pub use access::{KeyCommand, PersonCommand, TokenCommand};
pub use chat::Chat;
pub use decide::{Approve, Decision, Deny, List, Reconcile, Show, Watch};
pub use explain::{Read, Trace};
pub use hook::{HookCommand, HookInstall, HookRun, HookStatus};
pub use mcp::Mcp;
pub use policy::{PolicyCommand, PolicyInit};
pub use propose::{Propose, Undo, Wait, Withdraw};
pub use serve::{Backup, Clock, Doctor, Purge, Restore, Serve};
pub use trust::Trust;
pub use verify::Verify;

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

impl Cli {
    /// Parses the command line of this process.
    ///
    /// A hook whose command line names a store or a server, as `hook install` writes it, ignores environment variables:
    /// a variable that was set for something else must not redirect its calls and its token.
    pub fn of_process() -> Result<Cli, clap::Error> {
        let words: Vec<OsString> = std::env::args_os().collect();
        let is_hook = words.iter().any(|word| word == "hook");
        let alone = is_hook.then(|| Cli::without_environment(&words)).flatten();
        alone.map_or_else(|| Cli::try_parse_from(&words), Ok)
    }

    /// Parses the command line of a hook that answers events and names a store or a server; `None` for any other
    /// command.
    fn without_environment(words: &[OsString]) -> Option<Cli> {
        let matches = unset(Cli::command()).try_get_matches_from(words).ok()?;
        let cli = Cli::from_arg_matches(&matches).ok()?;
        let is_placed = cli.global.store.is_some() || cli.global.server.is_some();
        let answers = matches!(&cli.command, Command::Hook(hook) if hook.answers().is_some());
        (is_placed && answers).then_some(cli)
    }
}

/// Removes the environment variables from all options.
fn unset(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|option| option.env(Resettable::Reset));
    command.mut_subcommands(unset)
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The store: the full path of a file, or a `postgres://` URL; by default `countersign.db` in this folder
    #[arg(
        long,
        global = true,
        value_name = "PATH|URL",
        env = "COUNTERSIGN_STORE",
        hide_env_values = true
    )]
    pub store: Option<String>,
    /// Server to work at instead of a store, such as https://countersign.example.com
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "COUNTERSIGN_SERVER",
        hide_env_values = true
    )]
    pub server: Option<String>,
    /// Token for the server; every process of the machine can see it here, so prefer the variable or --token-file
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "COUNTERSIGN_TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,
    /// File that holds the token for the server
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
    /// Tenant to work in; `main` unless you say otherwise
    #[arg(long, global = true, value_name = "NAME")]
    pub tenant: Option<String>,
    /// Your name; by default that of your account on this machine
    #[arg(long = "as", global = true, value_name = "NAME")]
    pub name: Option<String>,
    /// A group you are in, besides `approvers`; may be given several times
    #[arg(long, global = true, value_name = "NAME")]
    pub group: Vec<String>,
    /// File with the key that seals secrets; or put the key into `COUNTERSIGN_SEAL_KEY`
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
    /// Path or URL of the store.
    pub fn store(&self) -> &str {
        self.store.as_deref().unwrap_or(store::DEFAULT)
    }

    /// Tenant to work in, `main` by default.
    pub fn tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or("main")
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
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign hook install claude-code --user
  countersign hook status"
    )]
    Hook(HookCommand),
    /// Tokens: credentials for agents and other programs
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign token create --agent crm --scope propose,wait
  countersign token list"
    )]
    Token(TokenCommand),
    /// People who sign in and decide
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign person add ana --in approvers
  countersign person link ana                       a link to sign in with, once"
    )]
    Person(PersonCommand),
    /// Propose tool calls, as an agent does
    Propose(Propose),
    /// List what waits for a decision
    List(List),
    /// Show an approval: what would run, who asks, what became of it
    Show(Show),
    /// Let calls run, with exactly the arguments shown
    Approve(Approve),
    /// Deny an approval: none of its calls will run
    Deny(Deny),
    /// Wait until an approval is decided, and run what it releases
    Wait(Wait),
    /// Open the inbox on this terminal: look and decide, full screen
    #[cfg(feature = "tui")]
    #[command(after_help = "\
Examples:
  countersign inbox
  countersign inbox --as ana --group finance
  countersign inbox --server https://countersign.example.com --token-file ~/.countersign/ana")]
    Inbox,
    /// Follow what happens, live
    Watch(Watch),
    /// Propose to undo a call that succeeded
    Undo(Undo),
    /// Withdraw a pending approval: nobody can decide it any more
    Withdraw(Withdraw),
    /// Record how a call ended whose outcome is unknown
    Reconcile(Reconcile),
    /// End approvals and releases whose time is up, now; a running service does it by itself
    #[command(after_help = "\
Examples:
  countersign expire
  countersign expire --store /var/lib/countersign/countersign.db")]
    Expire,
    /// Show where each value of a call came from
    Trace(Trace),
    /// Say what a reply means: yes, no or something else, and which words decided
    Read(Read),
    /// Check a policy, try a call against it, or write a first one
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign policy check ~/policy.toml
  countersign policy try refund '{\"amount\":250}' --policy ~/policy.toml"
    )]
    Policy(PolicyCommand),
    /// Keys that seal the secrets that calls come with
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign key generate > ~/seal.key"
    )]
    Key(KeyCommand),
    /// Trust files, stores and servers that a folder or settings brought along
    Trust(Trust),
    /// Check the settings, the store, the policy and the hooks of coding agents
    Doctor(Doctor),
    /// Compare the store's time with this machine's clock, or set it back
    Clock(Clock),
    /// Check that what is stored was not changed by other means
    Verify(Verify),
    /// Copy the whole store to a file, while it is in use
    Backup(Backup),
    /// Restore a store from a backup; everything open in it is voided
    Restore(Restore),
    /// Erase arguments, results and comments of approvals that ended long ago
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

    /// Lists every command, including subcommands, with its full name.
    fn commands(command: &clap::Command, words: &str) -> Vec<(String, clap::Command)> {
        let below = command.get_subcommands().flat_map(|sub| {
            let words = format!("{words} {}", sub.get_name());
            commands(sub, &words)
        });
        let own = (words.to_owned(), command.clone());
        std::iter::once(own).chain(below).collect()
    }

    /// Splits a shell command line into words. Supports only what the examples need: quotes, and a backslash at the end
    /// of a line.
    fn shell_words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
        for character in line.chars() {
            match character {
                '\'' => {
                    is_quoted = !is_quoted;
                    word.get_or_insert_default();
                }
                ' ' if !is_quoted => words.extend(word.take()),
                character => word.get_or_insert_default().push(character),
            }
        }
        words.extend(word);
        words
    }

    /// Returns this program's command lines from the examples in a help text.
    fn examples(help: &str) -> Vec<String> {
        let Some((_, examples)) = help.split_once("Examples:\n") else {
            return Vec::new();
        };
        let examples = examples.split("\n\n").next().unwrap_or_default();
        let lines = examples.replace("\\\n    ", " ");
        let own = |line: &str| {
            let at = line.find("countersign ")?;
            // Ignore what follows a pipe, a redirection or three spaces.
            let line = line.get(at..)?;
            let ends = [" | ", " > ", " < ", "   "]
                .iter()
                .filter_map(|end| line.find(end));
            line.get(..ends.min().unwrap_or(line.len())).map(str::to_owned)
        };
        lines.lines().filter_map(own).collect()
    }

    /// Returns this program's command lines from the shell blocks of a document.
    fn documented(text: &str) -> Vec<String> {
        let blocks = text.split("```").skip(1).step_by(2);
        let blocks = blocks.filter(|block| block.starts_with("sh\n") || block.starts_with('\n'));
        let lines = blocks.flat_map(|block| {
            let joined = block.replace("\\\n", " ");
            joined.lines().map(str::to_owned).collect::<Vec<_>>()
        });
        let own = |line: String| {
            let line = line.split(" #").next().unwrap_or_default().to_owned();
            let commands = line.split([';', '(', ')']).map(str::trim);
            let commands = commands.filter_map(|command| {
                let rest = command.strip_prefix("scripts/run ");
                let rest = rest.or_else(|| command.strip_prefix("countersign "))?;
                let ends = [" | ", " > ", " < "].iter().filter_map(|end| rest.find(end));
                Some(format!(
                    "countersign {}",
                    rest.get(..ends.min().unwrap_or(rest.len()))?
                ))
            });
            commands.collect::<Vec<_>>()
        };
        lines.flat_map(own).collect()
    }

    #[test]
    fn every_command_in_the_documents_is_understood() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = vec![root.join("README.md")];
        for folder in ["docs", "docs/clients"] {
            let found = std::fs::read_dir(root.join(folder)).unwrap();
            files.extend(found.map(|entry| entry.unwrap().path()));
        }
        let mut count = 0;
        for file in files
            .iter()
            .filter(|file| file.extension().is_some_and(|end| end == "md"))
        {
            for command in documented(&std::fs::read_to_string(file).unwrap()) {
                let parsed = Cli::try_parse_from(shell_words(&command));
                let is_help = |error: &clap::Error| !error.use_stderr();
                let is_understood = parsed.as_ref().map_or_else(is_help, |_| true);
                assert!(
                    is_understood,
                    "{}: `{command}`: {}",
                    file.display(),
                    parsed.unwrap_err()
                );
                count += 1;
            }
        }
        assert!(count > 50, "only {count} were looked at");
    }

    #[test]
    fn every_command_has_examples_that_are_understood() {
        let mut count = 0;
        for (words, command) in commands(&Cli::command(), "countersign") {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let examples = examples(&help);
            assert!(!examples.is_empty(), "`{words}` has no examples");
            let is_own = |example: &String| example.starts_with(&words);
            assert!(examples.iter().any(is_own), "`{words}` has no example of its own");
            for example in examples {
                let parsed = Cli::try_parse_from(shell_words(&example));
                assert!(parsed.is_ok(), "`{words}`: `{example}`: {}", parsed.unwrap_err());
                count += 1;
            }
        }
        assert!(count > 80, "only {count} were looked at");
    }

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }
}
