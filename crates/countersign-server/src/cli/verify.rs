//! Arguments of `verify`, which audits a store.

use clap::Args;
use countersign::log::Checkpoint;

#[derive(Debug, Args)]
#[command(after_help = "\
Compares every approval with its events, its bytes, its result and its columns, and all events with the log over them.
It reads the store as it is at one moment, changes nothing, and may run beside a service. With `--tenant` it looks at that
tenant's approvals and not at the log, which is one for all tenants.

Keep what `--head` prints in another place: with it, also a history that was cut off or rewritten as a whole is found.

Examples:
  countersign verify
  countersign verify --head > /mnt/elsewhere/head
  countersign verify --since 1042:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855

Exit codes: 0 sound   1 something is wrong   2 it could not be looked at")]
pub struct Verify {
    /// Print the log's size and root, and look at nothing else
    #[arg(long, conflicts_with_all = ["since", "sample"])]
    pub head: bool,
    /// Also check that the log begins with what `--head` printed earlier
    #[arg(long, value_name = "SIZE:ROOT", conflicts_with = "sample")]
    pub since: Option<Checkpoint>,
    /// Look only at so many of the newest approvals, and at as many others
    #[arg(long, value_name = "COUNT")]
    pub sample: Option<u32>,
}
