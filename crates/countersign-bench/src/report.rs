//! Runs the callers of a case and summarizes their latencies.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Summarizes latencies in the fields that all cases have (`per_s`, `p50_us`, `p99_us`, `ops`), and adds those of
/// `extra`.
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
