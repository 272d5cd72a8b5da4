//! Who shares a transaction: whether to wait for callers that were answered just now.
//!
//! Enters: who queues up, and when. Leaves: the next to join the group at work, or that it is complete.
//! Deliberately absent: the work itself.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::writer::{Job, Message};

/// The most commands in one transaction.
pub(super) const LARGEST_GROUP: usize = 1024;

/// The longest we stand idle for callers to come back, whatever a commit takes.
const LONGEST_IDLE: Duration = Duration::from_micros(500);

/// We stand idle for at most this part of what the last commit took: little to lose, and half the syncs to win.
const IDLE_PART: u32 = 4;

/// What is learned of one group counts for so much less than what was known before.
const MEMORY: u32 = 8;

/// Who takes longer is not on the way back, and says nothing of those who are.
const GONE: Duration = Duration::from_millis(100);

/// How soon those who were answered come back.
pub(super) struct Returns {
    answered: usize,
    answered_at: Instant,
    back: usize,
    /// How long nearly all of them take, for each of them: they come one after the other.
    pace: Duration,
    /// All that come again and again: at work, queued, or on the way back.
    callers: usize,
}

impl Returns {
    pub(super) fn none() -> Returns {
        Returns {
            answered: 0,
            answered_at: Instant::now(),
            back: 0,
            pace: Duration::ZERO,
            callers: 0,
        }
    }

    /// So many are answered now, while so many others are queued.
    pub(super) fn answer(&mut self, count: usize, queued: usize) {
        if self.back < self.nearly_all() {
            self.learn(self.answered_at.elapsed());
        }
        // One less each time, so that who stays away is forgotten.
        let callers = count + queued + self.missing();
        self.callers = callers.max(self.callers.saturating_sub(1));
        (self.answered, self.answered_at, self.back) = (count, Instant::now(), 0);
    }

    /// Somebody came. Those who queued up before the last answers were never gone.
    pub(super) fn note(&mut self, queued_at: Instant) {
        if let Some(after) = queued_at.checked_duration_since(self.answered_at) {
            self.back += 1;
            if self.back == self.nearly_all() {
                self.learn(after);
            }
        }
    }

    /// Some go away for good, and should not be taken for slow.
    fn nearly_all(&self) -> usize {
        self.answered - self.answered / 8
    }

    fn learn(&mut self, after: Duration) {
        // A few say nothing of all: most of what they take is not one after the other.
        if self.answered * 4 < self.callers {
            return;
        }
        let count = u32::try_from(self.nearly_all()).unwrap_or(u32::MAX).max(1);
        self.pace = (self.pace * (MEMORY - 1) + after.min(GONE) / count) / MEMORY;
    }

    /// How long to stand idle for the rest: not at all when all of them together take longer than a commit.
    fn patience(&self, last_commit: Duration) -> Duration {
        let all = self.pace * u32::try_from(self.callers).unwrap_or(u32::MAX);
        match all <= last_commit {
            true => (last_commit / IDLE_PART).min(LONGEST_IDLE),
            false => Duration::ZERO,
        }
    }

    fn missing(&self) -> usize {
        self.answered.saturating_sub(self.back)
    }
}

/// Those who come while a group is at work.
///
/// Whoever was answered just now is likely to come back. If they all do so within a commit, they are waited for: else many
/// callers fall into two halves that take turns and never meet, with twice the syncs. What has come is worked on
/// meanwhile, so little of the wait is lost. If they have more to do between two commands, two halves are just right: one
/// does it while the other is committed. With one caller this never waits.
pub(super) struct Arrivals {
    /// How long we may still stand idle.
    patience: Duration,
    idle_since: Option<Instant>,
    is_alone: bool,
    pub(super) closing: Option<oneshot::Sender<()>>,
}

impl Arrivals {
    pub(super) fn new(last_commit: Duration, returns: &Returns) -> Arrivals {
        Arrivals {
            patience: returns.patience(last_commit),
            idle_since: None,
            is_alone: false,
            closing: None,
        }
    }

    /// For a command that is to be alone.
    pub(super) fn none() -> Arrivals {
        Arrivals {
            patience: Duration::ZERO,
            idle_since: None,
            is_alone: true,
            closing: None,
        }
    }

    /// The next to join a group of so many; nothing when it is complete.
    pub(super) fn next(
        &mut self,
        queue: &Receiver<Message>,
        returns: &mut Returns,
        count: usize,
    ) -> Option<Job> {
        if self.is_alone || count >= LARGEST_GROUP || self.closing.is_some() {
            return None;
        }
        loop {
            match queue.try_recv() {
                Ok(Message::Write(job)) => {
                    self.idle_since = None;
                    returns.note(job.queued_at);
                    return Some(*job);
                }
                Ok(Message::Close(done)) => {
                    self.closing = Some(done);
                    return None;
                }
                Err(_) if returns.missing() == 0 => return None,
                Err(_) => self.idle()?,
            }
        }
    }

    /// Lets others work for a moment; nothing when patience has come to its end.
    fn idle(&mut self) -> Option<()> {
        if self.patience.is_zero() {
            return None;
        }
        let now = Instant::now();
        let since = self.idle_since.replace(now).unwrap_or(now);
        self.patience = self.patience.checked_sub(now - since)?;
        std::thread::yield_now();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: Duration = Duration::from_millis(1);

    /// Ten groups of four, each of whom comes back after so long.
    fn returning(after: Duration) -> Returns {
        let mut returns = Returns::none();
        for _ in 0..10 {
            returns.answer(4, 0);
            (0..4).for_each(|_| returns.note(returns.answered_at + after));
        }
        returns
    }

    #[test]
    fn those_who_come_back_within_a_commit_are_waited_for() {
        assert_eq!(returning(COMMIT / 10).patience(COMMIT), COMMIT / IDLE_PART);
        assert_eq!(returning(COMMIT * 2).patience(COMMIT), Duration::ZERO);
        // A commit that takes longer is worth more.
        assert_eq!(returning(COMMIT * 2).patience(COMMIT * 10), LONGEST_IDLE);
        let mut quiet = returning(Duration::from_secs(3600));
        assert_eq!(quiet.patience(COMMIT), Duration::ZERO);
        for _ in 0..100 {
            quiet.answer(2, 0);
            quiet.note(quiet.answered_at);
        }
        assert_eq!(quiet.patience(COMMIT), COMMIT / IDLE_PART, "it is learned anew");
    }

    #[test]
    fn where_half_of_them_come_back_in_time_all_of_them_would_not() {
        let mut returns = Returns::none();
        for _ in 0..100 {
            // Half are at work and half are queued; who was answered comes back within a commit, and no sooner.
            returns.answer(32, 32);
            (0..32).for_each(|_| returns.note(returns.answered_at + COMMIT * 9 / 10));
        }
        assert_eq!(returns.patience(COMMIT), Duration::ZERO);
        // A few who take as long each as ten others together say nothing of all.
        let mut returns = returning(COMMIT / 10);
        returns.answer(1, 15);
        let before = returns.pace;
        returns.note(returns.answered_at + COMMIT);
        assert_eq!(returns.pace, before);
    }

    #[test]
    fn who_queued_up_before_the_answers_is_not_back() {
        let mut returns = Returns::none();
        let before = Instant::now();
        returns.answer(2, 0);
        returns.note(before);
        assert_eq!(returns.missing(), 2);
        returns.note(returns.answered_at);
        assert_eq!(returns.missing(), 1);
    }
}
