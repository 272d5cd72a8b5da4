//! Benchmarks of the service over HTTP: the real program in its own process, driven over plain connections.
//!
//! Each caller has one connection for the agent and one for the person, both kept open. One approval takes three
//! requests: propose, decide, and wait for the recorded result; the service runs the tool itself.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use countersign::id::{Agent, Person, Tenant};
use countersign_server::access::{Account, NewToken, Scope};
use countersign_store::private_file;
use countersign_store::sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::BenchArgs;
use crate::connection::Connection;
use crate::load::{UNLIMITED, arguments};
use crate::raw::{cpu_time, resident_bytes};
use crate::report::{drive, report};
use crate::store_location::StoreLocation;

const TOOL: &str = "delete_paddocks";
const MIB: f64 = 1024.0 * 1024.0;
/// Number of event streams per caller. It determines how many callers the benchmark of streams needs.
const STREAMS_EACH: usize = 10;

/// A running service, with the tokens for its callers.
pub(super) struct Service {
    child: Child,
    address: String,
    agent: String,
    person: String,
    readers: Vec<String>,
    /// Body of the agent's proposal, always the same.
    turn: String,
    _directory: PathBuf,
}

impl Service {
    /// Starts a service on an empty SQLite store, with all its features on, and creates `readers` tokens that may read
    /// events.
    pub(super) async fn start(
        location: &StoreLocation,
        args: &BenchArgs,
        readers: usize,
    ) -> anyhow::Result<Service> {
        let program = args.program()?;
        let directory = location.file("http").with_extension("");
        std::fs::remove_dir_all(&directory).ok();
        private_file::create_folder(&directory)?;
        // The limits on agents are lifted, so that no proposal is refused during the measurement.
        let policy = format!("{UNLIMITED}[tools.{TOOL}]\neffect = \"write\"\nttl = \"1h\"\n");
        private_file::write_new(&directory.join("countersign.toml"), policy.as_bytes())?;
        let config = format!(
            "decisions_per_second = 1000000\nlongest_wait = \"1h\"\n[limits]\nwaits_per_caller = 1000000\n[tools.{TOOL}]\nanswer = \"deleted\"\n"
        );
        private_file::write_new(&directory.join("countersign-serve.toml"), config.as_bytes())?;
        let store = SqliteStore::open(directory.join("countersign.db"), SqliteOptions::default())?;
        let now = countersign::store::Store::now(&store).await?;
        let mut account = Account::new(Person::new("bench")?, vec!["approvers".to_owned()], now);
        account.admin = true;
        account.add(&store, &Tenant::single()).await?;
        let agent = mint(&store, "agent", &[Scope::Propose, Scope::Wait]).await?;
        let person = mint(&store, "person", &[Scope::Read, Scope::Decide]).await?;
        let mut tokens = Vec::new();
        for reader in 0..readers {
            tokens.push(mint(&store, &format!("reader-{reader}"), &[Scope::Read]).await?);
        }
        drop(store);
        let (child, address) = spawn(&program, &directory).await?;
        let arguments = arguments();
        let arguments = String::from_utf8_lossy(&arguments);
        Ok(Service {
            child,
            turn: format!(r#"{{"calls":[{{"tool":"{TOOL}","arguments":{arguments}}}]}}"#),
            address,
            agent,
            person,
            readers: tokens,
            _directory: directory,
        })
    }

    async fn propose(&self, connection: &mut Connection) -> anyhow::Result<String> {
        let answer = connection
            .ask("POST", "/v1/calls", &self.agent, &self.turn)
            .await?;
        let marker = "\"approval\":{\"id\":\"";
        let at = answer.find(marker).context("no approval came back")? + marker.len();
        Ok(answer.get(at..at + 36).context("no id came back")?.to_owned())
    }
}

async fn mint(store: &SqliteStore, name: &str, scopes: &[Scope]) -> anyhow::Result<String> {
    let is_agent = scopes.contains(&Scope::Propose);
    let new = NewToken {
        tenant: Tenant::single(),
        name: Some(Person::new(name)?),
        scopes: scopes.iter().copied().collect(),
        agent: is_agent.then(|| Agent::new("bench")).transpose()?,
        person: (!is_agent).then(|| Person::new("bench")).transpose()?,
        lasts: Duration::from_secs(24 * 3600),
    };
    Ok(new.mint(store).await?.text)
}

async fn spawn(program: &Path, directory: &Path) -> anyhow::Result<(Child, String)> {
    let directory = std::path::absolute(directory)?;
    let mut child = Command::new(program)
        .current_dir(&directory)
        .args(["serve", "--listen", "127.0.0.1:0", "--as", "bench", "--config"])
        .arg(directory.join("countersign-serve.toml"))
        .arg("--policy")
        .arg(directory.join("countersign.toml"))
        .arg("--store")
        .arg(directory.join("countersign.db"))
        .env("COUNTERSIGN_LOG", "error")
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = child.stdout.take().context("no output")?;
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some((_, rest)) = line.split_once("http://localhost:") {
            let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok((child, format!("127.0.0.1:{port}")));
        }
    }
    bail!("the service did not start")
}

/// Event that ends the agent's wait. The wait is measured from the decision on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The recorded result of the call.
    Result,
    /// The decision only. The result is then read with a fourth request, outside of the measured wait.
    Decision,
}

/// Measures whole approvals over HTTP. `wanted` is the event that the agent waits for.
pub(super) async fn cycle(
    location: &StoreLocation,
    args: &BenchArgs,
    wanted: Wanted,
) -> anyhow::Result<Value> {
    let (callers, span) = (args.callers, args.span());
    let service = Arc::new(Service::start(location, args, 0).await?);
    let waits: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let proposals: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let mut pairs = Vec::new();
    for _ in 0..callers {
        let pair = (
            Connection::open(&service.address).await?,
            Connection::open(&service.address).await?,
        );
        pairs.push(Arc::new(tokio::sync::Mutex::new(pair)));
    }
    let paused: Arc<Mutex<Duration>> = Arc::default();
    let work = {
        let (service, waits, proposals, paused) =
            (service.clone(), waits.clone(), proposals.clone(), paused.clone());
        move |caller: usize| {
            let (service, waits, proposals, paused) =
                (service.clone(), waits.clone(), proposals.clone(), paused.clone());
            let pair = pairs.get(caller).cloned();
            async move {
                let pair = pair.context("no connection")?;
                let (agent, person) = &mut *pair.lock().await;
                let began = Instant::now();
                let id = service.propose(agent).await?;
                keep(&proposals, began.elapsed());
                let path = format!("/v1/approvals/{id}");
                let decided = format!("{path}?wait=1h");
                let finished = format!("{path}?wait=1h&waitFor=finished");
                let first = match wanted {
                    Wanted::Result => &finished,
                    Wanted::Decision => &decided,
                };
                agent.send("GET", first, &service.agent, "").await?;
                if callers == 1 {
                    // A pause, which is not part of the measured time, lets the agent's wait request arrive before the
                    // decision.
                    let began = Instant::now();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    *paused.lock().unwrap_or_else(PoisonError::into_inner) += began.elapsed();
                }
                let began = Instant::now();
                person
                    .send("POST", &path, &service.person, r#"{"approved":true}"#)
                    .await?;
                let mut answer = agent.receive().await?;
                keep(&waits, began.elapsed());
                person.receive().await?;
                if wanted == Wanted::Decision {
                    answer = agent.ask("GET", &finished, &service.agent, "").await?;
                }
                if !answer.contains("\"state\":\"succeeded\"") {
                    bail!("a call did not run: {answer}");
                }
                Ok(())
            }
        }
    };
    let (whole, elapsed) = drive(callers, span, work).await?;
    let elapsed = elapsed.saturating_sub(*paused.lock().unwrap_or_else(PoisonError::into_inner));
    let of = |kept: &Mutex<Vec<Duration>>| {
        let kept = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
        report("", kept, elapsed, json!({}))
    };
    let (waits, proposals) = (of(&waits), of(&proposals));
    let (bench, wait) = match wanted {
        Wanted::Result => ("http", "result"),
        Wanted::Decision => ("http-wake", "wake"),
    };
    let extra = json!({
        "conc": callers,
        format!("{wait}_p50_us"): waits.get("p50_us"), format!("{wait}_p99_us"): waits.get("p99_us"),
        "propose_p50_us": proposals.get("p50_us"), "propose_p99_us": proposals.get("p99_us"),
    });
    Ok(report(bench, whole, elapsed, extra))
}

fn keep(kept: &Mutex<Vec<Duration>>, took: Duration) {
    kept.lock().unwrap_or_else(PoisonError::into_inner).push(took);
}

/// Measures reading one approval, alternating with a bare server that returns the same bytes.
pub(super) async fn get(location: &StoreLocation, args: &BenchArgs) -> anyhow::Result<Value> {
    let (callers, span) = (args.callers, args.span());
    let service = Service::start(location, args, 0).await?;
    let mut connection = Connection::open(&service.address).await?;
    let id = service.propose(&mut connection).await?;
    let path = format!("/v1/approvals/{id}");
    let bytes = connection.ask("GET", &path, &service.agent, "").await?;
    let bare = crate::bare::start(bytes).await?;
    let mut ratios = Vec::new();
    let (mut ours, mut theirs) = (0.0, 0.0);
    for _ in 0..7 {
        let slice = span / 14;
        let mine = rate(&service.address, &path, &service.agent, callers, slice).await?;
        let floor = rate(&bare.address, "/", &service.agent, callers, slice).await?;
        (ours, theirs) = (ours + mine, theirs + floor);
        ratios.push(mine / floor);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let middle = ratios.get(ratios.len() / 2).copied().unwrap_or_default();
    Ok(json!({
        "bench": "http-get", "conc": callers, "per_s": (ours / 7.0).round(),
        "bare_per_s": (theirs / 7.0).round(), "ratio": (middle * 100.0).round() / 100.0,
    }))
}

async fn rate(address: &str, path: &str, token: &str, callers: usize, span: Duration) -> anyhow::Result<f64> {
    let mut connections = Vec::new();
    for _ in 0..callers {
        connections.push(Arc::new(tokio::sync::Mutex::new(
            Connection::open(address).await?,
        )));
    }
    let (path, token) = (path.to_owned(), token.to_owned());
    let work = move |caller: usize| {
        let connection = connections.get(caller).cloned();
        let (path, token) = (path.clone(), token.clone());
        async move {
            let connection = connection.context("no connection")?;
            connection.lock().await.ask("GET", &path, &token, "").await?;
            Ok(())
        }
    };
    let (latencies, elapsed) = drive(callers, span, work).await?;
    Ok(latencies.len() as f64 / elapsed.as_secs_f64())
}

/// Measures the memory and CPU use of idle long polls.
pub(super) async fn waiting(location: &StoreLocation, args: &BenchArgs) -> anyhow::Result<Value> {
    let count = args.rows;
    let service = Service::start(location, args, 0).await?;
    let pid = service.child.id().context("the service is gone")?;
    let mut first = Connection::open(&service.address).await?;
    service.propose(&mut first).await?;
    let before = resident_bytes(pid)?;
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let mut connection = Connection::open(&service.address).await?;
        let id = service.propose(&mut connection).await?;
        let path = format!("/v1/approvals/{id}?wait=1h");
        connection.send("GET", &path, &service.agent, "").await?;
        open.push(connection);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let grown = (resident_bytes(pid)? - before) / MIB;
    let idle = cpu_time(pid)?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let idle = cpu_time(pid)?.saturating_sub(idle);
    Ok(json!({
        "bench": "http-waiting", "waiters": count,
        "mib_per_10k_waiting": (grown * 1e4 / count as f64 * 10.0).round() / 10.0,
        "cpu_ms_in_5_s": idle.as_millis(),
    }))
}

/// Measures many event streams, of which a tenth stall: how many events the others receive, and how much the memory of
/// the service grows (F17).
pub(super) async fn streams(location: &StoreLocation, args: &BenchArgs) -> anyhow::Result<Value> {
    let (count, span) = (args.rows, args.span());
    let service = Service::start(location, args, count.div_ceil(STREAMS_EACH)).await?;
    let pid = service.child.id().context("the service is gone")?;
    let before = resident_bytes(pid)?;
    let mut stalled = Vec::new();
    let mut reading = Vec::new();
    for number in 0..count {
        let token = service.readers.get(number / STREAMS_EACH).context("no token")?;
        let mut connection = Connection::open(&service.address).await?;
        connection
            .send("GET", "/v1/events?what=proposed", token, "")
            .await?;
        match number % 10 {
            0 => stalled.push(connection),
            _ => reading.push(tokio::spawn(connection.count_events("proposed"))),
        }
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut connection = Connection::open(&service.address).await?;
    let began = Instant::now();
    let mut proposed = 0usize;
    while began.elapsed() < span {
        service.propose(&mut connection).await?;
        proposed += 1;
        // At this rate, two CPUs can serve a thousand readers.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let grown = (resident_bytes(pid)? - before) / MIB;
    drop(service);
    let mut complete = 0;
    let readers = reading.len();
    for reader in reading {
        complete += usize::from(reader.await? == proposed);
    }
    Ok(json!({
        "bench": "http-streams", "readers": readers, "stalled": stalled.len(), "events": proposed,
        "saw_every_event": complete, "grown_mib": grown.round(),
    }))
}
