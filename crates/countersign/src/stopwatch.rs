//! Elapsed time that goes on while the process is stopped and while the machine sleeps.
//!
//! A process may sleep past the deadline of a call that it started, and other nodes give the call up meanwhile. The monotonic clock
//! of Linux stands still while the machine is suspended, so it cannot be used to notice this.

use std::time::Duration;

/// Measures from when it was made.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Duration);

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        Stopwatch(now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        now().saturating_sub(self.0)
    }
}

/// Time since the machine started, with the time it slept.
#[cfg(target_os = "linux")]
fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

/// Time since this was first asked for.
#[cfg(not(target_os = "linux"))]
fn now() -> Duration {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on() {
        let watch = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(20));
        let elapsed = watch.elapsed();
        assert!(elapsed >= Duration::from_millis(20), "{elapsed:?}");
        assert!(watch.elapsed() >= elapsed);
    }
}
