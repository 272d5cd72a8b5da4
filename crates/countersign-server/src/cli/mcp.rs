//! Arguments of `mcp`, the MCP gateway.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::mcp::{AskClient, HOLD, OnCancel, SESSION_IDLE, Settings};
use crate::{duration, environment};

#[derive(Debug, Args)]
#[command(after_help = "\
All messages are forwarded unchanged, except tool calls: the policy lets a call pass, or a person decides. Create a policy
with `countersign policy init -- CMD`. Approve in the inbox (`countersign serve` with the same store) or with
`countersign approve`.

Examples:
  countersign mcp --store ~/countersign.db --policy ~/files.toml --name files -- npx -y SERVER DIR
  countersign mcp --hold 4s -- uvx SERVER               for clients with a time-out of five seconds
  countersign mcp --url https://example.com/mcp         a server with a URL
  countersign mcp --servers ~/servers.toml              several servers; tools are named SERVER__TOOL
  countersign mcp --listen 127.0.0.1:8788 --url URL     for HTTP clients with agent tokens")]
pub struct Mcp {
    /// Name of the server in the policy and on cards [default: made from its command]
    #[arg(long = "name", value_name = "NAME")]
    pub server_name: Option<String>,
    /// Name of the agent [default: the client's name for itself]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// How long a held call waits before it is answered as pending; `CLIENT=DURATION` for one client
    #[arg(long, value_name = "[CLIENT=]DURATION", value_parser = hold)]
    pub hold: Vec<(Option<String>, Duration)>,
    /// What happens to an approval if the client cancels its call
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub on_cancel: OnCancel,
    /// Which calls may be approved in the client (by elicitation)
    #[arg(long, value_enum, value_name = "WHICH", default_value_t)]
    pub ask_client: AskClient,
    /// Offer `countersign_approve`, for `--permission-prompt-tool` of Claude Code
    #[arg(long)]
    pub permission_prompt: bool,
    /// URL of the server, instead of a command
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub url: Option<String>,
    /// Environment variable with the token for that URL
    #[arg(long, value_name = "VAR", requires = "url")]
    pub url_token_env: Option<String>,
    /// TOML file that lists one or more servers; see docs/mcp.md
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "url", "server_name"])]
    pub servers: Option<PathBuf>,
    /// The server is stateless: run calls here that were proposed to a gateway process that has ended
    #[arg(long, conflicts_with = "servers")]
    pub resume: bool,
    /// Start even if a gateway to a server of this name runs with another policy; for rolling updates
    #[arg(long)]
    pub policy_change: bool,
    /// How long a silent gateway counts as alive
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, hide = true)]
    pub lease: Option<Duration>,
    /// Environment variable to pass to the server, besides PATH, HOME and the like (repeatable)
    #[arg(long, value_name = "NAME", value_parser = environment::name, conflicts_with_all = ["url", "servers"])]
    pub pass_env: Vec<String>,
    /// Serve clients over HTTP at /mcp, instead of standard input
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Accept clients without a token; only on a loopback address
    #[arg(long, requires = "listen")]
    pub no_token: bool,
    /// End an HTTP session and its server after this long without a request [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = session_idle, requires = "listen")]
    pub session_idle: Option<Duration>,
    /// Command that starts the server
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
            client_folder: None,
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
