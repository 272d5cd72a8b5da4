//! Arguments of the commands with which a person views and decides approvals.

use clap::Args;
use countersign::state::State;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign list
  countersign list --state denied --agent crm --limit 20
  countersign list --all --json | jq '.approvals[].description'")]
pub struct List {
    /// Include approvals that have ended, newest first
    #[arg(long, conflicts_with = "state")]
    pub all: bool,
    /// Only approvals in this state
    #[arg(long, value_parser = state, value_name = "STATE")]
    pub state: Option<State>,
    /// Only approvals of this agent
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Only approvals of this channel
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// Only approvals of this run
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Maximum number to list, up to 500
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub limit: u16,
    /// Continue after this approval
    #[arg(long, value_name = "ID")]
    pub after: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
ID is the full id, or at least 4 characters from its end (as `list` shows them) or from its beginning. An ambiguous ID is
refused, and the matching approvals are listed.

Examples:
  countersign show 4f1c --full
  countersign show 4f1c --raw 1 > arguments.json     exactly the bytes that would run")]
pub struct Show {
    /// Id of the approval
    pub id: String,
    /// Also print the events
    #[arg(long)]
    pub events: bool,
    /// Show long values in full
    #[arg(long)]
    pub full: bool,
    /// Write the exact argument bytes of call N, and nothing else
    #[arg(long, value_name = "N", conflicts_with_all = ["events", "full"])]
    pub raw: Option<u8>,
    /// With --raw: include arguments that the policy marks as secret (local store only)
    #[arg(long, requires = "raw")]
    pub reveal_secrets: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign watch --what proposed
  countersign watch --agent crm --json | jq -r .approval")]
pub struct Watch {
    /// Only events of this agent's approvals
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Only events of this channel's approvals
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// Only these kinds of events, for example `proposed,approved`
    #[arg(long, value_name = "EVENT,…", value_delimiter = ',')]
    pub what: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal, the whole card is shown before you are asked. A script must give the digest of the card it has seen.

Examples:
  countersign approve 4f1c
  countersign approve 4f1c --digest 9c1185a5c5e9          from `show --full` or `show --json`
  countersign approve 4f1c --only 1,3                     the others will never run
  countersign approve 4f1c --edit '2={\"to\":\"ana@acme.com\"}'
  countersign approve 4f1c --edit 1=@corrected.json")]
pub struct Approve {
    /// Id of the approval
    pub id: String,
    /// Approve only these calls, counted from 1; the others are denied
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub only: Vec<u8>,
    /// Run call N with these arguments instead (repeatable)
    #[arg(long, value_name = "N=JSON|N=@FILE")]
    pub edit: Vec<String>,
    #[command(flatten)]
    pub decision: Decision,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign deny 4f1c
  countersign deny 4f1c --comment 'the customer asked us to wait'")]
pub struct Deny {
    /// Id of the approval
    pub id: String,
    #[command(flatten)]
    pub decision: Decision,
}

/// Options of every decision.
#[derive(Debug, Args)]
pub struct Decision {
    /// Comment, which the agent is told
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    /// Decide only if the card still has this digest (at least 12 hex digits)
    #[arg(long, value_name = "HEX")]
    pub digest: Option<String>,
    /// Idempotency key: repeating it repeats this decision, not a new one
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("outcome").required(true))]
#[command(after_help = "\
First check what the call did. The gate never runs it a second time.

Examples:
  countersign reconcile 4f1c --succeeded --note 'the mail is in the outbox'
  countersign reconcile 4f1c.2 --failed")]
pub struct Reconcile {
    /// Call: `ID.N`, or `ID` if the approval has one call
    #[arg(value_name = "CALL")]
    pub call: String,
    /// The call succeeded
    #[arg(long, group = "outcome")]
    pub succeeded: bool,
    /// The call failed
    #[arg(long, group = "outcome")]
    pub failed: bool,
    /// Note on how you know
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

fn state(text: &str) -> Result<State, String> {
    let found = State::ALL.into_iter().find(|state| state.as_str() == text);
    found.ok_or_else(|| {
        let words = State::ALL.map(State::as_str);
        format!("`{text}` is not a state; one of {}", words.join(", "))
    })
}
