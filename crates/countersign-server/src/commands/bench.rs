//! `bench`: runs benchmarks and prints one line per case.

use serde_json::Value;

use crate::bench::{self, BenchArgs};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs the selected cases.
pub async fn run(options: BenchArgs, is_json: bool, output: &mut Output) -> Result<Exit, Failure> {
    let print = |result: &Value| {
        // One line each, for tools that run many benchmarks.
        output.line(&match is_json {
            true => result.to_string(),
            false => sentence(result),
        });
        Ok(())
    };
    match bench::run(options, print).await {
        Ok(()) => Ok(Exit::Done),
        Err(error) => Err(Failure::error("bench_failed", format!("{error:#}"))),
    }
}

/// Formats a result: its name, then each figure with its name.
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
