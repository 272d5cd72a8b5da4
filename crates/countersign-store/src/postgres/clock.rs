//! Estimates the server's clock without a round trip, for timers.
//!
//! Input: the server's time, as reported in each transaction. Output: the server's current time, unless the last sample
//! is too old.
//! Whether an approval has expired is not decided by this estimate, but by the time that the server itself reports
//! under the lock.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use countersign::time::Time;

/// Maximum age of a sample. Clocks drift, and the server's clock may be set, but a sample of this age is good enough
/// for timers.
const LONGEST_AGE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct ServerClock(Mutex<Option<(Instant, Time)>>);

impl ServerClock {
    /// Records `now` as the server's time at this moment.
    pub(super) fn record(&self, now: Time) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), now));
    }

    /// Returns the estimated server time; `None` if there is no sample or the last one is too old.
    pub(super) fn now(&self) -> Option<Time> {
        let sample = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, time) = sample?;
        let since = at.elapsed();
        (since < LONGEST_AGE).then(|| time.plus(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_from_the_last_sample_until_it_is_too_old() {
        let clock = ServerClock::default();
        assert_eq!(clock.now(), None);
        let time = Time::from_micros(1_700_000_000_000_000);
        clock.record(time);
        let now = clock.now().unwrap();
        assert!(now >= time && now.since(time) < LONGEST_AGE);
        *clock.0.lock().unwrap() = Instant::now().checked_sub(LONGEST_AGE).map(|then| (then, time));
        assert_eq!(clock.now(), None);
    }
}
