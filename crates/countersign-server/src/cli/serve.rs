//! Arguments of `serve` and of the commands that maintain a service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::duration;
use crate::serve::LogFormat;

#[derive(Debug, Args)]
pub struct Serve {
    /// Full path of the configuration [default: countersign-serve.toml in this folder, if trusted]
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_CONFIG")]
    pub config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDRESS:PORT", env = "COUNTERSIGN_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Host name that clients use for this service (repeatable)
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_HOST", value_delimiter = ',')]
    pub host: Vec<String>,
    /// Certificate chain for TLS (PEM)
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTERSIGN_TLS_CERTIFICATE",
        requires = "tls_key"
    )]
    pub tls_certificate: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTERSIGN_TLS_KEY",
        requires = "tls_certificate"
    )]
    pub tls_key: Option<PathBuf>,
    /// A proxy terminates TLS, and only the proxy can reach this address
    #[arg(long, env = "COUNTERSIGN_BEHIND_PROXY")]
    pub behind_proxy: bool,
    /// Start even if a service with another policy uses the store; for rolling updates
    #[arg(long)]
    pub policy_change: bool,
    /// Log format; `COUNTERSIGN_LOG` sets the level (error, warn, info, debug)
    #[arg(long, value_enum, value_name = "FORMAT", env = "COUNTERSIGN_LOG_FORMAT")]
    pub log: Option<LogFormat>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Checks the server given by `--server`, otherwise the local store, policy and settings. Changes nothing. The exit code is 1
if there is a problem. A sample of the approvals is compared with their events; `--full` compares all of them, as
`countersign verify` does.

Examples:
  countersign doctor
  countersign doctor --full
  countersign doctor --config /etc/countersign/serve.toml
  countersign doctor --server https://countersign.example.com --token-file ~/.countersign/ana")]
pub struct Doctor {
    /// Compare all approvals with their events, and check every page and index of a SQLite file
    #[arg(long)]
    pub full: bool,
    /// Full path of the service's configuration [default: countersign-serve.toml in this folder, if trusted]
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_CONFIG")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The store's clock never goes back by itself, because setting a clock back must not make approvals live longer. After a
machine's clock was ahead for a while, the store's clock may stay ahead, and tokens expire too early. `--reset` sets the
store's clock to this machine's clock. Open approvals that were changed in what is then the future are ended: pending ones
are withdrawn, approved calls do not run, and started calls end as unknown. Tokens stay valid.
Before you reset, correct this machine's clock and stop every service that uses the store.

Examples:
  countersign clock
  countersign clock --accept
  countersign clock --reset")]
pub struct Clock {
    /// Follow this machine's clock now, although it is far ahead of the store's
    #[arg(long, conflicts_with = "reset")]
    pub accept: bool,
    /// Set the store's clock back to this machine's clock; stop every service first
    #[arg(long)]
    pub reset: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign backup ~/countersign-monday.db
  countersign backup /backup/countersign.db --store /var/lib/countersign/countersign.db")]
pub struct Backup {
    /// New file for the backup; its checksum is written to FILE.sha256
    pub file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Approvals that were open when the backup was made may have been decided and run since. They are all ended, and every
token, session and sign-in link is revoked. Stop the service and move the old store away first.

Examples:
  countersign restore ~/countersign-monday.db --store ~/countersign.db
  countersign restore --in-place --store postgres://countersign@db/countersign    after pg_restore")]
pub struct Restore {
    /// Backup file; FILE.sha256 must be beside it
    #[arg(required_unless_present = "in_place")]
    pub file: Option<PathBuf>,
    /// The store was restored by other means, such as pg_restore: only end its open approvals
    #[arg(long, conflicts_with = "file")]
    pub in_place: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The history stays, and `countersign verify` still passes. Erased content cannot be restored, so this asks first; without a
terminal it needs --yes.

Examples:
  countersign purge --older-than 90d --dry-run
  countersign purge --older-than 90d
  countersign purge --older-than 90d --yes")]
pub struct Purge {
    /// Erase approvals that have not changed for this long, such as `90d`
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub older_than: Duration,
    /// Only say how many approvals would be erased
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Erase without asking
    #[arg(long)]
    pub yes: bool,
}
