//! Measures memory and the latency of other clients during a flood.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::service::{INNOCENT, POLICY, Service};
use crate::{x61, x62};

/// Plays well-behaved clients until the flood is over: requests `/healthz` continuously, and makes a whole approval
/// every half second. Returns the latencies of both.
async fn innocents(
    service: Arc<Service>,
    over: Arc<std::sync::atomic::AtomicBool>,
) -> (Vec<Duration>, Vec<Duration>) {
    let (mut healths, mut approvals) = (Vec::new(), Vec::new());
    let mut last = Instant::now() - Duration::from_secs(1);
    while !over.load(std::sync::atomic::Ordering::Relaxed) {
        healths.push(service.get(INNOCENT, "", "/healthz").await.took);
        if last.elapsed() > Duration::from_millis(500) {
            last = Instant::now();
            approvals.push(service.whole_approval().await);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (healths, approvals)
}

fn figures(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: usize| times.get((times.len() * share / 100).min(times.len().saturating_sub(1)));
    let millis = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0);
    format!(
        "p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms, of {}",
        millis(at(50)),
        millis(at(99)),
        millis(times.last()),
        times.len()
    )
}

async fn measured<F: Future<Output = String>>(name: &str, flood: impl FnOnce(Arc<Service>) -> F) {
    let service = Arc::new(Service::start(POLICY, ""));
    let before = service.peak();
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let watching = tokio::spawn(innocents(service.clone(), over.clone()));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    let said = flood(service.clone()).await;
    let took = began.elapsed();
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    let (healths, approvals) = watching.await.unwrap();
    println!("{name}: {said} in {:.1} s", took.as_secs_f64());
    println!(
        "  memory: {before} MiB at rest, {} MiB at its peak",
        service.peak()
    );
    println!("  GET /healthz: {}", figures(healths));
    println!("  whole approval: {}", figures(approvals));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement, not a test"]
async fn x61_x62_figures_under_a_flood() {
    measured("300 sign-ins under other names", async |service| {
        let answers = x61::strangers_sign_in(&service).await;
        let slowest = answers.iter().map(|answer| answer.took).max().unwrap_or_default();
        let refused = answers.iter().filter(|answer| answer.status == 429).count();
        format!(
            "{refused} of 300 refused, the slowest answer after {:.1} s",
            slowest.as_secs_f64()
        )
    })
    .await;
    measured(
        "240 proposals of 64 KB, then 20 lists of 200 at once",
        async |service| {
            let began = Instant::now();
            let proposed = x62::propose(&service, 240, None).await;
            let made = proposed.iter().filter(|answer| answer.status == 200).count();
            let took = began.elapsed().as_secs_f64();
            let lists = x62::list(&service, &service.agent).await;
            let largest = lists
                .iter()
                .map(|answer| answer.body.len())
                .max()
                .unwrap_or_default();
            format!(
                "{made} held in {took:.1} s, the largest list {} KiB",
                largest / 1024
            )
        },
    )
    .await;
}
