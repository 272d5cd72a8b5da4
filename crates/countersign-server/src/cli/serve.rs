//! Arguments of `serve` and of the commands that maintain a service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::duration;
use crate::serve::LogFormat;

#[derive(Debug, Args)]
pub struct Serve {
    /// The full path of the configuration; `countersign-serve.toml` in this folder if you have trusted it
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_CONFIG")]
    pub config: Option<PathBuf>,
    /// Where to listen; 127.0.0.1:8787 if you do not say
    #[arg(long, value_name = "ADDRESS:PORT", env = "COUNTERSIGN_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Host name that the service answers to; may be given several times
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_HOST", value_delimiter = ',')]
    pub host: Vec<String>,
    /// Speak TLS with this certificate chain (PEM)
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTERSIGN_TLS_CERTIFICATE",
        requires = "tls_key"
    )]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTERSIGN_TLS_KEY",
        requires = "tls_certificate"
    )]
    pub tls_key: Option<PathBuf>,
    /// A proxy in front speaks TLS, and nobody else can reach this address
    #[arg(long, env = "COUNTERSIGN_BEHIND_PROXY")]
    pub behind_proxy: bool,
    /// Start although a service with another policy runs on the store: for replacing services one by one
    #[arg(long)]
    pub policy_change: bool,
    /// How the log is written; `COUNTERSIGN_LOG` says how much (error, warn, info, debug)
    #[arg(long, value_enum, value_name = "FORMAT", env = "COUNTERSIGN_LOG_FORMAT")]
    pub log: Option<LogFormat>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
With `--server` it looks at the server, else at the store, the policy and the settings here. It changes nothing.
The exit code is 1 when there is a problem. A sample of the approvals is compared with their histories; `--full` compares
all of them, as `countersign verify` does.

Examples:
  countersign doctor
  countersign doctor --full
  countersign doctor --config /etc/countersign/serve.toml
  countersign doctor --server https://countersign.example.com --token-file ~/.countersign/ana")]
pub struct Doctor {
    /// Compare every approval with its history, not a sample, and check every page and index of a SQLite file
    #[arg(long)]
    pub full: bool,
    /// The full path of the service's configuration; `countersign-serve.toml` in this folder if you have trusted it
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_CONFIG")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The store's time never goes back by itself: a clock that was set back must not make approvals live longer. After a
clock was wrong for a while, the store may be ahead of it, and tokens end too early. With `--reset` the store's time
begins again at this machine's clock. What is open and was changed at a time that has not come yet is ended: pending
approvals are withdrawn, approved calls are not run, started ones end as unknown. Tokens stay.
Set this machine's clock right and stop every service on the store first.

Examples:
  countersign clock
  countersign clock --accept
  countersign clock --reset")]
pub struct Clock {
    /// Believe this machine's clock now, although it is far ahead of what the store knew last
    #[arg(long, conflicts_with = "reset")]
    pub accept: bool,
    /// Begin again at this machine's clock, which the store's time is ahead of; no service may be running
    #[arg(long)]
    pub reset: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign backup ~/countersign-monday.db
  countersign backup /backup/countersign.db --store /var/lib/countersign/countersign.db")]
pub struct Backup {
    /// A new file; its checksum stands beside it, with `.sha256` behind the name
    pub file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What the backup says was pending, approved or running may have happened since: it is voided, and every token,
session and link is taken back. Stop the service first, and move the old store away.

Examples:
  countersign restore ~/countersign-monday.db --store ~/countersign.db
  countersign restore --in-place --store postgres://countersign@db/countersign    after pg_restore")]
pub struct Restore {
    /// The backup, with its checksum beside it
    #[arg(required_unless_present = "in_place")]
    pub file: Option<PathBuf>,
    /// The store was restored by other means, with pg_restore say: only void what is open in it
    #[arg(long, conflicts_with = "file")]
    pub in_place: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The history stays, and still verifies.

Examples:
  countersign purge --older-than 90d")]
pub struct Purge {
    /// Age, such as `90d`: approvals that have not changed for so long
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub older_than: Duration,
}
