//! Backoff for servers that end by themselves again and again.
//!
//! The first restart is immediate. The wait before each further one doubles, up to a limit, until the server has run
//! for a while.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wait before the restart after the second consecutive failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Upper limit of the wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Run time after which a server counts as working, so that the count of consecutive failures starts again.
const WORKED: Duration = Duration::from_secs(60);

/// Delays the restart of servers that fail repeatedly. Counts consecutive failures per key (a caller or the name of a
/// server), so that one failing server does not delay the others.
#[derive(Debug, Default)]
pub struct Backoff(Mutex<HashMap<String, Ends>>);

#[derive(Clone, Copy, Debug)]
struct Ends {
    count: u32,
    not_before: Instant,
}

impl Backoff {
    /// Returns how long to wait before the server with this key is started again, or `None` if it may start now.
    pub fn wait(&self, whose: &str) -> Option<Duration> {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = ends
            .get(whose)?
            .not_before
            .checked_duration_since(Instant::now())?;
        (!left.is_zero()).then_some(left)
    }

    /// Returns how many times in a row the server has ended by itself. An end after it had run for `WORKED` starts the
    /// count again at one.
    pub fn ends(&self, whose: &str) -> u32 {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.get(whose).map_or(0, |ends| ends.count)
    }

    /// Records that a server ended by itself after it had run for `ran`.
    pub fn ended(&self, whose: &str, ran: Duration) {
        let now = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, ends| now.saturating_duration_since(ends.not_before) < WORKED);
        let before = all.get(whose).map_or(0, |ends| ends.count);
        let count = match ran >= WORKED {
            true => 1,
            false => before.saturating_add(1),
        };
        let not_before = now + wait_after(count);
        all.insert(whose.to_owned(), Ends { count, not_before });
    }
}

/// Returns how long to wait after the server has ended `count` times in a row.
fn wait_after(count: u32) -> Duration {
    match count.checked_sub(2) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_WAIT
            .saturating_mul(2_u32.saturating_pow(doublings))
            .min(LONGEST_WAIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_in_a_row_doubles_the_wait() {
        let seconds: Vec<u64> = [0, 1, 2, 3, 4, 7, 8, 1000]
            .map(|count| wait_after(count).as_secs())
            .into();
        assert_eq!(seconds, [0, 0, 1, 2, 4, 30, 30, 30]);
    }

    #[test]
    fn who_works_for_a_while_starts_anew_and_nobody_waits_for_others() {
        let backoff = Backoff::default();
        backoff.ended("a", Duration::ZERO);
        assert_eq!(backoff.wait("a"), None);
        backoff.ended("a", Duration::ZERO);
        assert!(backoff.wait("a").is_some());
        assert_eq!(backoff.wait("b"), None);
        backoff.ended("a", WORKED);
        assert_eq!(backoff.wait("a"), None);
    }
}
