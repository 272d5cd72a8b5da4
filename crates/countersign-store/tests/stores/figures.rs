//! Number of rounds for each fault, and the report line.
//!
//! By default a test runs as many rounds as fit CI. `COUNTERSIGN_TEST_F09=200`, with the fault's id, overrides that.

use crate::programs::from_environment;

/// Returns the number of rounds of a fault: `usual` unless overridden by the environment.
pub fn rounds(fault: &str, usual: usize) -> usize {
    from_environment(&format!("COUNTERSIGN_TEST_{fault}"), usual)
}

/// Reports that all rounds of a fault passed. Scripts collect these lines.
pub fn report(fault: &str, store: &str, rounds: usize, details: &str) {
    say(&format!("{fault} {store} rounds={rounds} violations=0 {details}"));
}

#[expect(clippy::print_stdout, reason = "scripts and people read it")]
pub fn say(line: &str) {
    println!("{line}");
}

/// Returns a percentile, by nearest rank; sorts the values.
pub fn percentile<T: Copy + Ord>(values: &mut [T], percent: usize) -> T {
    values.sort_unstable();
    values[(values.len() * percent / 100).min(values.len() - 1)]
}
