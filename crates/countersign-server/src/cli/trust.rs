//! Arguments of `trust`, for files, stores and servers.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
A policy, configuration, agent or store that you name by its full path is trusted. One that is found in the current folder,
or named by a relative path, may have come with a repository, and is refused until you trust it. A file is trusted with
its present content; a store is trusted as this particular file.

Examples:
  countersign trust                            the policy, the configuration and the store in this folder
  countersign trust countersign.toml
  countersign trust my-agent                   a folder with an `agent.toml`
  countersign trust https://countersign.example.com
  countersign trust --remove countersign.toml")]
pub struct Trust {
    /// Files, agent folders or server URLs [default: the policy, configuration and store in this folder]
    #[arg(value_name = "PATH|URL")]
    pub paths: Vec<String>,
    /// List everything you have trusted
    #[arg(long, conflicts_with_all = ["paths", "remove"])]
    pub list: bool,
    /// Stop trusting them
    #[arg(long)]
    pub remove: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
}
