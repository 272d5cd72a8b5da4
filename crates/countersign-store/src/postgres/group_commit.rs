//! Group commit: chooses which of the waiting commands share the next transaction.
//!
//! Input: the queue of a lane. Output: a group of commands, limited in number and size.

use std::time::{Duration, Instant};

use countersign::command::{Answer, Command, PutEntry};
use countersign::executor::Outcome;
use countersign::store::StoreError;
use tokio::sync::{mpsc, oneshot};

/// Maximum number of commands that share a commit.
const LARGEST_GROUP: usize = 128;
/// Approximate maximum number of bytes that are written by one commit; a single command may be larger.
const MOST_GROUP_BYTES: usize = 8 * 1024 * 1024;
/// Maximum wait for further commands, even if the last group took long.
const LONGEST_WAIT: Duration = Duration::from_micros(1000);
/// Divisor of the last group's duration: the wait is at most 1/3 of it. This small delay can halve the number of
/// transactions.
const WAIT_FRACTION: u32 = 3;

/// A command and the channel for its answer.
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) answer: oneshot::Sender<Result<Answer, StoreError>>,
}

/// State of group commit in one lane.
#[derive(Default)]
pub(super) struct GroupCommit {
    // Commands that queued up while the last group ran.
    queued: Vec<Job>,
    last_count: usize,
    last_duration: Duration,
}

impl GroupCommit {
    /// Waits for a command and returns it together with the commands that are queued already or arrive shortly after.
    /// Returns `None` once the store has been dropped and the queue is empty.
    ///
    /// A caller that was just answered is likely to send its next command at once. Without a short wait for such
    /// callers, they split into two halves that take turns and need twice as many transactions. With a single caller,
    /// this function adds no wait.
    pub(super) async fn next_group(&mut self, queue: &mut mpsc::Receiver<Job>) -> Option<Vec<Job>> {
        let mut group = std::mem::take(&mut self.queued);
        let expected = group.len() + self.last_count;
        if group.is_empty() {
            group.push(queue.recv().await?);
        }
        let mut bytes: usize = group.iter().map(|job| self::estimated_bytes(&job.command)).sum();
        let deadline = Instant::now() + (self.last_duration / WAIT_FRACTION).min(LONGEST_WAIT);
        while group.len() < LARGEST_GROUP && bytes < MOST_GROUP_BYTES {
            match queue.try_recv() {
                Ok(job) => {
                    bytes = bytes.saturating_add(self::estimated_bytes(&job.command));
                    group.push(job);
                }
                Err(_) if group.len() >= expected || Instant::now() >= deadline => break,
                // The runtime's timers are too coarse for this wait, and the expected callers may need this thread to
                // run.
                Err(_) => tokio::task::yield_now().await,
            }
        }
        Some(group)
    }

    /// Records a group that ran, before its callers are answered. Also drains the queue, so that no caller is counted
    /// twice: once as queued and once as expected to return.
    pub(super) fn record_group(&mut self, count: usize, took: Duration, queue: &mut mpsc::Receiver<Job>) {
        self.last_count = count;
        self.last_duration = took;
        let mut bytes = 0;
        while self.queued.len() < LARGEST_GROUP && bytes < MOST_GROUP_BYTES {
            let Ok(job) = queue.try_recv() else { break };
            bytes = bytes.saturating_add(self::estimated_bytes(&job.command));
            self.queued.push(job);
        }
    }
}

/// Returns the approximate number of bytes that a command writes.
fn estimated_bytes(command: &Command) -> usize {
    match command {
        Command::Propose(propose) => {
            let calls = propose.calls.iter();
            calls
                .map(|call| {
                    call.arguments.as_bytes().len() + call.sealed.as_ref().map_or(0, |sealed| sealed.len())
                })
                .sum()
        }
        Command::Decide(decide) => decide
            .revisions
            .iter()
            .map(|revision| revision.arguments.as_bytes().len())
            .sum(),
        Command::Finish(finish) => match &finish.outcome {
            Outcome::Succeeded(result) | Outcome::Failed(result) => result.len(),
            Outcome::NotSent(_) | Outcome::Unknown(_) => 0,
        },
        Command::PutEntry(PutEntry(entry)) => entry.body.len(),
        _ => 0,
    }
}
