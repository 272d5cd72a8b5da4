//! Measures limits of the machine itself, without the gate: syncs of the disk, memory of a task.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use countersign_store::private_file;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::report::report;

/// Measures how often 4 KiB can be appended to a file and synced.
pub(super) fn fsync(directory: &Path, span: Duration) -> anyhow::Result<Value> {
    std::fs::create_dir_all(directory)?;
    let path = private_file::temporary_path(&directory.join("bench-fsync.dat"))?;
    let mut file = private_file::create_new(&path)?;
    let started = Instant::now();
    let mut latencies = Vec::new();
    while started.elapsed() < span {
        let before = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        latencies.push(before.elapsed());
    }
    std::fs::remove_file(path)?;
    Ok(report("fsync", latencies, started.elapsed(), json!({})))
}

/// Returns the memory of a waiting task in bytes, averaged over `count` tasks.
pub(super) async fn parked_task_bytes(count: usize) -> anyhow::Result<f64> {
    let here = std::process::id();
    let before = resident_bytes(here)?;
    let mut parked = Vec::with_capacity(count);
    for _ in 0..count {
        let (sender, receiver) = oneshot::channel::<u64>();
        parked.push((sender, tokio::spawn(async move { receiver.await.ok() })));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok((resident_bytes(here)? - before) / count.max(1) as f64)
}

/// Returns the resident memory of the process with this id, in bytes.
pub(super) fn resident_bytes(process: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("no memory figure")?.parse::<f64>()? * 1024.0)
}

/// Returns the CPU time that the process with this id has used.
pub(super) fn cpu_time(process: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // After the process name, which may contain anything, fields 12 and 13 are user and system time in ticks.
    let (_, fields) = stat.rsplit_once(')').context("no processor figure")?;
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Ok(Duration::from_millis(ticks * 10))
}
