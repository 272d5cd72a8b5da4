//! Policies.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Find every mistake in a policy, to the line
    #[command(after_help = "Example:\n  countersign policy check examples/policy.toml")]
    Check {
        /// The file; the policy in force if none is given
        file: Option<PathBuf>,
    },
    /// Say what would happen to a call, without proposing it
    #[command(
        after_help = "Example:\n  countersign policy try refund '{\"amount\":250,\"currency\":\"EUR\"}'"
    )]
    Try {
        /// The tool's name
        tool: String,
        /// One JSON object, `@FILE`, or `-` for standard input
        #[arg(value_name = "ARGUMENTS|@FILE|-", allow_hyphen_values = true)]
        arguments: Option<String>,
    },
}
