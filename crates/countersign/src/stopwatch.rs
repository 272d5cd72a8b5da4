//! Elapsed time that, on Linux, includes the time during which the machine was suspended.
//!
//! A process may be suspended past the deadline of a call that it started, while other nodes give up on the call.
//! Linux's monotonic clock stops during suspend, so it cannot detect this; the boot-time clock does not stop. On other
//! systems only the monotonic clock is used.

use std::time::Duration;

/// Measures the time since its creation.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Duration);

impl Stopwatch {
    /// Creates a stopwatch that counts from now on.
    pub fn start() -> Stopwatch {
        Stopwatch(now())
    }

    /// Returns the time since the stopwatch was created.
    pub fn elapsed(&self) -> Duration {
        now().saturating_sub(self.0)
    }
}

/// Time limit measured with a [`Stopwatch`].
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit {
    since: Stopwatch,
    limit: Duration,
}

impl TimeLimit {
    /// Creates a limit that began when the stopwatch was started.
    pub fn new(since: Stopwatch, limit: Duration) -> TimeLimit {
        TimeLimit { since, limit }
    }

    /// Returns the time left; `None` if the limit has passed.
    pub fn left(&self) -> Option<Duration> {
        let left = self.limit.saturating_sub(self.since.elapsed());
        (!left.is_zero()).then_some(left)
    }
}

/// True if [`now`] includes the time during which the machine was suspended.
pub(crate) const COUNTS_SLEEP: bool = cfg!(target_os = "linux");

/// Returns the time since boot, including suspend.
#[cfg(target_os = "linux")]
pub(crate) fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

/// Returns the time since the first call of this function.
#[cfg(not(target_os = "linux"))]
pub(crate) fn now() -> Duration {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}

/// Returns the identifier of the current boot, or `None` if it is unknown. Values of [`now`] are comparable only within
/// one boot.
pub(crate) fn boot() -> Option<String> {
    static BOOT: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let read = || {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let text = text.trim();
        let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        is_name.then(|| text.to_owned())
    };
    match COUNTS_SLEEP {
        true => BOOT.get_or_init(read).clone(),
        false => None,
    }
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

    #[test]
    fn a_limit_is_over_once_its_time_has_passed() {
        let since = Stopwatch::start();
        assert!(TimeLimit::new(since, Duration::from_secs(60)).left().is_some());
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(TimeLimit::new(since, Duration::from_millis(1)).left(), None);
    }
}
