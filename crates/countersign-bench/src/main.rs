//! `countersign-bench`: measures the gate on this machine and this store, and the raw limits of both for comparison.
//!
//! Input: a case and its duration. Output: one line per case, for people or in JSON with common field names (`per_s`,
//! `p50_us`, `p99_us`, `ops`). Compare only results of the same run: machines are noisy.

mod bare;
mod connection;
mod http;
mod load;
mod raw;
mod report;
mod scale;
mod store_location;
mod wake;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use clap::Parser as _;
use serde_json::{Value, json};

use crate::http::Wanted;
use crate::store_location::StoreLocation;

/// Cases to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    /// 4 KiB appended and synced: the disk's own limit.
    Fsync,
    /// Durable proposals.
    Propose,
    /// Whole approvals: propose, decide, wake, run a no-op tool, record the result.
    Cycle,
    /// Time from a decision to the task that waits for it.
    Wake,
    /// Memory of a waiting agent, compared with a parked task.
    Waiting,
    /// A read that passes through.
    Read,
    /// Listing 50 pending approvals, and proposing, with `--rows` decided ones in the store.
    List,
    /// Stored bytes per finished approval.
    Bytes,
    /// An audit of a store with `--rows` finished approvals, as `countersign verify` makes it.
    Verify,
    /// First listing after a kill with `--rows` pending approvals, compared with 50 pending.
    Recover,
    /// Time from a decision on one node to the waiter on another (PostgreSQL).
    Nodes,
    /// Whole approvals over HTTP, with all features of the service enabled: propose, decide, wait for the result.
    Http,
    /// Time from a decision over HTTP to the agent that waits for it.
    HttpWake,
    /// Reading one approval over HTTP, compared with a bare handler that returns the same bytes.
    HttpGet,
    /// Memory of `--rows` long polls.
    HttpWaiting,
    /// `--rows` readers of events, a tenth of them stalled.
    HttpStreams,
    /// Used by `http-get` itself: a bare server.
    #[value(hide = true)]
    Bare,
}

/// Run benchmarks of Countersign on this machine
#[derive(Clone, Debug, clap::Parser)]
#[command(
    name = "countersign-bench",
    version,
    after_help = "\
Compare figures within one run only: two runs on a busy machine differ too much.

Examples:
  countersign-bench                                  in a directory of its own, here
  countersign-bench cycle --callers 16 --seconds 5
  countersign-bench cycle --on postgres://postgres@127.0.0.1/bench
  countersign-bench http --program target/release/countersign"
)]
struct BenchArgs {
    /// Case to measure; by default all that need no further options.
    #[arg(value_enum)]
    case: Option<Case>,
    /// Store to use: `memory`, a directory for SQLite, or a postgres:// URL.
    #[arg(long = "on", value_name = "WHERE")]
    on: Option<String>,
    /// Number of concurrent callers.
    #[arg(long, default_value_t = 64)]
    callers: usize,
    /// Seconds per case.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rows, for the cases that need history or waiters.
    #[arg(long, default_value_t = 10_000)]
    rows: usize,
    /// The `countersign` to measure over HTTP; the one in this program's directory when absent.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Print JSON, one object per line.
    #[arg(long)]
    json: bool,
    /// Used by `recover` itself: fill the store and die.
    #[arg(long, hide = true)]
    die: bool,
}

impl BenchArgs {
    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.clamp(0.05, 600.0))
    }

    /// Returns the absolute path of the service's program.
    fn program(&self) -> anyhow::Result<PathBuf> {
        let program = match &self.program {
            Some(program) => std::path::absolute(program)?,
            None => std::env::current_exe()?.with_file_name("countersign"),
        };
        ensure!(
            program.is_file(),
            "there is no program `{}`; build it with `cargo build --release -p countersign-server`, or name it with `--program`",
            program.display()
        );
        Ok(program)
    }
}

fn main() -> ExitCode {
    match start(&BenchArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // An error here means that standard error is closed, so there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &BenchArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ran = runtime.block_on(run(args));
    // Some cases leave waiting tasks behind, which would never end.
    runtime.shutdown_background();
    ran
}

/// Runs the cases and prints a line for each.
async fn run(args: &BenchArgs) -> anyhow::Result<()> {
    if args.case == Some(Case::Bare) {
        return bare::serve().await;
    }
    let location = StoreLocation::new(args.on.as_deref())?;
    let measured = measure_all(args, &location).await;
    location.clean();
    measured
}

async fn measure_all(args: &BenchArgs, location: &StoreLocation) -> anyhow::Result<()> {
    let cases = match args.case {
        Some(case) => vec![case],
        None => vec![
            Case::Fsync,
            Case::Read,
            Case::Propose,
            Case::Cycle,
            Case::Wake,
            Case::Waiting,
            Case::Bytes,
        ],
    };
    for case in cases {
        let result = measure(case, args, location).await?;
        let line = match args.json {
            true => result.to_string(),
            false => sentence(&result),
        };
        writeln!(std::io::stdout(), "{line}")?;
    }
    Ok(())
}

async fn measure(case: Case, args: &BenchArgs, location: &StoreLocation) -> anyhow::Result<Value> {
    let mut result = match case {
        Case::Fsync => raw::fsync(&location.directory(), args.span())?,
        Case::Read => load::read(args.span()).await?,
        Case::Propose => load::propose(location.open("propose").await?, args.callers, args.span()).await?,
        Case::Cycle => load::cycle(location.open("cycle").await?, args.callers, args.span()).await?,
        Case::Wake => wake::wake(location.open("wake").await?, args.span()).await?,
        Case::Waiting => wake::waiting(location.open("waiting").await?, args.rows).await?,
        Case::List => scale::list(location, args.rows, args.span()).await?,
        Case::Bytes => scale::bytes(location, args.rows.min(20_000)).await?,
        Case::Verify => scale::verify(location, args.rows).await?,
        Case::Recover => scale::recover(location, args).await?,
        Case::Nodes => wake::nodes(location, args.span()).await?,
        Case::Http => http::cycle(location, args, Wanted::Result).await?,
        Case::HttpWake => http::cycle(location, args, Wanted::Decision).await?,
        Case::HttpGet => http::get(location, args).await?,
        Case::HttpWaiting => http::waiting(location, args).await?,
        Case::HttpStreams => http::streams(location, args).await?,
        Case::Bare => Value::Null,
    };
    if let Some(object) = result.as_object_mut() {
        object.insert("store".to_owned(), json!(location.name()));
    }
    Ok(result)
}

/// Formats a result as one line: the case's name, then each measured value with its field name.
fn sentence(result: &Value) -> String {
    let name = result.get("bench").and_then(Value::as_str).unwrap_or("?");
    let figures = result
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "bench");
    let figures: Vec<String> = figures
        .map(|(key, value)| format!("{key} {}", plain(value)))
        .collect();
    format!("{name:<9} {}", figures.join("  "))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    const DOCUMENT: &str = include_str!("../../../docs/benchmarks.md");

    #[test]
    fn every_example_is_understood() {
        BenchArgs::command().debug_assert();
        let help = BenchArgs::command().render_long_help().to_string();
        let lines = help.lines().chain(DOCUMENT.lines()).map(str::trim);
        let commands =
            lines.filter(|line| *line == "countersign-bench" || line.starts_with("countersign-bench "));
        let mut count = 0;
        for command in commands {
            let command = command.split("  ").next().unwrap_or_default();
            let parsed = BenchArgs::try_parse_from(command.split(' '));
            assert!(parsed.is_ok(), "`{command}`: {}", parsed.unwrap_err());
            count += 1;
        }
        assert!(count >= 7, "only {count} were looked at");
    }

    /// Checks that every case named in the document on benchmarks exists.
    #[test]
    fn every_case_in_the_document_exists() {
        let cases = DOCUMENT.split("`countersign-bench ").skip(1);
        for case in cases.filter_map(|rest| rest.split([' ', '`']).next()) {
            let parsed = BenchArgs::try_parse_from(["countersign-bench", case]);
            assert!(parsed.is_ok(), "`{case}`");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_case_prints_its_figures() {
        let args = BenchArgs::parse_from([
            "countersign-bench",
            "cycle",
            "--callers",
            "2",
            "--seconds",
            "0.05",
        ]);
        let result = measure(Case::Cycle, &args, &StoreLocation::Memory).await.unwrap();
        assert!(result["ops"].as_u64().unwrap() > 0, "{result}");
        let line = sentence(&result);
        assert!(line.starts_with("cycle     "), "{line}");
        assert!(line.contains("store memory"), "{line}");
    }

    #[test]
    fn the_help_names_every_case_and_option() {
        let help = BenchArgs::command().term_width(100).render_help();
        insta::assert_snapshot!(help, @r"
        Run benchmarks of Countersign on this machine

        Usage: countersign-bench [OPTIONS] [CASE]

        Arguments:
          [CASE]  Case to measure; by default all that need no further options [possible values: fsync,
                  propose, cycle, wake, waiting, read, list, bytes, verify, recover, nodes, http, http-wake,
                  http-get, http-waiting, http-streams]

        Options:
              --on <WHERE>         Store to use: `memory`, a directory for SQLite, or a postgres:// URL
              --callers <CALLERS>  Number of concurrent callers [default: 64]
              --seconds <SECONDS>  Seconds per case [default: 2]
              --rows <ROWS>        Rows, for the cases that need history or waiters [default: 10000]
              --program <FILE>     The `countersign` to measure over HTTP; the one in this program's
                                   directory when absent
              --json               Print JSON, one object per line
          -h, --help               Print help (see more with '--help')
          -V, --version            Print version

        Compare figures within one run only: two runs on a busy machine differ too much.

        Examples:
          countersign-bench                                  in a directory of its own, here
          countersign-bench cycle --callers 16 --seconds 5
          countersign-bench cycle --on postgres://postgres@127.0.0.1/bench
          countersign-bench http --program target/release/countersign
        ");
    }
}
