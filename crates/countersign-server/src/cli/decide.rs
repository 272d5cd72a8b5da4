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
    /// Also those that are decided or over, newest first
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
    /// Only those listed after this one
    #[arg(long, value_name = "ID")]
    pub after: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
ID is the whole id, or at least 4 characters of its end, as `list` shows them, or of its beginning. One that fits several
approvals is refused, and they are named.

Examples:
  countersign show 4f1c --full
  countersign show 4f1c --raw 1 > arguments.json     exactly the bytes that would run")]
pub struct Show {
    /// The approval
    pub id: String,
    /// Also the history, event by event
    #[arg(long)]
    pub events: bool,
    /// Show long values whole
    #[arg(long)]
    pub full: bool,
    /// Write the exact argument bytes of call N, and nothing else
    #[arg(long, value_name = "N", conflicts_with_all = ["events", "full"])]
    pub raw: Option<u8>,
    /// With --raw: write them also where the policy calls an argument secret; only at the store itself
    #[arg(long, requires = "raw")]
    pub reveal_secrets: bool,
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
On a terminal the whole card is shown and asked about first. A script gives the digest of the card it saw.

Examples:
  countersign approve 4f1c
  countersign approve 4f1c --digest 9c1185a5c5e9          as `show --full` and `show --json` have it
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
#[command(after_help = "\
Examples:
  countersign deny 4f1c
  countersign deny 4f1c --comment 'the customer asked us to wait'")]
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
#[command(group = clap::ArgGroup::new("outcome").required(true))]
#[command(after_help = "\
Look where the call acts first: the gate never runs it a second time.

Examples:
  countersign reconcile 4f1c --succeeded --note 'the mail is in the outbox'
  countersign reconcile 4f1c.2 --failed")]
pub struct Reconcile {
    /// The call: `ID.N`, or `ID` if the approval holds one call
    #[arg(value_name = "CALL")]
    pub call: String,
    /// The call did what it was to do
    #[arg(long, group = "outcome")]
    pub succeeded: bool,
    /// The call did not
    #[arg(long, group = "outcome")]
    pub failed: bool,
    /// How you know
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
