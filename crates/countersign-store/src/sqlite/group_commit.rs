//! Group commit: decides which commands share a transaction, and whether to wait for callers that were just answered.
//!
//! Input: the times at which commands were queued. Output: the next command to join the current group, or the end of
//! the group. The commands are run by `writer`.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::writer::{Job, WriterMessage};

/// Maximum number of commands in one transaction.
pub(super) const LARGEST_GROUP: usize = 1024;

/// Maximum idle time of the writer while it waits for callers to return.
const LONGEST_IDLE: Duration = Duration::from_micros(500);

/// Divisor of the last commit's duration: the writer idles for at most 1/4 of it. A wait in vain costs little time,
/// while a successful one can save half of the syncs.
const IDLE_FRACTION: u32 = 4;

/// Weight of history in the moving average (a new sample counts 1/8).
const HISTORY_WEIGHT: u32 = 8;

/// Maximum length of a sample. A caller that takes longer has other work to do.
const LONGEST_SAMPLE: Duration = Duration::from_millis(100);

/// Measures how soon answered callers queue their next command.
pub(super) struct CallerReturns {
    answered: usize,
    answered_at: Instant,
    returned: usize,
    /// Moving average of the time until nearly all callers have returned, divided by the number of those callers.
    return_time_per_caller: Duration,
    /// Estimated number of active callers: in the current group, queued, or about to return.
    callers: usize,
}

impl CallerReturns {
    pub(super) fn none() -> CallerReturns {
        CallerReturns {
            answered: 0,
            answered_at: Instant::now(),
            returned: 0,
            return_time_per_caller: Duration::ZERO,
            callers: 0,
        }
    }

    /// Records that `count` commands are answered now while `queued` others wait.
    pub(super) fn record_answered(&mut self, count: usize, queued: usize) {
        if self.returned < self.most_callers() {
            self.add_sample(self.answered_at.elapsed());
        }
        // The estimate decreases by at most one per group, so that callers that stay away are forgotten slowly.
        let callers = count + queued + self.not_returned();
        self.callers = callers.max(self.callers.saturating_sub(1));
        (self.answered, self.answered_at, self.returned) = (count, Instant::now(), 0);
    }

    /// Records that a command was queued. A command that was queued before the last answers does not come from a
    /// returning caller, and is not counted.
    pub(super) fn record_queued(&mut self, queued_at: Instant) {
        if let Some(after) = queued_at.checked_duration_since(self.answered_at) {
            self.returned += 1;
            if self.returned == self.most_callers() {
                self.add_sample(after);
            }
        }
    }

    /// Returns the number of callers that have to return for a sample: 7/8 of the answered ones. The rest may never
    /// return, and must not make the others look slow.
    fn most_callers(&self) -> usize {
        self.answered - self.answered / 8
    }

    fn add_sample(&mut self, after: Duration) {
        // A small group says little about all callers, because most of its return time does not depend on its size.
        if self.answered * 4 < self.callers {
            return;
        }
        let count = u32::try_from(self.most_callers()).unwrap_or(u32::MAX).max(1);
        self.return_time_per_caller = (self.return_time_per_caller * (HISTORY_WEIGHT - 1)
            + after.min(LONGEST_SAMPLE) / count)
            / HISTORY_WEIGHT;
    }

    /// Returns how long to wait for missing callers. Zero if all callers together need longer to return than the last
    /// commit took.
    fn idle_limit(&self, last_commit: Duration) -> Duration {
        let all = self.return_time_per_caller * u32::try_from(self.callers).unwrap_or(u32::MAX);
        match all <= last_commit {
            true => (last_commit / IDLE_FRACTION).min(LONGEST_IDLE),
            false => Duration::ZERO,
        }
    }

    fn not_returned(&self) -> usize {
        self.answered.saturating_sub(self.returned)
    }
}

/// Commands that arrive while a group runs.
///
/// A caller that was just answered is likely to send another command. If all callers return within the time of a
/// commit, the writer waits for them: otherwise they split into two halves that take turns and need twice the syncs.
/// Commands that have arrived run meanwhile, so little time is lost. If callers take longer between two commands, two
/// halves are better: one half works while the other is committed. With a single caller the writer never waits.
pub(super) struct Arrivals {
    /// Time that the writer may still idle for this group.
    idle_limit: Duration,
    idle_since: Option<Instant>,
    is_single: bool,
    pub(super) closing: Option<oneshot::Sender<()>>,
}

impl Arrivals {
    pub(super) fn new(last_commit: Duration, returns: &CallerReturns) -> Arrivals {
        Arrivals {
            idle_limit: returns.idle_limit(last_commit),
            idle_since: None,
            is_single: false,
            closing: None,
        }
    }

    /// Creates a group that no other command may join, for a command that runs in a transaction of its own.
    pub(super) fn closed() -> Arrivals {
        Arrivals {
            idle_limit: Duration::ZERO,
            idle_since: None,
            is_single: true,
            closing: None,
        }
    }

    /// Returns the next command for a group that has `count` commands so far; `None` when the group is complete.
    pub(super) fn next(
        &mut self,
        queue: &Receiver<WriterMessage>,
        returns: &mut CallerReturns,
        count: usize,
    ) -> Option<Job> {
        if self.is_single || count >= LARGEST_GROUP || self.closing.is_some() {
            return None;
        }
        loop {
            match queue.try_recv() {
                Ok(WriterMessage::Write(job)) => {
                    self.idle_since = None;
                    returns.record_queued(job.queued_at);
                    return Some(*job);
                }
                // The files are checked anyway before this group is answered.
                Ok(WriterMessage::CheckFiles) => {}
                Ok(WriterMessage::Close(done)) => {
                    self.closing = Some(done);
                    return None;
                }
                Err(_) if returns.not_returned() == 0 => return None,
                Err(_) => self.wait_once()?,
            }
        }
    }

    /// Yields the processor once; returns `None` when the idle time is used up.
    fn wait_once(&mut self) -> Option<()> {
        if self.idle_limit.is_zero() {
            return None;
        }
        let now = Instant::now();
        let since = self.idle_since.replace(now).unwrap_or(now);
        self.idle_limit = self.idle_limit.checked_sub(now - since)?;
        std::thread::yield_now();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: Duration = Duration::from_millis(1);

    /// Records ten groups of four callers, each of whom returns after `after`.
    fn callers_returning_after(after: Duration) -> CallerReturns {
        let mut returns = CallerReturns::none();
        for _ in 0..10 {
            returns.record_answered(4, 0);
            (0..4).for_each(|_| returns.record_queued(returns.answered_at + after));
        }
        returns
    }

    #[test]
    fn waits_for_callers_that_return_within_a_commit() {
        assert_eq!(
            callers_returning_after(COMMIT / 10).idle_limit(COMMIT),
            COMMIT / IDLE_FRACTION
        );
        assert_eq!(
            callers_returning_after(COMMIT * 2).idle_limit(COMMIT),
            Duration::ZERO
        );
        // A longer commit is worth a longer wait.
        assert_eq!(
            callers_returning_after(COMMIT * 2).idle_limit(COMMIT * 10),
            LONGEST_IDLE
        );
        let mut quiet = callers_returning_after(Duration::from_secs(3600));
        assert_eq!(quiet.idle_limit(COMMIT), Duration::ZERO);
        for _ in 0..100 {
            quiet.record_answered(2, 0);
            quiet.record_queued(quiet.answered_at);
        }
        assert_eq!(
            quiet.idle_limit(COMMIT),
            COMMIT / IDLE_FRACTION,
            "the average follows"
        );
    }

    #[test]
    fn does_not_wait_if_only_half_of_the_callers_return_in_time() {
        let mut returns = CallerReturns::none();
        for _ in 0..100 {
            // Half of the callers are in the group and half are queued; each answered caller returns just within a
            // commit.
            returns.record_answered(32, 32);
            (0..32).for_each(|_| returns.record_queued(returns.answered_at + COMMIT * 9 / 10));
        }
        assert_eq!(returns.idle_limit(COMMIT), Duration::ZERO);
        // A few callers that each take as long as ten others together do not change the average.
        let mut returns = callers_returning_after(COMMIT / 10);
        returns.record_answered(1, 15);
        let before = returns.return_time_per_caller;
        returns.record_queued(returns.answered_at + COMMIT);
        assert_eq!(returns.return_time_per_caller, before);
    }

    #[test]
    fn callers_queued_before_the_answers_have_not_returned() {
        let mut returns = CallerReturns::none();
        let before = Instant::now();
        returns.record_answered(2, 0);
        returns.record_queued(before);
        assert_eq!(returns.not_returned(), 2);
        returns.record_queued(returns.answered_at);
        assert_eq!(returns.not_returned(), 1);
    }
}
