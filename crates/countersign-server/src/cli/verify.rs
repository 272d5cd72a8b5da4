//! Arguments of `verify`, which audits a store.

use clap::Args;
use countersign::log::Checkpoint;

#[derive(Debug, Args)]
#[command(after_help = "\
Compares every approval with its events, arguments, result and columns, and all events with the log. Reads one consistent
snapshot, changes nothing, and can run while a service uses the store. With `--tenant`, only that tenant's approvals are
checked, not the log, which all tenants share.

Keep the output of `--head` in another place: with it, `--since` also detects a history that was cut off or rewritten
completely.

Examples:
  countersign verify
  countersign verify --head > /mnt/elsewhere/head
  countersign verify --since 1042:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855

Exit codes: 0 intact   1 problems found   2 could not be checked")]
pub struct Verify {
    /// Print the log's size and root hash, and check nothing
    #[arg(long, conflicts_with_all = ["since", "sample"])]
    pub head: bool,
    /// Also check that the log still begins with an earlier output of `--head`
    #[arg(long, value_name = "SIZE:ROOT", conflicts_with = "sample")]
    pub since: Option<Checkpoint>,
    /// Check only this many of the newest approvals, and as many others
    #[arg(long, value_name = "COUNT")]
    pub sample: Option<u32>,
}
