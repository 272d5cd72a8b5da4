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

use crate::output::shell_word;
use crate::store;

/// An AI agent proposes tool calls; only your recorded decision on those exact bytes lets them run, at most once.
#[derive(Debug, Parser)]
#[command(name = "countersign", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  countersign propose send_mail '{\"to\":\"maria@acme.com\"}'   an agent proposes
  countersign list                                          you see it
  countersign show 4f1c                                     you read it
  countersign approve 4f1c                                  you approve
  countersign wait 4f1c --exec ./send-mail                  it runs, once

Exit codes:
  0 done   1 error   2 wrong usage   3 forbidden by the policy   4 refused by the gate
  5 not approved   6 timed out   7 a call failed, or its outcome is unknown   130 interrupted

Anyone who can open the store's file can approve: run agents under another account.")]
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
        let mut cli = alone.map_or_else(|| Cli::try_parse_from(&words), Ok)?;
        let is_hook = matches!(cli.command, Command::Hook(_));
        if is_hook && cli.global.store.is_some() && cli.global.server.is_some() {
            cli.global.prefer(&Cli::flags(&words));
        }
        Ok(cli)
    }

    /// Parses the options without environment variables; `None` if the command line alone is not valid.
    fn flags(words: &[OsString]) -> Option<Global> {
        let matches = unset(Cli::command()).try_get_matches_from(words).ok()?;
        Cli::from_arg_matches(&matches).ok().map(|cli| cli.global)
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

/// Removes the environment variables from all options, also from those of subcommands.
fn unset(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|option| option.env(Resettable::Reset));
    command.mut_subcommands(unset)
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Store to use: the full path of a SQLite file, or a `postgres://` URL [default: countersign.db in this folder]
    #[arg(
        long,
        global = true,
        value_name = "PATH|URL",
        env = "COUNTERSIGN_STORE",
        hide_env_values = true
    )]
    pub store: Option<String>,
    /// URL of a Countersign server to use instead of a store, such as https://countersign.example.com
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "COUNTERSIGN_SERVER",
        hide_env_values = true
    )]
    pub server: Option<String>,
    /// Token for the server; visible to other processes, so prefer the variable or --token-file
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "COUNTERSIGN_TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,
    /// File that contains the token for the server
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "COUNTERSIGN_TOKEN_FILE",
        hide_env_values = true
    )]
    pub token_file: Option<PathBuf>,
    /// Full path of the policy [default: countersign.toml in this folder, if trusted]; without a policy, every call is held
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "COUNTERSIGN_POLICY",
        hide_env_values = true
    )]
    pub policy: Option<PathBuf>,
    /// Tenant to use [default: main]
    #[arg(long, global = true, value_name = "NAME")]
    pub tenant: Option<String>,
    /// Your name [default: your account on this machine]
    #[arg(long = "as", global = true, value_name = "NAME")]
    pub name: Option<String>,
    /// A group you belong to, besides `approvers` (repeatable)
    #[arg(long, global = true, value_name = "NAME")]
    pub group: Vec<String>,
    /// File with the key that encrypts credentials; or set `COUNTERSIGN_SEAL_KEY` to the key
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "COUNTERSIGN_SEAL_KEY_FILE",
        hide_env_values = true
    )]
    pub seal_key_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// When to use colours
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    pub color: Color,
}

impl Global {
    /// If a store and a server are both set, one on the command line and one in the environment, keeps only the one on
    /// the command line.
    fn prefer(&mut self, flags: &Option<Global>) {
        let Some(flags) = flags else {
            return;
        };
        match (&flags.store, &flags.server) {
            (Some(_), None) => self.server = None,
            (None, Some(_)) => self.store = None,
            _ => {}
        }
    }

    /// Returns the path or URL of the store, or the default path.
    pub fn store(&self) -> &str {
        self.store.as_deref().unwrap_or(store::DEFAULT)
    }

    /// Returns the option that names the same store or server in another command, with a space before it. Empty for the
    /// default store, and for a PostgreSQL URL, which may contain a password.
    pub fn place_words(&self) -> String {
        match (&self.store, &self.server) {
            (Some(store), _) if !store::is_postgres(store) => format!(" --store {}", shell_word(store)),
            (None, Some(server)) => format!(" --server {}", shell_word(server)),
            _ => String::new(),
        }
    }

    /// Returns the tenant to work in, `main` by default.
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
Without any settings, the service listens on 127.0.0.1:8787, stores everything in `countersign.db` in this folder,
and prints a sign-in link. Flags override the environment, which overrides `countersign-serve.toml`. Existing files in
this folder are used only if you have trusted them (`countersign trust`).

Examples:
  countersign serve
  countersign serve --listen 127.0.0.1:9000 --policy ~/policy.toml
  countersign serve --config /etc/countersign/serve.toml --store postgres://countersign@db/countersign")]
    Serve(Serve),
    /// Chat with an agent; you approve or deny each change it proposes
    Chat(Chat),
    /// Run the MCP gateway: calls that are not reads wait for a person's approval
    Mcp(Mcp),
    /// Install or run the hook for a coding agent (Claude Code, Codex, Gemini CLI)
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign hook install claude-code --user
  countersign hook status"
    )]
    Hook(HookCommand),
    /// Manage tokens: credentials for agents and other programs
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign token create --agent crm --scope propose,wait
  countersign token list"
    )]
    Token(TokenCommand),
    /// Manage the accounts of people who sign in and decide
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
    /// List approvals, by default those waiting for a decision
    List(List),
    /// Show one approval: its calls, who proposed them, and its state
    Show(Show),
    /// Approve calls, so that they run once with exactly the arguments shown
    Approve(Approve),
    /// Deny an approval: none of its calls will run
    Deny(Deny),
    /// Wait until an approval is decided; optionally run its approved calls
    Wait(Wait),
    /// Open the full-screen inbox in this terminal
    #[cfg(feature = "tui")]
    #[command(after_help = "\
Examples:
  countersign inbox
  countersign inbox --as ana --group finance
  countersign inbox --server https://countersign.example.com --token-file ~/.countersign/ana")]
    Inbox,
    /// Print events as they happen
    Watch(Watch),
    /// Propose to undo a call that succeeded
    Undo(Undo),
    /// Withdraw a pending approval, so that nobody can decide it
    Withdraw(Withdraw),
    /// Record the outcome of a call that ended as unknown
    Reconcile(Reconcile),
    /// Expire overdue approvals now (a running service does this by itself)
    #[command(after_help = "\
Examples:
  countersign expire
  countersign expire --store /var/lib/countersign/countersign.db")]
    Expire,
    /// Show where each value of a call came from
    Trace(Trace),
    /// Show how a chat reply would be read: yes, no or something else, and why
    Read(Read),
    /// Print instructions for an agent's prompt: how to work with calls that wait for a person
    #[command(after_help = "\
For agents that do not use our agent loop: add the text to their system prompt. A service returns it at /v1/guide.

Examples:
  countersign guide
  countersign guide > guide.txt")]
    Guide,
    /// Check a policy, test a call against it, or create a first one
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign policy check ~/policy.toml
  countersign policy try refund '{\"amount\":250}' --policy ~/policy.toml"
    )]
    Policy(PolicyCommand),
    /// Generate keys that encrypt the credentials stored with calls
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign key generate > ~/seal.key"
    )]
    Key(KeyCommand),
    /// Trust files, stores and servers that were found rather than named by you
    Trust(Trust),
    /// Check settings, store, policy and installed hooks for problems
    Doctor(Doctor),
    /// Compare the store's clock with this machine's clock, or reset it
    Clock(Clock),
    /// Verify that nobody has tampered with the stored history
    Verify(Verify),
    /// Back up the store to a file; works while a service runs
    Backup(Backup),
    /// Restore a store from a backup; all open approvals in it are cancelled
    Restore(Restore),
    /// Erase arguments, results and comments of approvals that ended long ago
    Purge(Purge),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every command and subcommand with its full name, such as `countersign token create`.
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
            // Text after a pipe, a redirection or three spaces is not part of the command.
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
