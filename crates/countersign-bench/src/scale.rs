//! Benchmarks of a store with a long history: listing, audit, storage size, and recovery after a crash.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use countersign::decision::Verdict;
use countersign::gate::Gate;
use countersign::id::Tenant;
use countersign::store::Filter;
use countersign::store::audit::Audit;
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use serde_json::{Value, json};

use crate::BenchArgs;
use crate::load::{arguments, decision, gate, hold, submission, whole};
use crate::report::report;
use crate::store_location::StoreLocation;

const AT_ONCE: usize = 256;

/// Measures listing and proposing with `rows` decided approvals in the store.
pub(super) async fn list(location: &StoreLocation, rows: usize, span: Duration) -> anyhow::Result<Value> {
    let gate = gate(location.open("list").await?)?;
    let asked = submission("delete_paddocks", arguments())?;
    let decide_one = |_| async {
        let approval = hold(&gate, asked.clone()).await?;
        gate.decide(decision(&approval, Verdict::Deny)?)
            .await?
            .accepted()?;
        anyhow::Ok(())
    };
    iter(0..rows)
        .map(decide_one)
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    fill_pending(&gate, 1000).await?;
    let filter = Filter {
        limit: Some(50),
        ..Filter::pending()
    };
    let listed = listing(&gate, &filter, span / 2).await?;
    let started = Instant::now();
    let mut proposals = Vec::new();
    while started.elapsed() < span / 2 {
        let before = Instant::now();
        hold(&gate, asked.clone()).await?;
        proposals.push(before.elapsed());
    }
    let proposals = report("", proposals, started.elapsed(), json!({}));
    let extra = json!({"history_rows": rows, "propose_p50_us": proposals.get("p50_us")});
    Ok(report("list", listed.0, listed.1, extra))
}

async fn listing(gate: &Gate, filter: &Filter, span: Duration) -> anyhow::Result<(Vec<Duration>, Duration)> {
    let started = Instant::now();
    let mut latencies = Vec::new();
    while started.elapsed() < span {
        let before = Instant::now();
        let page = gate.store().list(&Tenant::single(), filter).await?;
        latencies.push(before.elapsed());
        if page.len() != 50 {
            bail!("a page of 50 has {}", page.len());
        }
    }
    Ok((latencies, started.elapsed()))
}

async fn fill_pending(gate: &Gate, count: usize) -> anyhow::Result<()> {
    let asked = submission("delete_paddocks", arguments())?;
    let hold_one = |_| async { hold(gate, asked.clone()).await.map(|_| ()) };
    iter(0..count)
        .map(hold_one)
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await
}

async fn finish_approvals(gate: &Gate, count: usize) -> anyhow::Result<()> {
    let asked = submission("delete_paddocks", arguments())?;
    let finish_one = |_| async { whole(gate, asked.clone()).await };
    iter(0..count)
        .map(finish_one)
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await
}

/// Measures an audit of `count` finished approvals, with their events and the log.
pub(super) async fn verify(location: &StoreLocation, count: usize) -> anyhow::Result<Value> {
    let gate = gate(location.open("verify").await?)?;
    finish_approvals(&gate, count).await?;
    let started = Instant::now();
    let audited = gate.store().audit(&Audit::default(), &|_| {}).await?;
    let seconds = started.elapsed().as_secs_f64();
    if !audited.is_sound() || audited.approvals != count as u64 {
        bail!("the audit of {count} approvals returned {audited:?}");
    }
    Ok(json!({
        "bench": "verify",
        "approvals": audited.approvals,
        "events": audited.events,
        "seconds": (seconds * 100.0).round() / 100.0,
        "per_s": (count as f64 / seconds).round(),
    }))
}

/// Measures the stored bytes per finished approval, including events.
pub(super) async fn bytes(location: &StoreLocation, count: usize) -> anyhow::Result<Value> {
    let StoreLocation::Sqlite { .. } = location else {
        return Ok(json!({"bench": "bytes", "skipped": "SQLite only"}));
    };
    let gate = gate(location.open("bytes").await?)?;
    finish_approvals(&gate, count).await?;
    drop(gate);
    // Closing the last connection checkpoints the WAL into the database file.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let size = |ending: &str| {
        let mut path = location.file("bytes").into_os_string();
        path.push(ending);
        std::fs::metadata(path).map_or(0, |metadata| metadata.len())
    };
    let total = size("") + size("-wal");
    Ok(json!({"bench": "bytes", "approvals": count, "bytes_per_approval": total / count.max(1) as u64}))
}

/// Measures the first listing after a crash with `--rows` pending approvals, and with 50 for comparison.
pub(super) async fn recover(location: &StoreLocation, args: &BenchArgs) -> anyhow::Result<Value> {
    let StoreLocation::Sqlite { directory, .. } = location else {
        bail!("recover is for SQLite: give a directory with --on")
    };
    if args.die {
        let gate = gate(location.open("recover").await?)?;
        fill_pending(&gate, args.rows).await?;
        // The crash must not happen during the burst of proposals, because the result would depend on the state of the
        // WAL.
        tokio::time::sleep(Duration::from_secs(1)).await;
        // An abort is like a kill: no destructor runs, and nothing is flushed.
        std::process::abort();
    }
    let (full, empty) = (
        first_listings(location, directory, args.rows)?,
        first_listings(location, directory, 50)?,
    );
    let (full, empty) = (full.await?, empty.await?);
    Ok(json!({
        "bench": "recover",
        "pending": args.rows,
        "first_listing_ms": millis(full),
        "first_listing_ms_with_50": millis(empty),
        "ratio": (full.as_secs_f64() / empty.as_secs_f64() * 100.0).round() / 100.0,
    }))
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e5).round() / 100.0
}

/// Lets a child process fill the store and crash, then opens the store and lists. Returns the median of five runs.
fn first_listings<'a>(
    location: &'a StoreLocation,
    directory: &'a std::path::Path,
    rows: usize,
) -> anyhow::Result<impl Future<Output = anyhow::Result<Duration>> + 'a> {
    let program = std::env::current_exe()?;
    Ok(async move {
        let mut times = Vec::new();
        for _ in 0..5 {
            let rows = rows.to_string();
            let mut child = Command::new(&program);
            child
                .args(["recover", "--die", "--rows", &rows, "--on"])
                .arg(directory);
            child.stderr(std::process::Stdio::null());
            let status = child.status().context("cannot start a child")?;
            if status.success() {
                bail!("the child did not die");
            }
            let started = Instant::now();
            let store = location.reopen("recover").await?;
            let filter = Filter {
                limit: Some(50),
                ..Filter::pending()
            };
            let page = store.list(&Tenant::single(), &filter).await?;
            times.push(started.elapsed());
            if page.len() != 50 {
                bail!("a page of 50 has {}", page.len());
            }
        }
        times.sort_unstable();
        Ok(times.get(times.len() / 2).copied().unwrap_or_default())
    })
}
