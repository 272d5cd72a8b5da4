//! The command line's grammar.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use countersign::state::State;

use crate::bench::BenchArgs;
use crate::duration;
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
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The store: a file, or a `postgres://` URL
    #[arg(long, global = true, value_name = "PATH|URL", env = "COUNTERSIGN_STORE", default_value = store::DEFAULT, hide_env_values = true)]
    pub store: String,
    /// The policy; `countersign.toml` if it is there, else everything is held
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
    /// Propose to undo a call that succeeded
    Undo(Undo),
    /// Take a pending approval back
    Withdraw(Withdraw),
    /// Say how a call ended whose outcome is unknown
    Reconcile(Reconcile),
    /// End everything whose time is up, now
    Expire,
    /// Say what a reply means: yes, no or something else, and which words decided
    Read(Read),
    /// Check a policy, or try a call against it
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Keys for secrets that calls come with
    #[command(subcommand)]
    Key(KeyCommand),
    /// Measure how fast the gate is on this machine
    #[command(after_help = "\
Figures of one run compare; figures of two runs on a busy machine do not.

Examples:
  countersign bench                                  in a directory of its own, here
  countersign bench cycle --callers 16 --seconds 5
  countersign bench cycle --on postgres://postgres@127.0.0.1/bench")]
    Bench(BenchArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
The arguments are kept, shown and run byte for byte as they are given.

Examples:
  countersign propose create_contact '{\"name\":\"Maria Garcia\"}' --agent crm
  countersign propose send_mail @mail.json --channel telegram:42
  generate-arguments | countersign propose send_mail -
  countersign propose --calls batch.jsonl            one {\"tool\":…, \"arguments\":{…}} per line
  countersign propose send_mail @mail.json --exec ./send-mail")]
pub struct Propose {
    /// The tool's name
    #[arg(required_unless_present = "calls")]
    pub tool: Option<String>,
    /// One JSON object, `@FILE`, or `-` for standard input
    #[arg(value_name = "ARGUMENTS|@FILE|-", allow_hyphen_values = true)]
    pub arguments: Option<String>,
    /// A batch: one `{"tool":…, "arguments":{…}}` per line; `-` for standard input
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["tool", "arguments", "definition", "secret_env"])]
    pub calls: Option<PathBuf>,
    /// The agent that asks
    #[arg(long, value_name = "NAME", default_value = "command-line")]
    pub agent: String,
    /// The conversation; a new proposal there takes the place of the pending one
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// The agent's run
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// The agent's session
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// The agent's own words; shown apart, as its claim
    #[arg(long, value_name = "TEXT")]
    pub claim: Option<String>,
    /// The same key again is the same proposal, not a second one
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// The hash of the tool's definition, 64 hex digits
    #[arg(long, value_name = "HASH")]
    pub definition: Option<String>,
    /// The environment variable with a credential the call needs; kept sealed
    #[arg(long, value_name = "VAR")]
    pub secret_env: Option<String>,
    /// Wait for the decision, at most so long
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, value_parser = duration::parse)]
    pub wait: Option<Option<Duration>>,
    #[command(flatten)]
    pub exec: Exec,
}

/// Running calls from here.
#[derive(Clone, Debug, Args)]
pub struct Exec {
    /// Run each approved call with this command; all that follows belongs to it, so this comes last
    #[arg(long, value_name = "CMD [ARGS]", num_args = 1.., allow_hyphen_values = true)]
    pub exec: Option<Vec<String>>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign list
  countersign list --state denied --agent crm --limit 20
  countersign list --all --json | jq '.approvals[].description'")]
pub struct List {
    /// Also what is over, newest first
    #[arg(long, conflicts_with = "state")]
    pub all: bool,
    /// Only those in this state
    #[arg(long, value_parser = state, value_name = "STATE")]
    pub state: Option<State>,
    /// Only this agent's
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Only those of this conversation
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// Only those of this run
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// At most so many, up to 500
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub limit: u16,
    /// Only those behind this one
    #[arg(long, value_name = "ID")]
    pub after: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
ID is the whole id, or at least 4 characters of its beginning or end.

Examples:
  countersign show 4f1c --full
  countersign show 4f1c --raw 1 > arguments.json     exactly the bytes that would run")]
pub struct Show {
    /// The approval
    pub id: String,
    /// Also what happened to it, event by event
    #[arg(long)]
    pub events: bool,
    /// Show long values whole
    #[arg(long)]
    pub full: bool,
    /// Write the exact argument bytes of call N, and nothing else
    #[arg(long, value_name = "N", conflicts_with_all = ["events", "full"])]
    pub raw: Option<u8>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign approve 4f1c
  countersign approve 4f1c --only 1,3                     the others will never run
  countersign approve 4f1c --edit '2={\"to\":\"ana@acme.com\"}'
  countersign approve 4f1c --edit 1=@corrected.json")]
pub struct Approve {
    /// The approval
    pub id: String,
    /// Only these calls, counted from 1; the others are denied
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub only: Vec<u8>,
    /// Run call N with these arguments instead; may be given several times
    #[arg(long, value_name = "N=JSON|N=@FILE")]
    pub edit: Vec<String>,
    #[command(flatten)]
    pub decision: Decision,
}

#[derive(Debug, Args)]
pub struct Deny {
    /// The approval
    pub id: String,
    #[command(flatten)]
    pub decision: Decision,
}

/// What belongs to every decision.
#[derive(Debug, Args)]
pub struct Decision {
    /// Your words; the agent is told
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    /// Decide only if this is still what it shows; at least 12 hex digits
    #[arg(long, value_name = "HEX")]
    pub digest: Option<String>,
    /// The same key again is the same decision, not a second one
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The command given with --exec gets the exact argument bytes on standard input, and in its environment
COUNTERSIGN_CALL_ID (an idempotency key), COUNTERSIGN_TOOL and, if the call came with a secret,
COUNTERSIGN_SECRET. What it writes to standard output is the result. Exit code 0 means that it succeeded,
any other that it failed; killed by a signal, or out of time, that nobody knows.

Examples:
  countersign wait 4f1c --timeout 10m
  countersign wait 4f1c --exec ./send-mail --dry-run")]
pub struct Wait {
    /// The approval
    pub id: String,
    /// Give up after this long; that decides nothing
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// Wait until its calls have also run
    #[arg(long)]
    pub finished: bool,
    #[command(flatten)]
    pub exec: Exec,
}

#[derive(Debug, Args)]
pub struct Undo {
    /// The call: `ID.N`, or `ID` if the approval holds one call
    #[arg(value_name = "CALL")]
    pub call: String,
    /// The conversation to ask in
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// The same key again is the same proposal, not a second one
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Debug, Args)]
pub struct Withdraw {
    /// The approval
    pub id: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("outcome").required(true))]
pub struct Reconcile {
    /// The call: `ID.N`, or `ID` if the approval holds one call
    #[arg(value_name = "CALL")]
    pub call: String,
    /// It did what it was to do
    #[arg(long, group = "outcome")]
    pub succeeded: bool,
    /// It did not
    #[arg(long, group = "outcome")]
    pub failed: bool,
    /// How you know
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A reply is yes or no only when every word of it belongs to a plain answer. No store is touched, no model asked.

Examples:
  countersign read 'Yes, go ahead' --prompt 'Delete 13 paddocks?'
  countersign read 'Sí, borrar' --yes 'Sí, borrar' --language es --destructive
  countersign read --jsonl < replies.jsonl           {\"id\",\"lang\",\"prompt\",\"reply\"} per line in,
                                                     {\"id\",\"decision\",\"why\"} out")]
pub struct Read {
    /// The reply
    #[arg(
        value_name = "REPLY",
        required_unless_present = "jsonl",
        allow_hyphen_values = true
    )]
    pub text: Option<String>,
    /// What the person was shown
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// The person's language, such as `es` or `pt-BR`; any, if you do not say
    #[arg(long, value_name = "TAG")]
    pub language: Option<String>,
    /// What the approving button says
    #[arg(long, value_name = "LABEL")]
    pub yes: Option<String>,
    /// What the denying button says
    #[arg(long, value_name = "LABEL")]
    pub no: Option<String>,
    /// Something destructive is offered: a filler such as `ok` is too little
    #[arg(long)]
    pub destructive: bool,
    /// Read many, one JSON object per line of standard input
    #[arg(long, conflicts_with = "text")]
    pub jsonl: bool,
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Find every mistake in a policy, to the line
    #[command(after_help = "Example:\n  countersign policy check examples/policy.toml")]
    Check {
        /// The file; the policy in force if none is given
        file: Option<PathBuf>,
    },
    /// Say what would happen to a call, without proposing it
    #[command(
        after_help = "Example:\n  countersign policy try refund '{\"amount\":250,\"currency\":\"EUR\"}'"
    )]
    Try {
        /// The tool's name
        tool: String,
        /// One JSON object, `@FILE`, or `-` for standard input
        #[arg(value_name = "ARGUMENTS|@FILE|-", allow_hyphen_values = true)]
        arguments: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Print a new sealing key
    #[command(after_help = "Example:\n  (umask 077; countersign key generate > seal.key)")]
    Generate,
}

fn state(text: &str) -> Result<State, String> {
    let found = State::ALL.into_iter().find(|state| state.as_str() == text);
    found.ok_or_else(|| {
        let words = State::ALL.map(State::as_str);
        format!("`{text}` is not a state; one of {}", words.join(", "))
    })
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
