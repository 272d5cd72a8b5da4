//! Benchmarks of waiting and waking.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use countersign::decision::Verdict;
use countersign::gate::{Gate, Until};
use countersign::store::Store;
use serde_json::{Value, json};

use crate::load::{arguments, decision, gate, hold, submission};
use crate::raw::{cpu_time, parked_task_bytes, resident_bytes};
use crate::report::report;
use crate::store_location::StoreLocation;

/// Maximum duration of a wait: longer than any benchmark.
const LONG: Duration = Duration::from_secs(3600);

/// Measures the time from the answer to a decision, which follows its commit, until the waiting task runs. If the task
/// runs before the answer, the time counts as 0.
pub(super) async fn wake(store: Arc<dyn Store>, span: Duration) -> anyhow::Result<Value> {
    let gate = gate(store)?;
    let (after_answer, whole, elapsed) = rounds(&gate, &gate, span).await?;
    let whole = report("", whole, elapsed, json!({}));
    let extra =
        json!({"decide_to_woken_p50_us": whole.get("p50_us"), "decide_to_woken_p99_us": whole.get("p99_us")});
    Ok(report("wake", after_answer, elapsed, extra))
}

/// Measures the time from the call of `decide` on one node until the waiting task on another node runs, over a shared
/// database.
pub(super) async fn nodes(location: &StoreLocation, span: Duration) -> anyhow::Result<Value> {
    if !matches!(location, StoreLocation::Postgres(_)) {
        bail!("nodes share a PostgreSQL: give its URL with --on");
    }
    let (here, there) = (
        gate(location.reopen("nodes").await?)?,
        gate(location.reopen("nodes").await?)?,
    );
    let (_, whole, elapsed) = rounds(&here, &there, span).await?;
    Ok(report("nodes", whole, elapsed, json!({})))
}

/// Repeats for `span`: an agent waits at one gate, and a person decides at the other. Returns, for each round, the time
/// from the answer to the decision until the agent is woken, and the time from the call of `decide` until then. The
/// last value is the total time.
async fn rounds(
    agent: &Gate,
    person: &Gate,
    span: Duration,
) -> anyhow::Result<(Vec<Duration>, Vec<Duration>, Duration)> {
    let asked = submission("delete_paddocks", arguments())?;
    let started = Instant::now();
    let (mut after_answer, mut whole) = (Vec::new(), Vec::new());
    while started.elapsed() < span {
        let approval = hold(agent, asked.clone()).await?;
        let (gate, tenant, id) = (agent.clone(), approval.tenant.clone(), approval.id);
        let waiting = tokio::spawn(async move {
            let waited = gate.wait(&tenant, id, Until::Decided, LONG).await;
            (Instant::now(), waited.is_ok())
        });
        // A pause gives the task time to start waiting.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let decision = decision(&approval, Verdict::Deny)?;
        let called = Instant::now();
        person.decide(decision).await?.accepted()?;
        let answered = Instant::now();
        let (woken, is_well) = waiting.await?;
        if !is_well {
            bail!("a wait failed");
        }
        after_answer.push(woken.saturating_duration_since(answered));
        whole.push(woken.saturating_duration_since(called));
    }
    Ok((after_answer, whole, started.elapsed()))
}

/// Measures the memory of waiting agents, compared with that of plain waiting tasks, and the CPU use of idle agents.
pub(super) async fn waiting(store: Arc<dyn Store>, count: usize) -> anyhow::Result<Value> {
    let gate = gate(store)?;
    let asked = submission("delete_paddocks", arguments())?;
    let mut ids = Vec::with_capacity(count);
    for chunk in 0..count.div_ceil(64) {
        let in_chunk = 64.min(count - chunk * 64);
        let held = (0..in_chunk).map(|_| hold(&gate, asked.clone()));
        for approval in futures_util::future::join_all(held).await {
            ids.push(approval?.id);
        }
    }
    let parked = parked_task_bytes(count).await?;
    let here = std::process::id();
    let before = resident_bytes(here)?;
    let tenant = asked.tenant.clone();
    let waiting: Vec<_> = ids
        .into_iter()
        .map(|id| {
            let (gate, tenant) = (gate.clone(), tenant.clone());
            tokio::spawn(async move { gate.wait(&tenant, id, Until::Decided, LONG).await.is_ok() })
        })
        .collect();
    // Continue when the CPU time no longer grows: then all tasks have read the approval and wait.
    let mut settled = cpu_time(here)?;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = cpu_time(here)?;
        if now - settled < Duration::from_millis(20) {
            break;
        }
        settled = now;
    }
    let each = (resident_bytes(here)? - before) / count.max(1) as f64;
    let idle_from = cpu_time(here)?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let idle = cpu_time(here)? - idle_from;
    for task in &waiting {
        task.abort();
    }
    Ok(json!({
        "bench": "waiting",
        "waiters": count,
        "bytes_each": each.round(),
        "parked_task_bytes": parked.round(),
        "ratio": (each / parked.max(1.0) * 100.0).round() / 100.0,
        "cpu_ms_in_2_idle_seconds": idle.as_millis(),
    }))
}
