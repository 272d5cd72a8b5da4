//! Arguments of `policy`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::{duration, environment};

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Check a policy and report every mistake with its line
    #[command(after_help = "\
Examples:
  countersign policy check ~/policy.toml
  countersign policy check                          `countersign.toml` in this folder")]
    Check {
        /// Policy file [default: the policy in use]
        file: Option<PathBuf>,
    },
    /// Show how the policy rules on a call, without proposing it
    #[command(after_help = "\
Examples:
  countersign policy try refund '{\"amount\":250,\"currency\":\"EUR\"}' --policy ~/policy.toml
  countersign policy try refund @arguments.json --policy ~/policy.toml")]
    Try {
        /// Name of the tool
        tool: String,
        /// Arguments: a JSON object, `@FILE`, or `-` for standard input
        #[arg(value_name = "ARGUMENTS|@FILE|-", allow_hyphen_values = true)]
        arguments: Option<String>,
    },
    /// Create a policy for the tools of an MCP server, for you to review
    Init(PolicyInit),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Every tool is held until you change that. What a server says about its own tools is written down as a suggestion only.

Examples:
  countersign policy init -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  countersign policy init --name files --output ~/files.toml -- npx -y SERVER DIR
  countersign policy init --servers ~/servers.toml --output ~/all.toml      all servers of `countersign mcp --servers`")]
pub struct PolicyInit {
    /// Name of the server in the policy, as with `countersign mcp`
    #[arg(long = "name", value_name = "NAME")]
    pub server_name: Option<String>,
    /// TOML file that lists the servers, instead of a command
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "server_name", "url"])]
    pub servers: Option<PathBuf>,
    /// URL of the server, instead of a command
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "pass_env"])]
    pub url: Option<String>,
    /// Environment variable with the token for that URL
    #[arg(long, value_name = "VAR", requires = "url")]
    pub url_token_env: Option<String>,
    /// Environment variable to pass to the server, besides PATH, HOME and the like (repeatable)
    #[arg(long, value_name = "NAME", value_parser = environment::name, conflicts_with = "servers")]
    pub pass_env: Vec<String>,
    /// How long to wait for the server to start and list its tools [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// New file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Trust the server's annotations: tools it marks as read-only run without approval
    #[arg(long)]
    pub trust_annotations: bool,
    /// Command that starts the server
    #[arg(last = true, required_unless_present_any = ["servers", "url"], value_name = "CMD")]
    pub command: Vec<String>,
}
