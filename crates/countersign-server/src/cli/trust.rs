//! Arguments of `trust`, for files, stores and servers.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
A policy, a configuration, an agent's files or a store are believed when you name them by their full path. Those that are
only found in the folder you are in, or named by a path that depends on it, may have come with a repository: they are
refused until you have trusted them. A file is trusted as it is now; a store is trusted as this very file.

Examples:
  countersign trust                            the policy, the configuration and the store in this folder
  countersign trust countersign.toml
  countersign trust my-agent                   a folder with an `agent.toml`
  countersign trust https://countersign.example.com
  countersign trust --remove countersign.toml")]
pub struct Trust {
    /// Files, folders of agents or addresses of servers; what is usually looked for in this folder if you do not say
    #[arg(value_name = "PATH|URL")]
    pub paths: Vec<String>,
    /// List what you have trusted
    #[arg(long, conflicts_with_all = ["paths", "remove"])]
    pub list: bool,
    /// Trust them no more
    #[arg(long)]
    pub remove: bool,
    /// Do not ask: for scripts, and for files you have read
    #[arg(long)]
    pub yes: bool,
}
