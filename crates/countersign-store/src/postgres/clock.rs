//! The server's clock, as this node last heard it. It answers "how long until then" without an exchange.
//!
//! Enters: what the server's clock said, with every transaction. Leaves: what it says now, unless nobody heard it lately.
//! Deliberately absent: any guard. Whether an approval has expired is asked of the server itself, under its lock.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use countersign::time::Time;

/// Two clocks drift apart, and the server's may be set. So long what was heard is good enough for a timer.
const GOOD_FOR: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct ServerClock(Mutex<Option<(Instant, Time)>>);

impl ServerClock {
    /// The server's clock said this, just now.
    pub(super) fn hear(&self, now: Time) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), now));
    }

    /// What it says now; nothing when it was not heard lately.
    pub(super) fn now(&self) -> Option<Time> {
        let heard = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, said) = heard?;
        let since = at.elapsed();
        (since < GOOD_FOR).then(|| said.plus(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_from_what_was_heard_and_not_for_long() {
        let clock = ServerClock::default();
        assert_eq!(clock.now(), None);
        let said = Time::from_micros(1_700_000_000_000_000);
        clock.hear(said);
        let now = clock.now().unwrap();
        assert!(now >= said && now.since(said) < GOOD_FOR);
        *clock.0.lock().unwrap() = Instant::now().checked_sub(GOOD_FOR).map(|then| (then, said));
        assert_eq!(clock.now(), None);
    }
}
