//! Logging for the operator. Arguments, results and credentials are never logged.

use serde::Deserialize;
use tracing_subscriber::EnvFilter;

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// Starts logging to standard error. `COUNTERSIGN_LOG` sets the filter; the default is `info`.
pub fn start(format: LogFormat, has_colors: bool) {
    let wanted = std::env::var("COUNTERSIGN_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new("info"));
    // INVARIANT: the PostgreSQL driver's debug messages contain query parameters, so they are never logged.
    let filter = ["tokio_postgres=warn", "hyper=warn", "rustls=warn"]
        .iter()
        .filter_map(|directive| directive.parse().ok())
        .fold(filter, EnvFilter::add_directive);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(has_colors)
        .with_writer(std::io::stderr);
    // A second call, such as in a test, has no effect.
    let _ = match format {
        LogFormat::Text => builder.with_target(false).compact().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
