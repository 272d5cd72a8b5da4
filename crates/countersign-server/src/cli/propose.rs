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
    /// Name of the tool
    #[arg(required_unless_present = "calls")]
    pub tool: Option<String>,
    /// Arguments: a JSON object, `@FILE`, or `-` for standard input
    #[arg(value_name = "ARGUMENTS|@FILE|-", allow_hyphen_values = true)]
    pub arguments: Option<String>,
    /// File with a batch, one `{"tool":…, "arguments":{…}}` per line; `-` for standard input
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["tool", "arguments", "definition", "secret_env"])]
    pub calls: Option<PathBuf>,
    /// Name of the agent [default: service:command-line; with --server, the token's agent]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Channel; a new proposal replaces the pending one in it
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// Run id of the agent
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Session id of the agent
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// The agent's own description; shown separately, as its claim
    #[arg(long, value_name = "TEXT")]
    pub claim: Option<String>,
    /// Idempotency key: repeating it repeats this proposal, not a new one
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Conversation before the call, to show where each value came from (see `countersign trace --help`)
    #[arg(long, value_name = "FILE.json")]
    pub conversation: Option<PathBuf>,
    /// Hash of the tool's definition (64 hex digits)
    #[arg(long, value_name = "HASH")]
    pub definition: Option<String>,
    /// Environment variable with a credential for the call; stored encrypted
    #[arg(long, value_name = "VAR")]
    pub secret_env: Option<String>,
    /// Wait this long for the decision
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
    /// Id of the approval
    pub id: String,
    /// Stop waiting after this long; decides nothing
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// Also wait until the calls have run
    #[arg(long)]
    pub finished: bool,
    #[command(flatten)]
    pub exec: Exec,
}

/// Options for running calls from here.
#[derive(Clone, Debug, Args)]
pub struct Exec {
    /// Environment variable to pass to the command, besides PATH, HOME and the like (repeatable)
    #[arg(long, value_name = "NAME", value_parser = environment::name, requires = "exec")]
    pub pass_env: Vec<String>,
    /// Command that runs each approved call; must come last
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
    /// Call: `ID.N`, or `ID` if the approval has one call
    #[arg(value_name = "CALL")]
    pub call: String,
    /// Channel of the new approval
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// Idempotency key: repeating it repeats this proposal, not a new one
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign withdraw 4f1c
  countersign withdraw 4f1c --reason 'no longer needed'")]
pub struct Withdraw {
    /// Id of the approval
    pub id: String,
    /// Reason
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}
