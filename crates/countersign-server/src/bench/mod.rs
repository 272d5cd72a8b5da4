//! `countersign bench`: measures the gate on this machine and this store, next to the raw limits of both.
//!
//! Enters: a case and its duration. Leaves: one JSON object per case, with common field names (`per_s`, `p50_us`,
//! `p99_us`, `ops`). Compare only figures of one run: machines are noisy.

mod bare;
mod connection;
mod http;
mod load;
mod raw;
mod scale;
mod wake;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use countersign::store::Store;
use countersign::store::memory::MemoryStore;
use countersign_store::postgres::{PostgresOptions, PostgresStore};
use countersign_store::sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};

use self::http::Wanted;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Case {
    /// 4 KiB appended and synced: the disk's own limit.
    Fsync,
    /// Durable proposals.
    Propose,
    /// Whole approvals: propose, decide, wake, run a no-op tool, record the result.
    Cycle,
    /// From a decision to the task that waits for it.
    Wake,
    /// What a waiting agent weighs, next to a parked task.
    Waiting,
    /// A read that passes through.
    Read,
    /// Listing 50 pending ones, and proposing, with `--rows` decided ones behind them.
    List,
    /// Stored bytes per finished approval.
    Bytes,
    /// First listing after a kill with `--rows` pending approvals, compared with 50 pending.
    Recover,
    /// From a decision on one node to the waiter on another (PostgreSQL).
    Nodes,
    /// Whole approvals over HTTP, with everything on that the service has: propose, decide, wait for the result.
    Http,
    /// From a decision over HTTP to the agent that waits for it.
    HttpWake,
    /// Looking at one approval over HTTP, next to a bare handler that gives the same bytes.
    HttpGet,
    /// What `--rows` long polls weigh.
    HttpWaiting,
    /// `--rows` readers of events, a tenth of them stalled.
    HttpStreams,
    /// Used by `http-get` itself: a bare server.
    #[value(hide = true)]
    Bare,
}

/// How to measure it.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchArgs {
    /// What to measure; all that need no further setting when absent.
    #[arg(value_enum)]
    case: Option<Case>,
    /// Where: `memory`, a directory for SQLite, or a postgres:// URL.
    #[arg(long = "on", value_name = "WHERE")]
    on: Option<String>,
    /// Callers at once.
    #[arg(long, default_value_t = 64)]
    callers: usize,
    /// Seconds per case.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rows, for the cases that need history or waiters.
    #[arg(long, default_value_t = 10_000)]
    rows: usize,
    /// Used by `recover` itself: fill the store and die.
    #[arg(long, hide = true)]
    die: bool,
}

impl BenchArgs {
    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.clamp(0.05, 600.0))
    }
}

/// Runs the cases and hands each result to `print`.
pub async fn run(args: BenchArgs, mut print: impl FnMut(&Value) -> anyhow::Result<()>) -> anyhow::Result<()> {
    if args.case == Some(Case::Bare) {
        return bare::serve().await;
    }
    let place = Place::new(args.on.as_deref())?;
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
        print(&one(case, &args, &place).await?)?;
    }
    place.clean();
    Ok(())
}

async fn one(case: Case, args: &BenchArgs, place: &Place) -> anyhow::Result<Value> {
    let mut result = match case {
        Case::Fsync => raw::fsync(&place.directory(), args.span())?,
        Case::Read => load::read(args.span()).await?,
        Case::Propose => load::propose(place.open("propose").await?, args.callers, args.span()).await?,
        Case::Cycle => load::cycle(place.open("cycle").await?, args.callers, args.span()).await?,
        Case::Wake => wake::wake(place.open("wake").await?, args.span()).await?,
        Case::Waiting => wake::waiting(place.open("waiting").await?, args.rows).await?,
        Case::List => scale::list(place, args.rows, args.span()).await?,
        Case::Bytes => scale::bytes(place, args.rows.min(20_000)).await?,
        Case::Recover => scale::recover(place, args).await?,
        Case::Nodes => wake::nodes(place, args.span()).await?,
        Case::Http => http::cycle(place, args.callers, args.span(), Wanted::Result).await?,
        Case::HttpWake => http::cycle(place, args.callers, args.span(), Wanted::Decision).await?,
        Case::HttpGet => http::get(place, args.callers, args.span()).await?,
        Case::HttpWaiting => http::waiting(place, args.rows).await?,
        Case::HttpStreams => http::streams(place, args.rows, args.span()).await?,
        Case::Bare => Value::Null,
    };
    if let Some(object) = result.as_object_mut() {
        object.insert("store".to_owned(), json!(place.name()));
    }
    Ok(result)
}

/// Location of the measured store.
pub(crate) enum Place {
    Memory,
    Sqlite { directory: PathBuf, ours: bool },
    Postgres(String),
}

impl Place {
    fn new(on: Option<&str>) -> anyhow::Result<Place> {
        match on {
            Some("memory") => Ok(Place::Memory),
            Some(url) if url.starts_with("postgres") => Ok(Place::Postgres(url.to_owned())),
            Some(directory) => Ok(Place::Sqlite {
                directory: PathBuf::from(directory),
                ours: false,
            }),
            None => {
                // In the current directory, so that the person's own disk is measured.
                let directory = PathBuf::from(format!(".countersign-bench-{}", std::process::id()));
                std::fs::create_dir(&directory).context("cannot create a directory for the benchmark")?;
                Ok(Place::Sqlite {
                    directory,
                    ours: true,
                })
            }
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Place::Memory => "memory",
            Place::Sqlite { .. } => "sqlite",
            Place::Postgres(_) => "postgres",
        }
    }

    fn directory(&self) -> PathBuf {
        match self {
            Place::Sqlite { directory, .. } => directory.clone(),
            _ => std::env::temp_dir(),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory().join(format!("bench-{name}.db"))
    }

    /// Opens an empty store.
    async fn open(&self, name: &str) -> anyhow::Result<Arc<dyn Store>> {
        if let Place::Sqlite { directory, .. } = self {
            std::fs::create_dir_all(directory)?;
            for ending in ["", "-wal", "-shm"] {
                let mut path = self.file(name).into_os_string();
                path.push(ending);
                std::fs::remove_file(path).ok();
            }
        }
        self.reopen(name).await
    }

    /// Opens the store with its existing content.
    pub(crate) async fn reopen(&self, name: &str) -> anyhow::Result<Arc<dyn Store>> {
        Ok(match self {
            Place::Memory => Arc::new(MemoryStore::default()),
            Place::Sqlite { .. } => {
                // A single process, like a program that embeds the gate.
                let options = SqliteOptions {
                    other_processes: false,
                    ..SqliteOptions::default()
                };
                Arc::new(SqliteStore::open(self.file(name), options)?)
            }
            Place::Postgres(url) => Arc::new(PostgresStore::connect(url, PostgresOptions::default()).await?),
        })
    }

    fn clean(&self) {
        if let Place::Sqlite {
            directory,
            ours: true,
        } = self
        {
            std::fs::remove_dir_all(directory).ok();
        }
    }
}

/// Summarizes latencies in the common fields.
pub(crate) fn report(bench: &str, mut latencies: Vec<Duration>, elapsed: Duration, extra: Value) -> Value {
    latencies.sort_unstable();
    let at = |share: f64| {
        let index = ((latencies.len().saturating_sub(1)) as f64 * share).round() as usize;
        let latency = latencies.get(index).copied().unwrap_or_default();
        (latency.as_nanos() as f64 / 100.0).round() / 10.0
    };
    let per_second = latencies.len() as f64 / elapsed.as_secs_f64();
    let mut report = json!({
        "bench": bench,
        "ops": latencies.len(),
        "per_s": per_second.round(),
        "p50_us": at(0.5),
        "p99_us": at(0.99),
        "max_us": at(1.0),
    });
    if let (Some(report), Value::Object(extra)) = (report.as_object_mut(), extra) {
        report.extend(extra);
    }
    report
}

/// Calls `work` in `callers` concurrent tasks until the time is up. Returns the latencies and the elapsed time.
pub(crate) async fn drive<F>(
    callers: usize,
    span: Duration,
    work: impl Fn(usize) -> F + Clone + Send + 'static,
) -> anyhow::Result<(Vec<Duration>, Duration)>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let work = work.clone();
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while started.elapsed() < span {
                    let before = Instant::now();
                    work(caller).await?;
                    latencies.push(before.elapsed());
                }
                anyhow::Ok(latencies)
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok((all, started.elapsed()))
}
