//! The command line's grammar.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use countersign::state::State;

use crate::access::Scope;
use crate::bench::BenchArgs;
use crate::duration;
use crate::serve::LogFormat;
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
    /// The store: a file, or a `postgres://` URL; `countersign.db` if you do not say
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
to sign in with. Settings come from flags, the environment and `countersign-serve.toml`, in this order.

Examples:
  countersign serve
  countersign serve --listen 127.0.0.1:9000 --policy policy.toml
  countersign serve --config serve.toml --store postgres://countersign@db/countersign")]
    Serve(Serve),
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
    /// Check a policy, or try a call against it
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Keys for secrets that calls come with
    #[command(subcommand)]
    Key(KeyCommand),
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
    /// The agent that asks; `command-line` if you do not say, and at a server the one the token was made for
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
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
    /// What was said before, so that each value's origin can be shown; see `countersign trace --help`
    #[arg(long, value_name = "FILE.json")]
    pub conversation: Option<PathBuf>,
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

#[derive(Debug, Args)]
#[command(after_help = "\
A conversation is {\"messages\":[…]}, oldest first, each with `role` and `text`: `user` is a person, `assistant` the
agent, `tool` a tool's result and `outside` text that strangers may have written, both with a `name`.

With --jsonl, each line of standard input is {\"id\",\"user\":[…],\"tools\":[{\"name\",\"text\"}],\"tool\",\"args\"}, and
each line of the answer {\"id\",\"leaves\":{\"/pointer\":\"user\" | \"tool:NAME\" | \"none\"}}: a derived value counts as the
person's only if all of its parts are.

Examples:
  countersign trace send_mail @mail.json --conversation chat.json
  countersign trace --jsonl < calls.jsonl > leaves.jsonl")]
pub struct Trace {
    /// The tool's name
    #[arg(required_unless_present = "jsonl")]
    pub tool: Option<String>,
    /// One JSON object, `@FILE`, or `-` for standard input
    #[arg(value_name = "ARGUMENTS|@FILE|-", allow_hyphen_values = true)]
    pub arguments: Option<String>,
    /// What was said before the call
    #[arg(long, value_name = "FILE.json", required_unless_present = "jsonl")]
    pub conversation: Option<PathBuf>,
    /// Many calls, one per line, each with what was said before it
    #[arg(long, conflicts_with_all = ["tool", "arguments", "conversation"])]
    pub jsonl: bool,
    /// Say on standard error how long tracing took
    #[arg(long, requires = "jsonl")]
    pub timing: bool,
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
#[command(after_help = "\
Examples:
  countersign watch --what proposed
  countersign watch --agent crm --json | jq -r .approval")]
pub struct Watch {
    /// Only of this agent's approvals
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Only of this conversation's approvals
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// Only events of these kinds, `proposed,approved` say
    #[arg(long, value_name = "EVENT,…", value_delimiter = ',')]
    pub what: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
With `--server` it looks at the server, else at the store, the policy and the settings here. It changes nothing.
The exit code is 1 when there is a problem.")]
pub struct Doctor {
    /// The service's configuration; `countersign-serve.toml` if it is there
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_CONFIG")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Backup {
    /// A new file; its checksum stands beside it, with `.sha256` behind the name
    pub file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What the backup says was pending, approved or running may have happened since: it is voided, and every token,
session and link is taken back. Stop the service first, and move the old store away.")]
pub struct Restore {
    /// The backup, with its checksum beside it
    #[arg(required_unless_present = "in_place")]
    pub file: Option<PathBuf>,
    /// The store was restored by other means, with pg_restore say: only void what is open in it
    #[arg(long, conflicts_with = "file")]
    pub in_place: bool,
}

#[derive(Debug, Args)]
pub struct Purge {
    /// What has not changed for so long, `90d` say
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub older_than: Duration,
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

#[derive(Debug, Args)]
pub struct Serve {
    /// The configuration; `countersign-serve.toml` if it is there
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_CONFIG")]
    pub config: Option<PathBuf>,
    /// Where to listen; 127.0.0.1:8787 if you do not say
    #[arg(long, value_name = "ADDRESS:PORT", env = "COUNTERSIGN_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// A name under which it is called, as browsers show it; may be given several times
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_HOST", value_delimiter = ',')]
    pub host: Vec<String>,
    /// Speak TLS with this certificate chain (PEM)
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTERSIGN_TLS_CERTIFICATE",
        requires = "tls_key"
    )]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTERSIGN_TLS_KEY",
        requires = "tls_certificate"
    )]
    pub tls_key: Option<PathBuf>,
    /// A proxy in front speaks TLS, and nobody else can reach this address
    #[arg(long, env = "COUNTERSIGN_BEHIND_PROXY")]
    pub behind_proxy: bool,
    /// How the log is written; `COUNTERSIGN_LOG` says how much (error, warn, info, debug)
    #[arg(long, value_enum, value_name = "FORMAT", env = "COUNTERSIGN_LOG_FORMAT")]
    pub log: Option<LogFormat>,
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token; it is shown once
    #[command(after_help = "\
Scopes: propose, wait (agents); read, decide, execute, reply, admin. A token that decides belongs to a person,
and can neither propose nor execute.

Examples:
  countersign token create --agent crm --scope propose,wait
  countersign token create --person ana --scope read,decide --expires 8h
  countersign token create --name crm-host --scope execute")]
    Create {
        /// What it may be used for
        #[arg(long, value_name = "SCOPE,…", value_delimiter = ',', required = true)]
        scope: Vec<Scope>,
        /// The agent it is for
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// The person it is for, or for whom the agent acts
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
        /// What it is called; the agent or the person if you do not say
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// How long it lasts, at most 90 days
        #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "30d")]
        expires: Duration,
    },
    /// List the tokens in force
    List,
    /// End a token at once
    Revoke {
        /// As `token list` shows it
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum PersonCommand {
    /// Let somebody sign in
    #[command(after_help = "\
Examples:
  countersign person add ana --in approvers --in finance
  countersign person link ana                       a link to sign in with, once
  countersign person password ana < password.txt")]
    Add {
        /// Their name
        name: String,
        /// A group they are in; may be given several times
        #[arg(long = "in", value_name = "GROUP", default_value = "approvers")]
        groups: Vec<String>,
        /// May look after the service
        #[arg(long)]
        admin: bool,
    },
    /// List everybody
    List,
    /// Put somebody into these groups, and no others
    Groups {
        /// Their name
        name: String,
        /// The groups
        #[arg(value_name = "GROUP")]
        groups: Vec<String>,
    },
    /// Read a password for somebody from standard input
    Password {
        /// Their name
        name: String,
    },
    /// Make a link that signs somebody in, once, within 15 minutes
    Link {
        /// Their name
        name: String,
    },
    /// Take somebody's account away; their sessions and tokens end with it
    Remove {
        /// Their name
        name: String,
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
