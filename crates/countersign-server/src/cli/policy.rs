//! Arguments of `policy`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::{duration, environment};

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Find every mistake in a policy, to the line
    #[command(after_help = "\
Examples:
  countersign policy check ~/policy.toml
  countersign policy check                          `countersign.toml` in this folder")]
    Check {
        /// The file; the policy in force if none is given
        file: Option<PathBuf>,
    },
    /// Say what would happen to a call, without proposing it
    #[command(after_help = "\
Examples:
  countersign policy try refund '{\"amount\":250,\"currency\":\"EUR\"}' --policy ~/policy.toml
  countersign policy try refund @arguments.json --policy ~/policy.toml")]
    Try {
        /// The tool's name
        tool: String,
        /// One JSON object, `@FILE`, or `-` for standard input
        #[arg(value_name = "ARGUMENTS|@FILE|-", allow_hyphen_values = true)]
        arguments: Option<String>,
    },
    /// Write a first policy for the tools of an MCP server, to be read and changed
    Init(PolicyInit),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Every tool is held until you say otherwise: what a server says about its own tools is only suggested.

Examples:
  countersign policy init -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  countersign policy init --name files --output ~/files.toml -- npx -y SERVER DIR
  countersign policy init --servers ~/servers.toml --output ~/all.toml      all servers of `countersign mcp --servers`")]
pub struct PolicyInit {
    /// What the server is called in the policy, as with `countersign mcp`
    #[arg(long = "name", value_name = "NAME")]
    pub server_name: Option<String>,
    /// A TOML file that names the servers, instead of a command
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "server_name", "url"])]
    pub servers: Option<PathBuf>,
    /// A server at an address, instead of a command
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "pass_env"])]
    pub url: Option<String>,
    /// The environment variable with the token to show the server at that address
    #[arg(long, value_name = "VAR", requires = "url")]
    pub url_token_env: Option<String>,
    /// A variable of the environment that the server gets besides PATH, HOME and the like; may be given several times
    #[arg(long, value_name = "NAME", value_parser = environment::name, conflicts_with = "servers")]
    pub pass_env: Vec<String>,
    /// How long a server may take to come up and list its tools [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// A new file to write to; standard output if you do not say
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Believe what the server says about its own tools: what it calls a read runs at once
    #[arg(long)]
    pub trust_annotations: bool,
    /// The server's command
    #[arg(last = true, required_unless_present_any = ["servers", "url"], value_name = "CMD")]
    pub command: Vec<String>,
}
