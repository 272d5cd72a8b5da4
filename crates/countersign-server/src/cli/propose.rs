//! Arguments of the commands for an agent: propose, wait and run, undo, withdraw.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::{duration, environment};

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
    /// The agent that asks; `service:command-line` if you do not say, and at a server the one the token was made for
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
    /// Idempotency key: the same key again is the same proposal, not a second one
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

/// Running calls from here.
#[derive(Clone, Debug, Args)]
pub struct Exec {
    /// A variable of the environment that the command gets besides PATH, HOME and the like; may be given several times
    #[arg(long, value_name = "NAME", value_parser = environment::name, requires = "exec")]
    pub pass_env: Vec<String>,
    /// Run each approved call with this command; all that follows belongs to it, so this comes last
    #[arg(long, value_name = "CMD [ARGS]", num_args = 1.., allow_hyphen_values = true)]
    pub exec: Option<Vec<String>>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The undo is an approval of its own, which a person decides. How a tool is undone stands in the policy that the call was
proposed under: give the same `--policy` here.

Examples:
  countersign undo 4f1c
  countersign undo 4f1c.2 --policy ~/policy.toml")]
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
#[command(after_help = "\
Examples:
  countersign withdraw 4f1c
  countersign withdraw 4f1c --reason 'no longer needed'")]
pub struct Withdraw {
    /// The approval
    pub id: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}
