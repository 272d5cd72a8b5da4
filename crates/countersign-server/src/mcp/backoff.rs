//! How soon a server that keeps ending may be started again.
//!
//! Enters: that a server ended by itself, and how long it had run. Leaves: whether it may be started now. The first time
//! it may at once; each further time it has to wait twice as long, until it has run for a while.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The wait after the second end in a row.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A server that ran for so long works: its end is the first in a row.
const WORKED: Duration = Duration::from_secs(60);

/// Ends of servers, by whose they are: nobody waits because of somebody else's.
#[derive(Debug, Default)]
pub struct Backoff(Mutex<HashMap<String, Ends>>);

#[derive(Clone, Copy, Debug)]
struct Ends {
    count: u32,
    not_before: Instant,
}

impl Backoff {
    /// Returns how long to wait before the next start; nothing when it may be now.
    pub fn wait(&self, whose: &str) -> Option<Duration> {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = ends
            .get(whose)?
            .not_before
            .checked_duration_since(Instant::now())?;
        (!left.is_zero()).then_some(left)
    }

    /// Notes that a server ended by itself, after it had run for so long.
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

/// The wait after so many ends in a row.
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
