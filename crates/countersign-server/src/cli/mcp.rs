//! Arguments of `mcp`, the MCP gateway.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::mcp::{AskClient, HOLD, OnCancel, SESSION_IDLE, Settings};
use crate::{duration, environment};

#[derive(Debug, Args)]
#[command(after_help = "\
Everything passes as it is, but for tool calls: the policy lets one pass, or a person decides. Make a policy with
`countersign policy init -- CMD`. Approve in the inbox (`countersign serve` on the same store), or with
`countersign approve`.

Examples:
  countersign mcp --store ~/countersign.db --policy ~/files.toml --name files -- npx -y SERVER DIR
  countersign mcp --hold 4s -- uvx SERVER               for clients that give up after five seconds
  countersign mcp --url https://example.com/mcp         a server at an address
  countersign mcp --servers ~/servers.toml              several servers, tools called SERVER__TOOL
  countersign mcp --listen 127.0.0.1:8788 --url URL     for clients that speak HTTP, with agents' tokens")]
pub struct Mcp {
    /// What the server is called in the policy and on cards; made from its command if you do not say
    #[arg(long = "name", value_name = "NAME")]
    pub server_name: Option<String>,
    /// The agent that asks; what the client calls itself if you do not say
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// How long a call is held open before it is answered as pending; `CLIENT=DURATION` for one client only
    #[arg(long, value_name = "[CLIENT=]DURATION", value_parser = hold)]
    pub hold: Vec<(Option<String>, Duration)>,
    /// What becomes of an approval when the client cancels its call
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub on_cancel: OnCancel,
    /// Which calls the person at the client may approve there
    #[arg(long, value_enum, value_name = "WHICH", default_value_t)]
    pub ask_client: AskClient,
    /// Offer `countersign_approve`, for `--permission-prompt-tool` of Claude Code
    #[arg(long)]
    pub permission_prompt: bool,
    /// A server at an address, instead of a command
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub url: Option<String>,
    /// The environment variable with the token to show the server at that address
    #[arg(long, value_name = "VAR", requires = "url")]
    pub url_token_env: Option<String>,
    /// A TOML file that names one or several servers; see docs/mcp.md
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "url", "server_name"])]
    pub servers: Option<PathBuf>,
    /// The server keeps nothing between calls: run here what was proposed to another process of it that has ended
    #[arg(long, conflicts_with = "servers")]
    pub resume: bool,
    /// Start although a gateway to a server of this name runs with another policy: for replacing gateways one by one
    #[arg(long)]
    pub policy_change: bool,
    /// How long a gateway that says nothing counts as alive
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, hide = true)]
    pub lease: Option<Duration>,
    /// A variable of the environment that the server gets besides PATH, HOME and the like; may be given several times
    #[arg(long, value_name = "NAME", value_parser = environment::name, conflicts_with_all = ["url", "servers"])]
    pub pass_env: Vec<String>,
    /// Listen for clients over HTTP, at /mcp, instead of on standard input
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Let anybody in who can reach the address, which must be this machine's own
    #[arg(long, requires = "listen")]
    pub no_token: bool,
    /// End a session over HTTP, and the server that was started for it, after this long without a request [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = session_idle, requires = "listen")]
    pub session_idle: Option<Duration>,
    /// The server's command
    #[arg(last = true, required_unless_present_any = ["url", "servers"], value_name = "CMD")]
    pub command: Vec<String>,
}

impl Mcp {
    /// Converts the options into the gateway's settings.
    pub fn settings(&self) -> Settings {
        let general = self.hold.iter().rev().find(|(client, _)| client.is_none());
        let named = self.hold.iter().rev();
        Settings {
            hold: general.map_or(HOLD, |(_, hold)| *hold),
            hold_for: named
                .filter_map(|(client, hold)| Some((client.clone()?, *hold)))
                .collect(),
            on_cancel: self.on_cancel,
            ask_client: self.ask_client,
            session_idle: self.session_idle.unwrap_or(SESSION_IDLE),
            permission_prompt: self.permission_prompt,
            place_words: String::new(),
        }
    }
}

fn session_idle(text: &str) -> Result<Duration, String> {
    let limit = duration::parse(text)?;
    match limit < Duration::from_secs(1) {
        true => Err("a session needs at least `1s`".to_owned()),
        false => Ok(limit),
    }
}

fn hold(text: &str) -> Result<(Option<String>, Duration), String> {
    match text.rsplit_once('=') {
        Some((client, hold)) => Ok((Some(client.to_owned()), duration::parse(hold)?)),
        None => Ok((None, duration::parse(text)?)),
    }
}
